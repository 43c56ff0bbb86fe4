"""The parts of random programs that are not operator calls: branches, names, closures, recursion, effects, data, casts
(specs/verify.md, "Programs").

Values are of a few kinds: an int32 "I", a bool "B", a vector of three int32 "V", a list-like datum "D", a pair and a
function "f" of int32; and any tensor type, whose kind is its text. `assay.verify.strategies.graphs` adds the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT32
from assay.semantics.errors import Span
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type, symbols
from assay.verify.strategies.choosing import Pick
from assay.verify.strategies.features import LANGUAGE, Features

I = TensorType((), INT32)  # noqa: E741
B = TensorType((), BOOL)
V = TensorType((3,), INT32)
CHOICE = DataDef("Choice", (), {"none": (), "one": (I,), "two": (I, DataType("Choice"))})
D = CHOICE.type
PURE, IMPURE = FuncType((I,), I), FuncType((I,), I, pure=False)
NONE, ONE, TWO = (graph.constructor(CHOICE, n) for n in ("none", "one", "two"))
KINDS: Sequence[tuple[str, Type]] = (("I", I), ("B", B), ("V", V), ("D", D), ("pair", TupleType((I, I))), ("f", PURE))
DEPTH = 60
"""How deep what is made may be nested: the maker calls itself."""
_KIND_OF = {str(t): k for k, t in KINDS}


@dataclass(eq=False)
class Language:
    """What is made so far, and how more is made. `pick(n)` chooses below n; `size` is about how many nodes there may
    be."""

    pick: Pick
    size: int = 40
    features: Features = LANGUAGE
    names: int = 0
    pool: dict[str, list[graph.Expr]] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    """The tensor types among the kinds, by their text."""
    needs: dict[int, frozenset[int]] = field(default_factory=dict)
    """For a node the scopes whose variables it depends on."""
    doing: set[int] = field(default_factory=set)
    """Nodes that act or hold what acts: used once."""
    used: set[int] = field(default_factory=set)
    """Nodes that are operands of others."""
    scopes: list[int] = field(default_factory=lambda: [0])
    refs: list[tuple[graph.Var, int]] = field(default_factory=list)
    calls: list[tuple[graph.Var, int]] = field(default_factory=list)
    """Variables of functions that act."""
    cast_sizes: set[Symbol] = field(default_factory=set)
    keep: list[graph.Expr] = field(default_factory=list)
    depth: int = 0

    def helper(self) -> graph.Function:
        """Calls itself by its module's name."""
        k = graph.var("k", I)
        again = graph.call(graph.GlobalVar(PURE, "helper"), graph.call("subtract", k, graph.constant(np.int32(1))))
        return graph.function(
            [k], graph.if_(graph.call("less_equal", k, graph.constant(np.int32(0))), k, graph.call("add", again, k)), I
        )

    # --- bookkeeping -------------------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A name with this stem, which may be in use already."""
        self.names += self.pick(2)  # names may meet
        return f"{stem}{self.names}"

    def kind(self, of: Type) -> str:
        """The kind of a type; "" for one of which nothing is kept at hand."""
        text = str(of)
        if text in _KIND_OF and (self.features.language or _KIND_OF[text] == "B"):
            return _KIND_OF[text]
        if isinstance(of, TensorType) and self.features.operators:
            text += "".join(f" {id(s)}" for s in symbols(of))  # two sizes may have one name
            self.types.setdefault(text, of)
            return text
        return ""

    def add(self, node: graph.Expr, *own: int) -> graph.Expr:
        """A node that was made: remember what it depends on, and put it into the pool if it may be shared."""
        self.keep.append(node)
        needs = frozenset(own).union(*(self.needs.get(id(c), frozenset()) for c in node.children))
        self.needs[id(node)] = needs
        if graph.acts(node) or (
            not isinstance(node, graph.Function) and any(id(c) in self.doing for c in node.children)
        ):
            self.doing.add(id(node))
        elif (kind := self.kind(node.type)) and not isinstance(node, graph.Constructor):
            self.pool.setdefault(kind, []).append(node)
        self.used.update(map(id, node.children))
        return node

    def leave(self, node: graph.Expr, scope: int) -> graph.Expr:
        """What a scope's variables are bound around no longer depends on the scope."""
        self.needs[id(node)] = self.needs[id(node)] - {scope}
        return node

    def usable(self, node: graph.Expr) -> bool:
        """Whether a node may be an operand here: its variables are in scope, and it is unused if sharing is off."""
        if not self.features.sharing and id(node) in self.used and not isinstance(node, (graph.Var, graph.Constant)):
            return False
        return self.needs[id(node)] <= set(self.scopes)

    def open(self) -> int:
        """Open a scope; gives its number."""
        self.names += 1
        scope = 1000 + len(self.keep) * 64 + len(self.scopes)
        self.scopes.append(scope)
        return scope

    def close(self, scope: int) -> None:
        """Close the innermost scope, which must be this one."""
        assert self.scopes.pop() == scope

    def left(self) -> bool:
        """Whether there is room for another node, and the choice is to make one."""
        self.size -= 1
        return self.size > 0 and self.depth < DEPTH and self.pick(4) > 0

    # --- expressions -------------------------------------------------------------------------------------------------

    def old(self, kind: str) -> graph.Expr:
        """Something of the kind that is at hand: the newest first."""
        found = [e for e in self.pool.get(kind, ()) if self.usable(e)][-6:][::-1]
        return self.taken(found[self.pick(len(found))]) if found else self.least(kind)

    def taken(self, node: graph.Expr) -> graph.Expr:
        """A node that is an operand from now on: without sharing it is no other's."""
        if not self.features.sharing:
            self.used.add(id(node))
        return node

    def least(self, kind: str) -> graph.Expr:
        """The smallest expression of a kind."""
        match kind:
            case "I":
                return self.add(graph.constant(np.int32(self.pick(4))))
            case "B":
                return self.add(graph.call("less", self.old("I"), graph.constant(np.int32(2))))
            case "V":
                return self.add(graph.constant(np.arange(3, dtype=np.int32)))
            case "D":
                return self.add(graph.call(NONE))
            case "pair":
                return self.add(graph.tuple_of(self.old("I"), self.old("I")))
            case "f":
                return self.closure(None)
            case _:
                return self.least_tensor(self.types[kind])

    def least_tensor(self, of: TensorType) -> graph.Expr:
        """The simplest tensor of a type that is made from nothing."""
        return self.add(graph.call("full", shape=of.shape, fill_value=self.pick(2), dtype=of.dtype.name))

    def some(self, kind: str) -> graph.Expr:
        """Something of the kind, old or new. What is new and acts is used here alone."""
        if not self.left():
            return self.old(kind)
        self.depth += 1
        ways = self.all_ways(kind)
        made = ways[self.pick(len(ways))]()
        self.depth -= 1
        return self.taken(made)

    def all_ways(self, kind: str) -> list[Callable[[], graph.Expr]]:
        """How to make something of the kind."""
        on = self.features
        ways: list[Callable[[], graph.Expr]] = [*self.ways(kind)]
        ways += [lambda: self.branch(kind)] if on.branches else []
        ways += [lambda: self.named(kind)] if on.names else []
        if kind == "I":
            ways += [self.applied, self.applied_twice] if on.functions else []
            ways += [self.loop, self.helped] if on.recursion else []
            ways += [self.matched] if on.data else []
            ways += [self.cast] if on.casts else []
            ways += [self.does_read, self.called] if self.refs or self.calls else []
        elif kind in self.types:
            # a size that only a cast gives, perhaps later, is none of an inner function's parameter's (graph.C12)
            ways += (
                [lambda: self.wrapped(kind)]
                if on.functions and self.cast_sizes.isdisjoint(symbols(self.types[kind]))
                else []
            )
        if on.effects and (kind in ("I", "V") or kind in self.types):
            ways.append(lambda: self.does(kind))
        return ways

    def ways(self, kind: str) -> list[Callable[[], graph.Expr]]:
        """How to make something of the kind by one operator."""
        some, old, add = self.some, self.old, self.add
        place = Span("program", str(len(self.keep)))
        fails = self.features.traps
        match kind:
            case "I":
                names = ("add", "subtract", "multiply", "maximum")
                return [
                    lambda: add(graph.call(names[self.pick(4)], some("I"), some("I"))),
                    lambda: add(graph.call("floor_divide", some("I"), self.within(some("I"), 1, 7), span=place)),
                    lambda: add(graph.get(some("pair"), self.pick(2))),
                    lambda: add(graph.call("take", some("V"), self.within(some("I"), 0, 3), span=place, axis=0)),
                    lambda: add(graph.call("sum", some("V"), axis=(0,), keepdims=False)),
                ]
            case "B":
                return [
                    lambda: add(graph.call("less", some("I"), some("I"))),
                    lambda: add(graph.call("logical_not", some("B"))),
                ]
            case "V":
                return [
                    lambda: add(graph.call("add", some("V"), some("I"))),
                    lambda: add(graph.call("floor_divide", some("V"), self.within(old("V"), 1, 7), span=place)),
                    *(
                        [lambda: add(graph.match_cast(self.pool["Z"][0], V, span=place))]
                        if fails and "Z" in self.pool
                        else []
                    ),
                ]
            case "D":
                return [
                    lambda: add(graph.call(ONE, some("I"))),
                    lambda: add(graph.call(TWO, some("I"), some("D"))),
                ]
            case "pair":
                return [lambda: add(graph.tuple_of(some("I"), some("I")))]
            case "f":
                return [lambda: self.closure(None)]
            case _:
                return self.tensor_ways(kind)

    def tensor_ways(self, kind: str) -> list[Callable[[], graph.Expr]]:
        """How to make a tensor of a type by one operator."""
        return [lambda: self.least(kind)]

    def within(self, value: graph.Expr, low: int, high: int) -> graph.Expr:
        """The value kept from `low` up to, not including, `high`: where runs may not fail."""
        return value if self.features.traps else self.add(graph.call("clip", value, min=low, max=high - 1))

    def branch(self, kind: str) -> graph.Expr:
        """An If whose result is of a kind."""
        condition = self.some("B")
        return self.add(graph.if_(condition, self.some(kind), self.some(kind)))

    def named(self, kind: str) -> graph.Expr:
        """A let; its variable is used in the body or not."""
        kinds = self.kinds()
        value = self.some(kinds[self.pick(len(kinds))])
        v = graph.var(self.name("v"), value.type)
        scope = self.open()
        self.add(v, scope)
        body = self.some(kind)
        self.close(scope)
        return self.leave(self.add(graph.let(v, value, body)), scope)

    def kinds(self) -> list[str]:
        """The kinds of which there may be values."""
        on = self.features
        if not on.language:
            return list(self.types)[-4:] or ["B"]
        said = {"D": on.data, "f": on.functions}
        return [k for k, _ in KINDS if said.get(k, True)] + list(self.types)[-3:]

    def block(self, kind: str) -> graph.Expr:
        """Something of the kind, with room for more."""
        return self.does(kind) if self.features.effects and self.pick(2) else self.some(kind)

    def does(self, kind: str) -> graph.Expr:
        """An action, then something of the kind."""
        scope = self.open()
        before = len(self.refs), len(self.calls)
        ways = [self.prints, self.makes_ref]
        ways += [self.asserts] if self.features.traps else []
        ways += [self.closure_that_acts] if self.features.functions else []
        ways += [self.writes] if self.refs else []
        value = ways[self.pick(len(ways))]()
        v = graph.var(self.name("u"), value.type)
        self.add(v, scope)
        if isinstance(value.type, RefType):
            self.refs.append((v, scope))
        if isinstance(value.type, FuncType) and not value.type.pure:
            self.calls.append((v, scope))
        body = self.block(kind) if self.left() else self.old(kind)
        self.close(scope)
        del self.refs[before[0] :], self.calls[before[1] :]
        return self.leave(self.add(graph.let(v, value, body)), scope)

    def prints(self) -> graph.Expr:
        """A print of an integer, with one of three formats."""
        return self.add(graph.print_(self.some("I"), format=str(self.pick(3))))

    def asserts(self) -> graph.Expr:
        """An assertion, with a span of its own."""
        return self.add(graph.assert_op(self.some("B"), span=Span("program", str(len(self.keep)))))

    def makes_ref(self) -> graph.Expr:
        """A new reference to an integer."""
        return self.add(graph.ref(self.some("I")))

    def cell(self) -> graph.Var:
        """A variable of a reference."""
        return self.refs[-1 - self.pick(len(self.refs))][0]

    def writes(self) -> graph.Expr:
        """A write to a reference."""
        r = self.cell()
        return self.add(graph.write(r, self.some("I")))

    def does_read(self) -> graph.Expr:
        """A read of a reference, or an old value if there is none."""
        return self.add(graph.read(self.cell())) if self.refs else self.old("I")

    def called(self) -> graph.Expr:
        """A call of a closure that acts."""
        if not self.calls:
            return self.old("I")
        f = self.calls[-1 - self.pick(len(self.calls))][0]
        return self.add(graph.call(f, self.some("I")))

    # --- functions ---------------------------------------------------------------------------------------------------

    def body(self, k: graph.Var, acting: bool) -> graph.Expr:
        """The body of a closure; unless it acts, references and functions that act are out of reach."""
        refs, calls = self.refs, self.calls
        if not acting:
            self.refs, self.calls = [], []
        body = self.quiet(lambda: self.some("I")) if not acting else self.block("I")
        self.refs, self.calls = refs, calls
        return body

    def quiet(self, make: Callable[[], graph.Expr]) -> graph.Expr:
        """Something that does not act: what acts is made, and something old is taken in its place."""
        made = make()
        return self.old("I") if id(made) in self.doing else made

    def closure(self, acting: bool | None) -> graph.Expr:
        """A function from an integer to an integer, over variables in scope."""
        scope = self.open()
        k = graph.var(self.name("k"), I)
        self.add(k, scope)
        body = self.body(k, bool(acting))
        self.close(scope)
        f = graph.function([k], body, I)
        return self.leave(self.add(f), scope)

    def closure_that_acts(self) -> graph.Expr:
        """A function whose call may act; it must be used where it stands."""
        f = self.closure(True)
        if isinstance(f, graph.Function) and not f.func_type.pure:
            self.needs.setdefault(id(f), frozenset())
        return f

    def applied(self) -> graph.Expr:
        """A call of a closure."""
        return self.add(graph.call(self.some("f"), self.some("I"), span=Span("program", str(len(self.keep)))))

    def wrapped(self, kind: str) -> graph.Expr:
        """A function of a tensor, applied at once or under a name."""
        scope = self.open()
        k = graph.var(self.name("k"), self.types[kind])
        self.add(k, scope)
        refs, calls, self.refs, self.calls = self.refs, self.calls, [], []
        made = self.some(kind)
        body = self.old(kind) if id(made) in self.doing else made
        self.refs, self.calls = refs, calls
        self.close(scope)
        f = self.leave(self.add(graph.function([k], body)), scope)
        return self.add(graph.call(f, self.some(kind)))

    def applied_twice(self) -> graph.Expr:
        """A function that takes a function."""
        scope = self.open()
        h, a = graph.var(self.name("h"), PURE), graph.var(self.name("a"), I)
        self.add(h, scope)
        self.add(a, scope)
        body = self.add(graph.call(h, self.add(graph.call(h, a))))
        self.close(scope)
        twice = self.leave(self.add(graph.function([h, a], body, I)), scope)
        return self.add(graph.call(twice, self.some("f"), self.some("I")))

    def loop(self) -> graph.Expr:
        """A local function that counts down."""
        scope = self.open()
        f, k = graph.var(self.name("f"), PURE), graph.var(self.name("k"), I)
        self.needs[id(f)] = frozenset({scope})
        inner = self.open()
        self.add(k, inner)
        base = self.old("I")  # before the call of itself is at hand
        one = self.add(graph.constant(np.int32(1)))
        few = graph.call("minimum", k, graph.constant(np.int32(3)))  # others may call the function too, with any number
        again = self.add(graph.call(f, self.add(graph.call("subtract", few, one), *self.needs[id(k)])))
        step = self.quiet(lambda: self.some("I"))
        stop = self.add(graph.call("less_equal", k, self.add(graph.constant(np.int32(0)))))
        loop = self.add(
            graph.function([k], self.add(graph.if_(stop, base, self.add(graph.call("add", again, step)))), I)
        )
        self.close(inner)
        self.leave(loop, inner)
        small = self.add(graph.call("minimum", self.some("I"), self.add(graph.constant(np.int32(3)))))
        result = self.add(graph.call(f, small))
        self.close(scope)
        return self.leave(self.add(graph.let(f, loop, result)), scope)

    def helped(self) -> graph.Expr:
        """A call of the recursive helper, with a small argument."""
        small = self.add(graph.call("minimum", self.some("I"), self.add(graph.constant(np.int32(3)))))
        return self.add(graph.call(graph.GlobalVar(PURE, "helper"), small))

    # --- data and sizes ----------------------------------------------------------------------------------------------

    def matched(self) -> graph.Expr:
        """A match of data with a clause for each constructor; it may leave one out where traps are allowed."""
        value = self.some("D")
        scope = self.open()
        a, b = graph.var(self.name("a"), I), graph.var(self.name("a"), I)
        self.add(a, scope)
        one = self.some("I")
        self.close(scope)
        other = self.open()
        self.add(b, other)
        two = self.some("I")
        self.close(other)
        first, second = (
            graph.Made(ONE, (graph.Bind(a),)),
            graph.Made(TWO, (graph.Bind(b), graph.Wildcard())),
        )
        clauses: list[tuple[graph.Pattern, graph.Expr]] = [(first, one), (second, two)]
        partial = self.features.traps and bool(self.pick(2))
        if not partial:
            clauses.append((graph.Wildcard(), self.some("I")))
        made = self.add(graph.match(value, *clauses, partial=partial, span=Span("program", str(len(self.keep)))))
        self.leave(made, scope)
        return self.leave(made, other)

    def of_unknown_size(self) -> graph.Expr:
        """The parameter of symbolic size, if there is one, or a vector."""
        return self.pool["Z"][0] if "Z" in self.pool else self.old("V")

    def cast(self) -> graph.Expr:
        """A size that only a cast knows, used under it."""
        m = Symbol("m")
        self.cast_sizes.add(m)
        scope = self.open()
        y = graph.var(self.name("y"), TensorType((m,), INT32))
        value = self.add(graph.match_cast(self.of_unknown_size(), y.type, span=Span("program", str(len(self.keep)))))
        self.add(y, scope)
        sizes = self.add(graph.call("full", shape=(m,), fill_value=1, dtype="int32"), scope)
        body = self.add(
            graph.call("add", self.add(graph.call("sum", sizes, axis=(0,), keepdims=False)), self.some("I"))
        )
        self.add(graph.shape(m), scope)
        self.close(scope)
        return self.leave(self.add(graph.let(y, value, body)), scope)
