"""Activations and what each instruction does to them (specs/interp.md; specs/vm.md, "Instructions")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.interp.binding import Array
from assay.interp.device_access import check_host
from assay.interp.graph.boundary import bind, given
from assay.interp.graph.contents import check_contents
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.values import Cell, CodeClosure, Data, Event, External, Externs, Maker, Shape, Value, copied, render
from assay.interp.vm.kernel_runs import Execute, Kernels
from assay.interp.vm.outside import Border
from assay.interp.vm.storage import Tensor, VMStorage
from assay.semantics import budget, bytecode as vm
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import BudgetSpent, Invalid, Trap
from assay.semantics.graph import ExternFunc, constructor
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Size, evaluate_dim, show, variables
from assay.semantics.types import DataDef, TensorType, Type

Observe: TypeAlias = Callable[[str, int, vm.InvokeKernel, Sequence[Array]], None]
Place: TypeAlias = tuple[str, int]
"""An instruction: the function, and its number there."""
GARBAGE = 1 << 16
"""Bytes of garbage, repeated through all memory that is not written yet."""
OFTEN = 1 << 12
"""The time is asked for once in so many instructions, and memory claimed once in so many activations."""
RESULT = -1
"""No register: where a value is put that is returned at once."""
FRAME = 1 << 10
"""Bytes that an activation takes at least."""


@dataclass(eq=False)
class Activation:
    """A call of a function: what its registers hold, and its sizes. `to` is the caller's register for its value."""

    function: vm.BytecodeFunction
    registers: dict[vm.Register, Value]
    sizes: dict[Size, int]
    to: vm.Register = -1
    next: int = 0
    places: dict[Size, str] = field(default_factory=dict)
    """Where each size got its value, for messages."""

    def name(self, r: vm.Register) -> str:
        """What a register is called."""
        return self.function.names.get(r, f"%{r}")

    def put(self, r: vm.Register, value: Value) -> None:
        """A register holds a value from now on."""
        self.registers[r] = value

    def get(self, r: vm.Register) -> Value:
        """What a register holds; traps where it is nothing."""
        if r not in self.registers:
            what = f"register %{r} of {self.function.name} is read, and holds nothing: it is not written yet, or killed"
            raise Trap("unwritten read", what, label="vm.T3")
        return self.registers[r]

    def all(self, some: Sequence[vm.Register]) -> tuple[Value, ...]:
        """What registers hold."""
        return tuple(self.get(r) for r in some)

    def no(self, r: vm.Register, what: str) -> Invalid:
        """A register holds something of another kind than an instruction takes."""
        return Invalid(f"register %{r} of {self.function.name} holds no {what}", label="vm.C4")

    def tensor(self, r: vm.Register) -> Tensor:
        """The tensor that a register holds."""
        found = self.get(r)
        if not isinstance(found, Tensor):
            raise self.no(r, "tensor")
        return found

    def cell(self, r: vm.Register) -> Cell:
        """The reference that it holds."""
        found = self.get(r)
        if not isinstance(found, Cell):
            raise self.no(r, "reference")
        return found

    def made(self, r: vm.Register) -> Data:
        """The data value that it holds."""
        found = self.get(r)
        if not isinstance(found, Data):
            raise self.no(r, "value of a data type")
        return found

    def jump(self, target: int) -> None:
        """Go on further down."""
        if not self.next <= target < len(self.function.body):
            raise Invalid(f"a jump to {target} does not go forwards", label="vm.C4")
        self.next = target

    def dims(self, some: Sequence[Dim], any_sign: bool) -> tuple[int, ...]:
        """Dims as numbers; traps where one is negative, unless any sign will do."""
        found = []
        for d in some:
            n = d if isinstance(d, int) else self.number(d)
            if n < 0 and not any_sign:
                raise Trap("shape", f"the size {show(d)} is {n}", label="size.T1")
            found.append(n)
        return tuple(found)

    def number(self, d: Dim) -> int:
        """A dim as a number."""
        for v in variables(d):
            if v not in self.sizes:
                raise Invalid(f"the size {v.name} of {self.function.name} has no value", label="vm.C4")
        return evaluate_dim(d, self.sizes)

    def type(self, of: TensorType) -> TensorType:
        """A tensor type in numbers."""
        return TensorType(self.dims(of.shape, False), of.dtype)


