"""ONNX's own cases of operators, by the beginning of their names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx


@cache
def _every() -> tuple[TestCase, ...]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the cases overflows and divides by zero
        return tuple(load_model_tests(kind="node"))


def named(families: str) -> list[TestCase]:
    """The cases whose names begin, after "test_", with one of these words, which are regular expressions."""
    wanted = re.compile(f"test_({'|'.join(families.split())})")
    return [c for c in _every() if wanted.match(c.name) and c.model is not None]


def _array(value: Any) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def differing(case: TestCase) -> Iterator[str]:
    """The outputs that are not what the case says, with the case's own tolerances."""
    assert case.model is not None
    for inputs, outputs in case.data_sets or []:
        given = {i.name: _array(v) for i, v in zip(case.model.graph.input, inputs, strict=True)}
        module = import_onnx(case.model, evaluate=graph.evaluate, values=given)
        found = graph.run(module, given)
        for (name, got), want in zip(found.items(), map(_array, outputs), strict=True):
            close = got.shape == want.shape and np.allclose(
                got.astype(np.float64), want.astype(np.float64), case.rtol, case.atol, equal_nan=True
            )
            if not close or got.dtype != want.dtype:
                yield f"{case.name}: {name}"
