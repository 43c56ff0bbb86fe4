"""Programs for the tests of liveness: random ones, and kernels whose buffers have the sizes that somebody else
lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives, problem
from assay.semantics.dtypes import BOOL, FLOAT32, UINT8, DType
from assay.semantics.graph import (
    CallTIR,
    Expr,
    Function,
    GlobalVar,
    Var,
    call,
    call_tir,
    constant,
    function,
    get,
    if_,
    let,
    match_cast,
    tuple_of,
    var,
)
from assay.semantics.graph.nodes import Call
from assay.semantics.memory import conflicts, lower_bound
from assay.semantics.module import Module, Program
from assay.semantics.scalar import Var as Scalar, const
from assay.semantics.tensor import Allocate, Buffer, For, LoopKind, PrimFunc, Stmt, loops, seq, store
from assay.semantics.types import FuncType, TensorType, Type, flatten
from assay.verify.liveness.lives import check_lives

F4 = TensorType((4,), FLOAT32)
B = TensorType((), BOOL)


def lets(*bound: Expr) -> Callable[[Expr], Expr]:
    """Names for values: var, value, var, value, ..."""

    def around(body: Expr) -> Expr:
        for v, value in reversed(list(zip(bound[::2], bound[1::2], strict=True))):
            body = let(v, value, body)
        return body

    return around


def lowered(module: Module) -> Module:
    """A module of operators, ready for liveness."""
    return lift_constants(legalize(to_anf(module)), vector.run)


def live(module: Module, whole: bool = False) -> Program:
    return find_lives(lowered(module), whole=whole).program


def pairs(program: Program, *placed: str) -> set[frozenset[str]]:
    """The conflicts of the workspace, by name; a kernel's own buffers without the name of the call."""
    found = conflicts(problem(program, placed).buffers)
    return {frozenset((a.name.split(".")[-1], b.name.split(".")[-1])) for a, b in found}


def peak(program: Program, *placed: str) -> int:
    return lower_bound(problem(program, placed).buffers)


def as_pairs(*names: str) -> set[frozenset[str]]:
    """ "a b" is a conflict of a and b, "a b c" that of every two of them."""
    found = set()
    for group in names:
        words = group.split()
        found |= {frozenset((a, b)) for i, a in enumerate(words) for b in words[:i]}
    return found


# --- kernels by their sizes ------------------------------------------------------------------------------------------


def buffer(name: str, size: int, of: DType = UINT8) -> Buffer:
    return Buffer(name, (size,), of)


def fill(to: Buffer, *of: Buffer) -> Stmt:
    """A nest that stores every element of a buffer, computed from elements of others."""
    (size,) = to.static_shape

    def one(i: Any) -> Stmt:
        value: Any = const(1, to.dtype)
        for b in of:
            value = value + b[i % b.static_shape[0]]
        return store(to, i, value)

    return loops("i", (size,), one)


def within(*inside: Buffer, body: Stmt) -> Stmt:
    for b in reversed(inside):
        body = Allocate(b, body)
    return body


def kernel(name: str, sizes: Sequence[int], body: Callable[..., Stmt] | None = None) -> PrimFunc:
    """A kernel with parameters of so many bytes, the last of them written; `body` gets them. By default one nest."""
    *ins, out = [buffer(f"p{k}", n) for k, n in enumerate(sizes)]
    return PrimFunc(name, (*ins, out), 1, body(*ins, out) if body is not None else fill(out, *ins))


def rows(body: Stmt, kind: LoopKind = "serial") -> Stmt:
    """A loop of two iterations."""
    return For(Scalar("row"), const(2), body, kind)


def padded(pad: tuple[str, int], sums: tuple[str, int]) -> Callable[..., Stmt]:
    """A convolution: its input into a padded copy; then, for each row, the sums, and from these the output."""
    p, s = buffer(*pad), buffer(*sums)

    def body(x: Buffer, *rest: Buffer) -> Stmt:
        *weights, out = rest
        return within(p, body=seq(fill(p, x), rows(within(s, body=seq(fill(s, p, *weights), fill(out, s))))))

    return body


def through(name: str, size: int) -> Callable[..., Stmt]:
    """A pooling: all of a temporary, and then the output from it."""
    t = buffer(name, size)
    return lambda x, out: within(t, body=seq(fill(t, x), fill(out, t)))


def dense(mark: str = "") -> Callable[..., Stmt]:
    """For each tile a product into one cache, that into another, and the output from it."""
    c, g = buffer(f"compute{mark}", 192), buffer(f"compute_global{mark}", 192)
    return lambda x, *rest: rows(
        within(c, body=seq(within(g, body=seq(fill(g, x, *rest[:-1]), fill(c, g))), fill(rest[-1], c)))
    )


