"""`assay reduce` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Dims, Inputs, Seed, held, parse_dims


@held
def reduce(
    program: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="an ONNX model, a module as text (FILE.py, FILE.relay, FILE.mlir), or a directory of failures of fuzz",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="where the test goes", show_default=False)
    ],
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="who is wrong on it; of a directory by default whoever each failure is of",
            show_default=False,
        ),
    ] = "",
    inputs: Inputs = None,
    dim: Dims = [],
    seed: Seed = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="after how many attempts to stop", min=1)] = 5_000,
    kinds: Annotated[
        str,
        typer.Option(
            "--kinds",
            metavar="KIND,...",
            help="the kinds of data that are tried, such as random,large; by default all",
            show_default=False,
        ),
    ] = "",
    ignore: Annotated[
        list[str],
        typer.Option("--ignore", metavar="VERDICT", help="a verdict that is not looked for, such as open"),
    ] = [],
    as_json: AsJson = False,
) -> None:
    """Find a smaller program on which a backend is still wrong, and write it as a test. Exit code 1: it is wrong."""
    from assay.verify.reduce.request import ReduceRequest, reduce_request

    request = ReduceRequest(
        program, backend, output, inputs, parse_dims(dim), seed, limit, kinds, tuple(ignore)
    )  # fmt: skip
    raise typer.Exit(reduce_request(request, as_json))
