"""Every tensor that somebody shows, one by one (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.errors import Trap, Unpredictable
from assay.verify.judge.outcome import ShownTensor, tensor_error
from assay.verify.oracle import Expected, Oracle
from assay.verify.oracle.findings import Applied, TensorFinding
from assay.verify.oracle.flushing import FlushingRun
from assay.verify.oracle.walk import BoundedRun

Array = np.ndarray[Any, Any]


@dataclass
class _Told(BoundedRun):
    """A run with bounds that keeps what is said of each given tensor."""

    rows: list[ShownTensor] = field(default_factory=list)

    def found(self, tensor: str, by: Applied, wanted: Any, got: Array, index: int) -> TensorFinding:
        """Judge a tensor, and keep the verdict with its error."""
        finding = super().found(tensor, by, wanted, got, index)
        outcome = "wrong" if finding.wrong else "undecided" if finding.open else "right"
        self.rows.append(ShownTensor(tensor, by.name, outcome, finding.layer, tensor_error(tensor, wanted, got)))
        return finding


def shown_tensors(oracle: Oracle, expected: Expected, shown: Mapping[str, Array], is_wrong: bool) -> list[ShownTensor]:
    """The verdict on each tensor that is shown, on the operands that are, in the order of evaluation. What is outside
    of its bounds is *open* where the verdict on all of it is not `is_wrong`: then the standard leaves it open; and
    where only subnormal numbers are zeros, which the backend declares."""
    if not shown:
        return []
    walk = _Told(oracle.module, oracle.places, shown, oracle.accepts)
    _run(walk, expected.inputs)
    allowed: set[str] = set()
    if oracle.accepts.flushes and any(f.wrong for f in walk.findings.values()):
        again = FlushingRun(oracle.module, oracle.places, shown, oracle.accepts, before=walk.findings)
        _run(again, expected.inputs)
        allowed = {name for name, finding in again.findings.items() if not finding.wrong}
    return [
        replace(
            r,
            maker=oracle.makers.get(r.tensor, r.maker),
            outcome="open" if r.outcome == "wrong" and (not is_wrong or r.tensor in allowed) else r.outcome,
        )
        for r in walk.rows
    ]


def _run(walk: BoundedRun, inputs: Mapping[str, Array]) -> None:
    try:
        walk.run(inputs)
    except (Trap, Unpredictable):
        pass  # the rest is not judged so, as the verdict on the whole says
