"""`assay run` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.verify.app.commands.declared import (
    AsJson,
    Constants,
    Dims,
    Passes,
    Seed,
    SizeBounds,
    held,
    parse_bounds,
    parse_dims,
)

if TYPE_CHECKING:
    from assay.verify.dispatch.kernel_options import KernelOptions


@held
def run(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="an ONNX model, a module as text (FILE.py, FILE.relay, FILE.mlir), or FILE.assay of build --vm",
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
    inputs: Annotated[
        list[Path],
        typer.Option(
            "--inputs",
            metavar="IN.npz",
            help="inputs by name; the others are random; with --kernels more than once, for a run each",
        ),
    ] = [],
    dim: Dims = [],
    bound: SizeBounds = [],
    seed: Seed = 0,
    function: Annotated[
        str | None, typer.Option("--function", help="a text: the function to run; main, or the only one")
    ] = None,
    module_name: Annotated[
        str | None, typer.Option("--module", help="FILE.py: the module, where there are several")
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(
            "--case",
            metavar="NAME",
            help="FILE.py: the case to run, with its inputs; the results are compared with what it expects",
            show_default=False,
        ),
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
    passes: Passes = "",
    engine: Annotated[
        list[str],
        typer.Option(
            "--engine",
            metavar="NAME=MODULE:FUNCTION",
            help="with --passes partition: a Python function that runs the regions of the compiler NAME, and is judged",
        ),
    ] = [],
    kernels: Annotated[
        str | None,
        typer.Option(
            "--kernels",
            metavar="[PATTERN=]WAY,...",
            help=(
                "run it as tensor functions, each in a way: generic, specialized, range:NAME=LEAST..MOST,"
                " padded:NAME=N, buckets:NAME=N,N,..., library, recorded[:FILE], interpreted or auto; a table says what"
                " became of the kernels"
            ),
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--kernel-store",
            metavar="DIR",
            help="with --kernels: a directory of yours that keeps what was compiled for the next process",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        int,
        typer.Option("--kernel-cache", metavar="N", help="with --kernels: so many compiled kernels are held at once"),
    ] = 256,
    stream: Annotated[
        list[str],
        typer.Option(
            "--stream", metavar="NAME=N,N,...", help="with --kernels: a run at each of these sizes, one after another"
        ),
    ] = [],
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", help="with --kernels: all runs N times")] = 1,
    threads: Annotated[int, typer.Option("--threads", metavar="N", help="with --kernels: runs by N threads")] = 1,
    constants: Constants = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate MODEL by the definition of its operators, or its bytecode on shadowed memory, and show its values and
    effects. Sizes that are not given are chosen."""
    from dataclasses import replace

    from assay.semantics.errors import Invalid
    from assay.verify.app.foreign import load_externs
    from assay.verify.app.packed import is_packed
    from assay.verify.app.terminal import Screen
    from assay.verify.app.text_run import is_text
    from assay.verify.dispatch.kernel_options import KernelOptions

    sizes, bounds = parse_dims(dim), parse_bounds(bound)
    more = KernelOptions(kernels, store, cache, tuple(stream), repeat, threads)
    if kernels is None:
        if more != KernelOptions(None) or len(inputs) > 1:
            raise Invalid(
                "--kernel-store, --kernel-cache, --stream, --repeat, --threads and several --inputs go with --kernels",
                label="cli.C3",
            )
    elif case is not None or passes or engine or save_as is not None or as_text:
        raise Invalid("--kernels is of a run: of the other ways of this command none goes with it", label="cli.C3")
    given = inputs[0] if inputs else None
    if case is not None:
        from assay.verify.conform.run_case import run_named_case

        others = (passes, engine, function, module_name, as_text, extern, save_as, inputs, dim, bound, as_json)
        if any(others) or model.suffix != ".py":
            raise Invalid(
                "--case runs a case of FILE.py, which says all of it: of the other options --output alone goes with it",
                label="cli.C3",
            )
        raise typer.Exit(run_named_case(model, case, output, Screen()))
    if as_json and (passes or as_text or save_as is not None):
        raise Invalid("--json is of a run: it does not go with --passes, --text and --save", label="cli.C3")
    if passes:
        from assay.verify.app.passed import run_passed

        if function is not None or module_name is not None or as_text or extern or save_as is not None:
            raise Invalid("--passes are for main: of the options for a text none goes with them", label="cli.C3")
        engines = load_externs(engine, "--engine")
        raise typer.Exit(run_passed(model, given, sizes, bounds, seed, passes, output, engines))
    if engine:
        raise Invalid("--engine goes with --passes: an engine runs the regions that a partition makes", label="cli.C3")
    if not is_text(model) and (function is not None or module_name is not None or as_text or extern or save_as):
        raise Invalid(
            "--function, --module, --extern, --save and --text are for a module as text: FILE.py, .relay or .mlir",
            label="cli.C3",
        )
    program = _program(model, module_name, constants)
    if save_as is not None:
        kind = ".assay" if is_packed(model) else ".py"
        if output is None or output.suffix != kind or as_text or dim or bound or extern:
            raise Invalid(
                f"--save writes a module and runs nothing: it takes --output OUT{kind}, --inputs, --function and"
                " --module",
                label="cli.C3",
            )
        _save(program, given, function, save_as, output)
    elif as_text:
        if inputs or dim or bound or extern or function is not None:
            raise Invalid(
                "--text writes the whole module and runs nothing: of the other options, only --module and --output go"
                " with it",
                label="cli.C3",
            )
        _write_text(program, output)
    else:
        how = {"dims": sizes, "bounds": bounds, "seed": seed, "function": function, "externs": load_externs(extern)}
        if kernels is not None:
            _run_kernels(model, program, inputs, output, as_json, how, replace(more, is_written=output is not None))
        else:
            _run(model, program, given, output, as_json, how)


