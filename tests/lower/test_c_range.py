"""Bounds of integers inside kernels: never too narrow, and narrow enough to leave out the checks that need not be."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from assay.lower.c.range import Known, Ranges
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import OPERATIONS, Expr, Var, apply, cast, const, evaluate, select
from assay.semantics.walk import post_order

BINARY = [o for o in OPERATIONS.values() if o.arity == 2 and "int" in o.kinds]
DTYPE_NAMES = ("int64", "int8", "uint8", "int32", "uint64")


def expression(rng: random.Random, of: DType, leaves: list[Var], depth: int) -> Expr:
    """A random expression over variables and constants."""
    if depth == 0:
        own = [v for v in leaves if v.dtype is of]
        if own and rng.random() < 0.7:
            return rng.choice(own)
        return const(rng.choice([0, 1, 2, 5, int(of.max), int(of.min)]), of)
    if of is BOOL:
        like = DTYPES[rng.choice(DTYPE_NAMES)]
        if rng.random() < 0.3:
            return apply(rng.choice(["and", "or", "max"]), *(expression(rng, BOOL, leaves, depth - 1) for _ in "ab"))
        op = rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])
        return apply(op, *(expression(rng, like, leaves, depth - 1) for _ in "ab"))
    roll = rng.random()
    if roll < 0.1:
        return cast(expression(rng, DTYPES[rng.choice(DTYPE_NAMES)], leaves, depth - 1), of)
    if roll < 0.2:
        branches = [expression(rng, of, leaves, depth - 1) for _ in "ab"]
        return select(expression(rng, BOOL, leaves, 1), *branches)
    if roll < 0.3:
        return apply(rng.choice(["neg", "abs"]), expression(rng, of, leaves, depth - 1))
    op = rng.choice([o.name for o in BINARY if o.result == "same"])
    return apply(op, *(expression(rng, of, leaves, depth - 1) for _ in "ab"))


def everywhere(expr: Expr, condition: Expr | None, domain: dict[Var, range]) -> list[dict[int, int]]:
    """The values of all integer nodes, at every point where nothing traps and the condition holds."""
    found = []
    for point in product(*domain.values()):
        env = {v: v.dtype.numpy.type(n) for v, n in zip(domain, point, strict=True)}
        try:
            if condition is None or evaluate(condition, env):
                nodes = [n for n in post_order(expr) if not n.dtype.is_float]
                found.append({id(n): int(evaluate(n, env)) for n in nodes})
        except Trap:
            continue
    return found


@pytest.mark.parametrize("holds", [None, True, False])
def test_no_value_lies_outside_its_bounds(holds: bool | None) -> None:
    rng = random.Random(7)
    points = 0
    for _ in range(200):
        leaves = [Var("i"), Var("j"), Var("k", DTYPES[rng.choice(DTYPE_NAMES)]), Var("p", BOOL), Var("q", BOOL)]
        extents = (rng.randint(1, 4), rng.randint(1, 5), 3, 2, 2)
        domain = {v: range(n) for v, n in zip(leaves, extents, strict=True)}
        ranges = Ranges()
        for v, r in domain.items():
            ranges.bind(v, Known(r.start, r.stop - 1))
        condition = None
        if holds is not None:
            test = expression(rng, BOOL, leaves, 2)
            condition = test if holds else apply("not", test)
            ranges.assume(test, holds)
        expr = expression(rng, DTYPES[rng.choice(DTYPE_NAMES)], leaves, 3)
        known = ranges.analyse(expr)
        for values in everywhere(expr, condition, domain):
            points += 1
            for node, value in values.items():
                assert known[node].low <= value <= known[node].high, f"{expr} where {condition}"
    assert points > 1000


def bounds(ranges: Ranges, expr: Expr) -> tuple[int, int]:
    found = ranges.analyse(expr)[id(expr)]
    return found.low, found.high


def test_the_padding_condition_of_a_convolution() -> None:
    """Inside `0 <= i*2 + k - 1 < 10` the index is between 0 and 9, however it is written."""
    i, k = Var("i"), Var("k")
    ranges = Ranges()
    ranges.bind(i, Known(0, 5))
    ranges.bind(k, Known(0, 2))
    index = i * 2 + k - 1
    assert bounds(ranges, index) == (-1, 11)
    ranges.assume(apply("and", index >= 0, index < 10), True)
    assert bounds(ranges, k - 1 + i * 2) == (0, 9)
    assert bounds(ranges, (1 - k) - i * 2) == (-9, 0)
    assert bounds(ranges, (i * 2 + k - 1) * 12 + 3) == (3, 111)
    assert bounds(ranges, i * 2 + k + 4) == (5, 14)


@pytest.mark.parametrize(
    ("op", "holds", "wanted"),
    [("lt", True, (0, 2)), ("lt", False, (3, 9)), ("le", True, (0, 3)), ("le", False, (4, 9)), ("gt", True, (4, 9)),
     ("gt", False, (0, 3)), ("ge", True, (3, 9)), ("ge", False, (0, 2)), ("eq", True, (3, 3)), ("ne", False, (3, 3)),
     ("ne", True, (0, 9)), ("eq", False, (0, 9))],
)  # fmt: skip
def test_conditions_bound_tightly(op: str, holds: bool, wanted: tuple[int, int]) -> None:
    i = Var("i")
    ranges = Ranges()
    ranges.bind(i, Known(0, 9))
    ranges.assume(apply("not", apply("not", apply(op, i, 3))), holds)
    assert bounds(ranges, i) == wanted
    del ranges.facts[:]
    ranges.assume(apply("or" if not holds else "and", apply(op, 10 - i, 7), apply(op, i, i)), holds)
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op)
    if op in ("le", "ge", "eq") and holds or op in ("lt", "gt", "ne") and not holds:
        other = Ranges()
        other.bind(i, Known(0, 9))
        other.assume(apply(mirrored, i, 3), holds)
        assert bounds(ranges, i) == bounds(other, i)


def test_comparisons_that_decide_each_other() -> None:
    i = Var("i")
    ranges = Ranges()
    ranges.bind(i, Known(0, 9))
    assert bounds(ranges, apply("and", i + 2 >= 5, i < 3)) == (0, 0)
    assert bounds(ranges, apply("or", i >= 3, i + 1 <= 3)) == (1, 1)
    assert bounds(ranges, apply("or", apply("ne", i, 3), apply("ne", i, 4))) == (1, 1)
    for both in (apply("and", i >= 3, i < 4), apply("or", i > 3, i < 3), apply("and", i >= 3, i >= 5)):
        assert bounds(ranges, both) == (0, 1)


def test_what_is_said_of_one_variable_is_not_said_of_another_of_its_name() -> None:
    """A variable bound anew inside the scope of a condition has bounds of its own."""
    i = Var("i")
    ranges = Ranges()
    leave_outer = ranges.bind(i, Known(0, 9))
    ranges.assume(i < 3, True)
    assert bounds(ranges, i) == (0, 2)
    leave_inner = ranges.bind(i, Known(0, 9))
    assert bounds(ranges, i) == (0, 9)
    leave_inner()
    assert bounds(ranges, i)[1] >= 2
    leave_outer()
    assert bounds(ranges, i) == (int(INT64.min), int(INT64.max))


def test_sums_that_may_wrap_have_no_linear_form() -> None:
    """x - 1 < 5 does not bound x where x - 1 may wrap."""
    x = Var("x")
    ranges = Ranges()
    ranges.bind(x, Known(int(INT64.min), int(INT64.max)))
    ranges.assume(x - 1 < 5, True)
    assert bounds(ranges, x) == (int(INT64.min), int(INT64.max))
    ranges.assume(x < 5, True)
    assert bounds(ranges, x) == (int(INT64.min), 4)


def test_a_condition_on_memory_says_nothing_later() -> None:
    from assay.semantics.tensor import Buffer

    n = Buffer("n", (), INT64)
    value = n[()] + 0
    ranges = Ranges()
    ranges.assume(value < 5, True)
    assert bounds(ranges, value) == (int(INT64.min), int(INT64.max))
    assert not ranges.facts


def test_long_sums_stay_linear_in_time() -> None:
    total: Expr = const(0)
    ranges = Ranges()
    for n in range(4000):
        v = Var(f"v{n}")
        ranges.bind(v, Known(0, 1))
        total = total + v
    ranges.assume(total < 9, True)
    assert bounds(ranges, total)[0] == 0 and np.isfinite(bounds(ranges, total)[1])
