"""Scalar expressions: building, folding, evaluation, linear forms and text; deep ones too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType, dtype
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.integers.linear import Form
from assay.semantics.scalar import (
    Apply,
    Const,
    Dim,
    Expr,
    Interner,
    Var,
    apply,
    arithmetic,
    cast,
    const,
    evaluate,
    evaluate_dim,
    linear,
    operation,
    provably_equal,
    same,
    select,
    show,
    simplify,
    substitute,
    variables,
)
from assay.semantics.tensor import Buffer
from tests.scale import MANY

n, m = Var("n"), Var("m")
x, y = Var("x", FLOAT32), Var("y", FLOAT32)
DEEP = MANY

# --- what is refused ----------------------------------------------------------------------------------------------

INVALID: list[tuple[str, Any]] = [
    ("scalar.C1", lambda: apply("frobnicate", n)),
    ("scalar.C2", lambda: const(256, "uint8")),
    ("scalar.C2", lambda: const(-1, "uint8")),
    ("scalar.C2", lambda: const(8, "int4")),
    ("scalar.C2", lambda: const(2**63)),
    ("scalar.C2", lambda: const(2.5, "int32")),
    ("scalar.C2", lambda: const(float("nan"), "int32")),
    ("scalar.C2", lambda: const(float("-inf"), "int64")),
    ("scalar.C2", lambda: n * 0.5),
    ("scalar.C3", lambda: apply("add", n)),
    ("scalar.C3", lambda: apply("neg", n, m)),
    ("scalar.C4", lambda: select(n, n, m)),
    ("scalar.C5", lambda: n + Var("i", INT32)),
    ("scalar.C5", lambda: n + x),
    ("scalar.C6", lambda: n / m),
    ("scalar.C6", lambda: x % y),
    ("scalar.C6", lambda: apply("shl", x, y)),
    ("scalar.C6", lambda: apply("add", n < m, n < m)),
    ("scalar.C6", lambda: apply("and", n, m)),
    ("scalar.C6", lambda: apply("bits_of", n)),
    ("scalar.C6", lambda: apply("float_of", Var("i", INT32))),
    ("scalar.C7", lambda: evaluate(n + m, {n: np.int64(1)})),
    ("scalar.T1", lambda: evaluate(n // m, {n: np.int64(1), m: np.int64(0)})),
    ("scalar.T2", lambda: evaluate(apply("shl", n, m), {n: np.int64(1), m: np.int64(64)})),
    ("scalar.T3", lambda: evaluate(cast(x, INT32), {x: np.float32(2**31)})),
]


@pytest.mark.parametrize(("label", "make"), INVALID)
def test_what_is_refused(label: str, make: Any) -> None:
    with pytest.raises(Trap if ".T" in label else Invalid) as caught:
        make()
    assert caught.value.label == label
    assert len(caught.value.message) > 10


def test_every_label_has_a_negative_test() -> None:
    room = Path(arithmetic.__file__).parent
    text = "".join((room / f"{name}.py").read_text() for name in ("arithmetic", "evaluation", "expression", "__init__"))
    assert {label for label, _ in INVALID} == set(re.findall(r'"(scalar\.[CT]\d+)"', text))


def test_a_symbolic_truth_is_a_crash() -> None:
    with pytest.raises(Crash):
        bool(n < m)


# --- building -----------------------------------------------------------------------------------------------------


def test_python_numbers_take_the_dtype_of_the_other_operand() -> None:
    for of in DTYPES.values():
        if of.kind == "bool":
            continue
        v = Var("v", of)
        for e in (v + 1, 1 + v, v * (-2 if of.kind == "int" else 2), v - 1):
            assert isinstance(e, Apply) and all(a.dtype is of for a in e.args)
        assert (v < 1).dtype is BOOL
    assert select(n < m, x, 1).dtype is FLOAT32
    assert apply("add", 1, 2).dtype is INT64


def test_operators_build_what_they_say() -> None:
    env = {n: np.int64(-7), m: np.int64(2), x: np.float32(1), y: np.float32(4)}
    cases: list[tuple[Expr, Any]] = [
        (n + m, -5), (1 + n, -6), (n - m, -9), (1 - n, 8), (n * m, -14), (3 * m, 6), (n // m, -4), (9 // m, 4),
        (n % m, 1), (-n, 7), (x / y, 0.25), (1 / y, 0.25), (n < m, True), (n <= -7, True), (n > m, False),
        (n >= m, False), (apply("eq", n, -7), True), (apply("truncdiv", n, m), -3), (apply("truncmod", n, m), -1),
        (cast(n, "uint8"), 249), (cast(y, FLOAT64), 4.0), (select(n < m, n, m), -7),
    ]  # fmt: skip
    for e, want in cases:
        got = evaluate(e, env)
        assert got == want and np.asarray(got).dtype == e.dtype.numpy


def test_constants_fold_but_traps_stay() -> None:
    assert isinstance(const(3) + 4, Const)
    assert evaluate(const(2**63 - 1) + 1, {}) == -(2**63)
    assert isinstance(const(7, UINT8) - 8, Const) and evaluate(const(7, UINT8) - 8, {}) == 255
    division = const(1) // 0
    assert isinstance(division, Apply)
    with pytest.raises(Trap):
        evaluate(division, {})
    assert isinstance(const(1.0, FLOAT32) + const(2.0, FLOAT32), Apply)
    assert isinstance(x + 0.0, Apply) and isinstance(x * 1.0, Apply)  # -0 + 0 is +0, and a NaN would be quieted


def test_what_vanishes() -> None:
    assert n + 0 is n and 0 + n is n and n - 0 is n and n * 1 is n and 1 * n is n and n // 1 is n
    assert same(n * 0, 0) and same(0 * n, 0) and same(n % 1, 0)
    assert same(0 - n, apply("sub", 0, n)) and not same(0 - n, n)
    assert cast(n, INT64) is n


@pytest.mark.parametrize("of", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_a_constant_is_any_number_of_its_dtype(of: DType) -> None:
    for v in (of.min, of.max, 0, 1):
        c = const(v, of)
        assert int(c.value) == v and c.value.dtype == of.numpy
        assert const(c, of).value == c.value
    assert evaluate(const(1.0, of), {}) == 1


# --- evaluation ---------------------------------------------------------------------------------------------------

INTEGER_OPS = [o for o, row in arithmetic.OPERATIONS.items() if "int" in row.kinds and row.result == "same"]


@st.composite
def integers(draw: st.DrawFn, of: DType, depth: int = 4) -> Expr:
    """Expressions of one integer dtype over two variables, with constants anywhere."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        leaf = st.sampled_from([Var("a", of), Var("b", of)]) | st.integers(int(of.min), int(of.max)).map(
            lambda v: const(v, of)
        )
        return draw(leaf)
    op = draw(st.sampled_from(INTEGER_OPS))
    args = [draw(integers(of, depth - 1)) for _ in range(2 if op == "select" else operation(op).arity)]
    return select(args[0] < args[1], *args) if op == "select" else apply(op, *args)


