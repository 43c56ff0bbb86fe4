"""`assay diff` (specs/verify.md, "Two reports")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import AsJson, Quiet, held


@held
def diff(
    then: Annotated[
        Path,
        typer.Argument(metavar="OLD", help="a directory of --report, or what --json wrote; of check or judge"),
    ],
    now: Annotated[Path, typer.Argument(metavar="NEW", help="another one of the same command")],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="write the changes as a page, DIR/index.html")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what has changed between two reports: lines, verdicts, findings, tensors, kernels, plans. Exit code 1:
    something fails now that did not; 5: less is known than was."""
    from assay.verify.app.answers import write_answer
    from assay.verify.app.changes.changes_page import changes_page
    from assay.verify.app.changes.changes_table import print_changes
    from assay.verify.app.changes.compared import compare_reports
    from assay.verify.app.changes.recorded import read_report
    from assay.verify.app.report.write import require_place, write_page
    from assay.verify.app.terminal import Screen

    if report is not None:
        require_place(report)
    found = compare_reports(read_report(then), read_report(now))
    data = {"then": str(then), "now": str(now), **found.as_data()}
    if report is not None:
        write_page(report, changes_page(str(then), str(now), found), data)
    if as_json:
        write_answer(data)
    else:
        print_changes(Screen(), found, quiet)
    raise typer.Exit(found.exit)
