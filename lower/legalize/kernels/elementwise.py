"""Kernels of the elementwise operators: one loop nest, one scalar expression for each (specs/lower.md, "Kernels")."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from assay.lower.legalize.kernels.common import Kernel, broadcast, nest, parameters
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.operator import Attrs
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, cast, const, select
from assay.semantics.tensor import PrimFunc, store
from assay.semantics.types import TensorType, Type

ScalarRule: TypeAlias = Callable[..., Expr]
"""rule(attributes, one scalar for each operand): an element of the result."""


def one_operation(op: str) -> ScalarRule:
    """The rule of an operator that is one scalar operation."""
    return lambda attrs, *args: apply(op, *args)


def _sigmoid(attrs: Attrs, x: Expr) -> Expr:
    decay = apply("exp", -apply("abs", x))  # at most 1: nothing overflows, and small results keep their digits
    return select(x >= 0, const(1, x.dtype), decay) / (1 + decay)


def _gelu(attrs: Attrs, x: Expr) -> Expr:
    return 0.5 * x * (1 + apply("erf", x * math.sqrt(0.5)))


def _gelu_tanh(attrs: Attrs, x: Expr) -> Expr:
    return 0.5 * x * (1 + apply("tanh", math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def _clip(attrs: Attrs, x: Expr) -> Expr:
    low, high = attrs["min"], attrs["max"]
    # A bound that no element can cross is left out: an integer dtype may be unable to hold it.
    if low is not None and (x.dtype.is_float or low > x.dtype.min):
        x = apply("max", x, const(low, x.dtype))
    if high is not None and (x.dtype.is_float or high < x.dtype.max):
        x = apply("min", x, const(high, x.dtype))
    return x


def _astype(attrs: Attrs, x: Expr) -> Expr:
    """Where a number is open, what is cast is 0 in the place of one that the integers do not have."""
    to = dtype(attrs["dtype"])
    if not attrs.get("open") or not x.dtype.is_float or not to.is_integer:
        return cast(x, to)
    wide = cast(x, FLOAT32) if x.dtype.bits < 32 else x  # exact, and has all powers of two that are asked for
    whole = apply("trunc", wide)
    inside = apply("and", whole >= const(float(to.min), wide.dtype), whole < const(float(int(to.max) + 1), wide.dtype))
    return cast(select(inside, wide, const(0.0, wide.dtype)), to)


def _quotient(op: str) -> ScalarRule:
    def rule(attrs: Attrs, a: Expr, b: Expr) -> Expr:
        if not attrs.get("open"):
            return apply(op, a, b)
        none, zero, one = apply("eq", b, const(0, b.dtype)), const(0, b.dtype), const(1, b.dtype)
        return select(none, zero, apply(op, a, select(none, one, b)))

    return rule


SCALARS: dict[str, ScalarRule] = {
    **{op.name: one_operation(op.scalar) for op in OPERATORS.values() if op.scalar},
    "sigmoid": _sigmoid,
    "reciprocal": lambda attrs, x: 1 / x,
    "nn.relu": lambda attrs, x: apply("max", x, const(0, x.dtype)),
    "nn.leakyrelu": lambda attrs, x: select(x >= 0, x, x * attrs["alpha"]),
    "nn.gelu": _gelu,
    "nn.gelu_tanh": _gelu_tanh,
    "clip": _clip,
    "astype": _astype,
    "truncate_divide": _quotient("truncdiv"),
    "floor_divide": _quotient("floordiv"),
    "where": lambda attrs, condition, a, b: select(condition, a, b),
}
"""The scalar expression of each operator."""


def elementwise(rule: ScalarRule) -> Kernel:
    """The kernel of a scalar rule: operands broadcast by NumPy's rule, one store for each element of the result."""

    def kernel(name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type) -> PrimFunc:
        inputs, (out,) = parameters("a b c" if len(operands) > 1 else "x", operands, result)

        def element(*i: Any) -> Any:
            return store(out, i, rule(attrs, *(b[broadcast(b.shape, i)] for b in inputs)))

        return PrimFunc(name, (*inputs, out), 1, nest("i", out.shape, element))

    return kernel


TABLE: dict[str, Kernel] = {name: elementwise(rule) for name, rule in SCALARS.items()}
