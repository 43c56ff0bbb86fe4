"""The pattern class of a tensor function, from its body."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.lower.kernels import KERNELS, build
from assay.semantics.analyses.op_pattern import OpPattern, operator_pattern, patterns
from assay.semantics.builder.te import compute, reduce, tensor_function
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, var
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var, apply, const
from assay.semantics.tensor import Assert, Block, Buffer, IterVar, PrimFunc, Stmt, loops, seq, store
from assay.semantics.types import TensorType

E, B, M, R, A, OPAQUE = (
    OpPattern.ELEMENTWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE, OpPattern.REDUCTION, OpPattern.ANCHOR, OpPattern.OPAQUE
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
