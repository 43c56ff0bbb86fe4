"""`assay prove FILE`: goals, verdicts, and the queries kept (specs/verify.md, "Proofs for all sizes").

A directory of evidence has `goals.json` and, for each goal that was put to z3, its text: `unsat` means that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import z3
from rich.table import Table
from rich.text import Text

from assay.semantics import strict_json
from assay.semantics.errors import Invalid
from assay.semantics.files import cannot_write, directory_at, read_text
from assay.verify.app.answers import write_answer
from assay.verify.app.terminal import Screen, cell
from assay.verify.evidence import plural
from assay.verify.symbolic import ProofReport
from assay.verify.symbolic.goals import RLIMIT, Goal, Verdict

FORMAT = "assay-goals-1"
CODES = {"proved": 0, "refuted": 1, "unknown": 4}
"""Exit codes by verdict."""
VERDICTS: tuple[Verdict, ...] = ("proved", "unknown", "refuted")
STYLES = {"proved": "green", "refuted": "bold red", "unknown": "yellow"}
MANIFEST = "goals.json"


def show_proofs(reports: Sequence[ProofReport], sizes: str, console: Screen) -> None:
    """Print one table of the goals of tensor functions, for which sizes they are, and what their proofs assume."""
    console.print(goal_table(reports))
    console.print(cell(f"{plural(len(reports), 'tensor function')}, {sizes}: {_counted(reports)}"))
    assumed: dict[str, list[str]] = {}
    for r in reports:
        for line in r.assumes:
            assumed.setdefault(line, []).append(r.function)
    for line, names in assumed.items():
        console.print(cell(f"{', '.join(names)} assume{'s' if len(names) == 1 else ''}: {line}"))


def proofs_data(file: Path, reports: Sequence[ProofReport], sizes: str, verdict: Verdict) -> dict[str, Any]:
    """The same by stable keys, for `--json`."""
    functions = [
        {"function": r.function, "verdict": r.verdict, "assumes": list(r.assumes), "goals": [_row(g) for g in r.goals]}
        for r in reports
    ]
    holds = {"proved": True, "refuted": False, "unknown": None}[verdict]
    return {
        "file": str(file), "sizes": sizes, "verdict": verdict, "holds": holds, "functions": functions,
        "exit": CODES[verdict],
    }  # fmt: skip


def _counted(reports: Sequence[ProofReport]) -> str:
    """How many goals have which verdict."""
    counts = {verdict: sum(len(r.of(verdict)) for r in reports) for verdict in VERDICTS}
    return ", ".join(f"{plural(n, 'goal')} {verdict}" for verdict, n in counts.items() if n)


def goal_table(reports: Sequence[ProofReport]) -> Table:
    """A line for each goal that is not proved, and one for each kind of those that are."""
    made = Table("function", "goal", "verdict", "counterexample or reason", show_edge=False, pad_edge=False)
    made.columns[3].overflow = made.columns[1].overflow = "fold"
    for r in reports:
        kinds: dict[str, int] = {}
        for g in r.of("proved"):
            kinds[g.kind] = kinds.get(g.kind, 0) + 1
        for kind, count in kinds.items():
            made.add_row(cell(r.function), f"{kind}: {plural(count, 'goal')}", Text("proved", STYLES["proved"]), "")
        for g in (*r.of("unknown"), *r.of("refuted")):
            made.add_row(
                cell(r.function),
                cell(f"{g.kind}: {g.claim}"),
                Text(g.verdict, STYLES[g.verdict]),
                cell(counterexample(g)),
            )
    return made


def counterexample(goal: Goal) -> str:
    """The counterexample of a goal, and what the run gave."""
    parts = [", ".join(f"{n} = {k}" for n, k in found.items()) for found in (goal.sizes, goal.iteration) if found]
    return "; ".join([*parts, goal.detail])


# --- evidence ------------------------------------------------------------------------------------------------------


def require_evidence(directory: Path) -> None:
    """Invalid unless a directory is new, empty, or one that `write_queries` made."""
    there = directory.exists()
    if there and not (directory.is_dir() and ((directory / MANIFEST).is_file() or not any(directory.iterdir()))):
        raise Invalid(
            "is not empty, and not a directory that assay prove made", where=str(directory), label="output.C2"
        )


def write_queries(directory: Path, reports: Sequence[ProofReport]) -> None:
    """Keep goals, verdicts and queries."""
    try:
        directory_at(directory)
        for old in directory.glob("*.smt2"):
            old.unlink()
        rows: list[dict[str, Any]] = []
        for report in reports:
            for goal in report.goals:
                rows.append({"function": report.function, **_row(goal)})
                if goal.query:
                    rows[-1]["query"] = name = f"{len(rows):04}-{goal.kind.replace(' ', '-')}.smt2"
                    (directory / name).write_text(goal.query, "utf-8")
        assumes = {r.function: list(r.assumes) for r in reports}
        data = {"format": FORMAT, "assumes": assumes, "goals": rows}
        (directory / MANIFEST).write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    except OSError as wrong:
        raise cannot_write(wrong, directory) from None


def _row(goal: Goal) -> dict[str, Any]:
    where = {"where": str(goal.where)} if goal.where is not None else {}
    row = {"kind": goal.kind, "claim": goal.claim, "verdict": goal.verdict, "detail": goal.detail, **where}
    return row | ({"sizes": dict(goal.sizes), "iteration": dict(goal.iteration)} if goal.verdict == "refuted" else {})


def show_again(directory: Path, as_json: bool) -> int:
    """Say what differs where the queries of a directory are put to z3 again; the exit code. Invalid (symbolic.C4): it
    is not as `write_queries` writes it."""
    try:
        wrong = recheck_queries(directory)
    except (OSError, ValueError, KeyError, TypeError, z3.Z3Exception) as odd:
        raise Invalid(
            f"a directory without queries that assay prove has kept: {odd}", where=str(directory), label="symbolic.C4"
        ) from None
    code = int(bool(wrong))
    if as_json:
        write_answer({"file": str(directory), "holds": not wrong, "differs": wrong, "exit": code})
        return code
    for line in wrong or ["z3 says every verdict again"]:
        Screen().print(cell(line))
    return code


def recheck_queries(directory: Path) -> list[str]:
    """Put every query of a directory to z3 again; what differs from the verdicts kept with them, in words.

    Another solver can read the same files: a goal is proved exactly if its query is `unsat`.
    """
    wrong = []
    for row in strict_json.parse_json(read_text(directory / MANIFEST))["goals"]:
        if "query" not in row:
            if row["verdict"] == "proved":
                wrong.append(f"{row['claim']}: proved without a query")
            continue
        name = Path(row["query"]).name  # nothing outside of the directory is read
        solver = z3.Solver()
        solver.set("rlimit", RLIMIT)
        solver.from_string(read_text(directory / name))
        answer = solver.check()
        if row["verdict"] == ("refuted" if answer == z3.unsat else "proved"):
            wrong.append(f"{name}: {answer}, but the goal is {row['verdict']}: {row['claim']}")
    return wrong
