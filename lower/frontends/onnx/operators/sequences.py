"""Operators of ONNX on sequences and optional values (specs/lower.md, "Import")."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.containers import any_tensor, either, element_dtype, shape_of
from assay.lower.frontends.onnx.interface import declared_type
from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.tensors import onnx_dtype
from assay.semantics import graph
from assay.semantics.builder.prelude import cons, list_of
from assay.semantics.dtypes import INT64, DType
from assay.semantics.graph import Bind, Expr, Made, Wildcard
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import FuncType, TensorType

MOST_PIECES = 10_000


def construct(node: Node) -> Expr:
    """Translate SequenceConstruct: a sequence of the operands."""
    items = [node.named(i) for i in node.operands()]
    return node.containers.sequence(tensor(items[0]).dtype, items)


def empty(node: Node) -> Expr:
    """Translate SequenceEmpty; without `dtype` it is one of float32 tensors."""
    of = node.attrs["dtype"]
    return node.containers.sequence(onnx_dtype(TensorProto.FLOAT if of is None else of, "the sequence"), ())


def _dtype(node: Node) -> DType:
    found = element_dtype(node[0].type)
    assert found is not None  # by the schema
    return found


def length(node: Node) -> Expr:
    """Translate SequenceLength: a constant if the elements are known, else a call, int64."""
    known = node.containers.elements(node[0])
    if known is not None:
        return node.constant(np.int64(len(known)))
    return graph.call(node.containers.function("sequence_length"), node[0], span=node.span)


def _known_position(node: Node, operand: int, most: int) -> int | None:
    """A position that is known, counted from the front; it must be at most `most`, which is also what -1 stands
    before."""
    found = node.scalar(operand)
    if found is None:
        return None
    size = len(node.containers.elements(node[0]) or ())
    place = int(found) + size if found < 0 else int(found)
    if not 0 <= place <= most:
        raise node.wrong(f"position {found} in a sequence of {size} elements")
    return place


def _position(node: Node, operand: int) -> Expr:
    """A position that only the run knows, counted from the front. One beyond the ends traps (match.T1)."""
    index = node.cast(node.shaped(node[operand], ()), INT64)
    return node.call("where", node.call("less", index, 0), node.call("add", index, length(node)), index)


def at(node: Node) -> Expr:
    """Translate SequenceAt: the element itself if it is known, else a call that traps outside of the sequence."""
    known = node.containers.elements(node[0])
    if known is not None and (place := _known_position(node, 1, len(known) - 1)) is not None:
        return known[place]
    found = graph.call(node.containers.function("sequence_at"), node[0], _position(node, 1), span=node.span)
    return node.named(node.containers.opened(found, node.containers.shapes(node[0]), str(node)))


def insert(node: Node) -> Expr:
    """Translate SequenceInsert; without a position the tensor goes to the end."""
    item = node.named(node[1])
    known = node.containers.elements(node[0])
    if known is not None:
        place = _known_position(node, 2, len(known)) if node.has(2) else len(known)
        if place is not None:
            return node.containers.sequence(_dtype(node), (*known[:place], item, *known[place:]))
    index = _position(node, 2) if node.has(2) else length(node)
    insert_at = node.containers.function("sequence_insert")
    made = graph.call(insert_at, node[0], index, node.containers.closed(item), span=node.span)
    shapes = either(node.containers.shapes(node[0]), frozenset({shape_of(tensor(item))}))
    return node.containers.note(made, shapes)


def erase(node: Node) -> Expr:
    """Translate SequenceErase; without a position the last element goes. Invalid for a sequence known to be empty."""
    known = node.containers.elements(node[0])
    if known is not None:
        place = _known_position(node, 1, len(known) - 1) if node.has(1) else len(known) - 1
        if place is not None:
            if not known:
                raise node.wrong("nothing can be erased from an empty sequence")
            return node.containers.sequence(_dtype(node), (*known[:place], *known[place + 1 :]))
    index = _position(node, 1) if node.has(1) else node.call("subtract", length(node), 1)
    made = graph.call(node.containers.function("sequence_erase"), node[0], index, span=node.span)
    return node.containers.note(made, node.containers.shapes(node[0]))


# --- tensors into sequences and back -------------------------------------------------------------------------------


def concat(node: Node) -> Expr:
    """Translate ConcatFromSequence, along a new axis if `new_axis` is 1. Invalid for a sequence known to be empty."""
    new = node.attrs["new_axis"] == 1
    known = node.containers.elements(node[0])
    if known:
        axis = node.axis(tensor(known[0]).ndim + new)
        parts = [node.call("expand_dims", x, axis=(axis,)) if new else x for x in known]
        return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis)
    if known == ():
        raise node.wrong("an empty sequence is concatenated")
    return _folded(node, new)


def _folded(node: Node, new: bool) -> Expr:
    """One element after another, by a function that calls itself: `join(rest, done)`."""
    of, shapes = _dtype(node), node.containers.shapes(node[0])
    if shapes is None or len(shapes) != 1:
        raise node.unsupported("the rank of the elements must be known at import")
    rank = len(next(iter(shapes))) + new
    axis = node.axis(rank)
    element = any_tensor(of).type
    sizes: list[Dim] = [Symbol(f"d{i}") for i in range(rank)]
    results = [*sizes]
    results[axis] = Symbol("total")
    rest = graph.var("rest", list_of(element))
    done = graph.var("done", TensorType(tuple(sizes), of))
    result = TensorType(tuple(results), of)
    join = graph.var("join", FuncType((rest.type, done.type), result))

    def piece(item: Expr) -> Expr:
        x = node.containers.opened(item, shapes, str(node))
        return node.call("expand_dims", x, axis=(axis,)) if new else x

    head, tail = graph.var("head", element), graph.var("tail", rest.type)
    x = piece(head)
    wanted = [*sizes]
    wanted[axis] = tensor(x).shape[axis]
    longer = node.call("concat", done, graph.match_cast(x, TensorType(tuple(wanted), of)), axis=axis)
    more = graph.call(join, tail, longer)
    body = graph.match(rest, (Made(cons, (Bind(head), Bind(tail))), more), (Wildcard(), done))
    first, others = graph.var("first", element), graph.var("others", rest.type)
    start = graph.call(join, others, piece(first))
    all_of = graph.match(node[0], (Made(cons, (Bind(first), Bind(others))), start), partial=True)
    return node.named(graph.let(join, graph.function([rest, done], body, result, pure=True), all_of))


def split(node: Node) -> Expr:
    """Pieces of equal or of given sizes; without `split`, of size 1, and then `keepdims` says whether that stays."""
    x = tensor(node[0])
    axis = node.axis(x.ndim)
    size = x.shape[axis]
    pieces: list[Dim]
    if node.has(1) and tensor(node[1]).ndim == 1:
        pieces = list(node.dims(1))
    else:
        if not isinstance(size, int):
            raise node.unsupported(f"axis {axis} has the size {size}; give the symbolic dim a value")
        step = node.ints(1)[0] if node.has(1) else 1
        if step < 1:
            raise node.wrong(f"split is {step}; at least 1 is wanted")
        if size > MOST_PIECES * step:
            raise node.unsupported(f"more than {MOST_PIECES} pieces")
        pieces = [min(step, size - i) for i in range(0, size, step)]
    numbers = [p for p in pieces if isinstance(p, int)]
    wrong = isinstance(size, int) and len(numbers) == len(pieces) and sum(numbers) != size
    if wrong or min(numbers, default=0) < 0:
        raise node.wrong(f"split is {tuple(pieces)}; sizes of at least 0 that make {size} are wanted")
    parts: list[Expr] = []
    begin: Dim = 0
    for p in pieces:
        end = begin + p
        part = node.call("strided_slice", node[0], axes=(axis,), begin=(begin,), end=(end,), strides=(1,))
        if not node.has(1) and node.attrs["keepdims"] == 0:
            part = node.call("squeeze", part, axis=(axis,))
        parts.append(node.named(part))
        begin = end
    return node.containers.sequence(x.dtype, parts)


# --- optional values -----------------------------------------------------------------------------------------------


def optional(node: Node) -> Expr:
    """Translate Optional: of the operand, or empty and of the declared type."""
    if node.has(0):
        inner = node[0]
        return node.containers.optional(node.named(inner) if isinstance(inner.type, TensorType) else inner, inner.type)
    declared = node.attrs["type"]
    if declared is None:
        raise node.wrong("without an operand the attribute type is wanted")
    return node.containers.optional(None, declared_type("the optional value", declared))


def has_element(node: Node) -> Expr:
    """Translate OptionalHasElement; False without an operand."""
    found = node.containers.has_element(node[0]) if node.has(0) else False
    return node.constant(np.bool_(found)) if isinstance(found, bool) else found


TABLE: dict[str, Rule] = {
    "ConcatFromSequence": concat,
    "Optional": optional,
    "OptionalGetElement": lambda node: node.containers.get_element(node[0], str(node)),
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
}
