"""Parts of a tensor: slices of an axis, and what one is with a part replaced (specs/lower.md, "torch.export")."""

from __future__ import annotations

from dataclasses import dataclass

from assay.lower.frontends.torch_export.node import AtenNode, aten_type
from assay.lower.frontends.torch_export.sizes import larger
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import ceil_div
from assay.semantics.scalar import Dim, simplify


@dataclass(frozen=True)
class Part:
    """A part of an axis: from a place to a place, by steps."""

    axis: int
    begin: Dim
    end: Dim
    step: int


BEYOND = 1 << 62


def part_of(node: AtenNode, x: Expr) -> Part:
    """The part that `slice` and `narrow` take."""
    shape = aten_type(x).shape
    axis = node.axis(len(shape), default=0)
    if node.name.startswith("narrow"):
        start = node.sizes("start")[0]
        return Part(axis, start, simplify(start + node.sizes("length")[0]), 1)
    begin, end = (node.get(n, None) for n in ("start", "end"))
    if isinstance(begin, Expr) or isinstance(end, Expr):
        raise node.unsupported("a place that a loop computes")
    step = node.whole("step", 1)
    if step < 1:
        raise node.wrong(f"step is {step}")
    size = shape[axis]
    begin = 0 if begin is None else _place(begin, size)
    end = size if end is None or (isinstance(end, int) and end >= BEYOND) else _place(end, size)
    if isinstance(begin, int) and isinstance(end, int):
        end = max(begin, end)
    return Part(axis, begin, end, step)


def _place(at: Dim, size: Dim) -> Dim:
    """A place that may be counted from the end, within an axis where both are known; not before its begin."""
    if isinstance(at, int) and isinstance(size, int):
        return min(max(at + size if at < 0 else at, 0), size)
    return larger([simplify(size + at), 0]) if isinstance(at, int) and at < 0 else at


def slice_(node: AtenNode, x: Expr) -> list[Expr]:
    """A part of an axis."""
    p = part_of(node, x)
    size = aten_type(x).shape[p.axis]
    if p.step == 1 and isinstance(p.begin, int) and p.begin == 0 and p.end is size:
        return [x]
    return [node.cut(x, p.axis, p.begin, p.end, p.step)]


def with_part(node: AtenNode, whole: Expr, new: Expr, p: Part) -> Expr:
    """A tensor with a part of an axis replaced."""
    shape = aten_type(whole).shape
    size = shape[p.axis]
    known = isinstance(p.begin, int) and isinstance(p.end, int)
    at = slice(p.begin, p.end, p.step) if known else None
    if p.step == 1:
        parts = [new]
        if not (isinstance(p.begin, int) and p.begin == 0):
            parts.insert(0, node.cut(whole, p.axis, 0, p.begin))
        if p.end is not size and not (isinstance(p.end, int) and isinstance(size, int) and p.end >= size):
            parts.append(node.cut(whole, p.axis, larger([p.begin, p.end]), BEYOND))
        made = parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=p.axis)
        return _written(node, whole, new, node.stretched(made, *shape), p.axis, at)
    order = [p.axis, *(a for a in range(len(shape)) if a != p.axis)]
    count = aten_type(new).shape[p.axis]
    places = node.call("add", node.call("multiply", node.line(count), p.step), node.amount(p.begin))
    made = node.call("scatter_nd", node.permuted(whole, order), node.shaped(places, count, 1),
                     node.permuted(new, order), reduction="none")  # fmt: skip
    back = [order.index(a) for a in range(len(shape))]
    return _written(node, whole, new, node.permuted(made, back), p.axis, at)


def _written(node: AtenNode, whole: Expr, new: Expr, made: Expr, axis: int, at: slice | int | None) -> Expr:
    """What is made of a tensor by writing at places of an axis, None where these are not known. Of memory that is not
    set it is kept in mind what is, then."""
    of = node.builder.unset.get(whole)
    if of is not None and made is not new:
        node.builder.unset[made] = of.after(None if at is None else (slice(None),) * axis + (at,), new)
    return made


def slice_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    """The operand with the part of `slice` replaced."""
    return with_part(node, whole, new, part_of(node, whole))


def index_of(node: AtenNode, x: Expr) -> tuple[int, Dim | Expr]:
    """The axis and the place of `select`."""
    shape = aten_type(x).shape
    if not shape:
        raise node.wrong("a scalar has no axis")
    axis, at = node.axis(len(shape)), node.get("index")
    if isinstance(at, Expr):
        return axis, at
    size = shape[axis]
    if isinstance(at, int) and isinstance(size, int) and not -size <= at < size:
        raise node.wrong(f"index is {at} for an axis of size {size}")
    return axis, at if not isinstance(at, int) or at >= 0 else simplify(size + at)


