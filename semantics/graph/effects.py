"""What a step of evaluation may do besides give a value: fail, or act (rules M1 and M3; specs/semantics.md, "Order").

A node that fails or acts keeps its place in the order of evaluation, and is never moved to a path that did not demand
it. All others are pure and total: when they are evaluated cannot be observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.semantics.graph import (
    Call,
    CallTIR,
    Constructor,
    Expr,
    Function,
    If,
    Match,
    MatchCast,
    ShapeExpr,
    acts as acts,
)
from assay.semantics.linked import unlinked
from assay.semantics.module import GROUP, Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_extern
from assay.semantics.tensor.copying import DEVICE_COPY, claims_copy
from assay.semantics.types import TensorType, same_type


def can_fail(node: Expr, module: Module) -> bool:
    """Whether evaluating the node itself, its operands done, may trap or not end. What acts is not asked
    (rule M3.2)."""
    match node:
        case Call():
            if isinstance(node.op, Operator):
                if any(_computed(a) for a in node.attrs.values()):
                    return True
                shapes = [a.type.shape for a in node.args if isinstance(a.type, TensorType)]
                return operator_can_trap(node.op, shapes, node.attrs)
            return not isinstance(node.op, Constructor)
        case CallTIR():
            return kernel_can_trap(module.kernel(node.func))
        case MatchCast():
            return not same_type(node.type, node.value.type)
        case ShapeExpr():
            return any(_computed(d) for d in node.dims)
        case If():  # a size in which the branches may differ could have got another value before
            return not all(same_type(node.type, b.type) for b in (node.then, node.otherwise))
        case Match():
            return node.partial or not all(same_type(node.type, c.body.type) for c in node.clauses)
        case _:
            return False


def _computed(value: object) -> bool:
    """Whether a size is computed: it may turn out negative, or divide by zero."""
    if isinstance(value, (tuple, list)):
        return any(map(_computed, value))
    return isinstance(value, Scalar) and not isinstance(value, Symbol)


BY_SIZE = ("contraction", "pooling", "reduction", "stepwise")
"""Families whose operators trap for sizes alone: a window that does not fit, an axis of size 0 or of too few elements.
Where these sizes are numbers, the type rule has refused those."""


def operator_can_trap(op: Operator, shapes: Sequence[Sequence[Dim]], attrs: Mapping[str, Any]) -> bool:
    """Whether a well-typed use on operands of these shapes may trap. What is open where it has no value does not."""
    if not op.can_trap or attrs.get("open") is True:
        return False
    return op.family not in BY_SIZE or not all(isinstance(d, int) for d in _deciding(op, shapes, attrs))


def _deciding(op: Operator, shapes: Sequence[Sequence[Dim]], attrs: Mapping[str, Any]) -> list[Dim]:
    """The sizes for which an operator of those families may trap: of axes that windows move over and of windows, or of
    reduced axes. How many images or rows there are is none of them."""
    if op.family == "reduction":
        (x,) = shapes
        axes = attrs.get("axis")
        return list(x) if axes is None else [x[a] for a in axes]
    if op.family == "stepwise":
        return [shapes[0][attrs.get("axis", -1)], attrs.get("k", 0)]
    return [d for shape in shapes[:2] for d in shape[2:]]


def kernel_can_trap(kernel: PrimFunc) -> bool:
    """Whether a tensor function may trap, or acts by calling an extern: not if it claims to be an operator that cannot
    (legalize's check holds it to that), a copy, or a group of such calls (fuse's check holds it to that)."""
    if calls_extern(kernel):
        return True
    if GROUP in kernel.attrs:
        return False
    kernel = unlinked(kernel)
    claim = kernel.attrs.get("operator")
    if claim == "astype" and kernel.params[0].dtype is kernel.params[1].dtype:
        return False
    shapes = [b.shape for b in kernel.inputs]
    return claim is None or operator_can_trap(operator(claim), shapes, kernel.attrs.get("attrs") or {})


def is_opaque(node: Expr) -> bool:
    """A function marked as a primitive, or for another compiler: passes bind it, keep it as it is and never enter it
    (row A6)."""
    return isinstance(node, Function) and ("primitive" in node.attrs or "compiler" in node.attrs)


def is_copy(node: Expr, module: Module) -> bool:
    """Whether a node is a copy between devices: a call of the operator, or of its kernel."""
    match node:
        case Call(op=Operator() as op):
            return op.name == DEVICE_COPY
        case CallTIR():
            kernel = module.definitions.get(node.func)
            return isinstance(kernel, PrimFunc) and claims_copy(kernel)
        case _:
            return False
