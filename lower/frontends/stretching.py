"""Operands whose sizes only a run can compare (specs/lower.md, "Import", O4).

Our operators want sizes that are shown to fit. Where a model's do not, what a run has to find is said by a cast: that
two sizes are equal, where no other case is allowed; that one is 1 or the other, where a size of 1 is stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from assay.semantics import graph, scalar
from assay.semantics.errors import Span
from assay.semantics.graph import Expr
from assay.semantics.graph.matching import provably_different
from assay.semantics.ops.meeting import meeting, plainest, wanted_of
from assay.semantics.ops.sizes import floor_div, missing_dim, product, same_size, without_common
from assay.semantics.scalar import Dim, provably_equal, simplify
from assay.semantics.types import TensorType


class Casts(Protocol):
    """Who gives a name to a cast, so that it is done once: a `Builder`."""

    def named(self, x: Expr) -> Expr:
        """A name for a value."""
        ...


def _of(x: Expr) -> TensorType:
    assert isinstance(x.type, TensorType)
    return x.type


def claimed(builder: Casts, x: Expr, shape: Sequence[Dim], span: Span | None = None) -> Expr:
    """`x` with a shape that the run checks; `x` itself where it is shown to have that shape."""
    if all(map(provably_equal, _of(x).shape, shape)):
        return x
    return builder.named(graph.match_cast(x, TensorType(tuple(shape), _of(x).dtype), span=span))


def stretched(builder: Casts, x: Expr, shape: Sequence[Dim], span: Span | None = None) -> Expr:
    """`x` with its axes, aligned at the end of `shape`, brought to the sizes there. Those that are the number 1 stay:
    every operator stretches them. A run in which another is neither 1 nor that size traps (match_cast.T1)."""
    own = shape[len(shape) - _of(x).ndim :]
    x = claimed(builder, x, [wanted_of(d, w) for d, w in zip(_of(x).shape, own, strict=True)], span)
    target = [1 if isinstance(d, int) and d == 1 else w for d, w in zip(_of(x).shape, own, strict=True)]
    if all(map(provably_equal, _of(x).shape, target)):
        return x
    return graph.call("broadcast_to", x, shape=tuple(target), span=span)


def with_one_shape(builder: Casts, args: Sequence[Expr], keep: int = 0, span: Span | None = None) -> list[Expr] | None:
    """Operands that are stretched to one another, but for their last `keep` axes; None where numbers rule it out."""
    shapes = [_of(a).shape[: _of(a).ndim - keep] for a in args]
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)
    sizes = [meeting(column) for column in columns]
    shape = [s for s in sizes if s is not None]
    if len(shape) < rank:
        return None
    return [stretched(builder, a, (*shape, *_of(a).shape[_of(a).ndim - keep :]), span) for a in args]


def _multiplied(builder: Casts, args: Sequence[Expr], attrs: Mapping[str, Any], span: Span | None) -> list[Expr] | None:
    """Operands of a matrix product: the sizes that are summed over are equal, those before the matrices broadcast."""
    a, b = args
    if min(_of(a).ndim, _of(b).ndim) < 2:
        return None
    inner = plainest([_of(a).shape[-1], _of(b).shape[-2]])
    if inner is None:
        return None
    a = claimed(builder, a, (*_of(a).shape[:-1], inner))
    b = claimed(builder, b, (*_of(b).shape[:-2], inner, _of(b).shape[-1]))
    return with_one_shape(builder, [a, b], keep=2, span=span)


def _joined(builder: Casts, args: Sequence[Expr], attrs: Mapping[str, Any], span: Span | None) -> list[Expr] | None:
    """Operands that follow one another along an axis, and are of one size in the others."""
    if len({_of(a).ndim for a in args}) > 1:
        return None
    rank = _of(args[0]).ndim
    axis = attrs["axis"] % rank
    sizes = [plainest([_of(a).shape[k] for a in args]) if k != axis else 0 for k in range(rank)]
    shape = [s for s in sizes if s is not None]
    if len(shape) < rank:
        return None
    return [claimed(builder, a, [_of(a).shape[k] if k == axis else d for k, d in enumerate(shape)]) for a in args]


def to_reshape(builder: Casts, x: Expr, shape: Sequence[Dim], span: Span | None) -> tuple[Expr, tuple[Dim, ...]]:
    """An operand of reshape and its new shape, of which one size may be -1: where only a run can find that there are as
    many elements, with the size for -1 and with a cast (match_cast.T1). What numbers rule out stays as it is."""
    whole = _of(x).shape
    known = [d for d in shape if not (isinstance(d, int) and d == -1)]
    missing: Dim = -1
    if len(known) == len(shape) - 1:
        left, rest = without_common(whole, known)
        total, divisor = product(left), product(rest)
        if missing_dim(whole, known) is not None or _is_number(divisor, 0) or not _has_symbol(total, divisor):
            return x, tuple(shape)
        missing = floor_div(total, divisor) if isinstance(divisor, int) else scalar.as_expr(total) // divisor
    target = tuple(missing if isinstance(d, int) and d == -1 else d for d in shape)
    before, after = simplify(product(whole)), simplify(product(target))
    if same_size(whole, target) or provably_different(before, after):
        return x, target
    flat = graph.call("reshape", x, shape=(before,), span=span)
    return claimed(builder, flat, (after,)), target


def _is_number(dim: Dim, wanted: int) -> bool:
    return isinstance(dim, int) and dim == wanted


def _has_symbol(*dims: Dim) -> bool:
    return any(not isinstance(d, int) for d in dims)


Mended = Callable[[Casts, Sequence[Expr], Mapping[str, Any], Span | None], list[Expr] | None]

MENDED: dict[str, Mended] = {
    "broadcast.C1": lambda builder, args, attrs, span: with_one_shape(builder, args, span=span),
    "matmul.C2": _multiplied,
    "concat.C3": _joined,
}
"""By the rule that the operands of a call break: how they are said to fit, if a run may show it."""


def mended(
    builder: Casts, op: str, label: str, args: Sequence[Expr], attrs: Mapping[str, Any], span: Span | None
) -> list[Expr] | None:
    """The operands of a call that breaks the rule `label` with what the run has to find said of them; None where there
    is nothing to say, or that would not help."""
    how = _multiplied if op == "matmul" else MENDED.get(label)
    made = None if how is None else how(builder, args, attrs, span)
    return None if made is None or all(m is a for m, a in zip(made, args, strict=True)) else made