def select(node: AtenNode, x: Expr) -> list[Expr]:
    """The slice at a place of an axis, which goes."""
    axis, at = index_of(node, x)
    place = at if isinstance(at, Expr) else node.amount(at)
    return [node.call("take", x, node.cast(place, INT64), axis=axis)]


def with_slice(node: AtenNode, whole: Expr, new: Expr, axis: int, at: Dim | Expr) -> Expr:
    """A tensor with the slice at a place of an axis replaced."""
    shape = aten_type(whole).shape
    order = [axis, *(a for a in range(len(shape)) if a != axis)]
    place = at if isinstance(at, Expr) else node.amount(at)
    made = node.call("scatter_nd", node.permuted(whole, order), node.shaped(node.cast(place, INT64), 1, 1),
                     node.shaped(new, 1, *(shape[a] for a in order[1:])), reduction="none")  # fmt: skip
    back = [order.index(a) for a in range(len(shape))]
    return _written(node, whole, new, node.permuted(made, back), axis, at if isinstance(at, int) else None)


def select_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    """The operand with the slice of `select` replaced."""
    return with_slice(node, whole, new, *index_of(node, whole))


def cuts(node: AtenNode, x: Expr) -> list[Part]:
    """The parts of `split`, `chunk` and their kin."""
    shape = aten_type(x).shape
    along = {"hsplit": min(1, len(shape) - 1), "vsplit": 0, "dsplit": 2}.get(node.name)
    axis = node.axis(len(shape), default=0) if along is None else along
    if axis >= len(shape):
        raise node.wrong(f"its operand is {x.type}; {axis + 1} axes are wanted")
    size = shape[axis]
    match node.name:
        case "split_with_sizes" | "unsafe_split_with_sizes":
            sizes = node.sizes("split_sizes")
        case "split" if isinstance(node.get("split_size", None), list):
            sizes = node.sizes("split_size")
        case "tensor_split" | "hsplit" | "vsplit" | "dsplit":
            return [Part(axis, begin, end, 1) for begin, end in _places_between(node, number_of_size(node, size))]
        case _:
            whole = number_of_size(node, size)
            step = ceil_div(whole, node.whole("chunks")) if "chunks" in node.args else node.whole("split_size")
            assert isinstance(step, int)
            sizes = [min(step, whole - k) for k in range(0, whole, step)] if step > 0 and whole else [whole]
    parts: list[Part] = []
    begin: Dim = 0
    for s in sizes:
        end = simplify(begin + s)
        parts.append(Part(axis, begin, end, 1))
        begin = end
    return parts


def _places_between(node: AtenNode, size: int) -> list[tuple[int, int]]:
    """Where the parts of `tensor_split` begin and end: as many that are as long as can be, the longer ones first, or
    what lies between places, which may be below zero, beyond the end, or not in order."""
    if "sections" in node.args:
        count = node.whole("sections")
        if count < 1:
            raise node.wrong(f"sections is {count}; a number above 0 is wanted")
        ends = [size // count * k + min(k, size % count) for k in range(1, count)]
    else:
        ends = node.wholes("indices")
    cut = [slice(a, b).indices(size) for a, b in zip([0, *ends], [*ends, size], strict=True)]
    return [(begin, max(begin, end)) for begin, end, _ in cut]


def number_of_size(node: AtenNode, size: Dim) -> int:
    """A size that has to be a number. Unsupported (`torch_export.C7`): it is none."""
    if not isinstance(size, int):
        raise node.unsupported(f"an axis of size {size}, which has to be a number")
    return size


def split(node: AtenNode, x: Expr) -> list[Expr]:
    """An axis cut into parts."""
    return [node.cut(x, p.axis, p.begin, p.end) for p in cuts(node, x)]


def split_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    """The operand with one of the parts replaced."""
    return with_part(node, whole, new, cuts(node, whole)[index])


def unbind(node: AtenNode, x: Expr) -> list[Expr]:
    """All slices of an axis."""
    axis = node.axis(aten_type(x).ndim, default=0)
    count = number_of_size(node, aten_type(x).shape[axis])
    return [node.call("take", x, node.constant(k, INT64), axis=axis) for k in range(count)]


def unbind_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    """The operand with one of the slices replaced."""
    return with_slice(node, whole, new, node.axis(aten_type(whole).ndim, default=0), index)
