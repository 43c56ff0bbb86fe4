"""`assay fuzz` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Seed, held


@held
def fuzz(
    backend: Annotated[
        list[str],
        typer.Option(
            "--backend",
            metavar="NAME",
            help=(
                "who is judged: a backend, or passes (our stages, each by its check) or values (the operators' own"
                " values); may be given several times: each example is judged on all of them"
            ),
            show_default=False,
        ),
    ],
    operators: Annotated[
        str,
        typer.Option(
            "--operators",
            "--ops",
            metavar="NAME,...",
            help=(
                "the operators that are called, ours or ONNX's, such as nn.*,add or Softmax,ConvTranspose; by default"
                " all"
            ),
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
    forget: Annotated[
        bool, typer.Option("--forget", help="begin without what --corpus has learnt of these backends' refusals")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge random programs without end, and keep those that fail, made simple."""
    from assay.verify.app.terminal import Screen
    from assay.verify.fuzz.command import FuzzRequest, fuzz as run_campaign

    request = FuzzRequest(
        tuple(sorted(set(backend))),
        operators,
        features,
        size,
        seconds,
        examples,
        seed,
        corpus,
        jobs,
        patience,
        cluster,
        replay,
        forget,
    )
    raise typer.Exit(run_campaign(request, Screen(), as_json))
