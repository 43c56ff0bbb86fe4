"""The pattern class of a tensor function, from its body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assay.lower.legalize.kernels import KERNELS, build
from assay.semantics.analyses.op_pattern import OpPattern, operator_pattern, patterns
from assay.semantics.builder.te import compute, reduce, tensor_function
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, call, extern, var
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var, apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    Assert,
    Block,
    Buffer,
    If,
    IterVar,
    LetStmt,
    PrimFunc,
    Stmt,
    loops,
    seq,
    store,
)
from assay.semantics.types import TensorType

E, B, M, R, A, OPAQUE = (
    OpPattern.ELEMENTWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE, OpPattern.REDUCTION, OpPattern.ANCHOR,
        OpPattern.OPAQUE
)  # fmt: skip


def kernel(op: str, *shapes: tuple[int, ...], **attrs: object) -> PrimFunc:
    types = tuple(TensorType(s, FLOAT32) for s in shapes)
    made = call(op, *(var(f"x{i}", t) for i, t in enumerate(types)), **attrs)
    return build(op, attrs, types, made.type, "k")


@pytest.mark.row("R23")
@pytest.mark.parametrize(
    ("made", "whole", "operands"),
    [
        (kernel("nn.relu", (3, 4)), E, [E]),
        (kernel("add", (3, 4), (4,)), E, [E, B]),
        (kernel("add", (3, 1), (1, 4)), B, [B, B]),
        (kernel("nn.batch_norm", (1, 3, 4, 5), (3,), (3,), (3,), (3,)), E, [E, B, B, B, B]),
        (kernel("broadcast_to", (4,), shape=(3, 4)), B, [B]),
        (kernel("permute_dims", (3, 4)), M, [M]),
        (kernel("concat", (3, 4), (3, 2), axis=1), M, [M, M]),
        (kernel("sum", (3, 4), axis=(1,)), R, [R]),
        (kernel("mean", (3, 4), axis=(1,)), A, [A]),
        (kernel("matmul", (3, 4), (4, 5)), A, [A, A]),
        (kernel("nn.max_pool2d", (1, 2, 4, 4), pool_size=(2, 2)), A, [A]),
        (kernel("nn.softmax", (3, 4)), A, [A]),
    ],
    ids=lambda k: k.name if isinstance(k, PrimFunc) else None,
)
def test_classes(made: PrimFunc, whole: OpPattern, operands: list[OpPattern]) -> None:
    found = patterns(made)
    assert (found.whole, list(found.operands)) == (whole, operands)


@pytest.mark.row("R23")
def test_the_family_of_an_operator_bounds_the_class_of_its_kernel() -> None:
    for name, op in OPERATORS.items():
        for example in op.examples if name in KERNELS else ():
            types = tuple(TensorType(s, dtype(d)) for s, d in example.operands)
            use = call(name, *(var(f"x{i}", t) for i, t in enumerate(types)), **example.attrs)
            found = patterns(build(name, example.attrs, types, use.type, "k")).whole
            assert found <= operator_pattern(use), f"{name} {example.attrs}"


@pytest.mark.row("R23")
def test_the_attribute_wins() -> None:
    relu = kernel("nn.relu", (3, 4))
    assert patterns(replace(relu, attrs={"op_pattern": 8})).whole is OPAQUE
    assert patterns(replace(kernel("add", (3, 4), (4,)), attrs={"op_pattern": 0})).operands == (E, B)
    for wrong in (5, True, "elementwise", 9):
        with pytest.raises(Invalid) as caught:
            patterns(replace(relu, attrs={"op_pattern": wrong}))
        assert caught.value.label == "op_pattern.C1"


@pytest.mark.row("R23")
def test_tensor_expressions_have_the_same_classes() -> None:
    t = TensorType((3, 4), FLOAT32)
    assert patterns(tensor_function("f", lambda a: compute((3, 4), lambda i, j: a[i, j] + 1), [t])).whole is E
    assert patterns(tensor_function("f", lambda a: compute((4, 3), lambda i, j: a[j, i]), [t])).whole is M
    assert patterns(tensor_function("f", lambda a: reduce("sum", (3,), (4,), lambda i, k: a[i, k]), [t])).whole is R


@pytest.mark.row("R23")
def test_blocks_have_the_classes_of_what_they_stand_for() -> None:
    a, b, out = Buffer("a", (3, 4), FLOAT32), Buffer("b", (4, 5), FLOAT32), Buffer("out", (3, 5), FLOAT32)
    i, j, k = Var("vi"), Var("vj"), Var("vk")

    def product(li: Var, lj: Var, lk: Var) -> Stmt:
        iterators = (
            IterVar(i, "spatial", const(3), li), IterVar(j, "spatial", const(5), lj), IterVar(k, "reduce", const(4), lk)
        )  # fmt: skip
        add = store(out, (i, j), out[i, j] + a[i, k] * b[k, j])
        return Block("product", iterators, add, init=store(out, (i, j), 0))

    assert patterns(PrimFunc("f", (a, b, out), 1, loops("i j k", (3, 5, 4), product))).whole is A


def test_what_traps_or_gathers_is_opaque() -> None:
    a, at, out = Buffer("a", (4,), FLOAT32), Buffer("at", (4,), dtype("int64")), Buffer("out", (4,), FLOAT32)
    gather = PrimFunc("g", (a, at, out), 1, loops("i", (4,), lambda i: store(out, i, a[at[i]])))
    assert patterns(gather).whole is OPAQUE
    copy = loops("i", (4,), lambda i: store(out, i, a[i]))
    guarded = PrimFunc("g", (a, out), 1, seq(Assert(apply("lt", a[0], 1.0), "no"), copy))
    assert patterns(guarded).whole is OPAQUE
    shifted = PrimFunc("g", (a, out), 1, loops("i", (4,), lambda i: store(out, i, out[3 - i] + a[i])))
    assert patterns(shifted).whole is OPAQUE


# --- one store after another ---------------------------------------------------------------------------------------


def f32(name: str, *shape: int) -> Buffer:
    return Buffer(name, shape, FLOAT32)


V4, W4, ONE, S34, D34, S43, BIG, OUT, ROW, OUT4, OUT3 = (
    f32("v4", 4), f32("w4", 4), f32("one", 1), f32("s34", 3, 4), f32("d34", 3, 4), f32("s43", 4, 3), f32("big", 5, 6),
        f32("out", 3, 4),
    f32("row", 1, 4), f32("out4", 4), f32("out3", 3),
)  # fmt: skip
V3, V5, V6, R14 = f32("v3", 3), f32("v5", 5), f32("v6", 6), f32("r14", 1, 4)
SQUARE, CUBE, TEMP, TEMP3 = f32("square", 4, 4), f32("cube", 3, 4, 2), f32("temp", 3, 4), f32("temp3", 3)


def nest(shape: tuple[int, ...], body: Callable[..., Stmt]) -> Stmt:
    return loops(" ".join("ijk"[: len(shape)]), shape, body)


def let(value: Any, body: Callable[[Var], Stmt]) -> Stmt:
    v = Var("v")
    return LetStmt(v, value, body(v))


def temporary(buffer: Buffer, *parts: Stmt) -> Stmt:
    return Allocate(buffer, seq(*parts))


def summed(of: Callable[[Var, Var], Any], after: Stmt | None = None) -> Stmt:
    """A sum over the columns into `temp3`, and what is done then."""
    adds = nest((3, 4), lambda i, k: store(TEMP3, i, TEMP3[i] + of(i, k)))
    return temporary(TEMP3, nest((3,), lambda i: store(TEMP3, i, 0.0)), adds, *([] if after is None else [after]))


STORES: dict[str, tuple[list[Buffer], Stmt, OpPattern, list[OpPattern]]] = {
    "at the same element": ([S34, V4, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), S34[i, j] * V4[j])), E,
        [E, B]),
    "a row": ([V4, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), V4[j])), B, [B]),
    "the only one": ([ONE, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), ONE[0])), B, [B]),
    "one of several": ([V4, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), V4[1])), M, [M]),
    "turned": ([S43, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), S43[j, i])), M, [M]),
    "shifted": ([V5, OUT4], nest((4,), lambda i: store(OUT4, i, V5[i + 1])), M, [M]),
    "of a larger one": ([BIG, OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), BIG[i, j])), B, [B]),
    "diagonal": ([V4, SQUARE], nest((4,), lambda i: store(SQUARE, (i, i), V4[i])), M, [M]),
    "no operand": ([OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), 1.0)), E, []),
    "an axis of one": ([ROW, R14], nest((4,), lambda j: store(R14, (0, j), ROW[0, j])), E, [E]),
    "one row of several": ([V4, OUT], nest((4,), lambda j: store(OUT, (0, j), V4[j])), M, [M]),
    "guarded": ([V4, OUT4], nest((4,), lambda i: If(apply("lt", i, 2), store(OUT4, i, V4[i]))), M, [M]),
    "guarded by data": ([V4, OUT4], nest((4,), lambda i: If(apply("lt", V4[i], 2.0), store(OUT4, i, V4[i]))), OPAQUE,
        [OPAQUE]),
    "by a name": ([V4, OUT4], nest((4,), lambda i: let(i, lambda v: store(OUT4, v, V4[v]))), E, [E]),
    "in place": ([OUT], nest((3, 4), lambda i, j: store(OUT, (i, j), OUT[i, j] + 1.0)), E, []),
    "a sum": ([S34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, OUT3[i] + S34[i, k])), R, [R]),
    "of squares": ([S34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, OUT3[i] + S34[i, k] * S34[i, k])), R, [R]),
    "of products": ([S34, D34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, OUT3[i] + S34[i, k] * D34[i, k])), A,
        [A, A]),
    "of products, cast": (
        [S34, D34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, OUT3[i] + cast(S34[i, k] * D34[i, k], "float32"))),
            A, [A, A]),
    "of sums": ([S34, D34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, OUT3[i] + (S34[i, k] + D34[i, k]))), R,
        [R, R]),
    "greatest product": (
        [S34, D34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, apply("max", OUT3[i], S34[i, k] * D34[i, k]))), R,
            [R, R]),
    "a window": ([V6, OUT4], nest((4, 3), lambda i, k: store(OUT4, i, OUT4[i] + V6[i + k])), A, [A]),
    "twice the sum": ([S34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, (OUT3[i] + S34[i, k]) * 2.0)), OPAQUE,
        [OPAQUE]),
    "the last of a row": ([S34, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, S34[i, k])), OPAQUE, [OPAQUE]),
    "again and again": ([V3, OUT3], nest((3, 4), lambda i, k: store(OUT3, i, V3[i])), E, [E]),
    "a sum, then at each": ([S34, OUT3],
        summed(lambda i, k: S34[i, k], nest((3,), lambda i: store(OUT3, i, TEMP3[i] * 0.5))), A, [A]),
    "a sum, then reversed": ([S34, OUT3],
        summed(lambda i, k: S34[i, k], nest((3,), lambda i: store(OUT3, i, TEMP3[2 - i]))), A, [A]),
    "a sum, then nothing of it": ([S34, OUT3],
        summed(lambda i, k: S34[i, k], nest((3,), lambda i: store(OUT3, i, 1.0))), R, [R]),
    "by a temporary": (
        [S34, OUT], temporary(TEMP, nest((3, 4), lambda i, j: store(TEMP, (i, j), S34[i, j])),
            nest((3, 4), lambda i, j: store(OUT, (i, j), TEMP[i, j]))),
        E, [E]),
    "by a temporary that is broadcast": (
        [S34, CUBE],
            temporary(TEMP, nest((3, 4), lambda i, j: store(TEMP, (i, j), S34[i, j])),
            nest((3, 4, 2), lambda i, j, k: store(CUBE, (i, j, k), TEMP[i, j]))),
        B, [B]),
}  # fmt: skip


@pytest.mark.row("R23")
@pytest.mark.parametrize("name", STORES)
def test_stores(name: str) -> None:
    params, body, whole, operands = STORES[name]
    found = patterns(PrimFunc("f", tuple(params), 1, body))
    assert (found.whole, list(found.operands)) == (whole, operands)


@pytest.mark.row("R23")
def test_the_class_of_a_call_is_that_of_its_family() -> None:
    x, y, row, at = (
        var(n, TensorType(s, FLOAT32)) for n, s in (("x", (3, 4)), ("y", (3, 1)), ("row", (1, 4)), ("at", (4,)))
    )
    index = var("index", TensorType((2,), dtype("int64")))
    whole = var("whole", TensorType((3, 4), dtype("int32")))
    cases: list[tuple[Expr, OpPattern]] = [
        (call("nn.relu", x), E), (call("add", x, at), E), (call("add", at, x), E), (call("add", y, row), B),
            (call("add", at, y), B),
        (call("astype", x, dtype="int32"), E), (call("floor_divide", whole, whole), E),
            (call("full", shape=(2,), fill_value=0), E),
        (call("permute_dims", x), M), (call("take", x, index, axis=0), OPAQUE), (call("nonzero", x), OPAQUE),
        (call("matmul", x, at), A), (call("sum", x), A), (call("nn.softmax", x), A),
        (call(extern("f", [x.type], x.type), x), OPAQUE),
    ]  # fmt: skip
    for use, wanted in cases:
        assert isinstance(use, Call)
        assert operator_pattern(use) is wanted, use.op


@pytest.mark.row("R23")
def test_a_given_class_is_that_of_each_operand() -> None:
    def given(number: int, *shapes: tuple[int, ...]) -> tuple[OpPattern, ...]:
        params = (*(f32(f"x{i}", *s) for i, s in enumerate(shapes)), f32("out", 3, 4))
        return patterns(PrimFunc("f", params, 1, seq(), attrs={"op_pattern": number})).operands

    assert given(2, (3, 4), (4,)) == (M, M)
    assert given(0, (3, 4), (4,), (3, 1), (1, 4), (4, 3)) == (E, B, B, B, B)
