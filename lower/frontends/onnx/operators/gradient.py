"""Gradient of ONNX's training domain, by the chain rule from the result back (specs/lower.md, "Import").

The node names tensors of the model: `y`, and `xs` and `zs` on which it depends. Its operands are what these hold where
the gradient is taken. The gradient of a tensor that is not a scalar is that of the sum of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.semantics.graph import Call, Expr
from assay.semantics.operator import Operator, Reasons
from assay.semantics.ops.functions import BITS, TRIGONOMETRY
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order

Back = Callable[["_Back"], Sequence[Expr | None]]
"""What a result's gradient gives to the operands; None for one that has no part in it."""


class _Back:
    """A call with its operands as they are where the gradient is taken, and the gradient of its result."""

    def __init__(self, node: Node, op: str, result: Expr, args: Sequence[Expr], given: Expr) -> None:
        self.node, self.op, self.result, self.args, self.given = node, op, result, args, given

    @property
    def attrs(self) -> Mapping[str, Any]:
        assert isinstance(self.result, Call) and isinstance(self.result.op, Operator)
        return self.result.op.check_attrs(self.result.attrs)

    def call(self, op: str, *args: Expr | float, **attrs: object) -> Expr:
        return self.node.call(op, *args, **attrs)

    def times(self, factor: Expr) -> Expr:
        return self.call("multiply", self.given, factor)

    def reduced(self) -> Expr:
        """The gradient of a reduction, with the axes that it lost as axes of size 1."""
        rank = tensor(self.args[0]).ndim
        axes = range(rank) if self.attrs["axis"] is None else sorted(a % rank for a in self.attrs["axis"])
        return (
            self.given if self.attrs["keepdims"] or not axes else self.call("expand_dims", self.given, axis=tuple(axes))
        )


def _sum(b: _Back) -> Sequence[Expr | None]:
    given = b.reduced()
    return [b.call("broadcast_to", given, shape=tensor(b.args[0]).shape)]


def _mean(b: _Back) -> Sequence[Expr | None]:
    (whole,) = _sum(b)
    assert whole is not None
    x, y = tensor(b.args[0]), tensor(b.result)
    if not x.is_static or not y.is_static:
        raise b.node.unsupported(f"the gradient of the mean of {x}; give the sizes numbers")
    return [b.call("divide", whole, prod(x.static_shape) / max(prod(y.static_shape), 1))]


def _matmul(b: _Back) -> Sequence[Expr | None]:
    left, right = b.args
    if min(tensor(left).ndim, tensor(right).ndim) < 2:
        raise b.node.unsupported("the gradient of a product with a vector; matrices are wanted")

    def turned(x: Expr) -> Expr:
        rank = tensor(x).ndim
        return b.call("permute_dims", x, axes=(*range(rank - 2), rank - 1, rank - 2))

    return [b.call("matmul", b.given, turned(right)), b.call("matmul", turned(left), b.given)]


def _permuted(b: _Back) -> Sequence[Expr | None]:
    rank = tensor(b.args[0]).ndim
    axes = b.attrs["axes"] or tuple(reversed(range(rank)))
    order = sorted(range(rank), key=lambda k: axes[k] % rank)
    return [b.call("permute_dims", b.given, axes=tuple(order))]


def _divide(b: _Back) -> Sequence[Expr | None]:
    to_first = b.call("divide", b.given, b.args[1])
    return [to_first, b.call("negative", b.call("multiply", to_first, b.call("divide", *b.args)))]


def _where(b: _Back) -> Sequence[Expr | None]:
    return [None, b.call("where", b.args[0], b.given, 0), b.call("where", b.args[0], 0, b.given)]


def _shaped(b: _Back) -> Sequence[Expr | None]:
    return [b.node.shaped(b.given, tensor(b.args[0]).shape)]


