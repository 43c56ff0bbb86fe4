"""What is wrong with a plan that does not hold, for its picture (specs/verify.md).

Found anew by the definition (`assay.verify.memory.definition`): two buffers that are live at one position share a byte,
or a buffer lies outside its pool or off its alignment. Of several faults the one is shown that the check names. Where a
life is too short the check itself says where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem
from assay.verify.app.report.model import Buffer, CheckReport, Refutation
from assay.verify.evidence import Evidence
from assay.verify.memory.definition import misplaced_buffers, overlapping


def refutation(report: CheckReport, said: Evidence) -> Refutation | None:
    """The fault of the plan that the evidence names, or else the first; None: the plan by itself has none."""
    names = set(said.data.get("buffers", ())) or set(re.findall(r"[^\s,;()\[\]]+", said.detail))
    every = [b for b in report.buffers if b.pool]
    named = [b for b in every if b.name in names]
    claim = said.data.get("claim")
    if claim == "life":
        return next((_refutation(claim, said.detail, [b], None, said.data["positions"]) for b in named), None)
    if all(p.nbytes is None for p in report.pools):
        return None
    found = list(_faults(report, named))
    if found:
        return max(found, key=lambda f: (f.claim == claim, len(f.buffers)))
    return next(_faults(report, every), None)


def _faults(report: CheckReport, buffers: Sequence[Buffer]) -> Iterator[Refutation]:
    """The faults of some buffers: places first, then bytes that are shared."""
    for b in buffers:
        if b.offset is None:
            yield _refutation("placed", f"buffer {b.name} has no place", [b])
    placed = {b.name: b for b in buffers if b.offset is not None}
    problem = Problem(
        tuple(BufferInfo(b.name, b.nbytes, b.live, max(b.alignment, 1), producer=b.producer) for b in placed.values()),
        tuple(Pool(p.name, limit=p.limit) for p in report.pools),
    )
    plan = Plan(
        {b.name: Place(b.pool, b.offset or 0) for b in placed.values()}, {p.name: p.nbytes or 0 for p in report.pools}
    )
    for fault in chain(misplaced_buffers(problem, plan), overlapping(problem, plan)):
        if fault.buffers:
            yield _refutation(
                fault.claim, fault.detail, [placed[n] for n in fault.buffers], fault.bytes, fault.positions
            )


def _refutation(
    claim: str,
    sentence: str,
    buffers: Sequence[Buffer],
    bytes_: Interval | None = None,
    positions: Interval | None = None,
) -> Refutation:
    """A fault with all that a picture needs: without bytes or positions of its own, those of its first buffer."""
    b = buffers[0]
    offset = b.offset or 0
    low, high = bytes_ or (offset, offset + b.nbytes)
    life = (b.live[0][0], b.live[-1][1]) if b.live else (0, 1)
    return Refutation(claim, sentence, b.pool, tuple(x.number for x in buffers), low, high, positions or life)
