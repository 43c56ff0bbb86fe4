"""Tensor functions run on names instead of numbers: equal terms are equal bits for every input (specs/verify.md, "fuse").

Every element is a term: the operation and the terms of its operands, in a table that both sides of a comparison share.
Nothing is simplified, so a sum in another order is another term. Indices and trip counts are numbers. What has none
before the run, or would take too long, is `Unproved`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics.errors import Trap
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, evaluate, evaluate_dim, linear
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Buffer,
    For,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import post_order

DEEPEST = 100
"""How many statements may be inside one another."""


class Unproved(Exception):
    """Why terms say nothing here."""


@dataclass(eq=False)
class Terms:
    """The table of terms, and how many operations may still be run."""

    budget: int
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def number(self, *key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise Unproved("too many operations")

    def inputs(self, name: object, count: int) -> list[int | None]:
        """The elements of an input."""
        self.spend(count)
        return [self.number("input", name, i) for i in range(count)]


Cells: TypeAlias = list[int | None]
Run: TypeAlias = Callable[[], None]
Index: TypeAlias = Callable[[], int]


def results(func: PrimFunc, inputs: Sequence[Cells], sizes: Mapping[Var, int], terms: Terms) -> list[Cells]:
    """The terms of what `func` writes, row-major, for inputs of terms; `sizes` are its symbols and scalars."""
    return _Runner(without_blocks(func), sizes, terms).results(inputs)


class _Runner:
    def __init__(self, func: PrimFunc, sizes: Mapping[Var, int], terms: Terms) -> None:
        self.func = func
        self.terms = terms
        self.sizes = sizes
        self.env: dict[Var, Any] = {v: v.dtype.numpy.type(n) for v, n in sizes.items()}
        self.whole: dict[Var, int] = dict(sizes)
        self.named: dict[Var, int] = {}
        self.cells: dict[Buffer, Cells] = {}

    def results(self, inputs: Sequence[Cells]) -> list[Cells]:
        self.cells.update(zip(self.func.inputs, (list(c) for c in inputs), strict=True))
        for b in self.func.outputs:
            self.cells[b] = self.fresh(b)
        depth: dict[int, int] = {}
        made: dict[int, Run] = {}
        for stmt in post_order(self.func.body):
            depth[id(stmt)] = 1 + max((depth[id(c)] for c in stmt.children), default=0)
            if depth[id(stmt)] > DEEPEST:
                raise Unproved("too deep")
            made[id(stmt)] = self.statement(stmt, [made[id(c)] for c in stmt.children])
        made[id(self.func.body)]()
        return [self.cells[b] for b in self.func.outputs]

    def shape(self, buffer: Buffer) -> list[int]:
        return [evaluate_dim(d, self.sizes) for d in buffer.shape]

    def fresh(self, buffer: Buffer) -> Cells:
        count = 1
        for n in self.shape(buffer):
            count *= n
        self.terms.spend(count // 8)
        return [None] * count

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self, stmt: Stmt, parts: Sequence[Run]) -> Run:
        match stmt:
            case Seq():
                return lambda: _each(parts)
            case For() if stmt.start is None:
                return self.loop(stmt.var, self.index(stmt.extent), parts[0])
            case If():
                return self.branch(self.index(stmt.condition), parts)
            case LetStmt():
                return self.let(stmt, parts[0])
            case Allocate():
                return self.allocate(stmt.buffer, parts[0])
            case AllocateConst():
                self.terms.spend(stmt.data.size)
                self.cells[stmt.buffer] = [self.constant(x) for x in stmt.data.reshape(-1)]
                return parts[0]
            case Store():
                return self.store(stmt)
            case _:
                raise Unproved(f"a {type(stmt).__name__.lower()}")

    def loop(self, var: Var, extent: Index, body: Run) -> Run:
        env, whole, of = self.env, self.whole, var.dtype.numpy.type

        def run() -> None:
            for i in range(extent()):
                env[var], whole[var] = of(i), i
                body()

        return run

    def branch(self, condition: Index, parts: Sequence[Run]) -> Run:
        def run() -> None:
            if condition():
                parts[0]()
            elif len(parts) > 1:
                parts[1]()

        return run

    def let(self, stmt: LetStmt, body: Run) -> Run:
        var = stmt.var
        if stmt.value.dtype.is_integer and not _reads(stmt.value):
            index = self.index(stmt.value)

            def bind() -> None:
                self.whole[var] = index()
                self.env[var] = var.dtype.numpy.type(self.whole[var])
                body()

            return bind
        value = self.value(stmt.value)

        def name() -> None:
            self.named[var] = value()
            body()

        return name

    def allocate(self, buffer: Buffer, body: Run) -> Run:
        def run() -> None:
            self.cells[buffer] = self.fresh(buffer)
            body()

        return run

    def store(self, stmt: Store) -> Run:
        place, value, buffer, cells = self.place(stmt.buffer, stmt.indices), self.value(stmt.value), stmt.buffer, self.cells

        def run() -> None:
            term = value()
            cells[buffer][place()] = term

        return run

    # --- expressions -------------------------------------------------------------------------------------------------

    def index(self, expr: Expr) -> Index:
        """A number that is known before the run."""
        if _reads(expr):
            raise Unproved("an index or a condition that is read")
        form = linear(expr)
        if form is not None and all(isinstance(a, Var) for a in form[0]):
            whole, constant = self.whole, form[1]
            terms = [(a, k) for a, k in form[0].items() if isinstance(a, Var)]
            if not terms:
                return lambda: constant
            if len(terms) == 1 and terms[0][1] == 1 and constant == 0:
                only = terms[0][0]
                return lambda: whole[only]
            return lambda: constant + sum([k * whole[a] for a, k in terms])
        return lambda: int(evaluate(expr, self.env))

    def place(self, buffer: Buffer, indices: Sequence[Expr]) -> Index:
        """The element as a place in row-major order; traps out of bounds."""
        axes = list(zip([self.index(i) for i in indices], self.shape(buffer), strict=True))

        def run() -> int:
            at = 0
            for i, n in axes:
                k = i()
                if not 0 <= k < n:
                    raise Trap("out of bounds", f"{buffer.name}: index {k} is outside of [0, {n})", label="tensor.T2")
                at = at * n + k
            return at

        return run

    def constant(self, value: Any) -> int:
        return self.terms.number("const", str(value.dtype), value.tobytes())

    def value(self, root: Expr) -> Index:
        """The term of a value."""
        terms, cells, named = self.terms, self.cells, self.named
        order = list(post_order(root, lambda n: () if isinstance(n, Load) or not _depends(n) else n.children))
        place = {id(n): k for k, n in enumerate(order)}
        steps: list[Callable[[list[int]], int]] = []
        for n in order:
            steps.append(self.step(n, [place[id(c)] for c in n.children if id(c) in place], cells, named))
        count = len(steps)

        def run() -> int:
            terms.spend(count)
            made: list[int] = []
            for step in steps:
                made.append(step(made))
            return made[-1]

        return run

    def step(
        self, node: Expr, args: Sequence[int], cells: Mapping[Buffer, Cells], named: Mapping[Var, int]
    ) -> Callable[[list[int]], int]:
        number = self.terms.number
        if isinstance(node, Load):
            place, buffer = self.place(node.buffer, node.indices), node.buffer

            def load(made: list[int]) -> int:
                found = cells[buffer][place()]
                if found is None:
                    raise Trap("unwritten read", f"{buffer.name} is read before it is written", label="tensor.T3")
                return found

            return load
        if not _depends(node):
            return lambda made: self.constant(evaluate(node, self.env)) if not isinstance(node, Const) else self.constant(node.value)
        if isinstance(node, Var):
            return lambda made: named[node] if node in named else self.constant(self.env[node])
        head: tuple[Any, ...]
        match node:
            case Apply():
                head = (node.op, node.dtype.name)
            case Cast():
                head = ("cast", node.dtype.name, node.arg.dtype.name)
            case Choice():
                head = ("choice", node.dtype.name)
            case _:
                raise Unproved(f"a {type(node).__name__.lower()}")
        return lambda made: number(*head, *[made[a] for a in args])


def _each(parts: Sequence[Run]) -> None:
    for part in parts:
        part()


def _reads(expr: Expr) -> bool:
    return any(isinstance(n, Load) for n in post_order(expr))


def _depends(expr: Expr) -> bool:
    """Whether a value depends on data: on what is read, or on a name that may stand for it."""
    return any(isinstance(n, Load) or (isinstance(n, Var) and n.dtype.is_float) for n in post_order(expr))
