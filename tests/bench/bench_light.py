"""Graph evaluation of the nine light models beside onnx's ReferenceEvaluator, in one run.

    python -m tests.bench.bench_light

CPU seconds of one evaluation each, and their ratio. The models are those inside the onnx package.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import onnx
from assay.interp import graph
from assay.lower.onnx_import import import_onnx
from onnx.reference import ReferenceEvaluator
from rich.console import Console
from rich.table import Table

from tests.models import light_models


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def measure() -> list[tuple[str, float, float]]:
    """Model, our CPU seconds, theirs."""
    rows = []
    for model in light_models():
        proto = onnx.load(model.path)
        module = import_onnx(proto, evaluate=graph.evaluate)
        evaluator = ReferenceEvaluator(proto)
        ours = cpu_seconds(lambda module=module, inputs=model.inputs: graph.run(module, inputs))
        theirs = cpu_seconds(lambda evaluator=evaluator, inputs=model.inputs: evaluator.run(None, dict(inputs)))
        rows.append((model.name, ours, theirs))
    return rows


def main() -> None:
    table = Table("model", "Assay, s", "ReferenceEvaluator, s", "ratio", title="graph evaluation, CPU seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, ours, theirs in measure():
        table.add_row(name, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
