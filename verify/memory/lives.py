"""That no pair of buffers is left out: which are live together, and what is asked of them (specs/verify.md, "Memory
plans").

The texts about symbolic sizes have a goal for each pair that is live together, or for each two that are neighbours.
Which these are does not depend on sizes. A text with all lives says that the list is whole; of what made the list
nothing is trusted. `listed_<i>_<j>` stands for a goal of the other texts about buffers i and j: true if there is one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence

from assay.semantics.live_positions import union
from assay.semantics.memory import BufferInfo
from assay.verify.memory.chain import TOP, adjacency
from assay.verify.memory.definition import titled
from assay.verify.memory.query import comment, literal

Pairs = Collection[tuple[int, int]]


def pairs_text(buffers: Sequence[BufferInfo], listed: Pairs) -> str:
    """Whether two that are live at one position are always a pair of the list, either way round.

    Intervals of lives stand in the order of their beginnings. Of two that share a position the one begins within the
    other, so it comes behind it before anything that begins after its end.
    """
    rows = sorted((start, stop, i) for i, b in enumerate(buffers) for start, stop in union(b.live))
    begins = [start for start, _, _ in rows]
    lines = _head(buffers, "every two that are live together are a pair of the list")
    wrong: list[str] = []
    used: dict[tuple[int, int], None] = {}
    for k, (start, stop, i) in enumerate(rows):
        lines.append(f"(define-fun s{k} () Int {literal(start)}) ; of {i}")
        lines.append(f"(define-fun e{k} () Int {literal(stop)})")
        if k + 1 < len(rows):
            wrong.append(f"(< s{k + 1} s{k})")
        last = bisect_left(begins, stop)
        if last < len(rows):
            wrong.append(f"(< s{last} e{k})")
        for j in {j for _, _, j in rows[k + 1 : last]} - {i}:
            used[min(i, j), max(i, j)] = None
    either = {(min(p), max(p)) for p in listed}
    return _whole(lines, [*wrong, *(f"(not listed_{i}_{j})" for i, j in used)], {p: p in either for p in used})


def chain_text(buffers: Sequence[BufferInfo], offsets: Sequence[int], listed: Pairs) -> str:
    """Whether each is all its life next beneath another that is live there, and that a goal says it ends below, or
    beneath the end of the pool; and one buffer at most next beneath another (`assay.verify.memory.adjacency`)."""
    lives = [union(b.live) for b in buffers]
    made = adjacency(lives, offsets)
    lines = _head(buffers, "each lies all its life next beneath one that it is listed with, or the end of the pool")
    wrong: list[str] = []
    used: dict[tuple[int, int], bool] = {}
    for i, live in enumerate(lives):
        for k, (start, stop) in enumerate(live):
            lines.append(f"(define-fun s{i}_{k} () Int {literal(start)})")
            lines.append(f"(define-fun e{i}_{k} () Int {literal(stop)})")
    for there in made.beneath.values():
        for s in there:
            lines.append(
                f"(define-fun x{s.name} () Int {literal(s.start)}) ; {s.below} beneath"
                f" {'the end' if s.above == TOP else s.above}"
            )
            lines.append(f"(define-fun y{s.name} () Int {literal(s.stop)})")
        wrong += [f"(< y{s.name} x{s.name})" for s in there]
        wrong += [f"(> y{s.name} x{t.name})" for s, t in zip(there, there[1:], strict=False)]
    for i, live in enumerate(lives):
        rest = sorted(made.above.get(i, ()), key=lambda s: s.start)
        for k, (start, stop) in enumerate(live):
            at = f"s{i}_{k}"
            while rest and start <= rest[0].start < stop:
                s = rest.pop(0)
                wrong.append(f"(not (= {at} x{s.name}))")
                at = f"y{s.name}"
                if s.above != TOP:
                    own = next((m for m, (a, z) in enumerate(lives[s.above]) if a <= s.start < z), 0)
                    wrong.append(f"(not (and (<= s{s.above}_{own} x{s.name}) (<= y{s.name} e{s.above}_{own})))")
                    wrong.append(f"(not listed_{i}_{s.above})")
                    used[i, s.above] = (i, s.above) in listed
            wrong.append(f"(not (= {at} e{i}_{k}))")
    return _whole(lines, wrong, used)


def _head(buffers: Sequence[BufferInfo], about: str) -> list[str]:
    names = [f"; {i}: {comment(titled(b))}" for i, b in enumerate(buffers)]
    return [f"; {len(buffers)} buffers: {about}; unsat means that it is so", "(set-logic QF_LIA)", *names]


def _whole(lines: Sequence[str], wrong: Sequence[str], listed: dict[tuple[int, int], bool]) -> str:
    named = [f"(define-fun listed_{i}_{j} () Bool {'true' if there else 'false'})" for (i, j), there in listed.items()]
    return "\n".join([*lines, *named, "(assert (or", *(f"  {w}" for w in wrong), "  false))", "(check-sat)", ""])
