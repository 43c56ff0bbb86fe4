"""`assay build` (specs/verify.md, "Command line")."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.lower.interfaces import Interface
from assay.verify.app.commands.declared import (
    AsJson,
    Dims,
    Inputs,
    Model,
    Prove,
    Quiet,
    Seed,
    SizeBounds,
    held,
    parse_bounds,
    parse_dims,
)


@held
def build(
    model: Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="where the C text and the certificate go; with --vm one file, MODEL.assay",
            show_default=False,
        ),
    ],
    inputs: Inputs = None,
    dim: Dims = [],
    bound: SizeBounds = [],
    interface: Annotated[
        Interface, typer.Option("--interface", help="how the C entry and its kernels are called")
    ] = Interface.UNPACKED,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="where steps run that name no device; its hooks are called",
            show_default=False,
        ),
    ] = "",
    how: dict[str, Any] = {},
    seed: Seed = 0,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY.pem", help="sign the certificate with this private Ed25519 key", show_default=False
        ),
    ] = None,
    late_constants: Annotated[
        Path | None,
        typer.Option(
            "--late-constants",
            metavar="CONSTANTS.npz",
            help="with --vm: the constants go to this file, and are bound by run and verify with --constants",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    prove: Prove = False,
    as_json: AsJson = False,
) -> None:
    """Check MODEL and, if every line holds, write its C text and the certificate to DIR; with --vm its bytecode and the
    certificate to one file."""
    from assay.verify.api.check import build as build_program
    from assay.verify.app.showing import show_run

    work = partial(
        build_program,
        model,
        output,
        inputs,
        dims=parse_dims(dim),
        bounds=parse_bounds(bound),
        seed=seed,
        interface=interface,
        device=device,
        sign=sign,
        late_constants=late_constants,
        prove=prove,
        **how,
    )
    raise typer.Exit(show_run(str(model), seed, as_json, work, quiet=quiet))
