"""Random programs over symbolic sizes: casts, shapes, branches, local functions, recursion, effects, data-dependent
sizes.

Each program is made along with sizes at which most of it holds: a dim is written as a symbol, an expression or a number
that has the right value there, or now and then a wrong one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp.values import Externs
from assay.semantics import graph as g
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, Let, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import TensorType, TupleType

F32 = dtype("float32")


def tensor(*dims: Dim) -> TensorType:
    return TensorType(dims, F32)


def stretched(x: Any) -> Any:
    """An extern with a result whose size it alone knows: one longer, then twice that."""
    return np.zeros((len(x) + 1, 2 * len(x) + 2), np.float32)


EXTERNS: Externs = {"stretched": stretched}


@dataclass
class Scope:
    """What is known at a place: tensors with their sizes, and symbols with their values."""

    tensors: list[tuple[Expr, tuple[int, ...]]] = field(default_factory=list)
    symbols: list[tuple[Symbol, int]] = field(default_factory=list)
    lets: list[tuple[Var, Expr]] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.tensors), list(self.symbols))


class Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def dim(self, size: int, scope: Scope, fresh: bool) -> Dim:
        """A dim that has that value here, mostly; a fresh symbol where one may stand."""
        rng = self.rng
        if fresh and rng.random() < 0.3:
            s = Symbol(self.name("k"))
            scope.symbols.append((s, size))
            return s
        size += rng.random() < 0.04
        if scope.symbols and rng.random() < 0.8:
            s, n = rng.choice(scope.symbols)
            t, m = rng.choice(scope.symbols)
            choices: list[Dim] = [s + (size - n)] if size != n else [s, s, s]
            if n:
                choices.append(s * (size // n) + size % n)
                choices.append((s * size) // s)
            choices.append(t + s + (size - n - m))
            return rng.choice(choices)
        return size

    def dims(self, sizes: Sequence[int], scope: Scope, fresh: bool = True) -> tuple[Dim, ...]:
        return tuple(self.dim(n, scope, fresh) for n in sizes)

    def bind(self, scope: Scope, value: Expr, sizes: tuple[int, ...] | None) -> Var:
        v = g.var(self.name("v"), value.type)
        scope.lets.append((v, value))
        if sizes is not None:
            scope.tensors.append((v, sizes))
        return v

    # --- statements ----------------------------------------------------------------------------------------------

    def step(self, scope: Scope, depth: int) -> None:
        rng = self.rng
        x, sizes = rng.choice(scope.tensors)
        match rng.randrange(11 if depth else 7):
            case 0 | 1:
                self.bind(scope, g.match_cast(x, tensor(*self.dims(sizes, scope))), sizes)
            case 2:
                made = tuple(rng.randint(0, 4) for _ in range(rng.randint(1, 2)))
                self.full(scope, made)
            case 3:
                s = g.shape(*self.dims(sizes, scope, False), *self.dims((rng.randint(0, 5),), scope, False))
                v = self.bind(scope, s, None)
                n = (*sizes, 0)
                if rng.random() < 0.5:
                    self.bind(scope, g.print_(v, x), None)
                elif rng.random() < 0.5:
                    want = tuple(Symbol(self.name("s")) for _ in n)
                    self.bind(scope, g.match_cast(v, g.shape(*want).type), None)
            case 4 if len(sizes) == 1:
                many = g.extern("stretched", [x.type], tensor(Symbol("a"), Symbol("b")), pure=rng.random() < 0.7)
                made = (sizes[0] + 1, 2 * sizes[0] + 2)
                r = self.bind(scope, g.call(many, x), made)
                scope.symbols += [(d, n) for d, n in zip(_shape(r), made, strict=True) if isinstance(d, Symbol)]
            case 4 | 5:
                y, other = rng.choice(scope.tensors)
                t = self.bind(scope, g.tuple_of(x, y), None)
                want = TupleType((tensor(*self.dims(sizes, scope)), tensor(*self.dims(other, scope))))
                c = self.bind(scope, g.match_cast(t, want), None)
                self.bind(scope, g.get(c, 1), other)
            case 6:
                self.bind(scope, g.call("add", x, x), sizes)
            case 7 | 8:
                self.branch(scope, depth)
            case _:
                self.local(scope, depth)

    def full(self, scope: Scope, sizes: tuple[int, ...]) -> Var:
        dims = self.dims(sizes, scope, False)
        return self.bind(scope, g.call("full", shape=dims, fill_value=1.0, dtype="float32"), sizes)

    def branch(self, scope: Scope, depth: int) -> None:
        rng = self.rng
        some, sizes = rng.choice(scope.tensors)
        zero = self.bind(scope, g.constant(np.float32(rng.choice([-1.0, 1e9]))), None)
        axes = tuple(range(len(sizes)))
        total = self.bind(scope, g.call("sum", some, axis=axes), None)
        cond = self.bind(scope, g.call("greater", total, zero), None)
        made = (rng.randint(0, 3),)
        known = list(scope.symbols)
        ends = []
        for _ in range(2):
            inner = scope.inner()
            self.steps(inner, depth - 1)
            result = self.full(inner, made)
            # the dims of a result must make sense outside
            kind = tensor(*self.dims(made, Scope(symbols=known), False))
            ends.append(self.chain(inner, g.match_cast(result, kind)))
        r = self.bind(scope, g.if_(cond, *ends), made)
        scope.symbols += [
            (d, n) for d, n in zip(_shape(r), made, strict=True) if isinstance(d, Symbol) and d not in dict(known)
        ]

    def local(self, scope: Scope, depth: int) -> None:
        """A local function, called once or twice; its parameters may name sizes around it."""
        rng = self.rng
        args = [rng.choice(scope.tensors) for _ in range(rng.randint(1, 2))]
        inner = scope.inner()
        params = [g.var(self.name("p"), tensor(*self.dims(n, inner))) for _, n in args]
        inner.tensors += [(p, n) for p, (_, n) in zip(params, args, strict=True)]
        values = dict(inner.symbols)
        # a size that a caller cannot tell stands in a result alone, as a whole dim
        told = {d: values[d] for p in params for d in _shape(p) if isinstance(d, Symbol)}
        self.steps(inner, depth - 1)
        result, sizes = rng.choice(inner.tensors)
        kind = tensor(*self.dims(sizes, Scope(symbols=list(told.items())), rng.random() < 0.3))
        f = self.bind(scope, g.function(params, self.chain(inner, result), kind), None)
        for _ in range(rng.randint(1, 2)):
            try:
                r = self.bind(scope, g.call(f, *(x for x, _ in args)), sizes)
            except Invalid:
                return
            known_here = dict(scope.symbols)
            scope.symbols += [
                (d, n) for d, n in zip(_shape(r), sizes, strict=True) if isinstance(d, Symbol) and d not in known_here
            ]

    def steps(self, scope: Scope, depth: int) -> None:
        for _ in range(self.rng.randint(1, 4)):
            known = list(scope.symbols)
            try:
                self.step(scope, depth)
            except Invalid:  # sizes that certainly differ: the wrong ones that were asked for
                scope.symbols = known

    def chain(self, scope: Scope, result: Expr) -> Expr:
        body = result
        for v, value in reversed(scope.lets):
            body = Let(body.type, v, value, body)
        scope.lets = []
        return body

    # --- modules -------------------------------------------------------------------------------------------------

    def function(self, names: Sequence[str], count: int) -> tuple[Function, list[tuple[int, ...]]]:
        scope = Scope()
        sizes = [tuple(self.rng.randint(0, 4) for _ in range(self.rng.randint(1, 2))) for _ in range(count)]
        # the first parameter has symbols alone, so that there are some
        first = tuple(Symbol(self.name("n")) for _ in sizes[0])
        scope.symbols += zip(first, sizes[0], strict=True)
        params = [g.var(names[0], tensor(*first))]
        params += [g.var(w, tensor(*self.dims(n, scope))) for w, n in zip(names[1:], sizes[1:], strict=False)]
        scope.tensors += zip(params, sizes, strict=True)
        known = list(scope.symbols)
        for _ in range(2):
            self.steps(scope, 2)
        result, made = self.rng.choice(scope.tensors)
        kind = tensor(*self.dims(made, Scope(symbols=known), True))
        try:
            return g.function(params, self.chain(scope, result), kind), sizes
        except Invalid:
            return g.function(params, params[0]), sizes


def _shape(of: Expr) -> tuple[Dim, ...]:
    assert isinstance(of.type, TensorType)
    return of.type.shape


def program(rng: random.Random) -> tuple[Module, dict[str, Any]]:
    """A module, and inputs at which most of it holds."""
    main, sizes = Maker(rng).function(("x", "y"), 2)
    arrays = {p.name: np.ones(n, np.float32) for p, n in zip(main.params, sizes, strict=True)}
    return Module({"main": main}), arrays
