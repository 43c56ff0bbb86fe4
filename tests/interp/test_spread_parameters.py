"""Parameters with constant strides or an offset: views of flat memory that is handed over (M6.12)."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.rules import check
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse

TEXT = """
@T.prim_func(s_tir=True)
def main(x_: T.handle, o: T.Buffer((3, 4), "float32")):
    x = T.match_buffer(x_, (3, 4), "float32", PLACE)
    for i, j in T.grid(3, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            o[vi, vj] = x[vi, vj + SHIFT] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("place", "first", "steps"),
    [
        ("strides=[5, 1], elem_offset=2", 2, (5, 1)),
        ("strides=[1, 3]", 0, (1, 3)),
        ("elem_offset=7", 7, (4, 1)),
        ("strides=[0, 2]", 0, (0, 2)),
    ],
)
def test_a_parameter_that_is_spread_out(place: str, first: int, steps: tuple[int, int]) -> None:
    module = parse(TEXT.replace("PLACE", place).replace("SHIFT", "0"), "spread.py")
    check(module)
    memory = np.arange(first + 1 + 2 * steps[0] + 3 * steps[1], dtype=np.float32)
    want = np.lib.stride_tricks.as_strided(memory[first:], (3, 4), (4 * steps[0], 4 * steps[1])) * 2
    text = show(module)
    again = parse(text, "again.py")
    assert show(again) == text
    for m in (module, again):
        (func,) = m.kernels.values()
        for run in (tensor.run, vector.run):
            assert np.array_equal(run(func, [memory])[0], want)
        with pytest.raises(Invalid):
            tensor.run(func, [memory[1:]])


def test_its_bounds_are_those_of_its_dimensions() -> None:
    """The memory would have the element; the dimension does not."""
    module = parse(TEXT.replace("PLACE", "strides=[5, 1]").replace("SHIFT", "1"), "spread.py")
    (func,) = module.kernels.values()
    with pytest.raises(Trap) as trap:
        tensor.run(func, [np.zeros(14, np.float32)])
    assert trap.value.kind == "out of bounds" and "index 4 is outside [0, 4)" in trap.value.message


@pytest.mark.parametrize("place", ["strides=[-4, 1]", "elem_offset=-1"])
def test_memory_before_the_first_element_is_refused(place: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(TEXT.replace("PLACE", place).replace("SHIFT", "0"), "spread.py")
    assert refused.value.label == "text.C11"
