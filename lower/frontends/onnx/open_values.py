"""Which values that an import computes hang on what ONNX leaves open (specs/semantics.md, M9.9; specs/lower.md,
"Import")."""

from __future__ import annotations

from collections.abc import Collection

from assay.semantics.graph import Call, Constant, Expr
from assay.semantics.left_open import use
from assay.semantics.left_open.conditions import cast_out_of_range, no_quotient
from assay.semantics.operator import Operator


def is_open(call: Expr, made: Constant, known: Collection[Expr]) -> bool:
    """Whether a value, `made` by a call of constants, hangs on one that is open (rule M9.9): on one of those `known`,
    or on a cast or a quotient that has no value here. What a Where drops it does not hang on."""
    if not isinstance(call, Call) or not isinstance(call.op, Operator):
        return any(c in known for c in call.children)
    operands = [c.data for c in call.children if isinstance(c, Constant)]
    if call.attrs.get("open") and len(operands) == len(call.children):
        find = cast_out_of_range if call.op.name == "astype" else no_quotient
        if any(o.where.any() for o in find(use(call.op.name, call.attrs, operands, made.data))):
            return True
    if call.op.name == "where" and len(operands) == 3:
        condition, a, b = call.children
        return condition in known or (a in known and bool(operands[0].any())) or (b in known and not operands[0].all())
    return any(c in known for c in call.children)
