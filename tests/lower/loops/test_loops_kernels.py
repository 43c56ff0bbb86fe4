"""The kernel of every operator against tiled, moved and marked forms of itself: bit-exact for all inputs."""

from __future__ import annotations

import random

import pytest

from assay.lower.legalize.kernels import KERNELS, build
from assay.lower.loops import schedule
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, var
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, equivalent
from tests.lower.loops.random_nests import step

OPEN = {"det", "nonzero", "scatter_nd", "suppress", "unique"}
"""They store or load where their operands' elements say, on which `equivalent` does not decide."""
USES = [(op, k) for op in OPERATORS.values() if op.name in KERNELS.keys() - OPEN for k in range(len(op.examples))]
FIRST = [(op, k) for op, k in USES if k == 0]


def kernel(op: Operator, k: int) -> PrimFunc:
    example = op.examples[k]
    types = tuple(TensorType(shape, dtype(of)) for shape, of in example.operands)
    made = call(op, *(var(f"x{i}", t) for i, t in enumerate(types)), **example.attrs)
    return build(op.name, example.attrs, types, made.type, "kernel")


def steps(func: PrimFunc, seed: int) -> PrimFunc:
    """Every loop split and what can be vectorised or made parallel so, then random steps."""
    s = schedule(func)
    for name in reversed(s.loops[:5]):  # from the last one, so that names stay
        s = s.split(name, 2 + len(name) % 2)
    for name in s.loops[:6]:
        for mark in (s.parallelize, s.vectorize):
            try:
                s = mark(name)
            except Invalid:
                continue
    rng = random.Random(seed)
    for _ in range(6):
        _, after = step(s, rng.randrange)
        if after is not None and len(after.loops) < 60:
            s = after
    return s.func


@pytest.mark.parametrize(("op", "k"), FIRST, ids=lambda x: x.name if isinstance(x, Operator) else str(x))
def test_scheduled(op: Operator, k: int) -> None:
    holds(op, k)


@pytest.mark.campaign
@pytest.mark.parametrize(("op", "k"), USES, ids=lambda x: x.name if isinstance(x, Operator) else str(x))
def test_every_example_scheduled(op: Operator, k: int) -> None:
    holds(op, k)


def holds(op: Operator, k: int) -> None:
    func = kernel(op, k)
    target = steps(func, len(op.name) + k)
    verdict = equivalent(func, target, weakest=BIT_EXACT)
    assert verdict.holds(BIT_EXACT) and verdict.how == "terms", f"{verdict}\n{func}\n{target}"
