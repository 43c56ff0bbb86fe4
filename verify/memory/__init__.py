"""Whether a memory plan is good (specs/verify.md, "Memory plans").

check_plan(problem, plan)     # the definition, pair by pair, in numbers
prove_plan(problem, plan)     # by z3, each text kept; symbolic sizes: for all values within their bounds
second_opinion(proof.queries) # by cvc5
"""

from assay.verify.memory.definition import CLAIMS, Fault, check_plan, faults
from assay.verify.memory.proof import Proof, prove_plan
from assay.verify.memory.second import available, recheck_text, second_opinion

__all__ = [
    "CLAIMS",
    "Fault",
    "Proof",
    "available",
    "check_plan",
    "faults",
    "prove_plan",
    "recheck_text",
    "second_opinion",
]
