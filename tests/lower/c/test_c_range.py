"""Bounds of integers inside kernels: never too narrow, and narrow enough to leave out the checks that need not be."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from assay.lower.c.range import Known, Ranges, always_traps, never_overflows
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import OPERATIONS, Apply, Expr, Var, apply, cast, const, evaluate, select
from assay.semantics.tensor import Buffer
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
    j = Var("j")
    ranges.bind(j, Known(0, 9))
    for both in (
        apply("and", i < 3, j >= 5),
        apply("or", i >= 3, j < 3),
        apply("and", i >= 3, i < 4),
        apply("or", i > 3, i < 3),
        apply("and", i >= 3, i >= 5),
    ):
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


# --- as narrow as can be -----------------------------------------------------------------------------------------


def intervals(rng: random.Random, least: int, most: int) -> tuple[int, int]:
    low, high = sorted((rng.randint(least, most), rng.randint(least, most)))
    return low, high


def hull(op: str, *domains: range) -> tuple[int, int]:
    """The least and the greatest value of an operation, where it does not trap."""
    found = []
    for point in product(*domains):
        try:
            found.append(int(evaluate(apply(op, *(const(n, INT64) for n in point)), {})))
        except Trap:
            continue
    return min(found), max(found)


def of(op: str, *given: tuple[int, int]) -> tuple[int, int]:
    """The bounds that are found for an operation of variables with bounds."""
    ranges = Ranges()
    vars = [Var(f"v{k}") for k in range(len(given))]
    for v, (low, high) in zip(vars, given, strict=True):
        ranges.bind(v, Known(low, high))
    return bounds(ranges, apply(op, *vars))


@pytest.mark.parametrize(
    ("op", "right"),
    [("add", (-7, 7)), ("sub", (-7, 7)), ("mul", (-7, 7)), ("min", (-7, 7)), ("max", (-7, 7)), ("neg", None),
        ("abs", None),
     ("floordiv", (0, 5)), ("truncdiv", (0, 5)), ("shl", (0, 4)), ("shr", (0, 4)), ("lt", (-7, 7)), ("le", (-7, 7)),
     ("gt", (-7, 7)), ("ge", (-7, 7)), ("eq", (-7, 7)), ("ne", (-7, 7))],
)  # fmt: skip
def test_bounds_are_the_least_and_the_greatest_value(op: str, right: tuple[int, int] | None) -> None:
    rng = random.Random(3)
    for _ in range(60):
        given = [intervals(rng, -7, 7)] + ([intervals(rng, *right)] if right else [])
        if right == (0, 5) and given[1][1] == 0:
            continue  # it always traps
        assert of(op, *given) == hull(op, *(range(low, high + 1) for low, high in given)), (op, given)


def test_bounds_of_remainders_and_masks() -> None:
    rng = random.Random(4)
    for _ in range(60):
        a, b = intervals(rng, -9, 9), intervals(rng, 1, 6)
        low, high = of("floormod", a, b)
        if a[0] == a[1] and b[0] == b[1]:
            continue  # one value
        assert (low, high) == (a if 0 <= a[0] and a[1] < b[0] else (0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1))
        low, high = of("truncmod", a, b)
        assert (low, high) == (max(min(a[0], 0), 1 - b[1]), min(max(a[1], 0), b[1] - 1))
        least, most = hull("truncmod", range(a[0], a[1] + 1), range(b[0], b[1] + 1))
        assert low <= least and most <= high
    whole = (int(INT64.min), int(INT64.max))
    assert of("bitand", (-3, 9), (0, 5)) == of("bitand", (0, 5), (-3, 9)) == of("bitand", (2, 9), (1, 5)) == (0, 5)
    assert of("bitand", (-3, 9), (-1, 5)) == whole == of("bitor", (0, 1), (0, 1)) == of("floordiv", (0, 4), (-1, 2))
    assert of("shl", (1, 1), (0, 63)) == whole == of("shl", (0, 1), (-1, 2)) == of("shr", (0, 9), (-1, 2))
    assert of("shr", (-9, 9), (0, 63)) == (-9, 9) and of("floordiv", (-4, 9), (0, 2)) == (-4, 9)


def test_what_leaves_the_dtype_may_be_anything_and_what_stays_is_exact() -> None:
    u8 = DTYPES["uint8"]
    x, y = Var("x", u8), Var("y", u8)
    for most, found, fits in ((155, (0, 255), True), (156, (0, 255), False), (100, (0, 200), True)):
        ranges = Ranges()
        ranges.bind(x, Known(0, 100))
        ranges.bind(y, Known(0, most))
        total = apply("add", x, y)
        known = ranges.analyse(total)
        assert bounds(ranges, total) == found and isinstance(total, Apply) and never_overflows(total, known) == fits
        less = apply("sub", x, y)
        assert (
            bounds(ranges, less) == (0, 255)
            and isinstance(less, Apply)
            and not never_overflows(less, ranges.analyse(less))
        )


def test_one_form_is_compared_by_its_constants_and_one_node_with_itself() -> None:
    memory = Buffer("n", (), INT64)
    i, n, again = Var("i"), memory[()], memory[()]
    ranges = Ranges()
    ranges.bind(i, Known(0, 9))
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        same = int(op in ("le", "ge", "eq"))
        assert bounds(ranges, apply(op, n, n)) == (same, same)
        assert bounds(ranges, apply(op, n, again)) == (0, 1)
        for step in (-1, 0, 1):
            value = int(evaluate(apply(op, const(0, INT64), const(step, INT64)), {}))
            assert bounds(ranges, apply(op, i * 2 - 3, 2 * i - 3 + step)) == (value, value)
            assert bounds(ranges, apply(op, -i, step - i)) == (value, value)


def test_bools_are_decided_where_their_parts_are() -> None:
    p, q = Var("p", BOOL), Var("q", BOOL)
    for a, b in product([(0, 0), (0, 1), (1, 1)], repeat=2):
        ranges = Ranges()
        ranges.bind(p, Known(*a))
        ranges.bind(q, Known(*b))
        assert bounds(ranges, apply("not", p)) == (1 - a[1], 1 - a[0])
        for op in ("and", "min"):
            assert bounds(ranges, apply(op, p, q)) == (min(a[0], b[0]), min(a[1], b[1]))
        for op in ("or", "max"):
            assert bounds(ranges, apply(op, p, q)) == (max(a[0], b[0]), max(a[1], b[1]))
        i, j = Var("i"), Var("j")
        ranges.bind(i, Known(2, 4))
        ranges.bind(j, Known(-1, 3))
        wanted = {(0, 0): (-1, 3), (0, 1): (-1, 4), (1, 1): (2, 4)}[a]
        assert bounds(ranges, select(p, i, j)) == wanted
        assert bounds(ranges, select(p, q, q)) == b


def test_casts_keep_what_fits_and_say_whether_a_number_is_zero() -> None:
    i = Var("i")
    for low, high, truth in (
        (0, 0, (0, 0)),
        (1, 5, (1, 1)),
        (-5, -1, (1, 1)),
        (0, 5, (0, 1)),
        (-5, 0, (0, 1)),
        (-1, 1, (0, 1)),
    ):
        ranges = Ranges()
        ranges.bind(i, Known(low, high))
        assert bounds(ranges, cast(i, BOOL)) == truth
    for high, found in ((127, (0, 127)), (128, (-128, 127))):
        ranges = Ranges()
        ranges.bind(i, Known(0, high))
        assert bounds(ranges, cast(i, DTYPES["int8"])) == found


def test_what_always_traps() -> None:
    i, j, table = Var("i"), Var("j"), Buffer("table", (4,), INT64)
    for op, b, traps in (
        ("floordiv", (0, 0), True), ("floormod", (0, 0), True), ("truncdiv", (0, 1), False),
            ("truncmod", (-1, 0), False),
        ("shl", (-2, -1), True), ("shl", (-1, 0), False), ("shr", (64, 70), True), ("shr", (63, 70), False),
    ):  # fmt: skip
        ranges = Ranges()
        ranges.bind(i, Known(-8, 8))
        ranges.bind(j, Known(*b))
        node = apply(op, i, j)
        assert always_traps(node, ranges.analyse(node)) == traps, (op, b)
    for b, traps in (((-2, -1), True), ((-1, 0), False), ((3, 5), False), ((4, 5), True)):
        ranges = Ranges()
        ranges.bind(j, Known(*b))
        node = table[j]
        assert always_traps(node, ranges.analyse(node)) == traps, b


def test_bounds_of_long_and_of_scaled_sums() -> None:
    """Conditions on a sum of up to a dozen variables hold of its multiples' parts; a longer one is one thing by
    itself."""
    for count in (12, 13):
        ranges, total = Ranges(), const(0, INT64)
        vars = [Var(f"v{k}") for k in range(count)]
        for v in vars:
            ranges.bind(v, Known(0, 9))
            total = total + v
        ranges.assume(total < 5, True)
        turned: Expr = const(0, INT64)
        for v in reversed(vars):
            turned = turned + v
        assert bounds(ranges, turned) == ((0, 4) if count == 12 else (0, 9 * count))
        assert bounds(ranges, total) == (0, 4)
    i, j = Var("i"), Var("j")
    ranges = Ranges()
    ranges.bind(i, Known(0, 9))
    ranges.bind(j, Known(0, 9))
    ranges.assume(3 * i - j * 2 >= 4, True)
    assert bounds(ranges, i * 3 - 2 * j) == (4, 27) and bounds(ranges, -(3 * i) + j * 2 + 1) == (-26, -3)
    for product_ in (3 * (j + 2), (j + 2) * 3):
        inside = Ranges()
        inside.bind(j, Known(0, 9))
        inside.assume(apply("ge", product_, 12), True)
        assert bounds(inside, j * 3) == (6, 27) and bounds(inside, product_) == (12, 33)
    ranges.assume(apply("not", apply("or", i < 2, apply("gt", i, 7))), True)
    assert bounds(ranges, i) == (2, 7)


def test_a_scope_inside_keeps_what_is_known_outside_and_ends_with_what_is_said_in_it() -> None:
    i, j = Var("i"), Var("j")
    ranges = Ranges()
    ranges.bind(i, Known(0, 9))
    ranges.assume(i < 3, True)
    leave = ranges.bind(j, Known(0, 5))
    assert bounds(ranges, i) == (0, 2)
    leave()
    assert bounds(ranges, i) == (0, 2)
    again = Ranges()
    again.bind(i, Known(0, 9))
    leave = again.bind(i, Known(0, 9))
    again.assume(i < 3, True)
    leave()
    assert bounds(again, i) == (0, 9)  # that was another variable


def test_numbers_are_computed_as_the_dtype_does() -> None:
    u8, i8 = DTYPES["uint8"], DTYPES["int8"]
    for op, of_, a, b, wanted in (
        ("add", u8, 200, 100, 44),
        ("mul", i8, 16, 16, 0),
        ("sub", u8, 1, 2, 255),
        ("bitxor", i8, 6, 3, 5),
    ):
        assert bounds(Ranges(), apply(op, const(a, of_), const(b, of_))) == (wanted, wanted)
    assert bounds(Ranges(), apply("add", cast(const(300, INT64), u8), const(1, u8))) in ((45, 45), (0, 255))
