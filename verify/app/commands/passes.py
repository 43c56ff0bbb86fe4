"""`assay passes` (specs/verify.md, "Optional passes")."""

from __future__ import annotations

from assay.verify.app.commands.declared import AsJson, held


@held
def passes(as_json: AsJson = False) -> None:
    """List the stages and the optional passes: where each stands, what it ensures and how it is checked."""
    from dataclasses import replace

    from rich.table import Table

    from assay.verify.app.answers import write_answer
    from assay.verify.app.stages import PASSES, STAGES
    from assay.verify.app.terminal import Screen, cell

    rows = []
    for stage in (*STAGES, *PASSES):
        place = f"behind {stage.behind}, before {stage.before}" if stage.behind else "always"
        place = "unless --skip" if stage.skippable else place
        name = replace(stage, options=stage.takes).entry
        rows.append({"pass": name, "stands": place, "ensures": stage.ensures, "checked": stage.how})
    if as_json:
        write_answer({"passes": rows})
        return
    table = Table(*rows[0], show_edge=False, pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:  # a line for each option: none is cut on a narrow screen
        row["pass"] = row["pass"].replace("[", "\n  [").replace(";", ";\n   ")
        table.add_row(*map(cell, row.values()))
    Screen().print(table)
