"""Run and compare (specs/verify.md, "compare").

The planned program runs on the byte machine, step by step; the C text, compiled in its reproducible mode, must leave
the same bytes after every step (rule M10). The graph runs with bounds; what the others compute must lie inside them
(rule M9). Where something does not, the first operator that differs is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from assay.interp import graph, machine
from assay.lower.c import CSource
from assay.semantics.alias import bindings
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import CallTIR, Expr
from assay.semantics.linked import unlinked, with_linked
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.steps import PrintValues, Step
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.elementary import elementary_functions
from assay.verify.border.inputs import traps_on
from assay.verify.c.compiled import Compiled, Look, SeenEnough
from assay.verify.c.tools import SizesRefused
from assay.verify.evidence import Evidence, plural, refuted, tested
from assay.verify.legalize import why_outside
from assay.verify.liveness.program import describe_step
from assay.verify.oracle import Expected
from assay.verify.recursion import require_frames
from assay.verify.trials.as_compiled import WatchedC, step_that_is_outside
from assay.verify.trials.at_sizes import TrialsAtSizes
from assay.verify.trials.kernels import lift
from assay.verify.trials.planned import SizedSteps

Array = np.ndarray[Any, Any]


NO_ROOM = "machine.T13"
"""The label of the trap where a size is greater than a program has room for."""


def is_transcendental(module: Module) -> bool:
    """Whether some tensor function uses an operation whose value is a choice within a bound."""
    return any(elementary_functions(kernel) for kernel in module.kernels.values())


@dataclass
class Comparison:
    """One set of inputs, and everything that ran on it (rule M10.3)."""

    source_module: Module
    planned: Module
    c: CSource
    native: Compiled
    """The C as its users compile it, with the platform's libm."""
    inputs: Mapping[str, Array]
    judged: Expected | None = None
    """What correct implementations of the graph may give, where that is known."""
    progress: Callable[[int, int], None] = lambda done, total: None
    seed: int = 0
    given: WatchedC | None = None
    """The C that is watched, where other runs watch it too; whoever gives it abandons it."""
    outputs: dict[str, Array] = field(default_factory=dict)
    bounds: dict[str, Any] = field(default_factory=dict)
    waived: str = ""
    """Why the graph has no bounds on these inputs, if it has none (rule M1.3)."""

    @cached_property
    def expected(self) -> Expected:
        """What correct implementations of the graph may give on these inputs."""
        return self.judged or Expected(self.source_module, self.inputs)

    @property
    def taken(self) -> dict[str, Array]:
        """The inputs that the planned program takes: others may have become constants of it."""
        return {n: self.inputs[n] for n in self.planned.program.inputs}

    @cached_property
    def watched(self) -> WatchedC:
        """The C that is watched."""
        return self.given or WatchedC(self.c)

    @property
    def names(self) -> dict[str, str]:
        """Output names of the model, by slot of the program."""
        slots = self.planned.program.outputs
        given = self.source_module.main.attrs.get("outputs", ())
        return {s: given[i] if i < len(given) else s for i, s in enumerate(slots)}

    def run(self) -> tuple[str, Evidence]:
        """Machine against C, bit for bit after every step; both against the bounds. The compiler runs beside the
        interpreters."""
        self.watched.begin("traced")
        try:
            return self._run()
        finally:
            if self.given is None:
                self.watched.abandon()

    def _run(self) -> tuple[str, Evidence]:
        program = self.planned.program
        positions = program.positions
        events: list[tuple[int, dict[str, tuple[bytes, int]]]] = []
        sized = SizedSteps(self.planned, self.taken)
        plain: set[int] = set()
        wrong: str | None = None

        def record(index: int, step: Step | PrintValues, arrays: Mapping[str, Array]) -> None:
            nonlocal wrong
            self.progress(index + 1, len(program.steps))
            if isinstance(step, PrintValues):
                types = {n: program.slots[n].type.dtype for n in step.shown}
                events.append((index, {n: (bits_digest(arrays[n], of), arrays[n].nbytes) for n, of in types.items()}))
                return
            written = {n: program.slots[n] for n in step.writes}
            left = {n: s for n, s in written.items() if s.is_live(positions[index + 1] - 1)}
            told = {n: (bits_digest(arrays[n], s.type.dtype), arrays[n].nbytes) for n, s in left.items()}
            events.append((index, told))
            sized.come_to(index)
            if wrong is None:
                kernel, module = sized.kernel(step)
                reads, writes = [arrays[n] for n in step.reads], [arrays[n] for n in step.writes]
                if has_operators(kernel, module):
                    odd = step_outside(kernel, module, reads, writes)
                    wrong = f"{describe_step(step, index)}, its operands given: {odd}" if odd else None
                else:
                    plain.add(index)
            for n in step.writes:
                sized.see(n, arrays[n])

        try:
            by_slot = machine.run(self.planned, self.taken, observe=record)
        except Trap as trap:
            if trap.label == NO_ROOM:  # a limit of the program, and no fault
                raise Invalid(f"the program is not made for these inputs: {trap.what}", label="room.C1") from None
            self.require_no_trap(trap)
            return "", refuted("tested", f"the planned program does not run: {trap}")
        if wrong is not None:
            return "", refuted("tested", wrong)
        self.outputs = {self.names[s]: by_slot[s] for s in program.outputs}

        possible = self.expected.possible
        self.bounds = possible if isinstance(possible, dict) else {}
        self.waived = str(possible) if isinstance(possible, Unpredictable) else ""
        by_steps = is_transcendental(self.planned) and bool(self.waived or self.vacuous())
        if by_steps:
            self.watched.begin("libm")
        traced, helpers = self.watched.traced, self.watched.helpers
        trials = TrialsAtSizes(self.planned, traced, self.taken, self.seed, sized.values)
        wrong = self.compare_c(events, by_slot) or helpers.run(traced.loaded) or trials.run()
        if wrong is not None:
            return "", refuted("tested", wrong)
        if isinstance(possible, Trap):
            return "", refuted("tested", f"the planned program gives values where the graph fails: {possible}")
        wrong = self.first_outside(self.outputs)
        if wrong is not None:
            return "", refuted("tested", f"planned program: {wrong}")
        ran = len({index for index, _ in events})
        said = f"C bit for bit the machine's after each of {plural(ran, 'step')}"
        said += f" of {len(program.calls)}" if ran < len(program.calls) else ""
        said += f" ({len(events)} runs of them)" if len(events) > ran else ""
        said += ", each within its operator's bounds"
        if plain:
            said += f" but {len(plain)}, whose tensor functions are no operators"
        said += "".join(f"; {t}" for t in (trials, helpers) if str(t))
        native = self.native.run(self.taken)
        if is_transcendental(self.planned):
            wrong = self.first_outside({self.names[s]: native[s] for s in program.outputs})
            if not by_steps:
                said += "; with the platform's libm inside the graph's"
            elif wrong is None:
                wrong = step_that_is_outside(self.watched.libm, self.planned, self.taken, self.step_outside)
                said += "; with the platform's libm each step within its operator's bounds too"
        else:
            types = {s: program.slots[s].type.dtype for s in program.outputs}
            odd = [s for s, of in types.items() if bits_digest(native[s], of) != bits_digest(by_slot[s], of)]
            wrong = f"output {self.names[odd[0]]} is not bit for bit the machine's" if odd else None
        if wrong is not None:
            return "", refuted("tested", f"C as its users compile it: {wrong}")
        return f"{plural(len(self.outputs), 'output')}{self.width()}", tested(said)

    def step_outside(
        self, kernel: PrimFunc, module: Module, reads: Sequence[Array], writes: Sequence[Array]
    ) -> str | None:
        """Where the results of a step lie outside of what its operators allow; nowhere if it claims none."""
        return step_outside(kernel, module, reads, writes) if has_operators(kernel, module) else None

    def require_no_trap(self, found: Trap) -> None:
        """Invalid where the model itself traps alike on these inputs, or recursion takes more frames than there are:
        then there is nothing to compare."""
        require_frames(self.source_module, self.planned, found)
        try:
            graph.run(self.source_module, self.inputs)
        except Trap as own:
            if own.kind == found.kind:
                raise traps_on(own) from None

    def compare_c(
        self, events: Sequence[tuple[int, Mapping[str, tuple[bytes, int]]]], by_slot: Mapping[str, Array]
    ) -> str | None:
        """Where the C program first differs from the machine, if it does: in the steps that it takes, or in the bytes
        that one has left. `events` are the steps that the machine took, in order, with digests of what each has written
        and left, and how many bytes that is.
        """
        program = self.planned.program
        first: list[str] = []
        path = iter(events)

        def event(index: int, bytes_of: Callable[[str, int], Array], what: str) -> None:
            step = program.steps[index]
            expected, digests = next(path, (None, {}))
            if index != expected:
                there = "has ended" if expected is None else f"takes {describe_step(program.steps[expected], expected)}"
                first.append(f"C takes {describe_step(step, index)} where the machine {there}")
            for name, (wanted, size) in () if first else digests.items():
                if not first and bits_digest(bytes_of(name, size), program.slots[name].type.dtype) != wanted:
                    first.append(f"C differs from the machine in buffer {name}, {what} {describe_step(step, index)}")
            if first:
                raise SeenEnough  # the C may go on as it likes

        def compare(index: int, look: Look) -> None:
            event(index, lambda name, size: look(program.slots[name])[:size], "written by")

        def told(index: int, shown: Sequence[Array]) -> None:
            step = program.steps[index]
            assert isinstance(step, PrintValues)
            values = dict(zip(step.shown, shown, strict=True))
            event(index, lambda name, _: values[name], "shown by")

        try:
            got = self.watched.traced.run(self.taken, on_step=compare, on_print=told)
        except SeenEnough:
            return first[0]
        except (Trap, SizesRefused) as trap:
            return f"the C program does not run: {trap}"
        left, _ = next(path, (None, None))
        if left is not None:
            return f"C has ended where the machine takes {describe_step(program.steps[left], left)}"
        for slot in program.outputs:
            of = program.slots[slot].type.dtype
            if bits_digest(got[slot], of) != bits_digest(by_slot[slot], of):
                return f"C differs from the machine in output {self.names[slot]}"
        return None

    def first_outside(self, outputs: Mapping[str, Array]) -> str | None:
        """The first output, and its worst element, that no correct implementation gives."""
        found = (f for f in self.expected.findings(outputs).values() if f.wrong)
        return next((f"output {f.wrong} ({f.layer})" for f in found), None)

    def width(self) -> str:
        """How wide the graph's intervals are, as a part of the largest value."""
        widest = 0.0
        for allowed in self.bounds.values():
            if isinstance(allowed, Bounded) and not np.all(allowed.vacuous):
                scale = float(np.max(np.abs(allowed.value)))
                radius = np.where(allowed.vacuous, 0.0, allowed.radius)
                widest = max(widest, float(np.max(radius)) / scale if scale else 0.0)
        waived = f"; the graph's bounds are waived: {self.waived}" if self.waived else ""
        return (f"; bounds within {widest:.1e} of the largest value" if widest else "") + waived + self.vacuous()

    def vacuous(self) -> str:
        """For how many elements the graph's bounds say nothing: that is told, never passed over."""
        bounded = [b for b in self.bounds.values() if isinstance(b, Bounded)]
        count = sum(int(np.count_nonzero(b.vacuous)) for b in bounded)
        total = sum(int(b.size) for b in bounded)
        return f"; the graph's bounds are vacuous for {count} of {plural(total, 'element')}" if count else ""


