"""Random programs of the whole graph language that are valid by construction, and inputs for them.

`Maker` builds from the leaves up. Every choice is one call of `pick(n)`, a number below n; 0 is always the simplest, so
the same maker runs under Hypothesis, where it shrinks, and under `random`. It never rejects: where nothing of the
wanted type is at hand it makes something. A node that neither acts nor holds what acts goes into a pool, and may be
used again wherever the variables that it depends on are bound: in other branches, in closures, later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, INT32
from assay.semantics.errors import Span
from assay.semantics.graph import (
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Made,
    Pattern,
    Var,
    Wildcard,
    acts,
    assert_op,
    bind_pattern,
    call,
    constant,
    constructor,
    function,
    get,
    if_,
    let,
    match,
    match_cast,
    print_,
    read,
    ref,
    shape,
    tuple_of,
    var,
    write,
)
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import UNIT, DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type

I = TensorType((), INT32)  # noqa: E741
B = TensorType((), BOOL)
V = TensorType((3,), INT32)
CHOICE = DataDef("Choice", (), {"none": (), "one": (I,), "two": (I, DataType("Choice"))})
D = CHOICE.type
PURE, IMPURE = FuncType((I,), I), FuncType((I,), I, pure=False)
NONE, ONE, TWO = (constructor(CHOICE, n) for n in ("none", "one", "two"))
KINDS: Sequence[tuple[str, Type]] = (("I", I), ("B", B), ("V", V), ("D", D), ("pair", TupleType((I, I))), ("f", PURE))


@dataclass(eq=False)
class Maker:
    """Makes one module. `pick(n)` chooses below n."""

    pick: Callable[[int], int]
    size: int = 40
    names: int = 0
    pool: dict[str, list[Expr]] = field(default_factory=dict)
    needs: dict[int, frozenset[int]] = field(default_factory=dict)
    """For a node the scopes whose variables it depends on."""
    doing: set[int] = field(default_factory=set)
    """Nodes that act or hold what acts: used once."""
    scopes: list[int] = field(default_factory=lambda: [0])
    refs: list[tuple[Var, int]] = field(default_factory=list)
    calls: list[tuple[Var, int]] = field(default_factory=list)
    """Variables of functions that act."""
    keep: list[Expr] = field(default_factory=list)

    def module(self) -> Module:
        n = Symbol("n")
        z = var("z", TensorType((n,), INT32))
        params = [var("x", I), var("y", I), var("b", B), var("v", V), z]
        for p in params:
            self.add(p, 0)
        self.pool["Z"] = [z]
        helper = self.helper()
        body = self.block("I")
        loose = [e for e in self.pool.get("I", ()) + self.pool.get("V", ()) if self.usable(e)][-3:]
        result = tuple_of(body, *loose)
        return Module({"main": function(params, result), "helper": helper, "Choice": CHOICE})

    def helper(self) -> Function:
        """Calls itself by its module's name."""
        k = var("k", I)
        again = call(GlobalVar(PURE, "helper"), call("subtract", k, constant(np.int32(1))))
        return function([k], if_(call("less_equal", k, constant(np.int32(0))), k, call("add", again, k)), I)

    # --- bookkeeping -------------------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        self.names += self.pick(2)  # names may meet
        return f"{stem}{self.names}"

    def kind(self, of: Type) -> str:
        return next((k for k, t in KINDS if str(t) == str(of)), "")

    def add(self, node: Expr, *own: int) -> Expr:
        """A node that was made: remember what it depends on, and put it into the pool if it may be shared."""
        self.keep.append(node)
        needs = frozenset(own).union(*(self.needs.get(id(c), frozenset()) for c in node.children))
        self.needs[id(node)] = needs
        if acts(node) or (not isinstance(node, Function) and any(id(c) in self.doing for c in node.children)):
            self.doing.add(id(node))
        elif (kind := self.kind(node.type)) and not isinstance(node, Constructor):
            self.pool.setdefault(kind, []).append(node)
        return node

    def leave(self, node: Expr, scope: int) -> Expr:
        """What a scope's variables are bound around no longer depends on the scope."""
        self.needs[id(node)] = self.needs[id(node)] - {scope}
        return node

    def usable(self, node: Expr) -> bool:
        return self.needs[id(node)] <= set(self.scopes)

    def open(self) -> int:
        self.names += 1
        scope = 1000 + len(self.keep) * 64 + len(self.scopes)
        self.scopes.append(scope)
        return scope

    def close(self, scope: int) -> None:
        assert self.scopes.pop() == scope

    def left(self) -> bool:
        """Whether there is room for another node, and the choice is to make one."""
        self.size -= 1
        return self.size > 0 and self.pick(4) > 0

    # --- expressions -------------------------------------------------------------------------------------------------

    def old(self, kind: str) -> Expr:
        """Something of the kind that is at hand: the newest first."""
        found = [e for e in self.pool.get(kind, ()) if self.usable(e)][-6:][::-1]
        return found[self.pick(len(found))] if found else self.least(kind)

    def least(self, kind: str) -> Expr:
        match kind:
            case "I":
                return self.add(constant(np.int32(self.pick(4))))
            case "B":
                return self.add(call("less", self.old("I"), constant(np.int32(2))))
            case "V":
                return self.add(constant(np.arange(3, dtype=np.int32)))
            case "D":
                return self.add(call(NONE))
            case "pair":
                return self.add(tuple_of(self.old("I"), self.old("I")))
            case _:
                return self.closure(None)

    def some(self, kind: str) -> Expr:
        """Something of the kind, old or new. What is new and acts is used here alone."""
        if not self.left():
            return self.old(kind)
        ways: list[Callable[[], Expr]] = [*self.ways(kind), lambda: self.branch(kind), lambda: self.named(kind)]
        if kind == "I":
            ways += [self.applied, self.applied_twice, self.loop, self.helped, self.matched, self.cast]
            ways += [self.does_read, self.called] if self.refs or self.calls else []
        if kind in ("I", "V"):
            ways.append(lambda: self.does(kind))
        return ways[self.pick(len(ways))]()

    def ways(self, kind: str) -> list[Callable[[], Expr]]:
        """How to make something of the kind by one operator."""
        some, old, add = self.some, self.old, self.add
        place = Span("program", str(len(self.keep)))
        match kind:
            case "I":
                names = ("add", "subtract", "multiply", "maximum")
                return [
                    lambda: add(call(names[self.pick(4)], some("I"), some("I"))),
                    lambda: add(call("floor_divide", some("I"), some("I"), span=place)),
                    lambda: add(get(some("pair"), self.pick(2))),
                    lambda: add(call("take", some("V"), some("I"), span=place, axis=0)),
                    lambda: add(call("sum", some("V"), axis=(0,), keepdims=False)),
                ]
            case "B":
                return [
                    lambda: add(call("less", some("I"), some("I"))),
                    lambda: add(call("logical_not", some("B"))),
                ]
            case "V":
                return [
                    lambda: add(call("add", some("V"), some("I"))),
                    lambda: add(call("floor_divide", some("V"), old("V"), span=place)),
                    lambda: add(match_cast(self.pool["Z"][0], V, span=place)),
                ]
            case "D":
                return [
                    lambda: add(call(ONE, some("I"))),
                    lambda: add(call(TWO, some("I"), some("D"))),
                ]
            case "pair":
                return [lambda: add(tuple_of(some("I"), some("I")))]
            case _:
                return [lambda: self.closure(None)]

    def branch(self, kind: str) -> Expr:
        condition = self.some("B")
        return self.add(if_(condition, self.some(kind), self.some(kind)))

    def named(self, kind: str) -> Expr:
        """A let; its variable is used in the body or not."""
        of = KINDS[self.pick(len(KINDS))][0]
        value = self.some(of)
        v = var(self.name("v"), value.type)
        scope = self.open()
        self.add(v, scope)
        body = self.some(kind)
        self.close(scope)
        return self.leave(self.add(let(v, value, body)), scope)

    def block(self, kind: str) -> Expr:
        """Something of the kind, with room for more."""
        return self.does(kind) if self.pick(2) else self.some(kind)

    def does(self, kind: str) -> Expr:
        """An action, then something of the kind."""
        scope = self.open()
        before = len(self.refs), len(self.calls)
        ways = [self.prints, self.makes_ref, self.asserts, self.closure_that_acts]
        ways += [self.writes] if self.refs else []
        value = ways[self.pick(len(ways))]()
        v = var(self.name("u"), value.type)
        self.add(v, scope)
        if isinstance(value.type, RefType):
            self.refs.append((v, scope))
        if isinstance(value.type, FuncType) and not value.type.pure:
            self.calls.append((v, scope))
        body = self.block(kind) if self.left() else self.old(kind)
        self.close(scope)
        del self.refs[before[0] :], self.calls[before[1] :]
        return self.leave(self.add(let(v, value, body)), scope)

    def prints(self) -> Expr:
        return self.add(print_(self.some("I"), format=str(self.pick(3))))

    def asserts(self) -> Expr:
        return self.add(assert_op(self.some("B"), span=Span("program", str(len(self.keep)))))

    def makes_ref(self) -> Expr:
        return self.add(ref(self.some("I")))

    def cell(self) -> Var:
        return self.refs[-1 - self.pick(len(self.refs))][0]

    def writes(self) -> Expr:
        r = self.cell()
        return self.add(write(r, self.some("I")))

    def does_read(self) -> Expr:
        return self.add(read(self.cell())) if self.refs else self.old("I")

    def called(self) -> Expr:
        """A call of a closure that acts."""
        if not self.calls:
            return self.old("I")
        f = self.calls[-1 - self.pick(len(self.calls))][0]
        return self.add(call(f, self.some("I")))

    # --- functions ---------------------------------------------------------------------------------------------------

    def body(self, k: Var, acting: bool) -> Expr:
        refs, calls = self.refs, self.calls
        if not acting:
            self.refs, self.calls = [], []
        body = self.quiet(lambda: self.some("I")) if not acting else self.block("I")
        self.refs, self.calls = refs, calls
        return body

    def quiet(self, make: Callable[[], Expr]) -> Expr:
        """Something that does not act: what acts is made, and something old is taken in its place."""
        made = make()
        return self.old("I") if id(made) in self.doing else made

    def closure(self, acting: bool | None) -> Expr:
        scope = self.open()
        k = var(self.name("k"), I)
        self.add(k, scope)
        body = self.body(k, bool(acting))
        self.close(scope)
        f = function([k], body, I)
        return self.leave(self.add(f), scope)

    def closure_that_acts(self) -> Expr:
        f = self.closure(True)
        if isinstance(f, Function) and not f.func_type.pure:
            self.needs.setdefault(id(f), frozenset())
        return f

    def applied(self) -> Expr:
        return self.add(call(self.some("f"), self.some("I"), span=Span("program", str(len(self.keep)))))

    def applied_twice(self) -> Expr:
        """A function that takes a function."""
        scope = self.open()
        h, a = var(self.name("h"), PURE), var(self.name("a"), I)
        self.add(h, scope)
        self.add(a, scope)
        body = self.add(call(h, self.add(call(h, a))))
        self.close(scope)
        twice = self.leave(self.add(function([h, a], body, I)), scope)
        return self.add(call(twice, self.some("f"), self.some("I")))

    def loop(self) -> Expr:
        """A local function that counts down."""
        scope = self.open()
        f, k = var(self.name("f"), PURE), var(self.name("k"), I)
        self.needs[id(f)] = frozenset({scope})
        inner = self.open()
        self.add(k, inner)
        base = self.old("I")  # before the call of itself is at hand
        again = self.add(call(f, self.add(call("subtract", k, self.add(constant(np.int32(1)))))))
        step = self.quiet(lambda: self.some("I"))
        stop = self.add(call("less_equal", k, self.add(constant(np.int32(0)))))
        loop = self.add(function([k], self.add(if_(stop, base, self.add(call("add", again, step)))), I))
        self.close(inner)
        self.leave(loop, inner)
        small = self.add(call("minimum", self.some("I"), self.add(constant(np.int32(3)))))
        result = self.add(call(f, small))
        self.close(scope)
        return self.leave(self.add(let(f, loop, result)), scope)

    def helped(self) -> Expr:
        small = self.add(call("minimum", self.some("I"), self.add(constant(np.int32(3)))))
        return self.add(call(GlobalVar(PURE, "helper"), small))

    # --- data and sizes ----------------------------------------------------------------------------------------------

    def matched(self) -> Expr:
        value = self.some("D")
        scope = self.open()
        a, b = var(self.name("a"), I), var(self.name("a"), I)
        self.add(a, scope)
        one = self.some("I")
        self.close(scope)
        other = self.open()
        self.add(b, other)
        two = self.some("I")
        self.close(other)
        first, second = Made(ONE, (bind_pattern(a),)), Made(TWO, (bind_pattern(b), Wildcard()))
        clauses: list[tuple[Pattern, Expr]] = [(first, one), (second, two)]
        partial = bool(self.pick(2))
        if not partial:
            clauses.append((Wildcard(), self.some("I")))
        made = self.add(match(value, *clauses, partial=partial, span=Span("program", str(len(self.keep)))))
        self.leave(made, scope)
        return self.leave(made, other)

    def cast(self) -> Expr:
        """A size that only a cast knows, used under it."""
        m = Symbol("m")
        scope = self.open()
        y = var(self.name("y"), TensorType((m,), INT32))
        value = self.add(match_cast(self.pool["Z"][0], y.type, span=Span("program", str(len(self.keep)))))
        self.add(y, scope)
        sizes = self.add(call("full", shape=(m,), fill_value=1, dtype="int32"), scope)
        body = self.add(call("add", self.add(call("sum", sizes, axis=(0,), keepdims=False)), self.some("I")))
        self.add(shape(m), scope)
        self.close(scope)
        return self.leave(self.add(let(y, value, body)), scope)


def inputs(pick: Callable[[int], int]) -> dict[str, Any]:
    """Inputs for `main`: small numbers, so that sizes and indices are right about as often as wrong."""
    small = [pick(9) - 3 for _ in range(5)]
    length = (3, 2, 4)[pick(3)]
    return {
        "x": np.int32(small[0]),
        "y": np.int32(small[1]),
        "b": np.array(bool(pick(2))),
        "v": np.array(small[2:5], dtype=np.int32),
        "z": np.arange(length, dtype=np.int32),
    }


__all__ = ["UNIT", "Maker", "inputs"]
