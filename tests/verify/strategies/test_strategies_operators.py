"""Uses of operators: valid ones from the definition, and invalid ones that are refused by the rule that they break."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.semantics.types import TensorType
from assay.verify.strategies import Refusal, ValidUse, invalid_calls, operator_calls
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.invalid import SHARED, a_refusal
from assay.verify.strategies.operators import dtypes_of, varied
from assay.verify.strategies.recipes import RECIPES, a_use, fresh_use
from assay.verify.strategies.values import small


@pytest.mark.parametrize("name", OPERATORS)
def test_uses_are_valid_and_differ(name: str) -> None:
    """The operator takes each, on its own or on an operand at hand, and gives the type that its rule says."""
    op, seen = OPERATORS[name], set()
    for seed in range(60):
        pick = by_random(Random(seed))
        use = fresh_use(name, pick)
        assert use.accepted
        seen.add(str(use))
        arrays = [ranged(use, at, t) for at, t in enumerate(use.operands)]
        if seed < 8:
            with np.errstate(all="ignore"):
                value = op.value(op.check_attrs(use.attrs), *arrays)
            if isinstance(use.result, TensorType) and use.result.is_static:
                assert value.shape == use.result.shape and value.dtype == use.result.dtype.numpy, use
    assert len(seen) > (8 if op.operands else 3)


def ranged(use: ValidUse, at: int, of: TensorType) -> np.ndarray:
    """Contents of an operand, in its range where it has one."""
    data = small(of.static_shape, of.dtype)
    if at in use.ranges:
        low, high = use.ranges[at]
        data = np.clip(data.astype(np.int64), max(low, 0), high - 1).astype(of.dtype.numpy)
    return data


def test_recipes_complete_what_they_are_given() -> None:
    """A use on an operand at hand has that operand in it; recipes fall back on examples seldom."""
    fallen = {name: 0 for name in RECIPES}
    for name in RECIPES:
        for seed in range(60):
            pick = by_random(Random(seed))
            alone = a_use(name, pick)
            fallen[name] += alone is None
            if alone is not None and alone.operands:
                first = alone.operands[0]
                again = a_use(name, pick, first)
                assert again is None or not again.operands or any(t is first for t in again.operands)
    assert max(fallen.values()) < 8, fallen


def test_every_operator_has_a_recipe_or_examples_that_vary() -> None:
    for name, op in OPERATORS.items():
        if name not in RECIPES:
            pick = by_random(Random(1))
            assert len({str(varied(op, pick, dtypes_of(name))) for _ in range(30)}) > 3, name


@pytest.mark.parametrize("name", OPERATORS)
def test_invalid_uses_break_every_rule(name: str) -> None:
    """Each is refused with a label: one of the operator's own constraints, or of a rule that all share. Every
    constraint that the operator declares is broken by some use."""
    wanted = {f"{name}.{label}" for label in OPERATORS[name].constraints}
    seen: set[str] = set()
    for seed in count():
        found = a_refusal(name, by_random(Random(seed)))
        assert found.label in wanted or found.label.startswith(SHARED), found
        seen.add(found.label)
        if seed >= 20 and wanted <= seen:
            break
        assert seed < 3000, f"no use breaks {sorted(wanted - seen)}"
    assert len(seen) > 1


@settings(max_examples=30)
@given(operator_calls("nn.conv2d"), invalid_calls("nn.conv2d"))
def test_strategies(use: ValidUse, refusal: Refusal) -> None:
    assert use.accepted
    with pytest.raises(Invalid) as said:
        assert refusal.use.result
    assert said.value.label == refusal.label
