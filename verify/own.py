"""Whether a pass of the user's own keeps the module (specs/verify.md, "Optional passes").

Nothing is known of such a pass. Where value numbering shows the same value, that is a proof; else the module that it
made is run, and its outputs must lie in the bounds of the module before. Where these exclude nothing, as in a deep
model, they must not lie implausibly far from correct runs of the module before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.module import Module
from assay.verify.evidence import Context, Evidence, of_outcome
from assay.verify.judge.spread import CorrectRuns
from assay.verify.oracle import Oracle
from assay.verify.simplify import check_simplified


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the module is the same, for every input or on those of this run."""
    try:
        same = check_simplified(before, after, new=True)
    except Invalid:
        same = None
    if same is not None and same.holds:
        return same
    inputs = {p.name: context.inputs[p.name] for p in before.main.params}  # others may have become constants
    outputs: Any
    try:
        outputs = graph.run(after, inputs)
    except Trap as trap:
        outputs = trap
    except Unpredictable as why:
        return of_outcome("unpredictable", str(why))
    verdict = Oracle(before).judge(inputs, outputs)
    if verdict.outcome == "undecided" and (far := implausible(before, inputs, outputs)):
        return of_outcome("implausible", f"on the inputs of this run: {far}")
    return of_outcome(verdict.outcome, f"on the inputs of this run: {verdict.detail or verdict.outcome}")


def implausible(before: Module, inputs: Mapping[str, Any], outputs: Any) -> str:
    """What of the outputs is implausibly far from correct runs of the module, in words; "" where nothing is."""
    if not isinstance(outputs, Mapping):
        return ""
    spread = CorrectRuns(before, inputs).spread()
    found = [spread.distance(n, v) for n, v in outputs.items() if isinstance(v, np.ndarray)]
    return next((str(d) for d in found if d is not None and d.implausible), "")
