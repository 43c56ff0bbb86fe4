"""Scalar expressions part by part: rebuilt around new parts, reinterpreted, chosen lazily, and fixed-point
intrinsics."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Expr, Load, Var, apply, cast, choice, const, evaluate
from assay.semantics.scalar.expression import reinterpret, step_may_fail
from assay.semantics.scalar.failing import may_fail, tvm_select
from assay.semantics.scalar.intrinsics import INTRINSICS
from assay.semantics.tensor import Buffer

A, B, C = Var("a"), Var("b"), Var("c", BOOL)
F, I = Var("f", FLOAT32), Var("i", INT32)  # noqa: E741
DATA = Buffer("data", (4, 4), INT64)


def label(make: Any) -> str:
    with pytest.raises(Invalid) as caught:
        make()
    return caught.value.label


@pytest.mark.parametrize(
    "e", [A + B, cast(A, "int8"), DATA[A, B], choice(C, A, B), choice(C, A, B, as_select=True)], ids=str
)
def test_an_expression_is_rebuilt_around_new_parts_and_only_then(e: Expr) -> None:
    assert e.with_children(e.children) is e and e.with_children(list(e.children)) is e
    for k, part in enumerate(e.children):
        new = Var("new", part.dtype)
        other = e.with_children([new if i == k else c for i, c in enumerate(e.children)])
        assert type(other) is type(e) and other.dtype is e.dtype
        assert [c is new for c in other.children] == [i == k for i in range(len(e.children))]
        assert getattr(other, "as_select", None) == getattr(e, "as_select", None)


# --- choices -------------------------------------------------------------------------------------------------------


def test_only_the_chosen_branch_is_evaluated() -> None:
    bad = apply("floordiv", A, B)
    for condition in (True, False):
        e = choice(C, A, bad) if condition else choice(C, bad, A)
        assert evaluate(e, {A: np.int64(7), B: np.int64(0), C: np.bool_(condition)}) == 7
        with pytest.raises(Trap):
            evaluate(e, {A: np.int64(7), B: np.int64(0), C: np.bool_(not condition)})
    nested = choice(choice(C, apply("lt", A, B), C), A + 1, choice(C, A, B + 1))
    for c, a, b in product((True, False), (1, 2), (1, 2)):
        inner = a < b if c else c
        assert evaluate(nested, {A: np.int64(a), B: np.int64(b), C: np.bool_(c)}) == (
            a + 1 if inner else a if c else b + 1
        )


def test_a_choice_has_a_condition_and_branches_of_one_dtype() -> None:
    assert label(lambda: choice(A, A, B)) == "scalar.C4" and label(lambda: choice(C, A, F)) == "scalar.C5"


def test_which_steps_may_fail() -> None:
    zero = const(0)
    for e, fails in (
        (A + B, False), (A * 2, False), (apply("floordiv", A, 2), False), (apply("truncmod", A, zero), True),
            (apply("floormod", A, B), True),
        (apply("shl", A, 1), True), (apply("shr", A, B), True), (DATA[A, B], True), (choice(C, A, B), True),
            (cast(F, "int32"), True),
        (cast(A, "float32"), False), (cast(A, "int8"), False), (cast(F, "float64"), False), (A, False), (zero, False),
    ):  # fmt: skip
        assert step_may_fail(e) == fails, e
        assert may_fail(apply("eq", e, e)) == fails
    bad = apply("floordiv", A, B)
    assert all(type(tvm_select(C, *branches)).__name__ == "Choice" for branches in ((bad, A), (A, bad)))
    assert type(tvm_select(C, A, B)).__name__ == "Apply"


# --- bits --------------------------------------------------------------------------------------------------------


def test_bits_are_read_as_another_dtype_of_the_same_width() -> None:
    for x, to in (
        (F, "int32"),
        (I, "float32"),
        (F, "uint32"),
        (Var("h", DTYPES["float16"]), "int16"),
        (A, "float64"),
        (I, "uint32"),
    ):
        for bits in (0, 1, 0x3C01, -1, -(2**15) + 5):
            value = np.array(bits).astype(f"int{x.dtype.bits}").view(x.dtype.numpy)[()]
            found = evaluate(reinterpret(x, to), {x: value})
            want = np.asarray(value).view(DTYPES[to].numpy)[()]
            assert found.dtype == want.dtype and found.tobytes() == want.tobytes()
            assert evaluate(reinterpret(const(value, x.dtype), to), {}).tobytes() == want.tobytes()
    assert reinterpret(F, "float32") is F
    for x, to in ((F, "int64"), (A, "int32"), (C, "int8"), (Var("b", DTYPES["int8"]), "bool")):
        assert label(lambda x=x, to=to: reinterpret(x, to)) == "scalar.C6"  # type: ignore[misc]


# --- fixed-point numbers -------------------------------------------------------------------------------------------


def wrap(n: int, bits: int) -> int:
    return (n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


NUMBERS = (0, 1, -1, 5, -1000, 12345678, -(2**31), 2**31 - 1)


def test_a_fixed_point_product_is_rounded_half_up() -> None:
    x, y = Var("x", INT32), Var("y", INT32)
    for q, s in ((31, 0), (31, -3), (31, 5), (1, 0), (31, -31), (15, 31), (30, 1)):
        e = INTRINSICS["q_multiply_shift"]([x, y, const(q, "int32"), const(s, "int32")])
        left, right = max(s, 0), max(-s, 0) + q
        for a, b in product(NUMBERS, NUMBERS):
            wide = wrap(wrap(wrap(a << left, 64) * b, 64) + (1 << right - 1), 64)
            assert int(evaluate(e, {x: np.int32(a), y: np.int32(b)})) == wrap(wide >> right, 32), (a, b, q, s)
    for q, s in ((0, 0), (31, 32), (31, -32), (63, 0)):
        assert (
            label(lambda q=q, s=s: INTRINSICS["q_multiply_shift"]([x, y, const(q, "int32"), const(s, "int32")]))
            == "scalar.C6"
        )  # type: ignore[misc]
    one = const(1, "int32")
    for args in ([x, y, I, one], [x, y, one, I], [A, y, one, one], [x, A, one, one]):
        assert label(lambda args=args: INTRINSICS["q_multiply_shift"](args)) == "scalar.C6"  # type: ignore[misc]


def test_a_fixed_point_product_with_shifts_of_its_own() -> None:
    x, y, left, right = (Var(name, INT32) for name in ("x", "y", "left", "right"))
    for q, first, second in ((31, 1, 1), (31, 0, 1), (31, 1, 0), (15, 0, 0)):
        flags = [const(n, "int32") for n in (q, first, second)]
        e = INTRINSICS["q_multiply_shift_per_axis"]([x, y, left, right, *flags])
        for a, b, by, back in product((3, -70000, 2**30), (5, -(2**30)), (0, 3), (0, 2)):
            total = q + (back if second else 0)
            wide = wrap((a << by if first else a) * b, 64) + (1 << total - 1)
            env = {x: np.int32(a), y: np.int32(b), left: np.int32(by), right: np.int32(back)}
            assert int(evaluate(e, env)) == wrap(wide >> total, 32), (a, b, by, back, q)
    for k in range(7):
        args: list[Expr] = [x, y, left, right, *(const(1, "int32") for _ in range(3))]
        args[k] = Var("other", INT64) if k < 4 else I
        assert label(lambda args=args: INTRINSICS["q_multiply_shift_per_axis"](args)) == "scalar.C6"  # type: ignore[misc]


def test_whole_numbers_are_finite_and_whole() -> None:
    for name, want in (
        ("floor", 7),
        ("ceil", 7),
        ("trunc", 7),
        ("round", 7),
        ("nearbyint", 7),
        ("isnan", False),
        ("isinf", False),
        ("isfinite", True),
    ):
        assert evaluate(INTRINSICS[name]([I]), {I: np.int32(7)}) == want


@pytest.mark.parametrize("name", ["sinh", "asinh", "atanh", "log1p", "acosh", "cosh", "tanh"])
def test_hyperbolic_functions_between_the_usual_points(name: str) -> None:
    x = Var("x", DTYPES["float64"])
    size = np.exp(np.linspace(np.log(1e-4), np.log(0.95 if name == "atanh" else 20.0), 300))
    given = 1 + size if name == "acosh" else np.concatenate([size, -size[size < 0.95]])
    reference = {"asinh": np.arcsinh, "atanh": np.arctanh, "acosh": np.arccosh}.get(name) or getattr(np, name)
    got, want = evaluate(INTRINSICS[name]([x]), {x: given}), reference(given)
    assert (np.abs(got - want) <= 4 * np.spacing(np.abs(want))).all()


def test_a_load_is_of_its_buffer() -> None:
    e = DATA[A, B]
    assert (
        isinstance(e, Load)
        and evaluate(e, {A: np.int64(1), B: np.int64(2)}, lambda b, at: np.int64(10 * at[0] + at[1])) == 12
    )
