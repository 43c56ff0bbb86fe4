"""A power with one exponent for all elements is the power with as many, which is that of C."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics.bits import raised
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DTYPES
from assay.semantics.text.module_text import parse

BASES = [0.0, -0.0, 1.0, -1.0, 4.0, 0.25, -0.25, math.inf, -math.inf, math.nan]
EXPONENTS = [0.5, -0.5, 0.0, 1.0, -1.0, 2.0, -2.0, 3.0, math.inf, -math.inf, math.nan]


def of_c(a: float, b: float) -> float:
    """C's pow, from which Python's differs where it raises an error: at poles, and of a negative base."""
    try:
        return math.pow(a, b)
    except ValueError:
        odd = b == -1
        return (math.copysign(math.inf, a) if odd else math.inf) if a == 0 else math.nan


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_one_exponent_is_as_many(name: str, exponent: float) -> None:
    of = DTYPES[name].numpy
    a, b = np.array(BASES, of), np.full(len(BASES), exponent, of)
    wanted = np.array([of_c(x, exponent) for x in BASES])
    with np.errstate(all="ignore"):
        for found in (raised(a, b), raised(a, b[:1]), raised(a, b[0]), raised(a, np.broadcast_to(b[0], a.shape))):
            assert found.dtype == of
            np.testing.assert_array_equal(found.astype(np.float64), wanted)
            np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.power(x, R.const(0.5, "float32"))
"""


@pytest.mark.parametrize("bounds", [False, True])
def test_the_half_power_of_all_elements_is_no_root(bounds: bool) -> None:
    x = np.array([-np.inf, -0.0, 4.0, np.inf], np.float32)
    found = run(parse(TEXT), {"x": x}, bounds=bounds)
    (value,) = found.values()
    value = value.value if isinstance(value, Bounded) else value
    np.testing.assert_array_equal(value, [np.inf, 0, 2, np.inf])
    assert not np.signbit(value[1])
