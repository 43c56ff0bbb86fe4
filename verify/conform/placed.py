"""Runs of a program's case on memory as a file places it, and externs as a file gives them (specs/verify.md, "Programs
with cases")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp import graph, machine, tensor
from assay.interp.values import Value
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.verify.app.stages import lowering_passes

Array = np.ndarray[Any, Any]


def run_placed(module: Module | None, inputs: Mapping[str, Array], offsets: Mapping[str, int]) -> dict[str, Array]:
    """The results of a program whose slots lie at these bytes of their pools, all others where the planner puts them,
    with every access watched (rule M7). Invalid (case.C3): there is no such slot. Trap: memory is used wrongly."""
    if module is None:
        raise Invalid("a plan is of a graph function", label="case.C3")
    for run in lowering_passes().values():
        module = run(module)
    program = module.program
    placed = [s for s in program.slots.values() if s.offset is not None]
    unknown = offsets.keys() - {s.name for s in placed}
    if unknown:
        known = ", ".join(s.name for s in placed)
        raise Invalid(f"there is no slot {min(unknown)} that is placed; there are {known}", label="case.C3")
    slots = {n: replace(s, offset=offsets[n]) if n in offsets else s for n, s in program.slots.items()}
    name = next(n for n, d in module.definitions.items() if d is program)
    module = replace(module, definitions={**module.definitions, name: replace(program, slots=slots)})
    return machine.run(module, inputs, execute="definition")


def given_extern(module: Module, name: str) -> Callable[..., Value]:
    """A function of the module as one from outside: of a tensor function the last buffers are filled, a graph function
    gives its value."""
    target = module.definitions[name]

    def fills(*args: Any) -> None:
        assert isinstance(target, PrimFunc)
        count = len(target.inputs)
        made = tensor.run(target, args[:count])
        for array, found in zip(args[count:], made, strict=True):
            array[...] = found

    def gives(*args: Any) -> Value:
        assert isinstance(target, Function)
        alone = replace(module, definitions={name: target})  # it has no need of what else the module needs
        found = list(
            graph.run(alone, dict(zip((p.name for p in target.params), args, strict=True)), entry=target).values()
        )
        return found[0] if len(found) == 1 else tuple(found)

    return fills if isinstance(target, PrimFunc) else gives
