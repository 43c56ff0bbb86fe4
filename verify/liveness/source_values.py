"""What a graph function computes, tensor by tensor, as numbers (specs/verify.md, "liveness").

The function is in A-normal form. Lets, tuples, projections and views vanish; a call of a graph function of the module
is that function's body; an `If` is, for each tensor of its value, a choice between the two that its branches give. What
may trap is kept in its order and in its branch. This reads the graph; `assay.verify.liveness.program` compares a
program with it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import INT64
from assay.semantics.graph.effects import can_fail, kernel_can_trap
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import FuncType, ShapeType, TensorType, TupleType, Type, flatten
from assay.semantics.walk import post_order, reached
from assay.verify.liveness.events import Numbers, TrapEvents, carried_size, choice, chosen_size
from assay.verify.value_numbering import step_results
from assay.verify.value_numbering.nesting import UndecidedNumbering
from assay.verify.value_numbering.terms import Table

Value: TypeAlias = "Numbers | None"
"""What an expression gives: None where nothing comes back, for a loop begins anew instead."""
Typed: TypeAlias = "tuple[Numbers, list[TensorType]] | None"
"""The same with the types of the tensors, in the symbols of `main`."""


def is_vector(of: Type, count: int) -> bool:
    """Whether sizes can be read from values of a type: so many whole numbers."""
    return isinstance(of, TensorType) and of.dtype is INT64 and of.shape == (count,)


def there(table: Table, number: int, device: VirtualDevice) -> int:
    """The number of a value in the memory of a device: the same bits on two devices are two values."""
    return number if device == ANYWHERE else table.number("on", number, repr(device))


def copied(kernel: PrimFunc, reads: Sequence[int], device: VirtualDevice, table: Table) -> list[int]:
    """What a device_copy to a device gives; nothing if the tensor function does not claim to be one."""
    if kernel.attrs.get("operator") != "device_copy":
        return []
    return [table.number("on", reads[0], repr(device))]


@dataclass
class Computed:
    """The numbers of a function's result, the events of its body, and every call of a tensor function in it."""

    result: Numbers
    events: Numbers
    calls: list[tuple[graph.CallTIR, Numbers]]
    devices: dict[int, set[VirtualDevice]]
    """The devices on which a value is computed, by the number of its first tensor."""
    types: Sequence[TensorType]
    """What the results are, in the symbols of the parameters and in those that stand for what is measured."""


@dataclass(frozen=True)
class Carried:
    """What a program says of a loop: of each variable the slot that it is handed over in, "" for one of which it says
    that it is the same in each iteration; and which dims it changes: pairs of a variable and an axis. That is shown
    here, not believed."""

    slots: Sequence[str]
    sizes: Collection[tuple[int, int]] = ()


def computed(function: graph.Function, module: Module, table: Table, loops: Sequence[Carried] = ()) -> Computed:
    """Number a function whose parameters are tensors; Undecided for what no program does. `loops` are the loops of the
    program, in the order of the text."""
    reader = _Reader(module, table, loops)
    env: dict[graph.Expr, Value] = {p: (table.number("parameter", i),) for i, p in enumerate(function.params)}
    told = {s for p in function.params for t in flatten(p.type) for d in t.shape for s in variables(d)}
    names = _Names(ChainMap(env), told)
    result: Typed = run_task(reader.body(function.body, names))
    if result is None or reader.count != len(loops):
        raise UndecidedNumbering(f"{len(loops)} loops in the program, {reader.count} functions that call themselves")
    reader.require(names, flatten(function.result_type), result[1], function)
    types = [
        TensorType(tuple(replaced(d, names.sizes) for d in t.shape), t.dtype) for t in flatten(function.result_type)
    ]
    return Computed(result[0], reader.events.leave(), reader.calls, reader.devices, types)


@dataclass(frozen=True, eq=False)
class _Callee:
    """A function that is called by a name that is known: one of the module, or one inside, with what is around it."""

    function: graph.Function
    around: _Names | None = None
    own: graph.Var | None = None
    """The variable of a function inside, by which it may call itself."""


