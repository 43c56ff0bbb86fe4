"""Whether what an instruction names is there, and takes as much as it is given (specs/semantics.md;
specs/vm.md, "Well-formed")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.semantics.bytecode import (
    Instruction,
    InvokeFunction,
    InvokeKernel,
    JumpUnlessMade,
    LoadConstant,
    LoadConstructor,
    MakeClosure,
    MakeData,
    ReturnCall,
)
from assay.semantics.errors import Invalid
from assay.semantics.instance import hidden_symbols
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import DataDef


def broken_names(of: Instruction, module: Module) -> Iterator[Invalid]:
    """What is wrong with the names of an instruction (bytecode.C13), and with its counts (bytecode.C17)."""
    match of:
        case LoadConstant(name=name):
            if name not in module.constants and name not in module.bytecode.late:
                yield _missing(f"constant {name}")
        case InvokeFunction() | ReturnCall():
            yield from _call(of.function, of.arguments, module)
        case MakeClosure():
            yield from _closure(of, module)
        case InvokeKernel():
            yield from _kernel(of, module)
        case MakeData():
            yield from _data(of.type.name, of.constructor, len(of.fields), module)
        case LoadConstructor():
            yield from _data(of.data, of.constructor, None, module)
        case JumpUnlessMade():
            known = (d.constructors for d in module.definitions.values() if isinstance(d, DataDef))
            if not any(of.constructor in names for names in known):
                yield _missing(f"constructor {of.constructor}")
        case _:
            pass


def _missing(what: str) -> Invalid:
    return Invalid(f"there is no {what}", label="bytecode.C13")


def _counts(name: str, counts: Sequence[tuple[str, int, int]]) -> Iterator[Invalid]:
    for what, wanted, given in counts:
        if wanted != given:
            yield Invalid(f"{name} takes {wanted} {what}, and {given} are given", label="bytecode.C17")


def _call(name: str, arguments: Sequence[int], module: Module) -> Iterator[Invalid]:
    function = module.bytecode.functions.get(name)
    if function is None:
        yield _missing(f"function {name}")
        return
    counts = (("arguments", len(function.parameters), len(arguments)), ("captured values", function.captured, 0))
    yield from _counts(name, (*counts, ("sizes from a closure", function.inherited, 0)))


def _closure(of: MakeClosure, module: Module) -> Iterator[Invalid]:
    function = module.bytecode.functions.get(of.function)
    if function is None:
        yield _missing(f"function {of.function}")
        return
    captured = len(of.captured) + (of.itself is not None)
    yield from _counts(
        of.function,
        (("captured values", function.captured, captured), ("sizes", function.inherited, len(of.sizes))),
    )
    if of.itself is not None and of.itself >= captured:
        yield Invalid(f"the closure itself is value {of.itself} of {captured}", label="bytecode.C17")


def _kernel(of: InvokeKernel, module: Module) -> Iterator[Invalid]:
    func = module.definitions.get(of.kernel)
    if not isinstance(func, PrimFunc):
        yield _missing(f"tensor function {of.kernel}")
        return
    counts = (
        ("inputs", len(func.inputs), len(of.reads)),
        ("outputs", func.num_outputs, len(of.writes)),
        ("scalars", len(func.scalars), len(of.scalars)),
        ("further sizes", len(hidden_symbols(func)), len(of.hidden)),
        ("allocations", len(func.allocations) if of.scratch else 0, len(of.scratch)),
    )
    yield from _counts(of.kernel, counts)


def _data(name: str, constructor: str, fields: int | None, module: Module) -> Iterator[Invalid]:
    data = module.definitions.get(name)
    if not isinstance(data, DataDef) or constructor not in data.constructors:
        yield _missing(f"constructor {constructor} of a data type {name}")
    elif fields is not None:
        yield from _counts(f"{name}.{constructor}", (("fields", len(data.constructors[constructor]), fields),))
