"""Bytecode: a program as functions of instructions over registers, for what only a run decides (specs/semantics.md;
specs/vm.md).

A function has registers, by number, that hold values, and sizes, by name, that hold numbers. The first registers are
its parameters. Instructions run in their order but where one jumps, which is only forwards: a loop is a call. A
register holds a value from the instruction that writes it until one that kills it, or writes it anew. A tensor is a
view of a storage: a piece of memory of one device, which is given back when no value is left that lies in it.

The tensor functions that are invoked, the data types and the constants are those of the module beside which the
bytecode stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.semantics.bytecode.instructions import (
    INSTRUCTIONS as INSTRUCTIONS,
    AllocateStorage as AllocateStorage,
    AllocateTensor as AllocateTensor,
    Fail as Fail,
    GetField as GetField,
    Instruction as Instruction,
    InvokeClosure as InvokeClosure,
    InvokeExtern as InvokeExtern,
    InvokeFunction as InvokeFunction,
    InvokeKernel as InvokeKernel,
    Jump as Jump,
    JumpUnless as JumpUnless,
    JumpUnlessMade as JumpUnlessMade,
    Kill as Kill,
    LoadConstant as LoadConstant,
    LoadConstructor as LoadConstructor,
    LoadExtern as LoadExtern,
    MakeClosure as MakeClosure,
    MakeData as MakeData,
    MakeReference as MakeReference,
    MakeShape as MakeShape,
    MakeTuple as MakeTuple,
    MatchType as MatchType,
    Move as Move,
    PrintRegisters as PrintRegisters,
    ReadReference as ReadReference,
    ReadShape as ReadShape,
    Register as Register,
    RequireTrue as RequireTrue,
    Return as Return,
    ReturnCall as ReturnCall,
    ReturnCallClosure as ReturnCallClosure,
    ShapeOfTensor as ShapeOfTensor,
    ViewTensor as ViewTensor,
    WriteReference as WriteReference,
    ends as ends,
    reads as reads,
    renumbered as renumbered,
    target as target,
    written as written,
)
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.names import unused
from assay.semantics.scalar import Var as Size
from assay.semantics.types import FuncType, TensorType, TupleType, Type, TypeVar


@dataclass(frozen=True)
class BytecodeFunction:
    """A function. Its first registers are its parameters, of the types `parameters`; the first `captured` of them are
    those that a closure fills. `result` is the type of its value, over its sizes; sizes that stand there alone are told
    by a run.

    Its first `inherited` sizes are those that a closure brings; each of the others is bound by instructions. `names`
    are what the source calls a register. `limits` are sizes of parameters that have a least and a greatest value, or
    none, for whoever calls it from outside: what was shown of it was shown within them.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    registers: int
    body: tuple[Instruction, ...]
    captured: int = 0
    sizes: tuple[Size, ...] = ()
    inherited: int = 0
    type_params: tuple[TypeVar, ...] = ()
    names: Mapping[Register, str] = field(default_factory=dict)
    limits: tuple[tuple[Size, int, int | None], ...] = ()

    @property
    def type(self) -> FuncType:
        """Its type as a value, its captured parameters filled."""
        return FuncType(self.parameters[self.captured :], self.result, type_params=self.type_params)


@dataclass(frozen=True)
class EntryPoint:
    """A function with the types of its inputs by name, and the names of its outputs."""

    function: BytecodeFunction
    inputs: Mapping[str, Type]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Bytecode:
    """An executable: functions by name, `main` the entry; the names of its inputs, which are the parameters of main,
    and of its outputs: the fields of main's result, where that is a tuple, or the result itself; and the constants that
    are bound only when it is loaded. `devices` are those on which inputs lie, as far as they are said, and `host` is
    the device that reads conditions and sizes."""

    functions: Mapping[str, BytecodeFunction]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    late: Mapping[str, TensorType] = field(default_factory=dict)
    devices: Mapping[str, VirtualDevice] = field(default_factory=dict)
    host: VirtualDevice = ANYWHERE

    def entry(self, name: str) -> EntryPoint:
        """A function as it is called from outside, by what the source calls its parameters. Invalid (vm.C11): there is
        none of that name that captures nothing."""
        function = self.functions.get(name)
        if function is None or function.captured or function.inherited:
            known = ", ".join(n for n, f in self.functions.items() if not f.captured and not f.inherited)
            raise Invalid(f"the executable has no function {name} to call; it has {known}", label="vm.C11")
        if name == "main":
            return EntryPoint(function, dict(zip(self.inputs, function.parameters, strict=True)), self.outputs)
        taken: dict[str, Type] = {}
        for r, of in enumerate(function.parameters):
            taken[unused(function.names.get(r, f"input_{r}"), taken)] = of
        count = len(function.result.fields) if isinstance(function.result, TupleType) else 1
        return EntryPoint(function, taken, tuple(f"output_{i}" for i in range(count)))

    @property
    def main(self) -> BytecodeFunction:
        """The entry."""
        return self.functions["main"]
