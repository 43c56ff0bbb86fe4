"""How many bytes are in use at each step of a program (row A19; specs/lower.md, "liveness")."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from assay.semantics.live_positions import meet
from assay.semantics.module import Program, Step


@dataclass(frozen=True)
class UsedMemory:
    """Bytes of the program's inputs and outputs, and the most bytes in use at once during each step, the step's own
    scratch included."""

    io: int
    steps: tuple[int, ...]
    calls: dict[str, tuple[int, ...]]
    """For each tensor function, the bytes at each of its calls, in order."""


def used_memory(program: Program) -> UsedMemory:
    """Count every tensor where it is live, but an input only up to the last step that uses it. Constants are not
    counted: they are in no workspace."""
    positions = program.positions
    last: dict[str, int] = {}
    for i, step in enumerate(program.steps):
        last.update((name, positions[i + 1]) for name in step.reads)
    ends = (stop for s in program.slots.values() for _, stop in s.live)  # a wrong life may end behind the last step
    change = [0] * (max(positions[-1], *ends, 0) + 1)
    for s in program.slots.values():
        if s.place == "constant":
            continue
        for start, stop in s.live if s.place != "input" else meet(s.live, ((0, last.get(s.name, 0)),)):
            change[start] += s.nbytes
            change[stop] -= s.nbytes
    live = list(accumulate(change))
    steps = tuple(max(live[positions[i] : positions[i + 1]]) for i in range(len(program.steps)))
    calls: dict[str, list[int]] = {}
    for step, used in zip(program.steps, steps, strict=True):
        if isinstance(step, Step):
            calls.setdefault(step.kernel, []).append(used)
    io = sum(program.slots[n].nbytes for n in (*program.inputs, *program.outputs))
    return UsedMemory(io, steps, {k: tuple(v) for k, v in calls.items()})
