"""What the text of a tensor function leaves out: its outputs, and the block around its body (specs/semantics.md,
"Text")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from assay.semantics.dtypes import INT32
from assay.semantics.scalar import Const, Expr, Load, Var
from assay.semantics.tensor import Alias, Allocate, Block, Buffer, Call, Seq, Stmt, Store, program_order
from assay.semantics.walk import occurrences, post_order


def stored_parameters(params: Sequence[Buffer], body: Stmt) -> set[Buffer]:
    """The parameters that a body stores to, itself or through views."""
    source: dict[Buffer, Buffer] = {}
    stored: set[Buffer] = set()
    for stmt in program_order(body):
        match stmt:
            case Alias():
                source[stmt.view.buffer] = stmt.view.source
            case Block():
                source.update((v.buffer, v.source) for v in stmt.views)
            case Store(buffer=buffer) | Call(result=Load(buffer=buffer)):
                while buffer in source:
                    buffer = source[buffer]
                stored.add(buffer)
    return stored & set(params)


def derived_outputs(params: Sequence[Buffer], body: Stmt) -> int | None:
    """How many parameters are outputs, as far as the body tells: those that it writes, if they are the last."""
    if handed_over(params, body):
        return None
    stored = stored_parameters(params, body)
    return len(stored) if stored == set(params[len(params) - len(stored) :]) else None


def handed_over(params: Sequence[Buffer], body: Stmt) -> bool:
    """Whether a call is given a parameter, or a view of one: then the text does not tell whether it is written."""
    source = {s.view.buffer: s.view.source for s in program_order(body) if isinstance(s, Alias)}
    for stmt in program_order(body):
        for buffer in stmt.buffers if isinstance(stmt, Call) else ():
            while buffer in source:
                buffer = source[buffer]
            if buffer in params:
                return True
    return False


def alone(body: Stmt) -> Stmt:
    """The one statement that a body is, out of the sequences around it; the body itself where there are more."""
    inside = occurrences(body, lambda s: s.body if isinstance(s, Seq) else ())
    found = [*islice((s for s in inside if not isinstance(s, Seq)), 2)]
    return found[0] if len(found) == 1 else body


def needs_root(body: Stmt, allocated: Sequence[Buffer]) -> bool:
    """Whether TVM puts a block of the name root around a body that it reads (it prints that block as a comment)."""
    if allocated:
        return True
    only = alone(body)
    if isinstance(only, Block):
        return bool(only.iterators)
    return any(isinstance(s, Block) for s in program_order(body))


def noted(buffer: Buffer) -> list[Var]:
    """Symbols that a buffer has for its own place."""
    places = [buffer.notes.get("elem_offset"), *buffer.notes.get("strides", ())]
    return [v for v in places if isinstance(v, Var)]


def cells_of(body: Stmt) -> dict[Buffer, Store]:
    """Buffers that TVM writes as scalars, `x: T.int64 = value`, and the store that gives the first value.

    They have one element, are local, are written as they begin, and only at the index 0.
    """
    found: dict[Buffer, Store] = {}
    other: set[Buffer] = set()
    for stmt in program_order(body):
        match stmt:
            case Allocate() if _is_cell(stmt.buffer):
                first = _first(stmt.body)
                if isinstance(first, Store) and first.buffer is stmt.buffer and stmt.buffer not in found:
                    found[stmt.buffer] = first
                else:
                    other.add(stmt.buffer)
            case Alias():
                other.add(stmt.view.source)
            case Block():
                other.update(r.buffer for r in (*(stmt.reads or ()), *(stmt.writes or ())))
                other.update(v.source for v in stmt.views)
            case Store() if not _is_zero(stmt.indices):
                other.add(stmt.buffer)
        for expr in (*stmt.expressions, *(stmt.inner_expressions if isinstance(stmt, Block) else ())):
            other.update(n.buffer for n in post_order(expr) if isinstance(n, Load) and not _is_zero(n.indices))
    return {b: s for b, s in found.items() if b not in other and not _reads(s.value, b)}


def _reads(expr: Expr, buffer: Buffer) -> bool:
    return any(isinstance(n, Load) and n.buffer is buffer for n in post_order(expr))


def _is_cell(b: Buffer) -> bool:
    return b.shape == (1,) and b.scope == "local" and dict(b.notes) == {"dims": ("int32",)}


def _is_zero(indices: Sequence[Expr]) -> bool:
    return all(isinstance(i, Const) and i.dtype is INT32 and int(i.value) == 0 for i in indices)


def _first(body: Stmt) -> Stmt:
    while isinstance(body, Seq) and body.body:
        body = body.body[0]
    return body
