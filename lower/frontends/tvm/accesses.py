"""What the statements of a live TVM function touch, without reading them (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.lower.frontends.tvm.objects import Object, handle, type_key
from assay.semantics.walk import occurrences


def inner(o: Object) -> Sequence[Object]:
    """The statements that a TVM statement is made of."""
    match type_key(o):
        case "tirx.SeqStmt":
            return list(o.seq)
        case "tirx.For" | "tirx.While" | "tirx.AttrStmt":
            return (o.body,)
        case "tirx.IfThenElse":
            return (o.then_case,) if o.else_case is None else (o.then_case, o.else_case)
        case "s_tir.SBlockRealize":
            return (o.block.body,) if o.block.init is None else (o.block.init, o.block.body)
        case _:
            return ()


def stores_and_views(root: Object) -> tuple[set[int], dict[int, int]]:
    """The handles of the buffers that are stored to, and of which buffer each view is a view."""
    stored: set[int] = set()
    source: dict[int, int] = {}
    for o in occurrences(root, inner):
        match type_key(o):
            case "tirx.BufferStore":
                stored.add(handle(o.buffer))
            case "tirx.DeclBuffer" if type_key(o.data) == "ir.Call":
                source[handle(o.buffer)] = handle(o.data.args[0])
            case "tirx.DeclBuffer" if type_key(o.data) == "ir.Var":
                source[handle(o.buffer)] = handle(o.data)
            case "s_tir.SBlockRealize":
                source.update((handle(m.buffer), handle(m.source.source)) for m in o.block.match_buffers)
    return stored, source


def viewed(at: int, source: Mapping[int, int]) -> int:
    """The buffer whose memory a buffer is, by their handles: itself, where it is no view."""
    while at in source:
        at = source[at]
    return at


def pointer_declarations(root: Object) -> dict[int, Object]:
    """The first declaration over each pointer that has a name: it says what the pointer points to."""
    found: dict[int, Object] = {}
    for o in occurrences(root, inner):
        if type_key(o) == "tirx.DeclBuffer" and type_key(o.data) == "ir.Var":
            found.setdefault(handle(o.data), o)
    return found
