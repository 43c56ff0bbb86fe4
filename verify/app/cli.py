"""The command line: `assay check`, `run`, `build`, `verify`, `prove`, `plan`, `fuzz` (specs/verify.md, "Command line").

Exit codes are those of `assay.verify.exits`, in every command.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import onnx
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assay.interp.graph import evaluate
from assay.lower.anf import to_anf
from assay.lower.c import Interface, emit
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.lower.instrument import OPTIONAL
from assay.lower.legalize import legalize
from assay.semantics.digits import is_size
from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid
from assay.semantics.files import SURROUNDINGS
from assay.semantics.module import Module
from assay.semantics.text.module_text import show as show_module, write_module
from assay.verify import children
from assay.verify.app import certificate, signing
from assay.verify.app.answers import answering, unfinished, write_answer, write_failure
from assay.verify.app.check import Check, Line, Lowering
from assay.verify.app.judging import Judged
from assay.verify.app.onnx_run import run_onnx
from assay.verify.app.options import alignment_of, c_name, devices_of, instruments_of, memory_of, stage_of
from assay.verify.app.plan_command import Request, plan_file
from assay.verify.app.report.collect import collect
from assay.verify.app.report.write import require_place, write as write_report
from assay.verify.app.spending import (
    SECONDS,
    Terminated,
    default_memory,
    endings,
    parse_memory,
    parse_seconds,
    spending,
)
from assay.verify.app.terminal import Screen, Stream, cell, streams
from assay.verify.app.text_run import TextRun, is_text, lines, load_either, load_externs, load_text, run_text, save_call
from assay.verify.backends import backend as find_backend
from assay.verify.backends.isolated import Isolated
from assay.verify.border.inputs import all_dims, load, save
from assay.verify.border.onnx_containers import containers, with_tensors_only
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.border.values import from_value, to_arrays
from assay.verify.evidence import holds_all
from assay.verify.exits import Exit, gravest, of_error
from assay.verify.fuzz.command import Request as FuzzRequest, fuzz
from assay.verify.oracle.accepts import EVERYTHING_KEPT
from assay.verify.reduce.command import reduce_model
from assay.verify.symbolic.command import prove_module
from assay.verify.tvm import command as tvm_command

PATIENCE = 600.0
"""Seconds that a backend may take for one answer."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Say what a tensor program means, lower it to C, and prove each step.",
)

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="an ONNX model, or a module as text: FILE.py (TVMScript) or FILE.relay",
        show_default=False,
    ),
]
Dims = Annotated[list[str], typer.Option("--dim", metavar="NAME=N", help="the value of a symbolic dim")]
SizeBounds = Annotated[
    list[str],
    typer.Option("--bound", metavar="NAME=LEAST..MOST", help="the values of a size, such as n=1.. or n=1..64"),
]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="IN.npz", help="inputs by name; the others are random")
]
Seed = Annotated[
    int, typer.Option("--seed", help="fixes the inputs that are not given, and the checks' random data", min=0)
]
AsJson = Annotated[bool, typer.Option("--json", help="write the result as JSON")]
Pools = Annotated[
    str,
    typer.Option(
        "--pools",
        metavar="NAME[@MEMORY][=LIMIT],...",
        help="the pools, the most wanted first; by default one without a limit",
        show_default=False,
    ),
]
ConstantPools = Annotated[
    str,
    typer.Option(
        "--constant-pools",
        metavar="NAME[@WHERE][=LIMIT],...",
        help="the memories for constants, the most wanted first; by default one table",
        show_default=False,
    ),
]
Planner = Annotated[
    str, typer.Option("--planner", help="tokens, greedy-size, greedy-conflicts, first-fit, hill-climb or exact")
]
Devices = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="DEVICE",
        help=(
            "a device that there is, such as cpu, cuda:1 or cuda=cuda -arch=sm_80; the first is where all runs that"
            " need not run elsewhere"
        ),
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="DEVICE",
        help="the device on which shapes and decisions are; by default the only cpu",
        show_default=False,
    ),
]
Alignment = Annotated[
    int | None,
    typer.Option(
        "--alignment",
        metavar="N",
        help=(
            "the bytes to which buffers in pools are aligned, a power of two; by default what their elements need, in a"
            " packed interface 64"
        ),
        show_default=False,
    ),
]
DumpTo = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="write the module after each stage, as text", show_default=False),
]
Skip = Annotated[list[str], typer.Option("--skip", metavar="STAGE", help=f"leave out {' or '.join(OPTIONAL)}")]
InPools = Annotated[bool, typer.Option("--io-in-pools", help="inputs and outputs lie in the pools too")]
MemoryLimit = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="what the run may take, such as 512M or 4G, or none; by default half of what there is",
        show_default=False,
    ),
]
Timeout = Annotated[
    str,
    typer.Option(
        "--timeout", metavar="S", help="the seconds that it may take, or none; by default an hour", show_default=False
    ),
]


