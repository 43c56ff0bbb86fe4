"""Run and compare (specs/verify.md, "compare").

The planned program runs on the byte machine, step by step; the C text, compiled in its reproducible mode, must leave
the same bytes after every step (rule M10). The graph runs with bounds; what anybody computed must lie inside them
(rule M9). Where something does not, the first operator that differs is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from assay.interp import graph, machine
from assay.lower.c import CSource
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Crash, Trap
from assay.semantics.graph import Expr
from assay.semantics.module import Module, Step
from assay.semantics.scalar import TRANSCENDENTAL, Apply
from assay.semantics.tensor import program_order
from assay.semantics.walk import post_order
from assay.verify.backends import backend
from assay.verify.compiled import Compiled, compile_c
from assay.verify.evidence import Evidence, checked, refuted, tested
from assay.verify.legalize_check import outside

Array = np.ndarray[Any, Any]


def check_c(source: CSource, directory: Path | None = None) -> tuple[str, Evidence]:
    """Whether the C text compiles without a warning."""
    lines = source.source.count("\n") + source.header.count("\n")
    try:
        compile_c(source, reproducible=False, directory=directory)
    except Crash as wrong:
        return "", refuted("checked", str(wrong))
    return f"{lines} lines", checked("compiles as strict C99 without a warning")


def is_transcendental(module: Module) -> bool:
    """Whether some tensor function uses an operation whose value is a choice within a bound."""
    return any(
        isinstance(e, Apply) and e.op in TRANSCENDENTAL
        for kernel in module.kernels.values()
        for stmt in program_order(kernel.body)
        for root in stmt.expressions
        for e in post_order(root)
    )


@dataclass
class Comparison:
    """One set of inputs, and everything that ran on it."""

    source_module: Module
    planned: Module
    c: CSource
    inputs: Mapping[str, Array]
    directory: Path | None = None
    progress: Callable[[int, int], None] = lambda done, total: None
    outputs: dict[str, Array] = field(default_factory=dict)
    bounds: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """Output names of the model, by slot of the program."""
        slots = self.planned.program.outputs
        given = self.source_module.main.attrs.get("outputs", ())
        return {s: given[i] if i < len(given) else s for i, s in enumerate(slots)}

    def run(self) -> tuple[str, Evidence]:
        """Machine against C, bit for bit after every step; both against the bounds."""
        program = self.planned.program
        digests: list[list[bytes]] = []

        def record(index: int, step: Step, arrays: Mapping[str, Array]) -> None:
            self.progress(index + 1, len(program.steps))
            digests.append([_digest(arrays[n]) for n in step.writes])

        try:
            by_slot = machine.run(self.planned, self.inputs, observe=record)
        except Trap as trap:
            return "", refuted("tested", f"the planned program does not run: {trap}")
        self.outputs = {self.names[s]: by_slot[s] for s in program.outputs}

        wrong = self.compare_c(digests, by_slot)
        if wrong is not None:
            return "", refuted("tested", wrong)
        self.bounds = graph.run(self.source_module, self.inputs, bounds=True)
        wrong = self.first_outside(self.outputs)
        if wrong is not None:
            return "", refuted("tested", f"planned program: {wrong}")
        said = f"C is bit for bit the machine's result after each of {len(program.steps)} steps"
        if is_transcendental(self.planned):
            native = compile_c(self.c, reproducible=False, directory=self.directory).run(self.inputs)
            wrong = self.first_outside({self.names[s]: native[s] for s in program.outputs})
            if wrong is not None:
                return "", refuted("tested", f"C with the platform's libm: {wrong}")
            said += "; with the platform's libm inside the bounds"
        return f"{len(self.outputs)} output{'s' * (len(self.outputs) != 1)}; {self.width()}", tested(said)

    def compare_c(self, digests: list[list[bytes]], by_slot: Mapping[str, Array]) -> str | None:
        """Where the C program first differs from the machine, if it does."""
        program = self.planned.program
        compiled = compile_c(self.c, reproducible=True, trace=True, directory=self.directory)
        first: list[str] = []

        def look(index: int, arrays: Mapping[str, Array]) -> None:
            step = program.steps[index]
            for name, digest in zip(step.writes, digests[index], strict=True):
                if not first and _digest(arrays[name]) != digest:
                    first.append(
                        f"C differs from the machine in buffer {name}, written by step {index} ({step.kernel} at {step.span})"
                    )

        try:
            got = compiled.run(self.inputs, on_step=look)
        except Trap as trap:
            return f"the C program does not run: {trap}"
        if first:
            return first[0]
        for slot in program.outputs:
            if _digest(got[slot]) != _digest(by_slot[slot]):
                return f"C differs from the machine in output {self.names[slot]}"
        return None

    def first_outside(self, outputs: Mapping[str, Array]) -> str | None:
        """The first output, and its worst element, that lies outside the bounds."""
        for name, allowed in self.bounds.items():
            if name not in outputs:
                return f"output {name} is missing"
            wrong = outside(allowed, np.asarray(outputs[name]))
            if wrong is not None:
                return f"output {name}: {wrong}"
        return None

    def width(self) -> str:
        """How far apart the ends of the bounds are, relative to the largest value, in words."""
        widest, vacuous, total = 0.0, 0, 0
        for allowed in self.bounds.values():
            if isinstance(allowed, Bounded) and allowed.size:
                total += int(allowed.size)
                vacuous += int(np.count_nonzero(allowed.vacuous))
                scale = float(np.max(np.abs(allowed.value)))
                radius = np.where(allowed.vacuous, 0.0, allowed.radius)
                widest = max(widest, float(np.max(radius)) / scale if scale else 0.0)
        said = f"bounds within {widest:.1e} of the largest value"
        return said + (f", vacuous for {vacuous} of {total} elements" if vacuous else "")

    def judge(self, name: str, outputs: Mapping[str, Array] | None, model: onnx.ModelProto | None) -> tuple[str, Evidence]:
        """The verdict on somebody's outputs; for a backend that can be asked, with the first operator that differs."""
        if outputs is None:
            assert model is not None
            outputs = backend(name)(model, self.inputs, [o.name for o in model.graph.output])
        wrong = self.first_outside(outputs)
        if wrong is None:
            return f"{len(self.bounds)} output{'s' * (len(self.bounds) != 1)}", tested("inside the bounds")
        if model is not None:
            culprit = self.culprit(name, model)
            wrong = f"{wrong}; {culprit}" if culprit else wrong
        return "", refuted("tested", wrong)

    def culprit(self, name: str, model: onnx.ModelProto) -> str | None:
        """The first operator, in the model's order, whose value in the backend lies outside its bounds."""
        made = [o for n in model.graph.node for o in n.output if o]
        theirs = backend(name)(model, self.inputs, made)
        wrong: dict[str, str] = {}

        def look(node: Expr, value: Any, args: list[Any]) -> None:
            place = node.span.place if node.span else ""
            if place in theirs and place not in wrong and isinstance(value, Bounded):
                odd = outside(value, theirs[place]) if value.shape == theirs[place].shape else None
                wrong[place] = odd or ""

        graph.run(self.source_module, self.inputs, bounds=True, observe=look)
        place = next((p for p in made if wrong.get(p)), None)
        if place is None:
            return None
        node = next(n for n in model.graph.node if place in n.output)
        return f"the first operator that differs is {node.op_type} {node.name or '(unnamed)'}, tensor {place}: {wrong[place]}"


def _digest(array: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).digest()
