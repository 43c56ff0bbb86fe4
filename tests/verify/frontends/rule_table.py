"""Writes verify/frontends/onnx_rules.csv: `python -m tests.verify.frontends.rule_table`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields

from assay.verify.conform.onnx_cases import onnx_cases
from assay.verify.equivalence import UNKNOWN
from assay.verify.frontends.onnx_rules import EXPANDED, TABLE, RuleProof, RuleRow, case_operator, prove_rules
from tests.places import ROOT, SPECS


def made_table(proofs: Iterable[RuleProof], failing: Sequence[str] = ()) -> list[RuleRow]:
    """The table: a row for each version of an operator that the standard has cases of. `failing` are the cases of which
    the stored results are not what we give."""
    of: dict[str, list[RuleProof]] = {}
    for p in proofs:
        of.setdefault(p.operator, []).append(p)
    count: dict[str, int] = {}
    for c in onnx_cases("^node/"):
        if not EXPANDED.match(c.name) and c.name.removeprefix("node/") not in failing:
            key = case_operator(c)
            count[key] = count.get(key, 0) + 1
    rows = []
    for key in sorted({*of, *count} - {""}):
        some = of.get(key, [])
        shown = [p for p in some if p.proof.holds]
        notion = min((p.proof.notion for p in shown), default=UNKNOWN)
        why = next((p.proof.reason for p in some if not p.proof.holds), "")
        rows.append(RuleRow(key, len(some), len(shown), int(notion), count.get(key, 0), " ".join(why.split())[:160]))
    return rows


def written_table(rows: Iterable[RuleRow], path: str) -> None:
    """Write the table."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(RuleRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(r) for r in rows)


def rows() -> list[RuleRow]:
    """The table as it is today."""
    with (SPECS / "onnx_cases.csv").open(encoding="utf-8") as file:
        failing = [r["case"].removesuffix("_cpu") for r in csv.DictReader(file)]
    return made_table(prove_rules(), failing)


if __name__ == "__main__":
    written_table(rows(), str(ROOT / "verify/frontends" / TABLE))
