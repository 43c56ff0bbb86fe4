"""Operators whose result is a part of their operand's memory (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/tensor_view.html. What is written to such a result is written to the
operand. `reshape`, `flatten`, `contiguous` and `to` give a view or a copy, as the strides are. Where these do not show
which, what they give may be read, but not after either is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.lower.frontends.torch_export.cells import TensorCell
from assay.lower.frontends.torch_export.node import AtenNode, aten_type
from assay.lower.frontends.torch_export.operators.elementwise import dropout
from assay.lower.frontends.torch_export.operators.parts import (
    number_of_size,
    select,
    select_back,
    slice_,
    slice_back,
    split,
    split_back,
    unbind,
    unbind_back,
)
from assay.lower.frontends.torch_export.signature import DROPOUTS
from assay.semantics.dtypes import INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify

Array = npt.NDArray[Any]
Read = Callable[[AtenNode, Expr], Sequence[Expr]]
Back = Callable[[AtenNode, Expr, Expr, int], Expr]
"""The operand with a result replaced: of the operand, the result's new value, and which of the results it is."""


@dataclass(frozen=True)
class ViewRule:
    """How the results are read from the operand, and how one is written back."""

    read: Read
    back: Back | None = None
    sure: bool | Callable[[AtenNode, TensorCell], bool] = True
    """Whether the result is a view for certain; or what tells it of an operand."""
    operand: str = "self"

    def shared(self, given: Mapping[str, Any]) -> TensorCell | None:
        """The operand whose memory the results are a part of: of a list its only tensor; None if there are more."""
        found = given.get(self.operand, given.get("self"))  # which it is for all that are in place
        alone = found[0] if isinstance(found, list) and len(found) == 1 else found
        return alone if isinstance(alone, TensorCell) else None

    def cells(self, node: AtenNode, cell: TensorCell) -> list[TensorCell]:
        """The results."""
        found = self.read(node, cell.get())
        if self.sure is not True and aten_type(found[0]).dtype is not aten_type(cell.get()).dtype:
            return [TensorCell(x) for x in found]
        sure = self.sure if isinstance(self.sure, bool) else self.sure(node, cell)
        return [self._cell(node, cell, x, k, sure) for k, x in enumerate(found)]

    def _cell(self, node: AtenNode, cell: TensorCell, x: Expr, index: int, sure: bool) -> TensorCell:
        back = self.back
        write = None if back is None or not sure else lambda whole, new: back(node, whole, new, index)
        read = (lambda whole: self.read(node, whole)[index]) if sure else None
        return TensorCell(x, cell, read, write, seen=cell.version)

    def __call__(self, node: AtenNode) -> list[Expr] | Expr:
        """The results as values."""
        found = self.read(
            node, node.tensors(self.operand)[0] if self.operand == "tensors" else node.tensor(self.operand)
        )
        return found[0] if len(found) == 1 else list(found)


