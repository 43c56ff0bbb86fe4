"""What small integer tensors hold when sizes are symbolic (specs/lower.md, "Import").

A model computes shapes with tensor operators: Shape, then Gather, Concat, arithmetic, and a Reshape takes the result.
Where all sizes are numbers the interpreter computes that, and nothing here runs. Where a size is a symbol the elements
are dims, and the operators are redone on them here. What cannot be told is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from assay.semantics.operator import Attrs, Reasons
from assay.semantics.ops.functions import BITS
from assay.semantics.ops.sizes import floor_div, larger, never_negative, smaller
from assay.semantics.scalar import Dim, Expr, apply, as_expr, provably_equal, simplify
from assay.semantics.types import TensorType, TupleType, Type

Contents = np.ndarray[Any, Any]
"""An array of Python objects: an int, a bool or a scalar expression for each element."""

MOST = 1024
"""Tensors of more elements than this are not followed; shapes have a handful."""


def objects(values: Any, shape: tuple[int, ...]) -> Contents:
    """Contents from a sequence of elements, or from an array of integers or bools."""
    out = np.empty(shape, object)
    elements = values.reshape(-1).tolist() if isinstance(values, np.ndarray) else list(values)
    for i, v in enumerate(elements):
        out.reshape(-1)[i] = simplify(v) if isinstance(v, Expr) else v
    return out


def is_symbolic(contents: Contents) -> bool:
    """Whether an element is an expression and not a number."""
    return any(isinstance(v, Expr) for v in contents.reshape(-1))


def derive(op: str, attrs: Attrs, args: Sequence[Contents], result: Type) -> Contents | tuple[Contents, ...] | None:
    """What a call of the graph operator `op` holds; None where that cannot be told."""
    if op == "split" and isinstance(result, TupleType):
        (x,) = args
        ends = np.cumsum(attrs["sections"])[:-1] if all(isinstance(s, int) for s in attrs["sections"]) else None
        return None if ends is None else tuple(np.split(x, ends, attrs["axis"]))
    if not isinstance(result, TensorType) or not follows(result) or op not in RULES:
        return None
    try:
        out = np.asarray(RULES[op](attrs, result, *args), object)
    except _UnknownError:
        return None
    found = objects(np.broadcast_to(out, result.static_shape), result.static_shape)
    fits = all(isinstance(v, Expr) or result.dtype.min <= v <= result.dtype.max for v in found.reshape(-1))
    return found if fits else None  # what wraps is left to the run


def follows(of: TensorType) -> bool:
    """Whether contents of that type are followed: a few elements, bool or wide enough for sizes."""
    return (of.dtype.kind == "bool" or (of.dtype.is_integer and of.dtype.bits >= 32)) and is_small(of)


def is_small(of: TensorType) -> bool:
    """Whether a type is static and has at most `MOST` elements, few enough to follow."""
    return of.is_static and prod(of.static_shape) <= MOST


class _UnknownError(Exception):
    """An element that cannot be told."""


def _elementwise(f: Callable[..., Any]) -> Callable[..., Any]:
    def rule(attrs: Attrs, result: TensorType, *args: Contents) -> Any:
        out = np.empty(result.static_shape, object)
        lanes = [np.broadcast_to(a, out.shape).reshape(-1) for a in args]
        for i, row in enumerate(zip(*lanes, strict=True)):
            out.reshape(-1)[i] = f(*row)
        return out

    return rule


def _quotient(a: Dim, b: Dim) -> Dim:
    """Rounded down. By a size that is 0 there is none, and a run that wants it traps."""
    if isinstance(b, int):
        if b < 1:
            raise _UnknownError
        return floor_div(a, b)
    return as_expr(a) // b


def _truncated(a: Dim, b: Dim) -> Dim:
    """Rounded towards 0: rounded down, where neither is below 0."""
    if isinstance(b, int) and b < 1:
        raise _UnknownError
    if never_negative(a) and never_negative(b):
        return _quotient(a, b)
    return apply("truncdiv", as_expr(a), b)


def _positive(d: Dim) -> bool:
    """Whether a difference of dims is above 0."""
    if isinstance(d, int):
        return d > 0
    if never_negative(simplify(d - 1)):
        return True
    if never_negative(simplify(-d)):
        return False
    raise _UnknownError


def _less(a: Dim, b: Dim) -> bool:
    return _positive(simplify(b - a))


def _equal(a: Dim, b: Dim) -> bool:
    return provably_equal(a, b) or not (_less(a, b) or _less(b, a))


def _where(condition: Any, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, Expr):
        raise _UnknownError
    return a if condition else b


def _cast(attrs: Attrs, result: TensorType, x: Contents) -> Any:
    """A size fits every integer type of 32 bits; whether one is 0, which makes a bool, is open."""
    if result.dtype.kind == "bool" and is_symbolic(x):
        raise _UnknownError
    return x.astype(bool) if result.dtype.kind == "bool" else x


def _take(attrs: Attrs, result: TensorType, x: Contents, indices: Contents) -> Any:
    size = x.shape[attrs["axis"]]
    if not all(isinstance(i, int) and -size <= i < size for i in indices.reshape(-1)):
        raise _UnknownError
    return np.take(x, indices.astype(np.int64), axis=attrs["axis"])


def _slice(attrs: Attrs, result: TensorType, x: Contents) -> Any:
    cut = [slice(None)] * x.ndim
    for a, begin, end, stride in zip(attrs["axes"], attrs["begin"], attrs["end"], attrs["strides"], strict=True):
        if not (isinstance(begin, int) and isinstance(end, int)):
            raise _UnknownError
        cut[a] = slice(begin, end, stride)
    return x[tuple(cut)]


def _reduce(f: Callable[[Any, Any], Any], start: int) -> Callable[..., Any]:
    def rule(attrs: Attrs, result: TensorType, x: Contents) -> Any:
        axes = range(x.ndim) if attrs["axis"] is None else attrs["axis"]
        out = np.frompyfunc(f, 2, 1).reduce(x, axis=tuple(axes), initial=start)
        return np.reshape(np.asarray(out, object), result.static_shape)

    return rule


def _reshaped(attrs: Attrs, result: TensorType, x: Contents) -> Any:
    return x.reshape(result.static_shape)


RULES: dict[str, Callable[..., Any]] = {
    "add": _elementwise(lambda a, b: a + b),
    "subtract": _elementwise(lambda a, b: a - b),
    "multiply": _elementwise(lambda a, b: a * b),
    "negative": _elementwise(lambda a: -a),
    "truncate_divide": _elementwise(_truncated),
    "floor_divide": _elementwise(_quotient),
    "maximum": _elementwise(larger),
    "minimum": _elementwise(smaller),
    "equal": _elementwise(_equal),
    "not_equal": _elementwise(lambda a, b: not _equal(a, b)),
    "less": _elementwise(_less),
    "greater": _elementwise(lambda a, b: _less(b, a)),
    "less_equal": _elementwise(lambda a, b: not _less(b, a)),
    "greater_equal": _elementwise(lambda a, b: not _less(a, b)),
    "logical_not": _elementwise(lambda a: not a),
    "logical_and": _elementwise(lambda a, b: a and b),
    "logical_or": _elementwise(lambda a, b: a or b),
    "logical_xor": _elementwise(lambda a, b: a != b),
    "where": _elementwise(_where),
    "astype": _cast,
    "take": _take,
    "strided_slice": _slice,
    "concat": lambda attrs, result, *args: np.concatenate(args, axis=attrs["axis"]),
    "permute_dims": lambda attrs, result, x: np.transpose(x, attrs["axes"]),
    "broadcast_to": lambda attrs, result, x: x,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "sum": _reduce(lambda a, b: a + b, 0),
    "prod": _reduce(lambda a, b: a * b, 1),
}
"""What graph operators do to dims. An operator that is not here makes contents that are not known."""

UNFOLLOWED: Reasons = {
    ("split",): "`derive` follows it",
    ("abs", "nn.relu", "clip", *BITS, "reinterpret", "max",
     "min", "cumsum", "cumprod", "topk", "nn.pad", "device_copy", "contraction", "pooling", "selection", "creation"):
        "exporters do not compute sizes with it, but where all is constant, which is folded",
}  # fmt: skip
"""The other operators that take whole numbers, and why they are not followed."""
