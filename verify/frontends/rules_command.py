"""`assay prove --rule NAME`, `assay prove --rules MODEL`: how ONNX's operators are known to be imported as the standard
says (specs/verify.md, "Import")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.table import Table

from assay.lower.frontends.onnx.reading import load_model
from assay.semantics.errors import Invalid
from assay.verify.app.answers import write_answer
from assay.verify.app.terminal import Screen, cell
from assay.verify.equivalence import Notion
from assay.verify.evidence import plural
from assay.verify.exits import Exit
from assay.verify.frontends.onnx_rules import RuleRow, is_proved, known_rules, operators_of, prove_rules
from assay.verify.operator_terms.command import NOTIONS


def show_rule(name: str, as_json: bool) -> int:
    """Prove the cases of an operator that come with its body, and print a line for each; the exit code of that.
    Invalid (prove.C3) where there are none."""
    proofs = list(prove_rules(name))
    shown = [p for p in proofs if p.proof.holds]
    said = f"of {plural(len(proofs), 'case')}, {len(shown)} proved for every input, at the sizes of the case"
    code = Exit.HOLDS if len(shown) == len(proofs) else Exit.UNKNOWN
    if as_json:
        cases = [{"case": p.case, "notion": NOTIONS.get(p.proof.notion), "reason": p.proof.reason} for p in proofs]
        write_answer({"rule": name, "holds": code is Exit.HOLDS or None, "said": said, "cases": cases, "exit": code})
        return code
    console = Screen()
    made = Table("case", "rule is body", "reason", show_edge=False, pad_edge=False)
    made.columns[2].overflow = "fold"
    for p in proofs:
        made.add_row(cell(p.case), cell(NOTIONS.get(p.proof.notion, "not shown")), cell(p.proof.reason))
    console.print(made)
    console.print(cell(f"{name}: {said}"))
    return code


def show_rules(model: Path, as_json: bool) -> int:
    """Print how the rule of each operator of an ONNX model is known; the exit code of that. Invalid (prove.C4) where
    it uses no operator of ONNX's."""
    uses = operators_of(load_model(model))
    if not uses:
        raise Invalid("it has no node of an operator of ONNX's", where=str(model), label="prove.C4")
    known = known_rules()
    code = Exit.HOLDS if all(is_proved(known.get(k)) for k in uses) else Exit.UNKNOWN
    if as_json:
        rows = [
            {"operator": key, "nodes": count, "proved": is_proved(known.get(key)), "how": told_row(key, known)}
            for key, count in sorted(uses.items())
        ]
        said, holds = told_rules(uses, known), code is Exit.HOLDS or None
        write_answer({"model": str(model), "holds": holds, "said": said, "operators": rows, "exit": code})
        return code
    console = Screen()
    made = Table("operator", "nodes", "how its rule is known", show_edge=False, pad_edge=False)
    made.columns[1].justify = "right"
    made.columns[2].overflow = "fold"
    for key, count in sorted(uses.items()):
        made.add_row(cell(key), str(count), cell(told_row(key, known)))
    console.print(made)
    console.print(cell(told_rules(uses, known)))
    return code


def told_row(key: str, known: Mapping[str, RuleRow]) -> str:
    """How a rule is known, in words."""
    row = known.get(key)
    if row is None or not (row.bodies or row.cases):
        later = _later(key, known)
        return "no case of this version" + (f"; {later.operator}: {_told(later)}" if later else "")
    return _told(row)


def _told(row: RuleRow) -> str:
    cases = f"gives the stored results of {plural(row.cases, 'case')}"
    if not row.proved:
        return f"{cases}; not shown to be the standard's body: {row.reason}" if row.bodies else cases
    said = f"proved to be the standard's body, {NOTIONS[Notion(row.notion)]}, for every input at the sizes of"
    if is_proved(row):
        return f"{said} {plural(row.bodies, 'case')}"
    return f"{said} {row.proved} of {plural(row.bodies, 'case')}, the others not: {row.reason}; {cases}"


def _later(key: str, known: Mapping[str, RuleRow]) -> RuleRow | None:
    """The row of a later version of an operator: most versions differ in the dtypes that they take."""
    name, _, version = key.rpartition("-")
    rows = [r for k, r in known.items() if k.rpartition("-")[0] == name and int(k.rpartition("-")[2]) > int(version)]
    return min(rows, key=lambda r: int(r.operator.rpartition("-")[2]), default=None)


def told_rules(uses: Iterable[str], known: Mapping[str, RuleRow]) -> str:
    """One sentence: of how many operators the rule is proved, and what the others rest on."""
    names = list(uses)
    proved = [n for n in names if is_proved(known.get(n))]
    others = [known[n] for n in names if n not in proved and n in known]
    later = [n for n in names if n not in known and _later(n, known)]
    none = len(names) - len(proved) - len(others) - len(later)
    said = [f"of {plural(len(names), 'operator')} {len(proved)} proved to be the standard's body"]
    if others:
        cases = sum(r.cases for r in others)
        said.append(f"{len(others)} by {plural(cases, 'case')} of the standard's")
    if later:
        said.append(f"{len(later)} by cases of a later version alone")
    return ", ".join([*said, *([f"{none} without a case"] if none else [])])
