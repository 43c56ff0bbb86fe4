"""What the statements of a live TVM function touch, without reading them (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.tvm.objects import Object, handle, type_key
from assay.lower.frontends.tvm.scalars import subexpressions
from assay.semantics.walk import Worklist, occurrences


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


def accessed_handles(root: Object) -> tuple[set[int], set[int], dict[int, int]]:
    """The handles of the buffers that are stored to and loaded from, and of which buffer each view is a view."""
    stored: set[int] = set()
    loaded: set[int] = set()
    source: dict[int, int] = {}
    exprs: list[Object] = []
    for o in occurrences(root, inner):
        match type_key(o):
            case "tirx.BufferStore":
                stored.add(handle(o.buffer))
                exprs += [o.value, *o.indices]
            case "tirx.DeclBuffer" if type_key(o.data) == "ir.Call":
                source[handle(o.buffer)] = handle(o.data.args[0])
            case "tirx.DeclBuffer" if type_key(o.data) == "ir.Var":
                source[handle(o.buffer)] = handle(o.data)
            case "s_tir.SBlockRealize":
                source.update((handle(m.buffer), handle(m.source.source)) for m in o.block.match_buffers)
            case "tirx.Bind" | "tirx.Evaluate":
                exprs.append(o.value)
            case "tirx.IfThenElse" | "tirx.While":
                exprs.append(o.condition)
            case "tirx.For":
                exprs += [o.min, o.extent]
    work = Worklist(exprs, handle)
    for e in work:
        if type_key(e) == "ir.TensorLoad":
            loaded.add(handle(e.source))
        work.add(subexpressions(e))
    return stored, loaded, source


def pointer_declarations(root: Object) -> dict[int, Object]:
    """The first declaration over each pointer that has a name: it says what the pointer points to."""
    found: dict[int, Object] = {}
    for o in occurrences(root, inner):
        if type_key(o) == "tirx.DeclBuffer" and type_key(o.data) == "ir.Var":
            found.setdefault(handle(o.data), o)
    return found
