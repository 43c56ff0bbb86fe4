"""No false alarm: programs that are valid by construction end, and the vector interpreter gives the definition's
bits."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import tensor, vector
from assay.semantics.tensor import For, PrimFunc, program_order
from assay.semantics.tensor.rules import check_prim_func
from assay.verify.strategies.tensors import a_tensor_function as valid_program
from tests.interp.programs import alone, same_bits
from tests.interp.valid_programs import inputs_for


def check(func: PrimFunc, seed: int) -> bool:
    """No trap, and equal bits; whether lanes ran it."""
    check_prim_func(func)
    inputs = inputs_for(func, seed)
    want = tensor.run(func, inputs)
    got = vector.run(func, inputs)
    assert all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(want, got, strict=True)), func
    assert alone(func, inputs, "straight", want) is None, func
    return alone(func, inputs, "lanes", want) is None


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_valid_programs_have_no_alarm(data: st.DataObject, seed: int) -> None:
    check(valid_program(lambda n: data.draw(st.integers(0, n - 1))), seed)


def test_many_valid_programs_of_all_kinds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(90):
        func = valid_program(Random(seed).randrange)
        seen["lanes"] += check(func, seed)
        seen.update({type(s).__name__ for s in program_order(func.body)})
        seen.update({s.kind for s in program_order(func.body) if isinstance(s, For)})
    wanted = (
        "Block",
        "Alias",
        "While",
        "Allocate",
        "AllocateConst",
        "If",
        "LetStmt",
        "parallel",
        "vectorized",
        "unrolled",
        "lanes",
    )
    assert all(seen[w] > 3 for w in wanted), seen


@pytest.mark.campaign
def test_ten_thousand_valid_programs() -> None:
    for seed in range(1000, 11000):
        check(valid_program(Random(seed).randrange), seed)
