"""Random tensor functions of all kinds, of which many fail when they run: out of range, never written, wrong casts
(specs/verify.md, "Programs"). Those that are valid are in `assay.verify.strategies.tensors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType
from assay.semantics.scalar import OPERATIONS, Dim, Expr, Var, apply, cast, const, select
from assay.semantics.tensor import store
from assay.verify.strategies.choosing import Pick

T = TypeVar("T")

DATA = (
    "int64",
    "float32",
    "int32",
    "bool",
    "int8",
    "uint8",
    "float64",
    "uint32",
    "float16",
    "uint64",
    "bfloat16",
    "int16",
)
BINARY = [o.name for o in OPERATIONS.values() if o.arity == 2]
UNARY = [o.name for o in OPERATIONS.values() if o.arity == 1 and o.result != "bits"]


class Kernels:
    """One random kernel: inputs a, b and c, an output, loops, branches, lets, workspace."""

    valid = False
    """Whether nothing that is made may fail; else it mostly does not."""

    def __init__(self, choose: Pick, name: str) -> None:
        self.choose = choose
        self.name = name
        self.scalars: list[Var] = []
        self.count = 0
        inner, outer = 2 + choose(3), 3 + choose(3)
        self.inputs = [
            tensor.Buffer("a", (outer, inner), DTYPES[self.pick(DATA)]),
            tensor.Buffer("b", (inner,), DTYPES[self.pick(DATA)]),
            tensor.Buffer("c", (), INT64),
        ]
        self.out = tensor.Buffer("out", (outer, inner), DTYPES[self.pick(DATA)])
        self.readable = [*self.inputs, self.out]
        self.writable = [self.out]

    def pick(self, of: Sequence[T]) -> T:
        """Choose one of these."""
        return of[self.choose(len(of))]

    def fresh(self, base: str) -> str:
        """A name, mostly new: names may meet."""
        self.count += 1
        return f"{base}{self.count}" if self.choose(4) else base

    def make(self) -> tensor.PrimFunc:
        """Make the kernel, whose output is filled with zeros first."""
        start = tensor.loops(
            "i j", self.out.static_shape, lambda i, j: store(self.out, (i, j), self.zero(self.out.dtype))
        )
        return tensor.PrimFunc(self.name, (*self.inputs, self.out), 1, tensor.seq(start, self.statement(3)))

    def zero(self, of: DType) -> Expr:
        """The value with which memory is filled at first."""
        return const(0, of)

    # --- expressions ---------------------------------------------------------------------------------------------

    def careful(self) -> bool:
        """Whether a failure is ruled out here."""
        return self.valid or self.choose(8) > 0

    def index(self, extent: Dim, depth: int) -> Expr:
        """Mostly inside, at times outside of the extent."""
        assert isinstance(extent, int)
        ints = [v for v in self.scalars if v.dtype is INT64]
        match self.choose(8):
            case 0 | 1 | 2 if ints:
                return self.pick(ints)
            case 3:
                return const(self.choose(extent + (self.choose(8) == 7)))
            case 4 if ints:
                return self.pick(ints) + (self.choose(3) - 1)
            case 5 if depth:
                return apply("floormod", self.expr(INT64, depth - 1), extent)
            case 6 if depth and not self.choose(4):
                return self.expr(INT64, depth - 1)
            case _ if depth == 0:
                return const(self.choose(extent))
            case _:
                inside = apply("max", self.expr(INT64, depth - 1), 0)
                return apply("min", inside, extent - 1)

    def load(self, of: DType, depth: int) -> Expr:
        """A load from a buffer that may be read, converted to a dtype."""
        b = self.pick([b for b in self.readable if b.dtype is of] or self.readable)
        return self.convert(b[tuple(self.index(n, depth) for n in b.shape)], of)

    def convert(self, value: Expr, of: DType) -> Expr:
        """A cast; one that might trap is mostly kept in range."""
        if value.dtype.is_float and of.is_integer and self.careful():
            inside = apply("and", apply("ge", value, -100.0 if of.kind == "int" else 0.0), apply("le", value, 100.0))
            value = select(inside, value, const(3.0, value.dtype))
        return cast(value, of)

    def expr(self, of: DType, depth: int) -> Expr:
        """An expression of a dtype, of at most `depth` levels."""
        known = [v for v in self.scalars if v.dtype is of]
        if depth == 0:
            if known and self.choose(2):
                return self.pick(known)
            return self.literal(of) if self.choose(2) else self.load(of, 0)
        match self.choose(7):
            case 0:
                return self.expr(of, 0)
            case 1:
                return self.load(of, depth - 1)
            case 2:
                return select(self.expr(BOOL, depth - 1), self.expr(of, depth - 1), self.expr(of, depth - 1))
            case 3:
                return self.convert(self.expr(DTYPES[self.pick(DATA)], depth - 1), of)
            case 4:
                ops = [u for u in UNARY if of.kind in OPERATIONS[u].kinds]
                return apply(self.pick(ops), self.expr(of, depth - 1)) if ops else self.expr(of, depth - 1)
            case 5:
                shared = self.expr(of, depth - 1)
                return self.binary(of, shared, shared if self.choose(2) else self.expr(of, depth - 1))
            case _:
                return self.binary(of, self.expr(of, depth - 1), self.expr(of, depth - 1))

    def binary(self, of: DType, a: Expr, b: Expr) -> Expr:
        """A binary operation of two operands, for a bool maybe a comparison; mostly with a safe divisor or shift."""
        if of is BOOL and self.choose(2) and (not self.valid or self.choose(2)):  # of valid ones every fourth
            like = DTYPES[self.pick(DATA)]
            return apply(self.pick(("eq", "ne", "lt", "le", "gt", "ge")), self.expr(like, 1), self.expr(like, 1))
        ops = [o for o in BINARY if of.kind in OPERATIONS[o].kinds and OPERATIONS[o].result == "same"]
        op = self.pick(ops)
        if op in ("shl", "shr") and self.careful():
            b = apply("bitand", b, 8 * of.itemsize - 1)
        if ("div" in op or "mod" in op) and of.is_integer and self.careful():
            b = apply("bitor", apply("bitand", b, 7) if self.valid else b, 1)
        return apply(op, a, b)

    def literal(self, of: DType) -> Expr:
        """A literal of a dtype, often a special one."""
        if of is BOOL:
            return const(bool(self.choose(2)), BOOL)
        if of.is_float:
            return const(self.pick((0.0, 1.0, -0.0, 0.1, -2.5, np.inf, np.nan, 1e-7)), of)
        return const(self.pick((0, 1, 2, 3, int(of.max), int(of.min), int(of.max) // 2)), of)

    # --- statements ----------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> tensor.Stmt:
        """A statement of at most `depth` levels."""
        if depth == 0:
            return self.store()
        kinds = (
            self.store,
            self.loop,
            self.block,
            self.branch,
            self.let,
            self.allocate,
            self.while_loop,
            self.table,
            self.test,
        )
        return self.pick(kinds)(depth)

    def block(self, depth: int) -> tensor.Stmt:
        """One to three statements."""
        return tensor.seq(*(self.statement(depth - 1) for _ in range(1 + self.choose(3))))

    def store(self, depth: int = 0) -> tensor.Stmt:
        """A store into a buffer that may be written."""
        b = self.pick(self.writable)
        return store(b, tuple(self.index(n, 1) for n in b.static_shape), self.expr(b.dtype, 1 + self.choose(3)))

    def loop(self, depth: int) -> tensor.Stmt:
        """A loop of a few iterations, maybe as many as data says."""
        shape = self.pick((self.out, *self.inputs[:2])).static_shape
        extent: Expr = const(self.pick((*shape, 1, 0, 4)))
        if not self.choose(6):
            extent = apply("min", self.expr(INT64, 1), 5)
        var = Var(self.fresh("i"))
        return tensor.For(var, extent, self.inside(var, depth))

    def inside(self, var: Var, depth: int) -> tensor.Stmt:
        """A statement in which a variable is in scope."""
        self.scalars.append(var)
        body = self.statement(depth - 1)
        self.scalars.pop()
        return body

    def branch(self, depth: int) -> tensor.Stmt:
        """A branch by data or by the loops around, with or without another side."""
        ints = [v for v in self.scalars if v.dtype is INT64]
        condition = self.expr(BOOL, 2)
        if ints and self.choose(3):
            v, n = self.pick(ints), self.choose(5)
            condition = apply("and", apply("ge", v + (self.choose(3) - 1), self.choose(2)), apply("lt", v, n))
        return tensor.when(condition, self.statement(depth - 1), self.statement(depth - 1) if self.choose(2) else None)

    def let(self, depth: int) -> tensor.Stmt:
        """A statement in which a variable has a value."""
        value = self.expr(DTYPES[self.pick(DATA)], 2)
        var = Var(self.fresh("v"), value.dtype)
        return tensor.LetStmt(var, value, self.inside(var, depth))

    def allocate(self, depth: int) -> tensor.Stmt:
        """A statement with workspace, filled first."""
        shape = self.pick(((), (1,), (3,), (2, 3)))
        buffer = tensor.Buffer(self.fresh("acc"), shape, DTYPES[self.pick(DATA)])
        names = " ".join(f"k{i}" for i in range(len(shape)))
        first = tensor.loops(names, shape, lambda *i: store(buffer, i, self.zero(buffer.dtype)))
        self.readable.append(buffer)
        self.writable.append(buffer)
        body = self.statement(depth - 1)
        self.readable.pop()
        self.writable.pop()
        return tensor.Allocate(buffer, tensor.seq(first, body))

    def table(self, depth: int) -> tensor.Stmt:
        """A statement with a linked constant of three elements."""
        of = DTYPES[self.pick(DATA)]
        buffer = tensor.Buffer(self.fresh("lut"), (3,), of)
        data = np.array([0, 1, 2]) if of.kind != "float" else np.array([np.inf, -0.5, np.nan])
        self.readable.append(buffer)
        body = self.statement(depth - 1)
        self.readable.pop()
        return tensor.AllocateConst(buffer, data.astype(of.numpy), body)

    def while_loop(self, depth: int) -> tensor.Stmt:
        """A while loop of at most three iterations."""
        counter = tensor.Buffer(self.fresh("n"), (), INT64)
        self.readable.append(counter)
        more = apply("lt", counter[()], 3)
        if self.choose(3) == 2:
            more = apply("and", more, self.expr(BOOL, 1))
        body = tensor.seq(store(counter, (), counter[()] + 1), self.statement(depth - 1))
        self.readable.pop()
        return tensor.Allocate(counter, tensor.seq(store(counter, (), 0), tensor.While(more, body)))

    def test(self, depth: int) -> tensor.Stmt:
        """An expression that is evaluated for its traps, or an assertion before a statement."""
        if self.choose(4):
            return tensor.Evaluate(self.expr(DTYPES[self.pick(DATA)], 2))
        return tensor.seq(tensor.Assert(self.expr(BOOL, 2), "as it happens */"), self.statement(depth - 1))
