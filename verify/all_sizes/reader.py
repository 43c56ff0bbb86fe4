"""A tensor function read backwards: the value of each element of its outputs as a term over its inputs, for all sizes
(specs/verify.md, "For all sizes").

The function is walked once. A loop is walked for any one iteration, in memory as it is when that begins; what the
iteration stores, and takes from there, says what the whole loop does: each iteration stores elsewhere, or each takes
what the one before has left in the same element, which is a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.indexed.fold import Accumulator, Fold
from assay.semantics.scalar import (
    Apply,
    Expr,
    Load,
    Var,
    apply,
    as_expr,
    const,
    may_trap,
    operation,
    substitute,
)
from assay.semantics.scalar.expression import Buffer
from assay.semantics.scalar.smt import may_overflow
from assay.semantics.tensor import PrimFunc, Stmt
from assay.semantics.walk import Worklist, depending, post_order
from assay.verify.all_sizes.pieces import (
    TRUE,
    Contents,
    MemoryPiece,
    NotFollowed,
    carried_contents,
    element_of,
    fits_machine,
    of_input,
    put_in,
    reaches,
    require_kept,
    require_told,
    require_written,
    unwritten,
)
from assay.verify.all_sizes.plain_traps import require_plain_traps
from assay.verify.all_sizes.scattered import ScatteredUpdate, own_element, scattering_nest
from assay.verify.all_sizes.space import (
    CarriedElement,
    Facts,
    Space,
    conjunction,
    in_box,
    is_data,
    is_index_term,
    standing,
)

Action: TypeAlias = "Stmt | Callable[[], None]"


@dataclass(frozen=True, eq=False)
class Check:
    """An assertion about data: for each place of a box at which the guard holds, the condition must."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    guard: Expr
    condition: Expr


@dataclass(frozen=True, eq=False)
class ReadFunction:
    """What a function does: the value of each output at any place, what it asks of sizes, and of data."""

    places: Sequence[tuple[Var, ...]]
    """For each output the variables of its index."""
    values: Sequence[Expr]
    asked: Sequence[Expr]
    checks: Sequence[Check]
    facts: Facts
    """What holds of the sizes once the function goes on."""


@dataclass(eq=False)
class _Loop:
    """A loop that is being walked."""

    stmt: tensor.For
    var: Var
    extent: Expr
    before: dict[Buffer, Contents]
    """What the buffers held that it writes."""
    facts: Facts
    guards: tuple[Expr, ...]
    checks: int