def bind(e: Expr, a: int, b: int) -> dict[Var, Any]:
    return {v: np.asarray({"a": a, "b": b}[v.name]).astype(v.dtype.numpy)[()] for v in variables(e)}


@given(st.sampled_from(["int4", "uint4", "int8", "uint8", "int64", "uint64"]), st.data())
def test_lanes_folding_and_substitution_agree_with_scalars(name: str, data: st.DataObject) -> None:
    of = dtype(name)
    e = data.draw(integers(of))
    a, b = (data.draw(st.integers(int(of.min), int(of.max))) for _ in range(2))
    env = bind(e, a, b)
    try:
        want = evaluate(e, env)
    except Trap as trap:
        with pytest.raises(Trap) as caught:
            evaluate(e, {v: np.array([w]) for v, w in env.items()})
        assert caught.value.label == trap.label
        return
    assert np.asarray(want).dtype == of.numpy
    lanes = np.broadcast_to(evaluate(e, {v: np.array([w, w]) for v, w in env.items()}), (2,))
    assert lanes.dtype == of.numpy and lanes[0] == lanes[1] == want
    folded = evaluate(substitute(e, {v: const(w, of) for v, w in env.items()}), {})
    assert folded == want


def test_sharing_is_evaluated_once() -> None:
    """2 to the power 64, by 64 doublings of one node each."""
    e: Expr = Var("v", FLOAT64)
    start = e
    for _ in range(64):
        e = e + e
    assert evaluate(e, {start: np.float64(1)}) == 2.0**64  # type: ignore[dict-item]
    assert len(variables(e)) == 1
    assert isinstance(e, Apply) and Interner()(e) == 64


