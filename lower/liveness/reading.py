"""`main` as a text of calls and choices over origins (specs/lower.md, "liveness").

Calls of other functions are replaced by what they do, anew at each call; one that calls itself is a loop. What bytes a
variable names is the relation of `assay.semantics.alias`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace

from assay.lower.liveness.activation import Activation, Callee, handed_on, refuse_recursion, refuse_value, require_types
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
    Resized,
    Run,
    Text,
    Typed,
    Value,
)
from assay.semantics import graph
from assay.semantics.alias import Origin, choice_origins, device_of, made, passed
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph.effects import is_opaque
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.scalar.structure import Interner
from assay.semantics.size_facts import cast_sizes
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import FuncType, ShapeType, TensorType, Type, flatten, open_symbols

MOST = 1_000_000
"""Calls that a text may have: functions that call functions twice could make any number."""


def read_main(module: Module) -> Text:
    """The text of `main`. Unsupported for what has no static plan: the message names it."""
    main = module.main
    if is_opaque(main):
        raise _kept_whole("main", main.span)
    changing: set[tuple[graph.Function, Symbol]] = set()
    while True:
        reader = _Reader(module, changing)
        at = Activation("", reader.given, ChainMap({p: _given(p) for p in main.params}))
        try:
            found: Typed = run_task(reader.chain(main.body, at, None, None))
        except _Changes as found_out:  # each time one symbol more, so that ends
            changing.update(found_out.symbols)
            continue
        assert found is not None, "main is no loop"
        reader.meet([main.result_type], found[1], at, main.span)
        reader.text.result = found[0]
        reader.text.types = tuple(flatten(at.typed(main.result_type)))
        for of, made_of in zip(flatten(main.result_type), reader.text.types, strict=True):
            for d, e in zip(of.shape, made_of.shape, strict=True):
                if isinstance(d, Symbol) and e in reader.measured and d.name not in reader.size_names:
                    reader.text.names.setdefault(e, d)
        return reader.text


class _Changes(Exception):
    """A function calls itself with other sizes than it began with."""

    def __init__(self, symbols: Collection[tuple[graph.Function, Symbol]]) -> None:
        super().__init__()
        self.symbols = symbols


def _is_vector(of: Type, count: int) -> bool:
    return isinstance(of, TensorType) and of.dtype is INT64 and of.shape == (count,)


def _kept_whole(name: str, where: Span | None) -> Unsupported:
    what = f"{name} is marked as a primitive or for another compiler: what it needs is not known here"
    return Unsupported(what, where=where, label="liveness.C4")


def _given(param: graph.Var) -> tuple[Origin, ...]:
    if not isinstance(param.type, TensorType):
        raise Unsupported(f"parameter {param.name} is {param.type}: only tensors can be planned", label="liveness.C1")
    return (Origin(param.name, 0, param.type, "parameter", param.device),)


class _Reader:
    """Follows chains of lets; tasks, so that nothing recurses."""

    def __init__(self, module: Module, changing: Set[tuple[graph.Function, Symbol]]) -> None:
        self.module = module
        self.changing = changing
        """The symbols of functions that call themselves which those calls change."""
        self.text = Text()
        self.names: set[str] = set()
        self.count = 0
        self.given = {s for p in module.main.params for s in open_symbols(p.type)}
        """The symbols that have their values when a run begins."""
        self.measures = 0
        self.size_names = {s.name for s in self.given}
        self.measured: set[Symbol] = set()
        """All that are measured, be it in another arm."""
        self.pending: list[list[Item]] = []
        """Of each choice around of which a branch ends in a loop that begins anew: the rest of its text. What comes
        behind it is in the other branch."""
        self.active: dict[graph.Function, Begin | None] = {module.main: None}
        """The functions that are being written out; of one that is a loop, that."""
        self.begun: dict[Begin, dict[Symbol, Dim]] = {}
        """What the symbols of a function were when its loop began."""

    def chain(self, body: graph.Expr, at: Activation, arm: Arm, tail: graph.Function | None) -> Task[Typed]:
        """A chain's result, which is the value of the function `tail` too, if that is said."""
        lets, body = graph.let_chain(body)
        for i, let in enumerate(lets):
            last = i == len(lets) - 1 and body is let.var
            yield from self.bind(let.var, let.value, at, arm, tail if last else None)
        if body in at.of and at.of[body] is None:
            return None
        found = passed(body, at.look)
        return at.look(body) if found is None else found, tuple(flatten(at.typed(body.type)))

    def meet(self, declared: Sequence[Type], types: Sequence[TensorType], at: Activation, where: Span | None) -> None:
        """Tensors of some types have declared types: symbols get their values, and what is left is asserted (M4.2)."""
        pairs = at.meet(declared, types)
        if pairs is None:
            what = f"{', '.join(map(str, declared))} has a size that nothing tells before it is used"
            raise Unsupported(what, where=where, label="liveness.C11")
        if pairs:
            self.add(Assert(pairs, where))

    def bind(
        self, var: graph.Var, value: graph.Expr, at: Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[None]:
        match value:
            case graph.CallTIR():
                at.of[var] = self.run(var, value, at, arm)
            case graph.If():
                at.of[var] = self.met(value, (yield self.choose(var, value, at, arm, tail)), at)
            case graph.Let():
                at.of[var] = self.met(value, (yield self.chain(value, at, arm, tail)), at)
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
                at.functions[var] = Callee(var.name, value, at, var)
            case graph.Var() | graph.GlobalVar() if isinstance(value.type, FuncType):
                at.functions[var] = self.callee(value, at) or refuse_value(value, f"in {var.name}")
            case graph.Call() if isinstance(value.op, graph.Expr) and (callee := self.callee(value.op, at)) is not None:
                if callee.function in self.active:
                    self.again(callee, value, at, tail)
                    at.of[var] = None
                else:
                    at.of[var] = self.met(value, (yield self.call(callee, var, value, at, arm, tail)), at)
            case _:
                found = passed(value, at.look)
                if found is None:
                    refuse_value(value, f"in {var.name}")
                at.of[var] = found

    def met(self, value: graph.Expr, found: Typed, at: Activation) -> Value:
        """The origins of a value, which has the type that its expression has."""
        if found is None:
            return None
        self.meet([value.type], found[1], at, value.span)
        return found[0]

    def choose(
        self, var: graph.Var, value: graph.If, at: Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[Typed]:
        """The origins of a choice. Where one arm ends in a loop that begins anew, they are those of the other."""
        (condition,) = at.look(value.condition)
        item = Choose(condition, value.span)
        self.add(item)
        before_items, self.text.items = self.text.items, []
        around = len(self.pending)
        before = dict(at.sizes)
        known = self.given | self.measured
        then: Typed = yield self.chain(value.then, at, (item, 0), tail)
        left, at.sizes = at.sizes, dict(before)  # what one arm has measured the other has not
        first, self.text.items = self.text.items, []
        open_, self.pending[around:] = self.pending[around:], []
        otherwise: Typed = yield self.chain(value.otherwise, at, arm if then is None else (item, 1), tail)
        if then is None or otherwise is None:
            if then is not None:
                first.append(Close(item, 0))
                at.sizes = left
            first = [*before_items, *first]
            return self.one_way(item, then, otherwise, first, open_, around)
        at.sizes = before
        types, told = self.joined(item, flatten(value.type), then[1], otherwise[1])
        second, self.text.items = self.text.items, []
        arms = []
        for side, (text, size) in enumerate(zip((first, second), told, strict=True)):
            early = size is not None and all(v in known for d in size.values for v in variables(d))
            if size is not None and early:  # what the arm makes can be made where the result is wanted
                item.told[side].update(zip(size.symbols, size.values, strict=True))
            told_at = [] if size is None else [size]
            arms.append([*told_at, *text] if early else [*text, *told_at])
        self.text.items = [*before_items, *arms[0], Close(item, 0), *_ended(open_), Otherwise(item), *arms[1]]
        self.add(Close(item, 1))
        self.end_all(around)
        self.add(End(item))
        item.arms = then[0], otherwise[0]
        made = choice_origins(self.fresh(var, at), *item.arms, device_of(var, value))
        sizes = zip(made, types, then[1], otherwise[1], strict=True)
        item.results = tuple(
            o if o.kind != "choice" or same_size(a.shape, b.shape) else replace(o, type=t) for o, t, a, b in sizes
        )
        self.text.arm_of.update((o, arm) for o in item.results if o.kind == "choice")
        return item.results, types

    def joined(
        self, item: Choose, declared: Sequence[TensorType], then: Sequence[TensorType], otherwise: Sequence[TensorType]
    ) -> tuple[tuple[TensorType, ...], Sequence[Resized | None]]:
        """The types of a choice whose arms have these, and what tells in each arm the sizes that the other has not."""
        number = Interner()
        own: dict[tuple[int, int], tuple[Symbol, Dim, Dim]] = {}
        types: list[TensorType] = []
        for of, a, b in zip(declared, then, otherwise, strict=True):
            shape: list[Dim] = []
            for d, x, y in zip(of.shape, a.shape, b.shape, strict=True):
                key = number(x), number(y)
                if not provably_equal(x, y) and key not in own:
                    own[key] = self.symbol(d), x, y
                shape.append(own[key][0] if key in own else x)
            types.append(TensorType(tuple(shape), of.dtype))
        if not own:
            return tuple(types), (None, None)
        symbols, ones, others = zip(*own.values(), strict=True)
        return tuple(types), [Resized(symbols, tuple(values), item, item.span) for values in (ones, others)]

    def symbol(self, declared: Dim) -> Symbol:
        """A symbol for a size that the run measures, by the name that it has in the source."""
        found = declared if isinstance(declared, Symbol) else Symbol("size")
        name = unused(found.name, self.size_names)
        if found in self.measured or found in self.given or name != found.name:
            found = Symbol(name)
        self.size_names.add(name)
        self.measured.add(found)
        return found

    def one_way(
        self, item: Choose, then: Typed, otherwise: Typed, first: list[Item], open_: list[list[Item]], around: int
    ) -> Typed:
        """One branch, or both, ended in a loop that begins anew: what follows is in the other. `first` and `open_` are
        the text of the first branch, and the choices left open in it."""
        one = then if otherwise is None else otherwise
        item.results = one[0] if one is not None else ()
        item.arms = item.results, item.results
        if then is None:
            self.text.items = [*first, *_ended(open_), Otherwise(item), *self.text.items]
            self.pending.insert(around, [End(item)])
            if one is None:
                self.end_all(around)
        else:
            self.end_all(around)
            self.pending += [[Otherwise(item), *self.text.items, End(item)], *open_]
            self.text.items = first
        return one

    def end_all(self, around: int) -> None:
        """End the choices that were left open because of their other branch."""
        self.text.items += _ended(self.pending[around:])
        del self.pending[around:]

    def callee(self, op: graph.Expr, at: Activation) -> Callee | None:
        """The function that an operand names, as far as that is known without a run."""
        if not isinstance(op, graph.GlobalVar):
            return at.functions.get(op)
        function = self.module.definitions.get(op.name)
        return Callee(op.name, function) if isinstance(function, graph.Function) else None

    def call(
        self, callee: Callee, var: graph.Var, call: graph.Call, at: Activation, arm: Arm, tail: graph.Function | None
    ) -> Task[Typed]:
        """The origins of a call's value: the function's body is written out, as a loop if it calls itself."""
        function = callee.function
        if is_opaque(function):
            raise _kept_whole(callee.name, call.span)
        require_types(callee, call)
        given = self.arguments(function, call, at)
        inner = self.enter(callee, given, call, f"{at.prefix}{var.name}.", at)
        kept = handed_on(callee, self.module, self.active)
        if kept is None:
            self.active[function] = None
            found: Typed = yield self.chain(function.body, inner, arm, tail)
            del self.active[function]
            return self.returned(function, found, inner)
        loop = self.begin(callee, given, kept, call, inner)
        self.active[function] = loop
        around = len(self.pending)
        found = yield self.chain(function.body, inner, arm, function)
        found = self.returned(function, found, inner)
        del self.active[function]
        self.end_all(around)
        self.add(Leave(loop))
        if found is None:
            refuse_recursion(callee, call, "has no way to end")
        return found

    def returned(self, function: graph.Function, found: Typed, at: Activation) -> Typed:
        """What a function gives, which has its declared type (M4.3)."""
        if found is not None:
            self.meet([function.result_type], found[1], replace(at, sizes=dict(at.sizes)), function.span)
        return found

    def begin(
        self,
        callee: Callee,
        given: Mapping[graph.Var, tuple[Origin, ...]],
        kept: frozenset[graph.Var],
        call: graph.Call,
        inner: Activation,
    ) -> Begin:
        """The item with which a loop begins; its variables name what is there whenever it does."""
        function = callee.function
        begun = {v: inner.sizes[v] for v in _symbols(function) if v in inner.sizes}
        changes = [v for v in begun if (function, v) in self.changing]
        after = {v: self.symbol(Symbol(f"{callee.name}.{v.name}")) for v in changes}
        here = {v: self.symbol(Symbol(f"{v.name}_here")) for v in changes}
        if changes:
            self.add(Resized(tuple(after.values()), tuple(begun[v] for v in changes), None, call.span))
        inner.sizes.update(here)
        carried: list[Origin | None] = []
        taken: list[tuple[Origin, Origin]] = []
        for p in function.params:
            if p not in given or p in kept:
                carried += [None] * len(given.get(p, ()))
                continue
            name = self.fresh(p, inner)
            own = []
            for i, (o, t) in enumerate(zip(given[p], flatten(p.type), strict=True)):
                origin = Origin(name, i, o.type, "carried", p.device.join(o.device) or o.device)
                handed = origin
                if any(v in here for d in t.shape for v in variables(d)):
                    ahead = TensorType(tuple(replaced(d, {**inner.sizes, **after}) for d in t.shape), t.dtype)
                    origin = replace(origin, type=flatten(inner.typed(t))[0])
                    handed = replace(origin, name=self.unique(f"{name}.next"), type=ahead)
                    taken.append((handed, origin))
                own.append(origin)
                carried.append(handed)
            inner.of[p] = tuple(own)
            self.text.arm_of.update((o, None) for o in own)
        before = tuple(o for some in given.values() for o in some)
        sizes = tuple((v, after[v], here[v]) for v in changes)
        loop = Begin(tuple(carried), before, call.span, sizes, tuple(taken))
        self.begun[loop] = begun
        self.add(loop)
        return loop

    def again(self, callee: Callee, call: graph.Call, at: Activation, tail: graph.Function | None) -> None:
        """A function calls itself: its loop begins anew."""
        function = callee.function
        loop = self.active[function]
        if loop is None or tail is not function:
            refuse_recursion(callee, call, "calls itself, and there is more to do when that call is done")
        if any(isinstance(p.type, FuncType) and a is not p for p, a in zip(function.params, call.args, strict=True)):
            refuse_recursion(callee, call, "calls itself with another function than it was called with")
        inner = self.enter(callee, {}, call, at.prefix, at)
        sizes = {v: inner.sizes[v] for v in _symbols(function) if v in inner.sizes}
        begun = self.begun[loop]
        changes = {(function, s) for s, n in sizes.items() if not provably_equal(begun.get(s, n), n)}
        if not changes <= self.changing:
            raise _Changes(changes)
        given = self.arguments(function, call, at)
        values = tuple(o for some in given.values() for o in some)
        if loop.sizes:
            symbols = tuple(v for _, v, _ in loop.sizes)
            self.add(Resized(symbols, tuple(sizes[own] for own, _, _ in loop.sizes), None, call.span))
        self.add(Again(loop, values, call.span))

    def measure(self, cast: graph.MatchCast, dims: tuple[Dim, ...], at: Activation) -> None:
        """Sizes that a vector tells: symbols of this run of the function, and then what is asserted of them."""
        (vector,) = at.look(cast.value)
        self.measures += 1
        symbols = []
        for i, d in enumerate(dims):
            if isinstance(d, Symbol) and not at.is_known(d):
                symbols.append(self.symbol(d))
                at.sizes[d] = symbols[-1]
            else:
                symbols.append(self.symbol(Symbol(f"size_{self.measures}_{i}")))
        self.add(Measured(vector, tuple(symbols), cast.span))
        pairs = [(s, at.size(d)) for s, d in zip(symbols, dims, strict=True) if at.size(d) is not s]
        if pairs:
            self.add(Assert(tuple(pairs), cast.span))

    def effect(self, value: graph.Print | graph.AssertOp, at: Activation) -> Effect:
        """A print, or an assertion on a value. Unsupported where what is shown is no tensor."""
        odd = next((v for v in value.values if not isinstance(v.type, TensorType)), None)
        if odd is not None:
            raise Unsupported(
                f"{graph.show_head(value)} shows {graph.show_head(odd)}, {odd.type}: a plan shows tensors, and other"
                " values are shown by the interpreter and the virtual machine only (--vm)",
                where=value.span,
                label="liveness.C2",
            )
        shown = tuple(at.look(v)[0] for v in value.values)
        condition = at.look(value.condition)[0] if isinstance(value, graph.AssertOp) else None
        return Effect(condition, shown, value.format, value.span)

    def asserted(self, cast: graph.MatchCast, at: Activation) -> tuple[tuple[Dim, Dim], ...] | None:
        """What a cast of tensors asserts of sizes that are known here; None for any other cast."""
        if cast_sizes(cast.value.type, cast.type) is None:
            return None
        return at.meet([cast.type], flatten(at.typed(cast.value.type)))

    def run(self, var: graph.Var, value: graph.CallTIR, at: Activation, arm: Arm) -> tuple[Origin, ...]:
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
        self, function: graph.Function, call: graph.Call, at: Activation
    ) -> dict[graph.Var, tuple[Origin, ...]]:
        """The origins that a call hands over, but for functions."""
        pairs = zip(function.params, call.args, strict=True)
        return {p: at.look(a) for p, a in pairs if not isinstance(p.type, FuncType)}

    def enter(
        self,
        callee: Callee,
        given: Mapping[graph.Var, tuple[Origin, ...]],
        call: graph.Call,
        prefix: str,
        at: Activation,
    ) -> Activation:
        """A function's own names, its parameters being what it is called with."""
        around = callee.around or Activation("", (), ChainMap())
        inner = Activation(
            prefix,
            around.given,
            ChainMap({}, *around.of.maps),
            dict(around.sizes),
            ChainMap({}, *around.functions.maps),
        )
        inner.of.update(given.items())
        pairs = list(zip(callee.function.params, call.args, strict=True))
        for p, a in pairs:
            if isinstance(p.type, FuncType):
                inner.functions[p] = self.callee(a, at) or refuse_value(a, f"in {p.name}")
        data = [(p.type, flatten(at.typed(a.type))) for p, a in pairs if not isinstance(p.type, FuncType)]
        self.meet([of for of, _ in data], [t for _, some in data for t in some], inner, call.span)
        return inner

    def fresh(self, var: graph.Var, at: Activation) -> str:
        return self.unique(at.prefix + var.name)

    def unique(self, wanted: str) -> str:
        """A name that nothing else has here."""
        name = unused(wanted, self.names)
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


def _symbols(function: graph.Function) -> list[Symbol]:
    """The symbols in the types of a function's parameters."""
    return [v for p in function.params if not isinstance(p.type, FuncType) for v in open_symbols(p.type)]


def _ended(pending: list[list[Item]]) -> list[Item]:
    """The rest of the text of choices that were left open, from the inside."""
    return [item for some in reversed(pending) for item in some]
