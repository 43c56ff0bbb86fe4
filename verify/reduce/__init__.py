"""A smaller model that still shows it (specs/verify.md, "reduce").

    case = reduce(Case(model, inputs), shows)

`shows` says whether a case still shows what was found. Greedy delta debugging (Zeller and Hildebrandt, "Simplifying and
isolating failure-inducing input", 2002): operators, then outputs, attributes, sizes, values; over and over until
nothing more can go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from assay.semantics.errors import Invalid
from assay.verify.reduce.attributes import fewer_attributes
from assay.verify.reduce.case import ReducedCase, tidy
from assay.verify.reduce.operators import fewer_operators, fewer_outputs
from assay.verify.reduce.sizes import smaller_sizes
from assay.verify.reduce.values import simpler_values

__all__ = ["ReducedCase", "reduce", "tidy"]

STEPS: tuple[tuple[str, Callable[[ReducedCase], Iterator[ReducedCase]]], ...] = (
    ("operators", fewer_operators),
    ("outputs", fewer_outputs),
    ("attributes", fewer_attributes),
    ("sizes", smaller_sizes),
    ("values", simpler_values),
)
"""Each gives smaller cases than the one before, the smallest first; the first that still shows it is taken."""

Progress = Callable[[str, int, ReducedCase], None]


def reduce(
    case: ReducedCase,
    shows: Callable[[ReducedCase], bool],
    limit: int = 5_000,
    progress: Progress = lambda step, tries, case: None,
) -> ReducedCase:
    """The smallest case found in `limit` tries. `progress` gets each case that is taken, so that one who interrupts has
    the last. Invalid (reduce.C1): the case itself does not show it."""
    if not shows(case):
        raise Invalid(
            "there is nothing to reduce: the case does not show what was found, or not every time", label="reduce.C1"
        )
    tries = 0
    found = True
    asked: set[bytes] = set()
    while found and tries < limit:
        found = False
        for name, candidates in STEPS:
            smaller: ReducedCase | None = case
            while smaller is not None and tries < limit:
                smaller = None
                for candidate in candidates(case):
                    if candidate.digest in asked:  # asked before something else was taken
                        continue
                    asked.add(candidate.digest)
                    tries += 1
                    if shows(candidate):
                        case = smaller = candidate
                        found = True
                        progress(name, tries, case)
                        break
                    if tries >= limit:
                        break
    tidied = tidy(case)
    return tidied if shows(tidied) else case
