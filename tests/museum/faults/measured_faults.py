"""Faults in loops of planned programs, and in sizes that a run measures (specs/lower.md, "liveness")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from assay.lower.liveness import find_lives
from assay.semantics.module import Continue, Module
from assay.verify.liveness.measured import check_measured
from tests.lower.liveness import test_loops as loops, test_measured_sizes as measured
from tests.lower.liveness.liveness_programs import lowered
from tests.museum import judges
from tests.museum.planted import Judge, PlantedFault


def rooms(source: Module, made: Module) -> str | None:
    """Whether what measured sizes are at most is asserted, and slots have room for it."""
    return judges.of_evidence(check_measured(made.program, made.kernels))


def changed(how: Callable[[Module], Module], source: Module) -> Module:
    return how(find_lives(source))


def ends_at_the_back_edge(live: Module) -> Module:
    """What is there before a loop and read in it is dead where the loop begins anew."""
    program = live.program
    kept = next(n for n, s in program.slots.items() if s.producer.startswith("exp"))
    back = program.positions[next(i for i, s in enumerate(program.steps) if isinstance(s, Continue))]
    return loops.shortened(live, kept, back)


def of(
    name: str, layer: str, judge: Judge, program: Callable[[], Module], how: Callable[[Module], Module]
) -> PlantedFault:
    return PlantedFault(
        name, layer, (judge,), lambda: lowered(program()), partial(changed, how), lambda source: find_lives(source)
    )


LOOPS = "steps: values"
FAULTS: tuple[PlantedFault, ...] = (
    of("a carried value is said to stay", LOOPS, judges.steps, loops.swap, loops.said_to_stay),
    of("carried values are copied in another order", LOOPS, judges.steps, loops.swap, loops.other_order),
    of("a carried value begins as another", LOOPS, judges.steps, loops.swap, loops.other_initial),
    of("a loop goes on where it was to be left", LOOPS, judges.steps, loops.swap, loops.other_arms),
    of("a loop runs once", LOOPS, judges.steps, loops.swap, loops.no_loop),
    of("a life ends at the back edge of a loop", "lives", judges.lives, loops.fibonacci, ends_at_the_back_edge),
    of("the room of a measured size is too small", "measured sizes", rooms, measured.counted, measured.no_room),
    of("a measured size may be more than is asserted", "measured sizes", rooms, measured.counted, measured.too_small),
    of("nothing bounds a measured size", "measured sizes", rooms, measured.counted, measured.never),
    of("a size is measured before it is told", LOOPS, judges.steps, measured.counted, measured.too_early),
    of("a size is measured nowhere", LOOPS, judges.steps, measured.counted, measured.left_out),
    of("a size is measured by another's vector", LOOPS, judges.steps, measured.counted, measured.told_by_another),
)
