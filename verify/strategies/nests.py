"""Random loop nests with affine accesses, which schedules and dependence analyses are about (specs/verify.md,
"Programs").

They are valid: in bounds, and whole before they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from assay.semantics import tensor
from assay.semantics.dtypes import FLOAT32, INT32, INT64, DType
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.verify.strategies.choosing import Pick

T = TypeVar("T")
PAD = 12


class Nests:
    """A function of nests over x and y, with workspace t, into out: recurrences, stencils, reductions, epilogues."""

    def __init__(self, choose: Pick) -> None:
        self.choose = choose
        self.of: DType = self.pick((FLOAT32, FLOAT32, INT32))
        self.shape = (PAD + self.choose(3), PAD + 1 + self.choose(2))
        self.x, self.y = tensor.Buffer("x", self.shape, self.of), tensor.Buffer("y", (PAD * 3,), self.of)
        self.t, self.out = tensor.Buffer("t", self.shape, self.of), tensor.Buffer("out", self.shape, self.of)
        self.count = 0

    def pick(self, of: Sequence[T]) -> T:
        """Choose one of these."""
        return of[self.choose(len(of))]

    def make(self) -> tensor.PrimFunc:
        """Make the function: both buffers filled, then one to three nests."""
        body: list[tensor.Stmt] = [self.fill(self.t), self.fill(self.out)]
        body += [self.nest() for _ in range(1 + self.choose(3))]
        return tensor.PrimFunc("nests", (self.x, self.y, self.out), 1, tensor.Allocate(self.t, tensor.seq(*body)))

    def fill(self, b: tensor.Buffer) -> tensor.Stmt:
        """A nest that fills a buffer with zeros."""
        n, m = b.static_shape
        return tensor.loops(
            "p q", (n, m), lambda p, q: tensor.store(b, (p, q), const(0, b.dtype)), self.pick(("serial", "parallel"))
        )

    def nest(self) -> tensor.Stmt:
        """A nest of one to three loops, maybe with a guard, or with statements after an inner loop."""
        depth = 1 + self.choose(3)
        vars = [Var(self.pick("ijkl"), INT64) for _ in range(depth)]
        extents = [self.pick((3, 4, 5, 6, 1)) for _ in range(depth)]
        body = self.inside(vars)
        for k, (v, n) in reversed(list(enumerate(zip(vars, extents, strict=True)))):
            if not self.choose(5):
                body = tensor.seq(body, self.inside(vars[: k + 1]))
            if not self.choose(8) and k:
                body = tensor.when(vars[k] + vars[k - 1] < 6, body)
            body = tensor.For(v, const(n), body)
        return body

    def inside(self, vars: Sequence[Var]) -> tensor.Stmt:
        """One or two assignments, over these loop variables."""
        return tensor.seq(*(self.assign(vars) for _ in range(1 + self.choose(2))))

    def index(self, vars: Sequence[Var]) -> Expr:
        """From 0 to 11: one variable or a sum of two, moved a little."""
        a = self.pick(vars)
        match self.choose(7):
            case 0 | 1 | 2:
                return cast(a, INT64)
            case 3:
                return a + self.choose(4)
            case 4:
                return a + self.pick(vars)
            case 5:
                return a // 2 if self.choose(2) else a * 2
            case _:
                return 7 - a

    def load(self, vars: Sequence[Var]) -> Expr:
        """A load at an affine index."""
        b = self.pick((self.x, self.y, self.t, self.out))
        if b is self.y:
            return self.y[self.index(vars) * 2 + self.pick(vars)]
        return b[self.index(vars), self.index(vars)]

    def assign(self, vars: Sequence[Var]) -> tensor.Stmt:
        """A store at affine indices of what is loaded, maybe combined with what is there."""
        b = self.pick((self.out, self.out, self.t))
        at = (self.index(vars), self.index(vars))
        value = self.load(vars)
        for _ in range(self.choose(2)):
            value = apply(self.pick(("mul", "add", "sub", "max")), value, self.load(vars))
        if self.choose(2):
            value = apply(self.pick(("add", "max", "mul")), b[at], value)
        return tensor.store(b, at, value)
