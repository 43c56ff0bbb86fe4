"""Tensor functions over words instead of numbers (specs/verify.md, "equivalence").

A function is rewritten so that its data are 64-bit words: elements of a prime field, or fingerprints. What the scalar
operations become is said here; the result is a tensor function like any other, and the vector interpreter runs it. So
functions are compared that are too large for terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics import tensor
from assay.semantics.dtypes import UINT64
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var, evaluate, may_trap
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import depending, post_order
from assay.verify.equivalence.meanings import PRIME, Field, Meaning
from assay.verify.equivalence.order import UndecidedTrace


def over_words(func: tensor.PrimFunc, meaning: Meaning) -> tensor.PrimFunc:
    """`func` with its data as words, control and indices as they are. Raises `UndecidedTrace` where these depend on
    data."""
    return _Words(func, meaning).run()


class _Words:
    def __init__(self, func: tensor.PrimFunc, meaning: Meaning) -> None:
        self.func = without_blocks(func)
        self.meaning = meaning
        self.buffers: dict[tensor.Buffer, tensor.Buffer] = {}
        self.vars: dict[Var, Var] = {v: Var(v.name, UINT64) for v in self.func.scalars}
        self.constants: set[tensor.Buffer] = set()

    def run(self) -> tensor.PrimFunc:
        func = self.func
        for b in func.params:
            self.word(b)
        order = list(post_order(func.body))
        for s in tensor.program_order(func.body):  # a name's value may name others before it
            if isinstance(s, tensor.LetStmt) and self.data_nodes(s.value):
                self.vars[s.var] = Var(s.var.name, UINT64)
        new: dict[int, tensor.Stmt] = {}
        for s in order:
            new[id(s)] = self.statement(s, [new[id(c)] for c in s.children])
        params = tuple(self.buffers[b] for b in func.params)
        return replace(func, params=params, body=new[id(func.body)], scalars=tuple(self.vars[v] for v in func.scalars))

    def word(self, buffer: tensor.Buffer) -> tensor.Buffer:
        if buffer not in self.buffers:
            self.buffers[buffer] = replace(buffer, dtype=UINT64, notes={})
        return self.buffers[buffer]

    def data_nodes(self, expr: Expr) -> set[int]:
        """The parts of an expression that depend on data, by identity."""
        return depending(expr, lambda n: isinstance(n, Load) or n in self.vars)

    def plain(self, expr: Expr) -> Expr:
        if self.data_nodes(expr):
            raise UndecidedTrace(f"{expr} depends on data")
        return expr

    def statement(self, stmt: tensor.Stmt, parts: list[tensor.Stmt]) -> tensor.Stmt:
        match stmt:
            case tensor.Seq():
                return replace(stmt, body=tuple(parts))
            case tensor.For():
                return replace(stmt, extent=self.plain(stmt.extent), body=parts[0])
            case tensor.If():
                otherwise = parts[1] if len(parts) > 1 else None
                return replace(stmt, condition=self.plain(stmt.condition), then=parts[0], otherwise=otherwise)
            case tensor.LetStmt() if stmt.var in self.vars:
                return replace(stmt, var=self.vars[stmt.var], value=self.data(stmt.value), body=parts[0])
            case tensor.LetStmt():
                return replace(stmt, body=parts[0])
            case tensor.Allocate():
                return replace(stmt, buffer=self.word(stmt.buffer), body=parts[0])
            case tensor.AllocateConst():
                if stmt.contents.size > 4096:
                    raise UndecidedTrace("a constant of more than 4096 elements")
                values = [self.meaning.number(x, stmt.buffer.dtype) for x in stmt.contents.reshape(-1)]
                known = [evaluate(v, {}) for v in values]
                data = np.array(known, np.uint64).reshape(stmt.contents.shape)
                return replace(stmt, buffer=self.word(stmt.buffer), data=data, body=parts[0])
            case tensor.Store():
                indices = tuple(self.plain(i) for i in stmt.indices)
                return replace(stmt, buffer=self.word(stmt.buffer), indices=indices, value=self.data(stmt.value))
            case tensor.Assert():
                return replace(stmt, condition=self.plain(stmt.condition))
            case tensor.Evaluate():
                return replace(stmt, value=self.data(stmt.value))
            case _:
                raise UndecidedTrace(f"the statement {type(stmt).__name__} is not evaluated over words")

    def data(self, root: Expr) -> Expr:
        """An expression over words."""
        new: dict[int, Expr] = {}
        data = self.data_nodes(root)

        def inside(node: Expr) -> Sequence[Expr]:
            if isinstance(node, Load):
                return ()
            if id(node) not in data:
                word = self.meaning.known(node)
                if word is not None:
                    new[id(node)] = word
                    return ()
            return node.children

        for node in post_order(root, inside):
            if id(node) not in new:
                new[id(node)] = self.node(node, new, data)
        word = new[id(root)]
        return self.meaning.reduced(word) if isinstance(self.meaning, Field) else word

    def node(self, node: Expr, new: dict[int, Expr], data: set[int]) -> Expr:
        meaning = self.meaning
        match node:
            case Load():
                return Load(UINT64, self.word(node.buffer), tuple(self.plain(i) for i in node.indices))
            case Var() if node in self.vars:
                return self.vars[node]
            case Const():
                return meaning.number(node.value, node.dtype)
            case Apply(op="select", args=(c, a, b)) if id(c) not in data:
                return meaning.choose(c, new[id(a)], new[id(b)])
            case Apply() if may_trap(node):
                raise UndecidedTrace(f"{node} may trap, depending on data")
            case Cast() if node.arg.dtype.is_float and node.dtype.is_integer:
                raise UndecidedTrace(f"{node} may trap, depending on data")
            case Apply():
                return meaning.apply(node.op, node.args[-1].dtype, [new[id(a)] for a in node.args])
            case Cast():
                return meaning.cast(node.arg.dtype, node.dtype, new[id(node.arg)])
            case _:
                raise UndecidedTrace(f"{node} is not evaluated over words")


def has_division(func: tensor.PrimFunc) -> bool:
    """Whether floats are divided anywhere."""
    return any(
        isinstance(n, Apply) and n.op == "div"
        for s in post_order(func.body)
        for e in s.expressions
        for n in post_order(e)
    )


def random_words(shape: Sequence[int], rng: np.random.Generator, field: bool) -> np.ndarray[Any, Any]:
    """Random uint64 words: of the prime field if `field`, else of all 64 bits."""
    return rng.integers(0, PRIME if field else 1 << 64, shape, dtype=np.uint64)