def test_loads_are_handed_to_memory() -> None:
    buffer = Buffer("b", (n,), FLOAT32)
    e = buffer[n + 1] * 2.0
    seen: list[Any] = []

    def load(which: Buffer, indices: tuple[Any, ...]) -> Any:
        seen.append((which, *map(int, indices)))
        return np.float32(3)

    assert evaluate(e, {n: np.int64(4)}, load) == 6
    assert seen == [(buffer, 5)]
    with pytest.raises(Crash):
        evaluate(e, {n: np.int64(4)})


# --- structure ----------------------------------------------------------------------------------------------------


def test_same_is_about_structure() -> None:
    i, j = Var("i"), Var("i")
    assert same(n + m, n + m) and not same(n + m, m + n)
    assert not same(i, j)  # a name is for people
    assert same(const(1), 1) and not same(const(1), const(1, INT32))
    assert not same(const(0.0, FLOAT32), const(-0.0, FLOAT32))
    assert same(const(float("nan"), FLOAT32), const(float("nan"), FLOAT32))
    assert same(cast(n, FLOAT32), cast(n, FLOAT32)) and not same(cast(n, FLOAT32), cast(n, FLOAT64))
    one, two = Buffer("b", (3,), FLOAT32), Buffer("b", (3,), FLOAT32)
    assert same(one[n], one[n]) and not same(one[n], two[n])
    assert not same(n < m, n <= m)


def test_numbers_of_an_interner_last() -> None:
    """A node that is gone must not lend its identity to the next one."""
    number = Interner()
    found = {number(n + k) for k in range(2, 500)}
    assert len(found) == 498
    assert all(number(n + k) in found for k in range(2, 500))


def test_substitution_keeps_what_it_does_not_touch() -> None:
    e = (n + m) * (n + m)
    assert substitute(e, {}) is e
    assert substitute(e, {Var("n"): 3}) is e
    assert evaluate(substitute(e, {n: 3, m: n}), {n: np.int64(2)}) == 25  # all at once


# --- linear forms -------------------------------------------------------------------------------------------------


@given(st.sampled_from(["int4", "int8", "uint8", "int64", "uint64"]), st.data())
def test_a_linear_form_is_the_expression(name: str, data: st.DataObject) -> None:
    """Also where sums and factors wrap."""
    of = dtype(name)
    e = data.draw(integers(of))
    env = bind(e, *(data.draw(st.integers(int(of.min), int(of.max))) for _ in range(2)))
    try:
        want = int(evaluate(e, env))
        form = linear(e)
        assert form is not None
        terms, total = form.terms, form.value(lambda a: int(evaluate(a, env)))
    except Trap:
        assume(False)
    assert (total - want) % (1 << of.bits) == 0
    assert all(k for k in terms.values())
    simple = simplify(e)
    assert int(evaluate(simple, env)) == want if isinstance(simple, Expr) else simple == want


DIMS = st.recursive(
    st.sampled_from([n, m]) | st.integers(-5, 5),
    lambda e: st.builds(
        lambda op, a, b: apply(op, a, b if op != "floordiv" else 3),
        st.sampled_from(["add", "sub", "mul", "floordiv"]),
        e,
        e,
    ),
    max_leaves=6,
)


