"""Rows of buffers of symbolic sizes, and loops over whole trailing dims as one (specs/lower.md, "c").

Where sizes are numbers a compiler sees that a nest of loops passes over memory from one end to the other, and what of
an index stays as it is in the innermost loop. Where they are not it has to be said: what the leading indices of an
element come to is computed before the loop, and loops over whole trailing dims become one. What is done, and in which
order, stays. Nothing moves that might trap, and nothing that reads memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from assay.lower.c.expr import ExprWriter
from assay.lower.c.range import Known, always_traps
from assay.semantics.scalar import Apply, Expr, Load, Var, apply
from assay.semantics.tensor import For, LetStmt, Seq, Stmt, Store, While, program_order
from assay.semantics.walk import post_order


@dataclass(frozen=True, eq=False)
class Flat:
    """Loops around one another that become one, the outermost first, and an element of each row that they pass over."""

    loops: tuple[For, ...]
    rows: tuple[Load, ...]
    whole: Load
    """An element of which they are the trailing dims."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Finds what can be said before a loop is opened."""

    exprs: ExprWriter

    def of_loop(self, loop: For) -> tuple[Load, ...]:
        """An element of each row that an innermost loop stays in; none for another loop."""
        statements = list(program_order(loop.body))
        if any(isinstance(s, (For, While)) for s in statements):
            return ()
        bound = {loop.var, *(s.var for s in statements if isinstance(s, LetStmt))}
        return self.different(
            (a for a in self.accesses(statements) if self.is_row(a, 1) and not _mentions(a.indices[:-1], bound)), 1
        )

    def flat(self, outer: For) -> Flat | None:
        """The loops directly inside one another, `outer` the first, if they and nothing else pass over whole trailing
        dims of everything that their variables index, and no value hangs on these."""
        loops = [outer]
        while isinstance(loops[-1].body, For):
            loops.append(loops[-1].body)
        count, statements = len(loops), list(program_order(loops[-1].body))
        plain = all(isinstance(s, (Seq, Store, LetStmt)) for s in statements)
        if count == 1 or not plain or any(f.start is not None for f in loops):
            return None
        names = [f.var for f in loops]
        if len(set(names)) < count or _mentions((f.extent for f in loops), names):
            return None
        found: list[Load] = []
        for access in self.accesses(statements):
            if _mentions(access.indices, names):
                if not self.is_whole(access, loops):
                    return None
                found.append(access)
        if not found or not self.is_only_index(statements, names) or not self.are_inside(found, loops):
            return None
        return Flat(tuple(loops), self.different(found, count), found[0])

    def accesses(self, statements: Sequence[Stmt]) -> Iterator[Load]:
        """What statements read and store to, folded."""
        for s in statements:
            roots = list(s.expressions)
            if isinstance(s, Store):
                roots.append(Load(s.buffer.dtype, s.buffer, s.indices))
            for root in roots:
                yield from (n for n in post_order(self.exprs.fold(root)) if isinstance(n, Load))

    def is_row(self, access: Load, count: int) -> bool:
        """Whether the element lies in memory of a symbolic size, at leading indices, all but `count`, that are shown to
        be inside here, and that nothing but numbers and variables go into."""
        place = self.exprs.buffers.get(access.buffer)
        shape = access.buffer.shape
        if place is None or place.scalar or len(shape) <= count or all(isinstance(d, int) for d in shape):
            return False
        return all(self.exprs.is_inside(i, d) for i, d in zip(access.indices[:-count], shape[:-count], strict=True))

    def is_whole(self, access: Load, loops: Sequence[For]) -> bool:
        """Whether the variables of the loops are the trailing indices, each of them for the whole dim."""
        shape, count, names = access.buffer.shape, len(loops), [f.var for f in loops]
        leading = access.indices[:-count]
        if len(shape) < count or _mentions(leading, names) or all(isinstance(d, int) for d in shape):
            return False
        number = self.exprs.number
        pairs = zip(loops, access.indices[-count:], shape[-count:], strict=True)
        if not all(
            self.is_variable(i, f.var, names) and number(self.exprs.fold(f.extent)) == number(_folded(self.exprs, d))
            for f, i, d in pairs
        ):
            return False
        place = self.exprs.buffers.get(access.buffer)
        return place is not None and not place.scalar and (len(shape) == count or self.is_row(access, count))

    def are_inside(self, found: Sequence[Load], loops: Sequence[For]) -> bool:
        """Whether the trailing indices of elements are shown to be inside: no text that could check them has the
        variables of the loops."""
        count = len(loops)
        with self.inside(loops):
            return all(
                self.exprs.is_inside(i, d)
                for a in found
                for i, d in zip(a.indices[-count:], a.buffer.shape[-count:], strict=True)
            )

    @contextmanager
    def inside(self, loops: Sequence[For]) -> Iterator[None]:
        """What is known inside loops, wherever they have come to."""
        ranges, leaving = self.exprs.ranges, list[Callable[[], None]]()
        facts = len(ranges.facts)
        for loop in loops:
            root = self.exprs.fold(loop.extent)
            known = self.exprs.bounds(root)
            assert known is not None, "a dim is a whole number"
            leaving.append(ranges.bind(loop.var, Known(0, max(known.high - 1, 0))))
            ranges.assume(apply("lt", loop.var, root), True)
        yield
        del ranges.facts[facts:]
        for leave in reversed(leaving):
            leave()

    def never_traps(self, root: Expr) -> bool:
        """Whether an expression is shown never to trap here; no index in it may be found in memory."""
        root, exprs = self.exprs.fold(root), self.exprs
        known = exprs.ranges.analyse(root)
        for node in post_order(root):
            if isinstance(node, Load):
                if not all(exprs.is_inside(i, d) for i, d in zip(node.indices, node.buffer.shape, strict=True)):
                    return False
            elif always_traps(node, known) or exprs.tests(node, known):
                return False
        return True

    def is_variable(self, index: Expr, var: Var, names: Collection[Var]) -> bool:
        """Whether an index is a variable, but for zeros that are added."""
        while isinstance(index, Apply) and index.op == "add":
            zeros = [a for a in index.args if not _mentions([a], names) and self.exprs.is_zero(a)]
            rest = [a for a in index.args if a not in zeros]
            if len(rest) != 1:
                return False
            index = rest[0]
        return index is var

    def is_only_index(self, statements: Sequence[Stmt], names: Collection[Var]) -> bool:
        """Whether the variables stand nowhere but in indices."""
        for s in statements:
            for root in (s.value,) if isinstance(s, Store) else s.expressions:
                if any(n in names for n in post_order(root, _outside) if isinstance(n, Var)):
                    return False
        return True

    def different(self, found: Iterator[Load] | Sequence[Load], count: int) -> tuple[Load, ...]:
        """One element of each row."""
        return tuple({self.exprs.row_key(a, count): a for a in found if len(a.indices) > count}.values())


def _outside(node: Expr) -> Sequence[Expr]:
    return () if isinstance(node, Load) else node.children


def _folded(exprs: ExprWriter, dim: int | Expr) -> int | Expr:
    return exprs.fold(dim) if isinstance(dim, Expr) else dim


def _mentions(roots: Sequence[Expr] | Iterator[Expr], names: Collection[Var]) -> bool:
    return any(n in names for root in roots for n in post_order(root) if isinstance(n, Var))