def has_operators(kernel: PrimFunc, module: Module) -> bool:
    """Whether a tensor function claims to be an operator, or each of its group does. Another's meaning is its own text,
    of which the machine gives the very bits."""
    group = module.group(unlinked(kernel))
    if group is None:
        return "operator" in unlinked(kernel).attrs
    return all("operator" in module.kernel(v.func).attrs for _, v in bindings(group) if isinstance(v, CallTIR))


def step_outside(kernel: PrimFunc, module: Module, reads: Sequence[Array], writes: Sequence[Array]) -> str | None:
    """Where a step's results lie outside of what its operator, or those of its group one after another, allow on these
    very operands."""
    operands = [np.asarray(x).reshape(b.static_shape) for x, b in zip(reads, kernel.inputs, strict=True)]
    operands = with_linked(kernel, operands, np.asarray)
    kernel = unlinked(kernel)
    lifted = [lift(x) for x in operands]
    group = module.group(kernel)
    wanted: Sequence[Any] = ()
    with np.errstate(all="ignore"):
        if group is None:
            wanted = _allowed(kernel, lifted)
        else:
            values: dict[Expr, Sequence[Any]] = {p: [x] for p, x in zip(group.params, lifted, strict=True)}
            for var, value in bindings(group):
                assert isinstance(value, CallTIR)
                member = module.kernel(value.func)
                read = [x for a in value.args for x in values[a]]
                values[var] = wanted = _allowed(member, read)
    for w, x, b in zip(wanted, writes, kernel.outputs, strict=True):
        wrong = why_outside(w, np.asarray(x).reshape(b.static_shape))
        if wrong:
            return wrong
    return None


def _allowed(kernel: PrimFunc, operands: Sequence[Any]) -> Sequence[Any]:
    """What the operator of a tensor function allows, for each result."""
    shaped = [x.reshape(b.static_shape) for x, b in zip(operands, kernel.inputs, strict=True)]
    allowed = operator(kernel.attrs["operator"]).value(kernel.attrs.get("attrs", {}), *shaped)
    return allowed if isinstance(allowed, tuple) else (allowed,)


def bits_digest(array: Array, of: DType) -> bytes:
    """The bits of a tensor, every NaN as one: NaN payloads are not observed (rule M5). Bytes are taken as `of`."""
    data = np.ascontiguousarray(array).reshape(-1)
    if of.is_float:
        data = data.view(of.numpy)
        missing = np.isnan(data)
        if missing.any():
            data = np.where(missing, of.numpy.type(np.nan), data)
    return hashlib.blake2b(data.view(np.uint8).data, digest_size=16).digest()
