"""What stands in memory at a point of a program, as functions of the index (specs/verify.md, "For all sizes").

A piece says of a buffer that for each place of a box at which a guard holds, the element at some indices, which hang on
the place, has some value. The newest piece comes first; under all of them is what the memory was at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.indexed.fold import Fold
from assay.semantics.scalar import (
    Apply,
    Choice,
    Const,
    Expr,
    Load,
    Number,
    Var,
    apply,
    as_expr,
    choice,
    const,
    linear,
    substitute,
)
from assay.semantics.scalar.expression import Buffer
from assay.semantics.scalar.smt import may_overflow
from assay.semantics.walk import Worklist, depending, post_order
from assay.verify.all_sizes.space import DATA, CarriedElement, Facts, Space, Unwritten, conjunction, in_box, is_data

TRUE = const(True, BOOL)


@dataclass(frozen=True, eq=False)
class MemoryPiece:
    """For each place of a box at which the guard holds: the element at `indices` is `value`."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    guard: Expr
    indices: tuple[Expr, ...]
    value: Expr

    def taken(self) -> list[Expr]:
        """That the place is one at which something is stored."""
        inside = in_box(self.extents, self.vars)
        return inside if self.guard is TRUE else [*inside, self.guard]

    def fresh(self) -> MemoryPiece:
        """The same piece in variables of its own."""
        by: dict[Var, Number] = {v: Var(v.name, v.dtype) for v in self.vars}
        return self.changed(lambda e: substitute(e, by), tuple(v for v in by.values() if isinstance(v, Var)))

    def changed(self, change: Callable[[Expr], Expr], variables: tuple[Var, ...] | None = None) -> MemoryPiece:
        """The same piece in other expressions."""
        return MemoryPiece(
            self.vars if variables is None else variables,
            tuple(map(change, self.extents)),
            self.guard if self.guard is TRUE else change(self.guard),
            tuple(map(change, self.indices)),
            change(self.value),
        )

    def guarded(self, by: Expr) -> MemoryPiece:
        """The same piece, where a condition holds besides."""
        return replace(self, guard=by if self.guard is TRUE else apply("and", by, self.guard))


@dataclass(frozen=True, eq=False)
class Contents:
    """What a buffer holds: its pieces, the newest first, over what it held before them."""

    pieces: tuple[MemoryPiece, ...]
    before: Callable[[tuple[Expr, ...], Facts], Expr]
    """An element as it was before them, wherever some facts hold."""


def of_input(buffer: Buffer) -> Contents:
    """A buffer that is only read."""
    return Contents((), lambda at, facts: Load(buffer.dtype, buffer, at))


def unwritten(buffer: Buffer) -> Contents:
    """A buffer that nothing has written."""
    return Contents((), lambda at, facts: Unwritten(buffer.dtype))


def carried_contents(buffer: Buffer, loop: object) -> Contents:
    """A buffer as it is when an iteration begins."""
    return Contents((), lambda at, facts: CarriedElement(buffer.dtype, buffer, at, loop))


def element_of(space: Space, contents: Contents, at: tuple[Expr, ...], facts: Facts) -> Expr:
    """The value of an element wherever the facts hold."""
    found: list[tuple[Expr, Expr]] = []
    last: Expr | None = None
    for piece in contents.pieces:
        reach = reaches(space, piece, at, facts)
        if reach is None:
            continue
        condition, value = reach
        if condition is TRUE:
            last = value
            break
        found.append((condition, value))
        facts = (*facts, apply("not", condition))
        if space.never(facts):
            last = value
            found.pop()
            break
    made = contents.before(at, facts) if last is None else last
    for condition, value in reversed(found):
        made = choice(condition, value, made)
    return made


class NotFollowed(Exception):
    """Why the value of an element cannot be told."""


def require_kept(space: Space, made: Expr, facts: Facts) -> None:
    """NotFollowed where a step may wrap that was one on data, in whose place a size now stands: those do not wrap."""
    if made.dtype is INT64 and may_overflow(made) and not is_data(made):
        inside = apply("and", apply("ge", made, const(INT64.min)), apply("le", made, const(INT64.max)))
        if not space.implies(facts, inside):
            raise NotFollowed(f"{made} may wrap")


def put_in(space: Space, expr: Expr, new: dict[int, Expr], facts: Facts) -> Expr:
    """An expression with others in place of some nodes of data, by identity. NotFollowed where a step may wrap
    then."""
    made: dict[int, Expr] = {}
    data = depending(expr, lambda n: isinstance(n, DATA))
    for node in post_order(expr, lambda n: () if id(n) in new else n.children):
        if id(node) in new:
            made[id(node)] = new[id(node)]
            continue
        made[id(node)] = node.with_children([made[id(c)] for c in node.children])
        if id(node) in data:
            require_kept(space, made[id(node)], facts)
    return made[id(expr)]


