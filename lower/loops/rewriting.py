"""Statements with other variables, buffers and parts; where a loop stands (specs/lower.md, "loops")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from assay.semantics import tensor
from assay.semantics.errors import Crash, Invalid, Unsupported
from assay.semantics.names import unused
from assay.semantics.scalar import Apply, Cast, Const, Dim, Expr, Load, Var, may_trap
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.places import is_private
from assay.semantics.walk import fold_scoped, path_to, post_order, rewrite

Values: TypeAlias = Mapping[Var, Expr]


def plain_function(func: tensor.PrimFunc) -> tensor.PrimFunc:
    """`func` as the primitives take it: plain nodes, every variable bound once, names of indices put in place.

    A buffer that begins in the middle of a sequence begins before it, and a constant before everything: so no primitive
    copies it with a loop's body. A loop's extent that reads memory or may trap is
    named before the loop: it is evaluated there, once, whatever becomes of the loop.
    """
    body = without_blocks(func).body
    movable = {
        s.buffer
        for s in tensor.program_order(body)
        if isinstance(s, tensor.Allocate) and s.movable and is_private(s.buffer)
    }
    body = renewed(body, {}, inline=True, shared=movable & _in_parallel(body) if movable else ())
    return replace(func, body=_constants_first(body))


def _constants_first(body: tensor.Stmt) -> tensor.Stmt:
    """The body with its constants around it, in program order, but for those in one thread's memory."""
    found = [s for s in tensor.program_order(body) if isinstance(s, tensor.AllocateConst) and not is_private(s.buffer)]
    if not found:
        return body
    moved = {s.buffer for s in found}
    body = rewrite(body, lambda s: s.body if isinstance(s, tensor.AllocateConst) and s.buffer in moved else s)
    for s in reversed(found):
        body = replace(s, body=body)
    return body


def _in_parallel(body: tensor.Stmt) -> set[tensor.Buffer]:
    """The buffers that an iteration of some parallel loop stores to, those that begin inside of it apart."""
    found: set[tensor.Buffer] = set()
    for s in tensor.program_order(body):
        if isinstance(s, tensor.For) and s.kind == "parallel":
            inside = list(tensor.program_order(s.body))
            own = {x.buffer for x in inside if isinstance(x, tensor.Allocate)}
            found |= {x.buffer for x in inside if isinstance(x, tensor.Store)} - own
    return found


def changed(stmt: tensor.Stmt, parts: Sequence[tensor.Stmt], change: Callable[[Expr], Expr]) -> tensor.Stmt:
    """The statement around other parts, with `change` done to its expressions."""
    match stmt:
        case tensor.For():
            return replace(stmt, extent=change(stmt.extent), body=parts[0])
        case tensor.While() | tensor.If():
            stmt = replace(stmt, condition=change(stmt.condition))
            return stmt.with_children(parts)
        case tensor.LetStmt():
            return replace(stmt, value=change(stmt.value), body=parts[0])
        case tensor.Store():
            return replace(stmt, indices=tuple(map(change, stmt.indices)), value=change(stmt.value))
        case tensor.Assert():
            return replace(stmt, condition=change(stmt.condition), values=tuple(map(change, stmt.values)))
        case tensor.Evaluate():
            return replace(stmt, value=change(stmt.value))
        case tensor.Seq() | tensor.Allocate() | tensor.AllocateConst():
            return stmt.with_children(parts)
        case _:
            raise Unsupported(f"loop transformations know no {type(stmt).__name__}", where=stmt.span, label="loops.C1")


