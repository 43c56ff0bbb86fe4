"""Which accesses of a loop nest may touch one element in which order (specs/lower.md, "loops").

A pair of accesses is apart for a relation between their iterations, such as "a later iteration of k, the same of i",
where some dimension of their indices cannot be equal: by the bounds of their difference under that relation, or by
the greatest common divisor of its factors. So is the element's place in row-major order, of which nothing is asked
but that both accesses are in bounds, as in a run without traps they are. What is not shown apart counts as touching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import gcd
from typing import Literal, TypeAlias

from assay.semantics import tensor
from assay.semantics.errors import Unsupported
from assay.semantics.integers.affine import Affine, Atom, affine, atom_range
from assay.semantics.integers.ranges import Interval, closed
from assay.semantics.scalar import Apply, Const, Expr, Load, Var, show
from assay.semantics.walk import Worklist, post_order

Direction: TypeAlias = Literal["=", "<", ">", "*"]
"""How the iteration of the first access lies to that of the second: the same, earlier, later, any."""
LONGEST = 1 << 40
"""Iterations of a loop of unknown length: a run with more does not end."""
ANYTHING = (-(1 << 63), 1 << 64)
MOST_VECTORS = 20_000


@dataclass(frozen=True, eq=False)
class LoopAccess:
    """A load or a store. `within` narrows the ranges of loop variables to what the guards around it leave."""

    buffer: tensor.Buffer
    indices: tuple[Expr, ...]
    write: bool
    forms: tuple[Affine | None, ...]
    within: Mapping[Var, Interval]
    part: int
    stmt: tensor.Stmt
    loops: tuple[tensor.For, ...]
    """The loops around it inside of its part, outermost first."""
    place: int
    """The number of its statement in the part, in the order of the text."""

    def __str__(self) -> str:
        what = "store to" if self.write else "load of"
        return f"the {what} {self.buffer.name}[{', '.join(map(show, self.indices))}]"


class Nest:
    """The accesses inside some `parts` of `func` to buffers that do not begin there, and that are stored to there.

    With `read_only`, those to buffers that are only read as well.
    """

    def __init__(self, func: tensor.PrimFunc, *parts: tensor.Stmt, read_only: bool = False) -> None:
        self.ranges = ranges(func)
        self.inner: set[Var] = set()
        """Variables that are bound inside: they differ between iterations of what is around."""
        self.accesses: list[LoopAccess] = []
        own: set[tensor.Buffer] = set()
        for k, body in enumerate(parts):
            self._collect(body, own, k)
        self.accesses = [a for a in self.accesses if a.buffer not in own]
        if not read_only:
            written = {a.buffer for a in self.accesses if a.write}
            self.accesses = [a for a in self.accesses if a.buffer in written]

    def _collect(self, body: tensor.Stmt, own: set[tensor.Buffer], part: int) -> None:
        work = Worklist[tuple[tensor.Stmt, Mapping[Var, Interval], tuple[tensor.For, ...]]]([(body, self.ranges, ())])
        for place, (stmt, within, loops) in enumerate(work):
            touched: list[Load | tensor.Store] = [n for e in stmt.expressions for n in tensor.loads(e)]
            touched += [stmt] if isinstance(stmt, tensor.Store) else []
            for n in touched:
                forms = _forms(n, within)
                write = isinstance(n, tensor.Store)
                self.accesses.append(LoopAccess(n.buffer, n.indices, write, forms, within, part, stmt, loops, place))
            match stmt:
                case tensor.For() | tensor.LetStmt():
                    self.inner.add(stmt.var)
                case tensor.Allocate() | tensor.AllocateConst():
                    own.add(stmt.buffer)
                case tensor.Call():
                    raise Unsupported(f"it is not known what {stmt} touches", where=stmt.span, label="loops.C1")
            inside = narrowed(stmt.condition, within) if isinstance(stmt, tensor.If) else within
            around = (*loops, stmt) if isinstance(stmt, tensor.For) else loops
            work.add(
                (c, within if isinstance(stmt, tensor.If) and c is stmt.otherwise else inside, around)
                for c in stmt.children
            )

    def pairs(self) -> Iterator[tuple[LoopAccess, LoopAccess]]:
        """Pairs of accesses to one buffer of which one writes, each with itself too; those that look alike once."""
        by: dict[tensor.Buffer, dict[object, LoopAccess]] = {}
        for a in self.accesses:
            by.setdefault(a.buffer, {}).setdefault((a.forms, a.write, a.part, id(a.within)), a)
        for group in by.values():
            for a, b in combinations_with_replacement(group.values(), 2):
                if a.write or b.write:
                    yield a, b

    def apart(self, a: LoopAccess, b: LoopAccess, directions: Mapping[Var, Direction]) -> bool:
        """Whether `a` and `b` never touch one element in iterations that lie as said; variables around are the same."""
        if any(not _related(d, a.within[v], b.within[v]) for v, d in directions.items()):
            return True
        return any(
            f is not None and g is not None and self._never_equal(f, g, a, b, directions)
            for f, g in zip(a.forms, b.forms, strict=True)
        )

    def _never_equal(
        self, f: Affine, g: Affine, a: LoopAccess, b: LoopAccess, directions: Mapping[Var, Direction]
    ) -> bool:
        low = high = f.constant - g.constant
        common = 0
        for atom in {**f.terms, **g.terms}:
            m, k = f.terms.get(atom, 0), g.terms.get(atom, 0)
            direction = self._direction(atom, directions)
            common = gcd(common, m - k) if direction == "=" else gcd(common, gcd(m, k))
            x, y = _interval(atom, a.within), _interval(atom, b.within)
            if direction == "=":
                inside = (max(x[0], y[0]), min(x[1], y[1]))
                if inside[0] > inside[1]:
                    return True
                ends = [(m - k) * inside[0], (m - k) * inside[1]]
            else:
                ends = [m * i - k * j for i, j in _corners(direction, x, y)]
            low, high = low + min(ends), high + max(ends)
        if low > 0 or high < 0:
            return True
        rest = f.constant - g.constant
        return common > 0 and rest % common != 0

    def _direction(self, atom: Atom, directions: Mapping[Var, Direction]) -> Direction:
        if isinstance(atom, Var):
            return directions.get(atom, "*" if atom in self.inner else "=")
        fixed = all(directions.get(v, "*" if v in self.inner else "=") == "=" for v in atom.form.variables)
        return "=" if fixed else "*"


def _forms(access: Load | tensor.Store, within: Mapping[Var, Interval]) -> tuple[Affine | None, ...]:
    """The indices of an access, and its place in row-major order, as far as they have forms."""
    forms = [affine(i, within) for i in access.indices]
    flat: Affine | None = Affine({})
    for form, n in zip(forms, access.buffer.shape, strict=True):
        flat = None if flat is None or form is None or not isinstance(n, int) else flat.scaled(n).plus(form)
    return (*forms, flat)


def ranges(func: tensor.PrimFunc) -> dict[Var, Interval]:
    """The range of each loop variable, from the inside of the extents outwards."""
    found: dict[Var, Interval] = {}
    for s in tensor.program_order(func.body):
        if isinstance(s, tensor.For):
            form = affine(s.extent, found)
            inside = form.interval(found) if form is not None else None
            last = LONGEST if inside is None else min(LONGEST, inside[1] - 1)
            found[s.var] = (0, max(0, min(last, int(s.var.dtype.max))))
    return found


def narrowed(condition: Expr, within: Mapping[Var, Interval]) -> Mapping[Var, Interval]:
    """The ranges where a condition holds, as far as it compares variables with numbers."""
    found: dict[Var, Interval] = {}
    for part in conjuncts(condition):
        match part:
            case Apply(op="eq" | "lt" | "le" as op, args=(Var() as v, Const() as n)) if (
                v in within and n.dtype.is_integer
            ):
                low, high = found.get(v, within[v])
                limit = int(n.value) - (op == "lt")
                low, high = (max(low, limit) if op == "eq" else low, min(high, limit))
                if low <= high:  # else it is never reached, and anything may be said
                    found[v] = (low, high)
            case _:
                pass
    return {**within, **found} if found else within


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that all hold where `condition` does."""
    inside = post_order(condition, lambda n: n.children if isinstance(n, Apply) and n.op == "and" else ())
    return [n for n in inside if not (isinstance(n, Apply) and n.op == "and")]


