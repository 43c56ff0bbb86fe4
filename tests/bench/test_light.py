"""Graph evaluation of the nine light models beside onnx's ReferenceEvaluator, in one run: `make bench`.

CPU seconds of one evaluation each, the models those inside the onnx package. The ratio is asserted, never a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from rich.console import Console
from rich.table import Table

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from tests.models import LightModel, light_models


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(model: LightModel) -> tuple[float, float]:
    """Our CPU seconds and theirs."""
    proto = onnx.load(model.path)
    module = import_onnx(proto, evaluate=graph.evaluate)
    evaluator = ReferenceEvaluator(proto)
    ours = cpu_seconds(lambda: graph.run(module, model.inputs))
    theirs = cpu_seconds(lambda: evaluator.run(None, dict(model.inputs)))
    return ours, theirs


@pytest.mark.bench
@pytest.mark.peer
def test_faster_than_the_reference_evaluator_on_every_model() -> None:
    table = Table("model", "Assay, s", "ReferenceEvaluator, s", "ratio", title="graph evaluation, CPU seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    slower = []
    for model in light_models():
        ours, theirs = measure(model)
        table.add_row(model.name, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}")
        if ours >= theirs:
            slower.append(model.name)
    Console(width=100).print(table)
    assert slower == []
