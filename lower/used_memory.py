"""How many bytes are in use at each step of a program (row A19; specs/lower.md, "liveness")."""

from __future__ import annotations

from dataclasses import dataclass

from assay.semantics.module import Program, Step


@dataclass(frozen=True)
class UsedMemory:
    """Bytes of the program's inputs and outputs, and the bytes in use at each step, the step's own scratch included."""

    io: int
    steps: tuple[int, ...]
    calls: dict[str, tuple[int, ...]]
    """For each tensor function, the bytes at each of its calls, in order."""


def used_memory(program: Program) -> UsedMemory:
    """Count every tensor from the step that makes it (inputs: from the first) to the last that uses it (outputs: to the
    end). Constants are not counted: they are in nobody's workspace."""
    first: dict[str, int] = dict.fromkeys(program.inputs, 0)
    last: dict[str, int] = {}
    for i, step in enumerate(program.steps):
        for name in (*step.reads, *step.writes, *step.scratch):
            first.setdefault(name, i)
            last[name] = i
    last.update(dict.fromkeys(program.outputs, len(program.steps) - 1))
    change = [0] * (len(program.steps) + 1)
    for name, start in first.items():
        slot = program.slots[name]
        if slot.place != "constant" and name in last:
            change[start] += slot.nbytes
            change[last[name] + 1] -= slot.nbytes
    live, steps = 0, []
    calls: dict[str, list[int]] = {}
    for step, delta in zip(program.steps, change, strict=False):
        live += delta
        steps.append(live)
        if isinstance(step, Step):
            calls.setdefault(step.kernel, []).append(live)
    io = sum(program.slots[n].nbytes for n in (*program.inputs, *program.outputs))
    return UsedMemory(io, tuple(steps), {k: tuple(v) for k, v in calls.items()})
