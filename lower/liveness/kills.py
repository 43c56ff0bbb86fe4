"""Where memory is given back: what dies on each edge of a program's control flow (specs/lower.md, "liveness")."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeAlias

from assay.semantics.module import Branch, Loop, Program, Slot, flow

Edge: TypeAlias = tuple[int, int]
"""From a position to one that may come right after it. The position behind the last one is the exit."""


def edges(program: Program) -> Iterator[Edge]:
    """The edges of a program's control flow, by the positions that they leave. Arms without steps are passed by."""
    positions = program.positions
    jumps = _jumps(program)
    for p in range(positions[-1]):
        for q in jumps.get(p, (p + 1,)):
            yield p, q


def _jumps(program: Program) -> dict[int, tuple[int, ...]]:
    """What may come right after the last position of a step, as far as that is not just the next one."""
    steps, positions = program.steps, program.positions
    found: dict[int, tuple[int, ...]] = {}
    around: list[tuple[int, int]] = []
    """Of each arm and loop around: the step at which it ends, and the one at which what comes behind it goes on."""
    loops: list[int] = []

    def behind(i: int) -> int:
        return around[-1][1] if around and around[-1][0] == i else i

    for event, i in flow(steps):
        step = steps[i]
        if event == "step":
            found[positions[i + 1] - 1] = (positions[behind(i + 1)],)
            continue
        match event:
            case "continue":
                found[positions[i]] = (positions[loops[-1]],)
            case "loop":
                assert isinstance(step, Loop)
                around.append((step.end, behind(step.end)))
                loops.append(i)
                found[positions[i]] = (positions[behind(i + 1)],)
            case "leave":
                around.pop()
                loops.pop()
            case "if":
                assert isinstance(step, Branch)
                on = behind(step.end)
                arms = (i + 1 if i + 1 < step.then else on, step.then if step.then < step.end else on)
                found[positions[i]] = tuple(dict.fromkeys(positions[j] for j in arms))
                around.append((step.then, on))
            case "else":
                assert isinstance(step, Branch)
                around.append((step.end, around.pop()[1]))
            case "end":
                around.pop()
    return found


def kills(program: Program) -> dict[Edge, tuple[str, ...]]:
    """For each edge on which something dies, the slots that are live before it and not after it, in the table's order.

    Inputs, outputs and constants do not die at the exit: they are the caller's.
    """
    dying = [s for s in program.slots.values() if s.live]
    starting: dict[int, list[int]] = {}
    ending: dict[int, list[int]] = {}
    for k, s in enumerate(dying):
        for start, stop in s.live:
            starting.setdefault(start, []).append(k)
            ending.setdefault(stop, []).append(k)
    exit_ = program.positions[-1]
    live: set[int] = set()
    found: dict[Edge, tuple[str, ...]] = {}
    for p, q in edges(program):
        live.difference_update(ending.get(p, ()))
        live.update(starting.get(p, ()))
        candidates = ending.get(q, ()) if q == p + 1 else live
        dead = sorted(k for k in candidates if not _stays(dying[k], q, exit_))
        if dead:
            found[p, q] = tuple(dying[k].name for k in dead)
    return found


def _stays(slot: Slot, position: int, exit_: int) -> bool:
    if position == exit_:
        return slot.place != "workspace"
    k = bisect_right(slot.live, position, key=lambda i: i[0]) - 1
    return k >= 0 and position < slot.live[k][1]
