"""`assay explain` (specs/verify.md, "explain")."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, held


@held
def explain(
    word: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD...",
            help="an operator, a rule (M7.2, vm.B3), a label of a message (pool.C2), a pass, a verdict, an exit code, a"
            " word of the glossary, or the heading of a section",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Say what an operator, a rule, a label, a pass, a verdict or a word means: its page, or its section."""
    from dataclasses import asdict

    from rich.markdown import Markdown

    from assay.verify.app.answers import write_answer
    from assay.verify.app.terminal import Screen
    from assay.verify.explain.topics import explain as explained

    asked = " ".join(word)
    found = explained(asked)
    if as_json:
        write_answer({"asked": asked, "found": [asdict(one) for one in found]})
        return
    screen = Screen()
    for one in found:
        screen.print(f"{one.kind} {one.name}, {one.where}")
        screen.print(Markdown(one.text))
        screen.print("")
