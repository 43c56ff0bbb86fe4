"""Loop nests one after another become one (row R23; specs/lower.md, "fuse").

Every step keeps each scalar operation and the order of those that meet in an element, so results stay bit for bit. What
is merged cannot trap: a group has only such calls.

    inline    a value that one nest computes element by element is computed where it is read instead
    join      two loops over one range become one, where no iteration touches what another one writes
    forward   what an element was just given is used itself
    in place  a result takes the place of the value that it is made of, element by element
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from assay.lower.fuse.instance import substituted
from assay.semantics.analyses.op_pattern import same_place
from assay.semantics.scalar import Apply, Const, Expr, Interner, Load, Var, const, same
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import (
    Buffer,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    While,
    loads,
    program_order,
    seq,
)
from assay.semantics.walk import Worklist, fold, post_order, rewrite


def merge_nests(statements: list[Stmt], internal: Sequence[Buffer], results: set[Buffer]) -> list[Stmt]:
    """The statements of a group, merged. `internal` are the values between its calls, in order; `results` its own.

    Internal buffers that are still used afterwards must be allocated by the caller.
    """
    for buffer in internal:
        statements = inline_buffer(statements, buffer)
    for buffer in internal:
        statements = join_around(statements, buffer)
    for buffer in internal:
        statements = [forward(s, buffer, statements) for s in statements]
    for buffer in internal:
        statements = reuse_operand(statements, buffer, {*internal, *results})
    return statements


# --- what statements touch ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NestAccess:
    """One element that a statement reads or writes, and the loops around it, outermost first."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    write: bool
    loops: tuple[For, ...]
    place: Stmt


def accesses(stmt: Stmt) -> list[NestAccess]:
    """Every access of a statement, in the order of the text."""
    found: list[NestAccess] = []
    work = Worklist[tuple[Stmt, tuple[For, ...]]]([(stmt, ())])
    for node, around in work:
        for root in node.expressions:
            found += (NestAccess(part.buffer, part.indices, False, around, node) for part in loads(root))
        if isinstance(node, Store):
            found.append(NestAccess(node.buffer, node.indices, True, around, node))
        inner = (*around, node) if isinstance(node, For) else around
        work.add((c, inner) for c in node.children)
    return found


