"""`assay prove --operator NAME`: a line for each example, and what is proved (specs/verify.md, "legalize")."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.app.terminal import Screen, cell
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, Notion
from assay.verify.exits import Exit
from assay.verify.operator_terms.examples import ExampleProof, least, prove_examples, told_proofs

NOTIONS = {BIT_EXACT: "bit for bit", REASSOCIATED: "up to order", REAL: "over the reals"}


def show_operator(name: str, console: Screen) -> int:
    """Print what is proved of an operator's kernel at the sizes of its examples; the exit code of that. Invalid where
    there is no such operator (`prove.C2`)."""
    if name not in OPERATORS:
        raise Invalid(f"there is no operator {name!r}; specs/operators.md lists them", label="prove.C2")
    op = OPERATORS[name]
    proofs = prove_examples(op)
    if not proofs:
        console.print(cell(f"{name} is a view: it has no kernel"))
        return Exit.HOLDS
    made = Table("operands", "attributes", "kernel is operator", "reason", show_edge=False, pad_edge=False)
    made.columns[3].overflow = "fold"
    for p in proofs:
        made.add_row(*_row(p))
    console.print(made)
    console.print(cell(f"{name}: {told_proofs(proofs)}"))
    return Exit.HOLDS if least(proofs) >= REAL else Exit.UNKNOWN


def _row(p: ExampleProof) -> tuple[Text, Text, Text, Text]:
    operands = ", ".join(f"{name}{list(shape)}" for shape, name in p.example.operands)
    attrs = ", ".join(f"{k}={v!r}" for k, v in p.example.attrs.items())
    return cell(operands), cell(attrs), _verdict(p.proof.notion), cell(p.proof.reason)


def _verdict(notion: Notion) -> Text:
    return Text(NOTIONS.get(notion, "not shown"), "green" if notion >= REAL else "yellow")
