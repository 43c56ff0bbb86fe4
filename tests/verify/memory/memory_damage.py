"""Ways to damage a planned program, for the campaign of memory plans. What comes out may be harmless."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from assay.lower.pool import plan_pools
from assay.semantics.dtypes import BOOL
from assay.semantics.live_positions import union
from assay.semantics.module import Branch, Module, Program, Slot, Step
from tests.verify.memory.memory_programs import living, some_memory, source

Damage: TypeAlias = Callable[[random.Random, Program], Program | None]
"""A program with one thing changed; None: it has nothing of the kind."""


def _with(program: Program, *slots: Slot) -> Program:
    return replace(program, slots={**program.slots, **{s.name: s for s in slots}})


def _step(program: Program, index: int, step: Step | Branch) -> Program:
    return replace(program, steps=(*program.steps[:index], step, *program.steps[index + 1 :]))


def _some(rng: random.Random, program: Program, what: Callable[[Step], bool]) -> tuple[int, Step] | None:
    found = [(i, s) for i, s in enumerate(program.steps) if isinstance(s, Step) and what(s)]
    return rng.choice(found) if found else None


def life_shortened(rng: random.Random, program: Program) -> Program | None:
    """Some positions at the start, at the end, or in the middle."""
    slots = [s for s in program.slots.values() if s.live and s.place != "constant"]
    if not slots:
        return None
    slot = (
        rng.choice([s for s in slots if s.place == "workspace"] or slots) if rng.random() < 0.8 else rng.choice(slots)
    )
    at = sorted(p for start, stop in slot.live for p in range(start, stop))
    count = rng.randrange(1, len(at) + 1) if rng.random() < 0.3 else 1
    first = rng.choice([0, len(at) - count, rng.randrange(len(at) - count + 1)])
    kept = at[:first] + at[first + count :]
    return _with(program, replace(slot, live=union([(p, p + 1) for p in kept])))


def moved(rng: random.Random, program: Program) -> Program | None:
    """To where another one lies, or anywhere."""
    slots = [s for s in program.pooled if s.place != "constant"]
    if not slots:
        return None
    slot, other = rng.choice(slots), rng.choice(slots)
    size = program.sizes.get(program.pool_of(slot).name, 0)
    if rng.random() < 0.6:
        return _with(program, replace(slot, offset=other.offset, pool=other.pool))
    by = rng.choice([1, 4, 8, slot.alignment])
    return _with(program, replace(slot, offset=by * rng.randrange(-1, max(1, size // by) + 1)))


def other_pool(rng: random.Random, program: Program) -> Program | None:
    slots = program.pooled
    return _with(program, replace(rng.choice(slots), pool=rng.choice(program.pools).name)) if slots else None


def pool_cut(rng: random.Random, program: Program) -> Program | None:
    """Its size, or its limit, below what is needed; or its alignment."""
    pools = [p for p in program.pools if program.sizes.get(p.name)]
    if not pools:
        return None
    pool = rng.choice(pools)
    size = program.sizes[pool.name]
    less = size - rng.choice([1, 8, rng.randrange(1, size + 1)])
    match rng.randrange(3):
        case 0:
            return replace(program, sizes={**program.sizes, pool.name: less})
        case 1:
            return replace(program, pools=tuple(replace(p, limit=less) if p is pool else p for p in program.pools))
        case _:
            return replace(
                program,
                pools=tuple(replace(p, alignment=rng.choice([8, 24, 32])) if p is pool else p for p in program.pools),
            )


def in_place_claimed(rng: random.Random, program: Program) -> Program | None:
    """An output in the bytes of an operand that the pass has not chosen; the slots lie so, if they lie anywhere."""

    def candidates(s: Step) -> list[tuple[int, int]]:
        slots = program.slots
        return [
            (k, j)
            for k, w in enumerate(s.writes)
            for j, r in enumerate(s.reads)
            if (k, j) not in s.in_place
            and slots[w].nbytes == slots[r].nbytes
            and slots[w].place == slots[r].place == "workspace"
        ]

    found = _some(rng, program, lambda s: bool(candidates(s)))
    if found is None:
        return None
    index, step = found
    k, j = rng.choice(candidates(step))
    made, read = program.slots[step.writes[k]], program.slots[step.reads[j]]
    if rng.random() < 0.5:  # as if the operand ended here
        begin = min((start for start, _ in made.live), default=0)
        live = tuple((a, min(b, begin)) for a, b in read.live if a < begin)
        program = _with(program, replace(read, live=live))
    program = _with(program, replace(made, offset=read.offset, pool=read.pool))
    return _step(program, index, replace(step, in_place=(*step.in_place, (k, j))))


def step_moved(rng: random.Random, program: Program) -> Program | None:
    """Two neighbours that no choice parts change places; what one has, as its life, stays where it was."""
    pairs = [i for i in range(len(program.steps) - 1) if all(isinstance(s, Step) for s in program.steps[i : i + 2])]
    if not pairs:
        return None
    i = rng.choice(pairs)
    a, b = program.steps[i : i + 2]
    return _step(_step(program, i, b), i + 1, a)


def operand_changed(rng: random.Random, program: Program) -> Program | None:
    """A step reads or writes another slot of the same type: an alias that was dropped, or one too many."""
    found = _some(rng, program, lambda s: True)
    if found is None:
        return None
    index, step = found
    side = rng.choice([x for x in ("reads", "writes", "scratch") if getattr(step, x)])
    names = list(getattr(step, side))
    k = rng.randrange(len(names))
    of = program.slots[names[k]].type
    names[k] = rng.choice(
        [n for n, s in program.slots.items() if s.type.dtype is of.dtype and s.type.static_shape == of.static_shape]
    )
    return _step(program, index, replace(step, **{side: tuple(names)}))


def phases_dropped(rng: random.Random, program: Program) -> Program | None:
    """A step with phases counts as one position, and so do lives."""
    found = _some(rng, program, lambda s: s.phases > 1)
    if found is None:
        return None
    index, step = found
    first, less = program.positions[index], step.phases - 1

    def at(p: int) -> int:
        return p if p <= first else max(first + 1, p - less)

    slots = [
        replace(s, live=union([(at(a), at(b)) for a, b in s.live if at(a) < at(b)])) for s in program.slots.values()
    ]
    return _step(_with(program, *slots), index, replace(step, phases=1))


def choice_changed(rng: random.Random, program: Program) -> Program | None:
    """Another condition, or a step that goes over into the other arm."""
    found = [(i, s) for i, s in enumerate(program.steps) if isinstance(s, Branch)]
    if not found:
        return None
    index, branch = rng.choice(found)
    flags = [n for n, s in program.slots.items() if s.type.dtype is BOOL and not s.type.static_shape]
    if rng.random() < 0.5:
        return _step(program, index, replace(branch, condition=rng.choice(flags)))
    return _step(program, index, replace(branch, then=rng.randrange(index + 1, branch.end + 1)))


EARLY: tuple[Damage, ...] = (
    life_shortened,
    in_place_claimed,
    step_moved,
    operand_changed,
    phases_dropped,
    choice_changed,
)
"""What can come before the plan too, which then is made for the damaged program."""
LATE: tuple[Damage, ...] = (*EARLY, moved, moved, other_pool, pool_cut)


@dataclass(frozen=True)
class Case:
    """A module, its plan, and how that was damaged, if it was."""

    source: Module
    made: Module
    damage: str = ""


def case(seed: int) -> Case:
    """Every second one is damaged: half of them before the plan is made, half of them behind."""
    rng = random.Random(seed)
    module = source(seed)
    made = living(rng, module)
    memory = some_memory(rng, made.program)
    damage = rng.choice(EARLY) if rng.random() < 0.5 else None
    if seed % 2 and damage is not None:
        wrong = damage(rng, made.program)
        if wrong is not None:
            memory = replace(memory, in_place=memory.in_place and damage is not in_place_claimed)
            return Case(module, plan_pools(made.with_(main=wrong), memory), f"{damage.__name__}, then planned")
    planned = plan_pools(made, memory)
    for damage in rng.sample(LATE, len(LATE)) if seed % 2 else ():
        wrong = damage(rng, planned.program)
        if wrong is not None and wrong != planned.program:
            return Case(module, planned.with_(main=wrong), damage.__name__)
    return Case(module, planned)
