"""Tensor functions without blocks, views, lazy choices and the like (specs/semantics.md, "Blocks").

`without_blocks` writes a function in the few nodes that the fast interpreter and the C know. What it means stays, bit
for bit, but for which of several traps comes first within one statement. A function that has nothing to remove is
returned itself.

    block      its predicate an `If`, its iterators `LetStmt`s, its buffers `Allocate`s, `init` under an `If`
    view       accesses of the source, bounds and alignment of the view checked where they are not evident
    region     a check of each access that is not evidently inside what its blocks declare
    choice     `select` where no side can trap; else an `If`, around the store or around stores to a cell of one element
    derived    the expression that the operation is short for
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias
from weakref import WeakKeyDictionary

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Crash, Unsupported
from assay.semantics.scalar import Apply, Choice, Const, Expr, Load, Var, apply, cast, const, same, select
from assay.semantics.scalar.arithmetic import DERIVED
from assay.semantics.scalar.derived import expand
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor.choices import choices_in, outermost, put
from assay.semantics.tensor.claims import Claims, EnclosingBlocks
from assay.semantics.tensor.extern_arguments import is_read_only, window
from assay.semantics.tensor.places import (
    crosses,
    declared_number,
    dense_strides,
    first_element,
    is_kept,
    is_placed,
    is_private,
    unravel,
)
from assay.semantics.tensor.recast import in_units, views_of
from assay.semantics.tensor.regions import matching
from assay.semantics.tensor.sugar import has_sugar, wants_pointers
from assay.semantics.tensor.within import Within
from assay.semantics.walk import fold, occurrences, post_order, rewrite

_done: WeakKeyDictionary[tensor.PrimFunc, tensor.PrimFunc | None] = WeakKeyDictionary()
_pointed: WeakKeyDictionary[tensor.PrimFunc, tensor.PrimFunc | None] = WeakKeyDictionary()
"""What functions are in plain nodes; None for those that are: one that held itself would never go."""

Make: TypeAlias = Callable[[Sequence[Expr]], tensor.Stmt]
MOST_WAYS = 2_000
"""What is shared by many choices is written once for each way to it: so many for a statement, beside 16 for each
choice."""


def without_blocks(func: tensor.PrimFunc, *, pointers: bool = False) -> tensor.PrimFunc:
    """`func` in plain nodes; `func` itself where it has no others.

    With `pointers`, as in C, memory that is seen as several dtypes keeps its place, and `Alias` is left for a view of
    its bytes. So are calls of externs, and `Alias` for what they are handed of a buffer. Unsupported for other calls.
    """
    table = _pointed if pointers and wants_pointers(func) else _done
    if func not in table:
        units = in_units(func, pointers=table is _pointed)
        plain = _Plain(units, pointers).run() if has_sugar(units) else units
        table[func] = None if plain is func else plain
        table[plain] = None
    return table[func] or func


class _Plain:
    """Rewrites one function, parts before wholes."""

    def __init__(self, func: tensor.PrimFunc, pointers: bool) -> None:
        self.func = func
        self.pointers = pointers
        self.within = Within(func)
        self.known: dict[EnclosingBlocks, dict[int, bool]] = {}
        self.seen: list[Expr] = []  # keeps what `known` speaks of alive, so that no other node gets its identity
        self.left = 0
        """How many more times choices may be taken apart in the present statement."""
        self.views: dict[tensor.Buffer, tensor.View] = {}
        self.places: dict[tensor.Buffer, list[tuple[Var, Expr]]] = {}
        """The numbers that say where a view lies, where they depend on more than variables: computed as it begins."""
        self.claims = Claims(func, self.within)
        self.fixed = {
            *func.inputs,
            *(s.buffer for s in tensor.program_order(func.body) if isinstance(s, tensor.AllocateConst)),
        }
        for stmt in tensor.program_order(func.body):
            for v in views_of(stmt):
                if not is_kept(v):
                    self.declare(v)

    def run(self) -> tensor.PrimFunc:
        return replace(self.func, body=fold(self.func.body, self.statement))

    def statement(self, stmt: tensor.Stmt, parts: list[tensor.Stmt]) -> tensor.Stmt:
        self.claims.at(stmt)
        match stmt:
            case tensor.Seq() | tensor.Allocate() | tensor.AllocateConst():
                return stmt.with_children(parts)
            case tensor.Pragma():
                return parts[0]
            case tensor.Alias() if is_kept(stmt.view):
                return stmt.with_children(parts)
            case tensor.Alias():
                return self.view(stmt.view, parts[0])
            case tensor.Block():
                return self.block(stmt, parts)
            case tensor.For():
                return self.loop(stmt, parts[0])
            case tensor.While():
                return self.repeat(stmt, parts[0])
            case tensor.If():
                if len(parts) == 1:
                    return self.guarded(stmt.condition, parts[0])
                otherwise = parts[1]
                return self.with_values(
                    [stmt.condition], lambda e: replace(stmt, condition=e[0], then=parts[0], otherwise=otherwise)
                )
            case tensor.LetStmt():
                return self.with_values([stmt.value], lambda e: replace(stmt, value=e[0], body=parts[0]))
            case tensor.Store():
                return self.store(stmt)
            case tensor.Call(extern=True) if self.pointers:
                return self.outside(stmt)
            case tensor.Call():
                what = (
                    f"the extern {stmt.function}"
                    if stmt.extern
                    else f"{stmt.function}: the stage legalize writes calls out"
                )
                raise Unsupported(f"{self.func.name} calls {what}", where=stmt.span, label="tensor.C17")
            case tensor.Assert():
                # what the message would show is the definition's to say
                return self.with_values([stmt.condition], lambda e: replace(stmt, condition=e[0], values=()))
            case tensor.Evaluate():
                return self.with_values([stmt.value], lambda e: replace(stmt, value=e[0]), leaf=True)
            case _:
                raise Crash(f"no such statement: {type(stmt).__name__}")

    # --- statements ----------------------------------------------------------------------------------------------

    def loop(self, stmt: tensor.For, body: tensor.Stmt) -> tensor.Stmt:
        if stmt.start is None:
            return self.with_values([stmt.extent], lambda e: replace(stmt, extent=e[0], body=body, annotations={}))
        start = Var(f"{stmt.var.name}_start", stmt.start.dtype)
        step = Var(stmt.var.name, stmt.var.dtype)

        def make(e: Sequence[Expr]) -> tensor.Stmt:
            first: Expr = e[0] if isinstance(e[0], Const) else start
            moved = tensor.LetStmt(stmt.var, cast(first, step.dtype) + step, body)
            inner = replace(stmt, var=step, start=None, extent=e[1], body=moved, annotations={})
            return inner if first is e[0] else tensor.LetStmt(start, e[0], inner)

        return self.with_values([stmt.start, stmt.extent], make)

    def repeat(self, stmt: tensor.While, body: tensor.Stmt) -> tensor.Stmt:
        test = self.with_values([stmt.condition], lambda e: replace(stmt, condition=e[0], body=body))
        if isinstance(test, tensor.While):
            return test
        holds = tensor.Buffer("holds", (), BOOL)
        again = self.with_values([stmt.condition], lambda e: tensor.Store(holds, (), e[0]))
        return tensor.Allocate(
            holds, tensor.seq(again, replace(stmt, condition=holds[()], body=tensor.seq(body, again)))
        )

    def block(self, block: tensor.Block, parts: list[tensor.Stmt]) -> tensor.Stmt:
        body = parts[-1]
        if block.init is not None:
            first = [_is_first(i.var, i.start) for i in block.iterators if i.kind == "reduce"]
            body = tensor.seq(tensor.If(_all(first), parts[0]) if first else parts[0], body)
        self.claims.inside(block)
        for v in reversed(block.views):
            body = self.view(v, body)
        self.claims.at(block)
        for b in reversed(block.allocated):
            body = tensor.Allocate(b, body, movable=is_private(b))
        predicate = block.predicate
        facts = [] if predicate is None else [self.plain(predicate)]
        for i in reversed(block.iterators):
            low, inside = i.start, body
            if not self.within.in_domain(i, facts):
                start = const(0) if low is None else cast(low, INT64)
                what = f"block {block.name}: {i.var.name} is outside its domain"
                within = _inside(cast(i.var, INT64), start, start + cast(i.extent, INT64))
                inside = tensor.seq(self.asserted(within, what, "assertion", block), body)
            body = self.let(i.var, i.value, inside)
        return body if predicate is None else self.guarded(predicate, body)

    def asserted(self, condition: Expr, message: str, kind: str, at: tensor.Stmt) -> tensor.Stmt:
        return self.with_values([condition], lambda e: tensor.Assert(e[0], message, kind, span=at.span))

    def declare(self, view: tensor.View) -> None:
        lets: list[tuple[Var, Expr]] = []

        def named(e: Expr) -> Expr:
            if not any(isinstance(n, (Load, Choice)) for n in post_order(e)):
                return e
            lets.append((Var(f"{view.buffer.name}_at", e.dtype), e))
            return lets[-1][0]

        self.views[view.buffer] = replace(view, offset=named(view.offset), strides=tuple(map(named, view.strides)))
        self.places[view.buffer] = lets

    def view(self, view: tensor.View, body: tensor.Stmt) -> tensor.Stmt:
        if is_kept(view):
            return tensor.Alias(view, body)
        view = self.views[view.buffer]
        checks: list[tensor.Assert] = []
        if crosses(view, self.views):
            checks.append(
                tensor.Assert(
                    const(False, BOOL), f"{view.buffer.name} is in another scope than its memory", "wrong scope"
                )
            )
        for claim in matching(view):
            if not claim.is_evident(self.within):
                checks.append(tensor.Assert(apply("le", claim.low, claim.high), claim.message, claim.kind))
        if is_placed(view.buffer):
            first = first_element(view, self.views)
            factor, align = declared_number(view.buffer, "offset_factor"), declared_number(view.buffer, "align")
            for number, unit in ((factor, 1), (align, view.source.dtype.itemsize)):
                aligned = None if number is None else apply("eq", (first * unit) % number, 0)
                if aligned is not None and not _is(aligned, True):
                    checks.append(
                        tensor.Assert(aligned, f"{view.buffer.name} is not aligned to {number}", "misaligned")
                    )
        for check in reversed(checks):
            body = tensor.seq(self.asserted(check.condition, check.message, check.kind, check), body)
        for var, value in reversed(self.places[view.buffer]):
            body = self.let(var, value, body)
        return body

    def let(self, var: Var, value: Expr, body: tensor.Stmt) -> tensor.Stmt:
        return self.with_values([value], lambda e: tensor.LetStmt(var, e[0], body))

    def guarded(self, condition: Expr, body: tensor.Stmt) -> tensor.Stmt:
        """`body` where a condition holds; each part of TVM's `and` guards the next."""
        parts = [n for n in occurrences(self.plain(condition), _conjuncts) if not _conjuncts(n)]
        for part in reversed(parts):
            body = self.tested(part, body)
        return body

    def tested(self, condition: Expr, body: tensor.Stmt) -> tensor.Stmt:
        return self.with_values([condition], lambda e: tensor.If(e[0], body))

    def outside(self, call: tensor.Call) -> tensor.Stmt:
        """A call of an extern: what it may touch is checked before, and the number that it returns is stored after
        it."""
        checks = [c for b in dict.fromkeys(call.buffers) for c in self.touched(b)]
        windows = {b: v for b in dict.fromkeys(call.buffers) if (v := window(b, self.views, call)) is not None}
        result = call.result
        at = () if result is None else result.indices

        def make(e: Sequence[Expr]) -> tensor.Stmt:
            numbers = iter(e)
            given: list[tensor.Buffer | Expr | str] = []
            for a in call.args:
                given.append(next(numbers) if isinstance(a, Expr) else windows[a].buffer if a in windows else a)
            if result is None:
                return replace(call, args=tuple(given))
            cell = tensor.Buffer("returned", (), result.dtype)
            index = [(Var(f"at{k}", i.dtype), i) for k, i in enumerate(numbers)]
            stored = self.store(tensor.Store(result.buffer, tuple(v for v, _ in index), cell[()], span=call.span))
            body: tensor.Stmt = tensor.Allocate(
                cell, tensor.seq(replace(call, args=tuple(given), result=cell[()]), stored)
            )
            for var, value in reversed(index):
                body = tensor.LetStmt(var, value, body)
            return body

        body = self.with_values([*call.expressions, *at], make)
        for v in windows.values():
            body = tensor.Alias(v, body)
        return tensor.seq(*checks, body)

    def touched(self, buffer: tensor.Buffer) -> list[tensor.Stmt]:
        """What must hold for every element of a buffer to be read, and written if it may be."""
        index = tuple(Var(f"i{k}") for k in range(len(buffer.shape)))
        extents = [d if isinstance(d, Expr) else const(d) for d in buffer.shape]
        for var, extent in zip(index, extents, strict=True):
            self.within.loop(var, extent)
        checks: list[tensor.Stmt] = []
        self.element_of_memory(buffer, index, False, checks)
        if not is_read_only(buffer, self.views, self.fixed):
            self.element_of_memory(buffer, index, True, checks)
        if not checks:
            return []
        body = tensor.seq(*checks)
        for var, extent in zip(reversed(index), reversed(extents), strict=True):
            body = tensor.For(var, extent, body)
        return [body]

    # --- expressions ---------------------------------------------------------------------------------------------

    def plain(self, root: Expr) -> Expr:
        """`root` without derived operations, and without choices that may as well be strict."""

        def change(node: Expr) -> Expr:
            match node:
                case Apply() if node.op in DERIVED:
                    return expand(node.op, node.args)
                case Choice(condition=c, then=a, otherwise=b) if self.total(a) and self.total(b):
                    if _is(b, False):
                        return apply("and", c, a)
                    if _is(a, True):
                        return apply("or", c, b)
                    return select(c, a, b)
                case _:
                    return node

        return rewrite(root, change)

    def total(self, root: Expr) -> bool:
        """Whether no step of `root` can trap where we are; each node is looked at once."""
        known = self.known.setdefault(self.claims.here, {})
        for node in post_order(root, lambda n: () if id(n) in known else n.children):
            if id(node) not in known:
                self.seen.append(node)
                known[id(node)] = self.total_step(node) and all(known[id(c)] for c in node.children)
        return known[id(root)]

    def total_step(self, node: Expr) -> bool:
        if not self.within.total(node):
            return False
        return not (
            isinstance(node, Load) and self.claims.any and self.claims.checks([(node.buffer, node.indices)], False)
        )

    def with_values(self, exprs: Sequence[Expr], make: Make, leaf: bool = False) -> tensor.Stmt:
        """What `make` gives for the values of `exprs`, computed in plain nodes before. A leaf may be made twice."""
        exprs = [self.plain(e) for e in exprs]
        self.left = MOST_WAYS + 16 * choices_in(exprs)
        return run_task(self._with_values(exprs, make, leaf))

    def _with_values(self, exprs: Sequence[Expr], make: Make, leaf: bool) -> Task[tensor.Stmt]:
        found = outermost(exprs)
        if not found:
            checks, exprs = self.accesses(exprs)
            return tensor.seq(*checks, make(exprs))
        self.left -= 1
        if self.left < 0:
            raise Unsupported(f"{self.func.name}: choices inside choices share too much", label="tensor.C21")
        if leaf and len(found) == 1 and not outermost([found[0].condition]):
            (only,) = found
            either = outermost([only.otherwise])
            found = [c for c in outermost([only.then]) if c in either]  # wanted whichever way is taken: once, before
            if not found:
                then = yield self._with_values(put(exprs, {only: only.then}), make, leaf)
                otherwise = yield self._with_values(put(exprs, {only: only.otherwise}), make, leaf)
                test: tensor.Stmt = yield self._with_values(
                    [only.condition], lambda e: tensor.If(e[0], then, otherwise), False
                )
                return test
        cells = {c: tensor.Buffer(f"chosen{k}", (), c.dtype) for k, c in enumerate(found)}
        fills: list[tensor.Stmt] = []
        for c, cell in cells.items():
            if outermost([c.condition]):  # a condition that itself chooses: its value first
                holds = tensor.Buffer("holds", (), BOOL)
                known = yield self._with_values([c.condition], _into(holds), True)
                chosen = yield self._with_values([replace(c, condition=holds[()])], _into(cell), True)
                fills.append(tensor.Allocate(holds, tensor.seq(known, chosen)))
            else:
                fills.append((yield self._with_values([c], _into(cell), True)))
        body: tensor.Stmt = yield self._with_values(put(exprs, {c: cell[()] for c, cell in cells.items()}), make, leaf)
        body = tensor.seq(*fills, body)
        for cell in reversed(cells.values()):
            body = tensor.Allocate(cell, body)
        return body

    # --- views ---------------------------------------------------------------------------------------------------

    def accesses(self, exprs: Sequence[Expr]) -> tuple[list[tensor.Stmt], list[Expr]]:
        """The expressions with views replaced by their sources, and the checks that this needs before."""
        if not self.views and not self.claims.any:
            return [], list(exprs)
        checks: list[tensor.Stmt] = []

        def change(node: Expr) -> Expr:
            if not isinstance(node, Load):
                return node
            source, indices = self.element_of_memory(node.buffer, node.indices, False, checks)
            return node if source is node.buffer else Load(node.dtype, source, indices)

        return checks, [rewrite(e, change) for e in exprs]

    def store(self, stmt: tensor.Store) -> tensor.Stmt:
        def make(e: Sequence[Expr]) -> tensor.Stmt:
            checks: list[tensor.Stmt] = []
            buffer, indices = self.element_of_memory(stmt.buffer, tuple(e[:-1]), True, checks)
            return tensor.seq(*checks, replace(stmt, buffer=buffer, indices=indices, value=e[-1]))

        # lanes read, all of them, before one writes: two stores would be two steps
        return self.with_values([*stmt.indices, stmt.value], make, leaf=not self.claims.here.lanes)

    def element_of_memory(
        self, buffer: tensor.Buffer, indices: tuple[Expr, ...], write: bool, checks: list[tensor.Stmt]
    ) -> tuple[tensor.Buffer, tuple[Expr, ...]]:
        """What an element is in memory, through any number of views, and what must hold before it is touched."""
        names = [(buffer, indices)]
        while buffer in self.views:
            if write and self.views[buffer].constant:
                checks.append(tensor.Assert(const(False, BOOL), f"{buffer.name} is read-only", "store to constant"))
            buffer, indices = self.element(buffer, indices, checks)
            names.append((buffer, indices))
        checks += self.claims.checks(names, write)
        return names[-1]

    def element(
        self, buffer: tensor.Buffer, indices: tuple[Expr, ...], checks: list[tensor.Stmt]
    ) -> tuple[tensor.Buffer, tuple[Expr, ...]]:
        """The element of the source that an element of a view is."""
        view = self.views[buffer]
        for i, d in zip(indices, buffer.shape, strict=True):
            if not self.within.below(i, d):
                condition = _inside(cast(i, INT64), const(0), cast(d, INT64))
                checks.append(tensor.Assert(condition, f"out of the bounds of {buffer.name}", "out of bounds"))
        source = view.source
        direct = self.direct(view, indices)
        if direct is not None:
            return source, direct
        flat = reduce(
            lambda sum, term: sum + cast(term[0], INT64) * cast(term[1], INT64),
            zip(indices, view.strides, strict=True),
            cast(view.offset, INT64),
        )
        if len(source.shape) == 1:
            return source, (flat,)
        total: Expr = const(1)
        for d in source.shape:
            total = apply("mul", total, d)
        checks.append(
            tensor.Assert(_inside(flat, const(0), total), f"out of the bounds of {source.name}", "out of bounds")
        )
        return source, unravel(flat, source.shape)

    def direct(self, view: tensor.View, indices: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        """The indices in the source where each is the start of the view's region plus an index of the view."""
        source = view.source
        steps = dense_strides(source.shape)
        if len(indices) > len(source.shape) or not all(map(same, view.strides, steps[len(steps) - len(indices) :])):
            return None
        if view.region is not None:
            starts: Sequence[Expr] = view.region.starts
        elif isinstance(view.offset, Const) and int(view.offset.value) == 0:
            starts = [const(0) for _ in source.shape]
        else:
            return None
        moved = list(starts)
        for k, i in enumerate(indices, start=len(starts) - len(indices)):
            moved[k] = cast(starts[k], i.dtype) + i
        if not all(self.within.below(i, d) for i, d in zip(moved[1:], source.shape[1:], strict=True)):
            return None
        return tuple(moved)


def _into(cell: tensor.Buffer) -> Make:
    return lambda e: tensor.Store(cell, (), e[0])


def _is(node: Expr, value: bool) -> bool:
    return isinstance(node, Const) and node.dtype is BOOL and bool(node.value) is value


def _is_first(var: Var, start: Expr | None) -> Expr:
    return apply("eq", var, 0 if start is None else start)


def _all(conditions: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: apply("and", a, b), conditions)


def _inside(index: Expr, low: Expr, stop: Expr) -> Expr:
    return apply("and", low <= index, index < stop)


def _conjuncts(node: Expr) -> Sequence[Expr]:
    """The two sides of TVM's `and`; nothing of what is none."""
    return (node.condition, node.then) if isinstance(node, Choice) and _is(node.otherwise, False) else ()
