"""From calls to a program over slots, with the life of each (specs/lower.md, "liveness").

Steps are the calls of the let chain, in its order. Every tensor that a call makes is a slot, every allocation inside a
tensor function another, for each call anew. A slot lives from the step that fills it until after the last step that
uses it under any alias (`assay.semantics.alias`); inputs live from entry, outputs to exit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from assay.lower.kernels import build
from assay.semantics.alias import Origin, bindings, origins, result
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Unsupported
from assay.semantics.graph import CallTIR, Var
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.names import unused
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ANYWHERE, TensorType, flatten

ALIGNMENT = 64
"""Bytes to which slots are aligned: a cache line, and enough for any vector unit in use."""

Place = Literal["input", "output", "constant", "workspace"]


def find_lives(module: Module) -> Module:
    """The module with `main` as a program whose slots have lives but no offsets yet."""
    return _Planner(module).run()


@dataclass
class _Planner:
    module: Module
    slots: dict[str, tuple[TensorType, Place, str]] = field(default_factory=dict)
    """Type, place and producer of each slot."""
    slot_of: dict[Origin, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    copies: dict[str, PrimFunc] = field(default_factory=dict)

    def run(self) -> Module:
        main = self.module.main
        look = origins(main)
        for p in main.params:
            if not isinstance(p.type, TensorType):
                raise Unsupported(f"parameter {p.name} is {p.type}: only tensors can be planned", label="liveness.C1")
            self.slot_of[Origin(p.name, 0, p.type, "parameter")] = self.add(p.name, p.type, "input", "the caller")
        for name, array in self.module.constants.items():
            self.slots[name] = (_constant_type(array), "constant", "the constant table")

        # a result is made in the caller's memory where it can be: by the call that makes it; others are copied there
        late: list[tuple[Origin, str]] = []
        outputs: list[str] = []
        given = main.attrs.get("outputs", ())
        for i, (origin, type_) in enumerate(zip(look(result(main)), flatten(main.result_type), strict=True)):
            name = self.add(given[i] if i < len(given) else f"output_{i}", type_, "output", "")
            outputs.append(name)
            if origin.kind == "call" and origin not in self.slot_of:
                self.slot_of[origin] = name
            else:
                late.append((origin, name))

        for var, value in bindings(main):
            if isinstance(value, CallTIR):
                reads = tuple(self.slot(o) for a in value.args for o in look(a))
                self.call(var, value, reads, look(var))
        for origin, name in late:
            self.copy(origin, name)

        program = Program(self.lives(), tuple(self.steps), tuple(p.name for p in main.params), tuple(outputs))
        return self.module.with_(**self.copies, main=program)

    def add(self, name: str, type: TensorType, place: Place, producer: str) -> str:
        """A new slot; its name is made unique."""
        unique = unused(name, self.slots, self.module.constants)
        self.slots[unique] = (type, place, producer)
        return unique

    def slot(self, origin: Origin) -> str:
        return origin.name if origin.kind == "constant" else self.slot_of[origin]

    def call(self, var: Var, value: CallTIR, reads: tuple[str, ...], made: tuple[Origin, ...]) -> None:
        kernel = self.module.kernel(value.func)
        producer = f"{value.func} at {value.span}" if value.span else value.func
        for o in made:
            if o not in self.slot_of:
                name = var.name if len(made) == 1 else f"{var.name}.{o.index}"
                self.slot_of[o] = self.add(name, o.type, "workspace", producer)
            else:
                self.slots[self.slot_of[o]] = (self.slots[self.slot_of[o]][0], "output", producer)
        scratch = tuple(
            self.add(f"{var.name}.{b.name}", TensorType(b.static_shape, b.dtype), "workspace", producer)
            for b in kernel.allocations
        )
        device = var.device if value.device == ANYWHERE else value.device
        self.steps.append(Step(value.func, reads, tuple(self.slot_of[o] for o in made), scratch, value.span, device))

    def copy(self, origin: Origin, name: str) -> None:
        """A step that copies a result which the caller's memory cannot be the first home of."""
        of = origin.type
        kernel = next((k for k in self.copies.values() if k.outputs[0].shape == of.shape and k.outputs[0].dtype is of.dtype), None)
        if kernel is None:
            fresh = f"copy{len(self.copies)}"
            while fresh in self.module.definitions:
                fresh += "_"
            attrs = {"dtype": of.dtype.name}
            kernel = build("astype", attrs, (of,), of, fresh)
            kernel = replace(kernel, attrs={**kernel.attrs, "operator": "astype", "attrs": attrs})
            self.copies[fresh] = kernel
        self.slots[name] = (self.slots[name][0], "output", f"copy of {origin.name}")
        self.steps.append(Step(kernel.name, (self.slot(origin),), (name,)))

    def lives(self) -> dict[str, Slot]:
        """Each slot with its life, from the first and last step that touches it."""
        last = len(self.steps)
        first_use: dict[str, int] = {}
        last_use: dict[str, int] = {}
        for i, step in enumerate(self.steps):
            for name in (*step.reads, *step.writes, *step.scratch):
                first_use.setdefault(name, i)
                last_use[name] = i
        found: dict[str, Slot] = {}
        for name, (type_, place, producer) in self.slots.items():
            start = 0 if place in ("input", "constant") else first_use[name]
            stop = last if place != "workspace" else last_use[name] + 1
            offset = self.module.offsets.get(name) if place == "constant" else None
            found[name] = Slot(name, type_, place, ((start, stop),), ALIGNMENT, offset, producer)
        return found


def _constant_type(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(array.shape, dtype(array.dtype))
