"""Which operator a call is (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.semantics.graph import Call, CallTIR
from assay.semantics.linked import unlinked
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.scalar import Expr


def meant(node: Call | CallTIR, attrs: Mapping[str, Any], module: Module) -> tuple[Operator, Mapping[str, Any]] | None:
    """The operator and its attributes; of a tensor function what it claims to be, None where it claims nothing that can
    be used without more."""
    if isinstance(node, Call):
        assert isinstance(node.op, Operator)
        return node.op, attrs
    kernel = module.kernel(node.func)
    claim, given = kernel.attrs.get("operator"), kernel.attrs.get("attrs")
    if not isinstance(claim, str) or given is None or unlinked(kernel) is not kernel:
        return None
    return None if any(isinstance(v, Expr) for v in given.values()) else (operator(claim), given)


def call_title(node: Call | CallTIR) -> str:
    """A call's operator, for people, with its place."""
    name = (
        node.op.name if isinstance(node, Call) and isinstance(node.op, Operator) else str(getattr(node, "func", "call"))
    )
    return f"{name} at {node.span}" if node.span else name
