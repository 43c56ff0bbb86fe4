"""Bytecode: a program as functions of instructions over registers, for what only a run decides (specs/vm.md).

A function has registers, by number, that hold values, and sizes, by name, that hold numbers. The first registers are its
parameters. Instructions run in their order but where one jumps. A register holds a value from the instruction that
writes it until one that kills it, or writes it anew. A tensor is a view of a storage: a piece of memory of one device,
which is given back when no value is left that lies in it.

The tensor functions that are invoked, the data types and the constants are those of the module beside which the
bytecode stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.scalar import Dim, Var as Size
from assay.semantics.types import TensorType, Type

Register: TypeAlias = int
"""A register of a function, by its number from 0."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """Base of instructions. `span` is the place in the source that it comes from."""

    span: Span | None = None


# --- values -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadConstant(Instruction):
    """`to` holds the constant of that name in the module's table, or one that is bound late."""

    to: Register
    name: str


@dataclass(frozen=True)
class Move(Instruction):
    """`to` holds what `of` holds: the same value, not a copy of its bytes."""

    to: Register
    of: Register


@dataclass(frozen=True)
class MakeTuple(Instruction):
    """`to` holds a tuple of these values."""

    to: Register
    fields: tuple[Register, ...]


@dataclass(frozen=True)
class GetField(Instruction):
    """`to` holds field `index` of the tuple, or of the data value, in `of`."""

    to: Register
    of: Register
    index: int


@dataclass(frozen=True)
class MakeData(Instruction):
    """`to` holds what a constructor of a data type makes of these fields."""

    to: Register
    data: str
    constructor: str
    fields: tuple[Register, ...]


@dataclass(frozen=True)
class MakeClosure(Instruction):
    """`to` holds the function, by name, with its first parameters filled by `captured` and its first sizes by `sizes`.

    A local function that calls itself holds itself: `itself` is the number of the captured parameter that it is.
    """

    to: Register
    function: str
    captured: tuple[Register, ...]
    sizes: tuple[Dim, ...] = ()
    itself: int | None = None


@dataclass(frozen=True)
class MakeShape(Instruction):
    """`to` holds a shape as a value."""

    to: Register
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class MakeReference(Instruction):
    """`to` holds a fresh cell that holds the value of `of`."""

    to: Register
    of: Register


@dataclass(frozen=True)
class ReadReference(Instruction):
    """`to` holds what the cell in `of` holds now."""

    to: Register
    of: Register


@dataclass(frozen=True)
class WriteReference(Instruction):
    """The cell in `of` holds the value of `value` from now on."""

    of: Register
    value: Register


@dataclass(frozen=True)
class Kill(Instruction):
    """These registers hold nothing from now on."""

    registers: tuple[Register, ...]


# --- sizes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatchType(Instruction):
    """The value in `of` is looked at as a value of type `type` (rule M4): the sizes `binds` get their values from it,
    each other dim of the type has to be what the value has. A trap with `label` where one is not; `what` names the
    value in its message."""

    of: Register
    type: Type
    binds: tuple[Size, ...]
    label: str
    what: str = ""


@dataclass(frozen=True)
class SetSizes(Instruction):
    """The sizes get the values of these dims, all at once."""

    sizes: tuple[Size, ...]
    values: tuple[Dim, ...]


# --- memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllocateStorage(Instruction):
    """`to` holds a fresh storage of so many bytes, which hold garbage."""

    to: Register
    nbytes: Dim
    alignment: int
    device: VirtualDevice = ANYWHERE


@dataclass(frozen=True)
class AllocateTensor(Instruction):
    """`to` holds a tensor of that type, its first byte `offset` bytes into `storage`. What was written into those bytes
    before is lost."""

    to: Register
    storage: Register
    offset: Dim
    type: TensorType


@dataclass(frozen=True)
class ViewTensor(Instruction):
    """`to` holds the elements of `of`, in their order, as a tensor of that type, in the same bytes."""

    to: Register
    of: Register
    type: TensorType


