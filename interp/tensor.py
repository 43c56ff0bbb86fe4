"""The definition of the tensor IR: one scalar operation after another (rule M6; specs/interp.md, "Tensor").

Slow and obviously right. Every other way to run a tensor function, `assay.interp.vector` and the C alike, is compared
with this one bit for bit (rule M10). What an operation does to numbers stands in the one table of
`assay.semantics.scalar`. The walk keeps its own stack, so a nest may be any number of loops deep.

    (c,) = run(matmul, [a, b])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.interp.binding import Array, bind_dims, bind_scalars, shape_at
from assay.interp.memory import Memory, check_bounds, element
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, convert, evaluate, operation
from assay.semantics.tensor import (
    INDEPENDENT,
    Alias,
    Allocate,
    AllocateConst,
    Assert,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    LetStmt,
    Pragma,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    View,
    While,
)
from assay.semantics.walk import post_order


class Unfinished(Exception):
    """The run was given up after the number of statements that the caller allowed."""


def run(
    func: PrimFunc,
    inputs: Sequence[Array],
    *,
    scalars: Sequence[Any] = (),
    memory: Memory | None = None,
    limit: int | None = None,
) -> tuple[Array, ...]:
    """The outputs of `func` on `inputs`, arrays of the shapes and dtypes of its input parameters, and on `scalars`.

    Invalid where the inputs do not fit. Trap, with buffer, index and iteration, for: out of bounds, unwritten read,
    unwritten output, store to constant, use outside lifetime, assertion, race, and what scalar operations trap on.
    `memory` holds the buffers, fresh arrays if not given. More than `limit` statements raise `Unfinished`.
    """
    dims = bind_dims(func, inputs, scalars)
    memory = Memory() if memory is None else memory
    for buffer, array in zip(func.inputs, inputs, strict=True):
        memory.begin(buffer, tuple(array.shape), array)
    for buffer in func.outputs:
        memory.begin(buffer, shape_at(buffer, dims))
    walk = _Run(func, memory, limit)
    walk.env.update((v, v.dtype.numpy.type(n)) for v, n in dims.items())
    walk.env.update(bind_scalars(func, scalars))
    with np.errstate(all="ignore"):
        walk.execute(func.body)
        try:
            return tuple(memory.result(b) for b in func.outputs)
        except Trap as trap:
            raise trap.at(func.name) from None


class Race:
    """Who touched what in one parallel or vectorized loop: iterations must not share an element that one of them writes (M6)."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.now = 0
        self.writer: dict[tuple[Buffer, tuple[int, ...]], int] = {}
        self.reader: dict[tuple[Buffer, tuple[int, ...]], int] = {}
        """The first iteration that read an element: if any other than the present one did, it is not the present one."""

    def touch(self, buffer: Buffer, index: tuple[int, ...], write: bool) -> None:
        key = (buffer, index)
        other = self.writer.get(key, self.now)
        if write and other == self.now:
            other = self.reader.get(key, self.now)
        if other != self.now:
            raise Trap(
                "race",
                f"iterations {other} and {self.now} of the loop over {self.var.name} both touch"
                f" {element(buffer, index)}, and one writes it",
                label="tensor.T6",
            )
        if write:
            self.writer[key] = self.now
        else:
            self.reader.setdefault(key, self.now)


