"""A tensor function at given dims as blocks of items: what the vector interpreter plans over (specs/interp.md, "Vector").

Symbols are numbers, loops that run once or never are gone, scalar lets of pure index arithmetic are put in place,
decided guards are gone, and a loop whose variable is only used divided into quotient and remainder is two loops. The
order of execution is that of the function. Every loop variable and every allocation has an identity of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.interp.affine import Affine, Interval, Quotient, affine, decide
from assay.interp.binding import Array, shape_at
from assay.semantics.errors import Crash, Invalid, Span
from assay.semantics.scalar import Const, Expr, Load, Var, const
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    While,
    program_order,
)
from assay.semantics.walk import post_order, rewrite

DEEPEST = 40
MOST_ITEMS = 20_000


class Unplanned(Exception):
    """The function is outside what is vectorised, for the given reason: the definition runs it."""


@dataclass(eq=False)
class Loop:
    """`body` for `var` from 0 below `extent`, a constant `trip` if that is known; `most` bounds it from above."""

    var: Var
    extent: Expr
    form: Affine | None
    trip: int | None
    most: int | None
    kind: str
    body: Block
    independent: bool = False
    """Whether it was shown that no two iterations touch a common element that one writes."""


@dataclass(eq=False)
class Branch:
    condition: Expr
    then: Block
    otherwise: Block


@dataclass(eq=False)
class Repeat:
    """`body` as long as `condition` holds."""

    condition: Expr
    body: Block


@dataclass(eq=False)
class Bind:
    """`var` names `value` from here on."""

    var: Var
    value: Expr


@dataclass(eq=False)
class Fresh:
    """`buffer` exists from here on: unwritten, or with `data`. `number` counts the function's allocations."""

    buffer: Buffer
    number: int = -1
    data: Array | None = None


@dataclass(eq=False)
class Write:
    """The element of `buffer` at `indices` becomes `value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    span: Span | None = None


@dataclass(eq=False)
class Check:
    """Traps with `message` unless `condition` holds."""

    condition: Expr
    message: str
    span: Span | None = None


@dataclass(eq=False)
class Drop:
    """`value` is computed and dropped."""

    value: Expr


Item: TypeAlias = Loop | Branch | Repeat | Bind | Fresh | Write | Check | Drop
Block: TypeAlias = list[Item]


@dataclass(eq=False)
class Blocks:
    """A tensor function as blocks, its buffers with numbers for dims, and the ranges of its loop variables."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Block
    ranges: dict[Var, Interval] = field(default_factory=dict)
    constants: dict[Buffer, Array] = field(default_factory=dict)


def expressions(item: Item) -> tuple[Expr, ...]:
    """The scalar expressions that stand in an item itself, in the order of their evaluation."""
    match item:
        case Loop():
            return (item.extent,)
        case Branch() | Repeat() | Check():
            return (item.condition,)
        case Bind() | Drop():
            return (item.value,)
        case Write():
            return (*item.indices, item.value)
        case Fresh():
            return ()


def inner(item: Item) -> tuple[Block, ...]:
    """The blocks inside an item."""
    match item:
        case Loop() | Repeat():
            return (item.body,)
        case Branch():
            return (item.then, item.otherwise)
        case _:
            return ()


def walk(block: Block) -> Iterator[Item]:
    """Every item of a block and inside it, in the order of the text."""
    stack = list(reversed(block))
    while stack:
        item = stack.pop()
        yield item
        for part in reversed(inner(item)):
            stack.extend(reversed(part))


