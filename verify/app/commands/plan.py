"""`assay plan` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Planner, Pools, SizeBounds, held, parse_bounds


@held
def plan(
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
    from assay.verify.app.plan_command import PlanRequest, plan_file
    from assay.verify.app.terminal import Screen

    request = PlanRequest(
        file, output, capacity, pools, planner, alignment, time_limit, seed, plot, parse_bounds(bound)
    )
    raise typer.Exit(plan_file(request, Screen(), as_json))
