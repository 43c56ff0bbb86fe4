"""Formulas over tensors, at import (specs/lower.md, "Import")."""

from __future__ import annotations

from math import prod

from assay.lower.frontends.onnx.node import MOST_ELEMENTS, Node
from assay.semantics.composed.terms import Term


def folded(node: Node, t: Term) -> Term:
    """The value of a term, where it depends on no input and is not large: computed by the import, in the run it is
    exact."""
    of, builder = t.type, node.builder
    if not builder.is_closed(t.expr) or not of.is_static or prod(of.static_shape) > MOST_ELEMENTS:
        return t
    value = builder.value(t.expr)
    return t if value is None else Term(node, node.constant(value, of.dtype))
