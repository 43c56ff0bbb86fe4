"""The command line: `assay check`, `run`, `build`, `verify`, `prove`, `plan`, `fuzz` (specs/verify.md, "Command line").

Exit codes: 0 holds, 1 something does not hold (the line says what), 2 the input cannot be used, 3 a fault in Assay;
`prove` adds 4, something is unknown.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assay.interp import graph
from assay.interp.graph import evaluate
from assay.lower.anf import to_anf
from assay.lower.c import Interface, emit
from assay.lower.legalize import legalize
from assay.lower.memory import called
from assay.lower.onnx_import import import_onnx, load_model
from assay.lower.pool import Memory
from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import AssayError, Crash, Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.text.module_text import show as show_module, write_module
from assay.verify import certificate
from assay.verify.backends import backend as find_backend
from assay.verify.backends.isolated import Isolated
from assay.verify.check import Check, Judged, Line, Lowering
from assay.verify.fuzz.command import Request as FuzzRequest, fuzz
from assay.verify.inputs import complete, load, save
from assay.verify.plan_command import Request, parse_constant_pools, parse_pools, plan_file
from assay.verify.reduce.command import reduce_model
from assay.verify.report.collect import collect
from assay.verify.report.write import require_place, write as write_report
from assay.verify.symbolic.command import prove_module
from assay.verify.text_run import TextRun, is_text, lines, load_either, load_externs, load_text, run_text
from assay.verify.tvm import command as tvm_command

PATIENCE = 600.0
"""Seconds that a backend may take for one answer."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Say what a tensor program means, lower it to C, and prove each step.",
)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="an ONNX model, or a module as text: FILE.py (TVMScript) or FILE.relay", show_default=False)]
Dims = Annotated[list[str], typer.Option("--dim", metavar="NAME=N", help="the value of a symbolic dim")]
Inputs = Annotated[Path | None, typer.Option("--inputs", metavar="IN.npz", help="inputs by name; the others are random")]
Seed = Annotated[int, typer.Option("--seed", help="fixes the inputs that are not given, and the checks' random data", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="write the result as JSON")]
Pools = Annotated[str, typer.Option("--pools", metavar="NAME[@MEMORY][=LIMIT],...", help="the pools, the most wanted first; by default one without a limit", show_default=False)]
ConstantPools = Annotated[str, typer.Option("--constant-pools", metavar="NAME[@WHERE][=LIMIT],...", help="the memories for constants, the most wanted first; by default one table", show_default=False)]
Planner = Annotated[str, typer.Option("--planner", help="greedy-size, greedy-conflicts, first-fit, hill-climb or exact")]
Devices = Annotated[list[str], typer.Option("--on", metavar="DEVICE", help="a device that there is, such as cpu, cuda:1 or cuda=cuda -arch=sm_80; the first is where all runs that need not run elsewhere")]
Host = Annotated[str, typer.Option("--host", metavar="DEVICE", help="the device on which shapes and decisions are; by default the only cpu", show_default=False)]
InPools = Annotated[bool, typer.Option("--io-in-pools", help="inputs and outputs lie in the pools too")]


@app.command()
def check(
    model: Model,
    backend: Annotated[list[str], typer.Option("--backend", help="also judge this backend: onnxruntime, tvm, torch, reference or another; see specs/verify.md")] = [],
    expected: Annotated[Path | None, typer.Option("--expected", metavar="OUT.npz", help="also judge these outputs")] = None,
    inputs: Inputs = None,
    dim: Dims = [],
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    on: Devices = [],
    host: Host = "",
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option("--report", metavar="DIR", help="write a page with the stages and the memory map, DIR/index.html")] = None,
    per_pass: Annotated[bool, typer.Option("--per-pass", help="with --backend tvm: judge TVM's module after each of its passes, instead")] = False,
    per_kernel: Annotated[bool, typer.Option("--per-kernel", help="with --backend tvm: judge each call of a kernel by TVM's machine, instead")] = False,
    as_json: AsJson = False,
) -> None:
    """Lower MODEL to C stage by stage, check every stage, prove the memory plan, run and compare."""
    if per_pass or per_kernel:
        request = tvm_command.Request(model, per_pass, per_kernel, load(inputs) if inputs else {}, parse_dims(dim), seed)
        raise typer.Exit(tvm_command.inside(request, backend, Console(), as_json))
    if report is not None:
        require_place(report)
    for name in backend:
        find_backend(name)
    devices = devices_of(on, host)
    proto = load_either(model)
    judged = [Judged("expected", outputs=load(expected))] if expected else []
    judged += [Judged(name, None if isinstance(proto, Module) else proto, backend=Isolated(name, PATIENCE)) for name in backend]
    lowering = Lowering(proto, c_name(model), parse_dims(dim), source=model.name, memory=memory_of(pools, planner, io_in_pools, constant_pools), config=devices)
    run = Check(lowering, load(inputs) if inputs else {}, seed, judged)
    lines, holds = show(run.lines(), run, as_json, str(model), seed)
    if report is not None:
        write_report(report, collect(model.name, seed, lines, run.modules))
    raise typer.Exit(0 if holds else 1)


