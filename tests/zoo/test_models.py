from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.protocol import subject_of_model
from tests.zoo import models

TABLE = Path(__file__).with_name("models.csv")


def listed() -> dict[str, dict[str, str]]:
    with TABLE.open(newline="") as rows:
        return {r["model"]: r for r in csv.DictReader(rows)}


def test_the_table_lists_every_model() -> None:
    assert list(listed()) == models.names()
    assert len(models.names()) >= 20


@pytest.mark.parametrize("name", models.names())
def test_a_model_is_well_formed_runs_and_depends_on_its_inputs(name: str) -> None:
    made = models.model(name)
    onnx.checker.check_model(made, full_check=True)
    assert made.ByteSize() < 5e6
    nodes = [n.name for n in made.graph.node]
    assert len(set(nodes)) == len(nodes), "faults are placed by the names of nodes"
    subject = subject_of_model(made)
    run = OnnxRuntime("onnxruntime", threads=1).prepare(subject, subject.outputs)
    first, second = (run(models.inputs(made, seed)) for seed in (0, 1))
    for output, value in first.items():
        assert np.isfinite(value).all()
        assert len(np.unique(value)) > value.size // 2, "a thousand equal outputs show nothing"
        assert 0.1 < value.std() < 30
        assert np.abs(value - second[output]).max() > 0.01 * value.std()


@pytest.mark.parametrize("name", models.names())
def test_a_model_is_the_same_each_time(name: str) -> None:
    """What was measured on the zoo holds of it as long as its models are these."""
    row = listed()[name]
    made = models.model(name)
    assert (models.digest(made), str(len(made.graph.node))) == (row["digest"], row["nodes"])
    onnx_weights = made.graph.initializer[0]
    onnx_weights.raw_data = onnx_weights.raw_data[:-1] + bytes([onnx_weights.raw_data[-1] ^ 1])
    assert models.digest(made) != row["digest"]
