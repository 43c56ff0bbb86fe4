"""The error when a plan does not fit, with the smallest limit that would do (specs/lower.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.errors import Invalid


def refuse(layout: IndexedProblem, planner: str, attempt: Callable[[frozenset[int]], PlacedBuffers]) -> NoReturn:
    """Raise Invalid: some buffer fits in none of its pools, whatever `attempt` does.

    `attempt` plans with the limits of some pools left out. The pool to enlarge is the one with the largest limit among
    those of the largest buffer that is stuck; if others are stuck then, one more for each. A planner that puts each
    buffer in the first place that it finds does the same once the limits are those that came out.
    """
    placement = attempt(frozenset())
    first = max(placement.stuck(), key=lambda i: layout.nbytes[i])
    open: frozenset[int] = frozenset()
    while stuck := placement.stuck():
        largest = max(stuck, key=lambda i: layout.nbytes[i])
        limited = [p for p in layout.choices[largest] if p not in open]  # not empty: an open pool holds everything
        open = open | {max(limited, key=lambda p: layout.limits[p] or 0)}
        placement = attempt(open)
    raise Invalid(message(layout, planner, first, {p: placement.sizes()[p] for p in open}), label="memory.C7")


def message(layout: IndexedProblem, planner: str, stuck: int, enough: dict[int, int], proved: bool = False) -> str:
    """Which buffer does not fit where, and which limits would be enough."""
    b = layout.buffers[stuck]
    pools = ", ".join(f"{layout.pools[p].name} ({layout.limits[p]} bytes)" for p in layout.choices[stuck])
    producer = f" ({b.producer})" if b.producer else ""
    limits = " and ".join(f"a limit of {size} bytes for {layout.pools[p].name}" for p, size in sorted(enough.items()))
    how = "would be enough, and nothing less" if proved else f"would be enough by this planner, {planner}"
    return f"does not fit: buffer {b.name}{producer}, {b.nbytes} bytes, beside the others in {pools}; {limits} {how}"
