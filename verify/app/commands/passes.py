"""`assay passes` (specs/verify.md, "Optional passes")."""

from __future__ import annotations

from assay.verify.app.commands.declared import AsJson, held


@held
def passes(as_json: AsJson = False) -> None:
    """List the stages and the optional passes: where each stands, what it ensures and how it is checked."""
    from rich.table import Table

    from assay.verify.app.answers import write_answer
    from assay.verify.app.stages import PASSES, STAGES
    from assay.verify.app.terminal import Screen, cell

    rows = []
    for stage in (*STAGES, *PASSES):
        name = f"{stage.name}[{';'.join(f'{k}=...' for k in stage.takes)}]" if stage.takes else stage.name
        place = f"behind {stage.behind}, before {stage.before}" if stage.behind else "always"
        place = "unless --skip" if stage.skippable else place
        rows.append({"pass": name, "stands": place, "ensures": stage.ensures, "checked": stage.how})
    if as_json:
        write_answer({"passes": rows})
        return
    table = Table(*rows[0], show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*map(cell, row.values()))
    Screen().print(table)
