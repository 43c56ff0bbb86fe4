"""Whether padding is neutral for a tensor function, proved for all sizes (specs/verify.md, "Kernels for unknown
sizes").

    why_not_neutral(func, {n})      # "" where it is proved, else the reason in words

The function is run twice: at sizes as they are, and with the symbols in question at least as large, on operands that
agree wherever the smaller ones have elements and hold anything elsewhere. Neutral means that the results agree wherever
the smaller ones have elements, bit for bit, where both runs end without a trap. Iterations that both runs have are
*shared*, the others *extra*. It is enough that

1. what is computed in a shared iteration, but for elements that are read, does not depend on the sizes;
2. what a shared iteration reads lies inside the smaller buffer;
3. what an extra iteration writes lies outside of the smaller buffer, or in one that each iteration writes anew before
   it reads it.

Anything else is refused: an addition of zeros could be neutral, but not of negative zero to NaN, and a maximum is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import TypeAlias

import z3

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import AssayError
from assay.semantics.scalar import Dim, Expr, Load, Var, provably_equal, same, show, variables
from assay.semantics.scalar.smt import Term, Terms
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist, occurrences
from assay.verify.symbolic.goals import decide

PROVING = RLock()
"""z3 has one context for all threads."""

Path: TypeAlias = tuple[tuple[tensor.Stmt, int], ...]
"""The statements around one, outermost first, each with the number of its child on the way."""


class NotNeutral(Exception):
    """Why it is not shown."""


def why_not_neutral(func: PrimFunc, grown: Collection[Var]) -> str:
    """Why padding along these symbols of a function is not shown to be neutral; "" where it is."""
    grown = {v for v in grown if v in _symbols(func)}
    if not grown:
        return ""
    with PROVING:
        try:
            _Proof(func, without_blocks(func), frozenset(grown)).run()
        except NotNeutral as why:
            return str(why)
        except AssayError as wrong:
            return f"it cannot be read: {wrong}"
    return ""


def _symbols(func: PrimFunc) -> set[Var]:
    return {v for b in func.params for d in b.shape for v in variables(d)} | set(func.scalars)


@dataclass(eq=False)
class Runs:
    """The terms of one goal: a symbol in each of the two runs, loop variables, and elements that are read."""

    grown: frozenset[Var]
    terms: Terms = field(default_factory=Terms)
    shared: dict[Var, Term] = field(default_factory=dict)
    larger: dict[Var, Term] = field(default_factory=dict)
    facts: list[Term] = field(default_factory=list)

    def symbol(self, v: Var) -> None:
        """A variable that is not bound by a loop: of the grown ones the second is at least the first."""
        if v in self.shared:
            return
        if v.dtype is BOOL or not v.dtype.is_integer:
            self.shared[v] = self.larger[v] = self.terms.fresh(v.name, v.dtype)
            return
        self.shared[v] = self.larger[v] = self.terms.fresh(v.name)
        if v in self.grown:
            self.larger[v] = self.terms.fresh(f"padded {v.name}")
            self.facts += [self.shared[v] >= 0, self.larger[v] >= self.shared[v]]

    def term(self, of: Dim, env: Mapping[Var, Term]) -> Term:
        """An expression in one of the runs."""
        if not isinstance(of, Expr):
            return z3.IntVal(of)
        return self.terms.value(of, _Reading(env, self.terms), {})


@dataclass(frozen=True)
class _Reading:
    """A context in which what is read may be anything."""

    env: Mapping[Var, Term]
    terms: Terms

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        return self.terms.fresh("read", node.dtype)

    def exact(self, node: Expr) -> bool:
        return True


@dataclass(eq=False)
class _Proof:
    """The proof of one function, in plain nodes."""

    source: PrimFunc
    func: PrimFunc
    grown: frozenset[Var]

    @cached_property
    def placed(self) -> list[tuple[tensor.Stmt, Path]]:
        """All statements in the order of the text, each with its way."""
        found: list[tuple[tensor.Stmt, Path]] = []
        work = Worklist[tuple[tensor.Stmt, Path]]([(self.func.body, ())])
        for stmt, path in work:
            found.append((stmt, path))
            work.add((c, (*path, (stmt, i))) for i, c in enumerate(stmt.children))
        return found

    def run(self) -> None:
        for stmt, path in self.placed:
            self.statement(stmt, path)

    def statement(self, stmt: tensor.Stmt, path: Path) -> None:
        """What one statement has to keep."""
        match stmt:
            case tensor.Seq() | tensor.Allocate() | tensor.AllocateConst() | tensor.Pragma():
                return
            case tensor.For():
                if stmt.start is not None and not self.unchanged(stmt.start, path):
                    raise NotNeutral(f"where the loop {stmt.var.name} begins depends on {self.told()}")
                self.reads(stmt.extent, path)
                if not self.unchanged(stmt.extent, path) and not self.holds(
                    path, lambda r: r.term(stmt.extent, r.larger) >= r.term(stmt.extent, r.shared)
                ):
                    raise NotNeutral(
                        f"the loop {stmt.var.name} has {show(stmt.extent)} iterations, which may be fewer with more"
                        f" {self.told()}"
                    )
            case tensor.If() | tensor.Assert() | tensor.Evaluate() | tensor.LetStmt():
                self.expressions(stmt.expressions, path)
            case tensor.Store():
                self.expressions(stmt.expressions, path)
                self.store(stmt, path)
            case _:
                raise NotNeutral(f"it has a {type(stmt).__name__.lower()}, of which nothing is shown")

    def told(self) -> str:
        """The symbols that are padded."""
        return " and ".join(sorted(v.name for v in self.grown))

    # --- 1 and 2: what a shared iteration computes and reads ---------------------------------------------------

    def expressions(self, roots: Iterable[Expr], path: Path) -> None:
        for root in roots:
            for part in self.sized_parts(root):
                if not self.unchanged(part, path):
                    raise NotNeutral(f"what it computes depends on {self.told()} itself: {show(part)}")
            self.reads(root, path)

    def sized_parts(self, root: Expr) -> Iterator[Expr]:
        """The largest parts that speak of a padded symbol and read nothing."""

        def is_part(node: Expr) -> bool:
            is_whole = (node.dtype.is_integer or node.dtype is BOOL) and not tensor.loads(node)
            return self.is_grown(node) and (is_whole or not node.children)

        yield from filter(is_part, occurrences(root, lambda n: () if is_part(n) else n.children))

    def reads(self, root: Expr, path: Path) -> None:
        """Each element that is read lies inside the smaller buffer: along other axes the function itself says so."""
        for load in tensor.loads(root):
            for axis, (index, dim) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
                if not self.is_grown(dim):
                    continue
                if tensor.loads(index):
                    raise NotNeutral(
                        f"it picks elements of {load.buffer.name} along axis {axis}, which is padded, by numbers"
                        " that it reads"
                    )
                if not self.is_inside(index, dim, path):
                    raise NotNeutral(
                        f"it reads {load.buffer.name}[{', '.join(map(show, load.indices))}], which may be padding along"
                        f" axis {axis}"
                    )

    def is_inside(self, index: Expr, dim: Dim, path: Path) -> bool:
        loop = _loop_of(index, path)
        if loop is not None and provably_equal(loop.extent, dim):
            return True
        return self.holds(path, lambda r: r.term(index, r.shared) < r.term(dim, r.shared))

    # --- 3: what an extra iteration writes ---------------------------------------------------------------------

    def store(self, stmt: tensor.Store, path: Path) -> None:
        for loop, _ in path:
            if isinstance(loop, tensor.For) and self.is_grown(loop.extent):
                if self.is_outside(stmt, path, loop) or self.is_anew(stmt.buffer, loop):
                    continue
                raise NotNeutral(self.combines(stmt, loop))

    def is_outside(self, stmt: tensor.Store, path: Path, loop: tensor.For) -> bool:
        """Whether what an extra iteration of the loop writes lies outside of the smaller buffer."""
        for index, dim in zip(stmt.indices, stmt.buffer.shape, strict=True):
            if index is loop.var and provably_equal(loop.extent, dim):
                return True
        grown = [(i, d) for i, d in zip(stmt.indices, stmt.buffer.shape, strict=True) if self.is_grown(d)]
        if not grown:
            return False

        def outside(r: Runs) -> Term:
            return z3.Or(*(r.term(i, r.larger) >= r.term(d, r.shared) for i, d in grown))

        return self.holds(path, outside, extra=loop)

    def is_anew(self, buffer: Buffer, loop: tensor.For) -> bool:
        """Whether a buffer is the function's own, and each iteration of the loop writes it before it reads it."""
        if buffer in self.func.params:
            return False
        inside = [(s, p) for s, p in self.placed if any(q is loop for q, _ in p)]
        if any(isinstance(s, tensor.Allocate) and s.buffer is buffer for s, _ in inside):
            return True
        touching = [(s, p) for s, p in self.placed if _touches(s, buffer)]
        if any(not any(q is loop for q, _ in p) for _, p in touching):
            return False
        stores = [(s, p) for s, p in touching if isinstance(s, tensor.Store) and s.buffer is buffer]
        return all(
            any(_before(s, p, path, loop) and _covers(s, p, path, load) for s, p in stores)
            for stmt, path in touching
            for root in stmt.expressions
            for load in tensor.loads(root)
            if load.buffer is buffer
        )

    def combines(self, stmt: tensor.Store, loop: tensor.For) -> str:
        """That elements along a padded axis come together in one."""
        for load in tensor.loads(stmt.value):
            for axis, index in enumerate(load.indices):
                if loop.var in variables(index) and load.buffer is not stmt.buffer:
                    return (
                        f"it combines what lies along axis {axis} of {load.buffer.name}, which is padded, in"
                        f" {stmt.buffer.name}"
                    )
        return (
            f"iterations of the loop {loop.var.name}, of which there are more with more {self.told()}, write the same"
            f" elements of {stmt.buffer.name}"
        )

    # --- goals ---------------------------------------------------------------------------------------------------

    def is_grown(self, dim: Dim) -> bool:
        """Whether a dim speaks of a padded symbol."""
        return isinstance(dim, Expr) and any(v in self.grown for v in variables(dim))

    def unchanged(self, expr: Expr, path: Path) -> bool:
        """Whether an expression is the same in both runs, in a shared iteration."""
        if not any(v in self.grown for v in variables(expr)):
            return True
        if not (expr.dtype.is_integer or expr.dtype is BOOL) or tensor.loads(expr):
            return False
        return self.holds(path, lambda r: r.term(expr, r.shared) == r.term(expr, r.larger))

    def holds(self, path: Path, claim: object, extra: tensor.For | None = None) -> bool:
        """Whether a claim about both runs is proved at a place; in an `extra` iteration of a loop, if one is named."""
        runs = Runs(self.grown)
        loops = [s for s, _ in path if isinstance(s, tensor.For)]
        bound = {s.var for s in loops}
        lets = {s.var for s, _ in path if isinstance(s, tensor.LetStmt)}
        for stmt, _ in self.placed:
            for root in stmt.expressions:
                for v in variables(root):
                    if v not in bound or v in lets:
                        runs.symbol(v)
        for b in (*self.func.params, *self.func.allocations):
            for d in b.shape:
                for v in variables(d):
                    runs.symbol(v)
                runs.facts.append(runs.term(d, runs.shared) >= 0)
                runs.facts.append(runs.term(d, runs.larger) >= 0)
        for loop in loops:
            i = runs.shared[loop.var] = runs.larger[loop.var] = runs.terms.fresh(loop.var.name)
            start = z3.IntVal(0) if loop.start is None else runs.term(loop.start, runs.shared)
            runs.facts.append(i >= start)
            if extra is None:
                runs.facts.append(i < start + runs.term(loop.extent, runs.shared))
                continue
            runs.facts.append(i < start + runs.term(loop.extent, runs.larger))
            if loop is extra:
                runs.facts.append(i >= start + runs.term(loop.extent, runs.shared))
        for stmt, child in path:
            if isinstance(stmt, tensor.If) and not tensor.loads(stmt.condition) and extra is None:
                holds = runs.term(stmt.condition, runs.shared)
                runs.facts.append(holds if child == 0 else z3.Not(holds))
        assert callable(claim)
        goal: Term = claim(runs)
        return decide([*runs.facts, *runs.terms.known, z3.Not(goal)], "padding").holds == "never"


