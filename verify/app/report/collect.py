"""From a run of `assay check` to the data of its report (specs/verify.md).

Writers and readers come from the steps, not from what the planner says of a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.lower.c.convention import device_name
from assay.lower.liveness.kills import kills
from assay.lower.liveness.used_memory import used_memory
from assay.lower.memory.symbolic import nominal
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.instance import at, is_symbolic, run_bounds, symbols_of
from assay.semantics.memory import Interval, arrangements, lower_bound, pressure
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim, show as show_dim
from assay.semantics.steps import Assertion, Branch, Continue, Item, Loop, Measure, PrintValues, Require, title
from assay.verify.app.check import Line
from assay.verify.app.judging import JudgedOutputs
from assay.verify.app.report.model import Buffer, CheckReport, JudgedLine, Kind, PoolLine, StageLine, StepLine
from assay.verify.app.report.program_graph import program_graph
from assay.verify.app.report.refuted import refutation
from assay.verify.backends import Subject
from assay.verify.judge.outcome import GRAVEST
from assay.verify.judge.pieces import Dataflow
from assay.verify.pool import as_problem

PLANNED = ("pool", "liveness")
"""The stages that make a program, the last first."""


MOST_TEXT = 40_000
"""How many characters of a text for a solver a report has; a certificate has all of them."""


def collect(
    model: str,
    seed: int,
    lines: Iterable[Line],
    modules: Mapping[str, Module],
    queries: Mapping[str, str] | None = None,
    judged: Sequence[JudgedLine] = (),
) -> CheckReport:
    """The report of a run: its lines, the modules of its stages, the texts that a solver decided, and all that is said
    of who was judged."""
    lines = list(lines)
    stages = tuple(
        StageLine(
            x.stage,
            x.did,
            x.evidence.word,
            x.evidence.holds,
            x.evidence.detail,
            x.seconds,
            questions_of(x.stage, queries or {}),
            x.evidence.data,
            x.evidence.outcome,
        )  # fmt: skip
        for x in lines
    )
    stage = next((s for s in PLANNED if s in modules), None)
    known = next((x.evidence.data for x in lines if x.stage == "legalize"), {})
    report = CheckReport(model, seed, stages, graph=program_graph(modules, known), judged=tuple(judged))
    if stage is None:
        return report
    failed = report.failed
    wrong = failed is not None and failed.name in PLANNED
    said = next((x.evidence for x in lines if x.evidence.holds is False), None) if wrong else None
    program, sizes = shown_at(modules[stage].program, {} if said is None else said.data)
    report = of_program(replace(report, at=sizes), program)
    return report if said is None else replace(report, refutation=refutation(report, said))


def judged_lines(judged: Iterable[JudgedOutputs]) -> list[JudgedLine]:
    """All that was told of those who were judged, a line each; at several choices of sizes these are its sets of
    inputs, by their sizes."""
    found: list[JudgedLine] = []
    for who in judged:
        told = who.told or []
        several = len(told) > 1
        samples = [
            replace(s, sample=f"{s.sample} {_sizes(subject)}".strip() if several else s.sample)
            for verdict, subject in told
            for s in verdict.samples
        ]
        if told:
            verdict, subject = max(told, key=lambda t: -GRAVEST.index(t[0].outcome))
            merged = replace(verdict, name=who.name, samples=samples)
            found.append(JudgedLine(merged, None if subject is None else Dataflow(subject.model)))
    return found


def _sizes(subject: Subject | None) -> str:
    sizes = {} if subject is None else subject.dims
    return f"at {', '.join(f'{name} = {n}' for name, n in sizes.items())}" if sizes else ""


def questions_of(stage: str, queries: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The texts that are about a stage, those of its kernels too, each of bounded length."""
    found = [(about, text) for about, text in queries.items() if about == stage or about.startswith(f"{stage}-")]
    return tuple((about, _bounded(text)) for about, text in found)


