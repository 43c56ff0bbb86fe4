"""Whether every register and every size has a value wherever it is read, and every call is of something that is there
and takes so much (specs/verify.md, "vm").

Forward over the control flow: what has a value at an instruction is what has one on every way to it. Of what has none
is said why: killed, or never written on some way.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.interp.binding import hidden_symbols
from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, BytecodeFunction, Instruction
from assay.semantics.bytecode.kinds import odd_kind
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.types import DataDef
from assay.verify.vm.flow import Flow
from assay.verify.vm.touched import Name, killed, sizes_bound, sizes_read
from assay.verify.vm.wrong import at, register

ALLOCATIONS = "tensors for its allocations"


def check_registers(flow: Flow, module: Module) -> str | None:
    """What is wrong with the registers, sizes and calls of a function, if anything."""
    function = flow.function
    count = len(function.parameters)
    if count > function.registers or not 0 <= function.captured <= count:
        return (
            f"{function.name} has {count} parameters, {function.captured} captured, in {function.registers} registers"
        )
    begin: frozenset[Name] = frozenset(range(count)) | frozenset(function.sizes[: function.inherited])
    defined: dict[int, frozenset[Name]] = {flow.order[0]: begin}
    for i in flow.order:
        instruction, here = function.body[i], defined.pop(i)
        odd = next(_unknown(function, instruction, module), None) or _odd(flow, i, here)
        if odd is not None:
            return f"{at(function, i)} {odd}"
        to = vm.written(instruction)
        made: frozenset[Name] = frozenset(sizes_bound(instruction)) | (frozenset() if to is None else frozenset({to}))
        kills = frozenset(killed(instruction))
        behind = here if not kills and made <= here else (here - kills) | made
        for s in flow.after[i]:
            defined[s] = defined[s] & behind if s in defined else behind
    return None


def check_kinds(function: BytecodeFunction, module: Module) -> str | None:
    """Which instruction can do nothing with what a register holds, if one cannot. The function keeps what
    `check_registers` asks."""
    odd = odd_kind(function, module)
    return None if odd is None else f"{at(function, odd[0])} {odd[1]}"


def _odd(flow: Flow, index: int, here: frozenset[Name]) -> str | None:
    """What an instruction names that the function does not have, or reads that has no value."""
    function, instruction = flow.function, flow.function.body[index]
    to = vm.written(instruction)
    for r in (*vm.reads(instruction), *killed(instruction), *(() if to is None else (to,))):
        if not 0 <= r < function.registers:
            return f"names register {r}, and the function has {function.registers}"
    for v in sizes_bound(instruction):
        if v not in function.sizes:
            return f"gives a value to {v.name}, which is no size of the function"
    for r in vm.reads(instruction):
        if r not in here:
            before = flow.order[: flow.order.index(index)]
            lost = any(r in killed(function.body[i]) for i in before)
            why = "was killed on a way to here" if lost else "has no value on some way to here"
            return f"reads {register(function, r)}, which {why}"
    for v in sizes_read(instruction):
        if v not in here:
            return f"reads the size {v.name}, which has no value on some way to here"
    return None


def _unknown(function: BytecodeFunction, of: Instruction, module: Module) -> Iterator[str]:
    """What an instruction calls or makes that is not there, or with another number of parts than that has."""
    match of:
        case vm.InvokeFunction() | vm.ReturnCall():
            callee = module.bytecode.functions.get(of.function)
            if callee is None or callee.captured or callee.inherited:
                yield f"calls {of.function}, which is no function of the executable that captures nothing"
            elif len(callee.parameters) != len(of.arguments):
                yield f"calls {of.function}, which takes {len(callee.parameters)} arguments, with {len(of.arguments)}"
        case vm.MakeClosure():
            yield from _closure(of, module.bytecode)
        case vm.InvokeKernel():
            yield from _kernel(of, module)
        case vm.MakeData():
            yield from _data(of.type.name, of.constructor, len(of.fields), module)
        case vm.LoadConstructor():
            yield from _data(of.data, of.constructor, None, module)


def _closure(of: vm.MakeClosure, code: Bytecode) -> Iterator[str]:
    callee = code.functions.get(of.function)
    if callee is None:
        yield f"makes {of.function}, which is no function of the executable"
        return
    captured = len(of.captured) + (of.itself is not None)
    if captured != callee.captured or (of.itself is not None and not 0 <= of.itself < callee.captured):
        yield f"captures {captured} values for {of.function}, which takes {callee.captured}"
    if len(of.sizes) != callee.inherited:
        yield f"hands {len(of.sizes)} sizes over to {of.function}, which inherits {callee.inherited}"


def _kernel(of: vm.InvokeKernel, module: Module) -> Iterator[str]:
    try:
        kernel = module.kernel(of.kernel)
    except Invalid:
        yield f"runs {of.kernel}, which is no tensor function of the module"
        return
    for what, given, wanted in (
        ("tensors to read", of.reads, kernel.inputs),
        ("tensors to fill", of.writes, kernel.outputs),
        ("scalars", of.scalars, kernel.scalars),
        ("hidden sizes", of.hidden, hidden_symbols(kernel)),
        (ALLOCATIONS, of.scratch, kernel.allocations),
    ):
        if len(given) != len(wanted) and not (what == ALLOCATIONS and not given):
            yield f"gives {of.kernel} {len(given)} {what}, and it has {len(wanted)}"


def _data(name: str, constructor: str, fields: int | None, module: Module) -> Iterator[str]:
    data = module.definitions.get(name)
    if not isinstance(data, DataDef) or constructor not in data.constructors:
        yield f"makes {constructor} of {name}, which is no constructor of a data type of the module"
    elif fields is not None and len(data.constructors[constructor]) != fields:
        yield f"makes {constructor} of {fields} fields, and it has {len(data.constructors[constructor])}"