@dataclass(eq=False)
class FunctionReader:
    """Walks one function. `facts` hold of its sizes."""

    func: PrimFunc
    space: Space
    facts: Facts
    env: dict[Var, Expr] = field(default_factory=dict)
    held: set[Expr] = field(default_factory=set)
    """Of the names in it those of what memory held."""
    memory: dict[Buffer, Contents] = field(default_factory=dict)
    guards: tuple[Expr, ...] = ()
    """Conditions around, within the innermost loop."""
    loops: list[_Loop] = field(default_factory=list)
    asked: list[Expr] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def run(self) -> ReadFunction:
        """Walk the function. NotFollowed where something is not seen."""
        require_plain_traps(self.func)
        for b in self.func.inputs:
            self.memory[b] = of_input(b)
        for b in self.func.outputs:
            self.memory[b] = unwritten(b)
        work = Worklist[Action]([self.func.body])
        for action in work:
            if isinstance(action, Stmt):
                work.add(self.statement(action))
            else:
                action()
        places, values = [], []
        for b in self.func.outputs:
            place = tuple(Var(f"i{k}") for k in range(len(b.shape)))
            inside = in_box([as_expr(d) for d in b.shape], place)
            places.append(place)
            values.append(element_of(self.space, self.memory[b], place, (*self.facts, *inside)))
        return ReadFunction(places, values, self.asked, self.checks, self.facts)

    # --- statements ----------------------------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> Iterable[Action]:
        """Do what a statement does itself; what is to be done next."""
        match stmt:
            case tensor.Seq():
                return stmt.body
            case tensor.Pragma():
                return [stmt.body]
            case tensor.Store():
                return self.store(stmt)
            case tensor.For():
                return self.loop(stmt)
            case tensor.If():
                return self.branches(stmt)
            case tensor.LetStmt():
                self.env[stmt.var] = self.condition(stmt.value)
                self.held |= {stmt.var} if self.takes_memory(stmt.value) else set()
                return [stmt.body]
            case tensor.Allocate():
                self.memory[stmt.buffer] = unwritten(stmt.buffer)
                return [stmt.body, lambda: self.end_of(stmt.buffer)]
            case tensor.Assert():
                return self.check(stmt)
            case _:
                raise NotFollowed(f"{type(stmt).__name__} is not read")

    def end_of(self, buffer: Buffer) -> None:
        """The memory of a buffer is gone."""
        for piece in self.memory.pop(buffer).pieces:
            require_told((piece.value, piece.guard))

    def store(self, stmt: tensor.Store) -> Iterable[Action]:
        """A piece of one element."""
        if stmt.buffer not in self.memory:
            raise NotFollowed(f"{stmt.buffer.name} is no plain memory")
        indices = tuple(self.value(i) for i in stmt.indices)
        value = self.value(stmt.value)
        if any(map(is_data, indices)):
            self.scatter(stmt, ())
            return ()
        self.require_range(value)
        require_written(self.space, value, self.facts)
        self.add(stmt.buffer, MemoryPiece((), (), conjunction(self.guards) if self.guards else TRUE, indices, value))
        return ()

    def scatter(self, stmt: tensor.Store, around: Sequence[tensor.For]) -> None:
        """A store to places that are data, in a nest of loops with nothing beside it."""
        buffer, facts = stmt.buffer, self.facts
        if self.loops or self.guards or buffer not in self.memory:
            raise NotFollowed(f"where {buffer.name} is stored to is data")
        extents = tuple(self.value(s.extent) for s in around)
        at = tuple(Var(s.var.name, s.var.dtype) for s in around)
        self.env.update(zip((s.var for s in around), at, strict=True))
        self.facts = (*facts, *in_box(extents, at))
        acc = Accumulator(buffer.dtype)
        indices, value = tuple(map(self.value, stmt.indices)), self.value(own_element(stmt, acc))
        self.require_range(value)
        for e in (*indices, value):
            require_written(self.space, e, self.facts)
        self.facts = facts
        update = ScatteredUpdate(at, extents, indices, acc, value)
        self.memory[buffer] = update.contents(self.space, self.memory[buffer], buffer, facts)

    def add(self, buffer: Buffer, piece: MemoryPiece) -> None:
        """A newer piece."""
        old = self.memory[buffer]
        self.memory[buffer] = replace(old, pieces=(piece, *old.pieces))

    def require_range(self, value: Expr) -> None:
        """Sizes that are part of a value stay in their dtype, as those of indices are shown to elsewhere."""
        for node, known in standing([value], self.facts, lambda n: () if isinstance(n, Load) else n.children):
            if node.dtype is INT64 and may_overflow(node) and not is_data(node):
                low, high = apply("ge", node, const(INT64.min)), apply("le", node, const(INT64.max))
                if not self.space.implies([*known, *self.small], apply("and", low, high)):
                    raise NotFollowed(f"{node} may wrap")
        for node, known in standing([value], self.facts):
            if isinstance(node, Apply) and may_trap(node) and is_index_term(node):
                if not operation(node.op).has("divides") or not self.space.implies(
                    known, apply("ne", node.args[1], const(0, node.dtype))
                ):
                    raise NotFollowed(f"{node} may trap")

    @cached_property
    def small(self) -> Facts:
        """That the parameters fit a machine."""
        return tuple(f for b in self.func.params for f in fits_machine(b))

    def check(self, stmt: tensor.Assert) -> Iterable[Action]:
        """What is asked of sizes holds from here on."""
        condition = self.condition(stmt.condition)
        if is_index_term(condition) and not self.loops and not self.guards:
            self.asked.append(condition)
            self.facts = (*self.facts, condition)
        else:
            guard = conjunction(self.guards) if self.guards else TRUE
            self.checks.append(Check((), (), guard, condition))
        return ()

    def branches(self, stmt: tensor.If) -> Iterable[Action]:
        """Both, each where its condition holds."""
        condition = self.condition(stmt.condition)
        old = self.facts, self.guards

        def enter(test: Expr) -> Callable[[], None]:
            def begin() -> None:
                self.facts, self.guards = (*old[0], test), (*old[1], test)

            return begin

        def leave() -> None:
            self.facts, self.guards = old

        yield enter(condition)
        yield stmt.then
        if stmt.otherwise is not None:
            yield enter(apply("not", condition))
            yield stmt.otherwise
        yield leave

    # --- loops ---------------------------------------------------------------------------------------------------

    def loop(self, stmt: tensor.For) -> Iterable[Action]:
        """Any one iteration, in memory as it is when that begins."""
        if stmt.start is not None:
            raise NotFollowed("a loop that starts elsewhere than at 0 is not read")
        if (nest := scattering_nest(stmt)) is not None:
            self.scatter(*nest)
            return ()
        extent = self.value(stmt.extent)
        if is_data(extent):
            raise NotFollowed("how often a loop runs is data")
        own = {b for s in tensor.program_order(stmt.body) for b in tensor.allocated(s)}
        stored = [s.buffer for s in tensor.program_order(stmt.body) if isinstance(s, tensor.Store)]
        written = [b for b in dict.fromkeys(stored) if b not in own]
        if not all(b in self.memory for b in written):
            raise NotFollowed("a loop writes what is no plain memory")
        at = Var(stmt.var.name, stmt.var.dtype)
        loop = _Loop(stmt, at, extent, {b: self.memory[b] for b in written}, self.facts, self.guards, len(self.checks))
        self.loops.append(loop)
        for b in written:
            self.memory[b] = carried_contents(b, loop)
        self.env[stmt.var] = at
        self.facts = (*self.facts, *in_box([extent], [at]))
        self.guards = ()
        return [stmt.body, lambda: self.leave(loop)]

    def leave(self, loop: _Loop) -> None:
        """What the whole loop does."""
        inside = self.facts
        self.facts, self.guards = loop.facts, loop.guards
        self.loops.pop()
        made = {b: self.visible(self.memory[b], inside) for b in loop.before}
        made = {b: [self.settled(p, loop, made, inside) for p in pieces] for b, pieces in made.items()}
        whole = {b: self.whole(loop, b, pieces, inside) for b, pieces in made.items()}
        around = conjunction(self.guards) if self.guards else TRUE
        for b, old in loop.before.items():
            pieces = whole[b] if around is TRUE else [p.guarded(around) for p in whole[b]]
            for p in pieces:
                require_written(self.space, p.value, (*self.facts, *p.taken()))
            self.memory[b] = replace(old, pieces=(*pieces, *old.pieces))
        for k, c in enumerate(self.checks[loop.checks :], loop.checks):
            guard = c.guard if around is TRUE else around if c.guard is TRUE else apply("and", around, c.guard)
            self.checks[k] = Check((loop.var, *c.vars), (loop.extent, *c.extents), guard, c.condition)

    def visible(self, contents: Contents, facts: Facts) -> list[MemoryPiece]:
        """The pieces of an iteration without those that newer ones hide."""
        found: list[MemoryPiece] = []
        for piece in contents.pieces:
            mine = piece.fresh()
            here = (*facts, *mine.taken())
            newer = Contents(tuple(found), contents.before)
            if not found or not self.hidden(newer, mine.indices, here):
                found.append(piece)
            else:
                require_told((piece.value, piece.guard))
        return found

    def hidden(self, newer: Contents, at: Sequence[Expr], facts: Facts) -> bool:
        """Whether an element is surely stored by one of these pieces."""
        for piece in newer.pieces:
            try:
                reach = reaches(self.space, piece, at, facts)
            except NotFollowed:
                continue
            if reach is not None and reach[0] is TRUE:
                return True
        return False

    def settled(
        self, piece: MemoryPiece, loop: _Loop, made: dict[Buffer, list[MemoryPiece]], facts: Facts
    ) -> MemoryPiece:
        """A piece without what it takes from before the iteration, where no earlier iteration has stored that."""
        if any(_takes(e, loop) for e in (*piece.extents, *piece.indices)):
            raise NotFollowed("where something is stored hangs on what a loop changes")
        here = (*facts, *piece.taken())
        new: dict[int, Expr] = {}
        for node, there in _carried_in([piece.value, piece.guard], loop, here):
            if not self.stored_before(node, loop, made[node.buffer], there):
                new[id(node)] = element_of(self.space, loop.before[node.buffer], node.indices, there)
        return piece if not new else piece.changed(lambda e: put_in(self.space, e, new, (*here, *self.small)))

    def stored_before(self, node: CarriedElement, loop: _Loop, pieces: Sequence[MemoryPiece], facts: Facts) -> bool:
        """Whether an earlier iteration may have stored an element."""
        for p in pieces:
            earlier = Var(loop.var.name, loop.var.dtype)
            other = _at(p.fresh(), loop.var, earlier)
            same = [apply("eq", a, b) for a, b in zip(other.indices, node.indices, strict=True)]
            order = [apply("ge", earlier, 0), apply("lt", earlier, loop.var)]
            if not self.space.never([*facts, *order, *other.taken(), *same]):
                return True
        return False

    def whole(self, loop: _Loop, buffer: Buffer, pieces: list[MemoryPiece], facts: Facts) -> list[MemoryPiece]:
        """The pieces of all iterations together."""
        taken = [n for p in pieces for n, _ in _carried_in([p.value, p.guard], loop, ())]
        if not taken:
            self.require_order(loop, pieces)
            return [replace(p, vars=(loop.var, *p.vars), extents=(loop.extent, *p.extents)) for p in pieces]
        if len(pieces) > 1 or any(n.buffer is not buffer for n in taken):
            raise NotFollowed(f"a loop carries more than one value of {buffer.name} on")
        if loop.var in {v for i in pieces[0].indices for v in _variables(i)}:
            return [self.scan(loop, buffer, pieces[0], facts)]
        return [self.fold(loop, buffer, pieces[0], facts)]

    def require_order(self, loop: _Loop, pieces: Sequence[MemoryPiece]) -> None:
        """No later iteration stores by an older piece what an earlier one has stored by a newer one."""
        for k, newer in enumerate(pieces):
            for older in pieces[k + 1 :]:
                later = Var(loop.var.name, loop.var.dtype)
                a, b = newer.fresh(), _at(older.fresh(), loop.var, later)
                both = [
                    *in_box([loop.extent], [loop.var]),
                    *in_box([loop.extent], [later]),
                    apply("lt", loop.var, later),
                ]
                same = [apply("eq", x, y) for x, y in zip(a.indices, b.indices, strict=True)]
                if not self.space.never([*self.facts, *both, *a.taken(), *b.taken(), *same]):
                    raise NotFollowed("two iterations of a loop may store one element in several ways")

    def fold(self, loop: _Loop, buffer: Buffer, piece: MemoryPiece, facts: Facts) -> MemoryPiece:
        """The piece of a loop of which each iteration takes what the one before has left in the same element."""
        if any(loop.var in _variables(e) for e in (*piece.extents, piece.guard, *piece.indices)):
            raise NotFollowed(f"a loop carries another element of {buffer.name} on than it stores")
        acc = Accumulator(buffer.dtype)
        new: dict[int, Expr] = {}
        for node, there in _carried_in([piece.value, piece.guard], loop, (*facts, *piece.taken())):
            if not all(self.space.equal(there, a, b) for a, b in zip(node.indices, piece.indices, strict=True)):
                raise NotFollowed(f"a loop carries another element of {buffer.name} on than it stores")
            new[id(node)] = acc
        if _takes(piece.guard, loop):
            raise NotFollowed("whether something is stored hangs on what a loop changes")
        here = (*self.facts, *piece.taken())
        before = element_of(self.space, loop.before[buffer], piece.indices, here)
        step = put_in(self.space, piece.value, new, facts)
        return replace(piece, value=joined_fold(Fold(buffer.dtype, (loop.var,), (loop.extent,), acc, before, step)))

    def scan(self, loop: _Loop, buffer: Buffer, piece: MemoryPiece, facts: Facts) -> MemoryPiece:
        """The piece of a loop of which each iteration takes the element that the one before has stored, and stores the
        next: each is a fold of all iterations up to its own."""
        if any(loop.var in _variables(e) for e in (*piece.extents, piece.guard)) or _takes(piece.guard, loop):
            raise NotFollowed(f"a loop stores other elements of {buffer.name} in each iteration")
        self.require_one_place(loop, piece)
        last = [substitute(i, {loop.var: loop.var - 1}) for i in piece.indices]
        acc, step = Accumulator(buffer.dtype), Var(loop.var.name, loop.var.dtype)
        new: dict[int, Expr] = {}
        for node, there in _carried_in([piece.value], loop, (*facts, *piece.taken())):
            if not all(self.space.equal(there, a, b) for a, b in zip(node.indices, last, strict=True)):
                raise NotFollowed(f"a loop carries another element of {buffer.name} on than it has stored last")
            new[id(node)] = acc
        first = tuple(substitute(i, {loop.var: const(-1, loop.var.dtype)}) for i in piece.indices)
        before = element_of(self.space, loop.before[buffer], first, (*self.facts, loop.extent > 0, *piece.taken()))
        each = substitute(put_in(self.space, piece.value, new, facts), {loop.var: step})
        value = Fold(buffer.dtype, (step,), (loop.var + 1,), acc, before, each)
        return replace(piece, vars=(loop.var, *piece.vars), extents=(loop.extent, *piece.extents), value=value)

    def require_one_place(self, loop: _Loop, piece: MemoryPiece) -> None:
        """No element is stored twice, by any two iterations or within one."""
        a = replace(piece, vars=(loop.var, *piece.vars), extents=(loop.extent, *piece.extents))
        b = a.fresh()
        both = [*self.facts, *a.taken(), *b.taken()]
        same = [apply("eq", x, y) for x, y in zip(a.indices, b.indices, strict=True)]
        if not self.space.implies(
            [*both, *same], conjunction([apply("eq", x, y) for x, y in zip(a.vars, b.vars, strict=True)])
        ):
            raise NotFollowed("two iterations of a loop that carries values on may store one element")

    # --- values --------------------------------------------------------------------------------------------------

    def condition(self, expr: Expr) -> Expr:
        """What is evaluated here whether or not anything comes of it."""
        made = self.value(expr)
        require_told((made,))
        require_written(self.space, made, self.facts)
        return made

    def value(self, expr: Expr) -> Expr:
        """An expression as it is here, over inputs alone and what loops carry."""
        made: dict[int, Expr] = {}
        data = depending(expr, lambda n: isinstance(n, Load) or n in self.held)
        for node in post_order(expr):
            parts = [made[id(c)] for c in node.children]
            match node:
                case Var():
                    made[id(node)] = self.env.get(node, node)
                case Load():
                    if node.buffer not in self.memory:
                        raise NotFollowed(f"{node.buffer.name} is no plain memory")
                    made[id(node)] = element_of(self.space, self.memory[node.buffer], tuple(parts), self.facts)
                case _:
                    made[id(node)] = node.with_children(parts)
                    if id(node) in data:
                        require_kept(self.space, made[id(node)], (*self.facts, *self.small))
        return made[id(expr)]

    def takes_memory(self, expr: Expr) -> bool:
        """Whether a value hangs on what memory holds."""
        return any(isinstance(n, Load) or n in self.held for n in post_order(expr))