class Machine:
    """A run of bytecode."""

    def __init__(
        self,
        module: Module,
        execute: Execute,
        externs: Externs,
        trace: list[Event],
        observe: Observe | None,
        seed: int,
        reached: set[Place] | None = None,
    ) -> None:
        self.module = module = module.resolved()
        self.reached = set() if reached is None else reached
        self.code = module.bytecode
        self.externs = externs
        self.trace = trace
        self.observe = observe
        self.border = Border()
        self.kernels = Kernels(module, execute, externs, trace)
        self.garbage = np.random.default_rng(seed).integers(0, 256, GARBAGE, dtype=np.uint8)
        self.constants: dict[str, Tensor] = {}
        self.stack: list[Activation] = []
        self.result: Value = None
        self.turns = 0
        self.does: dict[type[vm.Instruction], Callable[[Activation, Any], None]] = {
            vm.LoadConstant: self.load_constant,
            vm.LoadExtern: lambda at, i: at.put(i.to, External(ExternFunc(i.type, i.name), self.extern(i.name))),
            vm.LoadConstructor: lambda at, i: at.put(i.to, Maker(constructor(self.data(i.data), i.constructor))),
            vm.Move: lambda at, i: at.put(i.to, at.get(i.of)),
            vm.MakeTuple: lambda at, i: at.put(i.to, at.all(i.fields)),
            vm.GetField: get_field,
            vm.MakeData: self.make_data,
            vm.MakeClosure: self.make_closure,
            vm.MakeShape: lambda at, i: at.put(i.to, Shape(at.dims(i.dims, i.any_sign))),
            vm.ShapeOfTensor: lambda at, i: at.put(i.to, Shape(at.tensor(i.of).shape)),
            vm.ReadShape: self.read_shape,
            vm.MakeReference: lambda at, i: at.put(i.to, Cell(at.get(i.of))),
            vm.ReadReference: lambda at, i: at.put(i.to, at.cell(i.of).value),
            vm.WriteReference: self.write_reference,
            vm.Kill: kill,
            vm.MatchType: match_type,
            vm.AllocateStorage: self.allocate_storage,
            vm.AllocateTensor: allocate_tensor,
            vm.ViewTensor: lambda at, i: at.put(i.to, at.tensor(i.of).viewed(at.type(i.type))),
            vm.InvokeKernel: self.invoke_kernel,
            vm.InvokeFunction: lambda at, i: self.enter(self.function(i.function), at.all(i.arguments), (), i.to),
            vm.InvokeClosure: lambda at, i: self.call(at, i, i.to),
            vm.InvokeExtern: lambda at, i: at.put(
                i.to, self.outside(at, i.name, at.all(i.arguments), i.type, acts=i.acts)
            ),
            vm.Jump: lambda at, i: at.jump(i.target),
            vm.JumpUnless: lambda at, i: self.choose(at, self.holds(at, i.condition), i.target),
            vm.JumpUnlessMade: lambda at, i: self.choose(at, at.made(i.of).constructor == i.constructor, i.target),
            vm.Return: lambda at, i: self.leave(at.get(i.of)),
            vm.ReturnCall: self.return_call,
            vm.ReturnCallClosure: self.return_call_closure,
            vm.Fail: fail,
            vm.RequireTrue: self.require,
            vm.PrintRegisters: self.print,
        }

    def run(self, name: str, arguments: Sequence[Value]) -> Value:
        """What a function gives for arguments."""
        self.enter(self.function(name), arguments, (), -1)
        while self.stack:
            at = self.stack[-1]
            i, number = self.fetch(at), at.next - 1
            try:
                self.does[type(i)](at, i)
            except (Trap, Invalid, BudgetSpent) as wrong:
                raise wrong.at(i.span or f"{at.function.name}, instruction {number}") from None
        return self.result

    def fetch(self, at: Activation) -> vm.Instruction:
        """The next instruction."""
        self.turns += 1
        if self.turns % OFTEN == 0 and budget.left() == 0.0:
            raise BudgetSpent(budget.late(), label="budget.C2")
        if at.next >= len(at.function.body):
            raise Invalid(f"{at.function.name} ends without a return", label="vm.C4")
        at.next += 1
        return at.function.body[at.next - 1]

    # --- calls --------------------------------------------------------------------------------------------------------

    def function(self, name: str) -> vm.BytecodeFunction:
        """The function of that name."""
        if name not in self.code.functions:
            raise Invalid(f"there is no function {name}", label="vm.C4")
        return self.code.functions[name]

    def enter(
        self, function: vm.BytecodeFunction, arguments: Sequence[Value], sizes: Sequence[int], to: vm.Register
    ) -> None:
        """A fresh activation, its parameters and inherited sizes filled."""
        if len(arguments) != len(function.parameters) or len(sizes) != function.inherited:
            raise Invalid(
                f"{function.name} takes {len(function.parameters)} values and {function.inherited} sizes,"
                f" {len(arguments)} and {len(sizes)} are given",
                label="vm.C4",
            )
        if len(self.stack) % OFTEN == OFTEN - 1:
            budget.claim(OFTEN * FRAME, f"{len(self.stack)} calls that wait for one another", function.name)
        self.reached.add((function.name, 0))
        inherited = dict(zip(function.sizes[: function.inherited], sizes, strict=True))
        self.stack.append(Activation(function, dict(enumerate(arguments)), inherited, to))

    def leave(self, value: Value) -> None:
        """The function that runs is left with a value."""
        left = self.stack.pop()
        if self.stack:
            self.stack[-1].put(left.to, value)
        else:
            self.result = value

    def call(self, at: Activation, i: vm.InvokeClosure | vm.ReturnCallClosure, to: vm.Register) -> None:
        """Call what a register holds."""
        callee, arguments = at.get(i.closure), at.all(i.arguments)
        match callee:
            case CodeClosure():
                first = list(callee.captured)
                if callee.itself is not None:
                    first.insert(callee.itself, callee)
                self.enter(self.function(callee.function), (*first, *arguments), callee.sizes, to)
            case Maker():
                at.put(to, self.new_data(callee.node.data, callee.node.name, arguments))
            case External():
                at.put(to, self.outside(at, callee.node.name, arguments, i.type, acts=i.acts))
            case _:
                raise at.no(i.closure, "function")

    def return_call(self, at: Activation, i: vm.ReturnCall) -> None:
        """A call that takes the place of the function that runs."""
        arguments = at.all(i.arguments)
        self.stack.pop()
        self.enter(self.function(i.function), arguments, (), at.to)

    def return_call_closure(self, at: Activation, i: vm.ReturnCallClosure) -> None:
        """As that, of what a register holds."""
        if isinstance(at.get(i.closure), CodeClosure):
            self.stack.pop()
            self.call(at, i, at.to)
        else:
            self.call(at, i, RESULT)
            self.leave(at.registers.pop(RESULT))

    def outside(self, at: Activation, name: str, arguments: Sequence[Value], of: Type, *, acts: bool) -> Value:
        """A call of a function outside of the language; its result is looked through, as what comes from outside is."""
        seen = copied(self.border.shown(tuple(arguments), f"given to {name}"))
        if acts:
            self.trace.append(Event("extern", name, seen))
        what = f"the result of {name}"
        try:
            result = given(self.extern(name)(*seen), of, what)
            bind([(of, result, what)], dict(at.sizes), dict(at.places))
            check_contents([(of, result, what)], at.sizes, self.module, self.externs)
        except Invalid as wrong:
            raise Trap("shape", wrong.message, label="call.T1") from None
        return self.border.inward(result, what)

    def extern(self, name: str) -> Callable[..., Value]:
        """What was given for a function outside of the language."""
        if name not in self.externs:
            raise Invalid(f"no function was given for the extern {name}", label="extern.C1")
        return self.externs[name]

    def invoke_kernel(self, at: Activation, i: vm.InvokeKernel) -> None:
        """A tensor function on the memory of tensors."""
        reads, writes, scratch = (list(map(at.tensor, some)) for some in (i.reads, i.writes, i.scratch))
        made = self.kernels.run(i, reads, writes, scratch, at.dims(i.scalars, True), at.dims(i.hidden, True))
        if self.observe is not None:
            self.observe(at.function.name, at.next - 1, i, made)

    # --- values -------------------------------------------------------------------------------------------------------

    def data(self, name: str) -> DataDef:
        """The data type of that name."""
        return self.module.data(name)

    def load_constant(self, at: Activation, i: vm.LoadConstant) -> None:
        """A constant of the table, which is read-only and is not copied."""
        if i.name not in self.constants:
            if i.name not in self.module.constants:
                raise Invalid(f"the module has no constant {i.name}", label="vm.C4")
            self.constants[i.name] = VMStorage.holding(
                i.name, self.module.constants[i.name], self.module.info(i.name).device
            )
        at.put(i.to, self.constants[i.name])

    def make_data(self, at: Activation, i: vm.MakeData) -> None:
        """A value of a data type."""
        at.put(i.to, self.new_data(i.type.name, i.constructor, at.all(i.fields)))

    def new_data(self, data: str, name: str, fields: tuple[Value, ...]) -> Data:
        """What a constructor makes of fields."""
        wanted = self.data(data).constructors.get(name)
        if wanted is None or len(wanted) != len(fields):
            raise Invalid(f"{data} has no {name} of {len(fields)} fields", label="vm.C4")
        return Data(data, name, fields)

    def make_closure(self, at: Activation, i: vm.MakeClosure) -> None:
        """A function with what it captures."""
        function = self.function(i.function)
        count = len(i.captured) + (i.itself is not None)
        if count != function.captured or (i.itself is not None and not 0 <= i.itself < count):
            raise Invalid(f"{i.function} captures {function.captured} values, {count} are given", label="vm.C4")
        at.put(i.to, CodeClosure(i.function, at.all(i.captured), at.dims(i.sizes, True), i.itself))

    def write_reference(self, at: Activation, i: vm.WriteReference) -> None:
        """A cell gets another value."""
        at.cell(i.of).value = at.get(i.value)

    def seen(self, at: Activation, r: vm.Register, what: str) -> Array:
        """A tensor that the host reads."""
        found = at.tensor(r)
        check_host(self.code.host, found.slot)
        return found.read(f"read as {what}")

    def read_shape(self, at: Activation, i: vm.ReadShape) -> None:
        """The elements of a vector as sizes."""
        of = at.tensor(i.of)
        if of.type.dtype is not INT64 or of.ndim != 1:
            raise Invalid(f"{of.slot.name} is {of.type}, and a vector of int64 is read as sizes", label="vm.C4")
        sizes = tuple(int(n) for n in self.seen(at, i.of, "sizes"))
        for k, n in enumerate(sizes):
            if n < 0 and not i.any_sign:
                raise Trap("shape", f"size {k} is {n}", label="size.T1")
        at.put(i.to, Shape(sizes))

    # --- memory -------------------------------------------------------------------------------------------------------

    def allocate_storage(self, at: Activation, i: vm.AllocateStorage) -> None:
        """Fresh memory."""
        (nbytes,) = at.dims((i.nbytes,), False)
        with memory_traps():
            at.put(i.to, VMStorage.make(f"storage {at.name(i.to)}", nbytes, i.alignment, i.device, self.garbage))

    # --- control ------------------------------------------------------------------------------------------------------

    def holds(self, at: Activation, r: vm.Register) -> bool:
        """Whether a boolean holds."""
        of = at.tensor(r)
        if of.type.dtype is not BOOL or of.type.shape:
            raise Invalid(f"{of.slot.name} is {of.type}, a condition is one boolean", label="vm.C4")
        return bool(self.seen(at, r, "a condition"))

    def choose(self, at: Activation, holds: bool, target: int) -> None:
        """A jump, unless something holds."""
        if not holds:
            at.jump(target)
        self.reached.add((at.function.name, at.next))

    def shown(self, at: Activation, some: Sequence[vm.Register]) -> tuple[Value, ...]:
        """Values as they are now, for people."""
        found: tuple[Value, ...] = copied(self.border.shown(at.all(some), "shown"))
        return found

    def require(self, at: Activation, i: vm.RequireTrue) -> None:
        """A trap unless a condition holds."""
        if not self.holds(at, i.condition):
            message = render(i.format, self.shown(at, i.shown)) or "the condition does not hold"
            raise Trap("assertion", message, label="assert_op.T1")

    def print(self, at: Activation, i: vm.PrintRegisters) -> None:
        """An entry in the trace."""
        self.trace.append(Event("print", i.format, self.shown(at, i.shown)))


