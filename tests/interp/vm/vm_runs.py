"""Runs of bytecode beside runs of the graph that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from assay.interp import graph, vector, vm
from assay.interp.values import Externs, Value
from assay.interp.vm.kernel_runs import Execute
from assay.lower.vm import to_bytecode
from assay.semantics.bytecode import Bytecode, BytecodeFunction
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.verify.app.stages import lowering_passes
from tests.observation import Observation, observe
from tests.shown.case import HEAD

FRONT = ("devices", "anf", "legalize", "fuse", "constants", "schedule")
"""The stages before the bytecode."""


def front(module: Module, **more: Any) -> Module:
    """A module, lowered as far as bytecode is made from."""
    passes = lowering_passes(**more)
    for name in FRONT:
        module = passes[name](module)
    return module


def text(body: str) -> Module:
    """A lowered module of what stands in its class."""
    return front(parse(HEAD + body.strip("\n") + "\n"))


def difference(
    module: Module,
    inputs: Mapping[str, Any],
    *,
    code: Module | None = None,
    externs: Externs | None = None,
    execute: Execute = vector.run,
) -> str:
    """What tells a run of a lowered module's bytecode from one of its graph, results bit for bit; "" if nothing does.
    A trap has to be of the same kind at the same place, and inputs are refused for the same reason."""
    code = to_bytecode(module) if code is None else code
    wanted = _seen(module, inputs, externs, graph.run)
    found = _seen(code, inputs, externs, partial(vm.run, execute=execute))
    if isinstance(wanted, str) or isinstance(found, str):
        return "" if wanted == found else f"{wanted} against {found}"
    if wanted.trap is not None and found.trap is not None:
        trap = found.trap.but(where=wanted.trap.where) if wanted.trap.where is None else found.trap
        if trap.kind == wanted.trap.kind == "shape":
            trap = trap.but(label=wanted.trap.label)  # the first of several checks may say it
        found = replace(found, trap=trap)
    return wanted.difference(found) or ""


def _seen(
    module: Module, inputs: Mapping[str, Any], externs: Externs | None, run: Callable[..., Any]
) -> Observation | str:
    try:
        return observe(module, inputs, externs, run)
    except Invalid as wrong:
        return f"invalid {wrong.label}"


def results(module: Module, **inputs: Value) -> list[Value]:
    """What bytecode gives."""
    return list(vm.run(module, inputs).values())


def changed(module: Module, name: str, change: Callable[[BytecodeFunction], BytecodeFunction]) -> Module:
    """A module with another function of bytecode in the place of one."""
    code = module.bytecode
    made: Bytecode = replace(code, functions={**code.functions, name: change(code.functions[name])})
    return module.with_(main=made)


def trap_of(module: Module, **inputs: Value) -> Trap | None:
    """The trap of a run of bytecode, if it ends in one."""
    try:
        vm.run(module, inputs)
    except Trap as trap:
        return trap
    return None