def reversed_pairs(nest: Nest, loops: Sequence[Var], order: Sequence[Var]) -> Iterable[tuple[LoopAccess, LoopAccess]]:
    """Pairs that may touch one element in iterations whose order changes when the loops stand in another `order`."""
    for a, b in nest.pairs():
        if _may_turn(nest, a, b, loops, order):
            yield a, b


def _may_turn(nest: Nest, a: LoopAccess, b: LoopAccess, loops: Sequence[Var], order: Sequence[Var]) -> bool:
    work = Worklist[dict[Var, Direction]]([{}])
    for step, known in enumerate(work, 1):
        if step > MOST_VECTORS:
            return True
        if nest.apart(a, b, {v: known.get(v, "*") for v in loops}):
            continue
        if len(known) < len(loops):
            var = loops[len(known)]
            work.add([{**known, var: ">"}, {**known, var: "<"}, {**known, var: "="}])
            continue
        before = next((known[v] for v in loops if known[v] != "="), "=")
        after = next((known[v] for v in order if known[v] != "="), "=")
        if before != after:
            return True
    return False


def carried(nest: Nest, var: Var) -> tuple[LoopAccess, LoopAccess] | None:
    """Two accesses that may touch one element in different iterations of a loop, if there are any."""
    for a, b in nest.pairs():
        if not nest.apart(a, b, {var: "<"}) or not nest.apart(a, b, {var: ">"}):
            return a, b
    return None


def _interval(atom: Atom, within: Mapping[Var, Interval]) -> Interval:
    return closed(atom_range(atom, within)) or ANYTHING


def _related(direction: Direction, x: Interval, y: Interval) -> bool:
    """Whether there are two numbers that lie so."""
    return bool(_corners(direction, x, y)) if direction != "=" else max(x[0], y[0]) <= min(x[1], y[1])


def _corners(direction: Direction, x: Interval, y: Interval) -> list[tuple[int, int]]:
    """Corners of the numbers i of `x` and j of `y` that lie so: a linear function has its extremes there."""
    corners = [(i, j) for i in x for j in y]
    if direction == "*":
        return corners
    if direction == ">":
        return [(i, j) for j, i in _corners("<", y, x)]
    corners += [(i, i + 1) for i in x] + [(j - 1, j) for j in y]
    return [(i, j) for i, j in corners if i < j and x[0] <= i <= x[1] and y[0] <= j <= y[1]]
