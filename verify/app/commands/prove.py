"""`assay prove` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import Dims, SizeBounds, held, parse_bounds, parse_dims


@held
def prove(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="a module as text, or MODEL.onnx: its kernels; or what --out made: its queries, again",
            show_default=False,
        ),
    ] = None,
    function: Annotated[str | None, typer.Option("--function", help="the tensor function; else all of them")] = None,
    bound: SizeBounds = [],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="where the queries are kept", show_default=False)
    ] = None,
    dim: Dims = [],
    operator: Annotated[
        str | None,
        typer.Option("--operator", help="in place of FILE: that the operator's kernel gives what its definition does"),
    ] = None,
) -> None:
    """Prove tensor functions of FILE for all sizes: bounds, races, initialisation. Exit code 4: something is
    unknown."""
    if operator is not None or file is None:
        raise typer.Exit(_operator(file, operator))
    from assay.verify.api.prove import prove as prove_program
    from assay.verify.app.terminal import Screen
    from assay.verify.symbolic.command import CODES, require_evidence, show_again, show_proofs

    if file.is_dir():
        raise typer.Exit(show_again(file, Screen()))
    if out is not None:
        require_evidence(out)
    made = prove_program(file, function, bounds=parse_bounds(bound), dims=parse_dims(dim))
    show_proofs(made.reports, made.told_sizes, Screen())
    if out is not None:
        made.write(out)
    raise typer.Exit(CODES[made.verdict])


def _operator(file: Path | None, name: str | None) -> int:
    """Show what is proved of an operator's kernel."""
    from assay.semantics.errors import Invalid
    from assay.verify.app.terminal import Screen
    from assay.verify.operator_terms.command import show_operator

    if name is None or file is not None:
        wrong = "both FILE and --operator were given" if file is not None else "neither FILE nor --operator was given"
        raise Invalid(f"{wrong}: one of the two says what is to be proved", label="prove.C1")
    return show_operator(name, Screen())
