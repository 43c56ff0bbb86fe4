"""Kernels on all their inputs, and Fourier transforms over terms; planted faults are not shown (specs/verify.md,
"legalize")."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.operator import Example
from assay.semantics.ops import OPERATORS
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, REAL
from assay.verify.operator_terms import prove_kernel
from assay.verify.operator_terms.examples import prove_example
from assay.verify.operator_terms.exhaustion import SMALL_USES, all_inputs, count_inputs, prove_by_all_inputs
from tests.verify.all_sizes.kernel_mutants import mutated

SMALL = [(name, e) for name, uses in SMALL_USES.items() for e in uses]


def built(name: str, example: Example, **other: Any) -> tuple[PrimFunc, Any]:
    """The kernel of a use, made as if attributes were others, and the attributes."""
    op = OPERATORS[name]
    operands = tuple(TensorType(shape, dtype(d)) for shape, d in example.operands)
    attrs = op.check_attrs(example.attrs)
    return build(name, {**attrs, **other}, operands, op.type_rule(attrs, operands), "kernel"), attrs


@pytest.mark.parametrize(("name", "example"), SMALL, ids=[f"{n} {e.operands}" for n, e in SMALL])
def test_small_uses_are_proved_by_all_inputs(name: str, example: Example) -> None:
    proof = prove_example(OPERATORS[name], example).proof
    assert proof.notion is BIT_EXACT and "inputs were run" in proof.reason


def test_all_inputs_are_all() -> None:
    kernel, _ = built("topk", SMALL_USES["topk"][0])
    (x,) = all_inputs(kernel, 16**3)
    assert len({tuple(row) for row in x.astype(int).tolist()}) == 16**3
    assert count_inputs(built("topk", OPERATORS["topk"].examples[0])[0]) is None


FAULTS: list[tuple[str, int, dict[str, Any]]] = [
    ("topk", 0, {"largest": False}),
    ("unique", 0, {"sorted": False}),
    ("unique", 1, {"sorted": True}),
]


@pytest.mark.parametrize(("name", "use", "other"), FAULTS)
def test_a_kernel_of_other_attributes_is_not_shown(name: str, use: int, other: dict[str, Any]) -> None:
    kernel, attrs = built(name, SMALL_USES[name][use], **other)
    assert not prove_by_all_inputs(kernel, OPERATORS[name], attrs).holds


def test_a_value_that_differs_on_one_input_is_not_shown() -> None:
    op, example = OPERATORS["nonzero"], SMALL_USES["nonzero"][0]
    kernel, attrs = built("nonzero", example)

    def value(attrs: Any, x: Any) -> Any:
        return op.value(attrs, np.where(x.view(np.uint8) == 0x80, np.ones((), x.dtype), x))  # -0 taken for a number

    assert not prove_by_all_inputs(kernel, dataclasses.replace(op, value=value), attrs).holds


CHOICES: dict[str, tuple[int, Any]] = {
    "one box more": (0, lambda s, a, o, m: (s, a, o, np.int64(m) + 1)),
    "struck the other way": (0, lambda s, a, o, m: (s, a, o.swapaxes(1, 2), m)),
    "of equals another": (0, lambda s, a, o, m: (np.where(s == s[..., ::-1], np.arange(2), s), a, o, m)),
    "NaN for a score": (1, lambda s, a, o, m: (np.where(np.isnan(s.astype(np.float32)), s.dtype.type(0), s), a, o, m)),
    "not allowed": (2, lambda s, a, o, m: (s, a | True, o, m)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_another_choice_of_boxes_is_not_shown(name: str) -> None:
    use, changed = CHOICES[name]
    op = OPERATORS["suppress"]
    kernel, attrs = built("suppress", SMALL_USES["suppress"][use])
    other = dataclasses.replace(op, value=lambda attrs, *operands: op.value(attrs, *changed(*operands)))
    assert prove_by_all_inputs(kernel, op, attrs).holds and not prove_by_all_inputs(kernel, other, attrs).holds


def test_changed_kernels_that_are_shown_by_all_inputs_do_the_same() -> None:
    """A change that is shown gives the same on an input drawn at random; most are refused."""
    rng, refused = random.Random(2), 0
    op, example = OPERATORS["unique"], SMALL_USES["unique"][1]
    right, attrs = built("unique", example)
    for _ in range(25):
        other = mutated(right, rng)
        try:
            if other is None or not prove_by_all_inputs(other, op, attrs).holds:
                refused += other is not None
                continue
        except Invalid:  # no function at all
            continue
        for x in all_inputs(right, 16)[0]:
            assert all(map(np.array_equal, vector.run(right, [x]), vector.run(other, [x])))
    assert refused > 5


@pytest.mark.parametrize("number", range(len(OPERATORS["dft"].examples)))
def test_a_transform_is_the_sum_that_defines_it(number: int) -> None:
    proof = prove_example(OPERATORS["dft"], OPERATORS["dft"].examples[number]).proof
    assert proof.notion is REAL and proof.last_bits


def test_a_transform_the_other_way_is_not_shown() -> None:
    op = OPERATORS["dft"]
    forward, attrs = built("dft", op.examples[0], inverse=True)
    assert not prove_kernel(forward, op, attrs).holds
    back, attrs = built("dft", op.examples[3], inverse=False)
    assert not prove_kernel(back, op, attrs).holds


@pytest.mark.parametrize("number", [0, 5])
def test_a_changed_transform_that_is_shown_is_near(number: int) -> None:
    """Beside the kernel as it is, on numbers drawn at random: 20 changes."""
    rng, op, refused = random.Random(number), OPERATORS["dft"], 0
    right, attrs = built("dft", op.examples[number])
    x = np.random.default_rng(3).standard_normal(right.inputs[0].static_shape).astype(np.float32)
    for _ in range(20):
        other = mutated(right, rng)
        try:
            if other is None or not prove_kernel(other, op, attrs).holds:
                refused += other is not None
                continue
        except Invalid:
            continue
        assert np.allclose(vector.run(other, [x])[0], vector.run(right, [x])[0], atol=1e-5), other
    assert refused > 5


def test_a_trap_is_one_of_the_outcomes() -> None:
    """A value that traps on an input where the kernel does not is not shown."""
    op = OPERATORS["nonzero"]
    kernel, attrs = built("nonzero", SMALL_USES["nonzero"][1])

    def value(attrs: Any, x: Any) -> Any:
        if x.all():
            raise Trap("assertion", "all are set")
        return op.value(attrs, x)

    assert not prove_by_all_inputs(kernel, dataclasses.replace(op, value=value), attrs).holds
