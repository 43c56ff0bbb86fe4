"""The deep models that a seed draws are those of the table, and models as others are."""

from __future__ import annotations

import csv
from itertools import islice

import numpy as np

from assay.interp import graph
from assay.verify.backends import subject_of_model
from tests.zoo import deep, models


def test_the_draw_is_the_table() -> None:
    with deep.TABLE.open(newline="") as rows:
        listed = list(csv.DictReader(rows))
    assert [d.row for d in islice(deep.draw(), deep.DRAWN)] == listed
    assert [d.row for d in deep.read()] == listed
    assert {d.kind for d in deep.read()} == set(deep.KINDS)
    assert next(deep.draw(deep.SEED + 1)).row != listed[0]


def test_a_drawn_model_runs() -> None:
    for d in (deep.read()[5], deep.read()[18]):
        model = d.model()
        found = graph.run(subject_of_model(model).module, models.inputs(model))
        for value in found.values():
            assert np.isfinite(value).all() and 0.1 < np.std(np.asarray(value)) < 30
