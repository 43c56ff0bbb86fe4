"""Runs of bytecode beside runs of the graph that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp import graph, vector, vm
from assay.interp.values import Cell, Data, Event, Shape, Value
from assay.lower.vm import to_bytecode
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.walk import Worklist
from assay.verify.app.stages import lowering_passes

FRONT = ("devices", "anf", "legalize", "fuse", "constants", "schedule")
"""The stages before the bytecode."""


def front(module: Module, **more: Any) -> Module:
    """A module, lowered as far as bytecode is made from."""
    passes = lowering_passes(**more)
    for name in FRONT:
        module = passes[name](module)
    return module


@dataclass(frozen=True)
class Outcome:
    """What a run shows: outputs or the kind of its trap, and the trace."""

    ended: Any
    trace: Any


def outcome_of_graph(module: Module, inputs: Mapping[str, Any], **more: Any) -> Outcome:
    """A run of the graph."""
    return _outcome(lambda trace: graph.run(module, inputs, trace=trace, **more))


def outcome_of_vm(module: Module, inputs: Mapping[str, Any], **more: Any) -> Outcome:
    """A run of bytecode."""
    return _outcome(lambda trace: vm.run(module, inputs, trace=trace, **more))


def _outcome(run: Any) -> Outcome:
    trace: list[Event] = []
    try:
        found = run(trace)
    except Trap as trap:
        ended: Any = ("trap", trap.kind)
    except Invalid as wrong:
        ended = ("invalid", wrong.label)
    else:
        ended = {name: content(value) for name, value in found.items()}
    return Outcome(ended, [(e.kind, e.name, content(e.values)) for e in trace])


def content(root: Value) -> list[Any]:
    """All that can be seen of a value, part by part: bits of arrays, where all NaNs are one; which cells are one."""
    found: list[Any] = []
    cells: dict[int, int] = {}
    opened: set[int] = set()
    work = Worklist[Value]([root])
    for value in work:
        match value:
            case np.ndarray() | np.generic():
                found.append((str(value.dtype), np.shape(value), bits(np.asarray(value))))
            case tuple():
                found.append(("tuple", len(value)))
                work.add(value)
            case Data():
                found.append((value.type, value.constructor, len(value.fields)))
                work.add(value.fields)
            case Cell():
                found.append(("cell", cells.setdefault(id(value), len(cells))))
                if id(value) not in opened:
                    opened.add(id(value))
                    work.add([value.value])
            case Shape():
                found.append(("shape", value.dims))
            case _:
                found.append("function" if "Closure" in type(value).__name__ else type(value).__name__)
    return found


def bits(array: np.ndarray[Any, Any]) -> bytes:
    """The bits of an array; all NaNs are one."""
    with np.errstate(all="ignore"):
        nan = array != array
    return bytes(np.where(nan, np.zeros((), array.dtype), array).tobytes()) + bytes(np.packbits(nan).tobytes())


def difference(module: Module, inputs: Mapping[str, Any], *, code: Module | None = None, **more: Any) -> str:
    """How a run of a lowered module's bytecode differs from that of its graph; "" if in nothing."""
    code = to_bytecode(module) if code is None else code
    externs = {"externs": more["externs"]} if "externs" in more else {}
    kernel = vector.run
    wanted = outcome_of_graph(module, inputs, kernel=kernel, **externs)
    found = outcome_of_vm(code, inputs, **more)
    return "" if wanted == found else f"bytecode: {found}\ngraph: {wanted}"
