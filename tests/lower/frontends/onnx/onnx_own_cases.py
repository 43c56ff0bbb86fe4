"""ONNX's own cases of operators, by the beginning of their names."""

from __future__ import annotations

import re
import warnings
from functools import cache

from onnx.backend.test.case.test_case import TestCase


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
