"""Whether a pass of the user's own keeps the module (specs/verify.md, "Optional passes").

Nothing is known of such a pass. Where value numbering shows the same value, that is a proof; else the module that it
made is run, and its outputs must lie in the bounds of the module before. Where these exclude nothing, as in a deep
model, they must not lie implausibly far from correct runs of the module before. What holds on the inputs of the run is
asked once more on the same with NaN, infinities and zeros with a sign among them: a rule of algebra that is none of
floats (x - x is 0, x + 0 is x) shows nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.module import Module
from assay.verify.evidence import Context, Evidence, of_outcome, plural
from assay.verify.judge.samples import special_sets
from assay.verify.judge.spread import CorrectRuns
from assay.verify.oracle import Oracle
from assay.verify.oracle.data import takes
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
    oracle = Oracle(before)
    outcome, said = _judged(oracle, after, inputs)
    said = f"on the inputs of this run: {said}"
    if outcome not in ("right", "open"):
        return of_outcome(outcome, said)
    found = [
        (sample.name, *_judged(oracle, after, sample.inputs))
        for sample in special_sets(inputs, context.seed)
        if takes(before, sample.inputs, whole=True)
    ]
    for name, special, why in found:
        if special in ("wrong", "implausible"):
            return of_outcome(special, f"on the inputs of this run with {name} among them: {why}")
    held = sum(special in ("right", "open") for _, special, _ in found)
    also = f"; on {plural(held, 'set')} with specials among them too" if held else ""
    if any("which is free there" in why for _, _, why in found):
        also += ", but for the signs of zeros, which are free there"
    return of_outcome("open" if "open" in (outcome, *(o for _, o, _ in found)) else outcome, said + also)


def _judged(oracle: Oracle, after: Module, inputs: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict on what the module made gives on these inputs, and why."""
    outputs: Any
    try:
        outputs = graph.run(after, inputs)
    except Trap as trap:
        outputs = trap
    except Unpredictable as why:
        return "unpredictable", str(why)
    verdict = oracle.judge(inputs, outputs)
    if verdict.outcome == "undecided" and (far := implausible(oracle.module, inputs, outputs)):
        return "implausible", far
    return verdict.outcome, verdict.detail or verdict.outcome


def implausible(before: Module, inputs: Mapping[str, Any], outputs: Any) -> str:
    """What of the outputs is implausibly far from correct runs of the module, in words; "" where nothing is."""
    if not isinstance(outputs, Mapping):
        return ""
    spread = CorrectRuns(before, inputs).spread()
    found = [spread.distance(n, v) for n, v in outputs.items() if isinstance(v, np.ndarray)]
    return next((str(d) for d in found if d is not None and d.implausible), "")
