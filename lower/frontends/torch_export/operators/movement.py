"""Operators of ATen that move elements, or make them, and give no view (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops, "Creation Ops".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.lower.frontends.stablehlo.build import Unset
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.counts import repeated
from assay.lower.frontends.torch_export.operators.parts import index_of, part_of, with_part, with_slice
from assay.semantics import scalar
from assay.semantics.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify

LAST = -(2**63)
"""Where a backward slice ends that takes the first element too."""


def cat(node: AtenNode) -> Expr:
    """One behind the other along an axis. An empty vector is left out, as in PyTorch."""
    xs = node.together(*node.tensors("tensors"))
    most = max(aten_type(x).ndim for x in xs)
    xs = [x for x in xs if aten_type(x).ndim == most or aten_type(x).shape != (0,)]
    return node.call("concat", *xs, axis=node.axis(most, default=0)) if len(xs) > 1 else xs[0]


def stack(node: AtenNode) -> Expr:
    """Along a new axis."""
    xs = node.together(*node.tensors("tensors"))
    shape = aten_type(xs[0]).shape
    axis = node.axis(len(shape) + 1, default=0)
    xs = [node.shaped(x, *shape[:axis], 1, *shape[axis:]) for x in xs]
    return node.call("concat", *xs, axis=axis) if len(xs) > 1 else xs[0]


def diff(node: AtenNode) -> Expr:
    """What each element along an axis is above the one before, as often as is said; of bools, whether they differ."""
    x = node.tensor()
    axis = node.axis(aten_type(x).ndim, default=-1)
    more = [node.optional(n) for n in ("prepend", "append")]
    parts = [p for p in (more[0], x, more[1]) if p is not None]
    x = node.call("concat", *parts, axis=axis) if len(parts) > 1 else x
    op = "not_equal" if aten_type(x).dtype is BOOL else "subtract"
    for _ in range(node.whole("n", 1)):
        size = aten_type(x).shape[axis]
        x = node.call(op, node.cut(x, axis, 1, size), node.cut(x, axis, 0, simplify(size - 1)))
    return x


def repeat(node: AtenNode) -> Expr:
    """The whole, so many times along each axis."""
    x = node.tensor()
    times = node.sizes("repeats" if "repeats" in node.args else "dims")
    shape = aten_type(x).shape
    times = [*[1] * (len(shape) - len(times)), *times]
    shape = (*(1,) * (len(times) - len(shape)), *shape)
    x = node.shaped(x, *(s for d in shape for s in (1, d)))
    x = node.stretched(x, *(s for t, d in zip(times, shape, strict=True) for s in (t, d)))
    return node.shaped(x, *(product([t, d]) for t, d in zip(times, shape, strict=True)))


def repeat_interleave(node: AtenNode) -> Expr:
    """Each element so many times."""
    if isinstance(node.get("repeats"), Expr):
        return repeated(node)
    x, times = node.tensor(), node.sizes("repeats")[0]
    if not node.has("dim"):
        x = node.shaped(x, product(aten_type(x).shape))
    shape = aten_type(x).shape
    axis = node.axis(len(shape)) if node.has("dim") else 0
    x = node.shaped(x, *shape[: axis + 1], 1, *shape[axis + 1 :])
    x = node.stretched(x, *shape[: axis + 1], times, *shape[axis + 1 :])
    return node.shaped(x, *shape[:axis], product([shape[axis], times]), *shape[axis + 1 :])


def flip(node: AtenNode) -> Expr:
    """The other way round along axes."""
    x = node.tensor()
    axes = node.axes(aten_type(x).ndim, "dims") if node.wholes("dims") else ()
    many = len(axes)
    if not many:
        return x
    return node.call("strided_slice", x, axes=axes, begin=(-1,) * many, end=(LAST,) * many, strides=(-1,) * many)


def roll(node: AtenNode) -> Expr:
    """Moved along axes; what leaves at the end comes in at the front."""
    x = node.tensor()
    shape = aten_type(x).shape
    shifts, dims = node.wholes("shifts"), node.wholes("dims", [])
    if not dims:
        flat = node.shaped(x, product(shape))
        return node.shaped(roll(node.with_(self=flat, dims=[0])), *shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis, size = dim % len(shape), shape[dim]
        shift = shift % size if isinstance(size, int) and size else shift
        if not shift:
            continue
        at = simplify(size - shift) if shift > 0 else -shift
        x = node.call("concat", node.cut(x, axis, at, 1 << 62), node.cut(x, axis, 0, at), axis=axis)
    return node.stretched(x, *shape)


def pad(node: AtenNode) -> Expr:
    """Elements before and after the last axes: a number, the operand mirrored, its border, or itself again."""
    x = node.tensor()
    rank = aten_type(x).ndim
    mode = node.get("mode", "constant")
    for stem, said in (("reflection", "reflect"), ("replication", "replicate")):
        mode = said if node.name.startswith(stem) else mode
    widths = node.wholes("padding" if "padding" in node.args else "pad")
    before, after = [0] * rank, [0] * rank
    for k in range(len(widths) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = widths[2 * k], widths[2 * k + 1]
    if mode == "circular":
        return _circular(node, x, before, after)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise node.wrong(f"mode is {mode!r}")
    value = node.args.get("value")
    number = _as_element(node, 0.0 if value is None else node.number("value"), aten_type(x).dtype)
    return node.call("nn.pad", x, pad_width=(*before, *after), mode=modes[mode], pad_value=number)


def _as_element(node: AtenNode, value: float, of: DType) -> float:
    """A number as an element: a whole one loses its fraction, and has to be one of the dtype."""
    if of.is_float or of is BOOL:
        return value
    if not of.min <= (math.trunc(value) if math.isfinite(value) else value) <= of.max:
        raise node.wrong(f"value is {value}, which is no number of {of}")
    return math.trunc(value)


def _circular(node: AtenNode, x: Expr, before: Sequence[int], after: Sequence[int]) -> Expr:
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = aten_type(x).shape[axis]
        if low < 0 or high < 0:
            raise node.unsupported("circular padding that cuts")
        parts = [x]
        if low:
            parts.insert(0, node.cut(x, axis, simplify(size - low), size))
        if high:
            parts.append(node.cut(x, axis, 0, high))
        x = node.call("concat", *parts, axis=axis) if len(parts) > 1 else x
    return x


def triangle(lower: bool) -> AtenRule:
    """Elements below, or above, a diagonal; 0 elsewhere."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        shape, of = aten_type(x).shape, aten_type(x).dtype
        row, column = node.shaped(node.line(shape[-2]), shape[-2], 1), node.line(shape[-1])
        edge = node.call("add", row, node.as_tensor(node.get("diagonal", 0), INT64))
        keep = node.call("greater_equal" if lower else "less_equal", edge, column)
        return node.call("where", keep, x, node.constant(0, of))

    return rule


