"""Tensors that a backend shows beside its outputs, and does not use, are no fault of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from assay.verify.backends import Prepared, Subject, backend as backend_of
from assay.verify.conform.judging import judge_case
from assay.verify.conform.onnx_cases import OnnxCase


@dataclass(frozen=True)
class Fusing:
    """ONNX's reference, which shows a tensor that it does not use; `off` is a fault of what it gives."""

    off: float = 0.0
    name: str = "fusing"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        run = backend_of("reference").prepare(subject, wanted)
        shows = list(wanted) != subject.outputs
        whole = len(subject.model.graph.node) > 1

        def call(inputs: Mapping[str, Any]) -> dict[str, Any]:
            found = dict(run(inputs))
            return {n: a + (0.25 if shows and n == "m" else self.off if whole else 0) for n, a in found.items()}

        return call


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "right"), (0.25, "wrong")])
def test_tensors_that_are_shown_and_not_used_are_no_fault(off: float, verdict: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[3] x) => (float[3] y) { m = Exp(x) y = Neg(m) }"""
    x = np.array([1, 2, 3], np.float32)
    model = onnx.parser.parse_model(text).SerializeToString()
    of_two = OnnxCase("node/test_two", "Two", model, (((x,), (-np.exp(x),)),))
    (found,) = judge_case(of_two, {"fusing": Fusing(np.float32(off))})
    assert found.verdict == verdict, found.detail
    assert off or "by pieces of the model" in found.detail and "by itself: m element" in found.detail
