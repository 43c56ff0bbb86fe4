"""One SMT-LIB text for each pool: is there a buffer out of place, or a byte that two live ones share? (specs/verify.md)

Buffers that are live at one position, sorted by offset, can only overlap if two adjacent ones do, so only adjacent
pairs need a claim: linearly many. The sweep that lists them is trusted. Up to `SMALL` buffers the text also states the
definition, which trusts nobody: two buffers, a position in both lives and a byte in both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assay.semantics.memory import BufferInfo, Interval, Plan, Pool, Problem
from assay.semantics.paths import join
from assay.verify.memory.definition import called, number

SMALL = 300
"""Up to so many buffers of a pool the text holds the definition too."""


@dataclass(frozen=True)
class Box:
    """A buffer at its place in a pool, in numbers."""

    buffer: BufferInfo
    offset: int
    nbytes: int


def boxes(problem: Problem, plan: Plan, pool: str) -> list[Box]:
    """What lies in a pool, in the order of the problem. Sizes and offsets must be numbers."""
    there = [b for b in problem.buffers if plan.places[b.name].pool == pool]
    return [Box(b, number(plan.places[b.name].offset), number(b.nbytes)) for b in there]


def neighbours(found: Sequence[Box]) -> Iterator[tuple[int, int]]:
    """Pairs that are adjacent by offset at some position at which both are live, the lower one first, as indices.

    If two of them share a byte at a position then two adjacent ones do there, provided that all have bytes: whatever
    begins between two that share a byte shares one with the lower.
    """
    events = [
        event
        for i, box in enumerate(found)
        for start, stop in join(box.buffer.live)
        for event in ((start, True, i), (stop, False, i))
    ]
    events.sort()  # what ends at a position makes room for what begins there
    live: list[tuple[int, int, int]] = []
    seen: set[tuple[int, int]] = set()
    for _, begins, i in events:
        key = found[i].offset, found[i].offset + found[i].nbytes, i
        at = bisect_left(live, key)
        if begins:
            live.insert(at, key)
            adjacent = [live[max(at - 1, 0) : at + 1], live[at : at + 2]]
        else:
            del live[at]
            adjacent = [live[max(at - 1, 0) : at + 1]]
        for two in adjacent:
            if len(two) == 2 and (pair := (two[0][2], two[1][2])) not in seen:
                seen.add(pair)
                yield pair


@dataclass(frozen=True)
class Query:
    """The text about a pool, and what the numbers that it gives to `bad` stand for: a buffer, a pair, or the pool."""

    text: str
    claims: tuple[tuple[int, ...], ...]


def query(found: Sequence[Box], pool: Pool, size: int) -> Query:
    """The text that is satisfiable exactly if the plan of a pool is bad.

    `o<i>` is where buffer i begins, `n<i>` its bytes. In a model, `bad` numbers the claim that is broken (-1: the
    definition), `byte` is shared, and with -1 so are `first`, `second` and `position` what they are called.
    """
    lines = [
        f"; pool {comment(pool.name)}: {len(found)} buffers in {size} bytes; unsat means that the plan is good",
        "(set-logic QF_LIA)",
    ]
    for i, box in enumerate(found):
        lines.append(f"; {i}: {comment(called(box.buffer))}, live in {lives(box.buffer.live)}")
        lines.append(f"(define-fun o{i} () Int {literal(box.offset)})")
        lines.append(f"(define-fun n{i} () Int {literal(box.nbytes)})")
    lines.append(f"(define-fun size () Int {literal(size)})")
    lines += [f"(declare-const {name} Int)" for name in ("bad", "byte", "first", "second", "position")]
    limit = "false" if pool.limit is None else f"(> size {literal(pool.limit)})"
    lines += ["(assert (or", f"  (and (= bad 0) (or (< size 0) {limit}))"]
    claims: list[tuple[int, ...]] = [()]
    for i, box in enumerate(found):
        hand = "" if box.buffer.offset is None else f" (not (= o{i} {literal(box.buffer.offset)}))"
        inside = f"(< n{i} 0) (< o{i} 0) (> (+ o{i} n{i}) size) (not (= (mod o{i} {box.buffer.alignment}) 0)){hand}"
        lines.append(f"  (and (= bad {len(claims)}) (or {inside}))")
        claims.append((i,))
    full = [i for i, box in enumerate(found) if box.nbytes > 0]
    for a, b in neighbours([found[i] for i in full]):
        i, j = full[a], full[b]
        byte = f"(= byte (ite (< o{i} o{j}) o{j} o{i}))"
        lines.append(f"  (and (= bad {len(claims)}) {byte} (< o{j} (+ o{i} n{i})) (< o{i} (+ o{j} n{j})))")
        claims.append((i, j))
    if len(found) <= SMALL:
        lines += ["  (and (= bad (- 1)) (< first second)", *_holding("first", found), *_holding("second", found), "  )"]
    lines += ["))", "(check-sat)", ""]
    return Query("\n".join(lines), tuple(claims))


def _holding(who: str, found: Sequence[Box]) -> Iterator[str]:
    yield "    (or"
    for i, box in enumerate(found):
        at = " ".join(f"(and (<= {literal(s)} position) (< position {literal(e)}))" for s, e in box.buffer.live)
        yield f"      (and (= {who} {i}) (<= o{i} byte) (< byte (+ o{i} n{i})) (or {at} false))"
    yield "      false)"


def lives(live: tuple[Interval, ...]) -> str:
    return " ".join(f"[{start}, {stop})" for start, stop in live) or "no position"


def comment(text: str, most: int = 200) -> str:
    """A name as part of a comment: one line of plain ASCII, whatever it is."""
    safe = "".join(c if c.isprintable() else "?" for c in text[:most])
    return safe.encode("ascii", "backslashreplace").decode("ascii")


def literal(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def only(problem: Problem, plan: Plan, names: Sequence[str]) -> tuple[Problem, Plan]:
    """The problem and the plan of some buffers alone."""
    buffers = tuple(b for b in problem.buffers if b.name in names)
    return replace(problem, buffers=buffers), replace(plan, places={n: plan.places[n] for n in names})
