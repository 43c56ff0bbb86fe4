"""What `without_blocks` would have to remove from a function (specs/semantics.md, "Blocks")."""

from __future__ import annotations

from assay.semantics.scalar import Apply, Choice
from assay.semantics.scalar.arithmetic import DERIVED
from assay.semantics.tensor.places import is_kept, is_private
from assay.semantics.tensor.recast import views_of
from assay.semantics.tensor.statements import Alias, Block, Call, For, Pragma, PrimFunc, allocated, program_order
from assay.semantics.walk import post_order


def wants_pointers(func: PrimFunc) -> bool:
    """Whether C can say something of a function that other plain nodes cannot."""
    return any(isinstance(s, Call) or any(map(is_kept, views_of(s))) for s in program_order(func.body))


def has_sugar(func: PrimFunc) -> bool:
    """Whether a function has more than plain nodes."""
    if any(map(is_private, func.params)):
        return True
    for stmt in program_order(func.body):
        if any(map(is_private, allocated(stmt))):
            return True
        if isinstance(stmt, (Block, Alias, Pragma, Call)) or (isinstance(stmt, For) and stmt.start is not None):
            return True
        for expr in stmt.expressions:
            for node in post_order(expr):
                if isinstance(node, Choice) or (isinstance(node, Apply) and node.op in DERIVED):
                    return True
    return False