def held(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options --memory and --timeout, and held to them."""
    longest = None if command.__name__ == "fuzz_backend" else SECONDS

    @wraps(command)
    def run(*args: Any, memory: str, timeout: str, **options: Any) -> None:
        most = parse_memory(memory) if memory else default_memory()
        seconds = parse_seconds(timeout) if timeout else longest
        with spending(most, seconds, chosen=bool(timeout), last_words=last_words):
            command(*args, **options)

    own = signature(command, eval_str=True)
    more = [
        Parameter(n, Parameter.KEYWORD_ONLY, default="", annotation=a)
        for n, a in (("memory", MemoryLimit), ("timeout", Timeout))
    ]
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own.parameters.values(), *more)}
    return run


@app.command()
@held
def check(
    model: Model,
    backend: Annotated[
        list[str],
        typer.Option(
            "--backend",
            help="also judge this backend: onnxruntime, tvm, torch, reference or another; see specs/verify.md",
        ),
    ] = [],
    expected: Annotated[
        Path | None, typer.Option("--expected", metavar="OUT.npz", help="also judge these outputs")
    ] = None,
    inputs: Inputs = None,
    dim: Dims = [],
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    alignment: Alignment = None,
    on: Devices = [],
    host: Host = "",
    seed: Seed = 0,
    dump: DumpTo = None,
    skip: Skip = [],
    stop_after: Annotated[
        str,
        typer.Option(
            "--stop-after",
            metavar="STAGE",
            help="stop after this line; whom --backend and --expected name is judged all the same",
            show_default=False,
        ),
    ] = "",
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="write a page with the stages and the memory map, DIR/index.html"),
    ] = None,
    exclude: Annotated[
        list[str],
        typer.Option(
            "--exclude",
            metavar="RIGHT",
            help=(
                "a right that nobody who is judged has: kept-wider, to hold tensors of 16 bits in float32 between"
                " operators"
            ),
        ),
    ] = [],
    per_pass: Annotated[
        bool,
        typer.Option("--per-pass", help="with --backend tvm: judge TVM's module after each of its passes, instead"),
    ] = False,
    per_kernel: Annotated[
        bool,
        typer.Option("--per-kernel", help="with --backend tvm: judge each call of a kernel by TVM's machine, instead"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Lower MODEL to C stage by stage, check every stage, prove the memory plan, run and compare."""
    if per_pass or per_kernel:
        request = tvm_command.Request(
            model, per_pass, per_kernel, load(inputs) if inputs else {}, parse_dims(dim), seed
        )
        raise typer.Exit(tvm_command.inside(request, backend, Screen(), as_json))
    EVERYTHING_KEPT.excluding(exclude)  # before anything long begins
    if report is not None:
        require_place(report)
    for name in backend:
        find_backend(name)
    devices = devices_of(on, host)
    proto, given, dims = load_either(model), load(inputs) if inputs else {}, parse_dims(dim)
    held = {} if isinstance(proto, Module) else containers(proto)
    proto, given, defaults, dims = with_inputs(proto, given, dims, seed, model.name)
    named = None if isinstance(proto, Module) else proto
    judged = (
        [Judged("expected", named, dims, outputs=load(expected), containers=held, excluded=exclude)] if expected else []
    )
    judged += [Judged(name, named, dims, backend=Isolated(name, PATIENCE), excluded=exclude) for name in backend]
    lowering = Lowering(
        proto,
        c_name(model),
        dims,
        source=model.name,
        memory=memory_of(pools, planner, io_in_pools, constant_pools, alignment_of(alignment)),
        config=devices,
    )
    run = Check(
        lowering, given, seed, judged, defaults, instruments=instruments_of(dump, skip), stop_after=stage_of(stop_after)
    )

    def page(lines: list[Line]) -> None:
        if report is not None:
            write_report(report, collect(model.name, seed, lines, run.modules))

    raise typer.Exit(show(run.lines(), run, as_json, str(model), seed, page))


@app.command()
@held
def run(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="an ONNX model, or a module as text: FILE.py (TVMScript) or FILE.relay",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="where the outputs go, OUT.npz; with --text, the text",
            show_default=False,
        ),
    ] = None,
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    function: Annotated[
        str | None, typer.Option("--function", help="a text: the function to run; main, or the only one")
    ] = None,
    module_name: Annotated[
        str | None, typer.Option("--module", help="FILE.py: the module, where there are several")
    ] = None,
    extern: Annotated[
        list[str],
        typer.Option(
            "--extern",
            metavar="[NAME=]MODULE:FUNCTION",
            help="a text: a Python function for an extern; its module is imported",
        ),
    ] = [],
    save_as: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="NAME",
            help=(
                "a text: save the call on the inputs given as a function NAME of the module, and write that to OUT; do"
                " not run it"
            ),
            show_default=False,
        ),
    ] = None,
    as_text: Annotated[
        bool,
        typer.Option(
            "--text",
            help=(
                "a text: write the module as TVMScript, to OUT if given, with large constants beside it; do not run it"
            ),
        ),
    ] = False,
) -> None:
    """Evaluate MODEL by the definition of its operators. A module as text also shows its values and effects."""
    given = load(inputs) if inputs else {}
    if is_text(model):
        if save_as is not None:
            if output is None or output.suffix != ".py" or as_text or dim or extern:
                raise Invalid(
                    "--save writes a module and runs nothing: it takes --output OUT.py, --inputs, --function and"
                    " --module",
                    label="cli.C3",
                )
            write_module(save_call(load_text(model, module_name), function, save_as, given), output)
            return
        if as_text:
            if inputs is not None or dim or extern or function is not None:
                raise Invalid(
                    "--text writes the whole module and runs nothing: of the other options, only --module and --output"
                    " go with it",
                    label="cli.C3",
                )
            module = load_text(model, module_name)
            if output is not None:
                write_module(module, output)
            else:
                text = show_module(module)
                if isinstance(sys.stdout, Stream) and not sys.stdout.encodes(text):
                    raise EnvironmentFailure(
                        f"the standard output takes {sys.stdout.encoding}, which has not all characters of this module:"
                        " give --output OUT.py",
                        label="output.C4",
                    )
                sys.stdout.write(text)
            return
        show_text_run(
            run_text(load_text(model, module_name), function, given, seed, parse_dims(dim), load_externs(extern)),
            output,
        )
        return
    if function is not None or module_name is not None or as_text or extern or save_as is not None:
        raise Invalid(
            "--function, --module, --extern, --save and --text are for a module as text, FILE.py or FILE.relay",
            label="cli.C3",
        )
    if output is None:
        raise Invalid("where do the outputs go? Give --output OUT.npz", label="cli.C3")
    dims = parse_dims(dim)
    found = with_given_defaults(load_model(model), given, dims)
    results = run_onnx(found.model, found.inputs, all_dims(found.model, found.inputs, dims), seed, model.name)
    save(output, results)
    for name, value in results.items():
        of = "string" if value.dtype.kind == "O" else value.dtype
        Screen().print(f"{name}: Tensor({tuple(value.shape)}, {of})")


