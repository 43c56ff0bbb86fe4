"""The tables of what followed errors are worth, in specs/verify.md, are no more than what is measured; right runs stay
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
from tests.zoo import deep, models
from tests.zoo.bounds import by_intervals, measured, measured_model

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
def test_the_table_is_no_more_than_what_is_measured(name: str) -> None:
    row = measured(name)
    assert row.before == 0
    part = listed().get(name, 0)
    assert row.after * 100 >= part - (5 if part not in (0, 100) else 0.5)


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


def drawn() -> dict[str, int]:
    """The twenty deep models of the second table, and of how many of a hundred elements their bounds say something."""
    section = CHAPTER.read_text().split(HEADING)[1].split("\n## ")[0]
    return {
        name: int(part) for name, part in re.findall(r"^\| (D\d\d) [^|]* \| 0% \| (\d+)% \|", section, re.MULTILINE)
    }


def test_half_of_the_drawn_models_get_a_bound_for_every_element() -> None:
    """And they are the first twenty of the draw: intervals alone exclude nothing of any, so none is counted apart."""
    assert list(drawn()) == [d.id for d in deep.read()[: deep.COUNT]]
    assert sum(part == 100 for part in drawn().values()) >= deep.COUNT / 2


@pytest.mark.campaign
@pytest.mark.parametrize("made", deep.read()[: deep.COUNT], ids=lambda d: d.id)
def test_a_drawn_model_gets_what_the_table_says(made: deep.Deep) -> None:
    model = made.model()
    assert by_intervals(model) == 0
    if drawn()[made.id]:
        assert measured_model(made.id, model).after * 100 >= drawn()[made.id] - 0.5


@pytest.mark.campaign
@pytest.mark.parametrize("made", [d for d in deep.read()[: deep.COUNT] if drawn()[d.id] == 100], ids=lambda d: d.id)
def test_right_runs_of_drawn_models_stay_inside(made: deep.Deep) -> None:
    model = made.model()
    module, inputs = subject_of_model(model).module, models.inputs(model)
    allowed = Expected(module, inputs, follows=True).possible
    assert isinstance(allowed, dict)
    for i in range(4):
        for run in (Attempt(module, np.random.default_rng(i), False), Rounding(module, 0, i + 1, {})):
            found = run.run(inputs)
            assert all(contains(b, found[n]).all() for n, b in allowed.items() if isinstance(b, Bounded))