def _like(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    """Written back in another shape."""
    return node.shaped(new, *aten_type(whole).shape)


def _same(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    return new


def _reshaped(name: str) -> Read:
    return lambda node, x: [node.shaped(x, *node.sizes(name))]


def view(node: AtenNode, x: Expr) -> list[Expr]:
    """Another shape; or the same bytes as another dtype of the same width."""
    to = node.args.get("dtype")
    if not isinstance(to, DType):
        return [node.shaped(x, *node.sizes("size"))]
    of = aten_type(x).dtype
    if to.bits != of.bits or "bool" in (to.name, of.name):
        raise node.unsupported(f"elements of {of} as {to}")
    return [node.call("reinterpret", x, dtype=to.name)]


def _view_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    of = aten_type(whole).dtype
    if aten_type(new).dtype is not of:
        new = node.call("reinterpret", new, dtype=of.name)
    return node.shaped(new, *aten_type(whole).shape)


def _in_order(node: AtenNode, cell: TensorCell) -> bool:
    """What lies in the order of its elements is not copied."""
    return cell.in_order


def _not_asked(node: AtenNode, cell: TensorCell) -> bool:
    """A conversion to what is there already copies only what it is asked to."""
    return not node.flag("copy") and not node.has("memory_format")


# --- axes


def _order(node: AtenNode, rank: int) -> tuple[int, ...]:
    """The axes of the operand that the axes of the result are."""
    order = list(range(rank))
    match node.name:
        case "permute":
            return tuple(d % max(rank, 1) for d in node.wholes("dims"))
        case "t" | "numpy_T":
            return tuple(reversed(order))
        case "mT" | "adjoint" | "mH":
            return (*order[:-2], order[-1], order[-2])
        case "movedim" | "moveaxis":
            source, target = ([d % rank for d in node.wholes(n)] for n in ("source", "destination"))
            rest = iter([a for a in order if a not in source])
            at = dict(zip(target, source, strict=True))
            return tuple(at[a] if a in at else next(rest) for a in order)
    names = ("axis0", "axis1") if "axis0" in node.args else ("dim0", "dim1")
    a, b = (node.axis(rank, n) for n in names)
    if rank:
        order[a], order[b] = order[b], order[a]
    return tuple(order)


def permute(node: AtenNode, x: Expr) -> list[Expr]:
    """The axes in another order."""
    order = _order(node, aten_type(x).ndim)
    if sorted(order) != list(range(aten_type(x).ndim)):
        raise node.wrong(f"the axes {order} of {x.type}")
    return [node.permuted(x, order)]


def _permute_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    order = _order(node, aten_type(whole).ndim)
    return node.permuted(new, [order.index(a) for a in range(len(order))])


def squeeze(node: AtenNode, x: Expr) -> list[Expr]:
    """Without axes of size 1: of those that are said, or of all."""
    shape = aten_type(x).shape
    axes = node.axes(len(shape)) if "dim" in node.args else tuple(range(len(shape)))
    gone = [a for a in axes if a < len(shape) and isinstance(d := shape[a], int) and d == 1]
    return [node.shaped(x, *(d for a, d in enumerate(shape) if a not in gone))]


def unsqueeze(node: AtenNode, x: Expr) -> list[Expr]:
    """With one more axis, of size 1."""
    shape = aten_type(x).shape
    axis = node.axis(len(shape) + 1)
    return [node.shaped(x, *shape[:axis], 1, *shape[axis:])]


def _as_the_other(node: AtenNode, x: Expr) -> list[Expr]:
    return [node.shaped(x, *aten_type(node.tensor("other")).shape)]


def expand(node: AtenNode, x: Expr) -> list[Expr]:
    """Axes of size 1 as long as is said; -1 leaves one as it is."""
    of = aten_type(x)
    wanted = list(aten_type(node.tensor("other")).shape) if node.name == "expand_as" else node.sizes("size")
    more = len(wanted) - of.ndim
    if more < 0:
        raise node.wrong(f"{x.type} has more axes than {wanted}")
    keep = [isinstance(d, int) and d == -1 for d in wanted]
    if any(keep[:more]):
        raise node.wrong("-1 for a new axis")
    return [node.stretched(x, *(of.shape[a - more] if keep[a] else d for a, d in enumerate(wanted)))]


def flatten(node: AtenNode, x: Expr) -> list[Expr]:
    """Neighbouring axes as one."""
    shape = aten_type(x).shape
    a, b = node.axis(len(shape), "start_dim", 0), node.axis(len(shape), "end_dim", -1)
    return [node.shaped(x, *shape[:a], product(shape[a : b + 1]), *shape[b + 1 :])]


def unflatten(node: AtenNode, x: Expr) -> list[Expr]:
    """An axis as several."""
    shape = aten_type(x).shape
    axis = node.axis(len(shape))
    sizes = node.sizes("sizes")
    if any(isinstance(d, int) and d == -1 for d in sizes):
        rest = product([d for d in sizes if not (isinstance(d, int) and d == -1)])
        sizes = [_quotient(node, shape[axis], rest) if isinstance(d, int) and d == -1 else d for d in sizes]
    return [node.shaped(x, *shape[:axis], *sizes, *shape[axis + 1 :])]


def _quotient(node: AtenNode, size: Dim, by: Dim) -> Dim:
    if isinstance(by, int) and by == 0:
        raise node.wrong("sizes with -1 and 0")
    return size // by if isinstance(size, int) and isinstance(by, int) else simplify(size // by)


def to(node: AtenNode, x: Expr) -> list[Expr]:
    """Another dtype; where it lies and how says nothing of its value."""
    if node.name == "type_as":
        return [node.cast(x, aten_type(node.tensor("other")).dtype)]
    if isinstance(other := node.args.get("other"), Expr):
        return [node.cast(x, aten_type(other).dtype)]
    return [node.cast(x, node.dtype(aten_type(x).dtype))]


# --- by places


def _scattered(read: Read) -> Back:
    """Written back to the places that the elements come from, which are all different."""

    def back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
        shape, total = aten_type(whole).shape, product(aten_type(whole).shape)
        places = read(node, node.shaped(node.line(total), *shape))[index]
        count = product(aten_type(new).shape)
        made = node.call("scatter_nd", node.shaped(whole, total), node.shaped(places, count, 1),
                         node.shaped(new, count), reduction="none")  # fmt: skip
        return node.shaped(made, *shape)

    return back


def diagonal(node: AtenNode, x: Expr) -> list[Expr]:
    """The elements of a diagonal, along a last axis."""
    rank = aten_type(x).ndim
    offset, one, two = node.whole("offset", 0), node.axis(rank, "dim1", 0), node.axis(rank, "dim2", 1)
    rest = [a for a in range(rank) if a not in (one, two)]
    x = node.permuted(x, (*rest, one, two))
    shape = aten_type(x).shape
    rows, columns = number_of_size(node, shape[-2]), number_of_size(node, shape[-1])
    first = max(-offset, 0) * columns + max(offset, 0)
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = node.shaped(x, *shape[:-2], rows * columns)
    places = node.constant([first + k * (columns + 1) for k in range(count)], INT64)
    return [node.call("take", flat, places, axis=len(rest))]


def unfold(node: AtenNode, x: Expr) -> list[Expr]:
    """Windows along an axis, their elements along a last one."""
    shape = aten_type(x).shape
    axis, size, step = node.axis(len(shape), "dimension"), node.whole("size"), node.whole("step")
    count = (number_of_size(node, shape[axis]) - size) // step + 1
    start = node.shaped(node.call("multiply", node.line(count), step), count, 1)
    x = node.call("take", x, node.call("add", start, node.line(size)), axis=axis)
    return [node.permuted(x, [a for a in range(len(shape) + 1) if a != axis + 1] + [axis + 1])]


def _unfold_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    if node.whole("step") < node.whole("size"):
        raise node.unsupported("a write to windows that overlap")
    return _scattered(unfold)(node, whole, new, index)


def _strided_places(node: AtenNode, x: Expr) -> Array:
    sizes, strides = node.wholes("size"), node.wholes("stride")
    places = np.asarray(node.whole("storage_offset"))
    for a, (d, s) in enumerate(zip(sizes, strides, strict=True)):
        places = places + (np.arange(d) * s).reshape(-1, *[1] * (len(sizes) - a - 1))
    total = product(aten_type(x).shape)
    if isinstance(total, int) and places.size and not 0 <= places.min() <= places.max() < total:
        raise node.unsupported(f"places {places.min()} to {places.max()} of {total} elements")
    return places


def as_strided(node: AtenNode, x: Expr) -> list[Expr]:
    """Elements at places of the operand's memory."""
    places = node.constant(_strided_places(node, x), INT64)
    return [node.call("take", node.shaped(x, product(aten_type(x).shape)), places, axis=0)]


def _strided_back(node: AtenNode, whole: Expr, new: Expr, index: int) -> Expr:
    places = _strided_places(node, whole)
    if np.unique(places).size != places.size:
        raise node.unsupported("a write to elements that overlap")
    return _scattered(as_strided)(node, whole, new, index)


class StridedRule(ViewRule):
    """A view by strides is one of the whole memory that the operand lies in."""

    def cells(self, node: AtenNode, cell: TensorCell) -> list[TensorCell]:
        """The result."""
        cell.get()
        memory = cell.memory()
        if not memory.in_order or cell.offset is None:
            raise node.unsupported("a tensor that does not lie in the order of its elements, as far as is known,")
        start = cell.offset if node.get("storage_offset", None) is None else node.whole("storage_offset")
        return super().cells(node.with_(storage_offset=start), memory)


_PERMUTE, _SPLIT = ViewRule(permute, _permute_back), ViewRule(split, split_back)
_IDENTITY = ViewRule(lambda node, x: [x], _same)

VIEWS: dict[str, ViewRule] = {
    "view": ViewRule(view, _view_back),
    "_unsafe_view": ViewRule(_reshaped("size"), _like, sure=False),
    "reshape": ViewRule(_reshaped("shape"), _like, sure=_in_order),
    "reshape_as": ViewRule(_as_the_other, _like, sure=_in_order),
    "view_as": ViewRule(_as_the_other, _like),
    **dict.fromkeys(("permute", "transpose", "t", "numpy_T", "mT", "movedim", "moveaxis", "swapaxes", "swapdims"),
                    _PERMUTE),
    "squeeze": ViewRule(squeeze, _like),
    "unsqueeze": ViewRule(unsqueeze, _like),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), ViewRule(expand)),
    **dict.fromkeys(("flatten", "ravel"), ViewRule(flatten, _like, sure=_in_order)),
    "unflatten": ViewRule(unflatten, _like),
    "slice": ViewRule(slice_, slice_back),
    "narrow": ViewRule(slice_, slice_back),
    "select": ViewRule(select, select_back),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split",
                    "hsplit", "vsplit", "dsplit"), _SPLIT),
    "unbind": ViewRule(unbind, unbind_back),
    "detach": _IDENTITY,
    "alias": _IDENTITY,
    "diagonal": ViewRule(diagonal, _scattered(diagonal)),
    "unfold": ViewRule(unfold, _unfold_back),
    "as_strided": StridedRule(as_strided, _strided_back),
    "positive": _IDENTITY,
    **dict.fromkeys(DROPOUTS, ViewRule(lambda node, x: [dropout(node)], _same, operand="input")),
    "contiguous": ViewRule(lambda node, x: [x], _same, sure=_in_order),
    "to": ViewRule(to, _same, sure=_not_asked),
    "type_as": ViewRule(to, _same, sure=_not_asked),
}  # fmt: skip
"""By the name of the operator."""

COPIES: dict[str, str] = {f"{name}_copy": name for name, rule in VIEWS.items() if not isinstance(rule, StridedRule)}
"""Operators that are a view's copy: their value is the same, their name is as the program has it."""
