"""Whether bytecode is the graph function that it comes from, and its registers and storages are right (specs/verify.md,
"vm").

Three checks, none of which asks the compiler: every register and size has a value wherever it is read; no value that
may still be read lies in bytes that another one takes; and every function gives and does what its graph function does,
for every input.
"""

from __future__ import annotations

from dataclasses import replace

from assay.lower.devices import default_config
from assay.semantics.bytecode import Bytecode
from assay.semantics.bytecode.listing import told_limit
from assay.semantics.devices import ANYWHERE, GLOBAL
from assay.semantics.module import Module
from assay.verify.evidence import Context, Did, Evidence, plural, proved, refuted, unknown
from assay.verify.vm.flow import flow_of
from assay.verify.vm.registers import check_kinds, check_registers
from assay.verify.vm.rooms import check_rooms
from assay.verify.vm.storage import check_storage
from assay.verify.vm.translation import check_parts, check_translation
from assay.verify.vm.wrong import Undecided, Unsound


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the bytecode of `after` does what `before` does, in registers and storages that hold what is read."""
    code = after.bytecode
    try:
        flows = {name: flow_of(f) for name, f in code.functions.items()}
        wrong = next(filter(None, (check_registers(flow, after) for flow in flows.values())), None)
        if wrong is None:
            wrong = next(filter(None, (check_kinds(f, after) for f in code.functions.values())), None)
        if wrong is not None:
            return refuted("checked", wrong)
        check_parts(before, after)
        _check_host(before, code, context)
        done = check_translation(before, code, flows)
        wrong = check_storage(flows)
        if wrong is None:
            wrong = check_rooms(done.rooms, context.queries)
        if wrong is None:
            wrong = next(iter(done.spare), None)
        if wrong is not None:
            return refuted("proved", wrong)
    except Unsound as wrong:
        return refuted("proved", str(wrong))
    except Undecided as reason:
        return unknown("proved", str(reason))
    return proved(f"{plural(done.functions, 'function')} give and do what those of the source do, for every input")


def _check_host(before: Module, code: Bytecode, context: Context) -> None:
    """Whether what the executable says of the device that decides is what the program is compiled for."""
    config = context.config or default_config(before)
    wanted = ANYWHERE if config is None else replace(config.host, scope=GLOBAL)
    if code.host != wanted:
        raise Unsound(f"the device that decides is {code.host}, the program is compiled for {wanted}")


def describe(before: Module, after: Module) -> Did:
    """How many functions, instructions, registers and storages there are."""
    functions = after.bytecode.functions.values()
    instructions, registers = sum(len(f.body) for f in functions), sum(f.registers for f in functions)
    said = f"{plural(len(functions), 'function')}; {plural(instructions, 'instruction')}, {registers} registers"
    if limits := after.bytecode.main.limits:
        said += f"; for {', '.join(told_limit(*limit) for limit in limits)} alone"
    return said, {"functions": len(functions), "instructions": instructions, "registers": registers}
