"""`assay.plan`: offsets for buffers, proved (specs/verify.md, "From Python" and "Memory plans")."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path

from assay.lower.memory import Progress, plan as make_plan
from assay.lower.memory.csv import MOST, BufferTable, read_table, short, table_of
from assay.lower.memory.symbolic import nominal
from assay.semantics.deadline import Deadline, Late
from assay.semantics.errors import BudgetSpent, Invalid
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem, lower_bound
from assay.semantics.scalar import evaluate_dim
from assay.verify.app.pools import parse_pools
from assay.verify.app.spending import require_seconds
from assay.verify.border.files import replace_text
from assay.verify.evidence import Evidence, plural
from assay.verify.exits import Exit, gravest

PLANNING = 0.75
"""The share of the time in which the planner must end, so that there is some left for the proof."""


@dataclass(frozen=True, repr=False)
class MemoryPlan:
    """A plan and what is known of it. Where sizes have symbols, `problem` and `plan` have them too, and `numbers` has
    both at one choice of values; else it has just these two.

    >>> planned = assay.plan("buffers.csv", capacity=256)
    >>> planned
    <MemoryPlan: 3 buffers, workspace of 192 bytes; z3: no two of 3 live buffers share a byte; 6 goals in 1 pool>
    >>> planned.holds, planned.plan.places["b"].offset
    (True, 64)
    """

    problem: Problem
    plan: Plan
    evidence: Evidence
    """Whether no two live buffers share a byte and every limit is kept; `evidence.detail` says how it is known."""
    reached: bool
    """Whether the first pool needs no more than the capacity, if one was given."""
    seconds: float
    numbers: tuple[Problem, Plan]
    table: BufferTable

    @property
    def holds(self) -> bool | None:
        """True: proved, and the capacity is reached. False: refuted, or not reached. None: not known."""
        return self.evidence.holds if self.reached else False

    @property
    def exit(self) -> Exit:
        """The exit code of a command that made only this."""
        return gravest([self.evidence.exit, Exit.HOLDS if self.reached else Exit.WRONG])

    def write(self, path: str | Path) -> None:
        """Write the buffers and their offsets as CSV, a column for each arrangement. Invalid (output.C1): it cannot be
        written."""
        replace_text(Path(path), self.table.written(self.plan, several=len(self.problem.pools) > 1))

    def draw(self, path: str | Path) -> None:
        """Write a picture of the plan as SVG, bytes over time. Invalid (output.C1): it cannot be written."""
        from assay.verify.app.report.maps import plan_picture

        replace_text(Path(path), plan_picture(*self.numbers))

    def __repr__(self) -> str:
        """The pools and what is known of them."""
        pools = ", ".join(f"{pool} of {size} bytes" for pool, size in self.plan.sizes.items())
        missed = "" if self.reached else ", more than the capacity"
        buffers = plural(len(self.problem.buffers), "buffer")
        return f"<MemoryPlan: {buffers}, {pools}{missed}; {self.evidence.detail or self.evidence.how}>"

    def _repr_html_(self) -> str:
        """What is known of the plan, and its picture, in a notebook."""
        from assay.verify.api.notebook import plan_html

        return plan_html(*self.numbers, self.evidence, self.reached)


def plan(
    buffers: str | Path | Iterable[BufferInfo],
    *,
    capacity: int | None = None,
    pools: str = "",
    planner: str = "exact",
    alignment: int = 1,
    time_limit: float = 60.0,
    seed: int = 0,
    bounds: Mapping[str, tuple[int | None, int | None]] | None = None,
    progress: Progress | None = None,
) -> MemoryPlan:
    """Place buffers in memory, and prove the plan by z3. Offsets and sizes are in bytes.

    `buffers` is a CSV file with the columns id, lower, upper, size (specs/lower.md, "memory"), or buffers. `pools` is
    `NAME[@MEMORY][=LIMIT],...`, the most wanted first; without it there is one pool, `workspace`. With `bounds`, such
    as {"n": (1, 64)}, sizes in the file may be expressions of these symbols, and all is said for every value of them.
    `time_limit` is that of all of it, in seconds. `progress` is told in words how far the planner is.

    Invalid: the buffers or options cannot be used, or nothing fits. BudgetSpent: the time is up before there is a plan.

    >>> assay.plan("buffers.csv").plan.sizes
    {'workspace': 192}
    """
    require_seconds("--time-limit", time_limit)
    deadline = Deadline(time_limit)
    if bounds:
        from assay.verify.app.plan_symbols import bounds_of, prove_for_all, require_values, symbolic_plan

        symbols = bounds_of(bounds)
    else:
        symbols = {}
    where = str(buffers) if isinstance(buffers, str | Path) else ""
    try:
        if isinstance(buffers, str | Path):
            table = read_table(Path(buffers), deadline, {v.name: v for v in symbols})
        else:
            table = table_of(buffers)
        if symbols:
            require_values(table, symbols, deadline)
        problem = _problem_of(table, pools, capacity, alignment, bool(symbols), deadline)
        problem = replace(problem, bounds=symbols)
    except Late:
        what = f"the {time_limit:g} seconds of --time-limit were up before the buffers were read; give it more time"
        raise BudgetSpent(what, where=where, label="memory.C9") from None
    start = time.perf_counter()
    until = deadline.share(PLANNING)

    def planned(of: Problem) -> Plan:
        return make_plan(of, planner, seed=seed, deadline=until, capacity=capacity, progress=progress)

    made = symbolic_plan(table, problem, planned, until) if symbols else planned(problem)
    seconds = time.perf_counter() - start
    if symbols:
        from assay.verify.memory.definition import in_numbers

        evidence, reached = prove_for_all(problem, made, capacity, deadline)
        at = nominal(symbols, symbols)
        numbers = in_numbers(problem, made, lambda dim: evaluate_dim(dim, at))
    else:
        from assay.verify.memory import prove_plan  # with z3, which a file that cannot be used need not wait for

        evidence, numbers = prove_plan(problem, made, deadline).evidence, (problem, made)
        reached = capacity is None or size_of(made, problem.pools[0].name) <= capacity
    return MemoryPlan(problem, made, evidence, reached, seconds, numbers, table)


def size_of(made: Plan, pool: str) -> int:
    """The bytes of a pool of a plan in numbers."""
    size = made.sizes.get(pool, 0)
    assert isinstance(size, int)
    return size


def _problem_of(
    table: BufferTable, pools: str, capacity: int | None, alignment: int, has_symbols: bool, deadline: Deadline
) -> Problem:
    """The problem of a table in the pools that were asked for, each as aligned as any buffer wants it."""
    if alignment < 1:
        raise Invalid(f"--alignment is {alignment}, and must be 1 or more", label="cli.C5")
    if capacity is not None and capacity < 0:
        raise Invalid(f"--capacity is {capacity}, and must be 0 or more bytes", label="cli.C5")
    for option, value in (("--alignment", alignment), ("--capacity", capacity or 0)):
        if value > MOST:
            raise Invalid(f"{option} is {short(str(value))}, and must be in int64: no more than {MOST}", label="cli.C5")
    buffers = table.buffers
    if alignment > 1:
        buffers = tuple(replace(b, alignment=lcm(b.alignment, alignment)) for b in buffers)
    deadline.check()
    aligned = lcm(64, *(b.alignment for b in buffers))
    if aligned > MOST:
        what = "no address in int64 is a multiple of all alignments: the least multiple of those of the buffers"
        raise Invalid(f"{what}, of --alignment and of 64 is {aligned}", where=table.source, label="csv.C4")
    if not has_symbols and (least := lower_bound(buffers)) > MOST and not pools:
        what = f"{least} bytes are live at once, and sizes must be in int64: no more than {MOST}"
        raise Invalid(what, where=table.source, label="csv.C4")
    given = parse_pools(pools) if pools else (Pool("workspace"),)
    return replace(table, buffers=buffers).problem([replace(p, alignment=aligned) for p in given], deadline)
