"""Somebody else's outputs, as a line of `assay check` (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx

from assay.semantics.errors import AssayError
from assay.semantics.graph import Expr
from assay.semantics.types import DataType
from assay.semantics.walk import post_order
from assay.verify.backends import Backend, Subject, backend, subject_of_module
from assay.verify.evidence import Evidence, of_outcome, plural
from assay.verify.oracle import Expected, Oracle, Verdict, judge_backend
from assay.verify.oracle.accepts import EVERYTHING_KEPT
from assay.verify.protocol import OUTCOMES

Array = np.ndarray[Any, Any]


@dataclass
class Judged:
    """Somebody else's outputs; or a backend, the one of that name by default, on the model, whose symbolic dims `dims` are
    numbers, or on the module exported."""

    name: str
    model: onnx.ModelProto | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Array] | None = None
    backend: Backend | None = None
    excluded: Collection[str] = ()
    """Rights that they do not have."""


def judge(who: Judged, expected: Expected, tensors: Mapping[str, Expr]) -> tuple[str, Evidence]:
    """The verdict on outputs; or on a backend, which is asked for every tensor of `tensors` too, the model's by name as
    nodes of the module. It needs no lowering. What is no ONNX model is exported for the backend."""
    main = expected.module.main
    held = [of for of in (*(p.type for p in main.params), main.result_type) if any(isinstance(t, DataType) for t in post_order(of))]
    if held:
        said = f"inputs and outputs that are sequences or optional values are not judged, and there is one of type {held[0]}"
        return "", of_outcome("undecided", said)
    if who.outputs is not None:
        count = len(expected.module.main.attrs.get("outputs", ())) or len(who.outputs)
        return _line(Oracle(expected.module, accepts=EVERYTHING_KEPT.excluding(who.excluded)).judge(expected, who.outputs), plural(count, "output"))
    if who.model is None:
        subject = subject_of_module(expected.module)
    else:
        subject = Subject(expected.module, who.model, tensors, who.dims)
    try:
        verdict = judge_backend(subject, who.backend or backend(who.name), expected, who.excluded)
    except AssayError as wrong:
        if wrong.label not in OUTCOMES:
            raise
        return "", of_outcome(OUTCOMES[wrong.label], wrong.message)
    made = sum(bool(o) and o in subject.tensors for n in subject.model.graph.node for o in n.output)
    return _line(verdict, f"{plural(len(subject.outputs), 'output')}, {verdict.judged} of {plural(made, 'tensor')}")


def _line(verdict: Verdict, did: str) -> tuple[str, Evidence]:
    if verdict.outcome == "wrong":
        return "", of_outcome("wrong", str(verdict), worst=_as_data(verdict))
    return did, of_outcome(verdict.outcome, verdict.detail if verdict.outcome == "right" else str(verdict))


def _as_data(verdict: Verdict) -> dict[str, Any]:
    """The worst element of a verdict, for machines."""
    return {"layer": verdict.layer, "culprit": verdict.culprit, **(asdict(verdict.worst) if verdict.worst else {})}
