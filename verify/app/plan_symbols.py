"""`assay plan FILE.csv --bound n=1..64`: sizes and offsets with symbols (specs/verify.md, "Memory plans";
specs/lower.md).

The plan is made by `assay.lower.memory.symbolic`, or it is that of the file, where every buffer has an offset. It is
proved for all values of the symbols within their bounds, or refuted at some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from assay.lower.memory.csv import MOST, BufferTable, dim_text, short
from assay.lower.memory.symbolic import given_plan, nominal, plan_symbolic
from assay.semantics.deadline import NEVER, Deadline, Late
from assay.semantics.dtypes import INT64
from assay.semantics.errors import BudgetSpent, Invalid, Trap
from assay.semantics.integers.polynomials import value
from assay.semantics.memory import Bounds, Place, Plan, Problem, arrangements
from assay.semantics.scalar import Dim, Expr, Var, variables
from assay.verify.evidence import Evidence
from assay.verify.memory import prove_plan
from assay.verify.memory.forms import Forms
from assay.verify.memory.symbolic import samples


def bounds_of(given: Mapping[str, tuple[int | None, int | None]]) -> dict[Var, tuple[int, int | None]]:
    """The symbols of these names and their bounds; the least is 0 where nothing is said, as of every dim."""
    found: dict[Var, tuple[int, int | None]] = {}
    for name, (least, high) in given.items():
        low = least or 0
        if not name.isidentifier():
            raise Invalid(f"--bound {short(name)}: a symbol is called by a name, such as n", label="symbolic.C2")
        if high is not None and low > high:
            raise Invalid(f"--bound {name}: no number is at least {low} and at most {high}", label="symbolic.C1")
        found[Var(name, INT64)] = low, high
    return found


def require_values(table: BufferTable, symbols: Bounds, deadline: Deadline = NEVER) -> None:
    """Invalid: a symbol is in no size and no offset; or a size or an offset has no value at some values of the symbols,
    a size is negative there, or either is not in int64. Those that are tried are a few, with the least and the
    greatest: the proof is about the rest.
    """
    used = {v for dim in (*(b.nbytes for b in table.buffers), *table.offsets.values()) for v in variables(dim)}
    for v in symbols:
        if v not in used:
            there = ", ".join(w.name for w in symbols if w in used) or "none"
            raise Invalid(
                f"no size and no offset has the symbol {v.name}; there are: {there}",
                where=table.source,
                label="symbolic.C1",
            )
    for b, line in zip(table.buffers, table.lines, strict=True):
        for column, dim in (("size", b.nbytes), ("offset", table.offsets.get(b.name, 0))):
            deadline.turn()
            if isinstance(dim, Expr):
                _require_values(
                    f"{column} of buffer {short(b.name)}, {short(dim_text(dim), 100)},",
                    column,
                    dim,
                    symbols,
                    f"{table.source}:{line}",
                )


def _require_values(what: str, column: str, dim: Expr, symbols: Bounds, where: str) -> None:
    forms = Forms(symbols)
    form = forms.of(dim)
    for at in _points(forms, symbols):
        here = " and ".join(f"{v.name} = {n}" for v, n in at.items())
        try:
            number = value(form, forms.values(at))
        except Trap as trap:
            raise Invalid(
                f"the {what} has no value for {here}: {trap.message}", where=where, label="memory.C3"
            ) from None
        if column == "size" and number < 0:
            raise Invalid(f"the {what} is {number} for {here}, and must be 0 or more", where=where, label="memory.C3")
        if not -MOST - 1 <= number <= MOST:
            raise Invalid(f"the {what} is {number} for {here}, and must be in int64", where=where, label="csv.C4")


def _points(forms: Forms, symbols: Bounds) -> Iterator[Mapping[Var, int]]:
    mine = forms.symbols()
    yield from samples(mine, forms)
    yield nominal(mine, symbols)


def symbolic_plan(table: BufferTable, problem: Problem, planner: Callable[[Problem], Plan], deadline: Deadline) -> Plan:
    """The plan of the file if every buffer has an offset, else one that is stacked as `planner` does it in numbers.

    Invalid: some buffers only have an offset, and one of these has symbols. BudgetSpent: the time is up.
    """
    if len(table.offsets) == len(problem.buffers):
        return given_plan(
            problem, {b.name: Place(problem.candidates(b)[0].name, table.offsets[b.name]) for b in problem.buffers}
        )
    for b, line in zip(table.buffers, table.lines, strict=True):
        if isinstance(table.offsets.get(b.name), Expr):
            free = next(other.name for other in table.buffers if other.name not in table.offsets)
            what = (
                f"buffer {short(b.name)} has an offset with symbols, and buffer {short(free)} has none: give all"
                " buffers one, or this one a number"
            )
            raise Invalid(what, where=f"{table.source}:{line}", label="memory.C6")
    try:
        return plan_symbolic(problem, planner, deadline=deadline)
    except Late:
        raise BudgetSpent(
            f"the time was up before there was a plan for {len(problem.buffers)} buffers; give it more time",
            label="memory.C9",
        ) from None
    except Trap as trap:
        what = f"a size has no value for some values of the symbols within their bounds: {trap.message}"
        raise Invalid(what, where=table.source, label="memory.C3") from None


def prove_for_all(problem: Problem, plan: Plan, capacity: int | None, deadline: Deadline) -> tuple[Evidence, bool]:
    """The verdict for all values of the symbols, and whether the first pool is not shown to need more than the
    capacity, which counts as its limit.

    Invalid: a size is negative within the bounds, or something leaves int64: then nothing can be planned.
    """
    first, limit = problem.pools[0], problem.pools[0].limit
    if capacity is not None and (limit is None or capacity < limit):
        problem = replace(problem, pools=(replace(first, limit=capacity), *problem.pools[1:]))
    evidence = prove_plan(problem, plan, deadline).evidence
    claim = evidence.data.get("claim")
    if evidence.holds is False and claim in ("size", "overflow"):
        label = "memory.C3" if claim == "size" else "csv.C4"
        raise Invalid(f"within these bounds the sizes cannot be planned: {evidence.detail}", label=label)
    over = evidence.holds is False and claim == "limit" and evidence.data.get("pool") == first.name
    return evidence, not (over and problem.pools[0].limit == capacity)


def with_symbols(data: Mapping[str, Any], bounds: Bounds, plan: Plan) -> dict[str, Any]:
    """What data says that are in numbers at one choice of values, and what holds for all of them: sizes and offsets of
    the first arrangement; where there are more, of each."""
    several = [
        {
            "pools": {n: _number_or_text(size) for n, size in p.sizes.items()},
            "offsets": {n: _number_or_text(place.offset) for n, place in p.places.items()},
        }
        for p in arrangements(plan)
    ]
    return {
        **({"arrangements": several} if plan.others else {}),
        "bounds": {v.name: list(ends) for v, ends in bounds.items()},
        "at": {v.name: n for v, n in nominal(bounds, bounds).items()},
        "pools": [{**p, "expression": dim_text(plan.sizes[p["name"]])} for p in data["pools"]],
        "places": {n: {**p, "offset": _number_or_text(plan.places[n].offset)} for n, p in data["places"].items()},
    }


def _number_or_text(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else dim_text(dim)
