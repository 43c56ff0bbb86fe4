"""`assay prove --operator NAME`: a line for each example, and what is proved (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.all_sizes.for_operator import needs_text, notation_text, shape_text
from assay.verify.all_sizes.reached import Reached, reach, told_reach
from assay.verify.app.answers import write_answer
from assay.verify.app.terminal import Screen, cell
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, Notion
from assay.verify.exits import Exit
from assay.verify.operator_terms.exhaustion import uses_of

NOTIONS = {BIT_EXACT: "bit for bit", REASSOCIATED: "up to order", REAL: "over the reals"}


def show_operator(name: str, as_json: bool) -> int:
    """Say the operator in index notation, and what is proved of its kernel for all sizes, else at the sizes of its
    examples; the exit code of that. Invalid where there is no such operator (`prove.C2`)."""
    if name not in OPERATORS:
        raise Invalid(f"there is no operator {name!r}; specs/operators.md lists them", label="prove.C2")
    op = OPERATORS[name]
    found = [reach(op, e) for e in uses_of(op) if not op.view]
    notation = list(dict.fromkeys(line for r in found for line in _notation(r)))
    said = told_reach(found) if found else "it is a view and has no kernel"
    code = Exit.HOLDS if all(r.notion >= REAL for r in found) else Exit.UNKNOWN
    if as_json:
        answer = {
            "operator": name, "holds": code is Exit.HOLDS or None, "said": said, "notation": notation,
            "examples": [_data(r) for r in found], "exit": code,
        }  # fmt: skip
        write_answer(answer)
        return code
    console = Screen()
    if not found:
        console.print(cell(f"{name} is a view: it has no kernel"))
        return code
    made = Table("operands", "attributes", "kernel is operator", "reason", show_edge=False, pad_edge=False)
    made.columns[3].overflow = "fold"
    for r in found:
        made.add_row(*_row(r))
    console.print(made)
    for line in notation:
        console.print(cell(line))
    console.print(cell(f"{name}: {said}"))
    return code


def _data(r: Reached) -> dict[str, Any]:
    """An example by stable keys; `notion` is None where nothing is shown."""
    operands, attrs = _used(r)
    return {
        "operands": operands, "attributes": attrs, "all_sizes": r.general.holds, "notion": NOTIONS.get(r.notion),
        "reason": r.reason,
    }  # fmt: skip


def _row(r: Reached) -> tuple[Text, Text, Text, Text]:
    operands, attrs = _used(r)
    return cell(operands), cell(attrs), _verdict(r), cell(r.reason)


def _used(r: Reached) -> tuple[str, str]:
    """Operands and attributes of an example, in words."""
    if r.general.holds:
        operands = shape_text(r.general.use)
    else:
        operands = ", ".join(f"{name}{list(shape)}" for shape, name in r.example.operands)
    return operands, ", ".join(f"{k}={v!r}" for k, v in r.example.attrs.items())


def _verdict(r: Reached) -> Text:
    how: Notion = r.notion
    if how < REAL:
        return Text("not shown", "yellow")
    where = "for all sizes" if r.general.holds else "at these sizes"
    return Text(f"{where}, {NOTIONS[how]}", "green")


def _notation(r: Reached) -> list[str]:
    """The notation, of the first examples alone that differ; with what is asked of sizes."""
    lines = notation_text(r.general.use)
    needs = needs_text(r.general.use)
    return [line + (f"    where {', '.join(needs)}" if needs else "") for line in lines]