def touched(stmt: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers that a statement reads, and those that it writes."""
    found = accesses(stmt)
    return {a.buffer for a in found if not a.write}, {a.buffer for a in found if a.write}


def _apart(a: Stmt, b: Stmt) -> bool:
    """Whether two statements may change places: neither writes what the other touches."""
    (reads_a, writes_a), (reads_b, writes_b) = touched(a), touched(b)
    return not (writes_a & (reads_b | writes_b) or writes_b & reads_a)


# --- inline --------------------------------------------------------------------------------------------------------


def inline_buffer(statements: list[Stmt], buffer: Buffer) -> list[Stmt]:
    """The statements without `buffer`, where one nest computes it whole and no element is computed more often then."""
    writers = [i for i, s in enumerate(statements) if buffer in touched(s)[1]]
    if len(writers) != 1:
        return statements
    at = writers[0]
    made = _computed(statements[at], buffer)
    if made is None:
        return statements
    names, value = made
    reads, _ = touched(statements[at])
    later = statements[at + 1 :]
    uses = [a for s in later for a in accesses(s) if a.buffer is buffer]
    if buffer in reads or any(touched(s)[1] & reads for s in later):
        return statements
    if not all(isinstance(a.place, Store) and _closed(a.indices) for a in uses):
        return statements
    work = any(isinstance(n, Apply) for n in post_order(value, lambda n: () if isinstance(n, Load) else n.children))
    if work and not _as_often(uses, buffer):
        return statements

    number = Interner()
    known: dict[tuple[int, ...], Expr] = {}

    def put(node: Expr) -> Expr:
        if not (isinstance(node, Load) and node.buffer is buffer):
            return node
        key = tuple(map(number, node.indices))  # one element is one expression, however often it is read
        if key not in known:
            known[key] = _at(value, dict(zip(names, node.indices, strict=True)))
        return known[key]

    later = [_rewritten(s, put) for s in later]
    # an element that says where to store stays where it is
    return statements if any(buffer in touched(s)[0] for s in later) else [*statements[:at], *later]


def _computed(stmt: Stmt, buffer: Buffer) -> tuple[tuple[Var, ...], Expr] | None:
    """buffer[i, j] as an expression of i and j, where a plain nest stores every element once."""
    ranges: dict[Var, Expr] = {}
    while isinstance(stmt, For) and stmt.start is None:
        ranges[stmt.var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, Store) or stmt.buffer is not buffer:
        return None
    names: list[Var] = []
    for i, d in zip(stmt.indices, buffer.shape, strict=True):
        if isinstance(i, Const) and isinstance(d, int) and d == 1:
            names.append(Var("one"))  # an axis of one element
        elif (
            isinstance(i, Var)
            and i not in names
            and i in ranges
            and same(ranges[i], d if isinstance(d, Expr) else const(d))
        ):
            names.append(i)
        else:
            return None
    if len([n for n in names if n in ranges]) != len(ranges):
        return None
    return tuple(names), stmt.value


def _closed(indices: Sequence[Expr]) -> bool:
    return not any(map(loads, indices))


def _as_often(uses: Sequence[NestAccess], buffer: Buffer) -> bool:
    """Whether the elements are read no more often than there are."""
    total = 0
    seen: list[tuple[Stmt, tuple[Expr, ...]]] = []
    for use in uses:
        if any(p is use.place and same_place(buffer, i, use.indices) for p, i in seen):
            continue  # one element read twice by one store is computed once
        seen.append((use.place, use.indices))
        if len(seen) > 1:
            return False
        sizes = [int(f.extent.value) if isinstance(f.extent, Const) else None for f in use.loops]
        if None in sizes or not all(isinstance(d, int) for d in buffer.shape):
            used = {n for i in use.indices for n in post_order(i) if isinstance(n, Var)}
            if not all(f.var in used for f in use.loops) or not all(isinstance(i, Var) for i in use.indices):
                return False
            continue
        total += prod(s for s in sizes if s is not None)
        if total > prod(d for d in buffer.shape if isinstance(d, int)):
            return False
    return True


def _at(value: Expr, by: Mapping[Var, Expr]) -> Expr:
    return rewrite(value, lambda n: by[n] if isinstance(n, Var) and n in by else n)


def _rewritten(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """A statement with the values of its stores rewritten."""

    def made(node: Stmt, parts: list[Stmt]) -> Stmt:
        new = rebuilt(node, parts)
        return replace(new, value=rewrite(new.value, change)) if isinstance(new, Store) else new

    return fold(stmt, made)


def rebuilt(stmt: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """A statement around other parts."""
    new = stmt.with_children(parts)
    return seq(*without_nested_seq(parts)) if isinstance(new, Seq) and new is not stmt else new


def without_nested_seq(statements: Sequence[Stmt]) -> Iterator[Stmt]:
    """Statements without sequences directly inside sequences."""
    for s in statements:
        if isinstance(s, Seq):
            yield from s.body
        else:
            yield s


# --- join ----------------------------------------------------------------------------------------------------------


def join_around(statements: list[Stmt], buffer: Buffer) -> list[Stmt]:
    """The nests that make and that use `buffer` as one, where that is possible."""
    made = [i for i, s in enumerate(statements) if buffer in touched(s)[1]]
    used = [i for i, s in enumerate(statements) if made and buffer in touched(s)[0] and i > made[-1]]
    if not used:
        return statements
    a, b = made[-1], used[0]
    between = statements[a + 1 : b]
    joined = run_task(join(statements[a], statements[b]))
    if joined is None:
        return statements
    if all(_apart(s, statements[b]) for s in between):
        order = [joined, *between]
    elif all(_apart(statements[a], s) for s in between):
        order = [*between, joined]
    else:
        return statements
    return [*statements[:a], *order, *statements[b + 1 :]]


def join(a: Stmt, b: Stmt) -> Task[Stmt | None]:
    """Two loops as one: each iteration does what it did in the first, then what it did in the second. None where an
    iteration would touch what another one writes."""
    if not (isinstance(a, For) and isinstance(b, For) and a.start is None and b.start is None):
        return None
    if a.var.dtype is not b.var.dtype or not same(a.extent, b.extent) or not _private(a, b):
        return None
    first = list(without_nested_seq([a.body]))
    second = list(without_nested_seq([substituted(b.body, {b.var: a.var}, {})]))
    inner: Stmt | None = yield join(first[-1], second[0])
    body = seq(*without_nested_seq([*first[:-1], inner, *second[1:]])) if inner is not None else seq(*first, *second)
    both = "parallel" in (a.kind, b.kind) and {a.kind, b.kind} <= {"parallel", "vectorized"}
    kind = a.kind if a.kind == b.kind else "parallel" if both else "serial"
    return replace(a, body=body, kind=kind, annotations={})


def _is_one(loop: For) -> bool:
    return isinstance(loop.extent, Const) and int(loop.extent.value) == 1


def _private(a: For, b: For) -> bool:
    """Whether iteration i of each loop touches only elements i, in some dimension, of what one writes and the other
    touches; a single iteration has none to meet."""
    if _is_one(a):
        return True
    (reads_a, writes_a), (reads_b, writes_b) = touched(a), touched(b)
    shared = (writes_a & (reads_b | writes_b)) | (writes_b & reads_a)
    one = [x for x in accesses(a) if x.buffer in shared]
    two = [x for x in accesses(b) if x.buffer in shared]
    return all(
        any(
            all(x.indices[d] is a.var for x in one if x.buffer is buffer)
            and all(x.indices[d] is b.var for x in two if x.buffer is buffer)
            for d in range(len(buffer.shape))
        )
        for buffer in shared
    )


# --- forward -------------------------------------------------------------------------------------------------------


def forward(stmt: Stmt, buffer: Buffer, all_of_them: Sequence[Stmt]) -> Stmt:
    """The statement with elements of `buffer` used as they are computed, where nothing else reads them later."""
    if buffer not in touched(stmt)[1]:
        return stmt
    order = [s for top in all_of_them for s in program_order(top)]
    place = {id(s): k for k, s in enumerate(order)}
    readers = [place[id(a.place)] for top in all_of_them for a in accesses(top) if a.buffer is buffer and not a.write]

    def made(node: Stmt, parts: list[Stmt]) -> Stmt:
        new = rebuilt(node, parts)
        return _forwarded(node, buffer, place, readers) if isinstance(node, Seq) and new is node else new

    return fold(stmt, made)


def _forwarded(node: Seq, buffer: Buffer, place: Mapping[int, int], readers: Sequence[int]) -> Stmt:
    """A sequence in which a store of `buffer` and the stores behind it that read the element are one."""
    body = list(node.body)
    stores = [k for k, s in enumerate(body) if isinstance(s, Store) and s.buffer is buffer]
    if not stores:
        return node
    at = stores[-1]
    given = body[at]
    assert isinstance(given, Store)
    users = [k for k in range(at + 1, len(body)) if buffer in touched(body[k])[0]]
    if not users or not all(isinstance(s, Store) for s in body[at + 1 :]) or max(readers) > place[id(body[users[-1]])]:
        return node
    exact = all(
        same_place(buffer, a.indices, given.indices) for k in users for a in accesses(body[k]) if a.buffer is buffer
    )
    taken = touched(given)[0]
    written = {s.buffer for s in body[at + 1 : users[-1]] if isinstance(s, Store)}
    places = [i for s in (given, *(body[k] for k in users)) if isinstance(s, Store) for i in s.indices]
    if not exact or (taken - {buffer}) & written or not _closed(places):
        return node
    name = Var(f"{buffer.name}_value", buffer.dtype)
    value: Expr = given.value if len(users) == 1 else name
    rest: list[Stmt] = []
    for s in body[at + 1 :]:
        assert isinstance(s, Store)
        rest.append(replace(s, value=_put(s.value, buffer, value)))
    if len(users) > 1:
        rest = [LetStmt(name, given.value, seq(*rest))]
    return seq(*body[:at], *rest)


def _put(root: Expr, buffer: Buffer, value: Expr) -> Expr:
    """`root` with `value` for its elements of `buffer`; inside `value` they stay."""

    def made(node: Expr, parts: list[Expr]) -> Expr:
        return value if isinstance(node, Load) and node.buffer is buffer else node.with_children(parts)

    return fold(root, made)


# --- in place ------------------------------------------------------------------------------------------------------


def reuse_operand(statements: list[Stmt], buffer: Buffer, candidates: set[Buffer]) -> list[Stmt]:
    """The statements with `buffer` in the memory of the value that is made of it, if there is one.

    That is stored once, by a store that is the last to read `buffer`, at the very element, once for each element.
    """
    found = [a for s in statements for a in accesses(s)]
    order = {id(s): k for k, s in enumerate(s for top in statements for s in program_order(top))}
    mine = [a for a in found if a.buffer is buffer]
    if not mine:
        return statements
    last = max(mine, key=lambda a: order[id(a.place)])
    store = last.place
    if last.write or not isinstance(store, Store) or store.buffer not in candidates:
        return statements
    target = store.buffer
    here = [a for a in mine if a.place is store]
    loops = next(a.loops for a in found if a.place is store)
    if not (
        target.dtype is buffer.dtype
        and target.scope == buffer.scope
        and len(target.shape) == len(buffer.shape)
        and all(map(same, target.shape, buffer.shape))
        and all(same_place(buffer, a.indices, store.indices) for a in here)
        and all(a.place is store for a in found if a.buffer is target and a.write)
        and all(order[id(a.place)] > order[id(store)] for a in found if a.buffer is target and not a.write)
        and all(_is_one(f) or any(i is f.var for i in store.indices) for f in loops)
        and not _guarded(statements, store)
    ):
        return statements
    return [substituted(s, {}, {buffer: target}) for s in statements]


def _guarded(statements: Sequence[Stmt], store: Store) -> bool:
    """Whether a store stands under a condition or in a loop that may run any number of times."""
    for top in statements:
        for s in program_order(top):
            if isinstance(s, (If, While)) and any(inner is store for inner in program_order(s)):
                return True
    return False
