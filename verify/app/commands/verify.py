"""`assay verify` (specs/verify.md, "Command line")."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Constants, Prove, Quiet, held


@held
def verify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="a directory or a file that assay build made", show_default=False)
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
    second: Annotated[
        bool, typer.Option("--second-opinion", help="cvc5 decides the proofs that are kept, too; it must be installed")
    ] = False,
    prove: Prove = False,
    constants: Constants = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check a certificate again, from nothing but the directory or the file, and tell what that rests on."""
    from assay.verify.api.check import stored_at, verify as verify_certificate
    from assay.verify.app.showing import show_run

    stored = stored_at(directory, constants)
    work = partial(verify_certificate, stored, model=model, key=key, second=second, prove=prove)
    raise typer.Exit(show_run(str(directory), stored.seed, as_json, work, trust=True, quiet=quiet))
