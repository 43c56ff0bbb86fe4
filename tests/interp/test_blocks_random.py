"""Random functions with blocks: the lowered form and the vector interpreter give what the definition gives."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import tensor, vector
from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import apply, const
from assay.semantics.scalar.derived import DEFINITIONS
from assay.semantics.tensor import Buffer, PrimFunc, blocks, claims, loops, store, within
from assay.semantics.tensor.blocks import without_blocks
from tests.interp.block_programs import random_blocks
from tests.interp.programs import Array, agree, alone, outcome, writes_constant
from tests.interp.test_blocks import F32, equal, matmul, one_output, trapped


def alike(func: PrimFunc, inputs: list[Array]) -> str:
    """Compare the definition with the lowered form and with the vector interpreter; what came out."""
    expected = outcome(lambda: tensor.run(func, inputs))
    lowered = outcome(lambda: tensor.run(without_blocks(func), inputs))
    assert trapped(expected) == trapped(lowered), f"{expected}\n{lowered}\n{func}"
    assert trapped(expected) or equal(expected, lowered), f"{func}\n{without_blocks(func)}"
    assert equal(outcome(lambda: vector.run(func, inputs)), expected), (
        f"{func}\n{vector.compile_function(func, inputs).source}"
    )
    for way in vector.WAYS:
        alone(func, inputs, way, expected)
    return expected[0] if trapped(expected) else "value"


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_blocks(random: Any) -> None:
    func, inputs = random_blocks(random)
    writes_constant(func)
    alike(func, inputs)


def test_many_random_blocks_end_in_many_ways() -> None:
    seen: dict[str, int] = {}
    for seed in range(30):
        kind = alike(*random_blocks(Random(seed)))
        seen[kind] = seen.get(kind, 0) + 1
    assert seen["value"] > 5 and len(seen) > 3, seen


@pytest.mark.campaign
def test_very_many_random_blocks() -> None:
    for seed in range(1000, 6000):
        alike(*random_blocks(Random(seed)))


def test_what_has_no_blocks_is_left_alone() -> None:
    x = Buffer("x", (4,), F32)
    plain = one_output(lambda out: loops("i", (4,), lambda i: store(out, i, x[i])), (4,), x)
    assert without_blocks(plain) is plain
    lowered = without_blocks(matmul(2, 2, 2))
    assert lowered is not None and without_blocks(lowered) is lowered and without_blocks(matmul(2, 2, 2)) is not lowered


WRONG = ("trunc", "round", "rsqrt", "sigmoid")
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "init always": (blocks, "_is_first", lambda var, start: const(True, BOOL)),
    "init never": (blocks, "_is_first", lambda var, start: const(False, BOOL)),
    "domains unchecked": (within.Within, "in_domain", lambda self, i, facts: True),
    "views unchecked": (within.Within, "below", lambda self, index, size, facts=(): True),
    "regions unchecked": (claims, "uncovered", lambda region, indices, within: []),
    "matches unchecked": (blocks, "matching", lambda view: []),
    "choices strict": (within.Within, "total", lambda self, node: True),
    "predicates dropped": (blocks._Plain, "guarded", lambda self, condition, body: body),
    "rounds down": (
        blocks,
        "expand",
        lambda op, args: apply("floor", *args) if op in WRONG else DEFINITIONS[op][0](*args),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_lowering_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = FAULTS[fault]
    monkeypatch.setattr(owner, name, wrong)
    caught = 0
    for seed in range(250):
        func, inputs = random_blocks(Random(seed))
        expected = outcome(lambda f=func, x=inputs: tensor.run(f, x))  # type: ignore[misc]
        lowered = outcome(lambda f=func, x=inputs: tensor.run(without_blocks(f), x))  # type: ignore[misc]
        if trapped(expected) != trapped(lowered) or not (trapped(expected) or equal(expected, lowered)):
            caught += 1
            break
    assert caught, f"{fault}: no difference seen"


def test_the_lowered_form_is_vectorised() -> None:
    for func in (matmul(3, 4, 5),):
        agree(without_blocks(func), [np.ones((3, 5), "f4"), np.ones((5, 4), "f4")], planned=True)
