"""The page of feature rows: what the five seed systems do, and which test shows that we do it.

Chapter: specs/verify.md, "Generated pages". The rows stand in specs/rows.csv; a test claims one by the marker
`@pytest.mark.row("A1", "A2")`, on itself, its class, a parameter set or (as `pytestmark`) its whole file, or by an
entry `Shown("A1 A2", ...)` of a table `SHOWN`. Both are read without running anything, so the page says what is
claimed; the tests say whether it holds. A test that is expected to fail, or is skipped as it stands, claims nothing.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.semantics.errors import Invalid
from tests.trees import parsed

GROUPS = {
    "A": "A-normal form and the order of evaluation",
    "U": "Memory planning",
    "R": "The graph language and its tools",
    "V": "Virtual devices",
    "C": "Constants",
    "J": "Dynamic shapes",
}


NO_CLAIM = ("pytest.mark.xfail", "pytest.mark.skip")


@dataclass(frozen=True)
class Row:
    """A capability: its id, one sentence, and the files that implement it (none as long as it is open)."""

    id: str
    sentence: str
    where: tuple[str, ...]


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a CSV file with the columns id, sentence, where (paths, separated by spaces)."""
    rows: dict[str, Row] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            row = Row(line["id"], line["sentence"], tuple(line["where"].split()))
            if row.id in rows:
                raise Invalid(f"row {row.id} stands twice", where=str(path), label="rows.C1")
            if row.id[:1] not in GROUPS or not row.id[1:].isdigit():
                raise Invalid(
                    f"row id {row.id!r}; expected one of {', '.join(GROUPS)} and a number",
                    where=str(path),
                    label="rows.C2",
                )
            rows[row.id] = row
    return rows


def claims(tests: Path) -> dict[str, list[str]]:
    """For each row id that the tests under `tests` claim: the tests, as `file::name`, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("*.py")):
        tree = parsed(path.read_text(encoding="utf-8"))
        file = path.relative_to(tests.parent).as_posix()
        for name, ids in _claims_of(tree, file):
            for i in ids:
                known = found.setdefault(i, [])
                if name not in known:
                    known.append(name)
    return found


def _claims_of(tree: ast.Module, file: str) -> Iterator[tuple[str, list[str]]]:
    """The tests of one file, each with the ids that its markers name."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")]):
                yield file, _marked(node.value, file)
            case ast.AnnAssign(target=ast.Name(id="SHOWN"), value=ast.expr() as cases):
                yield f"{file}::SHOWN", _shown(cases, file)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{file}::{node.name}", _decorated(node, file)
            case ast.ClassDef():
                yield f"{file}::{node.name}", _decorated(node, file)
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{file}::{node.name}::{inner.name}", _decorated(inner, file)


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, file: str) -> list[str]:
    """The ids that the decorators of a test or a class name."""
    if any(isinstance(d, ast.Call) and ast.unparse(d.func) in NO_CLAIM for d in node.decorator_list):
        return []
    return [i for d in node.decorator_list for i in _marked(d, file)]


def _marked(where: ast.AST, file: str) -> list[str]:
    """The arguments of every `pytest.mark.row(...)` inside an expression."""
    ids: list[str] = []
    for node in ast.walk(where):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="row")):
                for arg in node.args:
                    if not (isinstance(arg, ast.Constant) and isinstance(arg.value, str)):
                        raise Invalid(
                            "a row marker takes literal ids only", where=f"{file}:{node.lineno}", label="rows.C3"
                        )
                    ids.append(arg.value)
    return ids


def _shown(where: ast.AST, file: str) -> list[str]:
    """The ids that the entries of a table of shown rows begin with: `Shown("A1 A2", ...)`."""
    calls = [n for n in ast.walk(where) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Shown"]
    ids: list[str] = []
    for call in calls:
        match call.args:
            case [ast.Constant(value=str(text)), *_]:
                ids += text.split()
            case _:
                raise Invalid(
                    "an entry begins with literal ids of rows", where=f"{file}:{call.lineno}", label="rows.C3"
                )
    return ids


def rows_page(root: Path) -> str:
    """The page: one table a group; a row that no test claims shows as open."""
    rows = read_rows(root / "specs" / "rows.csv")
    tests = claims(root / "tests")
    for unknown in sorted(tests.keys() - rows.keys()):
        raise Invalid(f"{tests[unknown][0]} claims row {unknown}, which specs/rows.csv does not have", label="rows.C4")
    for row in rows.values():
        for path in row.where:
            if not (root / path).exists():
                raise Invalid(f"row {row.id} is said to be in {path}, which does not exist", label="rows.C5")
    shown = sum(i in tests for i in rows)
    lines = [
        "# Feature rows",
        "",
        "Generated by `make docs` from specs/rows.csv and the row markers of the tests; do not edit.",
        "",
        "What the systems that Assay grew from do, planned or were asked for, one capability a row. A row that no test",
        "shows is open.",
        "",
        f"{shown} of {len(rows)} rows are shown by a test.",
    ]
    for letter, title in GROUPS.items():
        group = [r for r in rows.values() if r.id[0] == letter]
        lines += ["", f"## {letter}: {title}", "", "| row | what | where | shown by |", "|---|---|---|---|"]
        for row in group:
            where = "<br>".join(row.where) or " "
            by = "<br>".join(f"`{t.removeprefix('tests/')}`" for t in tests.get(row.id, ())) or "open"
            lines.append(f"| {row.id} | {row.sentence} | {where} | {by} |")
    return "\n".join(lines) + "\n"