def get_field(at: Activation, i: vm.GetField) -> None:
    """A field of a tuple or data value."""
    of = at.get(i.of)
    fields = of.fields if isinstance(of, Data) else of
    if not isinstance(fields, tuple) or not 0 <= i.index < len(fields):
        raise at.no(i.of, f"value with a field {i.index}")
    at.put(i.to, fields[i.index])


def kill(at: Activation, i: vm.Kill) -> None:
    """Registers hold nothing any more."""
    for r in i.registers:
        at.registers.pop(r, None)


def match_type(at: Activation, i: vm.MatchType) -> None:
    """A value has a type; sizes get their values from it (rule M4)."""
    for v in i.binds:
        at.sizes.pop(v, None)
    known = len(at.sizes)
    try:
        bind([(i.type, at.get(i.of), i.what)], at.sizes, at.places)
    except Invalid as wrong:
        raise Trap("shape", wrong.message, label=i.label) from None
    if len(at.sizes) != known + len(i.binds) or any(v not in at.sizes for v in i.binds):
        bound = ", ".join(v.name for v in i.binds) or "nothing"
        raise Invalid(f"a match with {i.type} is to bind {bound}, and binds other sizes", label="vm.C4")


def allocate_tensor(at: Activation, i: vm.AllocateTensor) -> None:
    """A tensor in a storage."""
    storage = at.get(i.storage)
    if not isinstance(storage, VMStorage):
        raise at.no(i.storage, "storage")
    (offset,) = at.dims((i.offset,), True)
    at.put(i.to, storage.tensor(at.name(i.to), at.type(i.type), offset))


def fail(at: Activation, i: vm.Fail) -> None:
    """The run ends in a trap."""
    raise Trap(i.kind, i.message, label=i.label)