@dataclass(frozen=True)
class CopyToDevice(Instruction):
    """The elements of the tensor in `of` are copied into the tensor in `into`, which lies on another device."""

    of: Register
    into: Register


# --- calls --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InvokeKernel(Instruction):
    """The tensor function runs on `reads`, and fills the tensors in `writes`. `scalars` are its scalar arguments, `hidden`
    its symbols that no argument tells. Its allocations are backed by the tensors in `scratch`."""

    kernel: str
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    scalars: tuple[Dim, ...] = ()
    hidden: tuple[Dim, ...] = ()
    scratch: tuple[Register, ...] = ()
    device: VirtualDevice = ANYWHERE


@dataclass(frozen=True)
class InvokeFunction(Instruction):
    """`to` holds what the function of that name gives for these arguments."""

    to: Register
    function: str
    arguments: tuple[Register, ...]
    sizes: tuple[Dim, ...] = ()


@dataclass(frozen=True)
class InvokeClosure(Instruction):
    """`to` holds what the closure, constructor or extern function in `closure` gives for these arguments."""

    to: Register
    closure: Register
    arguments: tuple[Register, ...]


@dataclass(frozen=True)
class InvokeExtern(Instruction):
    """`to` holds what the function outside of the language of that name gives; the call is in the trace of effects."""

    to: Register
    name: str
    arguments: tuple[Register, ...]


# --- control ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jump(Instruction):
    """The instruction with number `target` is next."""

    target: int


@dataclass(frozen=True)
class JumpUnless(Instruction):
    """The instruction with number `target` is next, unless the boolean in `condition` holds."""

    condition: Register
    target: int


@dataclass(frozen=True)
class JumpUnlessMade(Instruction):
    """The instruction with number `target` is next, unless the data value in `of` was made by that constructor."""

    of: Register
    constructor: str
    target: int


@dataclass(frozen=True)
class Return(Instruction):
    """The function is left; its value is that of `of`."""

    of: Register


@dataclass(frozen=True)
class ReturnCall(Instruction):
    """The function is left; its value is that of a call, which takes its place: no activation is left behind.

    `function` is a name, or the register of a closure.
    """

    function: str | Register
    arguments: tuple[Register, ...]
    sizes: tuple[Dim, ...] = ()


@dataclass(frozen=True)
class Fail(Instruction):
    """The run ends in a trap: no clause of a match fits."""

    kind: str
    label: str
    message: str


@dataclass(frozen=True)
class RequireEqual(Instruction):
    """Pairs of dims that have to be equal here, or the run ends in a trap "shape" with that label."""

    sizes: tuple[tuple[Dim, Dim], ...]
    label: str


@dataclass(frozen=True)
class RequireTrue(Instruction):
    """The boolean in `condition` has to hold here, or the run ends in a trap "assertion" (assert_op.T1)."""

    condition: Register
    shown: tuple[Register, ...] = ()
    format: str = ""


@dataclass(frozen=True)
class PrintRegisters(Instruction):
    """These values are appended to the trace of effects, with a format."""

    shown: tuple[Register, ...] = ()
    format: str = ""


@dataclass(frozen=True)
class BytecodeFunction:
    """A function. Its first registers are its parameters, captured ones first; its first `inherited` sizes are handed over
    by whoever makes the closure or calls it, the others are bound inside. `names` are what the source calls a register."""

    name: str
    parameters: int
    registers: int
    sizes: tuple[Size, ...]
    inherited: int
    body: tuple[Instruction, ...]
    names: Mapping[Register, str] = field(default_factory=dict)
    kind: Literal["global", "local"] = "global"


@dataclass(frozen=True)
class Bytecode:
    """An executable: functions by name, `main` the entry; the names and types of its inputs, the names of its outputs;
    and the constants that are bound only when it is loaded."""

    functions: Mapping[str, BytecodeFunction]
    inputs: Mapping[str, Type]
    outputs: tuple[str, ...]
    late: Mapping[str, TensorType] = field(default_factory=dict)
