"""The proof of a memory plan by z3, pool by pool (specs/verify.md, "Memory plans")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.semantics.deadline import NEVER, Deadline, Late
from assay.semantics.errors import Crash
from assay.semantics.memory import Plan, Pool, Problem
from assay.semantics.scalar import Expr
from assay.verify.evidence import Evidence, plural, proved, unknown
from assay.verify.memory.arranged import each_arrangement
from assay.verify.memory.definition import MOST, Fault, both_live, clash, titled, unplaced
from assay.verify.memory.query import PlacedBox, boxes, query
from assay.verify.memory.solve import solve

MANY = 200_000
"""Texts about more buffers in a pool are not made: z3 takes some kilobytes for each."""


@dataclass(frozen=True)
class Proof:
    """A verdict, and the SMT-LIB texts that z3 was asked, by name: each holds if it is `unsat`.

    Names are of letters, digits and dashes: `pool0` is about the first pool of the problem.
    """

    evidence: Evidence
    queries: Mapping[str, str] = field(default_factory=dict)


def prove_plan(problem: Problem, plan: Plan, deadline: Deadline = NEVER) -> Proof:
    """Whether a plan is good: for all values of the symbols in sizes, within their bounds, if there are any.

    A symbol without bounds is 0 or more. A refutation names the claim, the buffers, their bytes and positions, and the
    symbols' values, in words and in `evidence.data`. What z3 does not decide, or not in time, is unknown. Each
    arrangement of a plan is proved by itself.
    """

    def one(arrangement: Plan) -> tuple[Evidence, Mapping[str, str]]:
        proof = _prove_one(problem, arrangement, deadline)
        return proof.evidence, proof.queries

    return Proof(*each_arrangement(plan, one))


def _prove_one(problem: Problem, plan: Plan, deadline: Deadline) -> Proof:
    """The proof of a plan of one arrangement."""
    for fault in unplaced(problem, plan):
        return Proof(fault.evidence("proved"))
    dims = [*(b.nbytes for b in problem.buffers), *(p.offset for p in plan.places.values()), *plan.sizes.values()]
    if any(isinstance(d, Expr) for d in dims):
        from assay.verify.memory.symbolic import prove_symbolic  # a plan in numbers is proved without it

        return Proof(*prove_symbolic(problem, plan, deadline))
    queries: dict[str, str] = {}
    goals = 0
    for number, pool in enumerate(problem.pools):
        size = plan.sizes.get(pool.name)
        if size is None:
            continue
        assert isinstance(size, int)
        evidence, queries[f"pool{number}"] = prove_pool(boxes(problem, plan, pool.name), pool, size, deadline)
        if not evidence.holds:
            return Proof(evidence, queries)
        goals += evidence.data["goals"]
    count = plural(len(problem.buffers), "live buffer")
    detail = f"z3: no two of {count} share a byte; {plural(goals, 'goal')} in {plural(len(queries), 'pool')}"
    return Proof(proved(detail, goals=goals, pools=len(queries)), queries)


def prove_pool(found: list[PlacedBox], pool: Pool, size: int, deadline: Deadline = NEVER) -> tuple[Evidence, str]:
    """z3's verdict on what lies in one pool, in numbers, and the text it was asked; "" where it was not."""
    if len(found) > MANY:
        return (
            unknown(
                "proved",
                f"not put to z3: {len(found)} buffers in pool {pool.name} are more than {MANY}",
                claim="unknown",
            ),
            "",
        )
    text = ""
    try:
        asked = query(found, pool, size, deadline)
        text = asked.text
        solved = solve(text, ("bad", "first", "second"), deadline=deadline)
    except Late:
        return unknown("proved", f"the time was up before z3 had decided about pool {pool.name}", claim="unknown"), text
    if solved.answer == "unsat":
        return proved(f"z3: no two of {plural(len(found), 'live buffer')} share a byte", goals=len(asked.claims)), text
    if solved.answer == "unknown":
        late = ": the time was up" if deadline.over else ""
        return unknown("proved", f"z3 does not know{late}: {solved.reason}", claim="unknown"), text
    bad = solved.values["bad"]
    if bad >= len(asked.claims):
        raise Crash(f"z3's model names claim {bad}, which is not in the query")
    about, broken = ("pair", (solved.values["first"], solved.values["second"])) if bad < 0 else asked.claims[bad]
    if about == "order":
        raise Crash(f"the spells beneath buffer {broken[0]} of pool {pool.name} overlap: the sweep is wrong")
    if about == "covered":
        broken = _beside(found, broken[0], pool)
    return _fault([found[i] for i in broken], pool, size).evidence("proved"), text


def _beside(found: list[PlacedBox], i: int, pool: Pool) -> tuple[int, ...]:
    """A buffer that is not covered, and one that shares a byte with it."""
    a = found[i]
    for j, b in enumerate(found):
        shared = max(a.offset, b.offset) < min(a.offset + a.nbytes, b.offset + b.nbytes)
        if i != j and shared and both_live(a.buffer, b.buffer) is not None:
            return i, j
    raise Crash(
        f"nothing shown of buffer {a.buffer.name} in pool {pool.name} says that it is apart, and it is: the sweep is"
        " wrong"
    )


def _fault(broken: list[PlacedBox], pool: Pool, size: int) -> Fault:
    """What a model says, in words; the numbers are those of the plan."""
    match broken:
        case [a, b]:
            low, high = max(a.offset, b.offset), min(a.offset + a.nbytes, b.offset + b.nbytes)
            when = both_live(a.buffer, b.buffer)
            if low >= high or when is None:
                raise Crash(f"z3 says that {a.buffer.name} and {b.buffer.name} share a byte, and they do not")
            return clash(a.buffer, b.buffer, pool.name, (low, high), when)
        case [a]:
            what = f"buffer {titled(a.buffer)} at offset {a.offset} of pool {pool.name}"
            hand = "" if a.buffer.offset is None else f", placed at {a.buffer.offset} by hand"
            detail = (
                f"{what} is misaligned or outside the {size} bytes: {a.nbytes} bytes, aligned to"
                f" {a.buffer.alignment}{hand}"
            )
            return Fault("inside", detail, pool.name, (a.buffer.name,), (a.offset, a.offset + a.nbytes))
        case _ if size > MOST:
            return Fault("overflow", f"pool {pool.name} has {size} bytes, more than int64 can count", pool.name)
        case _:
            return Fault("limit", f"pool {pool.name} has {size} bytes, and its limit is {pool.limit}", pool.name)
