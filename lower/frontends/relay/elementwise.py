"""Relay operators: elementwise, creation and reduction (specs/lower.md, "Relay")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.frontends.relay.build import MISSING, Relay, Row, make_row, relax, same
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, DLPACK, VirtualDevice
from assay.semantics.dtypes import INT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant, Expr
from assay.semantics.ops import OPERATORS
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim
from assay.semantics.types import TupleType

IDENTITY = (
    "copy annotation.stop_fusion annotation.checkpoint annotation.bitpack_start annotation.bitpack_end"
    " annotation.cast_hint stop_gradient"
)

# --- elementwise --------------------------------------------------------------------------------------------------


def _round(b: Relay, x: Expr) -> Expr:
    """Half goes away from zero; what is cut off is exact, so nothing is rounded on the way."""
    whole = b.relax("trunc", [x])
    far = b.call("greater_equal", b.call("abs", b.call("subtract", x, whole)), b.like(x, 0.5))
    return b.call("where", far, b.call("add", whole, b.relax("sign", [x])), whole)


def _relaxed(name: str) -> Callable[..., Expr]:
    return lambda b, *xs: b.sized(b.relax(name, b.together(*xs)))


def _where(b: Relay, condition: Expr, x: Expr, y: Expr) -> Expr:
    c = b.tensor(condition)
    if c.dtype.kind != "bool":
        condition = b.call("not_equal", condition, b.like(condition, 0))
    return b.sized(b.call("where", *b.together(condition, x, y)))


def _clip(b: Relay, x: Expr, a_min: Any, a_max: Any) -> Expr:
    of = b.tensor(x).dtype
    low, high = b.number(a_min), b.number(a_max)
    if of.is_integer:  # the bounds are in the operand's dtype
        low, high = (int(v) if abs(v) != np.inf else v for v in (low, high))
        low, high = (None if low <= of.min else low), (None if high >= of.max else high)
    return b.call("clip", x, min=low, max=high)


def _device(b: Relay, given: Any, old: Any) -> VirtualDevice:
    """A device as an attribute, or as the number of its type in older texts."""
    if isinstance(given, VirtualDevice):
        return given
    if given is not None:
        raise Invalid(f"{b.name}: {given!r} is no virtual device, such as meta[VirtualDevice][0]", label="relay.C11")
    if old is None or old < 1:
        return ANYWHERE
    if old not in DLPACK:
        raise Invalid(f"{b.name}: {old} is no type of a device; there are {DLPACK}", label="relay.C11")
    return VirtualDevice(DLPACK[old])


def _on_device(
    b: Relay, x: Expr, virtual_device: Any, constrain_result: Any, constrain_body: Any, device_type: Any, is_fixed: Any
) -> Expr:
    device = _device(b, virtual_device, device_type)
    body, result = bool(constrain_body), bool(is_fixed or constrain_result)
    return graph.on_device(x, device, constrain_body=body, constrain_result=result, span=b.span)


def _device_copy(
    b: Relay, x: Expr, src_virtual_device: Any, dst_virtual_device: Any, src_dev_type: Any, dst_dev_type: Any
) -> Expr:
    """A copy; what is said of its source is a fixed annotation of the operand. A tuple is copied field by field."""
    source, to = _device(b, src_virtual_device, src_dev_type), _device(b, dst_virtual_device, dst_dev_type)
    if source != ANYWHERE:
        x = graph.on_device(x, source, constrain_result=True, span=b.span)
    if isinstance(x.type, TupleType):
        parts = [graph.get(x, i, span=b.span) for i in range(len(x.type.fields))]
        return replace(graph.tuple_of(*(graph.device_copy(p, to, b.span) for p in parts), span=b.span), device=to)
    return graph.device_copy(x, to, b.span)


def _prelu(b: Relay, x: Expr, alpha: Expr, axis: int) -> Expr:
    t = b.tensor(x)
    axis = b.axis(axis, t.ndim)
    return b.relax("nn.prelu", [x, b.agree(alpha, 0, t.shape[axis])], axis=axis)


# --- creation -----------------------------------------------------------------------------------------------------


def _filled(b: Relay, shape: tuple[Dim, ...], value: Any, of: Any) -> Expr:
    return b.relax("full", [shape, value], dtype=of or None)


def _full(b: Relay, fill_value: Expr, sizes: Any, *, shape: Any, dtype: Any) -> Expr:
    if b.tensor(fill_value).ndim:
        raise b.wrong(f"the value is {fill_value.type}, not a scalar")
    value = b.cast(fill_value, dtype)
    if shape is not None:
        return _filled(b, b.ints(shape), value, dtype)
    return b.with_sizes(sizes, lambda dims: _filled(b, dims, value, dtype))


def _uniform(name: str) -> Row:
    def make(b: Relay, sizes: Any, shape: Any, dtype: Any) -> Expr:
        def made(dims: tuple[Dim, ...]) -> Expr:
            return b.relax(name, [dims], dtype=dtype or "float32")

        return made(b.ints(shape)) if shape is not None else b.with_sizes(sizes, made)

    return make_row("sizes?", make, shape=None, dtype="")


def _full_like(b: Relay, x: Expr, fill_value: Expr) -> Expr:
    t = b.tensor(x)
    return _filled(b, t.shape, b.cast(fill_value, t.dtype.name), t.dtype.name)


def _arange(b: Relay, first: Expr, last: Expr, by: Expr, dtype: Any, **_: Any) -> Expr:
    """The operands say it; the attributes start, stop and step only repeat them."""
    if not all(isinstance(x, Constant) and x.data.ndim == 0 for x in (first, last, by)):
        raise b.unsupported("bounds that are no literals")
    return b.relax("arange", [first, last, by], dtype=dtype or b.tensor(first).dtype.name)


def _shape_of(b: Relay, x: Expr, dtype: Any) -> Expr:
    return b.cast(b.call("shape_of", x), dtype or "int32")


def _ndarray_size(b: Relay, x: Expr, dtype: Any) -> Expr:
    return b.number_of(product(b.tensor(x).shape), dtype or "int32")


# --- reduction ----------------------------------------------------------------------------------------------------


def _along(b: Relay, x: Expr, axis: Any, exclude: bool) -> tuple[int, ...] | None:
    """The axes that are reduced; None for all."""
    rank = b.tensor(x).ndim
    given = None if axis is None else tuple(b.axis(a, rank) for a in b.ints(axis))
    if not exclude:
        return given  # an empty list stands for none
    return tuple(a for a in range(rank) if a not in (given or ()))


def _reduction(op: str) -> Row:
    def make(b: Relay, x: Expr, axis: Any, keepdims: bool, exclude: bool) -> Expr:
        return b.call(op, x, axis=_along(b, x, axis, exclude), keepdims=bool(keepdims))

    return make_row("data", make, axis=None, keepdims=False, exclude=False)


def _some(op: str) -> Row:
    """Whether one holds (max), or all do (min): of none at all False, and True."""

    def make(b: Relay, x: Expr, axis: Any, keepdims: bool, exclude: bool) -> Expr:
        if b.tensor(x).dtype.kind != "bool":
            raise b.wrong(f"{x.type} is given where bools are taken")
        along, t = _along(b, x, axis, exclude), b.tensor(x)
        if all(isinstance(t.shape[a], int) and t.shape[a] for a in (range(t.ndim) if along is None else along)):
            return b.call(op, x, axis=along, keepdims=bool(keepdims))
        counted = b.cast(x if op == "max" else b.call("logical_not", x), "int64")
        zero = b.constant(0, INT64)
        return b.call(
            "not_equal" if op == "max" else "equal", b.call("sum", counted, axis=along, keepdims=bool(keepdims)), zero
        )

    return make_row("data", make, axis=None, keepdims=False, exclude=False)


def _mean(b: Relay, x: Expr, axis: Any, keepdims: bool, exclude: bool) -> Expr:
    along = _along(b, x, axis, exclude)
    t = b.tensor(x)
    if t.dtype.is_float:
        return b.call("mean", x, axis=along, keepdims=bool(keepdims))
    size = product([t.shape[a] for a in (range(t.ndim) if along is None else along)])
    count = b.like(x, size) if isinstance(size, int) else b.number_of(size, t.dtype.name)
    return b.call("truncate_divide", b.call("sum", x, axis=along, keepdims=bool(keepdims)), count)


def _variance(b: Relay, x: Expr, mean: Expr, axis: Any, keepdims: bool, exclude: bool, unbiased: bool) -> Expr:
    if unbiased:
        raise b.unsupported("unbiased=True")
    centred = b.call("subtract", *b.together(x, mean))
    along = _along(b, x, axis, exclude)
    return b.call("mean", b.call("multiply", centred, centred), axis=along, keepdims=bool(keepdims))


def _argument(op: str) -> Row:
    def make(b: Relay, x: Expr, axis: Any, keepdims: bool, exclude: bool, select_last_index: bool) -> Expr:
        rank = b.tensor(x).ndim
        along = _along(b, x, axis, exclude)
        if along is None:
            along = tuple(range(rank))
        if select_last_index or not along:
            raise b.unsupported("select_last_index=True" if select_last_index else "no axes")
        if len(along) == 1:
            return b.cast(b.relax(op, [x], axis=along[0], keepdims=bool(keepdims)), INT32.name)
        # several axes count as one, in row-major order
        kept = tuple(a for a in range(rank) if a not in along)
        turned = b.call("permute_dims", x, axes=(*kept, *sorted(along)))
        shape = b.tensor(turned).shape
        flat = b.call("reshape", turned, shape=(*shape[: len(kept)], product(shape[len(kept) :])))
        y = b.cast(b.relax(op, [flat], axis=len(kept), keepdims=False), INT32.name)
        return b.call("expand_dims", y, axis=tuple(sorted(along))) if keepdims else y

    return make_row("data", make, axis=None, keepdims=False, exclude=False, select_last_index=False)


def _logsumexp(b: Relay, x: Expr, axis: Any, keepdims: bool, exclude: bool) -> Expr:
    along = _along(b, x, axis, exclude)
    peak = b.call("max", x, axis=along, keepdims=True)
    total = b.call("log", b.call("sum", b.call("exp", b.call("subtract", x, peak)), axis=along, keepdims=True))
    y = b.call("add", total, peak)
    if keepdims:
        return y
    return b.call("squeeze", y, axis=tuple(range(b.tensor(x).ndim)) if along is None else along)


def _one_hot(b: Relay, indices: Expr, on: Expr, off: Expr, depth: int, axis: int, dtype: Any) -> Expr:
    wide = b.cast(indices, INT64.name)
    return b.relax("one_hot", [wide, b.cast(on, dtype), b.cast(off, dtype)], depth=depth, axis=axis)


ROWS: dict[str, Row] = {
    **{
        op.relax: same("data" if len(op.operands) == 1 else "lhs rhs", op.name) for op in OPERATORS.values() if op.relax
    },
    **{name: make_row("data", lambda b, x: x) for name in IDENTITY.split()},
    **{name: make_row("data", _relaxed(name)) for name in ("rsqrt", "sign", "isnan", "isinf", "isfinite", "trunc")},
    **{name: make_row("lhs rhs", _relaxed(name)) for name in ("divide", "floor_divide", "floor_mod", "mod")},
    "device_copy": make_row(
        "data", _device_copy, src_virtual_device=None, dst_virtual_device=None, src_dev_type=None, dst_dev_type=None
    ),
    "on_device": make_row(
        "data",
        _on_device,
        virtual_device=None,
        constrain_result=False,
        constrain_body=True,
        device_type=None,
        is_fixed=None,
    ),
    "annotation.compiler_begin": make_row("data", lambda b, x, *, compiler: x, compiler=None),
    "annotation.compiler_end": make_row("data", lambda b, x, *, compiler: x, compiler=None),
    "round": make_row("data", _round),
    "where": make_row("condition x y", _where),
    "clip": make_row("data", _clip, a_min=MISSING, a_max=MISSING),
    "cast": make_row("data", lambda b, x, *, dtype: b.cast(x, dtype), dtype=MISSING),
    "cast_like": make_row("data dtype_like", lambda b, x, y: b.cast(x, b.tensor(y).dtype.name)),
    "nn.leaky_relu": same("data", "nn.leakyrelu", alpha=0.01),
    "nn.prelu": make_row("data alpha", _prelu, axis=1),
    "full": make_row("fill_value sizes?", _full, shape=None, dtype=""),
    "dyn.full": make_row("fill_value sizes", _full, shape=None, dtype=""),
    **{dialect + name: _uniform(name) for dialect in ("", "dyn.") for name in ("zeros", "ones")},
    **{name: relax("data", name) for name in ("zeros_like", "ones_like")},
    "full_like": make_row("data fill_value", _full_like),
    "arange": make_row("start stop step", _arange, dtype="", start=None, stop=None, step=None),
    "shape_of": make_row("data", _shape_of, dtype="int32"),
    "vm.shape_of": make_row("data", _shape_of, dtype="int64"),
    "ndarray_size": make_row("data", _ndarray_size, dtype="int32"),
    "one_hot": make_row("indices on_value off_value", _one_hot, depth=MISSING, axis=-1, dtype=""),
    **{name: _reduction(name) for name in ("sum", "prod", "max", "min")},
    "mean": make_row("data", _mean, axis=None, keepdims=False, exclude=False),
    "all": _some("min"),
    "any": _some("max"),
    "variance": make_row("data mean", _variance, axis=None, keepdims=False, exclude=False, unbiased=False),
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "logsumexp": make_row("data", _logsumexp, axis=None, keepdims=False, exclude=False),
    "trilu": make_row("data k", lambda b, x, k, *, upper: b.relax("triu" if upper else "tril", [x, k]), upper=True),
}