@app.command()
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="an ONNX model, or a module as text: FILE.py (TVMScript) or FILE.relay", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="where the outputs go, OUT.npz; with --text, the text", show_default=False)] = None,
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    function: Annotated[str | None, typer.Option("--function", help="a text: the function to run; main, or the only one")] = None,
    module_name: Annotated[str | None, typer.Option("--module", help="FILE.py: the module, where there are several")] = None,
    extern: Annotated[list[str], typer.Option("--extern", metavar="[NAME=]MODULE:FUNCTION", help="a text: a Python function for an extern; its module is imported")] = [],
    as_text: Annotated[bool, typer.Option("--text", help="a text: write the module as TVMScript, to OUT if given, with large constants beside it; do not run it")] = False,
) -> None:
    """Evaluate MODEL by the definition of its operators. A module as text also shows its values and effects."""
    given = load(inputs) if inputs else {}
    if is_text(model):
        if as_text:
            if inputs is not None or dim or extern or function is not None:
                raise Invalid("--text writes the whole module and runs nothing: of the other options, only --module and --output go with it", label="cli.C3")
            module = load_text(model, module_name)
            if output is not None:
                write_module(module, output)
            else:
                sys.stdout.write(show_module(module))
            return
        show_text_run(run_text(load_text(model, module_name), function, given, seed, parse_dims(dim), load_externs(extern)), output)
        return
    if function is not None or module_name is not None or as_text or extern:
        raise Invalid("--function, --module, --extern and --text are for a module as text, FILE.py or FILE.relay", label="cli.C3")
    if output is None:
        raise Invalid("where do the outputs go? Give --output OUT.npz", label="cli.C3")
    module = import_onnx(load_model(model), evaluate=evaluate, dims=parse_dims(dim), source=model.name)
    results = graph.run(module, complete(module.main, given, seed))
    save(output, results)
    for name, value in results.items():
        Console().print(f"{name}: Tensor({tuple(value.shape)}, {value.dtype})", markup=False, highlight=False)


@app.command()
def build(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="where the C text and the certificate go", show_default=False)],
    inputs: Inputs = None,
    dim: Dims = [],
    interface: Annotated[Interface, typer.Option("--interface", help="how the C entry and its kernels are called")] = Interface.UNPACKED,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="where steps run that name no device; its hooks are called", show_default=False)] = "",
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    on: Devices = [],
    host: Host = "",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check MODEL and, if every line holds, write its C text and the certificate to DIR."""
    certificate.require_writable(output)
    devices = devices_of(on, host)
    if devices is not None and device:
        raise Invalid("--device is for steps that name no device; with --on each of them names one", label="cli.C3")
    proto = load_either(model)
    emitter = partial(emit, interface=interface, device=device)
    lowering = Lowering(proto, c_name(model), parse_dims(dim), emitter=emitter, source=model.name, memory=memory_of(pools, planner, io_in_pools, constant_pools), config=devices)
    run = Check(lowering, load(inputs) if inputs else {}, seed)
    lines, holds = show(run.lines(), run, as_json, str(model), seed)
    if holds:
        certificate.write(output, run, lines, c_name(model))
    raise typer.Exit(0 if holds else 1)


@app.command()
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a directory that assay build made", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check a certificate again, from nothing but the directory."""
    stored = certificate.Stored(directory)
    run = Check(stored, stored.inputs(), stored.seed)
    _, holds = show(certificate.lines(stored, run), run, as_json, str(directory), stored.seed)
    raise typer.Exit(0 if holds else 1)


