"""What a graph function computes, tensor by tensor, as numbers (specs/verify.md, "liveness").

The function is in A-normal form. Lets, tuples, projections and views vanish; a call of a graph function of the module
is that function's body; an `If` is, for each tensor of its value, a choice between the two that its branches give. What
may trap is kept in its order and in its branch. This reads the graph; `assay.verify.liveness.program` compares a
program with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph.effects import can_fail, kernel_can_trap
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import FuncType, TensorType, TupleType, flatten
from assay.verify.value_numbering import step_results
from assay.verify.value_numbering.nesting import UndecidedNumbering
from assay.verify.value_numbering.terms import Table, dim_text

Numbers: TypeAlias = tuple[int, ...]
"""One for each tensor of a value, left to right."""


def choice(table: Table, condition: int, then: int, otherwise: int) -> int:
    """The number of what a choice gives: the one value where both arms give it."""
    return then if then == otherwise else table.number("if", condition, then, otherwise)


def there(table: Table, number: int, device: VirtualDevice) -> int:
    """The number of a value in the memory of a device: the same bits on two devices are two values."""
    return number if device == ANYWHERE else table.number("on", number, repr(device))


def copied(kernel: PrimFunc, reads: Sequence[int], device: VirtualDevice, table: Table) -> list[int]:
    """What a device_copy to a device gives; nothing if the tensor function does not claim to be one."""
    if kernel.attrs.get("operator") != "device_copy":
        return []
    return [table.number("on", reads[0], repr(device))]


@dataclass
class TrapEvents:
    """What may trap, in order: the numbers of results, and of choices the events of both arms."""

    table: Table
    open: list[list[int]] = field(default_factory=lambda: [[]])

    def add(self, number: int) -> None:
        """Note an event in the innermost block."""
        self.open[-1].append(number)

    def assert_sizes(self, sizes: Sequence[tuple[Dim, Dim]]) -> None:
        """Note that dims have to be equal here, in pairs; nothing where there are none."""

        def text(dim: Dim) -> str:
            return dim_text(dim, lambda s: f"@{self.table.symbol(s)}")

        if sizes:
            self.add(self.table.number("sizes", *(f"{text(a)} = {text(b)}" for a, b in sizes)))

    def enter(self) -> None:
        """Begin a block."""
        self.open.append([])

    def leave(self) -> Numbers:
        """End the innermost block and give its events."""
        return tuple(self.open.pop())

    def choose(self, condition: int, then: Numbers, otherwise: Numbers) -> None:
        """Both arms have ended; nothing if nothing in them can trap."""
        if then or otherwise:
            self.add(self.table.number("choice", condition, then, otherwise))


@dataclass
class Computed:
    """The numbers of a function's result, the events of its body, and every call of a tensor function in it."""

    result: Numbers
    events: Numbers
    calls: list[tuple[graph.CallTIR, Numbers]]
    devices: dict[int, set[VirtualDevice]]
    """The devices on which a value is computed, by the number of its first tensor."""


def computed(function: graph.Function, module: Module, table: Table) -> Computed:
    """Number a function whose parameters are tensors; Undecided for what no program does."""
    reader = _Reader(module, table)
    env: dict[graph.Expr, Numbers] = {p: (table.number("parameter", i),) for i, p in enumerate(function.params)}
    result: Numbers = run_task(reader.body(function.body, _Names(env)))
    return Computed(result, reader.events.leave(), reader.calls, reader.devices)


@dataclass(frozen=True)
class _Names:
    """One run of a function: what its variables hold, what its symbols are, and the functions whose bodies are
    around."""

    holds: dict[graph.Expr, Numbers]
    sizes: Mapping[Symbol, Dim] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()
    functions: dict[graph.Expr, str] = field(default_factory=dict)
    """The variables that are names of functions of the module."""

    def function(self, node: graph.Expr | Operator) -> str | None:
        """The function of the module that a node names, if it names one."""
        if isinstance(node, graph.GlobalVar) and isinstance(node.type, FuncType):
            return node.name
        return self.functions.get(node) if isinstance(node, graph.Expr) else None

    def types(self, nodes: Sequence[graph.Expr]) -> list[TensorType]:
        """The types of the tensors in some values, in the caller's symbols."""
        flat = [t for n in nodes for t in flatten(n.type)]
        return (
            [TensorType(tuple(replaced(d, self.sizes) for d in t.shape), t.dtype) for t in flat] if self.sizes else flat
        )


