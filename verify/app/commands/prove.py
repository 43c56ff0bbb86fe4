"""`assay prove` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import Dims, SizeBounds, held, parse_bounds, parse_dims


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
    from assay.interp.graph import evaluate
    from assay.lower.frontends.onnx.model import import_onnx, load_model
    from assay.lower.instrument import run_passes
    from assay.semantics.errors import Invalid
    from assay.verify.app.stages import passes
    from assay.verify.app.terminal import Screen
    from assay.verify.app.text_run import is_text, load_text
    from assay.verify.symbolic.command import prove_module

    if is_text(file):
        if dim:
            raise Invalid(
                "--dim is for MODEL.onnx; what is known of the sizes of a text is said by --bound", label="cli.C3"
            )
        module = load_text(file)
    else:
        imported = import_onnx(load_model(file), evaluate=evaluate, dims=parse_dims(dim), source=file.name)
        module = run_passes(imported, passes(), stop_after="legalize")
    raise typer.Exit(prove_module(module, function, parse_bounds(bound), out, Screen()))
