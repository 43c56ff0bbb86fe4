"""Thousands of calls, nested or chained: typed, printed, read again, evaluated, brought to A-normal form and proved."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, Function, call, function, let, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.anf import check_anf
from tests.observation import observe
from tests.scale import FEW

X = var("x", TensorType((2,), FLOAT32))


def nested() -> Function:
    e: Expr = X
    for _ in range(FEW):
        e = call("add", e, X)
    return function([X], e)


def chained() -> Function:
    names = [X, *(var(f"v{i}", X.type) for i in range(FEW))]
    e: Expr = names[-1]
    for i in reversed(range(FEW)):
        e = let(names[i + 1], call("add", names[i], X), e)
    return function([X], e)


@pytest.mark.slow
@pytest.mark.row("V20")
@pytest.mark.parametrize("make", [nested, chained])
def test_many_calls(make: Callable[[], Function]) -> None:
    limit = sys.getrecursionlimit()
    module = Module({"main": make()})
    check(module)
    assert structural_equal(module, parse(show(module)))
    anf = to_anf(module)
    evidence = check_anf(module, anf)
    assert evidence.holds, evidence.detail
    inputs = {"x": np.float32([1, -2])}
    one, two = observe(module, inputs), observe(anf, inputs)
    assert one.difference(two) is None
    assert one.values is not None and one.values["output_0"].tolist() == [FEW + 1, -2 * (FEW + 1)]
    assert sys.getrecursionlimit() == limit
