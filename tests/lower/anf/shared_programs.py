"""Random programs in which everything that may be shared is: by branches, clauses, local functions and lets.

A node without an action may be used wherever the variables that it needs are bound, and is, often. Integer divisions
and match-casts can trap, each at a place of its own; prints and references act.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics import graph as g
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Span
from assay.semantics.graph import (
    Dataflow,
    Expr,
    Var,
    call,
    constant,
    free_variables,
    function,
    get,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import UNIT, DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type
from assay.semantics.walk import post_order

INT = TensorType((), INT64)
BIT = TensorType((), BOOL)
N, M = Symbol("n"), Symbol("m")
ROW, OTHER = TensorType((N,), INT64), TensorType((M,), INT64)
UNARY = FuncType((INT,), INT)
PAIR = TupleType((INT, INT))
LIST = DataDef("Ints", (), {"nil": (), "cons": (INT, DataType("Ints"))})
INTS = LIST.type
CELL = RefType(INT)


@dataclass
class Scope:
    """The variables that are bound here, and whether actions are welcome."""

    vars: list[Var]
    acts: bool
    sizes: set[Symbol] = field(default_factory=lambda: {N, M})

    def inside(self, *more: Var, acts: bool | None = None) -> Scope:
        return Scope([*self.vars, *more], self.acts if acts is None else acts, set(self.sizes))


class Programs:
    """A source of random expressions."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pool: list[tuple[Expr, frozenset[Var], frozenset[Symbol]]] = []
        self.count = 0
        self.block: Dataflow | None = None

    def place(self) -> Span:
        self.count += 1
        return Span("program", str(self.count))

    def name(self, stem: str) -> str:
        return self.rng.choice([stem, stem, f"{stem}{self.rng.randrange(3)}", "lv0"])

    def expr(self, of: Type, depth: int, scope: Scope) -> Expr:
        """An expression of a type, in a scope."""
        if self.rng.random() < 0.35:
            shared = [
                e
                for e, free, sizes in self.pool
                if str(e.type) == str(of) and free <= set(scope.vars) and sizes <= scope.sizes
            ]
            if shared:
                return self.rng.choice(shared)
        new = self.leaf(of, scope) if depth <= 0 or self.rng.random() < 0.1 else self.compound(of, depth - 1, scope)
        if not _active(new):
            self.pool.append((new, frozenset(free_variables(new)), frozenset(_sizes(new))))
        return new

    def leaf(self, of: Type, scope: Scope) -> Expr:
        known = [v for v in scope.vars if str(v.type) == str(of)]
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known)
        if of is INT:
            return constant(np.int64(self.rng.randrange(-2, 4)))
        if of is BIT:
            return constant(np.array(self.rng.random() < 0.5))
        if of is PAIR:
            return tuple_of(self.leaf(INT, scope), self.leaf(INT, scope))
        if of is INTS:
            return call(g.constructor(LIST, "nil"))
        if of is ROW:
            return call("full", shape=(N,), fill_value=3, dtype="int64")
        x = var(self.name("p"), INT)
        return function([x], self.leaf(INT, scope.inside(x)))

    def compound(self, of: Type, depth: int, scope: Scope) -> Expr:
        choices: list[Callable[[], Expr]] = [
            lambda: self.let(of, depth, scope),
            lambda: self.let(of, depth, scope),
            lambda: if_(self.expr(BIT, depth, scope), self.expr(of, depth, scope), self.expr(of, depth, scope)),
            lambda: self.match(of, depth, scope),
            lambda: self.cast(of, depth, scope),
        ]
        if scope.acts:
            choices += [lambda: self.action(of, depth, scope)] * 2
        if of is not UNARY and of is not ROW:
            choices.append(lambda: self.recursion(of, depth, scope))
        choices += self.own(of, depth, scope) * 2
        return self.rng.choice(choices)()

    def own(self, of: Type, depth: int, scope: Scope) -> list[Callable[[], Expr]]:
        """What makes values of one type."""

        def some(t: Type) -> Expr:
            return self.expr(t, depth, scope)

        if of is INT:
            return [
                lambda: call(self.rng.choice(["add", "subtract", "multiply"]), some(INT), some(INT)),
                lambda: call("floor_divide", some(INT), some(INT), span=self.place()),
                lambda: get(some(PAIR), self.rng.randrange(2)),
                lambda: call(some(UNARY), some(INT), span=self.place()),
                lambda: call("sum", some(ROW), axis=(0,)),
            ]
        if of is BIT:
            return [lambda: call(self.rng.choice(["less", "equal"]), some(INT), some(INT))]
        if of is PAIR:
            return [lambda: tuple_of(some(INT), some(INT))]
        if of is INTS:
            return [lambda: call(g.constructor(LIST, "cons"), some(INT), some(INTS))]
        if of is ROW:
            return [
                lambda: call("add", some(ROW), some(ROW)),
                lambda: call("full", shape=(N,), fill_value=2, dtype="int64"),
            ]
        x = var(self.name("p"), INT)
        attrs = {"primitive": True} if self.rng.random() < 0.15 else {}
        return [lambda: function([x], self.expr(INT, depth, scope.inside(x, acts=False)), None, **attrs)]

    def let(self, of: Type, depth: int, scope: Scope) -> Expr:
        if self.rng.random() < 0.2:
            block = Dataflow()
            first, second = var(self.name("d"), INT), var(self.name("d"), PAIR)
            quiet = scope.inside(acts=False)
            a = self.expr(INT, depth, quiet)
            b = self.expr(PAIR, depth, quiet.inside(first))
            body = self.expr(of, depth, scope.inside(first, second))
            return let(first, a, let(second, b, body, dataflow=block), dataflow=block)
        t = self.rng.choice([INT, INT, UNARY, PAIR, INTS, BIT, of])
        v = var(self.name("v"), t)
        return let(v, self.expr(t, depth, scope), self.expr(of, depth, scope.inside(v)))

    def match(self, of: Type, depth: int, scope: Scope) -> Expr:
        if self.rng.random() < 0.3:
            a = var(self.name("h"), INT)
            only = g.Fields((g.Bind(a), g.Wildcard()))
            return g.match(self.expr(PAIR, depth, scope), (only, self.expr(of, depth, scope.inside(a))))
        h, t = var(self.name("h"), INT), var(self.name("t"), INTS)
        made = g.Made(g.constructor(LIST, "cons"), (g.Bind(h), g.Bind(t)))
        value = self.expr(INTS, depth, scope)
        first = (made, self.expr(of, depth, scope.inside(h, t)))
        if self.rng.random() < 0.3:
            return g.match(value, first, partial=True, span=self.place())
        return g.match(value, first, (g.Wildcard(), self.expr(of, depth, scope)))

    def cast(self, of: Type, depth: int, scope: Scope) -> Expr:
        """A match-cast that may trap, or one that gives a size its value for what follows."""
        other = next(v for v in scope.vars if v.type is OTHER)
        if self.rng.random() < 0.5:
            v = var(self.name("c"), ROW)
            return let(v, g.match_cast(other, ROW, span=self.place()), self.expr(of, depth, scope.inside(v)))
        size = Symbol("k")
        v = var(self.name("c"), TensorType((size,), INT64))
        inner = scope.inside(v)
        inner.sizes.add(size)
        total = call("sum", call("full", shape=(size,), fill_value=1, dtype="int64"), axis=(0,))
        self.pool.append((total, frozenset(), frozenset({size})))
        return let(v, g.match_cast(other, v.type, span=self.place()), self.expr(of, depth, inner))

    def action(self, of: Type, depth: int, scope: Scope) -> Expr:
        kind = self.rng.randrange(4)
        if kind == 0:
            v = var("_", UNIT)
            return let(v, g.print_(self.expr(INT, depth, scope), span=self.place()), self.expr(of, depth, scope))
        if kind == 1:
            v = var(self.name("r"), CELL)
            return let(v, g.ref(self.expr(INT, depth, scope)), self.expr(of, depth, scope.inside(v)))
        cells = [v for v in scope.vars if v.type is CELL]
        if not cells:
            return let(var("_", UNIT), g.print_(format="here"), self.expr(of, depth, scope))
        cell = self.rng.choice(cells)
        if kind == 2:
            wrote = g.write(cell, self.expr(INT, depth, scope))
            return let(var("_", UNIT), wrote, self.expr(of, depth, scope))
        if of is INT:
            return call("add", g.read(cell), self.expr(INT, depth, scope))
        v = var(self.name("q"), INT)
        return let(v, g.read(cell), self.expr(of, depth, scope.inside(v)))

    def recursion(self, of: Type, depth: int, scope: Scope) -> Expr:
        """A local function that calls itself on a smaller number, or not."""
        f, k = var(self.name("f"), UNARY), var(self.name("k"), INT)
        inner = scope.inside(f, k, acts=False)
        one = constant(np.int64(1))
        again = call(f, call("subtract", k, one))
        # what does not call the function, but needs it: it may be shared by the function's body and what follows
        wrapped = function([w := var(self.name("w"), INT)], call("add", w, one))
        pair = tuple_of(f, wrapped)
        named: Expr = f
        if self.rng.random() < 0.2:
            self.pool.append((named := get(pair, 0), frozenset({f}), frozenset()))
        step = call(
            "add", again, self.expr(INT, depth, Scope([v for v in inner.vars if v is not f], False, set(inner.sizes)))
        )
        if self.rng.random() < 0.2:
            step = call("add", step, call(get(pair, 1), k))
        body = if_(call("less", k, one), k, step)
        start = constant(np.int64(self.rng.randrange(4)))
        follows = scope.inside(var(self.name("z"), INT))
        rest = let(follows.vars[-1], call(named, start), self.expr(of, depth, follows))
        return let(f, function([k], body, INT), rest)


