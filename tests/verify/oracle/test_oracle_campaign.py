"""No false alarms: ten thousand runs of backends that are right, judged, and none of them called wrong."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from assay.verify.fuzz.cases import Recipe
from assay.verify.fuzz.targets import FAILURES, target_names
from assay.verify.fuzz.worker import ExampleReport, Task, judge_examples
from assay.verify.strategies.features import static_operators

WRONG_IN_ONNXRUNTIME = frozenset({
    "acosh", "asinh", "cos", "cumprod", "cumsum", "det", "dft", "fmod", "max", "maximum", "min", "minimum",
        "nn.batch_norm",
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.gelu", "nn.gelu_tanh", "nn.layer_norm", "nn.log_softmax", "nn.lrn",
    "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.relu", "nn.softmax", "power", "prod", "scatter_nd",
        "sigmoid",
    "sin", "sum", "tan", "tanh", "erf", "exp", "topk", "truncate_divide", "floor_divide", "where",
})  # fmt: skip
"""Operators that ONNX Runtime gets wrong, or that other faults of it run into (specs/findings/onnxruntime-1.31.md)."""
JUDGED = {
    "values": 1500, "numpy": 2200, "numpy:reversed": 1500, "numpy:wide": 1500, "adversarial": 2200, "c:O0": 200,
        "c:contract": 200,
    "onnxruntime": 700,
}  # fmt: skip
"""How many runs of each are judged; C has to be compiled for each."""
SEED = 2026


def recipe(name: str) -> Recipe:
    if name != "onnxruntime":
        return Recipe()
    return Recipe(tuple(n for n in static_operators() if n not in WRONG_IN_ONNXRUNTIME))


def campaign(name: str, judged: int) -> ExampleReport:
    """Examples until so many were judged: what is refused, or cannot be said as ONNX, does not count."""
    found = ExampleReport(())
    for number in count():
        for report in judge_examples(Task((name,), recipe(name), SEED, (number,), seconds=5.0)):
            # the generator calls sum and others besides what it is asked for, such as for a condition
            if not (name == "onnxruntime" and WRONG_IN_ONNXRUNTIME & set(report.operators)):
                found.add(report)
        if sum(found.kinds[k] for k in ("right", "undecided", "unpredictable", *FAILURES)) >= judged:
            return found
    raise AssertionError


def test_all_are_ten_thousand() -> None:
    assert sum(JUDGED.values()) == 10_000 and set(JUDGED) <= set(target_names())


@pytest.mark.campaign
@pytest.mark.parametrize("name", JUDGED)
def test_nothing_that_is_right_is_called_wrong(name: str) -> None:
    report = campaign(name, JUDGED[name])
    print(f"{name}: {dict(Counter(report.kinds).most_common())}; by {dict(report.layers.most_common(6))}")
    assert not report.failures, [(f.number, f.result) for f in report.failures]
    assert report.kinds["right"] > 0.8 * JUDGED[name]
    assert report.kinds["unpredictable"] == 0, "inputs are made such that somebody can tell"
