"""One SMT-LIB text for each pool: is there a buffer out of place, or a byte that two live ones share? (specs/verify.md)

Lives, offsets and sizes stand in the formulas, so the text alone decides. Up to `SMALL` buffers it states the
definition: two buffers, a position in both lives and a byte in both; and, for a good counterexample, a claim for each
two that are adjacent by offset. Of more the definition is too much for any solver: the text states what lies next
beneath each buffer, and that this leaves none out (`assay.verify.memory.adjacency`), in linearly many claims.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.live_positions import union
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem
from assay.verify.memory.chain import TOP, Spell, adjacency
from assay.verify.memory.definition import MOST, number, titled

SMALL = 300
"""Up to so many buffers of a pool the text states the definition."""


@dataclass(frozen=True)
class PlacedBox:
    """A buffer at its place in a pool, in numbers."""

    buffer: BufferInfo
    offset: int
    nbytes: int


def boxes(problem: Problem, plan: Plan, pool: str) -> list[PlacedBox]:
    """What lies in a pool, in the order of the problem. Sizes and offsets must be numbers."""
    there = [b for b in problem.buffers if plan.places[b.name].pool == pool]
    return [PlacedBox(b, number(plan.places[b.name].offset), number(b.nbytes)) for b in there]


def neighbours(found: Sequence[PlacedBox]) -> Iterator[tuple[int, int]]:
    """Pairs that are adjacent by offset at some position at which both are live, the lower one first, as indices.

    If two of them share a byte at a position then two adjacent ones do there, provided that all have bytes: whatever
    begins between two that share a byte shares one with the lower.
    """
    events = [
        event
        for i, box in enumerate(found)
        for start, stop in union(box.buffer.live)
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


About: TypeAlias = Literal["pool", "place", "pair", "order", "covered"]


@dataclass(frozen=True)
class PoolQuery:
    """The text about a pool, and what the numbers that it gives to `bad` stand for, in words and as buffers by
    number."""

    text: str
    claims: tuple[tuple[About, tuple[int, ...]], ...]


def query(found: Sequence[PlacedBox], pool: Pool, size: int, deadline: Deadline = NEVER) -> PoolQuery:
    """The text that is unsatisfiable only if the plan of a pool is good. Late: the time is up.

    `o<i>` is where buffer i begins, `n<i>` its bytes; it is live from `s<i>_<k>` up to `e<i>_<k>`. In a model, `bad`
    numbers the claim that is broken (-1: the definition), `byte` is shared, and with -1 so are `first`, `second` and
    `position` what they are called. Of many buffers, `x<j>_<k>` up to `y<j>_<k>` are positions at which buffer
    `b<j>_<k>` is said to lie next beneath buffer j (t: the end of the pool).
    """
    found = [replace(box, buffer=replace(box.buffer, live=union(box.buffer.live))) for box in found]
    full = [i for i, box in enumerate(found) if box.nbytes > 0]
    small = len(found) <= SMALL
    told = "" if small else "; no byte is shared: see order and covered"
    lines = [
        f"; pool {comment(pool.name)}: {len(found)} buffers in {size} bytes; unsat means that the plan is good{told}",
        "(set-logic QF_LIA)",
    ]
    for i, box in enumerate(found):
        deadline.turn()
        lines.append(f"; {i}: {comment(titled(box.buffer))}")
        lines.append(f"(define-fun o{i} () Int {literal(box.offset)})")
        lines.append(f"(define-fun n{i} () Int {literal(box.nbytes)})")
        for k, (start, stop) in enumerate(box.buffer.live):
            lines.append(f"(define-fun s{i}_{k} () Int {literal(start)})")
            lines.append(f"(define-fun e{i}_{k} () Int {literal(stop)})")
    lines.append(f"(define-fun size () Int {literal(size)})")
    names = ["bad", "byte"] + (["first", "second", "position"] if small else [])
    lines += [f"(declare-const {name} Int)" for name in names]
    limit = "false" if pool.limit is None else f"(> size {literal(pool.limit)})"
    claims: list[tuple[About, tuple[int, ...]]] = []
    wrong: list[str] = []

    def claim(about: About, buffers: tuple[int, ...], text: str) -> None:
        deadline.turn()
        wrong.append(f"  (and (= bad {len(claims)}) {text})")
        claims.append((about, buffers))

    claim("pool", (), f"(or (< size 0) (> size {MOST}) {limit})")
    for i, box in enumerate(found):
        hand = "" if box.buffer.offset is None else f" (not (= o{i} {literal(box.buffer.offset)}))"
        inside = f"(< n{i} 0) (< o{i} 0) (> (+ o{i} n{i}) size) (not (= (mod o{i} {box.buffer.alignment}) 0)){hand}"
        claim("place", (i,), f"(or {inside})")
    if small:
        for a, b in neighbours([found[i] for i in full]):
            i, j = full[a], full[b]
            byte = f"(= byte (ite (< o{i} o{j}) o{j} o{i}))"
            claim("pair", (i, j), f"{byte} (< o{j} (+ o{i} n{i})) (< o{i} (+ o{j} n{j}))")
        wrong += ["  (and (= bad (- 1)) (< first second)", *_holding("first", found), *_holding("second", found), "  )"]
    else:
        made = adjacency([found[i].buffer.live for i in full], [found[i].offset for i in full], deadline)
        spells = {above: [_numbered(s, full) for s in there] for above, there in made.beneath.items()}
        for there in spells.values():
            for s in there:
                lines.append(f"(define-fun x{s.name} () Int {literal(s.start)})")
                lines.append(f"(define-fun y{s.name} () Int {literal(s.stop)})")
                lines.append(f"(define-fun b{s.name} () Int {s.below})")
            apart = [f"(< y{s.name} x{s.name})" for s in there]
            apart += [f"(> y{s.name} x{t.name})" for s, t in zip(there, there[1:], strict=False)]
            claim("order", (there[0].above,), f"(or {' '.join(apart)})")
        for i in sorted({*range(len(found))} - {*full}):
            claim("covered", (i,), f"(> n{i} 0)")
        for k, i in enumerate(full):
            over = sorted((_numbered(s, full) for s in made.above.get(k, ())), key=lambda s: s.start)
            claim("covered", (i,), f"(not (and {' '.join(_covered(i, found, over))} true))")
    lines += ["(assert (or", *wrong, "))", "(check-sat)", ""]
    return PoolQuery("\n".join(lines), tuple(claims))


def _numbered(s: Spell, full: Sequence[int]) -> Spell:
    """A spell of buffers with bytes, with the numbers that all buffers have."""
    return replace(s, above=s.above if s.above == TOP else full[s.above], below=full[s.below])


def _covered(i: int, found: Sequence[PlacedBox], over: Sequence[Spell]) -> Iterator[str]:
    """That the spells in which a buffer lies beneath another, in order, are together the whole of its life."""
    rest = list(over)
    for k, (start, stop) in enumerate(found[i].buffer.live):
        at = f"s{i}_{k}"
        while rest and start <= rest[0].start < stop:
            spell = rest.pop(0)
            yield f"(= {at} x{spell.name}) (= b{spell.name} {i}){_above(i, spell, found)}"
            at = f"y{spell.name}"
        yield f"(= {at} e{i}_{k})"


def _above(i: int, s: Spell, found: Sequence[PlacedBox]) -> str:
    """That what a buffer lies beneath in a spell begins where it ends or later, and is live all the time."""
    if s.above == TOP:
        return ""  # that all ends within the pool is a claim by itself
    lives = found[s.above].buffer.live
    k = next((k for k, (start, stop) in enumerate(lives) if start <= s.start < stop), 0)
    return f" (<= (+ o{i} n{i}) o{s.above}) (<= s{s.above}_{k} x{s.name}) (<= y{s.name} e{s.above}_{k})"


def _holding(who: str, found: Sequence[PlacedBox]) -> Iterator[str]:
    yield "    (or"
    for i, box in enumerate(found):
        at = " ".join(f"(and (<= s{i}_{k} position) (< position e{i}_{k}))" for k in range(len(box.buffer.live)))
        yield f"      (and (= {who} {i}) (<= o{i} byte) (< byte (+ o{i} n{i})) (or {at} false))"
    yield "      false)"


def comment(text: str, most: int = 200) -> str:
    """A name as part of a comment: one line of plain ASCII, whatever it is."""
    safe = "".join(c if c.isprintable() else "?" for c in text[:most])
    return safe.encode("ascii", "backslashreplace").decode("ascii")


def literal(value: int) -> str:
    """An integer as SMT-LIB text."""
    return str(value) if value >= 0 else f"(- {-value})"


def only(problem: Problem, plan: Plan, names: Sequence[str]) -> tuple[Problem, Plan]:
    """The problem and the plan of some buffers alone."""
    buffers = tuple(b for b in problem.buffers if b.name in names)
    return replace(problem, buffers=buffers), replace(plan, places={n: plan.places[n] for n in names})