@app.command()
def prove(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a module as text, FILE.py, or MODEL.onnx: its kernels", show_default=False)],
    function: Annotated[str | None, typer.Option("--function", help="the tensor function; else all of them")] = None,
    bound: Annotated[list[str], typer.Option("--bound", metavar="NAME=LEAST..MOST", help="the values of a size, such as n=1..")] = [],
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="where the queries are kept", show_default=False)] = None,
    dim: Dims = [],
) -> None:
    """Prove tensor functions of FILE for all sizes: bounds, races, initialisation. Exit code 4: something is unknown."""
    if is_text(file):
        if dim:
            raise Invalid("--dim is for MODEL.onnx; what is known of the sizes of a text is said by --bound", label="cli.C3")
        module = load_text(file)
    else:
        module = legalize(to_anf(import_onnx(load_model(file), evaluate=evaluate, dims=parse_dims(dim), source=file.name)))
    raise typer.Exit(prove_module(module, function, bound, out, Console()))


@app.command("reduce")
def reduce_(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="an ONNX model", show_default=False)],
    backend: Annotated[str, typer.Option("--backend", help="who is wrong on it", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="where the test goes", show_default=False)],
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="after how many attempts to stop", min=1)] = 5_000,
) -> None:
    """Find a smaller model on which a backend is still wrong, and write it as a test. Exit code 1: it is wrong."""
    find_backend(backend)
    given = load(inputs) if inputs else {}
    raise typer.Exit(reduce_model(load_model(model), Isolated(backend, PATIENCE), given, parse_dims(dim), seed, limit, output, Console()))


@app.command("plan")
def plan_buffers(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="buffers: id, lower, upper, size; and alignment, gaps, offset, pool", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT.csv", help="where the offsets go", show_default=False)] = None,
    capacity: Annotated[int | None, typer.Option("--capacity", metavar="N", help="the bytes that the first pool may need; exit code 1 if it needs more", show_default=False)] = None,
    pools: Pools = "",
    planner: Planner = "exact",
    alignment: Annotated[int, typer.Option("--alignment", metavar="N", help="every offset is a multiple of it")] = 1,
    time_limit: Annotated[float, typer.Option("--time-limit", metavar="S", help="seconds after which the best plan so far is taken")] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="fixes what is random", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="MAP.svg", help="where a picture of the plan goes", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Place the buffers of FILE.csv in memory, and prove the plan."""
    request = Request(file, output, capacity, pools, planner, alignment, time_limit, seed, plot)
    raise typer.Exit(plan_file(request, Console(), as_json))


@app.command("fuzz")
def fuzz_backend(
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="who is judged: a backend, or passes (our stages, each by its check) or values (the operators' own values)", show_default=False)],
    operators: Annotated[str, typer.Option("--operators", metavar="NAME,...", help="the operators that are called, such as nn.*,add; by default all", show_default=False)] = "",
    features: Annotated[str | None, typer.Option("--features", metavar="NAME,...", help="what else programs may have: branches, names, symbolic, functions, recursion, named_constants; by default all", show_default=False)] = None,
    size: Annotated[int, typer.Option("--size", metavar="N", help="about how many nodes a program may have")] = 10,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="when to end; by default after 60, unless --examples is given", show_default=False)] = None,
    examples: Annotated[int | None, typer.Option("--examples", metavar="N", help="how many examples", show_default=False)] = None,
    seed: Seed = 0,
    corpus: Annotated[Path | None, typer.Option("--corpus", metavar="DIR", help="where failures are kept, and how far the campaign is: the next run goes on there", show_default=False)] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", help="worker processes; by default one for each core", show_default=False)] = None,
    patience: Annotated[float, typer.Option("--patience", metavar="S", help="how long one example may take")] = 60.0,
    cluster: Annotated[str, typer.Option("--cluster", metavar="ADDRESS", help="the scheduler of a Dask cluster to run on, such as tcp://host:8786", show_default=False)] = "",
    replay: Annotated[bool, typer.Option("--replay", help="judge the failures of --corpus again, and make no new examples")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge random programs without end, and keep those that fail, made simple."""
    request = FuzzRequest(backend, operators, features, size, seconds, examples, seed, corpus, jobs, patience, cluster, replay)
    raise typer.Exit(fuzz(request, Console(), as_json))


def show_text_run(done: TextRun, output: Path | None) -> None:
    """Print inputs, effects and results; a trap is raised after what came before it."""
    for line in lines(done):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)
    if done.trap is not None:
        raise done.trap
    if output is not None:
        save(output, {n: v for n, v in done.results.items() if isinstance(v, np.ndarray)})


