"""The files of a report (specs/verify.md): `index.html`, and the same data as `report.json`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from assay.semantics.errors import Invalid
from assay.semantics.files import cannot_write, directory_at, open_regular
from assay.verify.app.report.model import CheckReport
from assay.verify.app.report.page import page
from assay.verify.border.files import replace_text

PAGE, DATA = "index.html", "report.json"
WRITERS = ("check", "judge", "diff")
"""The commands that write pages; each begins with the name of its own."""


def require_place(directory: Path) -> None:
    """Invalid where `write_report` could not write later: long work should not end in a path that was never good."""
    there = next(p for p in (directory.absolute(), *directory.absolute().parents) if p.exists() or p.is_symlink())
    if not there.is_dir():
        raise Invalid("is not a directory; the report is a file in one", where=str(there), label="report.C1")
    if not os.access(there, os.W_OK | os.X_OK):
        raise Invalid("cannot write here", where=str(there), label="report.C1")
    for name in (PAGE, DATA):
        path = directory / name
        if path.is_dir() or (path.exists() and not _is_ours(directory)):
            raise Invalid(
                "is there already, and not from --report of assay check, judge or diff",
                where=str(path),
                label="report.C2",
            )


def _is_ours(directory: Path) -> bool:
    """Whether the page in a directory is one that may be replaced."""
    marks = [f"<!doctype html>\n<!-- written by assay {command} --report -->".encode() for command in WRITERS]
    try:
        with open_regular(directory / PAGE) as file:
            return file.read(max(map(len, marks))).startswith(tuple(marks))
    except OSError:
        return False


def write_report(directory: Path, report: CheckReport) -> Path:
    """Write a report; the path of its page. Each file appears whole or not at all. Invalid: nothing can be written."""
    return write_page(directory, page(report), report.as_data())


def write_page(directory: Path, text: str, data: Any) -> Path:
    """Write a page and its data, as `write_report` does."""
    require_place(directory)
    contents = {PAGE: text, DATA: json.dumps(data, separators=(",", ":")) + "\n"}
    try:
        directory_at(directory)
    except OSError as wrong:
        raise cannot_write(wrong, directory, "report.C1") from None
    for name, content in contents.items():
        replace_text(directory / name, content)
    return directory / PAGE
