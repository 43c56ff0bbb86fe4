"""`assay plan FILE.csv`: offsets for the buffers of a file, proved before they are written (specs/verify.md).

Exit codes: 0, the plan holds and reaches the capacity, if one is given; 1, it does not; 2, nothing fits, or the file
cannot be used; 4, the plan is neither proved nor refuted, such as in the time that there was; 6, the time was up before
there was one. The time limit is that of the whole command, the proof among it.

Sizes and offsets may have symbols (`assay.verify.app.plan_symbols`): what is said then is for all their values within
bounds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import Any

from rich.markup import escape

from assay.lower.memory import Progress, plan as make_plan
from assay.lower.memory.csv import MOST, Table, read, short
from assay.lower.memory.symbolic import nominal
from assay.semantics.compilation import read_device
from assay.semantics.deadline import NEVER, Deadline, Late
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import BudgetSpent, Invalid
from assay.semantics.memory import Plan, Pool, Problem, lower_bound
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.plan_symbols import prove_for_all, read_symbols, require_values, symbolic_plan, with_symbols
from assay.verify.app.report.maps import plan_picture
from assay.verify.app.spending import require_seconds
from assay.verify.app.terminal import Screen
from assay.verify.border.inputs import replace_text
from assay.verify.evidence import Evidence, plural
from assay.verify.exits import Exit, gravest
from assay.verify.memory import prove_plan
from assay.verify.memory.definition import in_numbers

PLANNING = 0.75
"""The share of the time in which the planner must end, so that there is some left for the proof."""


@dataclass(frozen=True)
class Request:
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
    bounds: tuple[str, ...] = ()


def plan_file(request: Request, out: Screen, as_json: bool) -> int:
    """Plan a file, prove the plan, write what was asked for, and say so; the exit code."""
    require_seconds("--time-limit", request.time_limit)
    deadline = Deadline(request.time_limit)
    symbols = read_symbols(request.bounds)
    try:
        table = read(request.file, deadline, {v.name: v for v in symbols})
        require_values(table, symbols, deadline)
        problem = replace(problem_of(table, request, deadline), bounds=symbols)
    except Late:
        what = (
            f"the {request.time_limit:g} seconds of --time-limit were up before the buffers were read; give it more"
            " time"
        )
        raise BudgetSpent(what, where=str(request.file), label="memory.C9") from None
    for path in (request.output, request.plot):
        if path is not None and not Path(os.path.realpath(path)).parent.is_dir():
            raise Invalid("cannot write: there is no such directory", where=str(path), label="output.C1")
    start = time.perf_counter()
    with _progress() as tell:
        until = deadline.share(PLANNING)

        def planner(of: Problem) -> Plan:
            return make_plan(
                of, request.planner, seed=request.seed, deadline=until, capacity=request.capacity, progress=tell
            )

        plan = symbolic_plan(table, problem, planner, until) if symbols else planner(problem)
    seconds = time.perf_counter() - start
    if symbols:
        evidence, reached = prove_for_all(problem, plan, request.capacity, deadline)
        shown = in_numbers(problem, plan, nominal(symbols, symbols))
    else:
        evidence, shown = prove_plan(problem, plan, deadline).evidence, (problem, plan)
        reached = request.capacity is None or _bytes(plan, problem.pools[0].name) <= request.capacity
    data = as_data(*shown, evidence, seconds, request, reached)
    if symbols:
        data |= with_symbols(data, symbols, plan)
    if evidence.holds and reached:
        with answering(data):
            if request.output is not None:
                replace_text(request.output, table.written(plan, several=len(problem.pools) > 1))
            if request.plot is not None:
                replace_text(request.plot, plan_picture(*shown))
    if as_json:
        write_answer(data)
    else:
        for line in lines(data, evidence, request):
            out.print(line)
    return gravest([evidence.exit, Exit.HOLDS if reached else Exit.WRONG])


def problem_of(table: Table, request: Request, deadline: Deadline = NEVER) -> Problem:
    """The problem of a table in the pools that were asked for, each as aligned as any buffer wants it."""
    if request.alignment < 1:
        raise Invalid(f"--alignment is {request.alignment}, and must be 1 or more", label="cli.C5")
    if request.capacity is not None and request.capacity < 0:
        raise Invalid(f"--capacity is {request.capacity}, and must be 0 or more bytes", label="cli.C5")
    for option, value in (("--alignment", request.alignment), ("--capacity", request.capacity or 0)):
        if value > MOST:
            raise Invalid(f"{option} is {short(str(value))}, and must be in int64: no more than {MOST}", label="cli.C5")
    buffers = table.buffers
    if request.alignment > 1:
        buffers = tuple(replace(b, alignment=lcm(b.alignment, request.alignment)) for b in buffers)
    deadline.check()
    aligned = lcm(64, *(b.alignment for b in buffers))
    if aligned > MOST:
        what = "no address in int64 is a multiple of all alignments: the least multiple of those of the buffers"
        raise Invalid(f"{what}, of --alignment and of 64 is {aligned}", where=table.source, label="csv.C4")
    if not request.bounds and (least := lower_bound(buffers)) > MOST and not request.pools:
        what = f"{least} bytes are live at once, and sizes must be in int64: no more than {MOST}"
        raise Invalid(what, where=table.source, label="csv.C4")
    pools = parse_pools(request.pools) if request.pools else (Pool("workspace"),)
    return replace(table, buffers=buffers).problem([replace(p, alignment=aligned) for p in pools], deadline)


POOL = re.compile(r"\s*([^=@\s]+)\s*(?:@\s*([^=@\s]+)\s*)?(?:=\s*([0-9]+)\s*)?")


def parse_pools(text: str) -> tuple[Pool, ...]:
    """`name@memory=limit,...`, the most wanted first; a memory is a device, and its scope behind a slash. Without a
    limit, a pool has none."""
    wanted = (
        "--pools takes name@memory=limit,... in bytes, such as fast=65536,slow or near@cuda:0/shared=4096,far@cuda:0"
    )
    return tuple(Pool(name, device=_memory(where), limit=limit) for name, where, limit in _pools(text, wanted))


def parse_constant_pools(text: str) -> tuple[Pool, ...]:
    """`name@where=limit,...`, the most wanted first: read-only memories for constants. Where is a section of the object
    file if it begins with a dot or an underscore, else a memory as for `parse_pools`."""
    wanted = "--constant-pools takes name@where=limit,... such as tcm@.tcm=4096,flash or weights@cuda:0"
    found: list[Pool] = []
    for name, where, limit in _pools(text, wanted):
        section = where if where.startswith((".", "_")) else ""
        device = ANYWHERE if section else _memory(where)
        found.append(Pool(name, "constant", device=device, limit=limit, read_only=True, section=section))
    return tuple(found)


def _pools(text: str, wanted: str) -> Iterator[tuple[str, str, int | None]]:
    for part in text.split(","):
        match = POOL.fullmatch(part)
        if match is None:
            raise Invalid(f"{wanted}, not {short(part)!r}", label="cli.C5")
        name, where, limit = match.groups()
        if limit is not None and (len(limit.lstrip("0")) > 19 or int(limit) > MOST):
            raise Invalid(
                f"the limit of pool {name} is {short(limit)}, and must be in int64: no more than {MOST}", label="cli.C5"
            )
        yield name, where or "", None if limit is None else int(limit)


def _memory(text: str) -> VirtualDevice:
    """A device, and the scope behind a slash, the main memory if there is none; any if nothing is said."""
    if not text:
        return ANYWHERE
    device, _, scope = text.partition("/")
    return replace(read_device(device), scope=scope or GLOBAL)


def as_data(
    problem: Problem, plan: Plan, evidence: Evidence, seconds: float, request: Request, reached: bool
) -> dict[str, Any]:
    """What the command says, as data."""
    pools: list[dict[str, Any]] = []
    for p in problem.pools:
        inside = [b for b in problem.buffers if plan.places[b.name].pool == p.name]
        size, bound = _bytes(plan, p.name), lower_bound(inside)
        pools.append({"name": p.name, "limit": p.limit, "buffers": len(inside), "bytes": size, "lower_bound": bound})
        pools[-1]["ratio"] = round(size / bound, 4) if bound else 1.0
    return {
        "file": str(request.file),
        "planner": plan.planner or request.planner,
        "seconds": round(seconds, 3),
        "seed": request.seed,
        "buffers": len(problem.buffers),
        "pools": pools,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "capacity": request.capacity,
        "reached": reached,
        "how": evidence.how,
        "holds": evidence.holds,
        "detail": evidence.detail,
        "places": {
            b.name: {"pool": p.pool, "offset": p.offset} for b in problem.buffers for p in [plan.places[b.name]]
        },
    }


def lines(data: dict[str, Any], evidence: Evidence, request: Request) -> Iterator[str]:
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


def _bytes(plan: Plan, pool: str) -> int:
    size = plan.sizes.get(pool, 0)
    assert isinstance(size, int)
    return size


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