RULES: Mapping[str, Back] = {
    "add": lambda b: [b.given, b.given],
    "subtract": lambda b: [b.given, b.call("negative", b.given)],
    "multiply": lambda b: [b.times(b.args[1]), b.times(b.args[0])],
    "divide": _divide,
    "negative": lambda b: [b.call("negative", b.given)],
    "exp": lambda b: [b.times(b.call("exp", b.args[0]))],
    "log": lambda b: [b.call("divide", b.given, b.args[0])],
    "sqrt": lambda b: [b.call("divide", b.given, b.call("multiply", 2, b.call("sqrt", b.args[0])))],
    "sin": lambda b: [b.times(b.call("cos", b.args[0]))],
    "cos": lambda b: [b.times(b.call("negative", b.call("sin", b.args[0])))],
    "tanh": lambda b: [b.times(b.call("subtract", 1, b.call("multiply", *[b.call("tanh", b.args[0])] * 2)))],
    "sigmoid": lambda b: [
        b.times(b.call("multiply", *(b.call("sigmoid", x) for x in (b.args[0], b.call("negative", b.args[0])))))
    ],
    "nn.relu": lambda b: [b.call("where", b.call("greater", b.args[0], 0), b.given, 0)],
    "where": _where,
    "matmul": _matmul,
    "sum": _sum,
    "mean": _mean,
    "permute_dims": _permuted,
    "reshape": _shaped,
    "expand_dims": _shaped,
    "squeeze": _shaped,
    "broadcast_to": lambda b: [b.given],
    "astype": lambda b: [b.node.cast(b.given, tensor(b.args[0]).dtype)],
}
"""By operator. What is broadcast is summed afterwards."""

REFUSED: Reasons = {
    ("floor", "ceil", "round", "truncate_divide", "floor_divide", "equal", "not_equal", "less", "less_equal", "greater",
     "greater_equal", "logical_not", "logical_and", "logical_or", "logical_xor", *BITS, "reinterpret", "creation"):
        "its result does not change, or jumps",
    ("abs", "erf", "reciprocal", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "clip", "power", "maximum", "minimum",
     "fmod", *(n for n in TRIGONOMETRY if n not in ("sin", "cos")), "prod", "max", "min", "concat", "strided_slice",
     "split", "take", "nn.pad", "device_copy", "contraction", "normalization", "pooling", "stepwise", "selection"):
        "it has a gradient, which is refused by name",
}  # fmt: skip
"""The other operators, and why they have no rule."""


def _unbroadcast(node: Node, given: Expr, like: Expr) -> Expr:
    """The sum over the axes along which an operand was repeated."""
    of, shape = tensor(given), tensor(like).shape
    extra = of.ndim - len(shape)
    ones = [extra + k for k, d in enumerate(shape) if not same_shape((d,), of.shape[extra + k : extra + k + 1])]
    axes = (*range(extra), *ones)
    if not axes:
        return given
    return node.shaped(node.call("sum", given, axis=axes, keepdims=True), shape)


def _is_float(of: Expr) -> bool:
    return isinstance(of.type, TensorType) and of.type.dtype.is_float


def gradient(node: Node) -> Sequence[Expr]:
    """The gradient of `y` in each of `xs`."""
    xs, zs = node.attrs["xs"], node.attrs["zs"] or ()
    if len(node.operands()) != len(xs) + len(zs):
        raise node.wrong(f"{len(node.operands())} operands for {len(xs)} xs and {len(zs)} zs")
    named = [node.named_tensor(n) for n in (*xs, *zs)]
    y = node.named_tensor(node.attrs["y"])
    at = dict(zip(named, node.operands(), strict=True))
    for x, value in at.items():
        if not same_shape(tensor(x).shape, tensor(value).shape) or tensor(x).dtype is not tensor(value).dtype:
            raise node.wrong(f"an operand is {value.type}, what it stands for is {x.type}")
    if not _is_float(y) or not all(map(_is_float, named[: len(xs)])):
        raise node.wrong("y and xs are floats")
    order = list(post_order(y, lambda e: () if e in at else e.children))
    depends = set(named[: len(xs)])
    values: dict[Expr, Expr] = {}
    for e in order:
        if e in at:
            values[e] = at[e]
        else:
            parts = [values[c] for c in e.children]
            values[e] = e if all(a is b for a, b in zip(parts, e.children, strict=True)) else e.with_children(parts)
            if any(c in depends for c in e.children):
                depends.add(e)
    found: dict[Expr, Expr] = {y: node.full(tensor(y).shape, 1.0, tensor(y).dtype)} if y in depends else {}
    for e in reversed(order):
        if e not in found or e in at:
            continue
        op = e.op.name if isinstance(e, Call) and isinstance(e.op, Operator) else type(e).__name__
        if not isinstance(e, Call) or op not in RULES:
            raise node.unsupported(f"the gradient of {op}; it is known of {', '.join(RULES)}")
        args = [values[a] for a in e.args]
        for arg, part in zip(e.args, RULES[op](_Back(node, op, e, args, found[e])), strict=True):
            if part is not None and arg in depends and _is_float(arg):
                part = _unbroadcast(node, part, arg)
                found[arg] = part if arg not in found else node.call("add", found[arg], part)
    return [found[x] if x in found else node.full(tensor(x).shape, 0.0, tensor(x).dtype) for x in named[: len(xs)]]


TABLE: dict[str, Rule] = {"Gradient": gradient}
