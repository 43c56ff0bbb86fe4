"""Valid tensor programs, and inputs for them, by a seed."""

from __future__ import annotations

from random import Random

from assay.semantics.tensor import PrimFunc
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.values import Array
from tests.inputs import inputs_of


def inputs_for(func: PrimFunc, seed: int) -> list[Array]:
    """Inputs with the numbers that are most often wrong among them."""
    return inputs_of(by_random(Random(seed)), func)