@app.command()
@held
def build(
    model: Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="where the C text and the certificate go", show_default=False
        ),
    ],
    inputs: Inputs = None,
    dim: Dims = [],
    interface: Annotated[
        Interface, typer.Option("--interface", help="how the C entry and its kernels are called")
    ] = Interface.UNPACKED,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="where steps run that name no device; its hooks are called",
            show_default=False,
        ),
    ] = "",
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    alignment: Alignment = None,
    on: Devices = [],
    host: Host = "",
    dump: DumpTo = None,
    skip: Skip = [],
    seed: Seed = 0,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY.pem", help="sign the certificate with this private Ed25519 key", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check MODEL and, if every line holds, write its C text and the certificate to DIR."""
    certificate.require_writable(output)
    devices = devices_of(on, host)
    if devices is not None and device:
        raise Invalid("--device is for steps that name no device; with --on each of them names one", label="cli.C3")
    signer = signing.signer(sign) if sign is not None else None
    proto, bound = certificate.load_bound(model)
    proto, given, defaults, dims = with_inputs(proto, load(inputs) if inputs else {}, parse_dims(dim), seed, model.name)
    bound = replace(bound, defaults=certificate.digests_of_defaults(defaults), dims=dict(sorted(dims.items())))
    emitter = partial(emit, interface=interface, device=device)
    lowering = Lowering(
        proto,
        c_name(model),
        dims,
        emitter=emitter,
        source=model.name,
        memory=memory_of(pools, planner, io_in_pools, constant_pools, alignment_of(alignment, interface)),
        config=devices,
        digest=lambda m: certificate.header_digest(certificate.module_digest(m), bound, seed),
    )
    run = Check(lowering, given, seed, defaults=defaults, instruments=instruments_of(dump, skip))

    def keep(lines: list[Line]) -> None:
        if gravest(line.evidence.exit for line in lines) is Exit.HOLDS:
            certificate.write(output, run, lines, bound, signer)

    raise typer.Exit(show(run.lines(), run, as_json, str(model), seed, keep))


