"""The operator that a tensor function claims to be, for exports to languages of operators.

specs/lower.md, "Export" and "legalize".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from assay.semantics.graph import CallTIR, Function
from assay.semantics.linked import unlinked
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator

Claimed: TypeAlias = Function | tuple[Operator, Mapping[str, Any]]


def claimed_of(module: Module, node: CallTIR) -> Claimed | None:
    """What the tensor function of a call is: the calls of its group, or an operator with its attributes; None where it
    is neither, or takes what is no tensor."""
    kernel = module.kernel(node.func)
    plain = unlinked(kernel)
    if plain is not kernel or node.scalars:
        return None
    if (group := module.group(plain)) is not None:
        return group
    if "operator" not in plain.attrs:
        return None
    op = operator(plain.attrs["operator"])
    return op, op.check_attrs(plain.attrs.get("attrs", {}))