def diag_embed(node: AtenNode) -> Expr:
    """The last axis as a diagonal of two axes; 0 elsewhere."""
    x = node.tensor()
    shape = aten_type(x).shape
    rank = len(shape) + 1
    offset, one, two = node.whole("offset", 0), node.axis(rank, "dim1", -2), node.axis(rank, "dim2", -1)
    if (offset, one, two) != (0, rank - 2, rank - 1):
        raise node.unsupported("an offset or other axes than the last")
    row, column = node.shaped(node.line(shape[-1]), shape[-1], 1), node.line(shape[-1])
    wide = node.shaped(x, *shape, 1)
    return node.call("where", node.call("equal", row, column), wide, node.constant(0, aten_type(x).dtype))


def shuffled(node: AtenNode) -> Expr:
    """Channels as places, places as channels, or channels among groups."""
    x = node.tensor()
    shape = aten_type(x).shape
    match node.name:
        case "pixel_shuffle":
            r = node.whole("upscale_factor")
            *outer, channels, h, w = shape
            n = len(outer)
            x = node.shaped(x, *outer, _by(node, channels, r * r), r, r, h, w)
            x = node.permuted(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
            return node.shaped(x, *outer, _by(node, channels, r * r), product([h, r]), product([w, r]))
        case "pixel_unshuffle":
            r = node.whole("downscale_factor")
            *outer, channels, h, w = shape
            n = len(outer)
            x = node.shaped(x, *outer, channels, _by(node, h, r), r, _by(node, w, r), r)
            x = node.permuted(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
            return node.shaped(x, *outer, product([channels, r * r]), _by(node, h, r), _by(node, w, r))
    groups = node.whole("groups")
    each = _by(node, shape[1], groups)
    x = node.permuted(node.shaped(x, shape[0], groups, each, *shape[2:]), (0, 2, 1, *range(3, len(shape) + 1)))
    return node.shaped(x, *shape)


def _by(node: AtenNode, size: Dim, by: int) -> int:
    if not isinstance(size, int) or size % by:
        raise node.unsupported(f"a size of {size}, which has to be a multiple of {by}")
    return size // by


# --- creation


def full(value: float | None = None, like: bool = False) -> AtenRule:
    """One number everywhere."""

    def rule(node: AtenNode) -> Expr:
        of = node.dtype(aten_type(node.tensor()).dtype if like else None)
        shape: Sequence[Dim] = aten_type(node.tensor()).shape if node.name.endswith("_like") else node.sizes("size")
        given = node.operand("value" if "value" in node.args else "fill_value") if value is None else value
        return node.full(shape, given, of)

    return rule


def unset(node: AtenNode) -> Expr:
    """Whatever was in memory: of a shape and a dtype that others may ask for, and nothing may hang on its elements."""
    found = node.builder.named(full(0, like="self" in node.args)(node), "unset")
    del node.builder.values[found]  # nobody knows what it holds
    said = f"{node.name}: as far as is known, a result hangs on its elements, which are whatever was in memory"
    of = aten_type(found)
    known = of.is_static and math.prod(of.static_shape) <= MOST_FOLLOWED
    rest = np.ones(of.static_shape, bool) if known else None
    node.builder.unset[found] = Unset(Unsupported(said, where=node.builder.span, label="torch_export.C4"), rest)
    return found


MOST_FOLLOWED = 1 << 20
"""Elements of memory of which it is followed, one by one, which are set."""


def fill(node: AtenNode) -> Expr:
    """A number in place of every element."""
    of = aten_type(node.tensor())
    value = 0 if node.name.startswith("zero") else node.operand("value")
    return node.full(of.shape, value, of.dtype)


def copied_from(node: AtenNode) -> Expr:
    """The elements of another tensor in the dtype and the shape of this one."""
    of = aten_type(node.tensor())
    return node.stretched(node.cast(node.tensor("src"), of.dtype), *of.shape)


def arange(node: AtenNode) -> Expr:
    """start, start + step, ... before the end."""
    start, end, step = node.get("start", 0), node.get("end"), node.get("step", 1)
    of = node.dtype()
    if all(isinstance(v, (int, scalar.Expr)) for v in (start, end, step)):
        if not isinstance(step, int) or not step:
            raise node.unsupported(f"step = {step}")
        reach = simplify(end - start) if step > 0 else simplify(start - end)
        size = _steps(reach, abs(step))
        y = node.line(size)
        y = y if step == 1 else node.call("multiply", y, step)
        return node.cast(node.call("add", y, node.as_tensor(start, INT64)), of)
    first, last, by = (float(node.number(n, d)) for n, d in (("start", 0), ("end", 0), ("step", 1)))
    size = max(math.ceil((last - first) / by), 0)
    y = node.call("multiply", node.line(size, FLOAT64), by)
    return node.cast(node.call("add", y, first), of)


def _steps(reach: Dim, step: int) -> Dim:
    if isinstance(reach, int):
        return max(-(-reach // step), 0)
    return reach if step == 1 else simplify((reach + (step - 1)) // step)


def linspace(node: AtenNode) -> Expr:
    """So many numbers at one distance; those of the second half are counted from the end."""
    start, end, steps = node.number("start"), node.number("end"), node.whole("steps")
    of = node.dtype(FLOAT32)
    if not of.is_float or steps < 2:
        raise node.unsupported(f"{steps} steps of {of}")
    return spaced(node, float(start), float(end), steps, of)


def spaced(node: AtenNode, start: float, end: float, steps: int, of: DType) -> Expr:
    """The same of numbers, two of them at least."""
    work = of if of.bits >= 32 else FLOAT32
    line = node.line(steps, work)
    by = node.call("divide", node.call("subtract", node.as_tensor(end, work), start), steps - 1)
    up = node.call("add", node.call("multiply", line, by), start)
    left = node.call("subtract", node.constant(steps - 1, work), line)
    down = node.call("subtract", node.as_tensor(end, work), node.call("multiply", by, left))
    return node.cast(node.call("where", node.call("less", line, steps // 2), up, down), of)


def eye(node: AtenNode) -> Expr:
    """1 on the diagonal, 0 elsewhere."""
    rows = node.sizes("n")[0]
    columns = node.sizes("m")[0] if "m" in node.args else rows
    same = node.call("equal", node.shaped(node.line(rows), rows, 1), node.line(columns))
    return node.cast(same, node.dtype(FLOAT32))


def triangle_places(lower: bool) -> AtenRule:
    """The rows and the columns of the elements of a triangle, one row after another."""

    def rule(node: AtenNode) -> Expr:
        rows, columns, offset = node.whole("row"), node.whole("col"), node.whole("offset", 0)
        every = [(r, c) for r in range(rows) for c in range(columns) if (c - r <= offset if lower else c - r >= offset)]
        return node.constant([[r for r, _ in every], [c for _, c in every]], node.dtype(INT64))

    return rule


def scalar_tensor(node: AtenNode) -> Expr:
    """A number as a tensor without axes."""
    of: DType = node.dtype()
    return node.as_tensor(node.operand("s"), of)


def one_hot(node: AtenNode) -> Expr:
    """1 at the place that each number says, 0 elsewhere."""
    x = node.tensor()
    count = node.whole("num_classes", -1)
    if count < 0:
        raise node.unsupported("a number of classes that only a run knows")
    within = node.call("logical_and", node.call("greater_equal", x, 0), node.call("less", x, count))
    node.require(node.every(within), f"a class is below 0, or not below {count}")
    wide = node.shaped(x, *aten_type(x).shape, 1)
    return node.cast(node.call("equal", wide, node.line(count)), INT64)


TABLE: dict[str, AtenRule] = {
    "arange": arange,
    "cat": cat,
    "channel_shuffle": shuffled,
    "concat": cat,
    "constant_pad_nd": pad,
    "copy": copied_from,
    "diag_embed": diag_embed,
    "diff": diff,
    "empty": unset,
    "empty_like": unset,
    "empty_permuted": unset,
    "empty_strided": unset,
    "eye": eye,
    "fill": fill,
    "flip": flip,
    "full": full(),
    "full_like": full(like=True),
    "linspace": linspace,
    "new_empty": unset,
    "new_empty_strided": unset,
    "new_full": full(like=True),
    "new_ones": full(1, like=True),
    "new_zeros": full(0, like=True),
    "one_hot": one_hot,
    "ones": full(1),
    "ones_like": full(1, like=True),
    "pad": pad,
    "pixel_shuffle": shuffled,
    "pixel_unshuffle": shuffled,
    **{f"{stem}_pad{r}d": pad for stem in ("reflection", "replication") for r in (1, 2, 3)},
    "repeat": repeat,
    "repeat_interleave": repeat_interleave,
    "roll": roll,
    "scalar_tensor": scalar_tensor,
    "select_scatter": lambda node: with_slice(node, node.tensor(), node.tensor("src"), *index_of(node, node.tensor())),
    "slice_scatter": lambda node: with_part(node, node.tensor(), node.tensor("src"), part_of(node, node.tensor())),
    "stack": stack,
    "tile": repeat,
    "tril": triangle(lower=True),
    "tril_indices": triangle_places(lower=True),
    "triu": triangle(lower=False),
    "triu_indices": triangle_places(lower=False),
    "zero": fill,
    "zeros": full(0),
    "zeros_like": full(0, like=True),
}