@app.command()
@held
def verify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="a directory that assay build made", show_default=False)
    ],
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="the certificate must be of this model", show_default=False),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="PUB.pem",
            help="it must be signed with the private half of this Ed25519 key",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a certificate again, from nothing but the directory."""
    holds = signing.verifier(key) if key is not None else None
    stored = certificate.Stored(directory)
    run = Check(stored, stored.inputs(), stored.seed, defaults=stored.defaults())
    raise typer.Exit(show(certificate.lines(stored, run, holds, model), run, as_json, str(directory), stored.seed))


@app.command()
@held
def prove(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="a module as text, FILE.py, or MODEL.onnx: its kernels", show_default=False
        ),
    ],
    function: Annotated[str | None, typer.Option("--function", help="the tensor function; else all of them")] = None,
    bound: SizeBounds = [],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="where the queries are kept", show_default=False)
    ] = None,
    dim: Dims = [],
) -> None:
    """Prove tensor functions of FILE for all sizes: bounds, races, initialisation. Exit code 4: something is
    unknown."""
    if is_text(file):
        if dim:
            raise Invalid(
                "--dim is for MODEL.onnx; what is known of the sizes of a text is said by --bound", label="cli.C3"
            )
        module = load_text(file)
    else:
        module = legalize(
            to_anf(import_onnx(load_model(file), evaluate=evaluate, dims=parse_dims(dim), source=file.name))
        )
    raise typer.Exit(prove_module(module, function, bound, out, Screen()))


@app.command("reduce")
@held
def reduce_(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="an ONNX model", show_default=False)],
    backend: Annotated[str, typer.Option("--backend", help="who is wrong on it", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="where the test goes", show_default=False)
    ],
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="after how many attempts to stop", min=1)] = 5_000,
) -> None:
    """Find a smaller model on which a backend is still wrong, and write it as a test. Exit code 1: it is wrong."""
    find_backend(backend)
    proto, given, _, dims = with_inputs(
        load_model(model), load(inputs) if inputs else {}, parse_dims(dim), seed, model.name
    )
    raise typer.Exit(reduce_model(proto, Isolated(backend, PATIENCE), given, dims, seed, limit, output, Screen()))


@app.command("plan")
@held
def plan_buffers(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="buffers: id, lower, upper, size; and alignment, gaps, offset, pool",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.csv", help="where the offsets go", show_default=False)
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(
            "--capacity",
            metavar="N",
            help="the bytes that the first pool may need; exit code 1 if it needs more",
            show_default=False,
        ),
    ] = None,
    bound: SizeBounds = [],
    pools: Pools = "",
    planner: Planner = "exact",
    alignment: Annotated[int, typer.Option("--alignment", metavar="N", help="every offset is a multiple of it")] = 1,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            metavar="S",
            help="seconds that planning and proving may take; the best plan so far is taken",
        ),
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="fixes what is random", min=0)] = 0,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="MAP.svg", help="where a picture of the plan goes", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Place the buffers of FILE.csv in memory, and prove the plan: with --bound, for all sizes."""
    request = Request(file, output, capacity, pools, planner, alignment, time_limit, seed, plot, tuple(bound))
    raise typer.Exit(plan_file(request, Screen(), as_json))


