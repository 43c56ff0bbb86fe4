"""`assay export` (specs/verify.md, "export")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Dims, Model, Seed, held, parse_dims


@held
def export(
    model: Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="FILE.mlir, StableHLO as text, or FILE.onnx",
            show_default=False,
        ),
    ],
    dim: Dims = [],
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write MODEL in another language, read that again, and show that it means the same."""
    from assay.verify.app.export_command import export_file
    from assay.verify.app.terminal import Screen

    raise typer.Exit(export_file(model, output, parse_dims(dim), seed, Screen(), as_json))
