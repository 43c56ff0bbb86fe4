"""Bytes that no order of a segment can do without (specs/lower.md, "schedule")."""

from __future__ import annotations

from assay.lower.schedule.blocks import Blocks
from assay.semantics.sets import ones


def peak_bound(blocks: Blocks, start: int) -> int:
    """A bound on the peak: for each block what must be live while it runs. `start` bytes are live before all."""
    if blocks.reach is None:
        return 0
    work, reach = blocks.work, blocks.reach
    after = dict.fromkeys(reach, 0)
    for b in reversed(blocks.order):
        for s in blocks.succs[b]:
            after[b] |= after[s] | 1 << s
    everywhere = sum(1 << b for b in reach)
    maker = {t: b for b, calls in blocks.calls.items() for c in calls for t in work.makes[c]}
    must = dict.fromkeys(reach, start)
    for t in dict.fromkeys([*blocks.last, *blocks.readers, *maker]):
        # a tensor must be live at a block that comes after its maker, and before or as one of its readers
        inside = [blocks.block[c] for c in work.readers[t] if c in blocks.block]
        until = everywhere
        if t in blocks.readers or blocks.last.get(t, -1) >= 0:
            until = 0
            for r in inside:
                until |= reach[r] | 1 << r
        mask, size = until & after[maker[t]] if t in maker else until, work.size[t]
        if t not in maker:
            mask, size = everywhere & ~until, -size  # it is counted in `start`
        for b in ones(mask):
            must[b] += size
    return max((must[b] + blocks.bounds(b)[2] for b in must), default=0)