@dataclass(frozen=True, eq=False)
class _Names:
    """One run of a function: what its variables hold, what its symbols are, and which functions they are."""

    holds: ChainMap[graph.Expr, Value]
    told: Collection[Symbol] = ()
    """The symbols that have values when a run begins, where the function is `main` or inside of it."""
    sizes: dict[Symbol, Dim] = field(default_factory=dict)
    functions: ChainMap[graph.Expr, _Callee] = field(default_factory=ChainMap)

    def function(self, node: graph.Expr | Operator, module: Module) -> _Callee | None:
        """The function that a node names, if that is known."""
        if isinstance(node, graph.GlobalVar):
            found = module.definitions.get(node.name)
            return _Callee(found) if isinstance(found, graph.Function) else None
        return self.functions.get(node) if isinstance(node, graph.Expr) else None

    def types(self, nodes: Sequence[graph.Expr]) -> list[TensorType]:
        """The types of the tensors in some values, in the caller's symbols."""
        flat = [t for n in nodes for t in flatten(n.type)]
        return (
            [TensorType(tuple(replaced(d, self.sizes) for d in t.shape), t.dtype) for t in flat] if self.sizes else flat
        )

    def meet(self, wanted: Sequence[TensorType], found: Sequence[TensorType]) -> list[tuple[Dim, Dim]] | None:
        """Values of some types, in the symbols of the caller, are to have others: what has to be equal for that. The
        first whole dim that is a symbol without a value gives it one (M4.2). None where a dim has no value then."""

        def is_open(dim: Dim) -> bool:
            return any(v not in self.sizes and v not in self.told for v in variables(dim))

        pairs = [p for a, b in zip(found, wanted, strict=True) for p in zip(a.shape, b.shape, strict=True)]
        for a, b in pairs:
            if isinstance(b, Symbol) and is_open(b):
                self.sizes[b] = a
        if any(is_open(b) for _, b in pairs):
            return None
        both = ((a, replaced(b, self.sizes)) for a, b in pairs)
        return [(a, b) for a, b in both if not provably_equal(a, b)]


@dataclass(eq=False)
class _Loop:
    """A function that is being read as a loop: its number, what its variables are before and where it begins, and
    whether it has begun anew somewhere."""

    number: int
    initial: Numbers
    header: Numbers
    functions: Mapping[graph.Expr, _Callee]
    """The functions that it was handed, and has to hand on."""
    before: Mapping[Symbol, Dim]
    """What its symbols are before."""
    changing: Sequence[Symbol]
    """Those of which the program says that they change."""
    again: bool = False


