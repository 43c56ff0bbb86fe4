"""Operations of StableHLO that move elements (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.elementwise import as_bits
from assay.lower.frontends.stretching import stretched, to_reshape
from assay.semantics.dtypes import BOOL, DTYPES, DType
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.scalar import Dim, provably_equal, simplify


def wanted_shape(node: HloNode) -> tuple[Dim, ...]:
    """The sizes of the result where no operand says them: those of the text."""
    return node.static_result()


def computed_shape(node: HloNode, index: int) -> tuple[Dim, ...]:
    """The sizes that an operand holds."""
    of = tensor_of(node.args[index]) if index < len(node.args) else None
    if of is None or of.ndim != 1 or not of.is_static or not of.dtype.is_integer:
        raise node.wrong(f"operand {index} is a vector of sizes, whole numbers, of known length")
    return node.builder.dims(node.args[index], "size")


def broadcast_in_dim(node: HloNode) -> Expr:
    """The operand along other axes: its axis i is the axis dims[i] of the result, of the same size or stretched from
    1."""
    dynamic = node.op.name == "stablehlo.dynamic_broadcast_in_dim"
    node.operands(2 if dynamic else 1)
    x = node.args[0]
    if node.lifted:
        return x
    shape = computed_shape(node, 1) if dynamic else wanted_shape(node)
    axes = node.axes(len(shape), "broadcast_dimensions", "dims")
    if len(axes) != tensor_of(x).ndim:
        raise node.wrong(f"dims is {axes} for an operand {x.type}")
    return along(node, x, axes, shape)


def along(node: HloNode, x: Expr, axes: Sequence[int], shape: Sequence[Dim]) -> Expr:
    """`x` whose axes are those of a shape, stretched to it."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order != list(range(len(axes))):
        x = node.call("permute_dims", x, axes=tuple(order))
    for a, d in zip(sorted(axes), tensor_of(x).shape, strict=True):
        if isinstance(d, int) and d != 1 and isinstance(shape[a], int) and d != shape[a]:
            raise node.wrong(f"an axis of {d} elements does not become one of {shape[a]}")
    sizes = dict(zip(sorted(axes), tensor_of(x).shape, strict=True))
    x = node.shaped(x, *(sizes.get(a, 1) for a in range(len(shape))))
    x = stretched(node.builder, x, tuple(shape), node.builder.span)
    return node.stretched(x if isinstance(x, Var) else node.builder.named(x), *shape)


def reshape(node: HloNode) -> Expr:
    """The same elements, row-major, in another shape."""
    if node.lifted:
        return node.args[0]
    dynamic = node.op.name == "stablehlo.dynamic_reshape"
    node.operands(2 if dynamic else 1)
    shape = computed_shape(node, 1) if dynamic else wanted_shape(node)
    x, shape = to_reshape(node.builder, node.args[0], shape, node.builder.span)
    return node.shaped(x, *shape)


def iota(node: HloNode) -> Expr:
    """The place along an axis, at each place."""
    dynamic = node.op.name == "stablehlo.dynamic_iota"
    shape = computed_shape(node, 0) if dynamic else wanted_shape(node)
    axis, of = node.axis(len(shape), "iota_dimension", "dim"), node.result().dtype
    return along(node, node.line(shape[axis], of), (axis,), shape)


def transpose(node: HloNode) -> Expr:
    """The axes in another order."""
    node.operands(1)
    axes = node.axes(tensor_of(node.args[0]).ndim, "permutation", "dims")
    if len(axes) != tensor_of(node.args[0]).ndim:
        raise node.wrong(f"dims is {axes} for an operand {node.args[0].type}")
    return node.call("permute_dims", node.args[0], axes=axes)


def reverse(node: HloNode) -> Expr:
    """Some axes backwards."""
    node.operands(1)
    return backwards(node, node.args[0], node.axes(tensor_of(node.args[0]).ndim, "dimensions", "dims"))


def backwards(node: HloNode, x: Expr, axes: Sequence[int]) -> Expr:
    """`x` with axes backwards."""
    n = len(axes)
    if not n:
        return x
    ends = (-(2**63),) * n
    return node.call("strided_slice", x, axes=tuple(axes), begin=(-1,) * n, end=ends, strides=(-1,) * n)


