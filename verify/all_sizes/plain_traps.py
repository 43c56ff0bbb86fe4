"""Where a step that may trap by its data is evaluated (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics import tensor
from assay.semantics.indexed.fold import Accumulator
from assay.semantics.scalar import Apply, Cast, Expr, Load, may_trap
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import post_order
from assay.verify.all_sizes.pieces import NotFollowed
from assay.verify.all_sizes.scattered import own_element
from assay.verify.all_sizes.space import is_data, is_index_term


def require_plain_traps(func: PrimFunc) -> None:
    """What may trap is stored to outputs alone, to each once: then it is evaluated exactly where a value has it."""
    every = list(tensor.program_order(func.body))
    stores = [s for s in every if isinstance(s, tensor.Store)]
    if any(can_fail(e) for s in every if not isinstance(s, tensor.Store) for e in s.expressions):
        raise NotFollowed("a step that may trap is part of no value")
    if not any(can_fail(e) for s in stores for e in _expressions(s)):
        return
    flow = [e for s in every for e in (s.indices if isinstance(s, tensor.Store) else s.expressions)]
    if any(isinstance(n, Apply) and may_trap(n) for e in flow for n in post_order(e)):
        raise NotFollowed("a size is divided beside data that may trap")
    targets = [s.buffer for s in stores]
    failing = {s.buffer for s in stores if any(map(can_fail, _expressions(s)))}
    if not failing <= set(func.outputs) or any(targets.count(b) > 1 for b in failing):
        raise NotFollowed("a step that may trap is not stored at once to an output")


def _expressions(stmt: tensor.Store) -> Sequence[Expr]:
    """Those of a store, without the element that it stores to: where that traps, the store does."""
    return *stmt.indices, own_element(stmt, Accumulator(stmt.buffer.dtype))


def can_fail(expr: Expr) -> bool:
    """Whether a step of an expression may trap by its data: a division, a shift, a conversion, a place."""
    for node in post_order(expr):
        match node:
            case Apply() if may_trap(node) and not is_index_term(node):
                return True
            case Cast() if node.arg.dtype.is_float and node.dtype.is_integer:
                return True
            case Load() if any(map(is_data, node.indices)):
                return True
    return False
