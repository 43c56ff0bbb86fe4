"""Whether evaluating an expression may trap, by its looks alone (rule M5.8; specs/semantics.md, "Scalars")."""

from __future__ import annotations

from assay.semantics.scalar.expression import Expr, choice, select, step_may_fail
from assay.semantics.walk import post_order


def may_fail(expr: Expr) -> bool:
    """Whether a step of it reads memory, divides, shifts, or converts to a whole number."""
    return any(map(step_may_fail, post_order(expr)))


def tvm_select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """TVM's `Select`: it may be evaluated either way, and TVM's pipeline makes it lazy where a branch can fail."""
    if may_fail(then) or may_fail(otherwise):
        return choice(condition, then, otherwise, as_select=True)
    return select(condition, then, otherwise)
