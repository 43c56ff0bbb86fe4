"""What may be folded, wherever folding is done (specs/lower.md, "simplify", rules D5 and D6).

Folding of graph functions (`assay.lower.simplify.fold`), of the stage constants (`assay.lower.constants.fold`) and of
made constants (`assay.lower.constants.made`) ask here. That what would trap stays is known by evaluating it.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.graph import Call, CallTIR, Expr, MatchCast, TupleGetItem
from assay.semantics.graph.effects import acts, is_copy
from assay.semantics.graph.sizes import sizes_used
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor.calls import calls_extern
from assay.semantics.types import TensorType, flatten

SMALL = 4096
"""A constant of more bytes is only made where it takes no more than what it is made of, or is made from nothing."""


def may_evaluate(node: Expr, module: Module) -> bool:
    """Whether a node is a computation that can be done now, given its operands: a call of an operator or of a tensor
    function, or a cast. Not what acts, calls what is not here, depends on sizes that are not known, or is a call of a
    graph function, which may not end."""
    match node:
        case Call():
            if not isinstance(node.op, Operator):
                return False
        case CallTIR():
            if calls_extern(module.kernel(node.func)):
                return False
        case MatchCast():
            pass
        case _:
            return False
    return not acts(node) and next(sizes_used(node), None) is None and is_static(node)


def is_static(node: Expr) -> bool:
    """Whether a node is a tensor, or tuples of tensors, whose sizes are numbers."""
    return all(isinstance(t, TensorType) and t.is_static for t in flatten(node.type))


def may_grow(node: Expr, operands: Iterable[int], small: int = SMALL) -> bool:
    """Whether the value of a node, made of operands of so many bytes, may be kept in their place. So a weight that is
    kept as int8 is not made float32 again, and no broadcast is written out. What is made from nothing may be of any
    size: a weight that a model says by one number is a weight."""
    sizes = list(operands)
    return not sizes or sum(t.nbytes for t in flatten(node.type)) <= max(small, sum(sizes))


def home(node: Expr, operands: Iterable[VirtualDevice | None], module: Module) -> VirtualDevice | None:
    """Where the constant in place of `node` lives: where the node does, and where its operands do as far as that is
    open.

    None where nowhere would do: the operands are in different places, or what is said of one is contradictory (None).
    None too for a copy out of a special memory: who has put a constant there wants it loaded from there.
    """
    if is_copy(node, module):
        special = any(d is not None and d.scope not in ("", GLOBAL) for d in operands)
        return None if special else node.device
    view = isinstance(node, Call) and isinstance(node.op, Operator) and node.op.view
    same = view or isinstance(node, (TupleGetItem, MatchCast))
    found: VirtualDevice | None = node.device
    for said in operands:
        found = None if found is None or said is None else found.join(said if same else said.place)
    return found