def _program(model: Path, module_name: str | None, constants: Path | None) -> Any:
    """The module in a file, with the constants that are bound late; or the path of an ONNX model."""
    from assay.semantics.errors import Invalid
    from assay.verify.app.executable import bound
    from assay.verify.app.packed import is_packed
    from assay.verify.app.text_run import is_text, load_text
    from assay.verify.border.inputs import load_npz

    if not is_packed(model):
        if constants is not None:
            raise Invalid("--constants are for a file that assay build --vm made", label="cli.C3")
        return load_text(model, module_name) if is_text(model) else model
    module = load_text(model, module_name)
    return bound(module, load_npz(constants)) if constants is not None else module


def _run(
    model: Path, program: Any, inputs: Path | None, output: Path | None, as_json: bool, how: dict[str, Any]
) -> None:
    """Run a program, and show or write what it gives."""
    from assay.verify.api.run import ran
    from assay.verify.app.answers import answering, write_answer
    from assay.verify.app.run_shown import answer_run, tell_run
    from assay.verify.app.terminal import Screen
    from assay.verify.border.inputs import save

    answer: dict[str, Any] = {"model": str(model), "seed": how["seed"], "holds": None}
    with answering(answer):
        done = ran(program, inputs, **how)
        if as_json:
            answer_run(done, answer)
        else:
            tell_run(done, Screen())
        if output is not None:
            save(output, done.outputs)
            answer["output"] = str(output)
    if as_json:
        write_answer(answer)


def _run_kernels(
    model: Path,
    program: Any,
    inputs: list[Path],
    output: Path | None,
    as_json: bool,
    how: dict[str, Any],
    options: KernelOptions,
) -> None:
    """Run a program with its kernels dispatched, and show or write what came of it."""
    from assay.verify.app.answers import answering, write_answer
    from assay.verify.app.kernels.run import run_kernels
    from assay.verify.app.kernels.shown import answer_kernels, tell_kernels
    from assay.verify.app.terminal import Screen
    from assay.verify.border.inputs import save

    answer: dict[str, Any] = {"model": str(model), "seed": how["seed"], "holds": None}
    with answering(answer):
        done = run_kernels(program, inputs, how, options)
        if as_json:
            answer_kernels(done, answer)
        else:
            tell_kernels(done, Screen())
        if output is not None:
            save(output, done.runs[-1].outputs)
            answer["output"] = str(output)
    if as_json:
        write_answer(answer)


def _save(program: Any, inputs: Path | None, function: str | None, save_as: str, output: Path) -> None:
    """Write the module with a call of a function saved as another."""
    from assay.semantics.text.module_text import write_module
    from assay.verify.app.executable import save_executable
    from assay.verify.app.text_run import save_call
    from assay.verify.border.inputs import load_npz

    made = save_call(program, function, save_as, load_npz(inputs) if inputs else {})
    (save_executable if output.suffix == ".assay" else write_module)(made, output)


def _write_text(module: Any, output: Path | None) -> None:
    """Write the module as TVMScript; an executable as assembly."""
    import sys

    from assay.semantics.errors import EnvironmentFailure
    from assay.semantics.text.module_text import show as show_module, write_module
    from assay.verify.app.executable import assembly
    from assay.verify.app.terminal import Stream
    from assay.verify.border.files import replace_text

    if output is not None:
        replace_text(output, assembly(module)) if module.is_bytecode else write_module(module, output)
        return
    text = assembly(module) if module.is_bytecode else show_module(module)
    if isinstance(sys.stdout, Stream) and not sys.stdout.encodes(text):
        raise EnvironmentFailure(
            f"the standard output takes {sys.stdout.encoding}, which has not all characters of this module:"
            " give --output OUT.py",
            label="output.C4",
        )
    sys.stdout.write(text)
