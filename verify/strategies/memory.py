"""Random problems of memory planning (specs/verify.md, "Programs").

Buffers with gaps in their lives, alignments of which a third is no power of two, constants, a buffer placed by hand,
and pools, some with limits. A problem with limits may have no answer.
"""

from __future__ import annotations

from assay.semantics.memory import BufferInfo, Interval, Pool, Problem
from assay.verify.strategies.choosing import Pick, one_of

ALIGNMENT = 24
"""What every alignment that is drawn divides."""


def a_life(pick: Pick, positions: int, intervals: int) -> tuple[Interval, ...]:
    """So many intervals of positions, in order, that neither meet nor touch; there must be room for twice as many
    points."""
    free = list(range(positions))
    points = sorted(free.pop(pick(len(free))) for _ in range(2 * intervals))
    return tuple(zip(points[::2], points[1::2], strict=True))


def a_problem(
    pick: Pick, most_buffers: int = 8, most: int = 12, positions: int = 9, *, limits: bool = False
) -> Problem:
    """A problem with from 1 to `most_buffers` buffers of `most` bytes at most; `limits`: with a first pool that is
    small."""
    return problem_of_size(pick, 1 + pick(most_buffers), most, positions, limits=limits)


def problem_of_size(pick: Pick, n: int, most: int = 12, positions: int = 9, *, limits: bool = False) -> Problem:
    """A problem with just so many buffers."""
    made: list[BufferInfo] = []
    pools = [Pool("workspace", alignment=ALIGNMENT), Pool("table", "constant", read_only=True, alignment=ALIGNMENT)]
    if limits:
        pools = [Pool("fast", limit=most + pick(2 * most), alignment=ALIGNMENT), *pools]
    for i in range(n):
        constant = pick(10) == 9
        b = BufferInfo(
            f"b{i}",
            pick(most + 1),
            ((0, positions),) if constant else a_life(pick, positions, one_of(pick, (1, 1, 2))),
            one_of(pick, (1, 1, 2, 4, 8, 3)),
            "constant" if constant else "workspace",
            ("table",) if constant else ("workspace",) if not limits or pick(5) == 0 else ("fast", "workspace"),
        )
        made.append(b)
    if pick(5) >= 3:
        k = pick(n)
        b = made[k]
        made[k] = BufferInfo(b.name, b.nbytes, b.live, b.alignment, b.kind, b.pools[-1:], pick(3) * b.alignment)
    return Problem(tuple(made), tuple(pools))
