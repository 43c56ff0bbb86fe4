"""What a graph function in A-normal form does, read for the comparison with its bytecode (specs/verify.md, "vm").

Lets, projections of known tuples, annotations of devices and views to the same shape vanish. All that may fail, act or
not end is an event, in its order; a choice is an event that has those of its ways. Where types meet, sizes get their
values or are checked as rule M4 says. This reads the graph; `assay.verify.vm.target` reads bytecode.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.sizes import dims_in, has_explicit_shapes
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, ShapeType, TensorType, TupleType, Type, flatten, symbols
from assay.semantics.walk import Worklist, post_order
from assay.verify.vm.said import NO_CLAUSE, Said, called
from assay.verify.vm.steps import applied, declared_result, measured, ran
from assay.verify.vm.terms import Trail, ValueTerms, in_sizes
from assay.verify.vm.wrong import Undecided

MATCH = ("match", "match.T1", NO_CLAUSE)
"""The trap of a match of which no clause fits."""


@dataclass(frozen=True, eq=False)
class CallSite:
    """A place at which a local function is made: its value, what its free variables hold there, and what the sizes of
    the functions around it are that it mentions. `name` is what the source calls it."""

    node: graph.Function
    own: graph.Var | None
    number: int
    free: Mapping[graph.Var, int]
    sizes: Mapping[Symbol, Dim]
    name: str


@dataclass(frozen=True, eq=False)
class Obligation:
    """A type that a value has to have, or the run ends in a trap with the label; by which node."""

    of: Type
    label: str
    node: graph.Expr


@dataclass
class Env:
    """What the variables hold in a run of a function, and what its sizes are."""

    holds: ChainMap[graph.Expr, int]
    sizes: dict[Symbol, Dim]
    unsure: frozenset[Symbol] = frozenset()
    """Sizes that have a value on some ways to here only, or that nobody handed over."""

    def inner(self) -> Env:
        """The same for one way of a choice."""
        return Env(self.holds.new_child(), dict(self.sizes), self.unsure)


@dataclass
class Read:
    """What a function gives and does, and the places at which it makes functions."""

    result: int
    way: Trail
    sites: list[CallSite] = field(default_factory=list)
    said: Said = field(default_factory=Said)


class Reader:
    """Reads one graph function."""

    def __init__(self, function: graph.Function, module: Module, terms: ValueTerms) -> None:
        self.function, self.module, self.terms = function, module, terms
        self.sites: list[CallSite] = []
        self.said = Said()
        self.places: dict[int, graph.Expr] = {}
        """For the number of a chain of events the node of its last one."""
        self.names: dict[int, str] = {}
        """What the source calls a value."""

    def read(self, env: Env, way: Trail) -> Read:
        """What the function does in a run that begins so: its parameters have values, and have met their types."""
        if has_explicit_shapes(self.function):
            at = f" at {self.function.span}" if self.function.span else ""
            raise Undecided(
                f"bytecode of a function with explicit shapes{at} is not proved, for its sizes have names in statements"
                " only: without the attribute explicit_shapes, and without the pass shapes, which sets it, it is"
            )
        duties = (Obligation(self.function.result_type, "func.T1", self.function),)
        result: int = run_task(self.body(self.function.body, env, way, duties))
        return Read(result, way, self.sites, self.said)

    # --- bodies --------------------------------------------------------------------------------------------------

    def body(self, expr: graph.Expr, env: Env, way: Trail, duties: Sequence[Obligation] = ()) -> Task[int]:
        """The value of a chain of lets, which has `duties`: types that it has to have. A choice that is the last thing
        hands them on to both of its ways."""
        lets, result = graph.let_chain(expr)
        for k, let in enumerate(lets):
            own = Obligation(let.var.type, "call.T1", let)
            if isinstance(let.value, graph.If | graph.Match) and duties and self.is_last(lets[k:], result):
                last: int = yield self.value(let.value, let.var, env, way, (own, *duties))
                return last
            value: int = yield self.value(let.value, let.var, env, way)
            env.holds[let.var] = value
            self.names.setdefault(value, let.var.name)
            self.meet_if_sized(own, value, env, way)
        last = yield self.value(result, None, env, way)
        inner = replace(env, sizes=dict(env.sizes))
        for duty in duties:
            if duty.label == "func.T1":
                self.meet(duty.of, last, inner, way, duty.label, duty.node)
            else:
                self.meet_if_sized(duty, last, inner, way)
        return last

    def is_last(self, lets: Sequence[graph.Let], result: graph.Expr) -> bool:
        """Whether the first of some lets is what their body gives."""
        return len(lets) == 1 and result is lets[0].var

    def meet(self, of: Type, value: int, env: Env, way: Trail, label: str, node: graph.Expr) -> None:
        """A value has a type here, or the run ends."""
        if unsure := [s.name for s in symbols(of) if s in env.unsure and s not in env.sizes]:
            raise Undecided(f"{graph.show_head(node)}: the size {unsure[0]} has a value on some ways only")
        known = set(env.sizes)
        pairs = self.terms.meet(of, value, env.sizes, graph.show_head(node))
        self.said.look(self.terms, of, value, (label, called(label)), known)
        before = way.events
        self.terms.require(way, pairs, label)
        self.note(before, way, node)

    def note(self, before: int, way: Trail, node: graph.Expr) -> None:
        """Remember which node an event is of."""
        if way.events != before:
            self.happens(way.events, node)

    def happens(self, events: int, node: graph.Expr) -> None:
        """The last event of a chain is of a node."""
        self.places.setdefault(events, node)
        self.said.place(events, node.span)

    # --- values --------------------------------------------------------------------------------------------------

    def value(
        self, node: graph.Expr, var: graph.Var | None, env: Env, way: Trail, duties: Sequence[Obligation] = ()
    ) -> Task[int]:
        """The value of an expression whose parts are names. `duties` are those of a choice."""
        before = way.events
        match node:
            case graph.If() | graph.Match():
                own = Obligation(node.type, "call.T1", node)
                inner = (own, *duties) if duties else ()
                found: int
                if isinstance(node, graph.If):
                    found = yield self.choice(node, env, way, inner)
                else:
                    found = yield self.matched(node, env, way, inner)
                if not duties:
                    self.meet_if_sized(own, found, env, way)
            case graph.Function():
                found = self.closure(node, var, env)
            case graph.Call() if isinstance(node.op, Operator):
                found = self.view(node, env, way)
            case graph.Call():
                found = self.call(node, env, way)
            case graph.CallTIR():
                found = self.kernel(node, var, env, way)
            case graph.MatchCast():
                found = self.cast(node, env, way)
            case graph.Print() | graph.AssertOp() | graph.RefCreate() | graph.RefRead() | graph.RefWrite():
                found = self.action(node, env, way)
            case _:
                found = self.plain(node, env, way)
        self.note(before, way, node)
        return found

    def meet_if_sized(self, duty: Obligation, value: int, env: Env, way: Trail) -> None:
        """A value has a type, if there are symbols in it."""
        if symbols(duty.of):
            self.meet(duty.of, value, env, way, duty.label, duty.node)

    def plain(self, node: graph.Expr, env: Env, way: Trail) -> int:
        """The value of what neither fails nor acts, but for sizes below 0."""
        terms = self.terms
        match node:
            case graph.Constant():
                return terms.array(node.data)
            case graph.Tuple():
                return terms.tuple_of([self.atom(f, env) for f in node.fields])
            case graph.TupleGetItem():
                return terms.part(self.atom(node.value, env), node.index)
            case graph.OnDevice():
                return self.atom(node.value, env)
            case graph.ShapeExpr():
                dims = self.sized(node.dims, env, node)
                terms.naturals(way, dims)
                return terms.shape(dims, way)
            case graph.ShapeOf():
                of = terms.type_of(self.atom(node.value, env))
                assert isinstance(of, TensorType)
                return terms.shape(of.shape, way)
            case _:
                return self.atom(node, env)

    def atom(self, node: graph.Expr, env: Env) -> int:
        """The value of a name, or of a constant."""
        terms = self.terms
        match node:
            case graph.Constant():
                return terms.array(node.data)
            case graph.GlobalVar() if node.name in self.module.constants:
                return terms.named_constant(self.module, node.name)
            case graph.GlobalVar():
                number = terms.give(terms.number("global", node.name), node.type)
                found = self.module.definitions.get(node.name)
                if isinstance(found, graph.Function):
                    terms.callees[number] = found
                return number
            case graph.ExternFunc():
                return terms.give(terms.number("extern", node.name), node.type)
            case graph.Constructor():
                return terms.give(terms.number("constructor", node.data, node.name), node.type)
        held = env.holds.get(node)
        if held is None:
            raise Undecided(f"{graph.show_head(node)} has no value where it is used")
        return held

    def sized(self, dims: Sequence[Dim], env: Env, node: graph.Expr) -> list[Dim]:
        """Sizes in those of values."""
        found = [in_sizes(d, env.sizes) for d in dims]
        if None in found:
            raise Undecided(f"{graph.show_head(node)} uses a size that has no value there")
        return [d for d in found if d is not None]

    # --- choices -------------------------------------------------------------------------------------------------

    def choice(self, node: graph.If, env: Env, way: Trail, duties: Sequence[Obligation]) -> Task[int]:
        """The value of an if."""
        condition = self.terms.number("holds", self.atom(node.condition, env))
        arms: list[tuple[int, Env, Trail]] = []
        for body in (node.then, node.otherwise):
            inner, along = env.inner(), way.copy()
            value: int = yield self.body(body, inner, along, duties)
            arms.append((value, inner, along))
        return self.join(condition, arms[0], arms[1], env, way)

    def join(
        self, condition: int, then: tuple[int, Env, Trail], otherwise: tuple[int, Env, Trail], env: Env, way: Trail
    ) -> int:
        """Two ways meet: what is behind them goes on in `env` and `way`."""
        (a, one, first), (b, other, second) = then, otherwise
        behind = self.terms.branch(way, condition, first, second)
        way.events, way.facts, way.natural = behind.events, behind.facts, behind.natural
        for s in {*one.sizes, *other.sizes} - {*env.sizes}:
            if s in one.sizes and s in other.sizes:
                env.sizes[s] = self.terms.chosen(condition, (one.sizes[s], first), (other.sizes[s], second))
            else:
                env.unsure |= {s}
        env.unsure |= one.unsure | other.unsure
        return self.terms.choice(condition, (a, first), (b, second))

    def matched(self, node: graph.Match, env: Env, way: Trail, duties: Sequence[Obligation]) -> Task[int]:
        """The value of a match: clause by clause, each test of a pattern in its place, from the outside in."""
        value = self.atom(node.value, env)
        trap = self.terms.number("after", self.terms.number("begin"), ("trap", *MATCH))
        rest: tuple[int, Env, Trail] | None = None
        # the way to a clause is the same however the one before it failed to fit: nothing happens in a test
        for clause in reversed(node.clauses):
            tests, bound = self.tests(clause.pattern, value, node.value.type)
            inner, along = env.inner(), way.copy()
            if rest is None:  # where the clauses cover every value, none comes here
                for test in tests:
                    self.terms.ends(along, test, False, trap)
                    self.happens(along.events, node)
            for var, number in bound:
                inner.holds[var] = number
                self.names.setdefault(number, var.name)
                if symbols(var.type):
                    self.meet(var.type, number, inner, along, "call.T1", node)
            made: int = yield self.body(clause.body, inner, along, duties)
            found = made, inner, along
            for test in reversed(tests if rest is not None else ()):
                assert rest is not None
                outer, before = env.inner(), way.copy()
                joined = self.join(test, found, rest, outer, before)
                found = joined, outer, before
            rest = found
        assert rest is not None
        result, inner, along = rest
        way.events, way.facts, way.natural = along.events, along.facts, along.natural
        env.sizes, env.unsure = inner.sizes, inner.unsure
        return result

    def tests(self, pattern: graph.Pattern, value: int, of: Type) -> tuple[list[int], list[tuple[graph.Var, int]]]:
        """What is asked for a pattern to match, in order, and what its variables stand for."""
        tests: list[int] = []
        bound: list[tuple[graph.Var, int]] = []
        work = Worklist([(pattern, value, of)])
        for p, number, kind in work:
            fields: Sequence[Type] = ()
            parts: list[int] = []
            match p:
                case graph.Bind():
                    bound.append((p.var, number))
                case graph.Made():
                    tests.append(self.terms.number("made", number, p.constructor.name))
                    assert isinstance(kind, DataType)
                    fields = graph.field_types(p.constructor, kind)
                    parts = [self.terms.made_of(number, p.constructor.name, i) for i in range(len(fields))]
                case graph.Fields():
                    assert isinstance(kind, TupleType)
                    fields = kind.fields
                    parts = [self.terms.part(number, i) for i in range(len(fields))]
                case _:
                    pass
            own = [self.terms.unknown(n, t) for n, t in zip(parts, fields, strict=True)]
            work.add(zip(p.children, own, fields, strict=True))
        return tests, bound

    # --- functions and calls -------------------------------------------------------------------------------------

    def closure(self, node: graph.Function, var: graph.Var | None, env: Env) -> int:
        """The number of a local function: which it is, and what its free variables and the sizes around it are."""
        if is_opaque(node):
            raise Undecided(f"{graph.show_head(node)} is for another compiler, which knows what it does")
        own = var if var is not None and var in (names := graph.free_variables(node)) else None
        names = graph.free_variables(node)
        free = {v: self.atom(v, env) for v in names if v is not own}
        told = mentioned(node)
        if unsure := [s.name for s in told if s in env.unsure and s not in env.sizes]:
            raise Undecided(f"{graph.show_head(node)} uses the size {unsure[0]}, which has a value on some ways only")
        sizes = {s: env.sizes[s] for s in told if s in env.sizes}
        terms = self.terms
        key = (id(node), tuple(free.values()), *(terms.text_of(d) for d in sizes.values()))
        number = terms.give(terms.number("closure", *key), node.type)
        terms.callees[number] = node
        self.sites.append(CallSite(node, own, number, free, sizes, var.name if var is not None else "function"))
        return number

    def call(self, node: graph.Call, env: Env, way: Trail) -> int:
        """The value of a call of a function."""
        assert isinstance(node.op, graph.Expr)
        callee, args = self.atom(node.op, env), [self.atom(a, env) for a in node.args]
        of = self.terms.type_as_seen(node.type, env.sizes, way)
        number = applied(self.terms, way, callee, args, graph.acts(node), of)
        if self.terms.keys[callee][0] == "constructor":
            return self.terms.give(number, node.type)
        self.happens(way.events, node)
        declared = declared_result(self.terms, callee, args)
        number = self.terms.unknown(number, *(declared or (node.type,)))
        self.meet(node.type, number, env, way, "call.T1", node)
        return number

    def view(self, node: graph.Call, env: Env, way: Trail) -> int:
        """The value of a view: the same elements under another shape."""
        assert isinstance(node.op, Operator) and isinstance(node.type, TensorType)
        if not node.op.view:
            raise Undecided(f"{graph.show_head(node)} is no call of a tensor function")
        shape = self.sized(node.type.shape, env, node)
        self.terms.naturals(way, shape)
        return self.terms.view(self.atom(node.args[0], env), TensorType(tuple(shape), node.type.dtype), way)

    def kernel(self, node: graph.CallTIR, var: graph.Var | None, env: Env, way: Trail) -> int:
        """The value of a call of a tensor function."""
        kernel = self.module.kernel(node.func)
        reads = [n for a in node.args for n in self.terms.tensors(self.atom(a, env), a.type)]
        scalars = self.sized(node.scalars, env, node)
        made = [TensorType(tuple(self.sized(t.shape, env, node)), t.dtype) for t in flatten(node.type)]
        device = var.device if var is not None and node.device == ANYWHERE else node.device
        results = ran(self.terms, way, kernel, reads, scalars, made, device)
        return results[0] if isinstance(node.type, TensorType) else self.terms.tuple_of(results)

    def cast(self, node: graph.MatchCast, env: Env, way: Trail) -> int:
        """The value of a match-cast: that of its operand, which has the type, or the run ends."""
        value = self.atom(node.value, env)
        if isinstance(node.type, ShapeType) and isinstance(node.value.type, TensorType):
            value = measured(self.terms, way, value, len(node.type.dims))
            self.happens(way.events, node)
        self.meet(node.type, value, env, way, "match_cast.T1", node)
        return value

    def action(self, node: graph.Expr, env: Env, way: Trail) -> int:
        """The value of what acts."""
        terms, parts = self.terms, [self.atom(c, env) for c in node.children]
        match node:
            case graph.Print():
                terms.event(way, "print", node.format, tuple(parts))
            case graph.AssertOp():
                terms.event(way, "assert", terms.number("holds", parts[0]), node.format, tuple(parts[1:]))
            case graph.RefWrite():
                terms.event(way, "write", *parts)
            case graph.RefCreate():
                terms.event(way, "cell", *parts)
                return terms.give(terms.result(way), node.type)
            case _:
                terms.event(way, "read", *parts)
                return terms.unknown(terms.result(way), node.type)
        return terms.tuple_of(())


def mentioned(node: graph.Function) -> list[Symbol]:
    """The sizes that stand in the text of a function, in order."""
    found: dict[Symbol, None] = {}
    for part in post_order(node):
        found.update(dict.fromkeys(symbols(part.type)))
        match part:
            case graph.Function():
                found.update((s, None) for p in part.params for s in symbols(p.type))
            case graph.Call():
                found.update((v, None) for d in dims_in(part.attrs.values()) for v in variables(d))
            case graph.CallTIR():
                found.update((v, None) for d in part.scalars for v in variables(d))
            case graph.Match():
                found.update((s, None) for c in part.clauses for v in c.vars for s in symbols(v.type))
            case _:
                pass
    return list(found)
