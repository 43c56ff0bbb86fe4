"""`assay run --kernels`: a program as tensor functions, each run in the way that is chosen for it (specs/verify.md,
"Kernels for unknown sizes").

The program is run any number of times, at the sizes of a stream, by any number of threads; what became of its kernels
is a table. Inputs, and sizes that nobody gives, are those of a run by the definition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from assay.interp.binding import hidden_symbols
from assay.interp.graph import evaluate
from assay.interp.values import Event, Externs, Value
from assay.lower.c.single import symbols_of_kernel
from assay.lower.frontends.onnx.model import load_model
from assay.semantics.digits import is_size
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.types import symbols
from assay.verify.api.run import ran
from assay.verify.app.program_run import ProgramRun
from assay.verify.app.stages import lowering_passes
from assay.verify.border.inputs import import_with, load_npz
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.dispatch.choice import Choices, parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.kernel_options import KernelOptions
from assay.verify.dispatch.objects import KernelCompiler
from assay.verify.dispatch.program import DispatchedProgram, called_functions
from assay.verify.dispatch.store import KernelStore

Array = np.ndarray[Any, Any]
MOST_RUNS = 1_000_000
MOST_THREADS = 256


@dataclass
class KernelRun:
    """What a run with `--kernels` showed: the runs of the stream in order, and what became of the kernels."""

    program: DispatchedProgram
    choices: Choices
    runs: list[ProgramRun] = field(default_factory=list)
    seconds: float = 0.0
    """What all runs took, with compiling, without the runs by the definition."""

    @property
    def trap(self) -> Trap | None:
        """What ended a run, if something did."""
        return next((r.trap for r in self.runs if r.trap is not None), None)


def run_kernels(
    program: Module | Path, inputs: Sequence[Path], how: Mapping[str, Any], options: KernelOptions
) -> KernelRun:
    """Run a module, or an ONNX model, with its kernels dispatched. `how` is what `ran` takes. Invalid: an option, the
    program or an input cannot be used. KernelDiffers: a kernel does something else than its tensor function."""
    choices = parse_choices(options.kernels or "")
    _check(options)
    points = [ran(program, given, **at) for given, at in _points(inputs, how, options)]
    first = next((p for p in points if p.trap is not None), None)
    dispatcher = Dispatcher(
        choices, KernelCompiler(KernelStore(options.store) if options.store else None), options.cache
    )
    dispatcher.horizon.total = len(points) * options.repeat
    files = [c.file for c in choices.entries if c.file is not None]
    for file in files:
        dispatcher.recording.read(file)
    lowered = _lowered(_module(program, inputs, how), choices)
    made = KernelRun(DispatchedProgram(lowered, dispatcher), choices)
    _require_use(choices, lowered)
    if first is not None:  # it traps by the definition
        made.runs = [first]
        return made
    started = time.perf_counter()
    for turn in range(options.repeat):
        if turn == 1 and choices.uses("recorded"):
            dispatcher.recording.turn()
        if turn < 2:
            made.program.beforehand()
        made.runs = _turn(made.program, points, how.get("externs") or {}, options.threads)
        if made.trap is not None:
            break
    made.seconds = time.perf_counter() - started
    for file in files:
        dispatcher.recording.write(file)
    return made


def _check(options: KernelOptions) -> None:
    limits = (("--repeat", options.repeat, MOST_RUNS), ("--threads", options.threads, MOST_THREADS))
    for name, number, most in (*limits, ("--kernel-cache", options.cache, 1 << 20)):
        if not 1 <= number <= most:
            raise Invalid(f"{name} {number}: a number from 1 to {most} is wanted", label="kernels.C1")


def _points(
    inputs: Sequence[Path], how: Mapping[str, Any], options: KernelOptions
) -> Iterator[tuple[Mapping[str, Array] | None, dict[str, Any]]]:
    """The inputs of each run of the stream: each file at each choice of sizes."""
    sizes = _stream(options.stream)
    twice = sorted(set(how["dims"]) & set(sizes[0]))
    if twice:
        raise Invalid(f"--dim and --stream both say {', '.join(twice)}", label="kernels.C1")
    count = max(len(inputs), 1) * len(sizes)
    if options.is_written and count > 1:
        raise Invalid(f"--output keeps the results of one run, and these are {count}", label="kernels.C1")
    for path, chosen in product(inputs or (None,), sizes):
        given = load_npz(path) if path is not None else None
        yield given, {**how, "dims": {**how["dims"], **chosen}}


def _stream(stream: Sequence[str]) -> list[dict[str, int]]:
    """Choices of sizes: NAME=N,N,..., those of several names side by side."""
    found: dict[str, list[int]] = {}
    for text in stream:
        name, _, numbers = text.rpartition("=")
        values = numbers.split(",")
        if not name or name in found or not all(is_size(v) for v in values):
            raise Invalid(f"--stream {text!r}: NAME=N,N,... is wanted, each name once", label="kernels.C1")
        found[name] = [int(v) for v in values]
    if len({len(v) for v in found.values()}) > 1:
        raise Invalid(
            "--stream: the sizes of several names stand side by side, so they are as many", label="kernels.C1"
        )
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)] if found else [{}]


def _module(program: Module | Path, inputs: Sequence[Path], how: Mapping[str, Any]) -> Module:
    """The program for all sizes. Where a shape follows from values of inputs these are given, and asserted."""
    if isinstance(program, Module):
        if how.get("function") is not None:
            raise Invalid("--kernels runs main: --function does not go with it", label="cli.C3")
        return program
    given = load_npz(inputs[0]) if inputs else {}
    found = with_given_defaults(load_model(program), given, how["dims"])
    plain = {"model": found.model, "evaluate": evaluate, "source": program.name}
    try:
        return import_with({}, dims={}, **plain)
    except Invalid:
        return import_with(found.inputs, dims=how["dims"], **plain)


def _lowered(module: Module, choices: Choices) -> Module:
    """The module as tensor functions. Groups of them are fused, but where a library is asked for, which knows single
    operators. Bytecode is lowered."""
    if module.is_bytecode:
        return module
    for name, run in lowering_passes().items():
        if name in ("devices", "anf", "legalize") or (name == "fuse" and not choices.uses("library")):
            module = run(module)
    return module.resolved()


def _require_use(choices: Choices, lowered: Module) -> None:
    """Invalid (kernels.C1): an entry is for no function, or it names a size that nothing has."""
    functions = called_functions(lowered)
    for idle in choices.idle(functions.values()):
        there = ", ".join(functions) or "none"
        raise Invalid(
            f"--kernels {choices}: {idle.entry} is for no function that an entry before it does not take;"
            f" the functions are {there}",
            label="kernels.C1",
        )
    known = {v.name for f in functions.values() for v in (*symbols_of_kernel(f), *hidden_symbols(f))}
    if not lowered.is_bytecode:
        known |= {s.name for p in lowered.main.params for s in symbols(p.type)}
    for name in (n for c in choices.entries for n, _ in c.sizes if n not in known):
        there = ", ".join(sorted(known)) or "none"
        raise Invalid(f"--kernels {choices}: no size is called {name}; there are {there}", label="kernels.C1")


def _turn(program: DispatchedProgram, points: Sequence[ProgramRun], externs: Externs, threads: int) -> list[ProgramRun]:
    """One run of the stream."""

    def run(point: ProgramRun) -> ProgramRun:
        trace: list[Event] = []
        results: Mapping[str, Value] = {}
        trap: Trap | None = None
        try:
            results = program.run(point.inputs, externs, trace)
        except Trap as ended:
            trap = ended
        return replace(point, trace=trace, results=results, trap=trap)

    if threads == 1:
        return [run(p) for p in points]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, points))
