"""Tensors with a part replaced that is no slice (specs/lower.md, "torch.export").

PyTorch: torch.diagonal_scatter, torch.as_strided_scatter, torch.Tensor.put, torch.Tensor.index_reduce.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.lower.frontends.torch_export.cells import TensorCell
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.indexing import from_start, reduced, scattered
from assay.lower.frontends.torch_export.operators.views import VIEWS, ViewRule
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product


def replaced(view: str) -> AtenRule:
    """A copy of the operand in which a view of it has the elements of `src`."""

    def rule(node: AtenNode) -> Expr:
        x, src, of = node.tensor(), node.tensor("src"), VIEWS[view]
        (part,) = of.read(node, x)
        if aten_type(part).shape != aten_type(src).shape:
            raise node.wrong(f"src is {src.type}; the part is {part.type}")
        assert of.back is not None
        return of.back(node, x, node.cast(src, aten_type(x).dtype), 0)

    return rule


class StridedScatter(ViewRule):
    """A copy with elements at places of its memory, which has to be known to be in order."""

    def cells(self, node: AtenNode, cell: TensorCell) -> list[TensorCell]:
        """The result."""
        value = cell.get()
        if not cell.in_order:
            raise node.unsupported("a tensor that does not lie in the order of its elements, as far as is known,")
        return [TensorCell(x) for x in self.read(node, value)]

    def shared(self, given: Mapping[str, Any]) -> TensorCell | None:
        """The operand, whose memory tells the places."""
        found = given.get("self")
        return found if isinstance(found, TensorCell) else None


def as_strided_scatter(node: AtenNode, x: Expr) -> list[Expr]:
    """The operand lies in order from the start of its memory."""
    start = node.whole("storage_offset", 0) if node.has("storage_offset") else 0
    return [replaced("as_strided")(node.with_(self=x, storage_offset=start))]


def put_elements(node: AtenNode) -> Expr:
    """With elements put, or added, at places of the row-major order; a negative one counts from the end."""
    x, index = node.tensor(), node.tensor("index")
    of, count = aten_type(x), product(aten_type(index).shape)
    source = node.shaped(node.cast(node.tensor("source"), of.dtype), count)
    where = node.shaped(node.cast(index, INT64), count, 1)
    how = "add" if node.flag("accumulate") else "none"
    made = scattered(node, node.shaped(x, product(of.shape)), where, source, how)
    return node.shaped(made, *of.shape)


def index_reduce(node: AtenNode) -> Expr:
    """With slices met with what is there at places along an axis."""
    x, places = node.tensor(), node.shaped(node.tensor("index"), -1)
    of = aten_type(x)
    axis = node.axis(of.ndim)
    order = [axis, *(a for a in range(of.ndim) if a != axis)]
    if not of.ndim:
        raise node.unsupported("a scalar")
    source = node.permuted(node.cast(node.tensor("source"), of.dtype), order)
    where = node.shaped(from_start(node, places, of.shape[axis]), aten_type(places).shape[0], 1)
    made = reduced(node, node.permuted(x, order), node.cast(where, INT64), source, str(node.get("reduce")))
    return node.permuted(made, [order.index(a) for a in range(of.ndim)])


TABLE: dict[str, AtenRule | ViewRule] = {
    "as_strided_scatter": StridedScatter(as_strided_scatter),
    "diagonal_scatter": replaced("diagonal"),
    "index_reduce": index_reduce,
    "put": put_elements,
}
