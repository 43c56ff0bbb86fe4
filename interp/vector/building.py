"""From a tensor function to blocks (specs/interp.md, "Vector").

Symbols become numbers, loops that run once or never are gone, scalar lets of pure index arithmetic are put in place,
and decided guards are gone. The order of execution is that of the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.interp.binding import shape_at
from assay.interp.vector.blocks import (
    Bind,
    Block,
    Blocks,
    Branch,
    Check,
    Drop,
    Fresh,
    Loop,
    Repeat,
    Unplanned,
    Write,
    depth_of,
)
from assay.interp.vector.splitting import split_loops
from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash, Invalid
from assay.semantics.integers.affine import affine, decide
from assay.semantics.scalar import Const, Expr, Load, Var, cast, const
from assay.semantics.walk import Worklist, rewrite, scoped

DEEPEST = 40
MOST_ITEMS = 20_000


def build(
    func: tensor.PrimFunc, dims: Mapping[Var, int], scalars: Mapping[Var, Any] | None = None, *, split: bool = True
) -> Blocks:
    """`func` at `dims` and `scalars` as blocks; loops whose variable is divided become two if `split`.

    Raises `Unplanned` for what only the definition can say: ill-scoped or too deep.
    """
    builder = _Builder(func, dims, scalars or {})
    builder.run()
    blocks = builder.blocks
    if split:
        split_loops(blocks)
    if depth_of(blocks.body) > DEEPEST:
        raise Unplanned(f"more than {DEEPEST} nested loops")
    return blocks


def specialise(expr: Expr, vars: Mapping[Var, Expr], buffers: Mapping[tensor.Buffer, tensor.Buffer]) -> Expr:
    """`expr` with variables and buffers replaced."""
    new: set[int] = set()  # folding may hand back what was replaced already

    def change(node: Expr) -> Expr:
        if id(node) in new:
            return node
        if isinstance(node, Var):
            if node not in vars:
                raise Unplanned(f"scalar {node.name} is used where it is not bound")
            node = vars[node]
        elif isinstance(node, Load):
            if node.buffer not in buffers:
                raise Unplanned(f"buffer {node.buffer.name} is used where it does not exist")
            node = Load(node.dtype, buffers[node.buffer], node.indices)
        new.add(id(node))
        return node

    return rewrite(expr, change)


class _Builder:
    """Puts statements into blocks, with a stack of its own; bindings are undone when their statement has ended."""

    def __init__(self, func: tensor.PrimFunc, dims: Mapping[Var, int], scalars: Mapping[Var, Any]) -> None:
        self.func = func
        self.vars: dict[Var, Expr] = {v: const(n, v.dtype) for v, n in dims.items()}
        self.vars.update((v, const(x, v.dtype)) for v, x in scalars.items())
        self.buffers: dict[tensor.Buffer, tensor.Buffer] = {}
        for b in func.params:
            self.buffers[b] = tensor.Buffer(b.name, shape_at(b, dims), b.dtype, b.scope)
        body: Block = []
        inputs = tuple(self.buffers[b] for b in func.inputs)
        self.blocks = Blocks(func.name, inputs, tuple(self.buffers[b] for b in func.outputs), body)
        self.read_only = set(inputs)
        self.work = Worklist([(func.body, body)])
        self.allocations = 0
        self.items = 0

    def run(self) -> None:
        for node, out in self.work:
            self.items += 1
            if self.items > MOST_ITEMS:
                raise Unplanned(f"more than {MOST_ITEMS} statements")
            self.statement(node, out)

    def bind(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """A binding that ends with the work that is added after it."""
        self.work.on_leave(scoped(table, key, value))

    def expr(self, expr: Expr) -> Expr:
        return specialise(expr, self.vars, self.buffers)

    def statement(self, node: tensor.Stmt, out: Block) -> None:
        match node:
            case tensor.Seq():
                self.work.add((s, out) for s in node.body)
            case tensor.For():
                self.loop(node, out)
            case tensor.While():
                body: Block = []
                out.append(Repeat(self.expr(node.condition), body, node.span))
                self.work.add([(node.body, body)])
            case tensor.If():
                self.branch(node, out)
            case tensor.LetStmt():
                value = self.expr(node.value)
                if value.dtype.is_integer and affine(value, self.blocks.ranges) is not None:
                    self.bind(self.vars, node.var, value)
                else:
                    var = Var(node.var.name, node.var.dtype)
                    out.append(Bind(var, value, node.span))
                    self.bind(self.vars, node.var, var)
                self.work.add([(node.body, out)])
            case tensor.Allocate() | tensor.AllocateConst():
                self.allocate(node, out)
            case tensor.Store():
                buffer = self.buffers.get(node.buffer)
                if buffer is None:
                    raise Unplanned(f"buffer {node.buffer.name} is used where it does not exist")
                if buffer in self.read_only:
                    raise Unplanned(f"store to read-only buffer {buffer.name}")
                index = tuple(self.expr(i) for i in node.indices)
                out.append(Write(buffer, index, self.expr(node.value), node.span))
            case tensor.Assert():
                condition = self.expr(node.condition)
                if decide(condition, self.blocks.ranges) is not True:
                    out.append(Check(condition, node.message, node.kind, node.span))
            case tensor.Evaluate():
                out.append(Drop(self.expr(node.value), node.span))
            case _:
                raise Crash(f"no such statement: {type(node).__name__}")

    def loop(self, node: tensor.For, out: Block) -> None:
        extent = self.expr(node.extent)
        form = affine(extent, self.blocks.ranges)
        inside = form.interval(self.blocks.ranges) if form is not None else None
        trip = inside[0] if inside is not None and inside[0] == inside[1] else None
        most = inside[1] if inside is not None else None
        if most is not None and most <= 0:
            self.allocations += sum(isinstance(s, tensor.Allocate) for s in tensor.program_order(node.body))
        elif trip == 1:
            self.bind(self.vars, node.var, const(0, node.var.dtype))
            self.work.add([(node.body, out)])
        else:
            fits = (extent.dtype.max if most is None else most - 1) <= node.var.dtype.max
            var = Var(node.var.name, node.var.dtype if fits else INT64)
            if most is not None:
                self.blocks.ranges[var] = (0, most - 1)
            body: Block = []
            out.append(Loop(var, extent, form, trip, most, node.kind, body, span=node.span))
            self.bind(self.vars, node.var, cast(var, node.var.dtype))  # where it does not fit it wraps
            self.work.add([(node.body, body)])

    def branch(self, node: tensor.If, out: Block) -> None:
        condition = self.expr(node.condition)
        holds = decide(condition, self.blocks.ranges)
        then: Block = out if holds is not None else []
        otherwise: Block = out if holds is not None else []
        if holds is None:
            out.append(Branch(condition, then, otherwise, node.span))
        if node.otherwise is not None:
            if holds is not True:
                self.work.add([(node.otherwise, otherwise)])
            else:
                self.work.add([(_skipped(node.otherwise), otherwise)])
        self.work.add([(node.then if holds is not False else _skipped(node.then), then)])

    def allocate(self, node: tensor.Allocate | tensor.AllocateConst, out: Block) -> None:
        b = node.buffer
        numbers = {v: int(e.value) for v, e in self.vars.items() if isinstance(e, Const) and v.dtype.is_integer}
        try:
            buffer = tensor.Buffer(b.name, shape_at(b, numbers), b.dtype, b.scope)
        except Invalid:
            raise Unplanned(f"the shape of buffer {b.name} is not constant") from None
        if isinstance(node, tensor.Allocate):
            out.append(Fresh(buffer, self.allocations))
            self.allocations += 1
        else:
            out.append(Fresh(buffer, data=node.contents))
            self.read_only.add(buffer)
            self.blocks.constants[buffer] = node.contents
        self.bind(self.buffers, b, buffer)
        self.work.add([(node.body, out)])


def _skipped(body: tensor.Stmt) -> tensor.Stmt:
    """A statement that never runs: only its allocations are counted."""
    zero = Var("never")
    return tensor.For(zero, const(0), body)
