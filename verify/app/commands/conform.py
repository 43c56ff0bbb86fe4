"""`assay conform` (specs/verify.md, "Conformance")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Junit, held


@held
def conform(
    programs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILES]",
            help="programs with cases, FILE.py, StableHLO's tests, FILE.mlir, or directories of them, instead of the"
            " suites",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        list[str],
        typer.Option(
            "--backend",
            metavar="NAME",
            help="who is judged; may be given several times. Without one, our own definition is held to the programs",
            show_default=False,
        ),
    ] = [],
    suite: Annotated[str, typer.Option("--suite", metavar="NAME", help="onnx, assay, or all", show_default=False)] = "",
    only: Annotated[
        str,
        typer.Option(
            "--only", metavar="PATTERN", help="the cases whose name this regular expression finds", show_default=False
        ),
    ] = "",
    junit: Junit = None,
    badge: Annotated[
        Path | None,
        typer.Option("--badge", metavar="FILE.json", help="write the numbers of a badge, as shields.io takes them"),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="DIR", help="where results are kept as they come: a run that ended early goes on there"
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="worker processes; by default one for each core", show_default=False),
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", metavar="S", help="how long a backend may take for one answer")
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Judge a backend on ONNX's own cases and on ours, and show a scoreboard."""
    from assay.verify.app.terminal import Screen
    from assay.verify.conform.command import ConformRequest, conform as judge_all

    request = ConformRequest(programs or [], backend, suite, only, junit, badge, resume, jobs, patience)
    raise typer.Exit(judge_all(request, Screen(stderr=as_json), as_json))
