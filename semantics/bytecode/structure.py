"""What bytecode must be before it runs: a validator for executables of strangers (specs/semantics.md;
specs/vm.md, "Well-formed").

`broken_bytecode(code, module)`, which `assay.semantics.rules` asks, has an Invalid for each rule that is broken, with
the instruction. It takes nothing for granted that `assay.semantics.bytecode.decode` has not seen to, and the rules of
what stands beside. A run of what passes may trap, as any run may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from assay.semantics.bytecode import (
    AllocateStorage,
    Bytecode,
    BytecodeFunction,
    Instruction,
    Kill,
    MatchType,
    ends,
    reads,
    target,
    written,
)
from assay.semantics.bytecode.code_form import FIELDS, element_form
from assay.semantics.bytecode.kinds import odd_kind
from assay.semantics.bytecode.names import broken_names
from assay.semantics.dtypes import BOOL, INT64, dtype
from assay.semantics.errors import AssayError, Invalid
from assay.semantics.graph.rules import check_type
from assay.semantics.module import Module
from assay.semantics.scalar import Apply, Choice, Const, Dim, Expr, Var as Size, variables, without_value
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import DataDef, Type, TypeVar, dims, free_type_vars, open_symbols, symbols
from assay.semantics.walk import post_order

LARGEST_ALIGNMENT = 1 << 16


def broken_bytecode(code: Bytecode, module: Module) -> Iterator[Invalid]:
    """What is ill-formed about an executable: one Invalid for each broken rule and place."""
    for name, d in module.definitions.items():
        if d is not code and not isinstance(d, PrimFunc | DataDef):
            yield Invalid(f"{name} is neither a tensor function nor a data type", where=name, label="bytecode.C7")
    yield from _broken_entry(code)
    for name, of in code.late.items():
        if name in module.constants:
            yield Invalid(f"the constant {name} is bound late, and is there", label="bytecode.C8")
        if not of.is_static or any(why for why in map(_no_size, of.shape)):
            yield Invalid(f"the constant {name} is bound late, and is {of}, of no shape", label="bytecode.C8")
    sizes = _Sizes(frozenset(t for f in code.functions.values() for t in f.type_params))
    holds = True
    for function in code.functions.values():
        for wrong in _Function(function, module, sizes).broken():
            holds = False
            yield _at(wrong, function.name)
    for function in code.functions.values() if holds else ():
        odd = odd_kind(function, module)
        if odd is not None:
            number, what = odd
            yield Invalid(what, where=_place(function, number, function.body[number]), label="bytecode.C18")


def _broken_entry(code: Bytecode) -> Iterator[Invalid]:
    """There is a main that takes the inputs and gives the outputs, and no name stands twice."""
    main = code.functions.get("main")
    if main is None:
        yield Invalid("there is no function main", label="bytecode.C7")
        return
    if main.captured or main.inherited or main.type_params:
        yield Invalid("main is filled by a closure, or has type parameters", label="bytecode.C7")
    if len(code.inputs) != len(main.parameters):
        what = f"{len(code.inputs)} inputs have names, and main takes {len(main.parameters)}"
        yield Invalid(what, label="bytecode.C7")
    for what, names in (("inputs", code.inputs), ("outputs", code.outputs)):
        if len(set(names)) < len(names):
            yield Invalid(f"two {what} have one name", label="bytecode.C7")
    for name in code.devices:
        if name not in code.inputs:
            yield Invalid(f"{name} has a device, and is no input", label="bytecode.C7")


@dataclass
class _Sizes:
    """Says what is wrong with a size, or a type; each is looked at once. A function inside of another has the type
    parameters of that."""

    type_params: frozenset[TypeVar]
    known: dict[int, str] = field(default_factory=dict)
    kept: list[Expr] = field(default_factory=list)

    def no_size(self, of: Dim) -> str:
        """Why a dim is none; "" where it is one."""
        if not isinstance(of, Expr):
            return _no_size(of)
        if id(of) not in self.known:
            self.kept.append(of)
            self.known[id(of)] = _no_expression(of)
        return self.known[id(of)]

    def in_type(self, of: Type) -> str:
        """Why a type has a dim that is none."""
        for t in post_order(of):
            for d in dims(t):
                why = self.no_size(d) or (f"{d} is below 0" if isinstance(d, int) and d < 0 else "")
                if why:
                    return why
        return ""


def _no_size(of: Dim) -> str:
    return "" if isinstance(of, Expr) or -(1 << 63) <= of < 1 << 63 else f"{of} takes more than 64 bits"


def _no_expression(of: Expr) -> str:
    """Why an expression is no size: those are whole numbers of 64 bits, made of such, and choices of them."""
    for node in post_order(of):
        wanted: tuple[object, ...] = (INT64,) if node is of else (INT64, BOOL)
        match node:
            case Size() if node.dtype is INT64:
                continue
            case Const() if node.dtype in wanted and dtype(node.value.dtype) is node.dtype and not node.value.shape:
                continue
            case Apply() | Choice() if node.dtype in wanted:
                try:
                    made = node.rebuilt(node.children)
                except AssayError as wrong:
                    return wrong.message
                if made.dtype is node.dtype:
                    continue
        return f"{type(node).__name__.lower()} of {node.dtype} in a size"
    return without_value(of)


class _Function:
    """The rules of one function."""

    def __init__(self, of: BytecodeFunction, module: Module, sizes: _Sizes) -> None:
        self.of, self.module, self.sizes = of, module, sizes
        self.own_sizes = frozenset(of.sizes)
        self.waiting: dict[int, frozenset[int | Size]] = {}

    def broken(self) -> Iterator[Invalid]:
        """What is ill-formed; after the first of these the rest has no meaning."""
        for rule in (self.head, self.instructions, self.values):
            found = list(rule())
            yield from found
            if found:
                return

    def head(self) -> Iterator[Invalid]:
        """Its numbers fit, and its types are types."""
        of = self.of
        if not of.captured <= len(of.parameters) <= of.registers:
            what = f"{len(of.parameters)} parameters, {of.captured} of them captured, in {of.registers} registers"
            yield Invalid(what, label="bytecode.C9")
        if of.inherited > len(of.sizes) or len(self.own_sizes) < len(of.sizes):
            yield Invalid(f"{of.inherited} of {len(of.sizes)} sizes inherited, or one twice", label="bytecode.C9")
        if any(r >= of.registers for r in of.names):
            yield Invalid("a register that is not there has a name", label="bytecode.C9")
        if not of.body:
            yield Invalid("there are no instructions", label="bytecode.C12")
        for t in (*of.parameters, of.result):
            yield from self.type(t)
        told = {v for t in of.parameters for v in symbols(t)}
        for v, least, most in of.limits:
            if v not in told or (most is not None and least > most):
                what = f"{v.name} from {least} to {most} is no limit of a size of its parameters"
                yield Invalid(what, label="bytecode.C14")
        for v in of.sizes:
            if v.dtype is not INT64:
                yield Invalid(f"the size {v.name} is {v.dtype}, and must be int64", label="bytecode.C14")

    def type(self, of: Type) -> Iterator[Invalid]:
        """A type is one of the module, over sizes that are sizes and type parameters that are there."""
        why = self.sizes.in_type(of)
        if why:
            yield Invalid(f"{of} is no type: {why}", label="bytecode.C14")
            return
        try:
            check_type(of, self.module)
        except Invalid as wrong:
            yield Invalid(f"{of} is no type: {wrong.message}", label="bytecode.C14")
        for t in free_type_vars(of):
            if t not in self.sizes.type_params:
                yield Invalid(f"{of} is no type here: {t} is no type parameter", label="bytecode.C14")

    def instructions(self) -> Iterator[Invalid]:
        """Each instruction by itself: what it names is there, and fits."""
        for number, instruction in enumerate(self.of.body):
            where = _place(self.of, number, instruction)
            for wrong in self.instruction(number, instruction):
                yield _at(wrong, where)

    def instruction(self, number: int, of: Instruction) -> Iterator[Invalid]:
        """The rules of one instruction."""
        last, to = len(self.of.body) - 1, written(of)
        killed = of.registers if isinstance(of, Kill) else ()
        for r in (*reads(of), *killed, *(() if to is None else (to,))):
            if r >= self.of.registers:
                yield Invalid(f"register {r}, and there are {self.of.registers}", label="bytecode.C10")
        there = target(of)
        if there is not None and not number < there <= last:
            yield Invalid(f"a jump to {there}: it has to go forwards, and to {last} at most", label="bytecode.C11")
        if number == last and not ends(of):
            yield Invalid("the last instruction neither returns nor fails", label="bytecode.C12")
        for name, form in FIELDS[type(of)]:
            yield from self.field(getattr(of, name), form)
        if isinstance(of, AllocateStorage) and not (
            0 < of.alignment <= LARGEST_ALIGNMENT and of.alignment & (of.alignment - 1) == 0
        ):
            what = f"{of.alignment} is no alignment: a power of two is, up to {LARGEST_ALIGNMENT}"
            yield Invalid(what, label="bytecode.C15")
        if isinstance(of, MatchType):
            unknown = [v for v in of.binds if v not in self.own_sizes or v not in open_symbols(of.type)]
            if unknown or len({*of.binds}) < len(of.binds):
                yield Invalid("it binds what is no size of the function and of its type", label="bytecode.C14")
        yield from broken_names(of, self.module)

    def field(self, value: object, form: str) -> Iterator[Invalid]:
        """What a field says, by its form."""
        of = element_form(form)
        if of is not None:
            for one in value if isinstance(value, tuple) else ():
                yield from self.field(one, of)
        elif form == "Dim":
            why = self.sizes.no_size(value) if isinstance(value, int | Expr) else "it is none"
            if why:
                yield Invalid(f"no size: {why}", label="bytecode.C14")
        elif form.endswith("Type"):
            yield from self.type(value)  # type: ignore[arg-type]

    def values(self) -> Iterator[Invalid]:
        """Whatever is read has a value on every way to there. Jumps go forwards, so one pass over the text will do."""
        of = self.of
        here: frozenset[int | Size] | None = frozenset(range(len(of.parameters))) | frozenset(of.sizes[: of.inherited])
        for number, instruction in enumerate(of.body):
            came = self.waiting.pop(number, None)
            here = came if here is None else here if came is None else here & came
            if here is None:
                continue  # no way leads here
            for what in self.missing(instruction, here):
                yield Invalid(what, where=_place(of, number, instruction), label="bytecode.C16")
            here = _behind(instruction, here)
            there = target(instruction)
            if there is not None:
                self.waiting[there] = self.waiting[there] & here if there in self.waiting else here
            if ends(instruction):
                here = None

    def missing(self, of: Instruction, here: frozenset[int | Size]) -> Iterator[str]:
        """What an instruction reads that has no value."""
        for r in reads(of):
            if r not in here:
                yield f"register {r} is read, and holds nothing on some way to here"
        for v in _sizes_read(of):
            if v not in here:
                yield f"the size {v.name} is read, and has no value on some way to here"


def _at(wrong: Invalid, where: str) -> Invalid:
    """The same failure with a place, unless it has one."""
    wrong.at(where)
    return wrong


def _behind(of: Instruction, here: frozenset[int | Size]) -> frozenset[int | Size]:
    """What has a value once an instruction has ended."""
    if isinstance(of, Kill):
        return here - frozenset(of.registers)
    if isinstance(of, MatchType):
        return here | frozenset(of.binds)
    to = written(of)
    return here if to is None or to in here else here | {to}


def _sizes_read(of: Instruction) -> Iterable[Size]:
    """The sizes that an instruction needs the values of. A call's type is as the caller sees it: sizes that it tells
    stand there too, and are matched behind it."""
    if isinstance(of, MatchType):
        return [v for v in symbols(of.type) if v not in of.binds]
    found: dict[Size, None] = {}
    for name, form in FIELDS[type(of)]:
        value = getattr(of, name)
        if form == "TensorType":
            found.update(dict.fromkeys(symbols(value)))
        elif form in ("Dim", "tuple[Dim, ...]"):
            for d in value if isinstance(value, tuple) else (value,):
                found.update(dict.fromkeys(variables(d)))
    return found


def _place(of: BytecodeFunction, number: int, instruction: Instruction) -> str:
    return f"{of.name}, instruction {number} ({type(instruction).__name__})"
