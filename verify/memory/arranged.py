"""Plans of several arrangements: each has to be good at all sizes (specs/verify.md, "Memory plans").

Which arrangement a run takes is a matter of bytes alone: whichever it is, it has been proved. So there is nothing to
show of where one ends and another begins, no size can be left out, and a run that takes another than the smallest needs
more bytes, and is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from assay.semantics.memory import Plan, arrangements
from assay.verify.evidence import Evidence
from assay.verify.memory.definition import Fault

Shown = tuple[Evidence, Mapping[str, str]]
"""A verdict, and the texts that z3 was asked, by name."""


def unlike(plan: Plan) -> Fault | None:
    """What an arrangement has that the first has not: places and pools must be those of the same buffers."""
    first, *others = arrangements(plan)
    for k, one in enumerate(others, 1):
        if one.others:
            return Fault("placed", f"arrangement {k} has arrangements of its own")
        if one.sizes.keys() != first.sizes.keys():
            return Fault("placed", f"arrangement {k} has sizes for other pools than the first")
        if one.places.keys() != first.places.keys():
            return Fault("placed", f"arrangement {k} places other buffers than the first")
        for name, place in one.places.items():
            if place.pool != first.places[name].pool:
                what = f"arrangement {k} has buffer {name} in pool {place.pool}, the first in {first.places[name].pool}"
                return Fault("pool", what, place.pool, (name,))
    return None


def each_arrangement(plan: Plan, prove: Callable[[Plan], Shown]) -> tuple[Evidence, dict[str, str]]:
    """The verdict on all arrangements: that of the first that does not hold, else of all together. The texts about the
    first have their own names, those about another `arrangement1-...`."""
    found = arrangements(plan)
    if len(found) == 1:
        evidence, texts = prove(found[0])
        return evidence, dict(texts)
    if (fault := unlike(plan)) is not None:
        return fault.evidence("proved"), {}
    kept: dict[str, str] = {}
    shown: list[Evidence] = []
    for k, one in enumerate(found):
        evidence, texts = prove(one)
        kept |= {f"arrangement{k}-{name}" if k else name: text for name, text in texts.items()}
        if not evidence.holds:
            detail = f"arrangement {k} of {len(found)}: {evidence.detail}"
            return replace(evidence, detail=detail, data={**evidence.data, "arrangement": k}), kept
        shown.append(evidence)
    goals = sum(e.data.get("goals", 0) for e in shown)
    data = {**shown[0].data, "arrangements": len(found), "goals": goals}
    detail = f"each of {len(found)} arrangements by itself, {goals} goals; of the first, {shown[0].detail}"
    return replace(shown[0], detail=detail, data=data), kept
