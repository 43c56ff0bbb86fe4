"""`assay judge` (specs/verify.md, "judge")."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import (
    AsJson,
    Dims,
    Inputs,
    Junit,
    Model,
    Patience,
    Quiet,
    Seed,
    held,
    parse_dims,
)


@held
def judge(
    model: Model,
    second: Annotated[
        Path | None,
        typer.Argument(
            metavar="SECOND", help="a second program: does it mean what the first does?", show_default=False
        ),
    ] = None,
    backend: Annotated[
        list[str],
        typer.Option("--backend", help="who is judged: onnxruntime, tvm, torch, reference or another; several times"),
    ] = [],
    recorded: Annotated[
        list[Path],
        typer.Option(
            "--recorded",
            metavar="OUT.npz",
            help="outputs, and any other tensors, that a device gave on --inputs, by their names in MODEL",
        ),
    ] = [],
    inputs: Inputs = None,
    dim: Dims = [],
    kinds: Annotated[
        str,
        typer.Option(
            "--kinds",
            metavar="KIND,...",
            help="what inputs are made of: random, integers, cancelling, large, specials, ties; by default all",
            show_default=False,
        ),
    ] = "",
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="sets of inputs of each kind", min=1)] = 1,
    seed: Seed = 0,
    exclude: Annotated[
        list[str],
        typer.Option("--exclude", metavar="RIGHT", help="a right that nobody who is judged has: kept-wider"),
    ] = [],
    sound_only: Annotated[
        bool,
        typer.Option("--sound-only", help="say nothing that rests on how far correct runs lie apart (implausible)"),
    ] = False,
    junit: Junit = None,
    patience: Patience = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="write DIR/index.html: every tensor, its errors, and the graph by verdict"
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="what --json wrote before: only what it has not counts to the exit code",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Judge backends on MODEL, what was recorded of one, or a second program: is what they give what its definition
    allows? Nothing is lowered."""
    from assay.verify.api.judge import DEFAULT_KINDS, judge as judge_program
    from assay.verify.app.judgement.judge_table import Places, show_judgement
    from assay.verify.border.inputs import load_npz

    work = partial(
        judge_program, model, backend, load_npz(inputs) if inputs else {}, second=second,
        recorded=recorded, dims=parse_dims(dim),
        kinds=kinds or DEFAULT_KINDS, runs=runs, seed=seed, exclude=exclude, sound_only=sound_only, page=report,
        patience=patience,
    )  # fmt: skip
    raise typer.Exit(show_judgement(str(model), as_json, Places(junit, baseline, quiet), work))