def concatenate(node: HloNode) -> Expr:
    """The operands behind one another along an axis."""
    node.operands(1, 1 << 16)
    first = tensor_of(node.args[0])
    axis = node.axis(first.ndim, "dimension", "dim")
    parts = [node.args[0]]
    for a in node.args[1:]:
        if tensor_of(a).ndim != first.ndim or tensor_of(a).dtype is not first.dtype:
            raise node.wrong(f"the operands are {first} and {a.type}")
        size = tensor_of(a).shape[axis]
        parts.append(node.claimed(a, (*first.shape[:axis], size, *first.shape[axis + 1 :])))
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis)


def slice_(node: HloNode) -> Expr:
    """Every stride-th element from a start on and before a limit."""
    node.operands(1)
    x = node.args[0]
    begin, end, strides = (node.ints(n) for n in ("start_indices", "limit_indices", "strides"))
    for b, e, s, d in zip(begin, end, strides, tensor_of(x).shape, strict=False):
        if s < 1 or not 0 <= b <= e or (isinstance(d, int) and e > d):
            raise node.wrong(f"[{b}:{e}:{s}] of an axis of size {d}")
    return sliced(node, x, begin, end, strides)


def sliced(node: HloNode, x: Expr, begin: Sequence[Dim], end: Sequence[Dim], strides: Sequence[int]) -> Expr:
    """A slice along all axes."""
    if not len(begin) == len(end) == len(strides) == tensor_of(x).ndim:
        raise node.wrong(f"{len(begin)} starts for an operand {x.type}")
    axes = tuple(range(len(begin)))
    return node.call("strided_slice", x, axes=axes, begin=tuple(begin), end=tuple(end), strides=tuple(strides))


def real_dynamic_slice(node: HloNode) -> Expr:
    """A slice whose starts, limits and strides are operands."""
    node.operands(4)
    begin, end, strides = (computed_shape(node, k) for k in (1, 2, 3))
    known = [s for s in strides if isinstance(s, int)]
    if len(known) != len(strides):
        raise node.unsupported("a stride that only a run knows")
    return sliced(node, node.args[0], begin, end, known)


def known_number(node: HloNode, x: Expr) -> float | int | bool | None:
    """The number that a scalar is, where the text says it."""
    found: Expr | None = x
    while isinstance(found, Var):
        found = node.builder.values.get(found)
    if not isinstance(found, Constant) or found.data.size != 1:
        return None
    value = found.data.reshape(-1)[0]
    kind = tensor_of(found).dtype.kind
    return bool(value) if kind == "bool" else float(value) if kind == "float" else int(value)


def pad(node: HloNode) -> Expr:
    """The operand with a value around it and between its elements; below 0 elements are taken away."""
    if node.op.name == "stablehlo.dynamic_pad":
        node.operands(5)
        read = [computed_shape(node, k) for k in (2, 3, 4)]
        widths = [tuple(d for d in r if isinstance(d, int)) for r in read]
        if any(len(w) != len(r) for w, r in zip(widths, read, strict=True)):
            raise node.unsupported("a padding that only a run knows")
        low, high, interior = widths
    else:
        node.operands(2)
        names = (("edge_padding_low", "low"), ("edge_padding_high", "high"), ("interior_padding", "interior"))
        low, high, interior = (node.ints(*n) for n in names)
    x, value = node.args[:2]
    if not len(low) == len(high) == len(interior) == tensor_of(x).ndim or min(interior, default=0) < 0:
        raise node.wrong(f"low {low}, high {high} and interior {interior} for an operand {x.type}")
    return padded(node, x, value, low, high, interior)


def padded(
    node: HloNode, x: Expr, value: Expr, low: Sequence[int], high: Sequence[int], interior: Sequence[int] = ()
) -> Expr:
    """`x` padded with a scalar."""
    if not any((*low, *high, *interior)):
        return x
    of = tensor_of(x).dtype
    number = known_number(node, value)
    if of is not BOOL and number is not None and np.isfinite(number):
        if number != 0 or not np.signbit(number):
            return spread(node, x, number, low, high, interior)
    whole = spread(node, x, 0, low, high, interior) if of is not BOOL else x
    everywhere = node.stretched(node.constant(1, DTYPES["uint8"]), *tensor_of(x).shape)
    inside = node.call("equal", spread(node, everywhere, 0, low, high, interior), 1)
    if of is BOOL:
        bits = spread(node, node.cast(x, DTYPES["uint8"]), 0, low, high, interior)
        whole = node.call("equal", bits, 1)
    return node.call("where", inside, whole, value)


