"""When two tensor functions are the same but for names (specs/semantics.md, "Tensor IR").

Variables and buffers are matched by where they are declared. Sequences inside sequences do not matter, nor do spans, nor
the order of attributes; everything else does, advice included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.semantics.errors import Crash
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, const
from assay.semantics.tensor import (
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
    Region,
    Seq,
    Stmt,
    Store,
    View,
    While,
)
from assay.semantics.walk import post_order


def same_function(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions differ in names only, those of their symbols included."""
    table: dict[Any, int] = {}
    return _Form(table).of(a) == _Form(table).of(b)


class _Form:
    """A function as a list of plain values, equal for equal functions."""

    def __init__(self, table: dict[Any, int]) -> None:
        self.table = table
        self.numbers: dict[Var | Buffer, int] = {}
        self.known: dict[int, int] = {}
        self.form: list[Any] = []

    def of(self, func: PrimFunc) -> list[Any]:
        self.form += [func.name, func.num_outputs, len(func.params), len(func.scalars)]
        self.form += [self.declared(v) for v in func.scalars]
        self.form += [self.declared(b) for b in func.params]
        self.form.append(self.data(func.attrs))
        stack: list[Stmt | str] = [func.body]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self.form.append(node)
            elif isinstance(node, Seq):
                stack.extend(reversed(node.body))
            else:
                self.form.append(type(node).__name__)
                self.form += self.head(node)
                for child in reversed(node.children):
                    stack += ["end", child]
        return self.form

    def declared(self, of: Var | Buffer) -> Any:
        """The description of what is declared here."""
        if of in self.numbers:
            self.known.clear()  # what was said of the earlier one says nothing of this one
        if isinstance(of, Var):
            self.numbers[of] = len(self.numbers)
            return of.dtype.name
        shape = tuple(self.expr(d if isinstance(d, Expr) else const(d)) for d in of.shape)
        described = (of.dtype.name, of.scope, shape, self.data(of.notes))
        self.numbers[of] = len(self.numbers)
        return described

    def number(self, of: Var | Buffer) -> Any:
        """Which declaration a use refers to; symbols count from their first use."""
        return self.numbers.setdefault(of, len(self.numbers))

    def expr(self, root: Expr) -> int:
        for node in post_order(root, lambda n: () if id(n) in self.known and not isinstance(n, Var) else n.children):
            args = tuple(self.known[id(c)] for c in node.children)
            head: tuple[Any, ...]
            match node:
                case Var():
                    head = ("var", self.number(node), node.dtype.name)
                case Const():
                    head = ("const", node.dtype.name, node.value.tobytes())
                case Apply():
                    head = ("apply", node.op, node.dtype.name)
                case Cast():
                    head = ("cast", node.dtype.name)
                case Load():
                    head = ("load", self.number(node.buffer))
                case Choice():
                    head = ("choice",)
                case _:
                    raise Crash(f"no such scalar node: {type(node).__name__}")
            self.known[id(node)] = self.table.setdefault((*head, *args), len(self.table))
        return self.known[id(root)]

    def head(self, node: Stmt) -> Sequence[Any]:
        """What a statement says itself. What it declares is numbered after what stands outside."""
        match node:
            case For():
                start = None if node.start is None else self.expr(node.start)
                return [start, self.expr(node.extent), node.kind, self.data(node.annotations), self.declared(node.var)]
            case LetStmt():
                return [self.expr(node.value), self.declared(node.var)]
            case Allocate():
                return [self.declared(node.buffer)]
            case AllocateConst():
                return [self.declared(node.buffer), node.data.tobytes()]
            case Alias():
                return self.view(node.view)
            case Pragma():
                return [node.key, self.data(node.value)]
            case Block():
                return self.block(node)
            case Store():
                return [self.number(node.buffer), *map(self.expr, node.indices), self.expr(node.value)]
            case Assert():
                return [self.expr(node.condition), node.message, node.kind]
            case If():
                return [self.expr(node.condition), node.otherwise is None]
            case While():
                return [self.expr(node.condition)]
            case Evaluate():
                return [self.expr(node.value)]
            case _:
                raise Crash(f"no such statement: {type(node).__name__}")

    def view(self, view: View) -> Sequence[Any]:
        region = None if view.region is None else self.region(view.region)
        own = [self.number(view.source), self.expr(view.offset), *map(self.expr, view.strides), region]
        return [*own, self.declared(view.buffer)]

    def region(self, region: Region) -> Any:
        stops = tuple(None if e is None else self.expr(e) for e in region.stops)
        return self.number(region.buffer), tuple(map(self.expr, region.starts)), stops

    def block(self, block: Block) -> Sequence[Any]:
        form: list[Any] = [block.name, block.init is None]
        form.append(None if block.predicate is None else self.expr(block.predicate))
        form += [(i.kind, i.start is None, *map(self.expr, i.expressions)) for i in block.iterators]
        form += [self.declared(i.var) for i in block.iterators]
        form += [self.declared(b) for b in block.allocated]
        form += [self.view(v) for v in block.views]
        form.append(None if block.reads is None else tuple(map(self.region, block.reads)))
        form.append(None if block.writes is None else tuple(map(self.region, block.writes)))
        return [*form, self.data(block.annotations)]

    def data(self, value: Any) -> Any:
        """An attribute as something that can be compared."""
        match value:
            case Expr():
                return ("expr", self.expr(value))
            case Buffer():
                return ("buffer", self.number(value))
            case Mapping():
                return ("map", sorted(((str(k), self.data(v)) for k, v in value.items()), key=lambda kv: kv[0]))
            case tuple() | list():
                return ("list", [self.data(v) for v in value])
            case np.generic():
                return ("scalar", value.dtype.name, value.tobytes())
            case _:
                return (type(value).__name__, value)