def _loop_of(index: Expr, path: Path) -> tensor.For | None:
    """The loop around, from 0, whose variable an index is."""
    for stmt, _ in path:
        if isinstance(stmt, tensor.For) and stmt.var is index and stmt.start is None:
            return stmt
    return None


def _touches(stmt: tensor.Stmt, buffer: Buffer) -> bool:
    """Whether a statement itself reads or writes a buffer."""
    if isinstance(stmt, tensor.Store) and stmt.buffer is buffer:
        return True
    return any(load.buffer is buffer for root in stmt.expressions for load in tensor.loads(root))


def _before(store: tensor.Store, path: Path, other: Path, loop: tensor.For) -> bool:
    """Whether a store is done, in the same iteration of a loop, before a statement on another way: they part at a
    sequence inside the loop, and nothing but loops stands between that and the store."""
    common = 0
    while common < min(len(path), len(other)) and path[common] == other[common]:
        common += 1
    if common >= min(len(path), len(other)):
        return False
    here, there = path[common], other[common]
    if here[0] is not there[0] or not isinstance(here[0], tensor.Seq) or here[1] >= there[1]:
        return False
    if not any(s is loop for s, _ in path[:common]):
        return False
    return all(isinstance(s, tensor.Seq | tensor.Allocate | tensor.For) for s, _ in path[common + 1 :])


def _covers(store: tensor.Store, path: Path, other: Path, load: Load) -> bool:
    """Whether a store that is done before surely writes what is read: the same element, or all of the buffer."""
    around = {id(s) for s, _ in other}
    own = [s for s, _ in path if isinstance(s, tensor.For) and id(s) not in around]
    fixed = {id(s.var) for s in own}
    if not own:
        return all(same(i, j) for i, j in zip(store.indices, load.indices, strict=True))
    loops = {id(s.var): s for s in own}
    written: list[int] = []
    for index, read, dim in zip(store.indices, load.indices, store.buffer.shape, strict=True):
        if id(index) in loops:
            if loops[id(index)].start is not None or not provably_equal(loops[id(index)].extent, dim):
                return False
            written.append(id(index))
        elif any(id(v) in fixed for v in variables(index)) or not same(index, read):
            return False
    return len(set(written)) == len(written) == len(own)
