"""Statements with other variables, buffers or expressions in them (specs/semantics.md, "Tensor IR")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from assay.semantics import tensor
from assay.semantics.errors import Crash
from assay.semantics.scalar import Dim, Expr, Load, Var
from assay.semantics.walk import post_order, rewrite


@dataclass
class Mapper:
    """What variables and buffers become. What is not named stays."""

    vars: dict[Var, Expr] = field(default_factory=dict)
    buffers: dict[tensor.Buffer, tensor.Buffer] = field(default_factory=dict)

    @staticmethod
    def renewing(func: tensor.PrimFunc) -> Mapper:
        """Every name of a function becomes a fresh one of the same text."""
        made = Mapper()
        for var in (*func.scalars, *bound_vars(func)):
            made.vars[var] = Var(var.name, var.dtype)
        for b in (*func.params, *bound_buffers(func.body)):
            made.buffers[b] = tensor.Buffer(b.name, tuple(map(made.dim, b.shape)), b.dtype, b.scope, b.notes)
        return made

    def var(self, of: Var) -> Var:
        """What a variable that is bound here becomes; Crash where that is no variable."""
        found = self.vars.get(of, of)
        if not isinstance(found, Var):
            raise Crash(f"{of.name} is bound here and became {found}")
        return found

    def buffer(self, of: tensor.Buffer) -> tensor.Buffer:
        """What a buffer becomes."""
        return self.buffers.get(of, of)

    def dim(self, of: Dim) -> Dim:
        """What a dim becomes; numbers stay."""
        return self.expr(of) if isinstance(of, Expr) else of

    def expr(self, of: Expr) -> Expr:
        """An expression over what its variables and buffers become."""

        def change(node: Expr) -> Expr:
            if isinstance(node, Var):
                return self.vars.get(node, node)
            if isinstance(node, Load) and node.buffer in self.buffers:
                return Load(node.dtype, self.buffers[node.buffer], node.indices)
            return node

        return rewrite(of, change)

    def exprs(self, of: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Several expressions, each as `expr`."""
        return tuple(map(self.expr, of))

    def maybe(self, of: Expr | None) -> Expr | None:
        """An expression as `expr`; None stays."""
        return None if of is None else self.expr(of)

    def run(self, body: tensor.Stmt) -> tensor.Stmt:
        """A statement and all in it."""
        return rewrite(body, self.own)

    def own(self, s: tensor.Stmt) -> tensor.Stmt:
        """What a statement says itself."""
        match s:
            case tensor.Seq() | tensor.Pragma():
                return s
            case tensor.For():
                return replace(s, var=self.var(s.var), extent=self.expr(s.extent), start=self.maybe(s.start))
            case tensor.While() | tensor.If():
                return replace(s, condition=self.expr(s.condition))
            case tensor.Assert():
                return replace(s, condition=self.expr(s.condition), values=self.exprs(s.values))
            case tensor.LetStmt():
                return replace(s, var=self.var(s.var), value=self.expr(s.value))
            case tensor.Allocate() | tensor.AllocateConst():
                return replace(s, buffer=self.buffer(s.buffer))
            case tensor.Alias():
                return replace(s, view=self.view(s.view))
            case tensor.Store():
                return replace(s, buffer=self.buffer(s.buffer), indices=self.exprs(s.indices), value=self.expr(s.value))
            case tensor.Evaluate():
                return replace(s, value=self.expr(s.value))
            case tensor.Call():
                args = (
                    self.buffer(a) if isinstance(a, tensor.Buffer) else self.expr(a) if isinstance(a, Expr) else a
                    for a in s.args
                )
                result = None if s.result is None else self.expr(s.result)
                assert result is None or isinstance(result, Load)
                return replace(s, args=tuple(args), result=result)
            case tensor.Block():
                return replace(
                    s,
                    iterators=tuple(map(self.iterator, s.iterators)),
                    predicate=self.maybe(s.predicate),
                    reads=None if s.reads is None else tuple(map(self.region, s.reads)),
                    writes=None if s.writes is None else tuple(map(self.region, s.writes)),
                    allocated=tuple(map(self.buffer, s.allocated)),
                    views=tuple(map(self.view, s.views)),
                )
            case _:
                raise Crash(f"no such statement: {type(s).__name__}")

    def iterator(self, i: tensor.IterVar) -> tensor.IterVar:
        """An iterator of a block over what its variable and expressions become."""
        return tensor.IterVar(self.var(i.var), i.kind, self.expr(i.extent), self.expr(i.value), self.maybe(i.start))

    def region(self, r: tensor.Region) -> tensor.Region:
        """A region of what its buffer becomes, between what its bounds become."""
        return tensor.Region(self.buffer(r.buffer), self.exprs(r.starts), tuple(map(self.maybe, r.stops)))

    def view(self, v: tensor.View) -> tensor.View:
        """A view with what its buffers, offset, strides and region become."""
        region = None if v.region is None else self.region(v.region)
        return replace(
            v,
            buffer=self.buffer(v.buffer),
            source=self.buffer(v.source),
            offset=self.expr(v.offset),
            strides=self.exprs(v.strides),
            region=region,
        )


def bound_vars(func: tensor.PrimFunc) -> Iterator[Var]:
    """The variables that a function binds: symbols of its shapes, then those of its body."""
    for b in func.params:
        for d in b.shape:
            if isinstance(d, Expr):
                yield from (n for n in post_order(d) if isinstance(n, Var))
    for stmt in tensor.program_order(func.body):
        match stmt:
            case tensor.For() | tensor.LetStmt():
                yield stmt.var
            case tensor.Block():
                yield from (i.var for i in stmt.iterators)


def bound_buffers(body: tensor.Stmt) -> Iterator[tensor.Buffer]:
    """The buffers that begin in a body, in program order."""
    for stmt in tensor.program_order(body):
        match stmt:
            case tensor.Allocate() | tensor.AllocateConst():
                yield stmt.buffer
            case tensor.Alias():
                yield stmt.view.buffer
            case tensor.Block():
                yield from stmt.allocated
                yield from (v.buffer for v in stmt.views)
