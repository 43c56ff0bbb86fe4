"""Operator calls become calls of tensor functions (specs/lower.md, "legalize").

Calls of one operator with equal attributes and operand types share one kernel. Views (reshape and its like) stay: they
are names for bytes, not work. Sizes must be known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from assay.lower.kernels import build
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Call, Expr, Function, call_tir
from assay.semantics.module import Definition, Module
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, flatten
from assay.semantics.walk import rewrite

Strategy: TypeAlias = Callable[[Call, str], PrimFunc | None]
"""A kernel of the given name for an operator's call, or None for the usual one. The check holds it to the operator."""


def legalize(module: Module, strategy: Strategy = lambda call, name: None) -> Module:
    """The module without operators: each is a tensor function of its own, called by name.

    `strategy` may choose another lowering than `assay.lower.kernels` has (row R39).
    """
    definitions: dict[str, Definition] = dict(module.definitions)
    known: dict[tuple[Any, ...], PrimFunc] = {}

    def change(node: Expr) -> Expr:
        if not (isinstance(node, Call) and isinstance(node.op, Operator)) or node.op.view:
            return node
        operands = tuple(a.type for a in node.args if isinstance(a.type, TensorType))
        symbolic = next((t for t in (*operands, *flatten(node.type)) if not t.is_static), None)
        if symbolic is not None:
            raise Unsupported(
                f"{node.op.name} has an operand or result {symbolic}: sizes must be known to lower it;"
                " give each symbolic dim a value, such as --dim N=4",
                where=node.span,
                label="legalize.C1",
            )
        key = (node.op.name, str(sorted(node.attrs.items())), str(operands), str(node.type))
        if key not in known:
            name = _name(node.op.name, definitions)
            kernel = strategy(node, name) or build(node.op.name, node.attrs, operands, node.type, name)
            known[key] = kernel = replace(kernel, attrs={**kernel.attrs, **origin(node)})
            definitions[name] = kernel
        return call_tir(known[key].name, node.args, node.type, node.span)

    for name, d in module.definitions.items():
        if isinstance(d, Function):
            root: Expr = d
            new = rewrite(root, change)
            assert isinstance(new, Function)
            definitions[name] = new
    return replace(module, definitions=definitions)


def origin(node: Call) -> Mapping[str, Any]:
    """What a kernel says it computes: the operator's name and attributes. The checker holds the kernel to it."""
    assert isinstance(node.op, Operator)
    return {"operator": node.op.name, "attrs": dict(node.attrs)}


def _name(op: str, taken: Mapping[str, Any]) -> str:
    base = re.sub(r"\W", "_", op)
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}{count}"
    return name
