"""Proofs about the accesses of a tensor function for all sizes, by z3 (specs/verify.md, "Proofs for all sizes").

report = prove_accesses(func)            # or bounds={"n": (1, 1024)}
report.verdict                           # "proved", "refuted" or "unknown"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.semantics.scalar import Expr, show, variables
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.calls import without_calls
from assay.semantics.tensor.recast import in_units, is_bytewise
from assay.semantics.tensor.rules import check_prim_func
from assay.verify.proof_texts import keeps_questions
from assay.verify.symbolic import places
from assay.verify.symbolic.alignment import aligned, memory
from assay.verify.symbolic.function import MOST_BYTES, Bounds, Function, size_symbols
from assay.verify.symbolic.goals import Goal, ProofReport
from assay.verify.symbolic.initialisation import outputs_written, written_before
from assay.verify.symbolic.races import independent
from assay.verify.symbolic.regions import declared

__all__ = ["Bounds", "Goal", "ProofReport", "prove_accesses"]


def prove_accesses(
    func: PrimFunc,
    bounds: Bounds | None = None,
    functions: Mapping[str, PrimFunc] | None = None,
    around: Sequence[Buffer] = (),
    initialised: bool = True,
    brief: bool = False,
) -> ProofReport:
    """The goals of a function and their verdicts, for every value of its sizes.

    `bounds` narrows integer symbols and scalars by name, (least, most) with None for no bound. Dims are 0 or more
    anyway. A symbol of which nothing is said may have any value of its dtype. `functions` are those that may be called,
    `around` buffers that there are whenever it runs, in its symbols.
    Without `initialised` there are no goals about what was written: for who shows that in another way. With `brief`
    goals that loops show by their extents (`plain.py`) have no query: for who wants to know whether all hold.
    Invalid (symbolic.C1) for a name that is not there, and for a function that is ill-formed.
    """
    check_prim_func(func)
    if is_bytewise(func, functions or {}):  # what bytes are in which numbers is said in plain nodes
        func = in_units(without_calls(func, functions or {}))
    own = set(size_symbols(func))
    around = [b for b in around if all(v in own for d in b.shape if isinstance(d, Expr) for v in variables(d))]
    f = Function(func, bounds or {}, functions or {}, around, brief and not keeps_questions())
    goals = [
        Goal("understood", why, "unknown", stmt.span, "nothing is shown of it; checked on the run")
        for stmt, why in f.events.strange
    ]
    for premises in (places.overflow_goals, places.windows):  # what the others rest on
        goals += premises(f)
    alone = (places.arithmetic, places.scopes, places.matches, aligned, places.negative, places.domains, places.bounds)
    for claims in (*alone, *((written_before, outputs_written) if initialised else ()), independent, declared):
        goals += claims(f)
    assumes = [f"no dim is more than {MOST_BYTES}, and no buffer takes more bytes than that"] if f.symbols else []
    if around:
        told = ", ".join(f"{b.name} ({', '.join(map(show, b.shape))})" for b in around)
        assumes.append(f"its sizes are those of {told}, in every call")
    assumes += memory(f)
    if f.events.checks:
        assumes.append(f"{len(f.events.checks)} asserts of the function hold: they are checked on the run")
    for name, (low, high) in f.bounds.items():
        assumes += [f"{name} >= {low}"] if low is not None else []
        assumes += [f"{name} <= {high}"] if high is not None else []
    return ProofReport(func.name, tuple(goals), tuple(assumes))
