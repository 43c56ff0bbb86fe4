"""The table of what followed errors are worth on the zoo, in specs/verify.md, is what is measured; right runs stay
inside of these bounds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.verify.backends import subject_of_model
from assay.verify.judge.spread import Rounding
from assay.verify.oracle import Expected
from assay.verify.oracle.adversarial import Attempt
from tests.zoo import models
from tests.zoo.bounds import measured

CHAPTER = Path(__file__).resolve().parents[2] / "specs" / "verify.md"
HEADING = "### Errors that are followed"


def listed() -> dict[str, int]:
    """The models of the table that gain bounds, and of how many of a hundred elements these say something."""
    section = CHAPTER.read_text().split(HEADING)[1].split("\n## ")[0]
    found = re.findall(r"^\| ([\w-]+) \| 0% \| (\d+)% \|", section, re.MULTILINE)
    return {name: int(part) for name, part in found}


def test_the_table_names_models_of_the_zoo() -> None:
    assert len(listed()) >= 14 and set(listed()) <= set(models.names())
    others = len(models.names()) - len(listed())
    assert f"the other {others} of the zoo" in CHAPTER.read_text()


@pytest.mark.campaign
@pytest.mark.parametrize("name", models.names())
def test_the_table_is_what_is_measured(name: str) -> None:
    row = measured(name)
    assert row.before == 0
    part = listed().get(name, 0)
    assert row.after * 100 == pytest.approx(part, abs=5 if part not in (0, 100) else 0.5)


@pytest.mark.campaign
@pytest.mark.parametrize("name", listed())
def test_right_runs_stay_inside(name: str) -> None:
    model = models.model(name)
    module = subject_of_model(model).module
    for seed in range(2):
        inputs = models.inputs(model, seed)
        allowed = Expected(module, inputs, follows=True).possible
        assert isinstance(allowed, dict)
        for i in range(4):
            for run in (Attempt(module, np.random.default_rng(i), False), Rounding(module, seed, i + 1, {})):
                made = run.run(inputs)
                assert all(contains(b, made[n]).all() for n, b in allowed.items() if isinstance(b, Bounded))