def spread(
    node: HloNode, x: Expr, number: float, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Expr:
    """`x` padded with a number."""
    for a, between in enumerate(interior):
        if between:
            shape = tensor_of(x).shape
            apart = node.shaped(x, *shape[: a + 1], 1, *shape[a + 1 :])
            widths = [0] * (2 * len(shape) + 2)
            widths[len(shape) + 1 + a + 1] = between
            apart = node.call("nn.pad", apart, pad_width=tuple(widths), mode="constant", pad_value=number)
            x = node.shaped(apart, *shape[:a], simplify(shape[a] * (between + 1)), *shape[a + 1 :])
            x = node.cut(x, a, 0, -between)
    if not any((*low, *high)):
        return x
    return node.call("nn.pad", x, pad_width=(*low, *high), mode="constant", pad_value=number)


def get_dimension_size(node: HloNode) -> Expr:
    """The size of an axis, as an int32."""
    node.operands(1)
    axis = node.axis(tensor_of(node.args[0]).ndim, "dimension", "dim")
    size = node.take_axis(node.call("shape_of", node.args[0]), axis, 0)
    return node.call("astype", size, dtype="int32", open=False)


def set_dimension_size(node: HloNode) -> Expr:
    """The first elements of an axis, as many as the operand says."""
    node.operands(2)
    axis = node.axis(tensor_of(node.args[0]).ndim, "dimension", "dim")
    (size,) = node.builder.dims(node.shaped(node.args[1], 1), "size")
    return node.cut(node.args[0], axis, 0, size)


def bitcast_convert(node: HloNode) -> Expr:
    """The bits as other elements: as many, or each as several, the lowest bits first, or several as one."""
    node.operands(1)
    (x,) = node.args
    of, to = tensor_of(x).dtype, node.result().dtype
    if of is to:
        return x
    for d in (of, to):
        if d.is_float and d.bits < 8:
            raise Unsupported(f"the bits of {d} are not handled", label="stablehlo.C7")
    raw = node.cast(x, DTYPES["uint8"]) if of is BOOL else as_bits(node, x)
    if of.bits > to.bits:
        raw = split_bits(node, raw, of.bits, to.bits)
    elif of.bits < to.bits:
        raw = joined_bits(node, raw, of.bits, to.bits)
    return from_bits(node, raw, to)


def split_bits(node: HloNode, raw: Expr, wide: int, narrow: int) -> Expr:
    """Each element as several, along a new last axis."""
    uint = tensor_of(raw).dtype
    shifts = node.constant(np.arange(wide // narrow) * narrow, uint)
    parts = node.call("right_shift", node.shaped(raw, *tensor_of(raw).shape, 1), shifts)
    return node.call("bitwise_and", parts, (1 << narrow) - 1)


def joined_bits(node: HloNode, raw: Expr, narrow: int, wide: int) -> Expr:
    """The last axis as one element."""
    shape, uint = tensor_of(raw).shape, DTYPES[f"uint{wide}"]
    if not shape or not provably_equal(shape[-1], wide // narrow):
        raise node.wrong(f"the operand's last axis is of size {wide // narrow}")
    shifts = node.constant(np.arange(wide // narrow) * narrow, uint)
    moved = node.call("left_shift", node.cast(raw, uint), shifts)
    return node.call("sum", moved, axis=(len(shape) - 1,), keepdims=False)


def from_bits(node: HloNode, raw: Expr, to: DType) -> Expr:
    """Unsigned numbers as elements with these bits."""
    if to is BOOL:
        return node.call("not_equal", raw, 0)
    raw = node.cast(raw, DTYPES[f"uint{to.bits}"])
    return raw if to.kind == "uint" else node.call("reinterpret", raw, dtype=to.name)


TABLE: dict[str, HloRule] = {
    "stablehlo.bitcast_convert": bitcast_convert,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.concatenate": concatenate,
    "stablehlo.dynamic_broadcast_in_dim": broadcast_in_dim,
    "stablehlo.dynamic_iota": iota,
    "stablehlo.dynamic_pad": pad,
    "stablehlo.dynamic_reshape": reshape,
    "stablehlo.get_dimension_size": get_dimension_size,
    "stablehlo.iota": iota,
    "stablehlo.pad": pad,
    "stablehlo.real_dynamic_slice": real_dynamic_slice,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": reverse,
    "stablehlo.set_dimension_size": set_dimension_size,
    "stablehlo.slice": slice_,
    "stablehlo.transpose": transpose,
}