def softmax(mark: str = "") -> Callable[..., Stmt]:
    """For each row its maximum, the exponentials, their sum, the quotients, and the output."""
    m, e, s, n = (buffer(f"{w}{mark}", size) for w, size in (("maxelem", 4), ("exp", 48), ("expsum", 4), ("norm", 48)))

    def body(x: Buffer, y: Buffer, out: Buffer) -> Stmt:
        inside = seq(fill(m, x), within(e, body=seq(fill(e, x, m), within(s, body=seq(fill(s, e), fill(n, e, s))))))
        return rows(within(n, body=seq(within(m, body=inside), fill(out, y, n))))

    return body


def of_size(size: int) -> TensorType:
    return TensorType((size,), UINT8)


def calls(inputs: Mapping[str, int], steps: Iterable[tuple[str, PrimFunc, str]], *results: str) -> Program:
    """Straight calls of kernels, with lives: (name of the result, kernel, names of the operands)."""
    known: dict[str, Expr] = {n: var(n, of_size(size)) for n, size in inputs.items()}
    params = [v for v in known.values() if isinstance(v, Var)]
    bound: list[tuple[Var, CallTIR]] = []
    kernels: dict[str, PrimFunc] = {}
    for name, func, operands in steps:
        kernels[func.name] = func
        made = var(name, of_size(func.outputs[0].static_shape[0]))
        bound.append((made, call_tir(func.name, [known[n] for n in operands.split()], made.type)))
        known[name] = made
    body = known[results[0]] if len(results) == 1 else tuple_of(*(known[n] for n in results))
    for v, value in reversed(bound):
        body = let(v, value, body)
    found = find_lives(Module({"main": function(params, body), **kernels}))
    evidence = check_lives(found.program, found.kernels)
    assert evidence.holds and evidence.data["spare"] == 0, evidence.detail
    return found.program


# --- random programs -------------------------------------------------------------------------------------------------


def call_function(name: str, of: Function, *args: Expr) -> Call:
    kind = of.type
    assert isinstance(kind, FuncType)
    return Call(kind.result, GlobalVar(kind, name), args)


class Random:
    """Random modules of small tensors: choices in choices, functions called several times, views, tuples, constants,
    what nobody uses."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names = 0
        self.functions: dict[str, Function] = {}

    def module(self, size: int = 7) -> Module:
        for k in range(self.rng.randrange(3)):
            params = [self.fresh(F4), self.fresh(F4)]
            body = self.chain(params, 3, 1, self.rng.choice([(F4,), (F4, F4)]))
            self.functions[f"f{k}"] = function(params, body)
        params = [self.fresh(B), self.fresh(B), self.fresh(F4), self.fresh(F4)]
        results = tuple(F4 for _ in range(self.rng.randrange(1, 4)))
        return Module({"main": function(params, self.chain(params, size, 2, results)), **self.functions})

    def fresh(self, of: Type) -> Var:
        self.names += 1
        return var(f"v{self.names}", of)

    def chain(self, known: Sequence[Expr], size: int, depth: int, results: Sequence[Type]) -> Expr:
        values = list(known)
        bound: list[tuple[Var, Expr]] = []
        for _ in range(self.rng.randrange(size + 1)):
            value = self.value(values, depth)
            name = self.fresh(value.type)
            bound.append((name, value))
            values += (
                [name]
                if isinstance(value.type, TensorType)
                else [get(name, i) for i in range(len(flatten(value.type)))]
            )
        tensors = [v for v in values if v.type is F4 or str(v.type) == str(F4)]
        ends = [self.rng.choice(tensors[-4:] if self.rng.random() < 0.8 else tensors) for _ in results]
        body: Expr = ends[0] if len(ends) == 1 else tuple_of(*ends)
        for v, value in reversed(bound):
            body = let(v, value, body)
        return body

    def value(self, values: list[Expr], depth: int) -> Expr:
        tensors = [v for v in values if str(v.type) == str(F4)]

        def one() -> Expr:
            return self.rng.choice(tensors[-3:] if self.rng.random() < 0.7 else tensors)

        match self.rng.randrange(10):
            case 0 | 1 if depth:
                tests = [v for v in values if str(v.type) == str(B)]
                test = (
                    self.rng.choice(tests)
                    if tests
                    else call("less", call("sum", one(), axis=(0,), keepdims=False), constant(np.float32(1)))
                )
                results = self.rng.choice([(F4,), (F4, F4), (F4, F4, F4)])
                return if_(test, self.chain(values, 4, depth - 1, results), self.chain(values, 4, depth - 1, results))
            case 2 if self.functions:
                name = self.rng.choice(list(self.functions))
                return call_function(name, self.functions[name], one(), one())
            case 3:
                return call("reshape", call("reshape", one(), shape=(2, 2)), shape=(4,))
            case 4:
                return match_cast(one(), F4)
            case 5:
                return tuple_of(one(), one())
            case 6:
                return call("add", one(), constant(np.arange(4, dtype=np.float32)))
            case 7:
                return call("nn.softmax", one(), axis=0)
            case 8:
                return call("add", one(), one())
            case _:
                return call("tanh", one())