def parse_dims(given: Iterable[str]) -> dict[str, int]:
    """`NAME=N` options as a mapping."""
    dims: dict[str, int] = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if not equals or not name or not number.isdecimal():
            raise Invalid(f"--dim takes NAME=N, such as N=4, not {text!r}", label="cli.C1")
        dims[name] = int(number)
    return dims


def memory_of(pools: str, planner: str, io: bool, constants: str = "") -> Memory:
    """What there is to plan with."""
    called(planner)  # before anything long begins
    memories = (*(parse_pools(pools) if pools else ()), *(parse_constant_pools(constants) if constants else ()))
    return Memory(memories, planner, io)


def devices_of(on: list[str], host: str) -> CompilationConfig | None:
    """What there is to compile for; None where nothing is said."""
    if not on and host:
        raise Invalid("--host goes with --on: name the devices, the first as --on", label="cli.C3")
    return CompilationConfig.read(on, host or None, on[0]) if on else None


def c_name(model: Path) -> str:
    """The prefix of the C symbols: the model's file name as an identifier."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.stem).strip("_")
    return name if name and not name[0].isdigit() else f"model_{name}"


# --- showing -----------------------------------------------------------------------------------------------------


def show(lines: Iterable[Line], run: Check, as_json: bool, what: str, seed: int) -> tuple[list[Line], bool]:
    """Print the table line by line as it comes (or as JSON at the end); the lines, and whether all hold."""
    out = Console(stderr=as_json)
    done: list[Line] = []
    with progress(run):
        for line in lines:
            done.append(line)
            if not as_json:
                print_line(out, line)
    holds = all(line.evidence.holds for line in done)
    if as_json:
        data = {"model": what, "seed": seed, "holds": holds, "lines": [line.as_data() for line in done]}
        json.dump(data, sys.stdout, indent=1)
        sys.stdout.write("\n")
    return done, holds


def print_line(out: Console, line: Line) -> None:
    """One line of the table: stage, verdict, time, what was done and what was shown."""
    good = line.evidence.holds
    said = "; ".join(part for part in (line.did, line.evidence.detail) if part)
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=11, style="bold")
    row.add_column(width=7, style="green" if good else "bold red")
    row.add_column(width=8, justify="right", style="dim")
    row.add_column(overflow="fold")
    row.add_row(Text(line.stage), line.evidence.how if good else "FAILS", f"{line.seconds:.2f} s", Text(said))
    out.print(row)


@contextmanager
def progress(run: Check) -> Iterator[None]:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status("starting") as status:

        def tell(stage: str, done: int, total: int) -> None:
            status.update(escape(f"{stage} {done}/{total}" if total else stage))

        run.progress = tell
        yield


def main() -> None:
    """Run the command line; whatever a person can cause gets one line and no traceback."""
    error = Console(stderr=True)

    def fail(text: str, code: int) -> None:
        error.print(text, markup=False, highlight=False, soft_wrap=True)
        sys.exit(code)

    try:
        app()
    except Crash as wrong:
        fail(f"assay: this is a fault in Assay, please report it: {wrong}", 3)
    except Trap as wrong:
        fail(f"assay: {wrong}", 2 if wrong.kind == "memory" else 1)
    except AssayError as wrong:
        fail(f"assay: {wrong}", 2)
    except MemoryError:
        fail("assay: not enough memory", 2)
    except Exception as wrong:  # noqa: BLE001  the last resort: a person gets a line, not a traceback
        frame = traceback.extract_tb(wrong.__traceback__)[-1]
        at = f"{Path(frame.filename).name}:{frame.lineno}"
        fail(f"assay: this is a fault in Assay, please report it: {type(wrong).__name__} at {at}: {wrong}", 3)
    except KeyboardInterrupt:
        fail("assay: interrupted", 130)