def _bounded(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    half, left = MOST_TEXT // 2, len(text) - MOST_TEXT
    return f"{text[:half]}\n; {left:,} characters are left out: assay build keeps them\n{text[-half:]}"


def shown_at(program: Program, fault: Mapping[str, Any]) -> tuple[Program, dict[str, int]]:
    """A program in numbers, and the values of its symbols there: those at which a fault is, in the arrangement that has
    it; else the greatest, where there is none 128 or more."""
    if not is_symbolic(program):
        return program, {}
    if program.plan is not None and program.plan.others and "arrangement" in fault:
        program = replace(program, plan=arrangements(program.plan)[fault["arrangement"]])
    symbols, dims = symbols_of(program), fault.get("dims", {})
    sizes = {v: dims.get(v.name, n) for v, n in nominal(symbols, run_bounds(program)).items()}
    return at(program, sizes), {v.name: n for v, n in sizes.items()}


def of_program(report: CheckReport, program: Program) -> CheckReport:
    """A report with all that is said of a program."""
    numbers = {name: i for i, name in enumerate(program.slots)}
    starts = program.positions
    used = used_memory(program)
    ends = tuple((*edge, names) for edge, names in kills(program).items())
    steps = tuple(_step(i, s, starts[i], numbers, used.steps[i]) for i, s in enumerate(program.steps))
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    scratch: set[int] = set()
    for step in steps:
        for number in dict.fromkeys((*step.writes, *step.scratch)):
            writers.setdefault(number, []).append(step.number)
        for number in dict.fromkeys((*step.reads, *step.scratch)):
            readers.setdefault(number, []).append(step.number)
        scratch.update(step.scratch)
    buffers = tuple(
        _buffer(numbers[n], s, program, numbers[n] in scratch, writers.get(numbers[n], []), readers.get(numbers[n], []))
        for n, s in program.slots.items()
    )
    return replace(
        report, positions=starts[-1], steps=steps, buffers=buffers, pools=_pools(program), io=used.io, kills=ends
    )


def _step(index: int, step: Item, position: int, numbers: Mapping[str, int], used: int) -> StepLine:
    def those(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(numbers[n] for n in names if n in numbers)

    arms: tuple[Interval, ...] = ()
    if isinstance(step, Branch):
        calls, device, arms = f"if {step.condition}", "", ((index + 1, step.then), (step.then, step.end))
    elif isinstance(step, Assertion):
        calls, device = f"assert {', '.join(f'{_dim(a)} = {_dim(b)}' for a, b in step.sizes)}", ""
    elif isinstance(step, Measure):
        sizes = zip(step.symbols, step.most, strict=True)
        calls, device = f"measure {', '.join(f'{v.name} up to {_dim(most)}' for v, most in sizes)}", ""
    elif isinstance(step, Require | PrintValues):
        calls, device = title(step), ""
    elif isinstance(step, Loop):
        calls, device = f"loop up to step {step.end}", ""
    elif isinstance(step, Continue):
        calls, device = "the next iteration", ""
    else:
        calls, device = step.kernel, shown_device(step.device)
    return StepLine(
        index, position, calls, place_of(step.span), device, those(step.reads), those(step.writes),
        those(step.scratch), used, arms,
    )  # fmt: skip


def _dim(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else show_dim(dim)


def _buffer(number: int, slot: Slot, program: Program, scratch: bool, writers: list[int], readers: list[int]) -> Buffer:
    kind: Kind = slot.place if slot.place != "workspace" else "scratch" if scratch else "tensor"
    pool = (slot.pool or program.pools[0].name) if slot.is_pooled else ""
    return Buffer(
        number, slot.name, kind, str(slot.type), slot.nbytes, slot.alignment, pool, slot.offset, slot.live,
        slot.producer, tuple(writers), max(readers, default=None), len(readers),
    )  # fmt: skip


def _pools(program: Program) -> tuple[PoolLine, ...]:
    """The pools that hold something, with what is live in each: what an output takes in place counts once."""
    buffers = as_problem(program)[0].buffers
    found: list[PoolLine] = []
    for pool in program.pools:
        inside = [b for b in buffers if b.pools == (pool.name,)]
        if inside:
            live = tuple(pressure(inside))
            found.append(PoolLine(pool.name, program.sizes.get(pool.name), pool.limit, lower_bound(inside), live))
    return tuple(found)


def place_of(span: Span | None) -> str:
    """Where a step comes from, without the name of the model, which all share."""
    if span is None:
        return ""
    return span.place or str(span)


def shown_device(device: VirtualDevice) -> str:
    """A device for people; empty where nothing is said of it."""
    name = device_name(device) + (f":{device.id}" if device.id >= 0 else "")
    return " ".join(part for part in (name, device.scope) if part)
