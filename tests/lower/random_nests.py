"""Random loop nests with affine accesses, and random steps of a schedule: made by choices alone, as `random_kernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from assay.lower.loops import Schedule
from assay.semantics.dtypes import FLOAT32, INT32, INT64, DType
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    loops,
    program_order,
    seq,
    store,
    when,
)

T = TypeVar("T")
Choose = Callable[[int], int]
"""A number from 0 up to but not including the argument; 0 is the simplest choice."""
PAD = 12


class Nests:
    """A function of nests over x and y, with workspace t, into out: recurrences, stencils, reductions, epilogues."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.of: DType = self.pick((FLOAT32, FLOAT32, INT32))
        self.shape = (PAD + self.choose(3), PAD + 1 + self.choose(2))
        self.x, self.y = Buffer("x", self.shape, self.of), Buffer("y", (PAD * 3,), self.of)
        self.t, self.out = Buffer("t", self.shape, self.of), Buffer("out", self.shape, self.of)
        self.count = 0

    def pick(self, of: Sequence[T]) -> T:
        return of[self.choose(len(of))]

    def make(self) -> PrimFunc:
        body: list[Stmt] = [self.fill(self.t), self.fill(self.out)]
        body += [self.nest() for _ in range(1 + self.choose(3))]
        return PrimFunc("nests", (self.x, self.y, self.out), 1, Allocate(self.t, seq(*body)))

    def fill(self, b: Buffer) -> Stmt:
        n, m = b.static_shape
        return loops("p q", (n, m), lambda p, q: store(b, (p, q), const(0, b.dtype)), self.pick(("serial", "parallel")))

    def nest(self) -> Stmt:
        depth = 1 + self.choose(3)
        vars = [Var(self.pick("ijkl"), INT64) for _ in range(depth)]
        extents = [self.pick((3, 4, 5, 6, 1)) for _ in range(depth)]
        body = self.inside(vars)
        for k, (v, n) in reversed(list(enumerate(zip(vars, extents, strict=True)))):
            if not self.choose(5):
                body = seq(body, self.inside(vars[: k + 1]))
            if not self.choose(8) and k:
                body = when(vars[k] + vars[k - 1] < 6, body)
            body = For(v, const(n), body)
        return body

    def inside(self, vars: Sequence[Var]) -> Stmt:
        return seq(*(self.assign(vars) for _ in range(1 + self.choose(2))))

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
        b = self.pick((self.x, self.y, self.t, self.out))
        if b is self.y:
            return self.y[self.index(vars) * 2 + self.pick(vars)]
        return b[self.index(vars), self.index(vars)]

    def assign(self, vars: Sequence[Var]) -> Stmt:
        b = self.pick((self.out, self.out, self.t))
        at = (self.index(vars), self.index(vars))
        value = self.load(vars)
        for _ in range(self.choose(2)):
            value = apply(self.pick(("mul", "add", "sub", "max")), value, self.load(vars))
        if self.choose(2):
            value = apply(self.pick(("add", "max", "mul")), b[at], value)
        return store(b, at, value)


def step(s: Schedule, choose: Choose) -> tuple[str, Schedule | None]:
    """One random step: its text, and the schedule after it; None where it is refused."""
    names = list(s.loops)
    if not names:
        return "nothing", None

    def one() -> str:
        return names[choose(len(names))]

    stores = [b.name for b in (*s.func.params, *s.func.allocations)]
    what = ("split", "reorder", "reorder", "fuse", "unroll", "peel", "fission", "merge", "parallelize", "vectorize")[
        choose(10)
    ] if choose(4) else ("cache_read", "cache_write")[choose(2)]
    args: tuple[object, ...]
    match what:
        case "split":
            args = (one(), 1 + choose(5))
        case "peel" | "fission":
            args = (one(), 1 + choose(3))
        case "reorder":
            start = choose(len(names))
            near = names[start : start + 2 + choose(3)]
            args = tuple(near[(k + 1) % len(near)] for k in range(len(near))) if choose(2) else tuple(reversed(near))
        case "fuse":
            start = choose(len(names))
            args = tuple((names + names)[start : start + 2])
        case "merge":
            first, second = _neighbours(s, choose) or (one(), one())
            args = (first, second, 1 + choose(2))
        case "cache_read" | "cache_write":
            args = (stores[choose(len(stores))], one())
        case _:
            args = (one(),)
    text = f"{what}{args}"
    try:
        return text, getattr(s, what)(*args)
    except Invalid:
        return text, None


def _neighbours(s: Schedule, choose: Choose) -> tuple[str, str] | None:
    """Two loops that stand side by side."""
    by = dict(zip((x for x in program_order(s.func.body) if isinstance(x, For)), s.loops, strict=True))
    found = [
        (by[a], by[b])
        for x in program_order(s.func.body)
        if isinstance(x, Seq)
        for a, b in zip(x.body, x.body[1:], strict=False)
        if isinstance(a, For) and isinstance(b, For)
    ]
    return found[choose(len(found))] if found else None


def guards(func: PrimFunc) -> int:
    return sum(isinstance(x, If) for x in program_order(func.body))
