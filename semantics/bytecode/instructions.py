"""The instructions of bytecode, and what each does (specs/semantics.md; specs/vm.md, "Instructions")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.scalar import Dim, Var as Size
from assay.semantics.types import DataType, FuncType, TensorType, Type

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
class LoadExtern(Instruction):
    """`to` holds the function outside of the language of that name, as a value of type `type`."""

    to: Register
    name: str
    type: FuncType


@dataclass(frozen=True)
class LoadConstructor(Instruction):
    """`to` holds a constructor of a data type of the module, as a function of its fields."""

    to: Register
    data: str
    constructor: str


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
    """`to` holds what a constructor makes of these fields: a value of the data type `type`."""

    to: Register
    type: DataType
    constructor: str
    fields: tuple[Register, ...]


@dataclass(frozen=True)
class MakeClosure(Instruction):
    """`to` holds the function of that name with its first parameters filled: by `captured`, in their order, and where
    `itself` says a number, that parameter by the closure itself, between them. `sizes` are the values of the sizes that
    the function inherits. A function of the module as a value is a closure that captures nothing."""

    to: Register
    function: str
    captured: tuple[Register, ...] = ()
    sizes: tuple[Dim, ...] = ()
    itself: int | None = None


@dataclass(frozen=True)
class MakeShape(Instruction):
    """`to` holds a shape as a value. A dim that is negative here is a trap "shape" (size.T1), unless `any_sign`."""

    to: Register
    dims: tuple[Dim, ...]
    any_sign: bool = False


@dataclass(frozen=True)
class ShapeOfTensor(Instruction):
    """`to` holds the shape of the tensor in `of`."""

    to: Register
    of: Register


@dataclass(frozen=True)
class ReadShape(Instruction):
    """`to` holds the shape whose sizes are the elements of the vector of int64 in `of`, which the host reads. A
    negative one is a trap "shape" (size.T1), unless `any_sign`."""

    to: Register
    of: Register
    any_sign: bool = False


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
    """The value in `of` is looked at as a value of type `type` (rule M4): the sizes `binds` get their values from the
    first dim that is the size alone, and each other dim of the type has to be what the value has; else the run ends in
    a trap "shape" with `label`. `what` names the value in its message."""

    of: Register
    type: Type
    binds: tuple[Size, ...]
    label: str
    what: str = "the value"


# --- memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllocateStorage(Instruction):
    """`to` holds a fresh storage of so many bytes, which hold garbage, in the memory that `device` names. A negative
    number is a trap "shape" (size.T1), more than there is a trap "memory" (memory.T1)."""

    to: Register
    nbytes: Dim
    alignment: int
    device: VirtualDevice = ANYWHERE


@dataclass(frozen=True)
class AllocateTensor(Instruction):
    """`to` holds a tensor of that type, its first byte `offset` bytes into `storage`. Nothing is written in it yet.
    What another tensor wrote there is that one's until this one is written. A negative dim is a trap "shape"
    (size.T1)."""

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


# --- calls --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InvokeKernel(Instruction):
    """The tensor function of the module runs on `reads`, and fills the tensors in `writes`, which have to be of the
    sizes that it makes, or the run ends in a trap "shape" (vm.T1). `scalars` are its scalar arguments, `hidden` its
    symbols that no argument tells (`assay.semantics.instance.hidden_symbols`). Its allocations are backed by the
    tensors in `scratch`; without them the call has memory of its own for them. It runs on `device`, and touches no
    other memory unless it is a device_copy."""

    kernel: str
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    scalars: tuple[Dim, ...] = ()
    hidden: tuple[Dim, ...] = ()
    scratch: tuple[Register, ...] = ()
    device: VirtualDevice = ANYWHERE


@dataclass(frozen=True)
class InvokeFunction(Instruction):
    """`to` holds what the function of that name, which captures nothing, gives for these arguments: a value of type
    `type`, as the caller sees it."""

    to: Register
    function: str
    arguments: tuple[Register, ...]
    type: Type


@dataclass(frozen=True)
class InvokeClosure(Instruction):
    """`to` holds what the closure, constructor or extern function in `closure` gives for these arguments: a value of
    type `type`. The call of an extern function that `acts` is in the trace of effects."""

    to: Register
    closure: Register
    arguments: tuple[Register, ...]
    type: Type
    acts: bool = False


@dataclass(frozen=True)
class InvokeExtern(Instruction):
    """`to` holds what the function outside of the language of that name gives, which has to be of type `type` all
    through; else the run ends in a trap "shape" (call.T1). A call that `acts` is in the trace of effects."""

    to: Register
    name: str
    arguments: tuple[Register, ...]
    type: Type
    acts: bool = True


# --- control ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jump(Instruction):
    """The instruction with number `target`, which stands behind this one, is next."""

    target: int


@dataclass(frozen=True)
class JumpUnless(Instruction):
    """The instruction with number `target`, which stands behind this one, is next, unless the boolean in `condition`,
    which the host reads, holds."""

    condition: Register
    target: int


@dataclass(frozen=True)
class JumpUnlessMade(Instruction):
    """The instruction with number `target`, which stands behind this one, is next, unless the data value in `of` was
    made by that constructor."""

    of: Register
    constructor: str
    target: int


@dataclass(frozen=True)
class Return(Instruction):
    """The function is left; its value is that of `of`."""

    of: Register


@dataclass(frozen=True)
class ReturnCall(Instruction):
    """The function is left; its value is that of a call as by `InvokeFunction`, which takes its place: no activation is
    left behind."""

    function: str
    arguments: tuple[Register, ...]
    type: Type


@dataclass(frozen=True)
class ReturnCallClosure(Instruction):
    """The function is left; its value is that of a call as by `InvokeClosure`, which takes its place."""

    closure: Register
    arguments: tuple[Register, ...]
    type: Type
    acts: bool = False


@dataclass(frozen=True)
class Fail(Instruction):
    """The run ends in a trap of that kind: no clause of a match fits."""

    kind: str
    label: str
    message: str


@dataclass(frozen=True)
class RequireTrue(Instruction):
    """The boolean in `condition`, which the host reads, has to hold here, or the run ends in a trap "assertion"
    (assert_op.T1), whose message shows these values by `format`."""

    condition: Register
    shown: tuple[Register, ...] = ()
    format: str = ""


@dataclass(frozen=True)
class PrintRegisters(Instruction):
    """These values, as they are now, are appended to the trace of effects, with a format."""

    shown: tuple[Register, ...] = ()
    format: str = ""


INSTRUCTIONS: tuple[type[Instruction], ...] = (
    LoadConstant,
    LoadExtern,
    LoadConstructor,
    Move,
    MakeTuple,
    GetField,
    MakeData,
    MakeClosure,
    MakeShape,
    ShapeOfTensor,
    ReadShape,
    MakeReference,
    ReadReference,
    WriteReference,
    Kill,
    MatchType,
    AllocateStorage,
    AllocateTensor,
    ViewTensor,
    InvokeKernel,
    InvokeFunction,
    InvokeClosure,
    InvokeExtern,
    Jump,
    JumpUnless,
    JumpUnlessMade,
    Return,
    ReturnCall,
    ReturnCallClosure,
    Fail,
    RequireTrue,
    PrintRegisters,
)
"""All of them, in the order of their numbers in a file."""


def _fields(of: type[Instruction], type_: str) -> tuple[str, ...]:
    return tuple(f.name for f in fields(of) if f.type == type_)


ONE = {i: _fields(i, "Register") for i in INSTRUCTIONS}
"""The fields of an instruction that are a register."""
SOME = {i: _fields(i, "tuple[Register, ...]") for i in INSTRUCTIONS}
"""Those that are registers in an order."""
_READ = {i: tuple(f.name for f in fields(i) if f.name in (*ONE[i], *SOME[i]) and f.name != "to") for i in INSTRUCTIONS}


def reads(of: Instruction) -> tuple[Register, ...]:
    """The registers that an instruction reads, in order; those of a Kill are not read."""
    if isinstance(of, Kill):
        return ()
    found: list[Register] = []
    for name in _READ[type(of)]:
        value = getattr(of, name)
        found += value if isinstance(value, tuple) else (value,)
    return tuple(found)


def renumbered(of: Instruction, new: Callable[[Register], Register]) -> Instruction:
    """An instruction with other registers."""
    changed: dict[str, Any] = {name: new(getattr(of, name)) for name in ONE[type(of)]}
    changed.update((name, tuple(map(new, getattr(of, name)))) for name in SOME[type(of)])
    return replace(of, **changed)


def written(of: Instruction) -> Register | None:
    """The register that an instruction writes, if it writes one."""
    found: Register | None = getattr(of, "to", None)
    return found


def ends(of: Instruction) -> bool:
    """Whether what stands behind the instruction is not next."""
    return isinstance(of, (Jump, Return, ReturnCall, ReturnCallClosure, Fail))


def target(of: Instruction) -> int | None:
    """The number of the instruction to which one may jump, if it does."""
    return of.target if isinstance(of, (Jump, JumpUnless, JumpUnlessMade)) else None