def joined_fold(fold: Fold) -> Fold:
    """A fold over a fold that goes on from it, as one over the box of both."""
    inner = fold.step
    if not isinstance(inner, Fold) or inner.init is not fold.acc:
        return fold
    if any(n is fold.acc for n in post_order(inner.step)):
        return fold
    if any(v in _variables(e) for e in inner.extents for v in fold.vars):
        return fold
    together = (*fold.vars, *inner.vars), (*fold.extents, *inner.extents)
    return Fold(fold.dtype, *together, inner.acc, fold.init, inner.step)


def _variables(expr: Expr) -> set[Expr]:
    return {n for n in post_order(expr) if isinstance(n, Var)}


def _at(piece: MemoryPiece, var: Var, other: Var) -> MemoryPiece:
    """A piece of another iteration."""
    return piece.changed(lambda e: substitute(e, {var: other}))


def _takes(expr: Expr, loop: object) -> bool:
    return any(isinstance(n, CarriedElement) and n.loop is loop for n in post_order(expr))


def _carried_in(exprs: Sequence[Expr], loop: object, facts: Facts) -> list[tuple[CarriedElement, Facts]]:
    """What expressions take from before an iteration, each with what is known wherever it stands."""
    found: dict[int, tuple[CarriedElement, Facts]] = {}

    def own(node: Expr) -> bool:
        return isinstance(node, CarriedElement) and node.loop is loop

    for node, known in standing(exprs, facts, lambda n: () if own(n) else n.children):
        if isinstance(node, CarriedElement) and own(node):
            found[id(node)] = node, facts if id(node) in found else known
    return list(found.values())