class _Reader:
    def __init__(self, module: Module, table: Table, loops: Sequence[Carried]) -> None:
        self.module, self.table = module, table
        self.events = TrapEvents(table)
        self.calls: list[tuple[graph.CallTIR, Numbers]] = []
        self.devices: dict[int, set[VirtualDevice]] = {}
        self.loops = loops
        self.count = 0
        """The loops that were met."""
        self.inside: dict[graph.Function, _Loop | None] = {}
        """The functions whose bodies are around; of one that calls itself, its loop."""

    def body(self, expr: graph.Expr, env: _Names) -> Task[Typed]:
        """The value of a chain of lets, and the types of its tensors."""
        lets, result = graph.let_chain(expr)
        for let in lets:
            if isinstance(let.value, graph.Function):
                env.functions[let.var] = _Callee(let.value, env, let.var)
            elif isinstance(let.var.type, FuncType):
                found = env.function(let.value, self.module)
                if found is None:
                    raise self.undecided(let.value)
                env.functions[let.var] = found
            else:
                env.holds[let.var] = yield self.value(let.value, let.var, env)
                if env.holds[let.var] is None:  # a call of a function by itself, which must be the last thing it does
                    if let is not lets[-1] or result is not let.var:
                        raise self.undecided(let.value)
                    return None
        value: Value = yield self.value(result, None, env)
        return None if value is None else (value, env.types([result]))

    def require(self, env: _Names, wanted: Sequence[TensorType], found: Sequence[TensorType], node: graph.Expr) -> None:
        """Values of some types are to have others here: sizes get their values, or have to agree."""
        pairs = env.meet(wanted, found)
        if pairs is None:
            raise self.undecided(node)
        self.events.assert_sizes(pairs)

    def enter(self, callee: _Callee, node: graph.Call, env: _Names) -> Task[Typed]:
        """The value of a call of a graph function: its body's."""
        function = callee.function
        around = callee.around or _Names(ChainMap())
        given: dict[graph.Expr, Value] = {}
        functions: dict[graph.Expr, _Callee] = {}
        flat: list[int] = []
        names = _Names(
            ChainMap({}, *around.holds.maps), around.told, dict(around.sizes), ChainMap({}, *around.functions.maps)
        )
        data: list[graph.Var] = []
        types: list[TensorType] = []
        for p, a in zip(function.params, node.args, strict=True):
            if isinstance(p.type, FuncType):
                handed = env.function(a, self.module)
                if handed is None:
                    raise self.undecided(a)
                functions[p] = handed
                continue
            given[p] = self.atom(a, env)
            flat += self.atom(a, env)
            data.append(p)
            types += env.types([a])
        self.require(names, [t for p in data for t in flatten(p.type)], types, node)
        if function in self.inside:
            self.again(function, node, tuple(flat), functions, names.sizes)
            return None
        loop = self.header(callee, data, tuple(flat), functions, names.sizes)
        if loop is not None:
            left = list(loop.header)
            for variable in given:
                count = len(flatten(variable.type))
                given[variable], left = tuple(left[:count]), left[count:]
            self.events.enter()
        self.inside[function] = loop
        names.holds.update(given)
        names.functions.update(functions)
        value: Typed = yield self.body(function.body, names)
        if value is not None:
            own = replace(names, sizes=dict(names.sizes))
            self.require(own, flatten(function.result_type), value[1], function)
        del self.inside[function]
        if loop is not None:
            if value is None or not loop.again:
                raise self.undecided(node)
            carried = self.loops[loop.number].slots
            initial = tuple(n for n, name in zip(loop.initial, carried, strict=True) if name)
            self.events.loop(loop.number, initial, [loop.before[v] for v in loop.changing])
        return value

    def header(
        self,
        callee: _Callee,
        params: Sequence[graph.Var],
        initial: Numbers,
        functions: Mapping[graph.Expr, _Callee],
        sizes: dict[Symbol, Dim],
    ) -> _Loop | None:
        """The loop that a function is, if it calls itself. The sizes that it changes are new ones in an iteration."""
        if not _calls_itself(callee, self.module, self.inside):
            return None
        number = self.count
        self.count += 1
        if number >= len(self.loops) or len(self.loops[number].slots) != len(initial):
            raise UndecidedNumbering(f"loop {number} has {len(initial)} variables, the program carries others")
        header = tuple(
            self.table.number("carried", number, k) if name else n
            for k, (name, n) in enumerate(zip(self.loops[number].slots, initial, strict=True))
        )
        first: dict[Symbol, tuple[int, int]] = {}
        """Of each symbol of the function where it stands first."""
        for k, of in enumerate(t for p in params for t in flatten(p.type)):
            for axis, d in enumerate(of.shape):
                if isinstance(d, Symbol):
                    first.setdefault(d, (k, axis))
        before = {v: sizes[v] for v in first if v in sizes}
        changing = [v for v in before if first[v] in self.loops[number].sizes]
        sizes.update((v, carried_size(self.table, number, *first[v])) for v in changing)
        return _Loop(number, initial, header, functions, before, changing)

    def again(
        self,
        function: graph.Function,
        node: graph.Call,
        values: Numbers,
        functions: Mapping[graph.Expr, _Callee],
        sizes: Mapping[Symbol, Dim],
    ) -> None:
        """A function calls itself: what is carried is another event, what is not has to be what it was."""
        loop = self.inside[function]
        innermost = next((f for f in reversed(self.inside) if self.inside[f] is not None), None)
        if loop is None or innermost is not function or functions != loop.functions:
            raise self.undecided(node)
        carried = self.loops[loop.number].slots
        for v, size in loop.before.items():
            if v not in loop.changing and not provably_equal(sizes[v], size):
                raise UndecidedNumbering(f"the program does not carry the size {v.name} of a loop, which changes it")
        for k, (name, value) in enumerate(zip(carried, values, strict=True)):
            if not name and value != loop.initial[k]:
                raise UndecidedNumbering(f"the program does not carry variable {k} of a loop, which changes it")
        told = tuple(v for v, name in zip(values, carried, strict=True) if name)
        self.events.again(loop.number, told, [sizes[v] for v in loop.changing])
        loop.again = True

    def atom(self, node: graph.Expr, env: _Names) -> Numbers:
        if isinstance(node, graph.GlobalVar) and node.name in self.module.constants:
            found = self.table.constant(self.module.constants[node.name])
            return (there(self.table, found, self.module.info(node.name).device),)
        if isinstance(node, graph.Constant):
            return (self.table.constant(node.data),)
        held = env.holds.get(node)
        if held is None:
            raise self.undecided(node)
        return held

    def value(self, node: graph.Expr, var: graph.Var | None, env: _Names) -> Task[Value]:
        match node:
            case graph.Tuple():
                return self.operands(node.fields, env)
            case graph.TupleGetItem():
                assert isinstance(node.value.type, TupleType)
                before = sum(len(flatten(t)) for t in node.value.type.fields[: node.index])
                return self.atom(node.value, env)[before : before + len(flatten(node.type))]
            case graph.OnDevice():
                return self.atom(node.value, env)
            case graph.MatchCast() if not can_fail(node, self.module):
                return self.atom(node.value, env)
            case graph.MatchCast() if (asserted := self.sizes_of(node, env)) is not None:
                self.events.assert_sizes(asserted)
                return self.atom(node.value, env)
            case graph.MatchCast(type=ShapeType(dims=dims)) if is_vector(node.value.type, len(dims)):
                return self.measure(node, dims, env)
            case graph.Print() | graph.AssertOp():
                condition = self.atom(node.condition, env)[0] if isinstance(node, graph.AssertOp) else None
                self.events.effect(condition, self.operands(node.values, env), node.format)
                return ()
            case graph.Call() if isinstance(node.op, Operator) and node.op.view:
                return self.atom(node.args[0], env)
            case graph.Call() if (callee := env.function(node.op, self.module)) is not None:
                called: Typed = yield self.enter(callee, node, env)
                return self.met(node, called, env)
            case graph.CallTIR():
                return self.call(node, var, env)
            case graph.If():
                chosen: Typed = yield self.choice(node, env)
                return self.met(node, chosen, env)
            case _:
                return self.atom(node, env)

    def met(self, node: graph.Expr, found: Typed, env: _Names) -> Value:
        """What a node gives, which has its type."""
        if found is None:
            return None
        self.require(env, flatten(node.type), found[1], node)
        return found[0]

    def choice(self, node: graph.If, env: _Names) -> Task[Typed]:
        """The value of a choice: of each tensor, and of each dim, a choice between those of the arms."""
        (condition,) = self.atom(node.condition, env)
        self.events.enter()
        then: Typed = yield self.body(node.then, replace(env, sizes=dict(env.sizes)))
        first = self.events.open.pop()
        self.events.enter()
        otherwise: Typed = yield self.body(node.otherwise, replace(env, sizes=dict(env.sizes)))
        second = self.events.open.pop()
        if then is None:
            self.events.go_on(condition, self.events.closed(first), True, second)
            return otherwise
        if otherwise is None:
            self.events.go_on(condition, self.events.closed(second), False, first)
            return then
        self.events.choose(condition, self.events.closed(first), self.events.closed(second))
        types = [
            TensorType(
                tuple(chosen_size(self.table, condition, *d) for d in zip(a.shape, b.shape, strict=True)), a.dtype
            )
            for a, b in zip(then[1], otherwise[1], strict=True)
        ]
        return tuple(choice(self.table, condition, a, b) for a, b in zip(then[0], otherwise[0], strict=True)), types

    def measure(self, node: graph.MatchCast, dims: Sequence[Dim], env: _Names) -> Numbers:
        """A vector tells sizes: a symbol that has no value here gets it, of the others it is asserted."""
        (vector,) = self.atom(node.value, env)
        symbols = self.events.measure(vector, len(dims))
        pairs: list[tuple[Dim, Dim]] = []
        for d, own in zip(dims, symbols, strict=True):
            if isinstance(d, Symbol) and d not in env.told and d not in env.sizes:
                env.sizes[d] = own
            else:
                pairs.append((own, replaced(d, env.sizes)))
        self.events.assert_sizes([p for p in pairs if not provably_equal(*p)])
        return ()

    def sizes_of(self, node: graph.MatchCast, env: _Names) -> list[tuple[Dim, Dim]] | None:
        """What a cast of tensors has to find equal; None for other casts, and where a size has no value."""
        if not all(isinstance(of, (TensorType, TupleType)) for of in (node.type, node.value.type)):
            return None
        return env.meet(flatten(node.type), env.types([node.value]))

    def call(self, node: graph.CallTIR, var: graph.Var | None, env: _Names) -> Numbers:
        kernel = self.module.kernel(node.func)
        scalars = [replaced(d, env.sizes) for d in node.scalars]
        types = env.types([*node.args, node])
        reads = self.operands(node.args, env)
        device = var.device if var is not None and node.device == ANYWHERE else node.device
        made = tuple(
            copied(kernel, reads, device, self.table)
            or step_results(kernel, reads, self.table, self.module, types, scalars)
        )
        self.devices.setdefault(made[0], set()).add(device)
        self.calls.append((node, made))
        if kernel_can_trap(kernel) and not all(n in self.table.constants for n in made):
            self.events.add(made[0])
        return made

    def operands(self, nodes: Sequence[graph.Expr], env: _Names) -> Numbers:
        return tuple(n for a in nodes for n in self.atom(a, env))

    def undecided(self, node: graph.Expr) -> UndecidedNumbering:
        at = f" at {node.span}" if node.span else ""
        return UndecidedNumbering(f"{graph.show_head(node)}{at} is nothing that a program of steps can do")


def _calls_itself(callee: _Callee, module: Module, inside: Container[graph.Function]) -> bool:
    """Whether a function may be called while it runs: its text names it, or does what it calls, but for what is around
    it already."""
    if callee.around is not None:
        nodes = post_order(callee.function.body)
        return any(isinstance(n, graph.Call) and n.op is callee.own for n in nodes)

    def called(function: graph.Function) -> list[graph.Function]:
        names = (n.name for n in post_order(function.body) if isinstance(n, graph.GlobalVar))
        found = (module.definitions.get(name) for name in names)
        return [f for f in found if isinstance(f, graph.Function) and f not in inside]

    return callee.function in reached(called(callee.function), called)
