"""The elementary functions of tensor functions (rule M10.4; specs/semantics.md, "Numbers")."""

from __future__ import annotations

from assay.semantics.scalar import TRANSCENDENTAL, Apply
from assay.semantics.tensor import PrimFunc, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import post_order


def elementary_functions(func: PrimFunc) -> list[str]:
    """The operations that a tensor function uses whose value is a choice within a bound, by name: correct
    implementations may differ in the last bits. What it calls is not looked at."""
    roots = (e for stmt in program_order(without_blocks(func).body) for e in stmt.expressions)
    return sorted({e.op for r in roots for e in post_order(r) if isinstance(e, Apply) and e.op in TRANSCENDENTAL})
