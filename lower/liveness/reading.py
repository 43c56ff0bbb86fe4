"""`main` as a text of calls and choices over origins (specs/lower.md, "liveness").

Calls of other functions of the module are replaced by what they do, anew at each call; what bytes a variable names is
the relation of `assay.semantics.alias`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

from assay.semantics import graph
from assay.semantics.alias import Origin, choice_origins, device_of, from_outside, made, passed
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph.effects import is_opaque
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Const, Dim, Expr as Scalar, Var as Symbol, substitute, variables
from assay.semantics.size_facts import cast_sizes
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import FuncType, TensorType, Type, flatten, open_symbols, with_dims

MOST = 1_000_000
"""Calls that a text may have: functions that call functions twice could make any number."""

Arm: TypeAlias = "tuple[Choose, int] | None"


@dataclass(frozen=True, eq=False)
class Run:
    """A call of a tensor function. `types` are those of what it reads and makes, as the call names them: what it reads
    may be a view."""

    kernel: str
    reads: tuple[Origin, ...]
    makes: tuple[Origin, ...]
    types: tuple[TensorType, ...]
    scalars: tuple[Dim, ...]
    span: Span | None
    device: VirtualDevice


@dataclass(eq=False)
class Choose:
    """A choice by a boolean. `results` are its origins, `arms` those that its branches give for them."""

    condition: Origin
    span: Span | None
    results: tuple[Origin, ...] = ()
    arms: tuple[tuple[Origin, ...], tuple[Origin, ...]] = ((), ())


@dataclass(frozen=True)
class Otherwise:
    """Here the first branch of a choice ends, and the second begins."""

    of: Choose


@dataclass(frozen=True)
class End:
    """The end of a choice in the text."""

    of: Choose


@dataclass(frozen=True, eq=False)
class Assert:
    """Sizes that have to be equal here, by pairs: found, and wanted."""

    sizes: tuple[tuple[Dim, Dim], ...]
    span: Span | None


Item: TypeAlias = Assert | Run | Choose | Otherwise | End


@dataclass(eq=False)
class Text:
    """The items in order, the origins of the result, and for each origin that an item makes the arm that it is made
    in."""

    items: list[Item] = field(default_factory=list)
    result: tuple[Origin, ...] = ()
    arm_of: dict[Origin, Arm] = field(default_factory=dict)


def read_main(module: Module) -> Text:
    """The text of `main`. Unsupported for what has no static plan: the message names it."""
    reader = _Reader(module)
    main = module.main
    if is_opaque(main):
        raise _kept_whole("main", main.span)
    at = _Activation("", {p: _given(p) for p in main.params})
    reader.text.result = run_task(reader.chain(main.body, at, None))
    return reader.text


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
    of: dict[graph.Expr, tuple[Origin, ...]]
    sizes: dict[Symbol, Dim] = field(default_factory=dict)
    functions: dict[graph.Expr, str] = field(default_factory=dict)

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
        return self.of[expr]

    def typed(self, of: Type) -> Type:
        return with_dims(of, self.size) if self.sizes else of

    def size(self, d: Dim) -> Dim:
        found = substitute(d, self.sizes) if isinstance(d, Scalar) else d
        return int(found.value) if isinstance(found, Const) else found


class _Reader:
    """Follows chains of lets; tasks, so that nothing recurses."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.text = Text()
        self.names: set[str] = set()
        self.entry = {s for p in module.main.params for s in open_symbols(p.type)}
        """The symbols that have their values when a run begins."""
        self.active = {"main"}
        """The functions that are being written out."""

    def chain(self, body: graph.Expr, at: _Activation, arm: Arm) -> Task[tuple[Origin, ...]]:
        """The origins of a chain's result."""
        lets, body = graph.let_chain(body)
        for let in lets:
            yield from self.bind(let.var, let.value, at, arm)
        found = passed(body, at.look)
        return at.look(body) if found is None else found

    def bind(self, var: graph.Var, value: graph.Expr, at: _Activation, arm: Arm) -> Task[None]:
        match value:
            case graph.CallTIR():
                at.of[var] = self.run(var, value, at, arm)
            case graph.If():
                (condition,) = at.look(value.condition)
                item = Choose(condition, value.span)
                self.add(item)
                then = yield self.chain(value.then, at, (item, 0))
                self.add(Otherwise(item))
                otherwise = yield self.chain(value.otherwise, at, (item, 1))
                self.add(End(item))
                item.arms = then, otherwise
                _require_one_size(value, then, otherwise)
                item.results = choice_origins(self.fresh(var, at), then, otherwise, device_of(var, value))
                self.text.arm_of.update((o, arm) for o in item.results if o.kind == "choice")
                at.of[var] = item.results
            case graph.Let():
                at.of[var] = yield self.chain(value, at, arm)
            case graph.MatchCast() if (sizes := self.asserted(value, at)) is not None:
                if sizes:
                    self.add(Assert(sizes, value.span))
                at.of[var] = at.look(value.value)
            case graph.Var() | graph.GlobalVar() if isinstance(value.type, FuncType):
                at.functions[var] = value.name if isinstance(value, graph.GlobalVar) else at.functions[value]
            case graph.Call() if isinstance(value.op, graph.GlobalVar) or value.op in at.functions:
                name = value.op.name if isinstance(value.op, graph.GlobalVar) else at.functions[value.op]
                inner, body = self.enter(name, value, var, at)
                self.active.add(name)
                at.of[var] = yield self.chain(body, inner, arm)
                self.active.remove(name)
            case _:
                found = passed(value, at.look)
                if found is None:
                    _refuse(value, f"in {var.name}", var)
                at.of[var] = found

    def asserted(self, cast: graph.MatchCast, at: _Activation) -> tuple[tuple[Dim, Dim], ...] | None:
        """What a cast of tensors asserts of sizes that are known at entry; None for any other cast."""
        pairs = cast_sizes(at.typed(cast.value.type), at.typed(cast.type))
        if pairs is None or any(s not in self.entry for pair in pairs for d in pair for s in variables(d)):
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

    def enter(self, name: str, call: graph.Call, var: graph.Var, at: _Activation) -> tuple[_Activation, graph.Expr]:
        """A function's own names, its parameters being what it is called with; and its body."""
        function = self.module.definitions.get(name)
        if not isinstance(function, graph.Function):
            _refuse(call, f"in {var.name}")
        if name in self.active:
            raise Unsupported(
                f"{name} calls itself: a plan has all calls written out, so only functions that do not come back to"
                " themselves can be planned",
                where=call.span,
                label="liveness.C3",
            )
        if is_opaque(function):
            raise _kept_whole(name, call.span)
        of: dict[graph.Expr, tuple[Origin, ...]] = {}
        sizes: dict[Symbol, Dim] = {}
        functions: dict[graph.Expr, str] = {}
        for p, a in zip(function.params, call.args, strict=True):
            if isinstance(p.type, FuncType):
                if not (isinstance(a, graph.GlobalVar) or a in at.functions):
                    _refuse(a, f"in {p.name}")
                functions[p] = a.name if isinstance(a, graph.GlobalVar) else at.functions[a]
                continue
            of[p] = at.look(a)
            for want, got in zip(flatten(p.type), flatten(at.typed(a.type)), strict=True):
                sizes.update((d, n) for d, n in zip(want.shape, got.shape, strict=True) if isinstance(d, Symbol))
        return _Activation(f"{at.prefix}{var.name}.", of, sizes, functions), function.body

    def fresh(self, var: graph.Var, at: _Activation) -> str:
        name = unused(at.prefix + var.name, self.names)
        self.names.add(name)
        return name

    def add(self, item: Item) -> None:
        if len(self.text.items) >= MOST:
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
    graph.Print: "a print",
    graph.AssertOp: "an assertion",
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


def _refuse(value: graph.Expr, where: str, var: graph.Var | None = None) -> NoReturn:
    what = f"{_WORDS[type(value)]}, {value.type}," if type(value) in _WORDS else graph.show_head(value)
    if isinstance(value, graph.Function) and var is not None and var in graph.free_variables(value):
        what = f"a loop, or another function that calls itself, {value.type},"
    raise Unsupported(
        f"{what} {where}: a plan has calls of tensor functions, choices and calls of functions of the module, on"
        " tensors and tuples of them. Loops, closures, references, data types, matches, prints and assertions are run"
        " by the interpreter only (assay run)",
        where=value.span,
        label="liveness.C2",
    )
