"""Whether evaluating an expression may trap, by its looks alone (rule M5.8; specs/semantics.md, "Scalars")."""

from __future__ import annotations

from assay.semantics.scalar.expression import Apply, Cast, Choice, Const, Expr, Load, choice, select
from assay.semantics.walk import post_order

_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def may_fail(expr: Expr) -> bool:
    """Whether a step of it reads memory, divides, shifts, or converts to a whole number."""
    return any(_may_fail(n) for n in post_order(expr))


def _may_fail(node: Expr) -> bool:
    match node:
        case Load() | Choice():
            return True
        case Apply(op=op, args=(_, Const() as b)) if op in _DIVISIONS:
            return bool(b.value == 0)
        case Apply():
            return node.op in (*_DIVISIONS, "shl", "shr")
        case Cast():
            return node.arg.dtype.is_float and node.dtype.is_integer
        case _:
            return False


def tvm_select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """TVM's `Select`: it may be evaluated either way, and TVM's pipeline makes it lazy where a branch can fail."""
    if may_fail(then) or may_fail(otherwise):
        return choice(condition, then, otherwise, as_select=True)
    return select(condition, then, otherwise)
