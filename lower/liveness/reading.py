"""`main` as a text of calls and choices over origins (specs/lower.md, "liveness").

Calls of other functions are replaced by what they do, anew at each call; one that calls itself is a loop. What bytes a
variable names is the relation of `assay.semantics.alias`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from assay.lower.liveness.items import (
    Again,
    Arm,
    Assert,
    Begin,
    Choose,
    Close,
    Effect,
    End,
    Item,
    Leave,
    Measured,
    Otherwise,
    Run,
    Text,
    Value,
)
from assay.semantics import graph
from assay.semantics.alias import Origin, choice_origins, device_of, from_outside, made, passed
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph.effects import is_opaque
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Const, Dim, Expr as Scalar, Var as Symbol, substitute, variables
from assay.semantics.size_facts import cast_sizes
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import FuncType, ShapeType, TensorType, Type, flatten, open_symbols, with_dims
from assay.semantics.walk import post_order, reached

MOST = 1_000_000
"""Calls that a text may have: functions that call functions twice could make any number."""


def read_main(module: Module) -> Text:
    """The text of `main`. Unsupported for what has no static plan: the message names it."""
    reader = _Reader(module)
    main = module.main
    if is_opaque(main):
        raise _kept_whole("main", main.span)
    at = _Activation("", ChainMap({p: _given(p) for p in main.params}))
    result: Value = run_task(reader.chain(main.body, at, None, None))
    assert result is not None, "main is no loop"
    reader.text.result = result
    return reader.text


def _is_vector(of: Type, count: int) -> bool:
    return isinstance(of, TensorType) and of.dtype is INT64 and of.shape == (count,)


def _kept_whole(name: str, where: Span | None) -> Unsupported:
    what = f"{name} is marked as a primitive or for another compiler: what it needs is not known here"
    return Unsupported(what, where=where, label="liveness.C4")


def _given(param: graph.Var) -> tuple[Origin, ...]:
    if not isinstance(param.type, TensorType):
        raise Unsupported(f"parameter {param.name} is {param.type}: only tensors can be planned", label="liveness.C1")
    return (Origin(param.name, 0, param.type, "parameter", param.device),)


@dataclass(eq=False)
class _Activation:
    """One run of a function: what its variables and its symbols are."""

    prefix: str
    of: ChainMap[graph.Expr, Value]
    sizes: dict[Symbol, Dim] = field(default_factory=dict)
    functions: ChainMap[graph.Expr, _Callee] = field(default_factory=ChainMap)

    def look(self, expr: graph.Expr) -> tuple[Origin, ...]:
        if isinstance(expr.type, FuncType):
            _refuse(expr, "as a value")
        if isinstance(expr, graph.GlobalVar):
            return from_outside(expr)
        if expr not in self.of:
            raise Unsupported(
                f"{graph.show_head(expr)} has no name: liveness takes functions in A-normal form (assay.lower.anf)",
                where=expr.span,
                label="liveness.C7",
            )
        found = self.of[expr]
        assert found is not None, "what calls itself does so as the last thing"
        return found

    def typed(self, of: Type) -> Type:
        return with_dims(of, self.size) if self.sizes else of

    def size(self, d: Dim) -> Dim:
        found = substitute(d, self.sizes) if isinstance(d, Scalar) else d
        return int(found.value) if isinstance(found, Const) else found


@dataclass(frozen=True, eq=False)
class _Callee:
    """A function that can be called: one of the module, or one inside of another, and then the run `around` it."""

    name: str
    function: graph.Function
    around: _Activation | None = None
    own: graph.Var | None = None
    """The variable by which a function inside of another calls itself."""


class _Reader:
    """Follows chains of lets; tasks, so that nothing recurses."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.text = Text()
        self.names: set[str] = set()
        self.count = 0
        self.known = {s for p in module.main.params for s in open_symbols(p.type)}
        """The symbols that have their values when a run begins, and those that were measured."""
        self.measures = 0
        self.measured: set[Symbol] = set()
        """All that are measured, be it in another arm."""
        self.pending: list[list[Item]] = []
        """Of each choice around of which a branch ends in a loop that begins anew: the rest of its text. What comes
        behind it is in the other branch."""
        self.active: dict[graph.Function, Begin | None] = {module.main: None}
        """The functions that are being written out; of one that is a loop, that."""

    def chain(self, body: graph.Expr, at: _Activation, arm: Arm, tail: graph.Function | None) -> Task[Value]:
        """The origins of a chain's result, which is the value of the function `tail` too, if that is said."""
        lets, body = graph.let_chain(body)
        for i, let in enumerate(lets):
            last = i == len(lets) - 1 and body is let.var
            yield from self.bind(let.var, let.value, at, arm, tail if last else None)
        if body in at.of and at.of[body] is None:
            return None
        found = passed(body, at.look)
        return at.look(body) if found is None else found

    def bind(
        self, var: graph.Var, value: graph.Expr, at: _Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[None]:
        match value:
            case graph.CallTIR():
                at.of[var] = self.run(var, value, at, arm)
            case graph.If():
                at.of[var] = yield self.choose(var, value, at, arm, tail)
            case graph.Let():
                at.of[var] = yield self.chain(value, at, arm, tail)
            case graph.MatchCast() if (sizes := self.asserted(value, at)) is not None:
                if sizes:
                    self.add(Assert(sizes, value.span))
                at.of[var] = at.look(value.value)
            case graph.MatchCast(type=ShapeType(dims=dims)) if _is_vector(value.value.type, len(dims)):
                self.measure(value, dims, at)
                at.of[var] = ()
            case graph.Print() | graph.AssertOp():
                self.add(self.effect(value, at))
                at.of[var] = ()
            case graph.Function() if not is_opaque(value):
                at.functions[var] = _Callee(var.name, value, at, var)
            case graph.Var() | graph.GlobalVar() if isinstance(value.type, FuncType):
                at.functions[var] = self.callee(value, at) or _refuse(value, f"in {var.name}")
            case graph.Call() if isinstance(value.op, graph.Expr) and (callee := self.callee(value.op, at)) is not None:
                if callee.function in self.active:
                    self.again(callee, value, at, tail)
                    at.of[var] = None
                else:
                    at.of[var] = yield self.call(callee, var, value, at, arm, tail)
            case _:
                found = passed(value, at.look)
                if found is None:
                    _refuse(value, f"in {var.name}")
                at.of[var] = found

    def choose(
        self, var: graph.Var, value: graph.If, at: _Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[Value]:
        """The origins of a choice. Where one arm ends in a loop that begins anew, they are those of the other."""
        (condition,) = at.look(value.condition)
        item = Choose(condition, value.span)
        self.add(item)
        around = len(self.pending)
        known, sizes = set(self.known), dict(at.sizes)
        then: Value = yield self.chain(value.then, at, (item, 0), tail)
        self.known, at.sizes = known, sizes  # what one arm has measured the other has not
        if then is not None:
            self.add(Close(item, 0))
        first, self.text.items = self.text.items, []
        open_, self.pending[around:] = self.pending[around:], []
        self.add(Otherwise(item))
        otherwise: Value = yield self.chain(value.otherwise, at, arm if then is None else (item, 1), tail)
        if then is None or otherwise is None:
            return self.one_way(item, then, otherwise, first, open_, around)
        self.add(Close(item, 1))
        self.end_all(around)
        self.text.items = [*first, *_ended(open_), *self.text.items]
        self.add(End(item))
        item.arms = then, otherwise
        _require_one_size(value, then, otherwise)
        item.results = choice_origins(self.fresh(var, at), then, otherwise, device_of(var, value))
        self.text.arm_of.update((o, arm) for o in item.results if o.kind == "choice")
        return item.results

    def one_way(
        self, item: Choose, then: Value, otherwise: Value, first: list[Item], open_: list[list[Item]], around: int
    ) -> Value:
        """One branch, or both, ended in a loop that begins anew: what follows is in the other. `first` and `open_` are
        the text of the first branch, and the choices left open in it."""
        one = then if otherwise is None else otherwise
        item.results = one or ()
        item.arms = item.results, item.results
        if then is None:
            self.text.items = [*first, *_ended(open_), *self.text.items]
            self.pending.insert(around, [End(item)])
            if one is None:
                self.end_all(around)
        else:
            self.end_all(around)
            self.pending += [[*self.text.items, End(item)], *open_]
            self.text.items = first
        return one

    def end_all(self, around: int) -> None:
        """End the choices that were left open because of their other branch."""
        self.text.items += _ended(self.pending[around:])
        del self.pending[around:]

    def callee(self, op: graph.Expr, at: _Activation) -> _Callee | None:
        """The function that an operand names, as far as that is known without a run."""
        if not isinstance(op, graph.GlobalVar):
            return at.functions.get(op)
        function = self.module.definitions.get(op.name)
        return _Callee(op.name, function) if isinstance(function, graph.Function) else None

    def call(
        self, callee: _Callee, var: graph.Var, call: graph.Call, at: _Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[Value]:
        """The origins of a call's value: the function's body is written out, as a loop if it calls itself."""
        function = callee.function
        if is_opaque(function):
            raise _kept_whole(callee.name, call.span)
        given = self.arguments(function, call, at)
        inner = self.enter(callee, given, call, var, at)
        kept = _handed_on(callee, self.module, self.active)
        if kept is None:
            self.active[function] = None
            found: Value = yield self.chain(function.body, inner, arm, tail)
            del self.active[function]
            return found
        loop = self.begin(function, given, kept, call, inner)
        self.active[function] = loop
        around = len(self.pending)
        found = yield self.chain(function.body, inner, arm, function)
        del self.active[function]
        self.end_all(around)
        self.add(Leave(loop))
        if found is None:
            _refuse_recursion(callee, call, "has no way to end")
        return found

    def begin(
        self,
        function: graph.Function,
        given: Mapping[graph.Var, tuple[Origin, ...]],
        kept: frozenset[graph.Var],
        call: graph.Call,
        inner: _Activation,
    ) -> Begin:
        """The item with which a loop begins; its variables name what is there whenever it does."""
        carried: list[Origin | None] = []
        for p in function.params:
            if p not in given or p in kept:
                carried += [None] * len(given.get(p, ()))
                continue
            name = self.fresh(p, inner)
            own = tuple(
                Origin(name, i, o.type, "carried", p.device.join(o.device) or o.device) for i, o in enumerate(given[p])
            )
            inner.of[p] = own
            self.text.arm_of.update((o, None) for o in own)
            carried += own
        loop = Begin(tuple(carried), tuple(o for some in given.values() for o in some), call.span)
        self.add(loop)
        return loop

    def again(self, callee: _Callee, call: graph.Call, at: _Activation, tail: graph.Function | None) -> None:
        """A function calls itself: its loop begins anew."""
        loop = self.active[callee.function]
        if loop is None or tail is not callee.function:
            _refuse_recursion(callee, call, "calls itself, and there is more to do when that call is done")
        if any(
            isinstance(p.type, FuncType) and a is not p for p, a in zip(callee.function.params, call.args, strict=True)
        ):
            _refuse_recursion(callee, call, "calls itself with another function than it was called with")
        given = self.arguments(callee.function, call, at)
        values = tuple(o for some in given.values() for o in some)
        for there, o in zip(loop.initial, values, strict=True):
            if not same_size(there.type.shape, o.type.shape):
                _refuse_recursion(callee, call, f"calls itself with {o.type} where it began with {there.type}")
        self.add(Again(loop, values, call.span))

    def measure(self, cast: graph.MatchCast, dims: tuple[Dim, ...], at: _Activation) -> None:
        """Sizes that a vector tells: symbols of this run of the function, and then what is asserted of them."""
        (vector,) = at.look(cast.value)
        self.measures += 1
        symbols = []
        for i, d in enumerate(dims):
            if not isinstance(d, Symbol) or d in self.known or d in at.sizes:
                symbols.append(Symbol(f"size_{self.measures}_{i}"))
                continue
            own = d if d not in self.measured else Symbol(d.name)  # each run of a function has its own
            symbols.append(own)
            if own is not d:
                at.sizes[d] = own
        self.measured.update(symbols)
        self.known.update(symbols)
        self.add(Measured(vector, tuple(symbols), cast.span))
        pairs = [(s, at.size(d)) for s, d in zip(symbols, dims, strict=True) if at.size(d) is not s]
        if pairs:
            self.add(Assert(tuple(pairs), cast.span))

    def effect(self, value: graph.Print | graph.AssertOp, at: _Activation) -> Effect:
        """A print, or an assertion on a value. Unsupported where what is shown is no tensor."""
        odd = next((v for v in value.values if not isinstance(v.type, TensorType)), None)
        if odd is not None:
            raise Unsupported(
                f"{graph.show_head(value)} shows {graph.show_head(odd)}, {odd.type}: a plan shows tensors, and other"
                " values are shown by the interpreter only (assay run)",
                where=value.span,
                label="liveness.C2",
            )
        shown = tuple(at.look(v)[0] for v in value.values)
        condition = at.look(value.condition)[0] if isinstance(value, graph.AssertOp) else None
        return Effect(condition, shown, value.format, value.span)

    def asserted(self, cast: graph.MatchCast, at: _Activation) -> tuple[tuple[Dim, Dim], ...] | None:
        """What a cast of tensors asserts of sizes that are known here; None for any other cast."""
        pairs = cast_sizes(at.typed(cast.value.type), at.typed(cast.type))
        if pairs is None or any(s not in self.known for pair in pairs for d in pair for s in variables(d)):
            return None
        return pairs

    def run(self, var: graph.Var, value: graph.CallTIR, at: _Activation, arm: Arm) -> tuple[Origin, ...]:
        device = device_of(var, value)
        makes = made(self.fresh(var, at), value, device)
        if at.sizes:
            makes = tuple(replace(o, type=flatten(at.typed(o.type))[0]) for o in makes)
        reads = tuple(o for a in value.args for o in at.look(a))
        scalars = tuple(at.size(d) for d in value.scalars)
        types = (*(t for a in value.args for t in flatten(at.typed(a.type))), *(o.type for o in makes))
        self.add(Run(value.func, reads, makes, types, scalars, value.span, device))
        self.text.arm_of.update((o, arm) for o in makes)
        return makes

    def arguments(
        self, function: graph.Function, call: graph.Call, at: _Activation
    ) -> dict[graph.Var, tuple[Origin, ...]]:
        """The origins that a call hands over, but for functions."""
        pairs = zip(function.params, call.args, strict=True)
        return {p: at.look(a) for p, a in pairs if not isinstance(p.type, FuncType)}

    def enter(
        self,
        callee: _Callee,
        given: Mapping[graph.Var, tuple[Origin, ...]],
        call: graph.Call,
        var: graph.Var,
        at: _Activation,
    ) -> _Activation:
        """A function's own names, its parameters being what it is called with."""
        around = callee.around or _Activation("", ChainMap())
        sizes: dict[Symbol, Dim] = dict(around.sizes)
        functions: dict[graph.Expr, _Callee] = {}
        for p, a in zip(callee.function.params, call.args, strict=True):
            if isinstance(p.type, FuncType):
                functions[p] = self.callee(a, at) or _refuse(a, f"in {p.name}")
                continue
            for want, got in zip(flatten(p.type), flatten(at.typed(a.type)), strict=True):
                sizes.update((d, n) for d, n in zip(want.shape, got.shape, strict=True) if isinstance(d, Symbol))
        own: dict[graph.Expr, Value] = dict(given.items())
        return _Activation(
            f"{at.prefix}{var.name}.",
            ChainMap(own, *around.of.maps),
            sizes,
            ChainMap(functions, *around.functions.maps),
        )

    def fresh(self, var: graph.Var, at: _Activation) -> str:
        name = unused(at.prefix + var.name, self.names)
        self.names.add(name)
        return name

    def add(self, item: Item) -> None:
        self.count += 1
        if self.count > MOST:
            raise Unsupported(
                f"main has more than {MOST} calls with those of the functions that it calls written out",
                label="liveness.C5",
            )
        self.text.items.append(item)


_WORDS = {
    graph.Function: "a function inside of a function",
    graph.RefCreate: "a reference",
    graph.RefRead: "a reference that is read",
    graph.RefWrite: "a reference that is written",
    graph.Match: "a match",
}


def _require_one_size(value: graph.If, then: tuple[Origin, ...], otherwise: tuple[Origin, ...]) -> None:
    for a, b in zip(then, otherwise, strict=True):
        if not same_size(a.type.shape, b.type.shape):
            raise Unsupported(
                f"a choice of {a.type} or {b.type}: sizes that only a run tells are not planned; they are run by the"
                " interpreter (assay run), and judged (assay judge)",
                where=value.span,
                label="liveness.C2",
            )


def _ended(pending: list[list[Item]]) -> list[Item]:
    """The rest of the text of choices that were left open, from the inside."""
    return [item for some in reversed(pending) for item in some]


def _handed_on(callee: _Callee, module: Module, active: Container[graph.Function]) -> frozenset[graph.Var] | None:
    """Of a function that calls itself, the parameters that each such call hands on as they are; None if it does not.

    A function of the module may do so by way of others, but for those that are being written out: then nothing is known
    of what they hand on.
    """
    function = callee.function
    own = [n for n in post_order(function.body) if isinstance(n, graph.Call) and _names(n.op, callee)]
    kept = set(function.params)
    for call in own:
        kept &= {p for p, a in zip(function.params, call.args, strict=True) if a is p}
    if callee.around is None:

        def called(of: graph.Function) -> list[graph.Function]:
            named = (module.definitions.get(n.name) for n in post_order(of.body) if isinstance(n, graph.GlobalVar))
            return [f for f in named if isinstance(f, graph.Function) and f not in active]

        if function in reached([f for f in called(function) if f is not function], called):
            return frozenset()
    return frozenset(kept) if own else None


def _names(op: object, callee: _Callee) -> bool:
    """Whether an operand is the function by its own name."""
    if callee.around is not None:
        return op is callee.own
    return isinstance(op, graph.GlobalVar) and op.name == callee.name


def _refuse_recursion(callee: _Callee, call: graph.Call, why: str) -> NoReturn:
    raise Unsupported(
        f"{callee.name} {why}: a function that calls itself is planned as a loop, where each such call is the last"
        " thing that it does, with arguments of the sizes that it began with; others are run by the interpreter (assay"
        " run), and judged (assay judge)",
        where=call.span,
        label="liveness.C3",
    )


def _refuse(value: graph.Expr, where: str) -> NoReturn:
    what = f"{_WORDS[type(value)]}, {value.type}," if type(value) in _WORDS else graph.show_head(value)
    raise Unsupported(
        f"{what} {where}: a plan has calls of tensor functions, choices, loops and calls of functions that are known,"
        " on tensors and tuples of them. Functions that only a run tells, references, data types and matches are run"
        " by the interpreter only (assay run)",
        where=value.span,
        label="liveness.C2",
    )