class _Reader:
    def __init__(self, module: Module, table: Table) -> None:
        self.module, self.table = module, table
        self.events = TrapEvents(table)
        self.calls: list[tuple[graph.CallTIR, Numbers]] = []
        self.devices: dict[int, set[VirtualDevice]] = {}

    def body(self, expr: graph.Expr, env: _Names) -> Task[Numbers]:
        """The value of a chain of lets."""
        lets, result = graph.let_chain(expr)
        for let in lets:
            if (name := env.function(let.value)) is not None:
                env.functions[let.var] = name
            else:
                env.holds[let.var] = yield self.value(let.value, let.var, env)
        found: Numbers = yield self.value(result, None, env)
        return found

    def atom(self, node: graph.Expr, env: _Names) -> Numbers:
        if isinstance(node, graph.GlobalVar) and node.name in self.module.constants:
            found = self.table.constant(self.module.constants[node.name])
            return (there(self.table, found, self.module.info(node.name).device),)
        if isinstance(node, graph.Constant):
            return (self.table.constant(node.data),)
        if node not in env.holds:
            raise self.undecided(node)
        return env.holds[node]

    def value(self, node: graph.Expr, var: graph.Var | None, env: _Names) -> Task[Numbers]:
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
            case graph.Call() if isinstance(node.op, Operator) and node.op.view:
                return self.atom(node.args[0], env)
            case graph.Call() if (name := env.function(node.op)) is not None:
                callee = self.module.definitions.get(name)
                if not isinstance(callee, graph.Function) or name in env.inside:
                    raise self.undecided(node)
                given: dict[graph.Expr, Numbers] = {}
                functions: dict[graph.Expr, str] = {}
                sizes: dict[Symbol, Dim] = {}
                for p, a in zip(callee.params, node.args, strict=True):
                    if (handed := env.function(a)) is not None:
                        functions[p] = handed
                        continue
                    given[p] = self.atom(a, env)
                    for want, got in zip(flatten(p.type), env.types([a]), strict=True):
                        sizes.update(
                            (d, n) for d, n in zip(want.shape, got.shape, strict=True) if isinstance(d, Symbol)
                        )
                result: Numbers = yield self.body(callee.body, _Names(given, sizes, env.inside | {name}, functions))
                return result
            case graph.CallTIR():
                return self.call(node, var, env)
            case graph.If() if not can_fail(node, self.module):
                (condition,) = self.atom(node.condition, env)
                self.events.enter()
                then = yield self.body(node.then, env)
                first = self.events.leave()
                self.events.enter()
                otherwise = yield self.body(node.otherwise, env)
                self.events.choose(condition, first, self.events.leave())
                return tuple(choice(self.table, condition, a, b) for a, b in zip(then, otherwise, strict=True))
            case _:
                return self.atom(node, env)

    def sizes_of(self, node: graph.MatchCast, env: _Names) -> list[tuple[Dim, Dim]] | None:
        """What a cast has to find equal, all over symbols that have values when a run begins; None for other casts."""
        if not all(isinstance(of, (TensorType, TupleType)) for of in (node.type, node.value.type)):
            return None
        found, wanted = env.types([node.value]), env.types([node])
        pairs = [p for a, b in zip(found, wanted, strict=True) for p in zip(a.shape, b.shape, strict=True)]
        told = {s for p in self.module.main.params for t in flatten(p.type) for d in t.shape for s in variables(d)}
        if any(s not in told for pair in pairs for d in pair for s in variables(d)):
            return None
        return [(a, b) for a, b in pairs if not provably_equal(a, b)]

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
