"""Neighbouring composites as one region, without cycles (row R29; specs/lower.md, "Engines").

Every unit of a chain, a composite or a binding outside of all, gets a level: at least that of what it reads, one more
where one of the two is the engine's and the other is not. Composites that are connected on one level are a region. A
way out of a region leads to a higher level, so none leads back. Levels as low as possible and as high as possible are
both good; what gives fewer regions is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.sets import DisjointSets


def regions(reads: Sequence[Sequence[int]], inside: Sequence[bool]) -> list[list[int]]:
    """The regions of units, each in order. `reads` are for each unit those before it that must come first; `inside`
    says which are the engine's."""
    found = [_connected(reads, inside, levels) for levels in (_lowest(reads, inside), _highest(reads, inside))]
    return min(found, key=len)


def _lowest(reads: Sequence[Sequence[int]], inside: Sequence[bool]) -> list[int]:
    levels: list[int] = []
    for i, some in enumerate(reads):
        levels.append(max((levels[j] + (inside[i] != inside[j]) for j in some), default=0))
    return levels


def _highest(reads: Sequence[Sequence[int]], inside: Sequence[bool]) -> list[int]:
    levels = [2 * len(reads)] * len(reads)
    for i in reversed(range(len(reads))):
        for j in reads[i]:
            levels[j] = min(levels[j], levels[i] - (inside[i] != inside[j]))
    return levels


def _connected(reads: Sequence[Sequence[int]], inside: Sequence[bool], levels: Sequence[int]) -> list[list[int]]:
    sets = DisjointSets[int]()
    for i, some in enumerate(reads):
        for j in some:
            if inside[i] and inside[j] and levels[i] == levels[j]:
                sets.join(i, j)
    return sets.classes(i for i in range(len(reads)) if inside[i])
