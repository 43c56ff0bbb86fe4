"""`assay doctor` (specs/verify.md, "Command line")."""

from __future__ import annotations

import typer

from assay.verify.app.commands.declared import AsJson, held


@held
def doctor(as_json: AsJson = False) -> None:
    """Say what is there to work with, and what else could be: compilers, solvers, backends, extras, limits. Exit code
    6: the core does not work."""
    from assay.verify.app.answers import write_answer
    from assay.verify.app.terminal import Screen
    from assay.verify.doctor import diagnose

    found = diagnose()
    if as_json:
        write_answer(found.as_data())
        raise typer.Exit(found.exit)
    out, width, group = Screen(), max(len(p.name) for p in found.parts), ""
    for p in found.parts:
        if p.group != group:
            group = p.group
            out.print(group)
        out.print(f"  {'yes' if p.works else 'no ':3}  {p.name:{width}}  {p.line()}")
    out.print(found.said)
    raise typer.Exit(found.exit)
