"""Sizes at which a run takes each arrangement of a plan (specs/verify.md, "compare").

Each arrangement is proved by itself; the C that chooses between them is compared with the machine at sizes at which
each one is taken, if such are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod

from assay.semantics.instance import run_bounds, symbols_of
from assay.semantics.memory import arrangements, chosen, range_of
from assay.semantics.module import Program
from assay.semantics.scalar import evaluate_dim

TRIED = (1, 2, 3, 5, 8, 13, 24, 48, 96)
"""Values of a symbol that are tried, and its least and greatest if those are no more."""
MOST_TRIED = 20_000


def taken_at(program: Program, sizes: Mapping[str, int]) -> int:
    """Which arrangement is taken at sizes, by the names of symbols; the first where there is one only."""
    if program.plan is None or not program.plan.others:
        return 0
    env = {v: sizes[v.name] for v in symbols_of(program) if v.name in sizes}
    found = chosen(program.plan, lambda dim: evaluate_dim(dim, env))
    return next(k for k, p in enumerate(arrangements(program.plan)) if p is found or p.places is found.places)


def sizes_of_arrangements(program: Program, met: Sequence[int]) -> Iterator[tuple[int, Iterator[dict[str, int]]]]:
    """For each arrangement that was not met: sizes at which it is taken, small ones first."""
    count = len(arrangements(program.plan)) if program.plan is not None else 1
    for k in range(count):
        if k not in met:
            yield k, (sizes for sizes in _small_sizes(program) if taken_at(program, sizes) == k)


def _small_sizes(program: Program) -> Iterator[dict[str, int]]:
    symbols, bounds = symbols_of(program), run_bounds(program)
    rows = list(islice(product(*(_values(*range_of(bounds, v)) for v in symbols)), MOST_TRIED))
    for row in sorted(rows, key=lambda row: (prod(n + 1 for n in row), row)):
        yield {v.name: n for v, n in zip(symbols, row, strict=True)}


def _values(low: int, high: int | None) -> list[int]:
    found = {n for n in (*TRIED, low, high) if n is not None and low <= n <= TRIED[-1]}
    return sorted(n for n in found if high is None or n <= high) or [low]
