"""Whether a schedule keeps a tensor function and its constants (specs/verify.md, "loops").

The function is well-formed and bit for bit the source, for every input at these sizes. Beside that each constant is
there once, before all loops, with its contents: as they were, or in another layout where that is said, and then it is
no longer the constant of the module's table that it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from assay.interp.graph import evaluate
from assay.lower.constants.made import laid
from assay.lower.loops.layout import Layout
from assay.semantics.bits import digest
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, constant
from assay.semantics.module import Module
from assay.semantics.tensor import AllocateConst, For, PrimFunc, Stmt, program_order
from assay.semantics.tensor.places import is_private
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.evidence import Context, Evidence, plural, proved, refuted
from assay.verify.kept import changed_beside, is_same


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether each tensor function that has changed is bit for bit what it was, and nothing else has changed."""
    changed = [n for n, k in after.kernels.items() if not is_same(before.definitions.get(n), k)]
    for name in changed:
        old = before.definitions.get(name)
        if not isinstance(old, PrimFunc):
            return refuted("proved", f"tensor function {name} is new")
        found = check_loop_schedule(old, after.kernel(name))
        if not found.holds:
            return refuted("proved", f"{name}: {found.detail}")
    others = changed_beside(before, after.with_(**{n: before.kernel(n) for n in changed}))
    if others:
        return refuted("proved", others)
    return proved(f"bit for bit the same for every input; {plural(len(changed), 'tensor function')} in other loops")


def check_loop_schedule(source: PrimFunc, target: PrimFunc, layouts: Mapping[str, Layout] | None = None) -> Evidence:
    """Whether `target` is `source` in other loops, with the constants that `layouts` names laid out so."""
    layouts = layouts or {}
    try:
        check_prim_func(target)
    except Invalid as wrong:
        return refuted("proved", str(wrong))
    wanted: Counter[str] = Counter()
    named: set[tuple[str, str]] = set()
    for s in _constants(source):
        data = s.contents
        if s.buffer.name in layouts:
            of = laid(TensorType(data.shape, dtype(data.dtype)), layouts[s.buffer.name])
            data = np.asarray(evaluate(Call(of.result_type, of, (constant(data),))))
        else:
            named.add((s.index, digest(data)))
        wanted[digest(data)] += 1
    found: Counter[str] = Counter()
    for s in _constants(target):
        key = digest(s.contents)
        found[key] += 1
        if s.index and (s.index, key) not in named:
            return refuted("proved", f"{s.buffer.name} is said to be the constant {s.index}, and has other contents")
        if found[key] > wanted[key]:
            what = "there more often than in the source" if wanted[key] else "no constant of the source"
            return refuted("proved", f"{s.buffer.name} is {what}")
    if found != wanted:
        return refuted("proved", "a constant of the source is gone")
    for loop in program_order(target.body):
        inside = _constants(loop.body) if isinstance(loop, For) else []
        misplaced = next((s for s in inside if not is_private(s.buffer)), None)
        if misplaced is not None and isinstance(loop, For):
            return refuted("proved", f"{misplaced.buffer.name} begins inside the loop over {loop.var.name}")
    verdict = equivalent(source, target, weakest=BIT_EXACT)
    if not verdict.holds(BIT_EXACT):
        return refuted("proved", str(verdict))
    return proved(f"bit for bit the source; {sum(found.values())} constants, each once")


def _constants(of: PrimFunc | Stmt) -> list[AllocateConst]:
    body = of.body if isinstance(of, PrimFunc) else of
    return [s for s in program_order(body) if isinstance(s, AllocateConst)]
