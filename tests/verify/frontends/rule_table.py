"""Writes verify/frontends/onnx_rules.csv: `python -m tests.verify.frontends.rule_table`."""

from __future__ import annotations

import csv

from assay.verify.frontends.onnx_rules import TABLE, RuleRow, made_table, prove_rules, written_table
from tests.places import ROOT, SPECS


def rows() -> list[RuleRow]:
    """The table as it is today."""
    with (SPECS / "onnx_cases.csv").open(encoding="utf-8") as file:
        failing = [r["case"].removesuffix("_cpu") for r in csv.DictReader(file)]
    return made_table(prove_rules(), failing)


if __name__ == "__main__":
    written_table(rows(), str(ROOT / "verify/frontends" / TABLE))
