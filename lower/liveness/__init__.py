"""From calls to a program over slots, with the life of each (specs/lower.md, "liveness").

Steps are the calls of the let chain, in its order; those of a function that is called come in place of the call, an
`if` becomes a `Branch`, a function that calls itself a `Loop`. Every tensor that a call makes is a slot, every
allocation inside a tensor function another, for each call anew. A slot is live where some use of it under any alias
(`assay.semantics.alias`) may have come and some may be to come, counted in the phases of the tensor functions
(`assay.semantics.tensor.phases`); inputs are live from entry, outputs to exit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from assay.lower.liveness.kills import Edge, kills
from assay.lower.liveness.problem import problem
from assay.lower.liveness.reading import read_main
from assay.lower.liveness.slots import Homes, SlotRow
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph.limits import declared_limits
from assay.semantics.instance import item_with, replaced
from assay.semantics.live_positions import TOP, BranchRange, Intervals, LivePositions, UseRange, meet, union
from assay.semantics.memory import Interval
from assay.semantics.module import Branch, Item, Loop, Measure, Module, Program, Slot, Step, flow
from assay.semantics.scalar import Dim, Var
from assay.semantics.tensor import Call as TensorCall, PrimFunc, program_order
from assay.semantics.tensor.mapping import bound_buffers
from assay.semantics.tensor.phases import Phases, phases
from assay.semantics.tensor.places import declared_number
from assay.semantics.types import TensorType

__all__ = ["ALIGNMENT", "BY_ELEMENT", "Edge", "find_lives", "kills", "problem"]

ALIGNMENT = 64
"""Bytes to which slots are aligned where nobody says otherwise: a cache line, and enough for any vector unit in use."""
BY_ELEMENT = 0
"""The alignment that stands for what the elements of each slot need."""


def find_lives(
    module: Module,
    *,
    whole: bool = False,
    host: VirtualDevice = ANYWHERE,
    alignment: int = ALIGNMENT,
) -> Module:
    """The module with `main` as a program whose slots have lives but no offsets yet.

    With `whole` every step takes one position: for kernels whose operands must not share bytes at any time, such as
    those that another compiler makes. Slots are on the devices that the expressions name; `host` is the one that reads
    the conditions of branches. Slots are aligned to `alignment` bytes, or more if their elements need more; with
    BY_ELEMENT to what these need, but to ALIGNMENT where others may look: on other devices than the cpu, in kernels
    that call functions or say how a buffer is aligned. Sizes that only a run tells and nothing bounds are at most what
    `main` declares, else ROOM: limits of the program. Unsupported for what has no static plan (`liveness.C1` to `C11`,
    `alias.C1`, `alias.C3`); Invalid for limits of sizes that are none (`limits.C1` to `C5`), and for a choice or result
    that needs a copy from one device to another (`liveness.C8`).
    """
    homes = Homes(module, read_main(module), whole)
    homes.run()
    kernels = {**module.kernels, **homes.copies}
    live = _lives(homes.steps, homes.rows, kernels)
    shown = _shown(homes.steps, kernels) if alignment == BY_ELEMENT else set()
    slots = {
        name: Slot(
            name,
            row.type,
            row.place,
            live[name],
            module.info(name).alignment if row.place == "constant" else _alignment(row, alignment, name in shown),
            module.offsets.get(name),
            row.producer,
            device=row.device,
            room=row.room,
        )
        for name, row in homes.rows.items()
    }
    inputs = tuple(p.name for p in module.main.params)
    limits = (*declared_limits(module.main), *homes.limits())
    program = Program(slots, tuple(homes.steps), inputs, tuple(homes.outputs), limits=limits, host=host)
    return module.with_(**homes.copies, main=_renamed(program, homes.text.names))


def _renamed(program: Program, names: Mapping[Var, Var]) -> Program:
    """A program with other symbols for sizes that a run tells."""
    if not names:
        return program

    def size(dim: Dim) -> Dim:
        return replaced(dim, names)

    def item(one: Item) -> Item:
        made = item_with(one, size)
        if not isinstance(made, Measure):
            return made
        return replace(made, symbols=tuple(names.get(v, v) for v in made.symbols), most=tuple(map(size, made.most)))

    slots = {
        n: replace(s, type=TensorType(tuple(map(size, s.type.shape)), s.type.dtype)) for n, s in program.slots.items()
    }
    limits = tuple((names.get(v, v), low, high) for v, low, high in program.limits)
    return replace(program, slots=slots, steps=tuple(map(item, program.steps)), limits=limits)


def _alignment(row: SlotRow, wanted: int, shown: bool) -> int:
    """The bytes to which a slot is aligned."""
    if wanted == BY_ELEMENT and (shown or row.device.type not in ("", "cpu")):
        wanted = ALIGNMENT
    return max(wanted, row.type.dtype.itemsize)


def _shown(steps: Sequence[Item], kernels: Mapping[str, PrimFunc]) -> set[str]:
    """The slots of kernels in which others may look at memory: they call functions, or say how a buffer is aligned."""
    found: set[str] = set()
    told: dict[str, bool] = {}
    for step in steps:
        if isinstance(step, Step):
            if step.kernel not in told:
                func = kernels[step.kernel]
                calls = any(isinstance(s, TensorCall) for s in program_order(func.body))
                told[step.kernel] = calls or any(
                    declared_number(b, "align") is not None for b in (*func.params, *bound_buffers(func.body))
                )
            if told[step.kernel]:
                found.update((*step.reads, *step.writes, *step.scratch))
    return found


def _lives(
    steps: Sequence[Item], rows: Mapping[str, SlotRow], kernels: Mapping[str, PrimFunc]
) -> dict[str, tuple[Interval, ...]]:
    """The positions at which each slot is live."""
    positions = [0, *accumulate(s.phases for s in steps)]
    count = positions[-1]
    choices, arms = _choices(steps, positions)
    around = _loops(steps)
    uses: dict[str, list[UseRange]] = {name: [] for name in rows}

    def add(name: str, use: UseRange, i: int) -> None:
        """Note a use. What is there before a loop is used all over it, for the loop may begin anew."""
        some = uses[name]
        for k in around[i]:
            loop = steps[k]
            assert isinstance(loop, Loop)
            if some and some[0].start < positions[k]:
                use = UseRange(positions[k], positions[loop.end], arms[k])
                break
        if not some or some[-1].stop <= use.start:
            some.append(use)

    for i, step in enumerate(steps):
        if isinstance(step, Step):
            for name, use in _uses(step, kernels[step.kernel], positions[i], arms[i]):
                add(name, use, i)
        else:
            for name in step.reads:
                add(name, UseRange(positions[i], positions[i] + 1, arms[i]), i)
    paths = LivePositions(count + 1, choices)  # the last one is the exit
    found: dict[str, tuple[Interval, ...]] = {}
    for name, row in rows.items():
        match row.place:
            case "input" | "constant":
                found[name] = union([(0, count)])
            case "output":
                found[name] = meet(paths.live([*uses[name], UseRange(count, count + 1)]), ((0, count),))
            case "workspace":
                found[name] = paths.live(uses[name])
    return found


def _choices(steps: Sequence[Item], positions: Sequence[int]) -> tuple[list[BranchRange], list[int]]:
    """The choices of a program over positions, and the arm of each step."""
    choices: list[BranchRange] = []
    arms = [TOP] * len(steps)
    open_: list[int] = []
    arm = TOP
    for event, i in flow(steps):
        match event:
            case "step" | "loop" | "continue":
                arms[i] = arm
            case "if":
                arms[i] = arm
                step = steps[i]
                assert isinstance(step, Branch)
                open_.append(len(choices))
                choices.append(BranchRange(positions[i + 1], positions[step.then], positions[step.end], arm))
                arm = 2 * open_[-1]
            case "else":
                arm = 2 * open_[-1] + 1
            case "end":
                arm = choices[open_.pop()].arm
    return choices, arms


def _loops(steps: Sequence[Item]) -> list[tuple[int, ...]]:
    """The loops around each step, from the outside."""
    found: list[tuple[int, ...]] = [()] * len(steps)
    around: list[int] = []
    for event, i in flow(steps):
        if event == "leave":
            around.pop()
        elif event in ("step", "if", "continue"):
            found[i] = tuple(around)
        elif event == "loop":
            found[i] = tuple(around)
            around.append(i)
    return found


def _uses(step: Step, kernel: PrimFunc, start: int, arm: int) -> list[tuple[str, UseRange]]:
    """Each slot of a step, and its use: at the phases that the tensor function says."""
    names = (*step.reads, *step.writes, *step.scratch)
    if step.phases == 1:
        return [(name, UseRange(start, start + 1, arm)) for name in dict.fromkeys(names)]
    inside: Phases = phases(kernel)
    before: dict[str, list[Interval]] = {}
    after: dict[str, list[Interval]] = {}
    for b, name in zip((*kernel.params, *kernel.allocations), names, strict=True):
        before.setdefault(name, []).extend(inside.before.get(b, inside.uses[b]))
        after.setdefault(name, []).extend(inside.after.get(b, inside.uses[b]))

    def moved(lives: list[Interval]) -> Intervals:
        return tuple((start + i, start + j) for i, j in union(lives))

    return [(n, UseRange(start, start + step.phases, arm, moved(after[n]), moved(before[n]))) for n in before]
