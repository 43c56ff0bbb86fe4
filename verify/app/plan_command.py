"""`assay plan FILE.csv`: offsets for the buffers of a file, proved before they are written (specs/verify.md).

Exit codes: 0, the plan holds and reaches the capacity, if one is given; 1, it does not; 2, nothing fits, or the file
cannot be used; 4, the plan is neither proved nor refuted, such as in the time that there was; 6, the time was up before
there was one. The time limit is that of the whole command, the proof among it.

Sizes and offsets may have symbols (`assay.verify.app.plan_symbols`): what is said then is for all their values within
bounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape

from assay.lower.memory import Progress
from assay.lower.memory.csv import short
from assay.semantics.errors import Invalid
from assay.semantics.memory import lower_bound
from assay.verify.api.plan import MemoryPlan, plan, size_of
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.terminal import Screen
from assay.verify.evidence import Evidence, plural


@dataclass(frozen=True)
class PlanRequest:
    """The options of the command, as they were given."""

    file: Path
    output: Path | None = None
    capacity: int | None = None
    pools: str = ""
    planner: str = "exact"
    alignment: int = 1
    time_limit: float = 60.0
    seed: int = 0
    plot: Path | None = None
    bounds: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)


def plan_file(request: PlanRequest, out: Screen, as_json: bool) -> int:
    """Plan a file, prove the plan, write what was asked for, and say so; the exit code."""
    for path in (request.output, request.plot):
        if path is not None and not Path(os.path.realpath(path)).parent.is_dir():
            raise Invalid("cannot write: there is no such directory", where=str(path), label="output.C1")
    with _progress() as tell:
        made = plan(
            request.file,
            capacity=request.capacity,
            pools=request.pools,
            planner=request.planner,
            alignment=request.alignment,
            time_limit=request.time_limit,
            seed=request.seed,
            bounds=request.bounds,
            progress=tell,
        )
    data = as_data(made, request)
    if made.holds:
        with answering(data):
            if request.output is not None:
                made.write(request.output)
            if request.plot is not None:
                made.draw(request.plot)
    if as_json:
        write_answer(data)
    else:
        for line in plan_lines(data, made.evidence, request):
            out.print(line)
    return made.exit


def as_data(made: MemoryPlan, request: PlanRequest) -> dict[str, Any]:
    """What the command says, as data."""
    (problem, plan), evidence = made.numbers, made.evidence
    pools: list[dict[str, Any]] = []
    for p in problem.pools:
        inside = [b for b in problem.buffers if plan.places[b.name].pool == p.name]
        size, bound = size_of(plan, p.name), lower_bound(inside)
        pools.append({"name": p.name, "limit": p.limit, "buffers": len(inside), "bytes": size, "lower_bound": bound})
        pools[-1]["ratio"] = round(size / bound, 4) if bound else 1.0
    data = {
        "file": str(request.file),
        "planner": plan.planner or request.planner,
        "seconds": round(made.seconds, 3),
        "seed": request.seed,
        "buffers": len(problem.buffers),
        "pools": pools,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "capacity": request.capacity,
        "reached": made.reached,
        "how": evidence.how,
        "holds": evidence.holds,
        "detail": evidence.detail,
        "places": {
            b.name: {"pool": p.pool, "offset": p.offset} for b in problem.buffers for p in [plan.places[b.name]]
        },
    }
    if not request.bounds:
        return data
    from assay.verify.app.plan_symbols import with_symbols

    return data | with_symbols(data, made.problem.bounds, made.plan)


def plan_lines(data: dict[str, Any], evidence: Evidence, request: PlanRequest) -> Iterator[str]:
    """What the command says, for people."""
    at = f"at {said} " if (said := ", ".join(f"{n} = {k}" for n, k in data.get("at", {}).items())) else ""
    used = [p for p in data["pools"] if p["bytes"]] or data["pools"][:1]
    for pool in used:
        limit = "" if pool["limit"] is None else f" of {pool['limit']}"
        line = (
            f"{pool['name']}: {short(pool.get('expression', str(pool['bytes'])), 400)} bytes{limit} for"
            f" {plural(pool['buffers'], 'buffer')}; "
        )
        line += f"{at}{pool['bytes']} bytes, " if at else ""
        line += f"{pool['lower_bound']} live at once, ratio {pool['ratio']:.3f}"
        if pool is used[0] and not at:
            known = "optimal" if data["optimal"] else f"not known to be optimal: no plan is below {data['bound']}"
            line += f"; {known}"
        yield line
        for k, one in enumerate(data.get("arrangements", [])[1:], 1):
            size = short(str(one["pools"][pool["name"]]), 400)
            yield f"{pool['name']}, arrangement {k}: {size} bytes; a run takes the least"
    yield f"{data['planner']} in {data['seconds']:.2f} s; {evidence.word}: {evidence.detail}"
    if evidence.holds is None:
        yield "UNKNOWN: the plan is not proved, and nothing is written"
    elif not evidence.holds and data["reached"]:
        yield "FAILS: the plan does not hold, and nothing is written"
    elif not evidence.holds:
        yield f"FAILS: the plan does not fit the capacity of {data['capacity']} for all values; nothing is written"
    elif not data["reached"]:
        best, bound = data["pools"][0]["bytes"], data["bound"]
        why = f"no plan is below {bound}" if bound > data["capacity"] else "more time or another seed may find one"
        yield f"FAILS: {best} bytes do not fit the capacity of {data['capacity']}; {why}; nothing is written"
    else:
        for path in (request.output, request.plot):
            if path is not None:
                yield f"wrote {path}"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A line on the terminal that says how far a long run is; nothing where there is no terminal."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("planning") as status:
        last = "planning"

        def tell(how: str) -> None:
            nonlocal last
            last = how or last
            status.update(escape(last))

        yield tell
