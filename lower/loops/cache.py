"""Tiles of a buffer in memory of their own, and partial sums (specs/lower.md, "loops")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from assay.lower.loops.dependence import LoopAccess, Nest, conjuncts, ranges
from assay.lower.loops.nests import constant_extent, extent_number, wide_extent
from assay.lower.loops.rewriting import changed, loop_named, put, renewed
from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.integers.affine import Affine, Ranges, affine, decide
from assay.semantics.scalar import Apply, Expr, Load, Number, Var, apply, cast, const, neutral, substitute, variables
from assay.semantics.tensor.places import is_private
from assay.semantics.walk import path_to, rewrite

MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class Tile:
    """The box of a buffer that a body touches: where it starts, as a form of the loops around, and how long it is."""

    buffer: tensor.Buffer
    starts: tuple[Affine, ...]
    lengths: tuple[int, ...]
    guarded: tuple[tuple[bool, bool], ...]
    """In which dimensions the box may reach over the start, and over the end, of the buffer."""

    def at(self, offsets: Sequence[Number]) -> tuple[Expr, ...]:
        """The indices in the buffer of an element of the tile."""
        return tuple(expression(s) + o for s, o in zip(self.starts, offsets, strict=True))

    def copy(self, make: Callable[[tuple[Expr, ...], tuple[Expr, ...]], tensor.Stmt]) -> tensor.Stmt:
        """`make` for each element of the box that the buffer has: its place in the tile and in the buffer."""
        names = " ".join(f"{self.buffer.name}_{d}" for d in range(len(self.lengths)))

        def element(*t: Expr) -> tensor.Stmt:
            at = self.at(t)
            body = make(t, at)
            for i, n, (below, above) in reversed(list(zip(at, self.buffer.shape, self.guarded, strict=True))):
                body = tensor.when(i < n, body) if above else body
                body = tensor.when(i >= 0, body) if below else body
            return body

        return tensor.loops(names, self.lengths, element)


def cache_read(func: tensor.PrimFunc, buffer: str, at: str, scope: str = "global") -> tensor.PrimFunc:
    """The part of a buffer that one iteration of the loop `at` reads, copied before into a tile that it reads instead.

    Legal where the buffer is not stored to in that iteration, and its indices are sums of multiples of loop variables.
    A buffer that is written elsewhere must be read whole in the tile, so that the copy reads nothing unwritten
    (`loops.C10`).
    """
    old = loop_named(func, at)
    target = _find(func, buffer, old)
    uses = [a for a in Nest(func, old.body, read_only=True).accesses if a.buffer is target]
    if any(a.write for a in uses):
        raise Invalid(f"cache_read of {buffer} at {at}: it is stored to there, {uses[0]}", label="loops.C10")
    tile = _tile(func, old, uses, f"cache_read of {buffer} at {at}")
    known = ranges(func)
    constants = {s.buffer for s in tensor.program_order(func.body) if isinstance(s, tensor.AllocateConst)}
    if target not in func.inputs and target not in constants and not any(_dense(old, a, tile, known) for a in uses):
        raise Unsupported(
            f"cache_read of {buffer} at {at}: not all of the tile is surely read, so it may hold what was not written",
            label="loops.C10",
        )
    local = tensor.Buffer(f"{buffer}_tile", tile.lengths, target.dtype, scope)
    fill = tile.copy(lambda t, i: tensor.store(local, t, target[i]))
    return put(
        func,
        old,
        replace(old, body=tensor.Allocate(local, tensor.seq(fill, _moved(func, old.body, target, local, tile)))),
    )


def cache_write(func: tensor.PrimFunc, buffer: str, at: str, scope: str = "global") -> tensor.PrimFunc:
    """The part of a buffer that one iteration of the loop `at` writes, kept in a tile and copied back after.

    Legal where all of the tile is surely written; it is filled before, if what is there is read first (`loops.C10`).
    """
    old = loop_named(func, at)
    target = _find(func, buffer, old)
    uses = [a for a in Nest(func, old.body, read_only=True).accesses if a.buffer is target]
    what = f"cache_write of {buffer} at {at}"
    tile = _tile(func, old, uses, what)
    known = ranges(func)
    first = _first_store(old.body, target)
    if first is None or not any(a.write and a.stmt is first and _dense(old, a, tile, known) for a in uses):
        raise Unsupported(f"{what}: not all of the tile is surely written, or not at first", label="loops.C10")
    own = [n for e in first.expressions for n in tensor.loads(e) if n.buffer is target]
    if any(_forms(n.indices, known) != _forms(first.indices, known) for n in own):
        raise Unsupported(f"{what}: the first store reads other elements than its own", label="loops.C10")
    local = tensor.Buffer(f"{buffer}_tile", tile.lengths, target.dtype, scope)
    for s in tensor.program_order(old.body):
        if (
            is_private(local)
            and isinstance(s, tensor.For)
            and s.kind == "parallel"
            and any(a.write and a.stmt in tensor.program_order(s) for a in uses)
        ):
            raise Invalid(
                f"{what}: the parallel loop over {s.var.name} inside stores to it, and scope {scope} is that of one"
                " thread",
                label="loops.C9",
            )
    fill = [tile.copy(lambda t, i: tensor.store(local, t, target[i]))] if own else []
    back = tile.copy(lambda t, i: tensor.store(target, i, local[t]))
    body = tensor.seq(*fill, _moved(func, old.body, target, local, tile), back)
    return put(func, old, replace(old, body=tensor.Allocate(local, body)))


COMBINED = ("add", "mul", "min", "max")
"""The reductions that are taken apart."""


def rfactor(func: tensor.PrimFunc, name: str, factor: int) -> tensor.PrimFunc:
    """A reduction as `factor` partial ones side by side, combined at the end. Promises no more than "reassociated".

    The loop's body must be one store `c[i] = c[i] op e`, within loops of known length, where op is +, *, min or max,
    `i` does not name the loop, and `e` does not read `c` (`loops.C11`).
    """
    old = loop_named(func, name)
    inner: list[tensor.For] = []
    body = old.body
    while isinstance(body, tensor.For):
        inner.append(body)
        body = body.body
    what = f"rfactor of {name}"
    if (
        not isinstance(body, tensor.Store)
        or not isinstance(body.value, Apply)
        or body.value.op not in COMBINED
        or factor < 1
    ):
        raise Invalid(f"{what}: its body is not one store of a sum, product, minimum or maximum", label="loops.C11")
    c, op = body.buffer, body.value.op
    known = ranges(func)
    forms = _forms(body.indices, known)
    mine = [isinstance(a, Load) and a.buffer is c and _forms(a.indices, known) == forms for a in body.value.args]
    own = [k for k, holds in enumerate(mine) if holds]
    lengths = [constant_extent(s) for s in inner]
    if len(own) != 1 or any(old.var in variables(i) for i in body.indices) or None in lengths or forms is None:
        raise Invalid(f"{what}: {body} is not c[i] = c[i] {op} e with i the same in all iterations", label="loops.C11")
    term = body.value.args[1 - own[0]]
    if any(n.buffer is c for n in tensor.loads(term)):
        raise Invalid(f"{what}: what is added reads {c.name} itself", label="loops.C11")
    part = tensor.Buffer(f"{c.name}_part", (factor, *(max(n or 0, 0) for n in lengths)), c.dtype)
    count = constant_extent(old)
    of, extent = old.var.dtype, old.extent
    rounds = (
        extent_number(-(-max(count, 0) // factor), of)
        if count is not None
        else (wide_extent(extent) + (factor - 1)) // factor
    )
    if count is None and of.bits < 64 or count is not None and count + factor > of.max:
        raise Unsupported(f"{what}: {of} may be too narrow", label="loops.C3")
    outer, lane = Var(f"{old.var.name}_o", of), Var(f"{old.var.name}_i", of)

    def nest(make: Callable[[Expr, Sequence[Expr]], tensor.Stmt]) -> tensor.Stmt:
        r = Var(f"{old.var.name}_i", of)
        vars = [Var(s.var.name, s.var.dtype) for s in inner]
        stmt = make(r, vars)
        for v, s in zip(reversed(vars), reversed(inner), strict=True):
            stmt = tensor.For(v, s.extent, stmt)
        return tensor.For(r, const(factor), stmt)

    def combine(r: Expr, j: Sequence[Expr]) -> tensor.Stmt:
        by = dict(zip([s.var for s in inner], j, strict=True))
        at = tuple(rewrite(i, lambda n: by.get(n, n) if isinstance(n, Var) else n) for i in body.indices)
        return tensor.store(c, at, apply(op, c[at], part[(r, *j)]))

    index = outer * const(factor, of) + lane
    step: tensor.Stmt = tensor.store(
        part, (lane, *(s.var for s in inner)), apply(op, part[(lane, *(s.var for s in inner))], term)
    )
    for s in reversed(inner):
        step = replace(s, body=step)
    step = renewed(step, {old.var: index})
    if count is None or count % factor:
        step = tensor.when(index < cast(extent, of), step)
    total = tensor.For(outer, rounds, tensor.For(lane, const(factor), step))
    start = nest(lambda r, j: tensor.store(part, (r, *j), neutral(op, c.dtype)))
    made: tensor.Stmt = tensor.Allocate(part, tensor.seq(start, total, nest(combine)))
    if count is None or count <= 0:  # without iterations c is not touched: it may not have been written
        made = tensor.when(extent > 0, made)
    return put(func, old, made)


# --- boxes -------------------------------------------------------------------------------------------------------


def expression(form: Affine) -> Expr:
    """A form without quotients as an int64 expression."""
    total: Expr = const(form.constant)
    for atom, factor in form.terms.items():
        assert isinstance(atom, Var)
        total = cast(atom, INT64) * factor + total
    return total


def _find(func: tensor.PrimFunc, name: str, old: tensor.For) -> tensor.Buffer:
    inside = _begun(old.body)
    for b in (*func.params, *_begun(func.body)):
        if b.name == name and b not in inside:
            return b
    raise Invalid(f"{func.name} has no buffer {name} outside of the loop over {old.var.name}", label="loops.C2")


def _begun(body: tensor.Stmt) -> list[tensor.Buffer]:
    """The buffers that begin inside a statement."""
    return [s.buffer for s in tensor.program_order(body) if isinstance(s, (tensor.Allocate, tensor.AllocateConst))]


def _forms(indices: Sequence[Expr], known: Ranges) -> tuple[Affine, ...] | None:
    """The forms of indices; None where one of them has no linear form."""
    forms = [affine(i, known) for i in indices]
    found = tuple(f for f in forms if f is not None and f.is_linear)
    return found if len(found) == len(indices) else None


def _tile(func: tensor.PrimFunc, old: tensor.For, uses: Sequence[LoopAccess], what: str) -> Tile:
    """The box around all that is touched. Its start may depend on the loop and what is around it."""
    if not uses:
        raise Invalid(f"{what}: it is not touched there", label="loops.C10")
    known = ranges(func)
    inside = {s.var for s in tensor.program_order(old.body) if isinstance(s, (tensor.For, tensor.LetStmt))}
    buffer = uses[0].buffer
    for a in uses:  # guards around an access may give it forms that it has nowhere else
        if _forms(a.indices, known) is None:
            raise Unsupported(f"{what}: where {a} lies is no box", label="loops.C10")
    starts: list[Affine] = []
    lengths: list[int] = []
    guarded: list[tuple[bool, bool]] = []
    for d, n in enumerate(buffer.shape):
        base: Affine | None = None
        low = high = 0
        for a in uses:
            form = a.forms[d]
            reach = None
            if form is not None and form.is_linear:
                own = Affine({v: k for v, k in form.terms.items() if v in inside}, form.constant)
                fixed = Affine({v: k for v, k in form.terms.items() if v not in inside})
                reach = own.interval({v: known[v] for v in inside if v in known})
            if reach is None or (base is not None and fixed != base):
                raise Unsupported(f"{what}: where {a} lies in dimension {d} is no box", label="loops.C10")
            low, high = (reach[0], reach[1]) if base is None else (min(low, reach[0]), max(high, reach[1]))
            base = fixed
        assert base is not None
        start = base.plus(Affine({}, low))
        starts.append(start)
        lengths.append(high - low + 1)
        ends = start.interval(known)
        if prod(lengths) > MOST_ELEMENTS:
            raise Unsupported(f"{what}: a tile of more than {MOST_ELEMENTS} elements", label="loops.C10")
        over = ends is None or not isinstance(n, int) or ends[1] + high - low >= n
        guarded.append((ends is None or ends[0] < 0, over))
    return Tile(buffer, tuple(starts), tuple(lengths), tuple(guarded))


def _dense(old: tensor.For, access: LoopAccess, tile: Tile, known: Ranges) -> bool:
    """Whether an access surely touches every element of the tile that the buffer has."""
    way = path_to(old.body, access.stmt, _run_by)
    if not way:
        return False
    counts: dict[Var, int] = {}
    others: list[Expr] = []
    for s in way[:-1]:
        match s:
            case tensor.For():
                n = constant_extent(s)
                if n is None or n < 1:
                    return False
                counts[s.var] = n
            case tensor.If():
                others += [c for c in conjuncts(s.condition) if not _is_bound(c, access)]
            case tensor.Seq() | tensor.Allocate() | tensor.AllocateConst() | tensor.LetStmt():
                pass
            case _:
                return False
    used: set[Var] = set()
    for form, start, length in zip(access.forms, tile.starts, tile.lengths, strict=False):
        if form is None or not form.is_linear:
            return False
        own = {v: k for v, k in form.terms.items() if isinstance(v, Var) and v in counts}
        if used & own.keys() or form.plus(start, -1).constant != 0 or any(k < 1 for k in own.values()):
            return False
        used |= own.keys()
        reach = 1
        for v, k in sorted(own.items(), key=lambda item: item[1]):
            if k > reach:
                return False
            reach += k * (counts[v] - 1)
        if reach != length:
            return False
    # Other guards are of loops that the indices do not name: it is enough that they hold in the first iterations.
    first = {v: const(0, v.dtype) for v in counts}
    return all(not used & set(variables(c)) and decide(substitute(c, first), known) is True for c in others)


def _is_bound(condition: Expr, access: LoopAccess) -> bool:
    """Whether a condition says no more than that an index of the access is below its dimension."""
    match condition:
        case Apply(op="lt", args=(a, b)):
            for form, n in zip(access.forms, access.buffer.shape, strict=False):
                left, right = affine(a, access.within), affine(b, access.within)
                if form is not None and left == form and isinstance(n, int) and right == Affine({}, n):
                    return True
    return False


def _run_by(stmt: tensor.Stmt) -> Sequence[tensor.Stmt]:
    """The parts of a statement but the second branch of an If."""
    return (stmt.then,) if isinstance(stmt, tensor.If) else stmt.children


def _first_store(body: tensor.Stmt, target: tensor.Buffer) -> tensor.Store | None:
    """The first statement that touches the buffer, if it is a store and the only one in its own loops."""
    for s in body.body if isinstance(body, tensor.Seq) else (body,):
        touching = [x for x in tensor.program_order(s) if _touches(x, target)]
        if touching:
            only = touching[0]
            return only if len(touching) == 1 and isinstance(only, tensor.Store) and only.buffer is target else None
    return None


def _touches(stmt: tensor.Stmt, target: tensor.Buffer) -> bool:
    if isinstance(stmt, tensor.Store) and stmt.buffer is target:
        return True
    return any(n.buffer is target for e in stmt.expressions for n in tensor.loads(e))


def _moved(
    func: tensor.PrimFunc, body: tensor.Stmt, target: tensor.Buffer, local: tensor.Buffer, tile: Tile
) -> tensor.Stmt:
    """The body with the tile in place of the buffer."""
    known = ranges(func)

    def place(indices: Sequence[Expr]) -> tuple[Expr, ...]:
        forms = _forms(indices, known)
        assert forms is not None
        return tuple(expression(f.plus(s, -1)) for f, s in zip(forms, tile.starts, strict=True))

    def node(n: Expr) -> Expr:
        return Load(n.dtype, local, place(n.indices)) if isinstance(n, Load) and n.buffer is target else n

    def statement(s: tensor.Stmt) -> tensor.Stmt:
        new = changed(s, s.children, lambda e: rewrite(e, node))
        if isinstance(new, tensor.Store) and isinstance(s, tensor.Store) and s.buffer is target:
            return replace(new, buffer=local, indices=place(s.indices))
        return new

    return rewrite(body, statement)
