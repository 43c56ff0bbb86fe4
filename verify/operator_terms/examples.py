"""What is proved of an operator's kernel at the sizes of the operator's examples (specs/verify.md, "legalize")."""

from __future__ import annotations

from dataclasses import dataclass

from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import dtype
from assay.semantics.operator import Example, Operator
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion
from assay.verify.operator_terms import KernelProof, prove_kernel
from assay.verify.operator_terms.exhaustion import count_inputs, prove_by_all_inputs, uses_of
from assay.verify.trials.batch import stores

MOST = 20_000
"""Stores of a kernel that is run over terms."""

WORDS = {
    BIT_EXACT: "proved bit for bit",
    REASSOCIATED: "proved up to the order in which floats are added and multiplied",
    REAL: "proved as a function of real numbers (its bits are tested by runs)",
    UNKNOWN: "tested by runs",
}


@dataclass(frozen=True)
class ExampleProof:
    """One example, and what is proved of the kernel at its sizes."""

    example: Example
    proof: KernelProof


def prove_examples(op: Operator) -> list[ExampleProof]:
    """What is proved of an operator's kernel for every input at the sizes of each example; none of a view, which has no
    kernel."""
    return [] if op.view else [prove_example(op, e) for e in uses_of(op)]


def prove_example(op: Operator, example: Example) -> ExampleProof:
    """The same of one example."""
    return ExampleProof(example, _proved(op, example))


def _proved(op: Operator, example: Example) -> KernelProof:
    operands = tuple(TensorType(shape, dtype(name)) for shape, name in example.operands)
    attrs = op.check_attrs(example.attrs)
    kernel = build(op.name, attrs, operands, op.type_rule(attrs, operands), "kernel")
    if stores(kernel) > MOST:
        return KernelProof(UNKNOWN, f"more than {MOST} stores are not run over terms")
    proof = prove_kernel(kernel, op, attrs)
    if proof.holds or count_inputs(kernel) is None:
        return proof
    return prove_by_all_inputs(kernel, op, attrs)


def least(proofs: list[ExampleProof]) -> Notion:
    """What is proved at all the sizes."""
    return min((p.proof.notion for p in proofs), default=BIT_EXACT)


def told_proofs(proofs: list[ExampleProof]) -> str:
    """In one sentence what is proved, at which sizes, and why not more."""
    shown = [p for p in proofs if p.proof.holds]
    if not shown:
        return f"{WORDS[UNKNOWN]}: {proofs[0].proof.reason}"
    said = WORDS[least(shown)] + " for every input, at the sizes of "
    if len(shown) == len(proofs):
        return said + ("all examples" if len(proofs) > 1 else "the example")
    other = next(p for p in proofs if not p.proof.holds)
    return said + f"{len(shown)} of {len(proofs)} examples; the others {WORDS[UNKNOWN]}: {other.proof.reason}"