def require_written(space: Space, expr: Expr, facts: Facts) -> None:
    """NotFollowed where an expression may take what nothing has written: a run traps there, whatever comes of it."""
    if not any(isinstance(n, Unwritten) for n in post_order(expr)):
        return
    work = Worklist[tuple[Expr, Facts]]([(expr, facts)])
    for node, known in work:
        match node:
            case Unwritten():
                if not space.never(known):
                    raise NotFollowed("what nothing has written may be read")
            case Choice():
                work.add([(node.condition, known), (node.then, (*known, node.condition))])
                work.add([(node.otherwise, (*known, apply("not", node.condition)))])
            case Fold():
                work.add((e, known) for e in (*node.extents, node.init))
                work.add([(node.step, (*known, *node.inside()))])
            case _:
                work.add((c, known) for c in node.children)


def require_told(exprs: Sequence[Expr]) -> None:
    """NotFollowed where expressions that nothing is compared with take what a loop changes: whether that was written is
    not looked at."""
    if any(isinstance(n, CarriedElement) for e in exprs for n in post_order(e)):
        raise NotFollowed("what a loop changes is read for nothing")


def reaches(space: Space, piece: MemoryPiece, at: Sequence[Expr], facts: Facts) -> tuple[Expr, Expr] | None:
    """When a piece has stored an element, and what; None where it never has. NotFollowed where that is not seen.

    The place is guessed from the indices. That no other place stores the element is shown.
    """
    piece = piece.fresh()
    if space.never([*facts, *piece.taken(), *_equal(piece.indices, at)]):
        return None
    guess = guessed_place(piece, at)
    if guess is None:
        raise NotFollowed(f"which iteration stores {', '.join(map(repr, piece.indices))} is not seen")
    other = conjunction([apply("eq", v, guess[v]) for v in piece.vars])
    if not space.implies([*facts, *piece.taken(), *_equal(piece.indices, at)], other):
        raise NotFollowed(f"{', '.join(map(repr, piece.indices))} may be stored by several iterations")
    there = piece.changed(lambda e: substitute(e, guess), ())
    needs = [*in_box(there.extents, [_expr(guess[v]) for v in piece.vars]), *_equal(there.indices, at)]
    if there.guard is not TRUE:
        needs.append(there.guard)
    open_: list[Expr] = []
    for need in needs:
        if not space.implies([*facts, *open_], need):
            open_.append(need)
    return (conjunction(open_) if open_ else TRUE), there.value


def _equal(a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
    return [apply("eq", x, y) for x, y in zip(a, b, strict=True)]


def _expr(value: Number) -> Expr:
    return value if isinstance(value, Expr) else const(value)


# --- guesses: nothing rests on them ------------------------------------------------------------------------------


def guessed_place(piece: MemoryPiece, at: Sequence[Expr]) -> dict[Var, Number] | None:
    """The place of a piece's box that stores an element, as a guess."""
    found: dict[Var, Number] = {}
    left = list(zip(piece.indices, at, strict=True))
    for _ in range(len(piece.vars) + len(left) + 1):
        rest: list[tuple[Expr, Expr]] = []
        for index, value in left:
            unknown = [v for v in piece.vars if v not in found and v in _variables(index)]
            if not unknown:
                continue
            if not _solve(substitute(index, found), value, unknown, found, len(unknown) > 1):
                rest.append((index, value))
        if not rest:
            break
        left = rest
    for v in piece.vars:
        found.setdefault(v, const(0, v.dtype))
    return found


def _variables(expr: Expr) -> set[Expr]:
    return {n for n in post_order(expr) if isinstance(n, Var)}


def _solve(index: Expr, value: Expr, unknown: Sequence[Var], found: dict[Var, Number], several: bool) -> bool:
    """Take values from one equation: from the largest factor down, where there are several unknowns."""
    form = linear(index)
    if form is None:
        return False
    rest = value - form.constant if form.constant else value
    parts: list[tuple[Var, Expr]] = []
    for atom, k in form.terms.items():
        inside = [v for v in unknown if v in _variables(atom)]
        if not inside:
            rest = rest - atom * k
            continue
        factor = _factor(atom, inside[0]) if len(inside) == 1 else None
        if factor is None:
            return False
        parts.append((inside[0], factor if k == 1 else factor * k))
    parts.sort(key=lambda p: -_size(p[1]))
    for n, (v, factor) in enumerate(parts):
        last = n == len(parts) - 1
        if isinstance(factor, Const) and int(factor.value) in (1, -1):
            found[v] = rest if int(factor.value) == 1 else apply("sub", 0, rest)
        elif isinstance(factor, Const) and int(factor.value) < 0:
            found[v] = apply("sub", 0, rest) // int(-factor.value)
        else:
            found[v] = rest // factor
        if not last:
            rest = rest - found[v] * factor
    return True


def _factor(atom: Expr, v: Var) -> Expr | None:
    """What a variable is multiplied by."""
    if atom is v:
        return const(1)
    if isinstance(atom, Apply) and atom.op == "mul":
        a, b = atom.args
        if a is v and v not in _variables(b):
            return b
        if b is v and v not in _variables(a):
            return a
    return None


def _size(factor: Expr) -> float:
    return abs(int(factor.value)) if isinstance(factor, Const) else float("inf")


def fits_machine(buffer: Buffer) -> list[Expr]:
    """That a buffer fits a machine."""
    found: list[Expr] = []
    for first in range(len(buffer.shape)):
        size: Number = buffer.dtype.itemsize
        for d in buffer.shape[first:]:
            size = as_expr(d) * size
            found.append(apply("le", as_expr(size), const(1 << 56)))
    return found
