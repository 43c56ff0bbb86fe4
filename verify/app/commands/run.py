"""`assay run` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import Dims, Inputs, Passes, Seed, held, parse_dims


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
) -> None:
    """Evaluate MODEL by the definition of its operators. A module as text also shows its values and effects."""
    import sys

    from assay.semantics.errors import EnvironmentFailure, Invalid
    from assay.semantics.text.module_text import show as show_module, write_module
    from assay.verify.api.run import run as run_program
    from assay.verify.app.foreign import load_externs
    from assay.verify.app.passed import run_passed
    from assay.verify.app.terminal import Screen, Stream
    from assay.verify.app.text_run import is_text, load_text, run_lines, run_text, save_call
    from assay.verify.border.inputs import load_npz, save

    if case is not None:
        from assay.verify.conform.run_case import run_named_case

        others = (passes, engine, function, module_name, as_text, extern, save_as, inputs, dim)
        if any(others) or model.suffix != ".py":
            raise Invalid(
                "--case runs a case of FILE.py, which says all of it: of the other options --output alone goes with it",
                label="cli.C3",
            )
        raise typer.Exit(run_named_case(model, case, output, Screen()))
    if passes:
        if function is not None or module_name is not None or as_text or extern or save_as is not None:
            raise Invalid("--passes are for main: of the options for a text none goes with them", label="cli.C3")
        raise typer.Exit(
            run_passed(model, inputs, parse_dims(dim), seed, passes, output, load_externs(engine, "--engine"))
        )
    if engine:
        raise Invalid("--engine goes with --passes: an engine runs the regions that a partition makes", label="cli.C3")
    given = load_npz(inputs) if inputs else {}
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
        done = run_text(load_text(model, module_name), function, given, seed, parse_dims(dim), load_externs(extern))
        for line in run_lines(done):
            Screen().print(line)
        if done.trap is not None:  # told after what came before it
            raise done.trap
        if output is not None:
            save(output, done.outputs)
        return
    if function is not None or module_name is not None or as_text or extern or save_as is not None:
        raise Invalid(
            "--function, --module, --extern, --save and --text are for a module as text, FILE.py or FILE.relay",
            label="cli.C3",
        )
    if output is None:
        raise Invalid("where do the outputs go? Give --output OUT.npz", label="cli.C3")
    results = run_program(model, inputs, dims=parse_dims(dim), seed=seed)
    save(output, results)
    for name, value in results.items():
        of = "string" if value.dtype.kind == "O" else value.dtype
        Screen().print(f"{name}: Tensor({tuple(value.shape)}, {of})")
