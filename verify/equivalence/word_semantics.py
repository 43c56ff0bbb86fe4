"""Tensor functions over words instead of numbers (specs/verify.md, "equivalence").

A function is rewritten so that its data are 64-bit words: elements of a prime field, or fingerprints. What the scalar
operations become is said here; the result is a tensor function like any other, and the vector interpreter runs it. So
functions are compared that are too large for terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from assay.semantics import tensor
from assay.semantics.dtypes import UINT64
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var, evaluate, may_trap
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import depending, post_order
from assay.verify.equivalence.meanings import WORDS, Field, Meaning
from assay.verify.equivalence.order import UndecidedTrace


def over_words(func: tensor.PrimFunc, meaning: Meaning) -> tensor.PrimFunc:
    """`func` with its data as words, control and indices as they are. Raises `UndecidedTrace` where these depend on
    data."""
    func = without_blocks(func)
    words = _Words(meaning, func.scalars)
    for s in tensor.program_order(func.body):  # a name's value may name others before it
        if isinstance(s, tensor.LetStmt) and words.data_nodes(s.value):
            words.vars[s.var] = Var(s.var.name, UINT64)
    params, scalars = tuple(map(words.buffer, func.params)), tuple(map(words.var, func.scalars))
    return replace(func, params=params, body=words.run(func.body), scalars=scalars)


class _Words(Mapper):
    """Each buffer is one of words, and so are the variables of `vars`. Other expressions stay, and have no data."""

    def __init__(self, meaning: Meaning, scalars: Sequence[Var]) -> None:
        super().__init__({v: Var(v.name, UINT64) for v in scalars})
        self.meaning = meaning

    def buffer(self, of: tensor.Buffer) -> tensor.Buffer:
        """The buffer of words that stands for one."""
        if of not in self.buffers:
            self.buffers[of] = replace(of, dtype=UINT64, notes={})
        return self.buffers[of]

    def data_nodes(self, expr: Expr) -> set[int]:
        """The parts of an expression that depend on data, by identity."""
        return depending(expr, lambda n: isinstance(n, Load) or n in self.vars)

    def expr(self, of: Expr) -> Expr:
        """An expression on which control depends: itself."""
        if self.data_nodes(of):
            raise UndecidedTrace(f"{of} depends on data")
        return of

    def own(self, s: tensor.Stmt) -> tensor.Stmt:
        """A statement with what it computes as words."""
        match s:
            case tensor.LetStmt() if s.var in self.vars:
                return replace(s, var=self.var(s.var), value=self.data(s.value))
            case tensor.AllocateConst():
                if s.contents.size > 4096:
                    raise UndecidedTrace("a constant of more than 4096 elements")
                values = [self.meaning.number(x, s.buffer.dtype) for x in s.contents.reshape(-1)]
                known = np.array([evaluate(v, {}) for v in values], np.uint64)
                return replace(s, buffer=self.buffer(s.buffer), data=known.reshape(s.contents.shape))
            case tensor.Store():
                return replace(s, buffer=self.buffer(s.buffer), indices=self.exprs(s.indices), value=self.data(s.value))
            case tensor.Evaluate():
                return replace(s, value=self.data(s.value))
            case tensor.Seq() | tensor.For() | tensor.If() | tensor.LetStmt() | tensor.Allocate() | tensor.Assert():
                return super().own(s)
            case _:
                raise UndecidedTrace(f"the statement {type(s).__name__} is not evaluated over words")

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
                return Load(UINT64, self.buffer(node.buffer), self.exprs(node.indices))
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


def largest_literal(func: tensor.PrimFunc) -> int:
    """Bits that the numerators of two literals have at most, over one denominator."""
    found = [b.dtype for b in func.allocations]
    found += [n.dtype for s in post_order(func.body) for e in s.expressions for n in post_order(e)]
    infos = [ml_dtypes.finfo(of.numpy) for of in dict.fromkeys(found) if of.is_float]
    return max((i.maxexp - i.minexp + i.nmant + 2 for i in infos), default=64)


def random_words(shape: Sequence[int], rng: np.random.Generator, field: bool) -> np.ndarray[Any, Any]:
    """Random uint64 words: of the prime field if `field`, else of all 64 bits."""
    return rng.integers(0, WORDS if field else 1 << 64, shape, dtype=np.uint64)