@dataclass(frozen=True)
class Window:
    """A view while it exists: its element `i` is element `offset + sum(i * strides)` of its source."""

    buffer: Buffer
    shape: tuple[int, ...]
    source: Buffer
    source_shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    def element(self, index: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        """The element of the source that an element is; traps where either has no such element."""
        at = check_bounds(self.buffer, self.shape, index)
        flat = self.offset + sum(int(i) * s for i, s in zip(at, self.strides, strict=True))
        size = prod(self.source_shape)
        if not 0 <= flat < size:
            raise Trap(
                "out of bounds",
                f"{element(self.buffer, at)} is element {flat} of {self.source.name}, which has {size}",
                label="tensor.T2",
            )
        return self.source, tuple(np.unravel_index(flat, self.source_shape)) if self.source_shape else ()


class _Run:
    """One activation of a tensor function."""

    def __init__(self, func: PrimFunc, memory: Memory, limit: int | None) -> None:
        self.func = func
        self.memory = memory
        self.left = limit
        self.env: dict[Var, Any] = {}
        self.loops: dict[Var, None] = {}
        self.races: list[Race] = []
        self.born: dict[Buffer, int] = {}
        """How many races were watched when a buffer began: younger ones do not concern it, for it is private there."""
        self.views: dict[Buffer, Window] = {}
        self.code: dict[int, tuple[Expr, Callable[[], Any]]] = {}

    def execute(self, body: Stmt) -> None:
        """Run a statement. A composite one is an iterator over the statements it runs, kept on the stack."""
        stack = [self.parts(Seq((body,)))]
        at: Stmt = body
        try:
            while stack:
                for at in stack[-1]:
                    if isinstance(at, (Store, Assert, Evaluate)):
                        self.perform(at)
                    else:
                        stack.append(self.parts(at))
                        break
                else:
                    stack.pop()
        except Trap as trap:
            where = ", ".join(f"{v.name}={int(self.env[v])}" for v in self.loops)
            what = trap.message + (f", in iteration {where}" if where else "")
            raise Trap(trap.kind, what, where=at.span or self.func.name, label=trap.label) from None

    def parts(self, node: Stmt) -> Iterator[Stmt]:
        """The statements that `node` runs, in order; the environment is set as each of them is asked for."""
        match node:
            case Seq():
                yield from node.body
            case For():
                yield from self.iterations(node)
            case While():
                while self.value(node.condition):
                    yield node.body
            case If():
                if self.value(node.condition):
                    yield node.then
                elif node.otherwise is not None:
                    yield node.otherwise
            case LetStmt():
                self.env[node.var] = self.value(node.value)
                yield node.body
                del self.env[node.var]
            case Allocate():
                self.allocate(node.buffer)
                yield node.body
                self.memory.end(node.buffer)
            case AllocateConst():
                self.memory.begin(node.buffer, tuple(node.data.shape), node.data)
                self.born[node.buffer] = len(self.races)
                yield node.body
                self.memory.end(node.buffer)
            case Alias():
                self.views[node.view.buffer] = self.window(node.view)
                yield node.body
                del self.views[node.view.buffer]
            case Pragma():
                yield node.body
            case Block():
                yield from self.block(node)
            case _:
                raise Crash(f"no such statement: {type(node).__name__}")

    def iterations(self, node: For) -> Iterator[Stmt]:
        race = Race(node.var)
        if node.kind in INDEPENDENT:
            self.races.append(race)
        number = node.var.dtype.numpy.type
        start = None if node.start is None else convert(self.value(node.start), node.var.dtype)
        for i in range(int(self.value(node.extent))):
            self.env[node.var] = number(i) if start is None else start + number(i)
            self.loops[node.var] = None
            race.now = i
            yield node.body
        self.env.pop(node.var, None)
        self.loops.pop(node.var, None)
        if node.kind in INDEPENDENT:
            self.races.pop()

    def block(self, node: Block) -> Iterator[Stmt]:
        """One run of a block: its predicate, its iterators, its buffers, then `init` if it is the first run, and the body."""
        if node.predicate is not None and not self.value(node.predicate):
            return
        values, domains = [], []
        for i in node.iterators:
            start = 0 if i.start is None else self.value(i.start)
            domains.append(range(int(start), int(start) + int(self.value(i.extent))))
            values.append(self.value(i.value))
        for i, value, domain in zip(node.iterators, values, domains, strict=True):
            if int(value) not in domain:
                where = f"[{domain.start}, {domain.stop})"
                raise Trap("assertion", f"block {node.name}: {i.var.name} = {value} is outside {where}", label="tensor.T8")
            self.env[i.var] = value
        for b in node.allocated:
            self.allocate(b)
        for v in node.views:
            self.views[v.buffer] = self.window(v)
        reduced = [(v, d) for i, v, d in zip(node.iterators, values, domains, strict=True) if i.kind == "reduce"]
        if node.init is not None and all(int(v) == d.start for v, d in reduced):
            yield node.init
        yield node.body
        for v in node.views:
            del self.views[v.buffer]
        for b in node.allocated:
            self.memory.end(b)
        for i in node.iterators:
            del self.env[i.var]

    def allocate(self, buffer: Buffer) -> None:
        self.memory.begin(buffer, self.shape(buffer))
        self.born[buffer] = len(self.races)

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of a buffer that begins now."""
        return shape_at(buffer, {v: int(n) for v, n in self.env.items() if v.dtype.is_integer})

    def window(self, view: View) -> Window:
        """What a view is now: sizes, and where in its source it lies."""
        outer = self.views.get(view.source)
        shape = outer.shape if outer is not None else self.memory.shape(view.source)
        strides = tuple(int(self.value(s)) for s in view.strides)
        return Window(view.buffer, self.shape(view.buffer), view.source, shape, int(self.value(view.offset)), strides)

    def place(self, buffer: Buffer, index: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        """The element of memory that an element is, through any number of views."""
        while buffer in self.views:
            buffer, index = self.views[buffer].element(index)
        return buffer, index

    def perform(self, node: Store | Assert | Evaluate) -> None:
        """A statement without parts."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Unfinished
        match node:
            case Store():
                index = tuple(self.value(i) for i in node.indices)
                value = self.value(node.value)
                buffer, index = self.place(node.buffer, index)
                self.memory.store(buffer, index, value)
                self.touch(buffer, index, write=True)
            case Assert():
                if not self.value(node.condition):
                    raise Trap(node.kind, node.message, label="tensor.T7")
            case Evaluate():
                self.value(node.value)

    def load(self, buffer: Buffer, index: tuple[Any, ...]) -> Any:
        buffer, index = self.place(buffer, index)
        value = self.memory.load(buffer, index)
        self.touch(buffer, index, write=False)
        return value

    def touch(self, buffer: Buffer, index: tuple[Any, ...], write: bool) -> None:
        for race in self.races[self.born.get(buffer, 0) :]:
            race.touch(buffer, index, write)

    def value(self, expr: Expr) -> Any:
        """The value of an expression now."""
        known = self.code.get(id(expr))
        if known is None:
            known = self.code[id(expr)] = (expr, self.compile(expr))
        return known[1]()

    def compile(self, expr: Expr) -> Callable[[], Any]:
        """`expr` as straight-line code, operands before operations, left to right: `scalar.evaluate`, made once."""
        nodes = list(post_order(expr))
        if any(isinstance(n, Choice) for n in nodes):
            return lambda: evaluate(expr, self.env, self.load)  # not all of it is evaluated
        slot = {id(n): k for k, n in enumerate(nodes)}
        values: list[Any] = [n.value if isinstance(n, Const) else None for n in nodes]
        steps = [
            (k, self.rule(n), tuple(slot[id(c)] for c in n.children))
            for k, n in enumerate(nodes)
            if not isinstance(n, Const)
        ]

        def straight() -> Any:
            for k, rule, args in steps:
                values[k] = rule(*[values[a] for a in args])
            return values[-1]

        return straight

    def rule(self, node: Expr) -> Callable[..., Any]:
        """What a node of an expression does to the values of its parts."""
        env, load = self.env, self.load
        match node:
            case Var():

                def variable() -> Any:
                    try:
                        return env[node]
                    except KeyError:
                        raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7") from None

                return variable
            case Apply():
                return operation(node.op).meaning
            case Cast():
                to = node.dtype
                return lambda value: convert(value, to)
            case Load():
                buffer = node.buffer
                return lambda *index: load(buffer, index)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")
