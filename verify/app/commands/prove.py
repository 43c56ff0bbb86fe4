"""`assay prove` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Dims, SizeBounds, held, parse_bounds, parse_dims


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
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            metavar="NAME",
            help="in place of FILE: that ONNX's operator NAME is imported as the body that the standard gives",
        ),
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="how the rule of each operator of FILE, an ONNX model, is known")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Prove tensor functions of FILE for all sizes: bounds, races, initialisation. Exit code 4: something is
    unknown."""
    if operator is not None or rule is not None or file is None:
        raise typer.Exit(_named(file, operator, rule, as_json))
    if rules:
        from assay.verify.frontends.rules_command import show_rules

        raise typer.Exit(show_rules(file, as_json))
    from assay.verify.api.prove import prove as prove_program
    from assay.verify.app.answers import answering, write_answer
    from assay.verify.app.terminal import Screen
    from assay.verify.symbolic.command import CODES, proofs_data, require_evidence, show_again, show_proofs

    if file.is_dir():
        raise typer.Exit(show_again(file, as_json))
    if out is not None:
        require_evidence(out)
    made = prove_program(file, function, bounds=parse_bounds(bound), dims=parse_dims(dim))
    answer = proofs_data(file, made.reports, made.told_sizes, made.verdict)
    if not as_json:
        show_proofs(made.reports, made.told_sizes, Screen())
    with answering(answer):
        if out is not None:
            made.write(out)
    if as_json:
        write_answer(answer)
    raise typer.Exit(CODES[made.verdict])


def _named(file: Path | None, operator: str | None, rule: str | None, as_json: bool) -> int:
    """Show what is proved of an operator's kernel, or of the rule of an operator of ONNX's."""
    from assay.semantics.errors import Invalid

    given = {"FILE": file, "--operator": operator, "--rule": rule}
    said = [name for name, value in given.items() if value is not None]
    if len(said) != 1:
        wrong = " and ".join(said) + " were given" if said else "none of FILE, --operator and --rule was given"
        raise Invalid(f"{wrong}: one of them says what is to be proved", label="prove.C1")
    if rule is not None:
        from assay.verify.frontends.rules_command import show_rule

        return show_rule(rule, as_json)
    from assay.verify.operator_terms.command import show_operator

    assert operator is not None
    return show_operator(operator, as_json)
