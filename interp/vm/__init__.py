"""The machine that runs bytecode (specs/interp.md; specs/vm.md, "Runs").

It has an explicit stack of activations, registers that hold values, and storages of shadowed bytes: every byte carries
which tensor wrote it last, so that a storage that is used again too early is caught on the run. A register that holds
nothing is not read: that is the trap "unwritten read".

    run(module, {"x": x})          # {"output_0": ...}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from assay.interp import vector
from assay.interp.binding import check_names
from assay.interp.graph.boundary import bind, given
from assay.interp.graph.contents import check_contents
from assay.interp.values import Event, Externs, Value
from assay.interp.vm.kernel_runs import Execute
from assay.interp.vm.limits import check_limits
from assay.interp.vm.machine import Machine, Observe, Place as Place
from assay.semantics.bytecode import InvokeExtern, LoadExtern
from assay.semantics.errors import Invalid, Span
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Size
from assay.semantics.tensor.calls import calls_of


def run(
    module: Module,
    inputs: Mapping[str, Any],
    *,
    execute: Execute = vector.run,
    externs: Externs | None = None,
    trace: list[Event] | None = None,
    observe: Observe | None = None,
    seed: int = 0,
    entry: str = "main",
    reached: set[Place] | None = None,
) -> dict[str, Value]:
    """The outputs of the module's bytecode by name, on inputs by name, as `assay.interp.graph.run` takes and gives
    them.

    `execute(func, inputs, outputs=...)`, with `scalars=...` and `scratch=...` where it has any, runs a tensor function
    on views of the machine's memory; "definition" runs it one element at a time, every access checked. Memory holds
    garbage from `seed` before it is written. After each call of a tensor function `observe` is told the function, the
    number of the instruction, the instruction and the arrays that it wrote, views which are good until it returns.
    `reached` gets the first instruction of each function that is called, and the one at which each choice goes on.
    Invalid: inputs or externs that are missing, unknown or of the wrong type; sizes for which it was not built
    (vm.C12); a late constant that is not bound; what is no bytecode. Traps: those of the graph's run, and "unwritten
    read", "clobbered", "out of bounds", "misaligned", "store to constant" and "wrong device" where the bytecode is
    wrong. `entry` is the function that is called.
    """
    code = module.bytecode
    called = code.entry(entry)
    for name in code.late:
        if name not in module.constants:
            raise Invalid(f"the constant {name} is bound late, and not given: give all with --constants", label="vm.C8")
    for name, at in _externs(module):
        if name not in (externs or {}):
            raise Invalid(f"no function was given for the extern {name}", where=at, label="extern.C1")
    machine = Machine(module, execute, externs or {}, [] if trace is None else trace, observe, seed, reached)
    types = called.inputs
    check_names(types, inputs)
    what = {n: f"input {n!r}" for n in types}
    made = {n: given(inputs[n], t, what[n]) for n, t in types.items()}
    meetings = [(t, made[n], what[n]) for n, t in types.items()]
    sizes: dict[Size, int] = {}
    bind(meetings, sizes, {})
    check_limits(called.function, sizes)
    check_contents(meetings, {}, module, externs or {})
    arguments = [
        machine.border.inward(v, n, code.devices[n])
        if entry == "main" and n in code.devices
        else machine.border.inward(v, n)
        for n, v in made.items()
    ]
    try:
        with np.errstate(all="ignore"):
            result = machine.run(entry, arguments)
    except BaseException:
        machine.border.close(())
        raise
    found = machine.border.close(result)
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(called.outputs):
        raise Invalid(f"{entry} gives {len(results)} values for {len(called.outputs)} outputs", label="vm.C4")
    return dict(zip(called.outputs, results, strict=True))


def _externs(module: Module) -> Iterator[tuple[str, Span | None]]:
    """The functions outside of the language that bytecode and its tensor functions name, and where."""
    for function in module.bytecode.functions.values():
        yield from ((i.name, i.span) for i in function.body if isinstance(i, (InvokeExtern, LoadExtern)))
    for kernel in module.kernels.values():
        yield from ((c.function, c.span) for c in calls_of(kernel) if c.extern)
