"""Whether every register and every size has a value wherever it is read (specs/verify.md, "vm").

Forward over the control flow: what has a value at an instruction is what has one on every way to it. Of what has none
is kept why: never written, written on some ways only, or killed.
"""

from __future__ import annotations

from assay.semantics import bytecode as vm
from assay.verify.vm.flow import Flow
from assay.verify.vm.touched import Name, killed, sizes_bound, sizes_read
from assay.verify.vm.wrong import at, register


def check_registers(flow: Flow) -> str | None:
    """What is wrong with the registers and sizes of a function, if anything."""
    function = flow.function
    begin: frozenset[Name] = frozenset(range(len(function.parameters))) | frozenset(function.sizes[: function.inherited])
    defined: dict[int, frozenset[Name]] = {flow.order[0]: begin}
    gone: dict[int, frozenset[vm.Register]] = {flow.order[0]: frozenset()}
    for i in flow.order:
        instruction, here, lost = function.body[i], defined[i], gone[i]
        if (wrong := _odd(function, instruction, here, lost)) is not None:
            return f"{at(function, i)} {wrong}"
        to = vm.written(instruction)
        kills = frozenset(killed(instruction))
        behind = (here - kills) | frozenset(sizes_bound(instruction)) | (frozenset() if to is None else {to})
        lost = (lost | kills) - (frozenset() if to is None else {to})
        for s in flow.after[i]:
            defined[s] = defined[s] & behind if s in defined else behind
            gone[s] = gone.get(s, frozenset()) | lost
    return None


def _odd(
    function: vm.BytecodeFunction, instruction: vm.Instruction, here: frozenset[Name], lost: frozenset[vm.Register]
) -> str | None:
    """What an instruction reads that is not there."""
    to = vm.written(instruction)
    named = (*vm.reads(instruction), *killed(instruction), *(() if to is None else (to,)))
    for r in named:
        if not 0 <= r < function.registers:
            return f"names register {r}, and the function has {function.registers}"
    for v in sizes_bound(instruction):
        if v not in function.sizes:
            return f"gives a value to {v.name}, which is no size of the function"
    for r in vm.reads(instruction):
        if r not in here:
            why = "was killed on a way to here" if r in lost else "has no value on some way to here"
            return f"reads {register(function, r)}, which {why}"
    for v in sizes_read(instruction):
        if v not in here:
            return f"reads the size {v.name}, which has no value on some way to here"
    return None
