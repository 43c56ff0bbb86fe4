"""What registers hold, found before anything runs (specs/semantics.md; specs/vm.md, "Well-formed").

Forward over the text: of each register is known its type but for sizes, or that it is a storage. Each instruction takes
what it can do something with; what a call, a field or a reference is handed has to be of the type that stands there.
Nothing is asked of a run but sizes, and what a match traps on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.semantics import bytecode as vm, graph
from assay.semantics.dtypes import BOOL, INT64, dtype
from assay.semantics.module import Module
from assay.semantics.types import (
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
)
from assay.semantics.walk import Worklist, post_order

Kind: TypeAlias = Type | Literal["a storage", "one thing on one way to here and another on another"]
"""What a register holds."""
STORAGE: Literal["a storage"] = "a storage"
EITHER: Literal["one thing on one way to here and another on another"] = (
    "one thing on one way to here and another on another"
)


class Odd(Exception):
    """An instruction cannot do anything with what it is given."""


@dataclass
class Registers:
    """What the registers hold at a place, and which constructor made a data value, where that was asked."""

    holds: dict[vm.Register, Kind]
    made: dict[vm.Register, str] = field(default_factory=dict)

    def copy(self) -> Registers:
        """The same, for another way."""
        return Registers(dict(self.holds), dict(self.made))

    def joined(self, other: Registers) -> Registers:
        """What is held where two ways meet."""
        holds: dict[vm.Register, Kind] = {}
        for r, kind in self.holds.items():
            if r in other.holds:
                holds[r] = kind if _alike(kind, other.holds[r]) else EITHER
        return Registers(holds, {r: c for r, c in self.made.items() if other.made.get(r) == c})


def odd_kind(function: vm.BytecodeFunction, module: Module) -> tuple[int, str] | None:
    """The first instruction that cannot do anything with what a register holds, by its number, and why. The function
    keeps all other rules."""
    at = _Kinds(function, module)
    waiting: dict[int, Registers] = {}
    here: Registers | None = Registers(dict(enumerate(function.parameters)))
    for number, instruction in enumerate(function.body):
        came = waiting.pop(number, None)
        here = came if here is None else here if came is None else here.joined(came)
        if here is None:
            continue  # no way leads here
        try:
            at.step(instruction, here)
        except Odd as wrong:
            return number, str(wrong)
        there = vm.target(instruction)
        if there is not None:
            waiting[there] = waiting[there].joined(here) if there in waiting else here.copy()
        if isinstance(instruction, vm.JumpUnlessMade):
            here.made[instruction.of] = instruction.constructor
        if vm.ends(instruction):
            here = None
    return None


class _Kinds:
    """The kinds of one function."""

    def __init__(self, function: vm.BytecodeFunction, module: Module) -> None:
        self.function, self.module, self.code = function, module, module.bytecode

    def step(self, of: vm.Instruction, here: Registers) -> None:
        """What the registers hold behind an instruction; Odd where it cannot run."""
        if isinstance(of, vm.Kill):
            for r in of.registers:
                here.holds.pop(r, None)
                here.made.pop(r, None)
            return
        if isinstance(of, vm.MatchType):
            here.holds[of.of] = self.looked_at(of, here)
            return
        made = self.moved(of, here) if isinstance(of, vm.Move) else self.made(of, here)
        to = vm.written(of)
        if to is not None and made is not None:
            here.holds[to] = made
            here.made.pop(to, None)
            if isinstance(of, vm.MakeData):
                here.made[to] = of.constructor

    def moved(self, of: vm.Move, here: Registers) -> Kind:
        """What a move leaves."""
        return here.holds[of.of]

    def made(self, of: vm.Instruction, here: Registers) -> Kind | None:
        """What an instruction makes; None where it makes nothing."""
        match of:
            case vm.LoadConstant():
                held = self.module.constants.get(of.name)
                if held is None and of.name not in self.code.late:
                    raise Odd(f"there is no constant {of.name}")
                return self.code.late[of.name] if held is None else TensorType(held.shape, dtype(held.dtype))
            case vm.LoadExtern():
                return of.type
            case vm.LoadConstructor():
                return graph.constructor(self.module.data(of.data), of.constructor).type
            case vm.MakeTuple():
                return TupleType(tuple(self.values(of.fields, here)))
            case vm.GetField():
                return self.part(of, here)
            case vm.MakeData():
                self.takes(of.constructor, _fields(self.module, of.type, of.constructor), of.fields, here)
                return of.type
            case vm.MakeClosure():
                return self.closure(of, here)
            case vm.MakeShape():
                return ShapeType(of.dims)
            case vm.ShapeOfTensor():
                return ShapeType(self.tensor(of.of, here).shape)
            case vm.ReadShape():
                return self.read_shape(of, here)
            case vm.MakeReference():
                return RefType(self.value(of.of, here))
            case vm.ReadReference():
                return self.cell(of.of, here).value
            case vm.WriteReference():
                self.takes("the reference", (self.cell(of.of, here).value,), (of.value,), here)
                return None
            case vm.AllocateStorage():
                return STORAGE
            case vm.AllocateTensor():
                if here.holds[of.storage] != STORAGE:
                    raise self.no(of.storage, here, "storage")
                return of.type
            case vm.ViewTensor():
                if self.tensor(of.of, here).dtype is not of.type.dtype:
                    raise self.no(of.of, here, f"tensor of {of.type.dtype}")
                return of.type
            case _:
                return self.called(of, here)

    def called(self, of: vm.Instruction, here: Registers) -> Kind | None:
        """What a call gives; what else there is gives nothing."""
        match of:
            case vm.InvokeKernel():
                self.kernel(of, here)
            case vm.InvokeFunction() | vm.ReturnCall():
                function = self.code.functions[of.function]
                self.call(of.function, function.type, of.arguments, of.type, here)
            case vm.InvokeClosure() | vm.ReturnCallClosure():
                callee = self.value(of.closure, here)
                if isinstance(callee, FuncType):
                    self.call(_word(self.function, of.closure), callee, of.arguments, of.type, here)
                elif not isinstance(callee, ObjectType):
                    raise self.no(of.closure, here, "function")
            case vm.InvokeExtern():
                self.values(of.arguments, here)
            case vm.JumpUnless() | vm.RequireTrue():
                self.condition(of.condition, here)
                self.values(of.shown if isinstance(of, vm.RequireTrue) else (), here)
            case vm.JumpUnlessMade():
                self.asked(of, here)
            case vm.PrintRegisters():
                self.values(of.shown, here)
            case vm.Return():
                self.gives(self.value(of.of, here))
            case _:
                pass
        if isinstance(of, vm.ReturnCall | vm.ReturnCallClosure):
            self.gives(of.type)
        return of.type if isinstance(of, vm.InvokeFunction | vm.InvokeClosure | vm.InvokeExtern) else None

    def looked_at(self, of: vm.MatchType, here: Registers) -> Type:
        """What a value is that has a type. A match looks at tensors, shapes and tuples of them: what else there is has
        to be known."""
        found = self.value(of.of, here)
        seen = post_order(of.type, lambda t: t.children if isinstance(t, TupleType) else ())
        if isinstance(found, ObjectType) and all(isinstance(t, TupleType | TensorType | ShapeType) for t in seen):
            return of.type
        if not _fits(of.type, found, {}):
            raise Odd(f"{_word(self.function, of.of)} is {_told(found)}, and never {_told(of.type)}")
        return of.type

    # --- what an instruction takes -----------------------------------------------------------------------------------

    def no(self, r: vm.Register, here: Registers, wanted: str) -> Odd:
        """A register holds something else than is wanted."""
        return Odd(f"{_word(self.function, r)} is {_told(here.holds[r])}, and no {wanted}")

    def value(self, r: vm.Register, here: Registers) -> Type:
        """The type of the value in a register."""
        found = here.holds[r]
        if isinstance(found, str):
            raise self.no(r, here, "value")
        return found

    def values(self, some: Sequence[vm.Register], here: Registers) -> list[Type]:
        """The types of values."""
        return [self.value(r, here) for r in some]

    def tensor(self, r: vm.Register, here: Registers) -> TensorType:
        """The type of the tensor in a register."""
        found = self.value(r, here)
        if not isinstance(found, TensorType):
            raise self.no(r, here, "tensor")
        return found

    def cell(self, r: vm.Register, here: Registers) -> RefType:
        """The type of the reference in a register."""
        found = self.value(r, here)
        if not isinstance(found, RefType):
            raise self.no(r, here, "reference")
        return found

    def condition(self, r: vm.Register, here: Registers) -> None:
        """A register holds one boolean."""
        found = self.value(r, here)
        if not isinstance(found, TensorType) or found.dtype is not BOOL or found.ndim:
            raise self.no(r, here, "boolean")

    def read_shape(self, of: vm.ReadShape, here: Registers) -> ShapeType:
        """The sizes in a vector, of which there are so many as it says."""
        found = self.tensor(of.of, here)
        if found.dtype is not INT64 or found.ndim != 1:
            raise self.no(of.of, here, "vector of int64")
        (count,) = found.shape
        return ShapeType((0,) * count) if isinstance(count, int) and count < MOST_SIZES else ShapeType(())

    def part(self, of: vm.GetField, here: Registers) -> Type:
        """The type of a field."""
        found = self.value(of.of, here)
        parts: Sequence[Type] = ()
        if isinstance(found, TupleType):
            parts = found.fields
        elif isinstance(found, DataType):
            data = self.module.data(found.name)
            name = here.made.get(of.of) or (next(iter(data.constructors)) if len(data.constructors) == 1 else None)
            if name is None:
                raise Odd(f"{_word(self.function, of.of)} is a {found.name}, and nothing says here what has made it")
            parts = _fields(self.module, found, name)
        else:
            raise self.no(of.of, here, "tuple or data value")
        if not 0 <= of.index < len(parts):
            raise Odd(f"{_word(self.function, of.of)} has {len(parts)} fields, and no field {of.index}")
        return parts[of.index]

    def asked(self, of: vm.JumpUnlessMade, here: Registers) -> None:
        """What is asked for its constructor is of a data type that has it."""
        found = self.value(of.of, here)
        if not isinstance(found, DataType):
            raise self.no(of.of, here, "data value")
        if of.constructor not in self.module.data(found.name).constructors:
            raise Odd(f"{_word(self.function, of.of)} is a {found.name}, which has no constructor {of.constructor}")

    def closure(self, of: vm.MakeClosure, here: Registers) -> Type:
        """The type of a function whose first parameters are filled."""
        function = self.code.functions[of.function]
        made = function.type
        wanted = list(function.parameters[: function.captured])
        if of.itself is not None and not _fits(wanted.pop(of.itself), made, {}):
            raise Odd(f"{of.function} is handed itself for a value of another type")
        self.takes(of.function, wanted, of.captured, here)
        return made

    def kernel(self, of: vm.InvokeKernel, here: Registers) -> None:
        """Tensors of the elements and the axes that a tensor function has."""
        kernel = self.module.kernel(of.kernel)
        for r, buffer in zip((*of.reads, *of.writes, *of.scratch), (*kernel.params, *kernel.allocations), strict=False):
            found = self.tensor(r, here)
            if found.dtype is not buffer.dtype or found.ndim != len(buffer.shape):
                raise self.no(r, here, f"tensor of {buffer.dtype} and {len(buffer.shape)} axes, {buffer.name}")

    def takes(
        self,
        who: str,
        wanted: Sequence[Type],
        given: Sequence[vm.Register],
        here: Registers,
        bound: dict[TypeVar, Type | None] | None = None,
    ) -> None:
        """Values have types."""
        for r, want in zip(given, wanted, strict=True):
            if not _fits(want, self.value(r, here), {} if bound is None else bound):
                raise Odd(f"{_word(self.function, r)} is {_told(here.holds[r])}, and {who} takes {_told(want)}")

    def call(self, who: str, callee: FuncType, given: Sequence[vm.Register], gives: Type, here: Registers) -> None:
        """A function takes what it is handed, and gives what the call says."""
        if len(callee.params) != len(given):
            raise Odd(f"{who} takes {len(callee.params)} arguments, and {len(given)} are given")
        bound: dict[TypeVar, Type | None] = dict.fromkeys(callee.type_params)
        self.takes(who, callee.params, given, here, bound)
        if not _fits(callee.result, gives, bound):
            raise Odd(f"{who} gives {_told(callee.result)}, and is said to give {_told(gives)}")

    def gives(self, found: Type) -> None:
        """The function gives what it says."""
        if not _fits(self.function.result, found, {}):
            raise Odd(f"{self.function.name} gives {_told(found)}, and is said to give {_told(self.function.result)}")


MOST_SIZES = 1 << 10
"""Sizes of a shape of which a program can say something."""


def _fields(module: Module, of: DataType, constructor: str) -> Sequence[Type]:
    """The types of what a constructor takes for a value of a data type."""
    return graph.field_types(graph.constructor(module.data(of.name), constructor), of)


def _alike(a: Kind, b: Kind) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b and a != EITHER
    return a is b or (_fits(a, b, {}) and _fits(b, a, {}))


def _fits(want: Type, have: Type, bound: dict[TypeVar, Type | None]) -> bool:
    """Whether a value of one type may be where another is wanted, whatever the sizes are. The type parameters in
    `bound` stand for what they meet first; those of a function that is handed over stand for anything."""
    loose: set[TypeVar] = set()
    work = Worklist[tuple[Type, Type]]([(want, have)], lambda pair: (id(pair[0]), id(pair[1])))
    for w, h in work:
        match w, h:
            case ObjectType(), _:
                continue
            case TypeVar(), _ if w in bound:
                known = bound[w]
                if known is None:
                    bound[w] = h
                else:
                    work.add([(known, h)])
            case (TypeVar(), _) | (_, TypeVar()):
                if w is not h and w not in loose and h not in loose:
                    return False
            case TensorType(), TensorType():
                if w.dtype is not h.dtype or w.ndim != h.ndim:
                    return False
            case ShapeType(), ShapeType():
                continue  # how many sizes there are is looked at by a match
            case TupleType(), TupleType() if len(w.fields) == len(h.fields):
                work.add(zip(w.fields, h.fields, strict=True))
            case RefType(), RefType():
                work.add([(w.value, h.value)])
            case FuncType(), FuncType() if len(w.params) == len(h.params):
                loose |= {*w.type_params, *h.type_params}
                work.add([*zip(w.params, h.params, strict=True), (w.result, h.result)])
            case DataType(), DataType() if w.name == h.name and len(w.args) == len(h.args):
                work.add(zip(w.args, h.args, strict=True))
            case _:
                return False
    return True


def _word(function: vm.BytecodeFunction, r: vm.Register) -> str:
    name = function.names.get(r)
    return f"register %{r}" + (f" ({name})" if name else "")


def _told(of: Kind) -> str:
    """What a value is, in a few words: a type may be of any length."""
    match of:
        case str():
            return of
        case TensorType():
            return f"a tensor of {of.dtype} and {of.ndim} axes"
        case TupleType():
            return f"a tuple of {len(of.fields)}"
        case FuncType():
            return f"a function of {len(of.params)}"
        case RefType():
            return "a reference"
        case DataType() | TypeVar():
            return f"a {of.name}"
        case ShapeType():
            return "a shape"
        case ObjectType():
            return "any object"