@given(DIMS, DIMS, st.integers(0, 50), st.integers(0, 50))
def test_what_is_provably_equal_is_equal(a: Dim, b: Dim, v: int, w: int) -> None:
    env = {n: v, m: w}
    assert provably_equal(a, a)
    assert provably_equal(a, simplify(a))
    difference = apply("sub", a, b)
    assert provably_equal(difference, simplify(difference))
    if provably_equal(a, b):
        assert provably_equal(b, a)
        assert evaluate_dim(a, env) == evaluate_dim(b, env)
    elif isinstance(a, int) and isinstance(b, int):
        assert a != b


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (n + n, 2 * n, True),
        (n + m - n, m, True),
        ((n + 1) * 4 - n, 3 * n + 4, True),
        (n - n, 0, True),
        (-(n - m), m - n, True),
        ((n // 2) * 2, n, False),
        (n // 2 + n // 2, 2 * (n // 2), True),
        (n, m, False),
        (n, n + 1, False),
        (n * m, n * m, True),
        (n, 3, False),
        (3, 4, False),
        (n * (2**62) * 4, 0, True),
    ],
)
def test_provable_and_not(a: Dim, b: Dim, equal: bool) -> None:
    assert provably_equal(a, b) is equal


def test_simplified_forms() -> None:
    assert simplify(n + 3 - n) == 3
    assert show(simplify(m + n + m)) == "((m * 2) + n)"
    assert show(simplify(n - 1 - m)) == "((n + (m * -1)) + -1)"
    assert simplify(7) == 7
    assert linear(x) is None and simplify(x) is x
    assert linear(5) == Form({}, 5)
    assert simplify(n + (2**63 - 1) - (-1) - n) == -(2**63)


# --- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (n + 1, "(n + 1)"),
        (-n, "(-n)"),
        (n // 2 % m, "((n // 2) % m)"),
        (apply("max", n, 0), "T.max(n, 0)"),
        (const(1.5, FLOAT32), "T.float32(1.5)"),
        (const(7, INT32), "T.int32(7)"),
        (apply("and", n < m, const(True, BOOL)), "((n < m) & True)"),
        (select(n < m, n, m), "T.select((n < m), n, m)"),
        (cast(n, FLOAT32), 'T.Cast("float32", n)'),
        (Buffer("b", (n, m), FLOAT32)[n, 0], "b[n, 0]"),
        (3, "3"),
    ],
)
def test_text(e: Dim, text: str) -> None:
    assert show(e) == text
    assert str(e) == text


# --- depth --------------------------------------------------------------------------------------------------------


def chain(of: DType, ops: tuple[str, ...]) -> tuple[Var, Expr]:
    v = Var("v", of)
    e: Expr = v
    for i in range(DEEP):
        op = ops[i % len(ops)]
        e = apply(op, e, 3) if operation(op).arity == 2 else apply(op, e)
    return v, e


def test_deep_chains() -> None:
    """MANY operations deep: every function over expressions walks instead of recursing."""
    v, e = chain(INT64, ("add", "neg", "bitxor"))
    small, lanes = evaluate(e, {v: np.int64(5)}), evaluate(e, {v: np.array([5, 6])})
    assert lanes[0] == small != lanes[1]
    text = show(e)
    assert text.count("(") == DEEP and len(repr(e)) == len(text)
    assert substitute(e, {Var("w"): 1}) is e
    other = substitute(e, {v: (w := Var("w"))})
    assert variables(other) == [w] and evaluate(other, {w: np.int64(5)}) == small
    assert not same(e, other)


def test_deep_linear_forms() -> None:
    v, e = chain(INT64, ("add", "sub", "mul", "neg"))
    simple = simplify(e)
    assert variables(simple) == [v] and len(show(simple)) < 100
    assert evaluate_dim(simple, {v: 7}) == evaluate_dim(e, {v: 7})
    v, e = chain(INT64, ("floordiv", "add"))
    assert provably_equal(e + 1, 1 + e)


def test_deep_casts() -> None:
    v = Var("v", FLOAT32)
    e: Expr = v
    for _ in range(DEEP // 2):
        e = cast(cast(e, FLOAT64), FLOAT32)
    assert evaluate(e, {v: np.float32(1.5)}) == 1.5
    assert show(e).count("T.Cast") == DEEP
