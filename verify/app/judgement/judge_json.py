"""A judgement as plain data, for `--json` and for `--baseline` (specs/verify.md, "judge")."""

from __future__ import annotations

import hashlib
from typing import Any

import onnx

from assay.lower.frontends.onnx.outside import PLACE, data_of, without
from assay.verify.judge.judgement import Judgement
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict, verdict_data


def judgement_data(what: str, judgement: Judgement) -> dict[str, Any]:
    """The judgement by stable keys; a number that JSON does not have is a text, such as "inf"."""
    return {
        "model": what,
        "digest": model_digest(judgement.subject.model),
        "seed": judgement.seed,
        "holds": judgement.holds if judgement.verdicts else None,
        "sizes": dict(judgement.chosen),
        "strings": {name: [str(t) for t in texts.reshape(-1)] for name, texts in judgement.texts.items()},
        "samples": [s.name for s in judgement.samples],
        "backends": [backend_data(v) for v in judgement.verdicts],
    }


def backend_data(verdict: BackendVerdict) -> dict[str, Any]:
    """What is said of one backend."""
    return {
        "name": verdict.name,
        "outcome": verdict.outcome,
        "closing": verdict.closing(),
        "why": verdict.why,
        "proved": verdict.proved,
        "seconds": round(verdict.seconds, 3),
        "samples": [_sample_data(s) for s in verdict.samples],
    }


def _sample_data(sample: SampleVerdict) -> dict[str, Any]:
    made: dict[str, Any] = verdict_data(sample)
    outputs = [{**e, "outcome": sample.of_output(e["tensor"])} for e in made.pop("errors")]
    return {**made, "outputs": outputs}


def model_digest(model: onnx.ModelProto) -> str:
    """What names a model's content: nodes, weights and interface. Each part by itself, for the whole may be longer than
    a message of its format can be."""
    graph = model.graph
    found = hashlib.sha256()
    for kind in (model.opset_import, model.functions, graph.input, graph.output, graph.node):
        for part in kind:
            _add(found, part.SerializeToString(deterministic=True))
        found.update(b"\n")
    for tensor in graph.initializer:  # the same wherever its bytes are
        _add(found, without(tensor, {"raw_data", *PLACE}).SerializeToString(deterministic=True))
        _add(found, data_of(tensor))
    return found.hexdigest()


def _add(to: Any, part: bytes | memoryview) -> None:
    to.update(len(part).to_bytes(8, "little"))
    to.update(part)