def specialise(expr: Expr, vars: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> Expr:
    """`expr` with variables and buffers replaced."""
    made = set(buffers.values())

    def change(node: Expr) -> Expr:
        if isinstance(node, Var):
            return vars.get(node, node)
        if isinstance(node, Load) and node.buffer not in made:  # folding may hand back what was replaced already
            if node.buffer not in buffers:
                raise Unplanned(f"buffer {node.buffer.name} is used where it does not exist")
            return Load(node.dtype, buffers[node.buffer], node.indices)
        return node

    return rewrite(expr, change)


def build(func: PrimFunc, dims: Mapping[Var, int]) -> Blocks:
    """`func` at `dims` as blocks. Raises `Unplanned` for what only the definition can say: ill-scoped or too deep."""
    builder = _Builder(func, dims)
    builder.run()
    blocks = builder.blocks
    split_loops(blocks)
    if _depth(blocks.body) > DEEPEST:
        raise Unplanned(f"more than {DEEPEST} nested loops")
    return blocks


class _Builder:
    """Puts statements into blocks, with a stack of its own; bindings are undone when their statement has ended."""

    def __init__(self, func: PrimFunc, dims: Mapping[Var, int]) -> None:
        self.func = func
        self.vars: dict[Var, Expr] = {v: const(n, v.dtype) for v, n in dims.items()}
        self.buffers: dict[Buffer, Buffer] = {}
        for b in func.params:
            self.buffers[b] = Buffer(b.name, shape_at(b, dims), b.dtype, b.scope)
        body: Block = []
        inputs = tuple(self.buffers[b] for b in func.inputs)
        self.blocks = Blocks(func.name, inputs, tuple(self.buffers[b] for b in func.outputs), body)
        self.read_only = set(inputs)
        self.work: list[tuple[Any, ...]] = [("run", func.body, body)]
        self.allocations = 0
        self.items = 0

    def run(self) -> None:
        while self.work:
            what, *rest = self.work.pop()
            if what == "run":
                self.items += 1
                if self.items > MOST_ITEMS:
                    raise Unplanned(f"more than {MOST_ITEMS} statements")
                self.statement(*rest)
            else:  # undo a binding
                table, key, old = rest
                if old is None:
                    table.pop(key, None)
                else:
                    table[key] = old

    def bind(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """A binding that ends with the work that is pushed after it."""
        self.work.append(("undo", table, key, table.get(key)))
        table[key] = value

    def expr(self, expr: Expr) -> Expr:
        return specialise(expr, self.vars, self.buffers)

    def statement(self, node: Stmt, out: Block) -> None:
        match node:
            case Seq():
                self.work.extend(("run", s, out) for s in reversed(node.body))
            case For():
                self.loop(node, out)
            case While():
                body: Block = []
                out.append(Repeat(self.expr(node.condition), body))
                self.work.append(("run", node.body, body))
            case If():
                self.branch(node, out)
            case LetStmt():
                value = self.expr(node.value)
                if value.dtype.is_integer and affine(value, self.blocks.ranges) is not None:
                    self.bind(self.vars, node.var, value)
                else:
                    var = Var(node.var.name, node.var.dtype)
                    out.append(Bind(var, value))
                    self.bind(self.vars, node.var, var)
                self.work.append(("run", node.body, out))
            case Allocate() | AllocateConst():
                self.allocate(node, out)
            case Store():
                buffer = self.buffers.get(node.buffer)
                if buffer is None:
                    raise Unplanned(f"buffer {node.buffer.name} is used where it does not exist")
                if buffer in self.read_only:
                    raise Unplanned(f"store to read-only buffer {buffer.name}")
                index = tuple(self.expr(i) for i in node.indices)
                out.append(Write(buffer, index, self.expr(node.value), node.span))
            case Assert():
                out.append(Check(self.expr(node.condition), node.message, node.span))
            case Evaluate():
                out.append(Drop(self.expr(node.value)))
            case _:
                raise Crash(f"no such statement: {type(node).__name__}")

    def loop(self, node: For, out: Block) -> None:
        extent = self.expr(node.extent)
        form = affine(extent, self.blocks.ranges)
        inside = form.interval(self.blocks.ranges) if form is not None else None
        trip = inside[0] if inside is not None and inside[0] == inside[1] else None
        most = inside[1] if inside is not None else None
        if most is not None and most <= 0:
            self.allocations += sum(isinstance(s, Allocate) for s in program_order(node.body))
        elif trip == 1:
            self.bind(self.vars, node.var, const(0, node.var.dtype))
            self.work.append(("run", node.body, out))
        else:
            var = Var(node.var.name, node.var.dtype)
            if most is not None:
                if most - 1 > var.dtype.max:
                    raise Unplanned(f"the loop over {var.name} does not fit {var.dtype}")
                self.blocks.ranges[var] = (0, most - 1)
            body: Block = []
            out.append(Loop(var, extent, form, trip, most, node.kind, body))
            self.bind(self.vars, node.var, var)
            self.work.append(("run", node.body, body))

    def branch(self, node: If, out: Block) -> None:
        condition = self.expr(node.condition)
        holds = decide(condition, self.blocks.ranges)
        then: Block = out if holds is not None else []
        otherwise: Block = out if holds is not None else []
        if holds is None:
            out.append(Branch(condition, then, otherwise))
        if node.otherwise is not None:
            if holds is not True:
                self.work.append(("run", node.otherwise, otherwise))
            else:
                self.work.append(("run", _skipped(node.otherwise), otherwise))
        self.work.append(("run", node.then if holds is not False else _skipped(node.then), then))

    def allocate(self, node: Allocate | AllocateConst, out: Block) -> None:
        b = node.buffer
        numbers = {v: int(e.value) for v, e in self.vars.items() if isinstance(e, Const) and v.dtype.is_integer}
        try:
            buffer = Buffer(b.name, shape_at(b, numbers), b.dtype, b.scope)
        except Invalid:
            raise Unplanned(f"the shape of buffer {b.name} is not constant") from None
        if isinstance(node, Allocate):
            out.append(Fresh(buffer, self.allocations))
            self.allocations += 1
        else:
            out.append(Fresh(buffer, data=node.data))
            self.read_only.add(buffer)
            self.blocks.constants[buffer] = node.data
        self.bind(self.buffers, b, buffer)
        self.work.append(("run", node.body, out))


def _skipped(body: Stmt) -> Stmt:
    """A statement that never runs: only its allocations are counted."""
    zero = Var("never")
    return For(zero, const(0), body)


def _depth(block: Block) -> int:
    """How deep blocks are nested."""
    deepest, stack = 0, [(block, 1)]
    while stack:
        part, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((b, depth + 1) for item in part for b in inner(item))
    return deepest


# --- splitting ---------------------------------------------------------------------------------------------------


def split_loops(blocks: Blocks) -> None:
    """Make two loops of each loop whose variable is used as a quotient by a divisor of its trip count.

    Then `oc // 4` and `oc % 4` are variables themselves, and an access with them is as regular as any other.
    """
    loops = [i for i in walk(blocks.body) if isinstance(i, Loop)]
    while loops:
        loop = loops.pop()
        divisor = _divisor(loop, blocks.ranges)
        if divisor is None or loop.trip is None:
            continue
        outer, low = Var(f"{loop.var.name}_q", loop.var.dtype), Var(f"{loop.var.name}_r", loop.var.dtype)
        blocks.ranges[outer] = (0, loop.trip // divisor - 1)
        blocks.ranges[low] = (0, divisor - 1)
        _replace(loop.body, {loop.var: outer * divisor + low}, blocks.ranges)
        count = const(divisor)
        inside = Loop(low, count, Affine({}, divisor), divisor, divisor, loop.kind, loop.body)
        loop.var, loop.trip, loop.most = outer, loop.trip // divisor, loop.trip // divisor
        loop.extent, loop.form, loop.body = const(loop.trip), Affine({}, loop.trip), [inside]
        loops += [loop, inside]


def _divisor(loop: Loop, ranges: Mapping[Var, Interval]) -> int | None:
    """The least number by which an index in the loop divides its variable, if it divides the trip count as well."""
    if loop.trip is None:
        return None
    found: set[int] = set()
    for item in walk(loop.body):
        for expr in expressions(item):
            for index in _integers(expr, loop.var):
                form = affine(index, ranges)
                if form is not None:
                    found |= {a.divisor for a in form.terms if isinstance(a, Quotient) and _is_just(a.form, loop.var)}
    fitting = [d for d in found if 1 < d < loop.trip and loop.trip % d == 0]
    return min(fitting, default=None)


def _is_just(form: Affine, var: Var) -> bool:
    return form.constant == 0 and dict(form.terms) == {var: 1}


def _integers(expr: Expr, var: Var) -> list[Expr]:
    """The index expressions in `expr` that use `var`, and `expr` itself if it is one."""
    nodes = list(post_order(expr))
    if not any(n is var for n in nodes):
        return []
    out = [i for n in nodes if isinstance(n, Load) for i in n.indices]
    return [*out, expr] if expr.dtype.is_integer else out


def _replace(block: Block, by: Mapping[Var, Expr], ranges: Mapping[Var, Interval]) -> None:
    """Replace variables in every expression of a block."""

    def change(expr: Expr) -> Expr:
        return rewrite(expr, lambda n: by.get(n, n) if isinstance(n, Var) else n)

    for item in walk(block):
        match item:
            case Loop():
                item.extent = change(item.extent)
                item.form = affine(item.extent, ranges)
            case Branch() | Repeat() | Check():
                item.condition = change(item.condition)
            case Bind() | Drop():
                item.value = change(item.value)
            case Write():
                item.indices = tuple(change(i) for i in item.indices)
                item.value = change(item.value)
            case Fresh():
                pass
