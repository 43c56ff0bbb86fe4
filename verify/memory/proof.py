"""The proof of a memory plan by z3, pool by pool (specs/verify.md, "Memory plans")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.semantics.errors import Crash
from assay.semantics.memory import Plan, Pool, Problem
from assay.semantics.scalar import Expr
from assay.verify.evidence import Evidence, plural, proved, refuted
from assay.verify.memory.definition import Fault, both_live, called, clash, unplaced
from assay.verify.memory.query import Box, boxes, query
from assay.verify.memory.solve import solve
from assay.verify.memory.symbolic import prove_symbolic


@dataclass(frozen=True)
class Proof:
    """A verdict, and the SMT-LIB texts that z3 was asked, by name: each holds if it is `unsat`.

    Names are of letters, digits and dashes: `pool0` is about the first pool of the problem.
    """

    evidence: Evidence
    queries: Mapping[str, str] = field(default_factory=dict)


def prove_plan(problem: Problem, plan: Plan) -> Proof:
    """Whether a plan is good: for all values of the symbols in sizes, within their bounds, if there are any.

    A symbol without bounds is 0 or more. A refutation names the claim, the buffers, their bytes and positions, and the
    symbols' values, in words and in `evidence.data`. What z3 does not decide does not hold.
    """
    for fault in unplaced(problem, plan):
        return Proof(fault.evidence("proved"))
    dims = [*(b.nbytes for b in problem.buffers), *(p.offset for p in plan.places.values()), *plan.sizes.values()]
    if any(isinstance(d, Expr) for d in dims):
        return Proof(*prove_symbolic(problem, plan))
    queries: dict[str, str] = {}
    goals = 0
    for number, pool in enumerate(problem.pools):
        size = plan.sizes.get(pool.name)
        if size is None:
            continue
        assert isinstance(size, int)
        evidence, queries[f"pool{number}"] = prove_pool(boxes(problem, plan, pool.name), pool, size)
        if not evidence.holds:
            return Proof(evidence, queries)
        goals += evidence.data["goals"]
    count = plural(len(problem.buffers), "live buffer")
    detail = f"z3: no two of {count} share a byte; {plural(goals, 'goal')} in {plural(len(queries), 'pool')}"
    return Proof(proved(detail, goals=goals, pools=len(queries)), queries)


def prove_pool(found: list[Box], pool: Pool, size: int) -> tuple[Evidence, str]:
    """z3's verdict on what lies in one pool, in numbers, and the text it was asked."""
    asked = query(found, pool, size)
    solved = solve(asked.text, ("bad", "byte", "first", "second", "position"))
    if solved.answer == "unsat":
        return proved(f"z3: no two of {plural(len(found), 'live buffer')} share a byte", goals=len(asked.claims)), asked.text
    if solved.answer == "unknown":
        return refuted("proved", f"z3 does not know: {solved.reason}", claim="unknown"), asked.text
    bad = solved.values["bad"]
    if bad >= len(asked.claims):
        raise Crash(f"z3's model names claim {bad}, which is not in the query")
    broken = (solved.values["first"], solved.values["second"]) if bad < 0 else asked.claims[bad]
    return _fault([found[i] for i in broken], pool, size).evidence("proved"), asked.text


def _fault(broken: list[Box], pool: Pool, size: int) -> Fault:
    """What a model says, in words; the numbers are those of the plan."""
    match broken:
        case [a, b]:
            low, high = max(a.offset, b.offset), min(a.offset + a.nbytes, b.offset + b.nbytes)
            when = both_live(a.buffer, b.buffer)
            if low >= high or when is None:
                raise Crash(f"z3 says that {a.buffer.name} and {b.buffer.name} share a byte, and they do not")
            return clash(a.buffer, b.buffer, pool.name, (low, high), when)
        case [a]:
            what = f"buffer {called(a.buffer)} at offset {a.offset} of pool {pool.name}"
            hand = "" if a.buffer.offset is None else f", placed at {a.buffer.offset} by hand"
            detail = f"{what} is misaligned or outside the {size} bytes: {a.nbytes} bytes, aligned to {a.buffer.alignment}{hand}"
            return Fault("inside", detail, pool.name, (a.buffer.name,), (a.offset, a.offset + a.nbytes))
        case _:
            return Fault("limit", f"pool {pool.name} has {size} bytes, and its limit is {pool.limit}", pool.name)
