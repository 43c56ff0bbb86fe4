"""What Hypothesis shrinks random programs and inputs to: one element, and a round number."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import find, settings

from assay.verify.strategies import modules_with_inputs


def saturates(made: tuple[Any, dict[str, Any]]) -> bool:
    """Whether a backend that cannot go above 132 in float32 would be wrong."""
    finite = [v[np.isfinite(v)] for v in made[1].values() if v.dtype == np.float32]
    return any((v > 132).any() for v in finite)


def test_one_element_and_a_round_number() -> None:
    quiet = settings(max_examples=1_000, database=None, derandomize=True)
    _, inputs = find(modules_with_inputs(operators=["nn.relu"]), saturates, settings=quiet)
    numbers = [float(x) for v in inputs.values() for x in np.ravel(v)]
    assert numbers == [133.0]
