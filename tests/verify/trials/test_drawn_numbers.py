"""What steps are handed in trials can be drawn whatever constants a program has."""

from __future__ import annotations

import numpy as np
import pytest

from assay.semantics.dtypes import DTYPES
from assay.verify.trials.data import KINDS, around, draw

NOTHING = [(), (np.nan,), (1e30,), (np.inf, np.nan)]
"""Constants of which a dtype may have none: no number, or more than it holds."""


@pytest.mark.parametrize("constants", NOTHING)
@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float32", "float64", "bfloat16", "float8_e4m3fn"])
def test_every_kind_is_drawn_for_constants_that_are_no_numbers(name: str, constants: tuple[float, ...]) -> None:
    of = DTYPES[name]
    for kind in KINDS:
        found = draw(of, (3, 0), np.random.default_rng(0), kind, constants)
        assert (found.dtype, found.shape) == (of.numpy, (3, 0))
        assert draw(of, (2, 3), np.random.default_rng(0), kind, constants).shape == (2, 3)


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.kind == "float" and d.bits % 8])
def test_numbers_beside_others_have_no_more_bits_than_their_dtype(name: str) -> None:
    """Of float4 there is nothing before 0 and behind -6: what fills a byte further is no number of it."""
    of = DTYPES[name]
    found = around([0.0, float(of.max), -float(of.max)], of)
    assert int(found.view(np.uint8).max()) < 1 << of.bits and len(found) == 7
