"""Kernels of one operator that are alike but for their sizes have one proof (specs/verify.md, "legalize").

With symbols for its sizes a kernel of the operator is shown to be the operator for all of them. A kernel whose
statements are those, with numbers for the symbols, is thus shown too. Nothing rests on how either was made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assay.semantics.analyses.equality import structural_equal
from assay.semantics.errors import Invalid
from assay.semantics.graph.matching import Bound, instantiate
from assay.semantics.scalar import Const, Expr, Var, substitute
from assay.semantics.tensor import Assert, PrimFunc, Seq, Stmt, seq
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.all_sizes.small import symbols_of
from assay.verify.all_sizes.symbols import SymbolicUse
from assay.verify.symbolic.function import size_symbols
from assay.verify.trials.sizes import kernel_at


def in_order(use: SymbolicUse) -> SymbolicUse:
    """The same use with symbols that are named by the order in which they come: alike uses are spelled alike."""
    new = {v: Var(f"n{k}", v.dtype) for k, v in enumerate(symbols_of(use))}
    bound: Bound = {v: to for v, to in new.items()}

    def renamed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        return substitute(value, new) if isinstance(value, Expr) else value

    operands = tuple(t for of in use.operands if isinstance(t := instantiate(of, bound), TensorType))
    attrs = {k: renamed(v) for k, v in use.attrs.items()}
    own = {new[v]: n for v, n in use.own.items() if v in new}
    return replace(use, attrs=attrs, operands=operands, result=instantiate(use.result, bound), own=own)


def spelled_use(use: SymbolicUse) -> str:
    """What tells a use from others, once its symbols are named in order."""
    return f"{use.op.name} {dict(use.attrs)} {[str(t) for t in use.operands]}"


def is_instance(kernel: PrimFunc, general: PrimFunc, use: SymbolicUse) -> bool:
    """Whether a kernel has the statements of one with symbols, with the numbers of a use for these."""
    own = {v.name: n for v, n in use.own.items()}
    symbols = size_symbols(general)
    if any(v.name not in own for v in symbols):
        return False
    try:
        there = kernel_at(general, {v: own[v.name] for v in symbols})
    except Invalid:
        return False
    return structural_equal(_bare(kernel), _bare(there))


def _bare(kernel: PrimFunc) -> PrimFunc:
    """A kernel without its name, what it says of itself, and assertions of what is true."""
    plain = without_blocks(kernel)
    return replace(plain, name="kernel", attrs={}, body=rewrite(plain.body, _without_truths))


def _without_truths(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Seq):
        return stmt
    left = [
        s for s in stmt.body if not (isinstance(s, Assert) and isinstance(s.condition, Const) and s.condition.value)
    ]
    return seq(*left) if len(left) < len(stmt.body) else stmt
