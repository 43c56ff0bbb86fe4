"""`assay verify` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, held


@held
def verify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="a directory that assay build made", show_default=False)
    ],
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="the certificate must be of this model", show_default=False),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="PUB.pem",
            help="it must be signed with the private half of this Ed25519 key",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a certificate again, from nothing but the directory."""
    from assay.verify.app import certificate, signing
    from assay.verify.app.check import Check
    from assay.verify.app.showing import show

    holds = signing.verifier(key) if key is not None else None
    stored = certificate.Stored(directory)
    run = Check(stored, stored.inputs(), stored.seed, defaults=stored.defaults())
    raise typer.Exit(show(certificate.lines(stored, run, holds, model), run, as_json, str(directory), stored.seed))