def renewed(body: tensor.Stmt, by: Values, inline: bool = False, shared: Collection[tensor.Buffer] = ()) -> tensor.Stmt:
    """A copy of `body` with variables replaced. What it binds itself, variables and buffers, is new.

    With `inline`, a `LetStmt` of an index that reads no memory is put in place, an extent that is none is named, and
    sequences are flat. Buffers that are `shared` between threads get to be in scope global: a block may say that its
    buffer is in one thread's memory and leave open where it begins (rule M6.15), which a plain allocation does not.
    """
    values: dict[Var, Expr] = dict(by)
    buffers: dict[tensor.Buffer, tensor.Buffer] = {}

    def change(expr: Expr) -> Expr:
        done: set[int] = set()  # folding may hand back what was replaced already

        def node(n: Expr) -> Expr:
            if id(n) in done:
                return n
            if isinstance(n, Var):
                n = values.get(n, n)
            elif isinstance(n, Load) and n.buffer in buffers:
                n = Load(n.dtype, buffers[n.buffer], n.indices)
            done.add(id(n))
            return n

        return rewrite(expr, node)

    # What is bound is entered on the way down, before its uses, and left on the way up, where the parts are put
    # together. Of each statement around: what it binds in which table, what that stood for before, and whether it goes.
    scopes: list[tuple[dict[Any, Any], Any, Any, Any, bool]] = []

    def enter(stmt: tensor.Stmt) -> Sequence[tensor.Stmt]:
        table: dict[Any, Any] = values
        key: Any = None
        new: Any = None
        gone = False
        match stmt:
            case tensor.For():
                key, new = stmt.var, Var(stmt.var.name, stmt.var.dtype)
            case tensor.LetStmt():
                value = change(stmt.value)
                gone = inline and value.dtype.is_integer and is_index(value)
                key, new = stmt.var, value if gone else Var(stmt.var.name, stmt.var.dtype)
            case tensor.Allocate() | tensor.AllocateConst():
                shape = tuple(_size(change(d)) if isinstance(d, Expr) else d for d in stmt.buffer.shape)
                scope = "global" if stmt.buffer in shared else stmt.buffer.scope
                table, key, new = buffers, stmt.buffer, replace(stmt.buffer, shape=shape, scope=scope)
        scopes.append((table, key, new, table.get(key), gone))
        if key is not None:
            table[key] = new
        return stmt.children

    def leave(stmt: tensor.Stmt, parts: list[tensor.Stmt]) -> tensor.Stmt:
        table, key, bound, before, gone = scopes.pop()
        if key is not None:
            table.pop(key)
            if before is not None:
                table[key] = before
        if gone:
            return parts[0]
        if inline and isinstance(stmt, tensor.Seq):
            return allocations_around(parts)
        copy = changed(stmt, parts, change)
        match copy:
            case tensor.For() if inline and not is_index(copy.extent):
                name = Var(f"{bound.name}_extent", copy.extent.dtype)
                return tensor.LetStmt(name, copy.extent, replace(copy, var=bound, extent=name), span=copy.span)
            case tensor.For() | tensor.LetStmt():
                return replace(copy, var=bound)
            case tensor.Allocate():
                return replace(copy, buffer=bound, movable=False)
            case tensor.AllocateConst():
                return replace(copy, buffer=bound)
            case tensor.Store():
                return replace(copy, buffer=buffers.get(copy.buffer, copy.buffer))
            case _:
                return copy

    return fold_scoped(body, enter, leave)


def allocations_around(parts: Sequence[tensor.Stmt]) -> tensor.Stmt:
    """Statements one after another, the buffers that one of them allocates around them all: so neighbours meet."""
    around: list[tensor.Allocate | tensor.AllocateConst] = []
    body: list[tensor.Stmt] = []
    for part in parts:
        while isinstance(part, (tensor.Allocate, tensor.AllocateConst)):
            around.append(part)
            part = part.body
        body += part.body if isinstance(part, tensor.Seq) else (part,)
    result = tensor.seq(*body)
    for a in reversed(around):
        result = replace(a, body=result)
    return result


def _size(dim: Expr) -> Dim:
    return int(dim.value) if isinstance(dim, Const) else dim


def is_index(expr: Expr) -> bool:
    """Whether an expression reads no memory and cannot trap: it may be evaluated anywhere, any number of times."""
    for n in post_order(expr):
        match n:
            case Var() | Const():
                pass
            case Cast() if n.dtype.is_integer and n.arg.dtype.is_integer:
                pass
            case Apply() if not (n.dtype.is_float or may_trap(n)):
                pass
            case _:
                return False
    return True


# --- places ------------------------------------------------------------------------------------------------------


def names(func: tensor.PrimFunc) -> dict[str, tensor.For]:
    """Every loop by its name, in program order; where several have one name, the others are `name#1`, `name#2`, ..."""
    found: dict[str, tensor.For] = {}
    for s in tensor.program_order(func.body):
        if isinstance(s, tensor.For):
            found[unused(s.var.name, found, sign="#")] = s
    return found


def loop_named(func: tensor.PrimFunc, name: str) -> tensor.For:
    """The loop of that name; Invalid (`loops.C2`) where there is none."""
    found = names(func)
    if name not in found:
        raise Invalid(f"{func.name} has no loop {name}; it has {', '.join(found) or 'none'}", label="loops.C2")
    return found[name]


def around(func: tensor.PrimFunc, stmt: tensor.Stmt) -> list[tensor.Stmt]:
    """The statements from the body of `func` down to `stmt`, which is the last of them."""
    if path := path_to(func.body, stmt):
        return path
    raise Crash(f"a loop over {getattr(stmt, 'var', '?')} that is not in {func.name}")


def put(func: tensor.PrimFunc, old: tensor.Stmt, new: tensor.Stmt) -> tensor.PrimFunc:
    """`func` with one statement replaced."""
    return replace(func, body=rewrite(func.body, lambda s: new if s is old else s))