def _active(root: Expr) -> bool:
    return any(g.acts(n) for n in post_order(root, lambda n: () if isinstance(n, g.Function) else n.children))


def _sizes(root: Expr) -> set[Symbol]:
    """The symbols that an expression has from outside, roughly: those of its attributes."""
    used = {
        d for n in post_order(root) if isinstance(n, g.Call) for d in n.attrs.get("shape", ()) if isinstance(d, Symbol)
    }
    bound = {
        d
        for n in post_order(root)
        if isinstance(n, g.Let) and isinstance(n.var.type, TensorType)
        for d in n.var.type.shape
    }
    return {s for s in used if s not in bound}


def program(seed: int, depth: int = 5) -> tuple[Module, Mapping[str, Any]]:
    """A module and inputs, the same for the same seed. It is nearly always well-formed."""
    made = Programs(seed)
    x, y, c = var("x", INT), var("y", INT), var("c", BIT)
    row, other = var("row", ROW), var("other", OTHER)
    main = function([x, y, c, row, other], made.expr(INT, depth, Scope([x, y, c, row, other], True)))
    rng = made.rng
    same = rng.random() < 0.7
    inputs = {
        "x": np.int64(rng.randrange(-2, 3)),
        "y": np.int64(rng.randrange(-2, 3)),
        "c": np.array(rng.random() < 0.5),
        "row": np.arange(3),
        "other": np.arange(3 if same else 2),
    }
    return Module({"Ints": LIST, "main": main}), inputs
