"""`assay reduce` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import Dims, Inputs, Patience, Seed, held, parse_dims


@held
def reduce(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="an ONNX model", show_default=False)],
    backend: Annotated[str, typer.Option("--backend", help="who is wrong on it", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="where the test goes", show_default=False)
    ],
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="after how many attempts to stop", min=1)] = 5_000,
    patience: Patience = None,
) -> None:
    """Find a smaller model on which a backend is still wrong, and write it as a test. Exit code 1: it is wrong."""
    from assay.lower.frontends.onnx.model import load_model
    from assay.verify.api.programs import with_inputs
    from assay.verify.app.judging import isolated
    from assay.verify.app.terminal import Screen
    from assay.verify.border.inputs import load_npz
    from assay.verify.reduce.command import reduce_model

    who = isolated(backend, patience)
    who.require()
    proto, given, _, dims = with_inputs(
        load_model(model), load_npz(inputs) if inputs else {}, parse_dims(dim), seed, model.name
    )
    raise typer.Exit(reduce_model(proto, who, given, dims, seed, limit, output, Screen()))
