"""A backend that fuses shows tensors that it does not use: a campaign calls it wrong only if what it gives is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.verify.backends import Subject, subject_of_model
from assay.verify.backends.protocol import Prepared
from assay.verify.fuzz.targets import BackendTarget
from assay.verify.oracle import judge_backend

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float y) { l = Log(x) y = ReduceProd<keepdims = 0>(l) }'
)
INPUTS = {"x": np.full(3, 986.25, np.float32)}


class Fused:
    """Takes the logarithms in float64, and shows them as float32; off by a part where it is."""

    name = "fused"

    def __init__(self, off: float = 0.0) -> None:
        self.off = off

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
            wide = np.log(inputs["x"].astype(np.float64) - 1e-3)
            found = {"l": np.log(inputs["x"]), "y": np.asarray(np.float32(np.prod(wide) * (1 + self.off)))}
            return {n: found[n] for n in wanted}

        return run


def test_what_it_shows_need_not_be_what_it_used() -> None:
    """The logarithm is within its bound; its product with itself does not follow from the one that is shown."""
    assert judge_backend(subject_of_model(MODEL), Fused(), INPUTS, others=False).outcome == "wrong"
    found = BackendTarget(Fused()).judge(MODEL, INPUTS)
    assert found.kind == "right" and "by itself: y element ()" in found.detail


@pytest.mark.parametrize("off", [1e-5, -1e-2])
def test_who_is_wrong_is_wrong(off: float) -> None:
    assert BackendTarget(Fused(off)).judge(MODEL, INPUTS).kind == "wrong"
