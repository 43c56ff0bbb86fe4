"""How far the proof of an operator's kernel reaches: for all sizes, at given ones, or not (specs/verify.md, "For all
sizes")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.operator import Example, Operator
from assay.verify.all_sizes.for_operator import GeneralProof, general_proof, sizes_left
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, Notion
from assay.verify.evidence import listed
from assay.verify.operator_terms.examples import ExampleProof, prove_example

HOW = {
    BIT_EXACT: "bit for bit",
    REASSOCIATED: "up to the order in which floats are added and multiplied",
    REAL: "as a function of real numbers (its bits are tested by runs)",
}


@dataclass(frozen=True)
class Reached:
    """One example: what is proved for all sizes, and, where that is nothing, at its own."""

    example: Example
    general: GeneralProof
    given: ExampleProof | None = None

    @property
    def notion(self) -> Notion:
        """In what sense the kernel is shown to be the operator."""
        return self.general.notion if self.given is None else self.given.proof.notion

    @property
    def reason(self) -> str:
        """Why no more is shown."""
        if self.given is None:
            return self.general.reason
        if self.given.proof.holds:
            how = f"; {self.given.proof.reason}" if self.given.proof.reason else ""
            return f"not for all sizes: {self.general.reason}{how}"
        return self.given.proof.reason


def reach(op: Operator, example: Example) -> Reached:
    """What is proved of an operator that is used as in an example."""
    general = general_proof(op, example)
    return Reached(example, general, None if general.holds else prove_example(op, example))


def told_reach(found: Sequence[Reached]) -> str:
    """In one sentence what is proved, for which sizes, and why not more."""
    wide = [r for r in found if r.general.holds]
    given = [r for r in found if not r.general.holds and r.notion >= REAL]
    rest = [r for r in found if r.notion < REAL]
    parts = []
    if wide:
        of = "" if len(wide) == len(found) else f", used as in {len(wide)} of {len(found)} examples"
        parts.append(f"proved for all sizes, every input, {HOW[min(r.notion for r in wide)]}{of}{_fixed(wide)}")
    if given:
        at = listed([_types(r.example) for r in given])
        parts.append(f"proved {HOW[min(r.notion for r in given)]} for every input at {at} ({given[0].reason})")
    if rest:
        of = "" if len(rest) == len(found) else f"{len(rest)} of {len(found)} examples "
        parts.append(f"{of}tested by runs: {rest[0].reason}")
    return "; ".join(parts)


def _types(example: Example) -> str:
    """The types of the operands of a use."""
    return " and ".join(f"{name}{list(shape)}" for shape, name in example.operands)


def _fixed(wide: Sequence[Reached]) -> str:
    """The sizes that stayed numbers somewhere."""
    numbers = [r for r in wide if sizes_left(r.general.use)]
    if not numbers:
        return ""
    first = ", ".join(map(str, sizes_left(numbers[0].general.use)))
    return (
        f" (but sizes that have to be numbers: {first} in {len(numbers)} of them)"
        if len(numbers) > 1
        else (f" (but sizes that have to be numbers: {first} in one)")
    )
