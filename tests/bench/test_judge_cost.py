"""What judging costs where every tensor is visible: at most three times the CPU time of evaluating with bounds
(specs/verify.md, "judge")."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assay.interp import graph
from assay.interp.values import Value
from assay.verify.backends import subject_of_model
from assay.verify.oracle import Expected, Oracle
from assay.verify.oracle.walk import places
from tests.zoo import models


def _seconds(run: Callable[[], object]) -> float:
    """The least CPU time of a few runs."""
    found = []
    for _ in range(4):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.bench
@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "inception", "bert", "gpt2", "llama", "lstm"])
def test_judging_every_tensor_costs_no_more_than_three_evaluations(name: str) -> None:
    model = models.model(name)
    subject = subject_of_model(model)
    inputs = models.inputs(model)
    shown: dict[str, Value] = {}
    where = places(subject.module, subject.tensors)

    def kept(node, attrs, args, ordinary):  # type: ignore[no-untyped-def]
        made = ordinary(*args)
        shown.update({t: made if i is None else made[i] for t, i in where.get(id(node), [])})
        return made

    outputs = graph.run(subject.module, inputs, apply=kept)

    def judge() -> str:
        return Oracle(subject.module, subject.tensors).judge(inputs, outputs, shown).outcome  # type: ignore[arg-type]

    assert judge() == "right"
    evaluating = _seconds(lambda: Expected(subject.module, inputs).possible)
    assert _seconds(judge) < 3 * evaluating