@app.command("fuzz")
@held
def fuzz_backend(
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="NAME",
            help=(
                "who is judged: a backend, or passes (our stages, each by its check) or values (the operators' own"
                " values)"
            ),
            show_default=False,
        ),
    ],
    operators: Annotated[
        str,
        typer.Option(
            "--operators",
            metavar="NAME,...",
            help="the operators that are called, such as nn.*,add; by default all",
            show_default=False,
        ),
    ] = "",
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="NAME,...",
            help=(
                "what else programs may have: branches, names, symbolic, functions, recursion, named_constants; by"
                " default all"
            ),
            show_default=False,
        ),
    ] = None,
    size: Annotated[int, typer.Option("--size", metavar="N", help="about how many nodes a program may have")] = 10,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="S",
            help="when to end; by default after 60, unless --examples is given",
            show_default=False,
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option("--examples", metavar="N", help="how many examples", show_default=False)
    ] = None,
    seed: Seed = 0,
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus",
            metavar="DIR",
            help="where failures are kept, and how far the campaign is: the next run goes on there",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="worker processes; by default one for each core", show_default=False),
    ] = None,
    patience: Annotated[float, typer.Option("--patience", metavar="S", help="how long one example may take")] = 60.0,
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="the scheduler of a Dask cluster to run on, such as tcp://host:8786",
            show_default=False,
        ),
    ] = "",
    replay: Annotated[
        bool, typer.Option("--replay", help="judge the failures of --corpus again, and make no new examples")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge random programs without end, and keep those that fail, made simple."""
    request = FuzzRequest(
        backend, operators, features, size, seconds, examples, seed, corpus, jobs, patience, cluster, replay
    )
    raise typer.Exit(fuzz(request, Screen(), as_json))


def show_text_run(done: TextRun, output: Path | None) -> None:
    """Print inputs, effects and results; a trap is raised after what came before it."""
    for line in lines(done):
        Screen().print(line)
    if done.trap is not None:
        raise done.trap
    if output is not None:
        save(output, to_arrays({n: from_value(v, done.module, f"result {n!r}") for n, v in done.results.items()}))


Program = TypeVar("Program", onnx.ModelProto, Module)


def with_inputs(
    model: Program, given: dict[str, Any], dims: dict[str, int], seed: int, name: str
) -> tuple[Program, dict[str, Any], dict[str, Any], dict[str, int]]:
    """A model with what is given for it: that in place of defaults stands in it, as do sequences and optional values;
    the rest; what stands in place of defaults; and its sizes, those that the inputs have among them."""
    defaults: dict[str, Any] = {}
    if isinstance(model, onnx.ModelProto):
        found = with_given_defaults(model, given, dims)
        defaults = found.defaults
        model, given = with_tensors_only(found.model, found.inputs, dims, seed, name)
    return model, given, defaults, all_dims(model, given, dims)


def parse_dims(given: Iterable[str]) -> dict[str, int]:
    """`NAME=N` options as a mapping."""
    dims: dict[str, int] = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if not equals or not name or not is_size(number):
            raise Invalid(f"--dim takes NAME=N, such as N=4, N below 2^63, not {text!r}", label="cli.C1")
        if name in dims:
            raise Invalid(f"--dim {name} is given twice", label="cli.C1")
        dims[name] = int(number)
    return dims


# --- showing -----------------------------------------------------------------------------------------------------


def show(
    lines: Iterable[Line],
    run: Check,
    as_json: bool,
    what: str,
    seed: int,
    then: Callable[[list[Line]], None] = lambda lines: None,
) -> Exit:
    """Print the table line by line as it comes (or as JSON at the end), and do what comes `then`; the exit code."""
    out = Screen(stderr=as_json)
    done: list[Line] = []
    answer: dict[str, Any] = {"model": what, "seed": seed, "holds": None, "lines": []}
    with answering(answer), progress(run):
        for line in lines:
            done.append(line)
            answer["lines"].append(line.as_data())
            answer["holds"] = holds_all(line.evidence for line in done)
            if not as_json:
                print_line(out, line)
        then(done)
    if as_json:
        write_answer(answer)
    return gravest(line.evidence.exit for line in done)


def print_line(out: Screen, line: Line) -> None:
    """One line of the table: stage, verdict, time, what was done and what was shown."""
    holds = line.evidence.holds
    style = "green" if holds else "bold yellow" if holds is None else "bold red"
    said = "; ".join(part for part in (line.did, line.evidence.detail) if part)
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=11, style="bold")
    row.add_column(width=max(7, len(line.evidence.word)), style=style)
    row.add_column(width=8, justify="right", style="dim")
    row.add_column(overflow="fold")
    row.add_row(Text(line.stage), line.evidence.word, f"{line.seconds:.2f} s", cell(said))
    out.print(row)


@contextmanager
def progress(run: Check) -> Iterator[None]:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status("starting") as status:

        def tell(stage: str, done: int, total: int) -> None:
            status.update(escape(f"{stage} {done}/{total}" if total else stage))

        run.progress = tell
        yield


def main() -> None:
    """Run the command line; whatever a person can cause gets one line and no traceback. With --json standard output has
    one object all the same."""
    code: int | str | None = Exit.HOLDS
    try:
        with streams(), endings():
            try:
                with children.nothing_left():
                    app()
            except SystemExit as done:
                code = done.code
            except (Exception, KeyboardInterrupt, Terminated) as wrong:  # noqa: BLE001  (told, each with its exit code)
                code = fail(wrong)
    except EnvironmentFailure as wrong:
        code = fail(wrong)
    sys.exit(code)


def fail(wrong: BaseException) -> Exit:
    """Say in one line what has ended the command; its exit code."""
    text, code = described_end(wrong)
    if "--json" in sys.argv[1:] and getattr(wrong, "label", "") != "output.C6":
        write_failure(wrong, text, code)
    Screen(stderr=True).print(f"assay: {text}")
    return code


def last_words(wrong: BaseException) -> None:
    """What is said where the process ends at once, with what was found so far."""
    wrong.__dict__.setdefault("answer", unfinished())
    fail(wrong)


def described_end(wrong: BaseException) -> tuple[str, Exit]:
    """What a person is told of what has ended a command, and the exit code."""
    ours = "this is a fault in Assay, please report it"
    match wrong:
        case Crash():
            return f"{ours}: {wrong}", Exit.FAULT
        case AssayError():
            return str(wrong), of_error(wrong)
        case MemoryError():
            return "not enough memory", of_error(wrong)
        case Terminated():
            return f"ended by {wrong}", Exit.TERMINATED
        case KeyboardInterrupt():
            return "interrupted", Exit.INTERRUPTED
        case OSError() if wrong.errno in SURROUNDINGS:
            return f"{wrong.strerror}{f': {wrong.filename}' if wrong.filename else ''}", Exit.ENVIRONMENT
        case _:  # the last resort: a person gets a line, not a traceback
            frame = traceback.extract_tb(wrong.__traceback__)[-1]
            at = f"{Path(frame.filename).name}:{frame.lineno}"
            return f"{ours}: {type(wrong).__name__} at {at}: {wrong}", Exit.FAULT
