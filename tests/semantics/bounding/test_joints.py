"""What a row's elements may be off all at once: bounds of their squares, and rests with budgets, against numbers that
are chosen to be as far off as they can (specs/semantics.md, "Errors that hang together")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounding import affine, affine_rules, affine_sums, affine_wholes, shared
from assay.semantics.bounding.affine import Followed, Joint, Symbols, budgeted
from assay.semantics.bounding.shared import COARSE, SMALLEST, Errors
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT32
from assay.semantics.ops import operator

Array = np.ndarray[Any, Any]
COUNT = 16


def _errors(rng: np.random.Generator, how: str, symbols: int = 300) -> Errors:
    """Of 3 rows: of many symbols in all directions, in few, all in one, or one symbol an element."""
    match how:
        case "many":
            base = rng.standard_normal((symbols, 3, COUNT)) * rng.exponential(1, (symbols, 1, 1))
        case "few":
            base = rng.standard_normal((symbols, 3, 2)) @ rng.standard_normal((2, COUNT))
        case "one":
            base = rng.standard_normal((symbols, 3, 1)) * rng.standard_normal(COUNT)
        case _:
            base = np.tile(np.eye(COUNT)[:, None], (1, 3, 1))
    return Errors(np.arange(len(base)), base.reshape(len(base), -1).astype(np.float32), (3, COUNT))


def _far(rng: np.random.Generator, errors: Errors) -> list[Array]:
    """Symbols that are chosen so that a row as a whole is far off: against random directions, and then better ones."""
    part = errors.part(slice(None)).astype(np.float64).reshape(len(errors.ids), -1, errors.shape[-1])
    found = []
    for row in range(part.shape[1]):
        for _ in range(4):
            v = rng.standard_normal(part.shape[2])
            for _ in range(10):
                e = np.where(part[:, row] @ v >= 0, 1.0, -1.0)
                v = part[:, row].T @ e / np.maximum(errors.reach.reshape(-1, part.shape[2])[row], 1e-300) ** 2
            found.append(e)
    return found


def _worst(errors: Errors, rng: np.random.Generator) -> float:
    """The greatest part of their bound that the squares of rows were found to be."""
    off = [np.tensordot(e, errors.part(slice(None)).astype(np.float64), 1) for e in _far(rng, errors)]
    return max(float((((o / errors.reach) ** 2).sum(-1, keepdims=True) / errors.squares).max()) for o in off)


@pytest.mark.parametrize("how", ["many", "few", "one", "own"])
def test_squares_of_a_row_are_bounded(how: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        errors = _errors(rng, how)
        assert 0.3 < _worst(errors, rng) <= 1
        scaled = errors.times(rng.uniform(0.1, 3, errors.shape))
        assert _worst(scaled, rng) <= 1
    if how == "many":
        assert (errors.squares < COUNT / 4).all(), "it says no more than that each is as far off as it may be"


def test_a_bound_of_squares_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = shared._squares
    monkeypatch.setattr(shared, "_squares", lambda errors: real(errors) / 3)
    assert _worst(_errors(np.random.default_rng(0), "many"), np.random.default_rng(0)) > 1


def test_what_a_budget_allows_is_no_less_than_any_choice() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        gain, cap = rng.exponential(1, (2, 6, 3)), rng.uniform(0, 1, (2, 6))
        budget = rng.uniform(0, 4, (2, 1))
        most = budgeted(gain, cap, budget)
        best = np.zeros_like(most)
        for _ in range(300):
            t = cap * rng.choice([0.0, 1.0, rng.uniform()], cap.shape)
            t *= np.minimum(1, budget / np.maximum(t.sum(-1, keepdims=True), 1e-12))
            best = np.maximum(best, np.einsum("rkn,rk->rn", gain, t))
        assert (best <= most * (1 + 1e-12)).all()
        assert (best > 0.5 * most).any()
        assert (most <= np.einsum("rkn,rk->rn", gain, cap) * (1 + 1e-9)).all()
        assert (most <= budget * gain.max(axis=1) * (1 + 1e-9)).all()


# --- through functions -----------------------------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(3).uniform(0.5, 1, (COUNT, 4)).astype(np.float32)


def _norm(x: Any) -> Any:
    if isinstance(x, Bounded):
        ones = Bounded.exact(np.ones(COUNT, np.float32))
        return operator("nn.layer_norm").value({"axes": (-1,), "epsilon": 1e-3}, x, ones)
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)


def _softmax(x: Any) -> Any:
    if isinstance(x, Bounded):
        return operator("nn.softmax").value({"axis": -1}, x)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _mixed(x: Any) -> Any:
    return np.matmul(x, Bounded.exact(WEIGHTS) if isinstance(x, Bounded) else WEIGHTS.astype(np.float64))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "squares": lambda x: np.sum(x * x, axis=-1, keepdims=True),
    "mean of squares": lambda x: np.mean(np.power(x, np.asarray(2.0, x.dtype)), axis=-1, keepdims=True),
    "squares, mixed": lambda x: _mixed(x * x),
    "exp, mixed": lambda x: _mixed(np.exp(x)),
    "tanh and more": lambda x: _mixed(np.tanh(x.reshape(-1, COUNT)) * x.dtype.type(2) - x),
    "product": lambda x: _mixed(x * np.tanh(x)),
    "row, scaled": lambda x: _mixed(x * np.mean(x, axis=-1, keepdims=True)),
    "row, divided": lambda x: _mixed(x / (np.sum(x * x, axis=-1, keepdims=True) + x.dtype.type(1))),
    "layer norm": _norm,
    "layer norm, mixed": lambda x: _mixed(_norm(x)),
    "softmax": _softmax,
    "softmax, mixed": lambda x: _mixed(_softmax(x)),
    "all pairs": lambda x: np.matmul(x, np.transpose(x + x.dtype.type(1))),
}


def _leaves(function: Callable[[Any], Any], size: float, seed: int) -> int:
    """How often a result leaves its form or its interval, for symbols that make rows as far off as they can be."""
    rng = np.random.default_rng(seed)
    errors = _errors(rng, "many", 100)
    errors = errors.times(size / errors.reach)
    value = rng.standard_normal(errors.shape).astype(np.float32)
    plain = Bounded(value, errors.reach, FLOAT32)
    x = Followed(plain, Symbols(count=100), errors, plain.value, np.zeros(errors.shape))
    with np.errstate(all="ignore"):
        made = function(x)
    assert isinstance(made, Followed)
    drawn = made.shared.ids < 100
    part = made.shared.part(slice(None)).astype(np.float64)
    rest = (made.rest + np.abs(part[~drawn]).sum(axis=0)) * (1 + 1e-12) + 1e-15
    found = 0
    for e in _far(rng, errors):
        real = function(value.astype(np.float64) + np.tensordot(e, errors.part(slice(None)).astype(np.float64), 1))
        form = made.centre + np.tensordot(e[made.shared.ids[drawn]], part[drawn], 1)
        found += bool((np.abs(real - form) > rest).any() | (np.abs(real - made.value) > made.radius + 1e-15).any())
    return found


@pytest.mark.parametrize("size", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forms_hold_where_a_row_is_as_far_off_as_it_can_be(name: str, size: float) -> None:
    for seed in range(3):
        assert not _leaves(FUNCTIONS[name], size, seed)


@pytest.mark.parametrize(
    "name", ["squares", "squares, mixed", "exp, mixed", "row, scaled", "layer norm", "softmax", "all pairs"]
)
def test_a_budget_that_is_too_small_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the squares of a row are said to be a hundredth of what they may be, and what is left out of a whole
    function so with them."""
    real = shared._squares
    monkeypatch.setattr(shared, "_squares", lambda errors: real(errors) / 400)
    if name in ("layer norm", "softmax"):
        left = affine_wholes.elementwise

        def less(made: Bounded, base: Any, parts: Any, most: Any, **more: Any) -> Bounded:
            return left(made, base, parts, most / 20, **more)

        monkeypatch.setattr(affine_wholes, "elementwise", less)
    assert sum(_leaves(FUNCTIONS[name], 0.2, seed) for seed in range(3))


def test_budgets_are_worth_their_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """With them, less is left out of what is squared and mixed; what is left is one value to all that reads it."""
    errors = _errors(np.random.default_rng(0), "many", 100)
    errors = errors.times(0.2 / errors.reach)
    value = np.random.default_rng(1).standard_normal(errors.shape).astype(np.float32)

    def made() -> Followed:
        plain = Bounded(value, errors.reach, FLOAT32)
        x = Followed(plain, Symbols(count=100), errors, plain.value, np.zeros(errors.shape))
        found = _mixed(np.exp(x))
        assert isinstance(found, Followed)
        return found

    close = made()
    assert close.shared.ids.max() >= 100
    monkeypatch.setattr(affine_rules, "second", lambda *given: None)
    loose = made()
    assert (close.radius < loose.radius).all()
    assert np.median(close.rest + np.abs(close.shared.part(slice(100, None))).sum(0)) < 0.5 * np.median(loose.rest)


def test_joints_are_kept_and_lost_as_they_must_be() -> None:
    """A joint is of rows: what keeps these keeps it, and else the boxes are left."""
    x = Bounded(np.ones((2, 8)), np.full((2, 8), 0.1), FLOAT32)
    joint = Joint(np.full((2, 8), 0.05), np.full((2, 8), 0.05), np.ones((2, 1)))
    followed = Followed(x, Symbols(), Errors.none((2, 8)), x.value, np.full((2, 8), 0.1), [joint])
    kept = followed.reshape(1, 2, 8)
    assert isinstance(kept, Followed) and kept.joints[0].box.shape == (1, 2, 8)
    for lost in (followed.transpose(), followed.reshape(4, 4), followed[:, ::-1]):
        assert isinstance(lost, Followed) and not lost.joints and (lost.rest >= 0.1).all()
    named = Symbols().named(followed)
    assert isinstance(named, Followed)
    assert np.allclose(named.rest, 0.05) and np.allclose(named.shared.reach, 0.05, rtol=1e-3)
    whole = np.asarray(np.sum(followed, axis=-1).rest)  # type: ignore[attr-defined]
    assert (whole >= 0.05 * 8 + 0.05).all() and (whole < 0.1 * 8).all()


# --- float32 ---------------------------------------------------------------------------------------------------------


def _rounded_away(factor: float, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a product of errors is further from the product over the reals than is allowed for its float32."""
    monkeypatch.setattr(affine_sums, "COARSE", COARSE * factor)
    rng = np.random.default_rng(0)
    base = np.abs(rng.standard_normal((50, COUNT))).astype(np.float32) * 1e-3
    by = rng.uniform(0.5, 1, COUNT)
    errors = Errors(np.arange(50), base, (COUNT,)).times(by)
    weights = rng.uniform(0.1, 1, (COUNT, 4)).astype(np.float32)
    made = np.matmul(errors.part(slice(None)), weights)
    exact = (base.astype(np.float64) * by) @ weights.astype(np.float64)
    off = np.abs(made - exact).sum(axis=0)
    return bool((off > affine_sums.coarse(COUNT) * errors.reach @ weights.astype(np.float64) + 50 * SMALLEST).any())


def test_what_float32_rounds_of_errors_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no less would do: a fifteenth of it is not enough."""
    assert not _rounded_away(1.0, monkeypatch)
    assert _rounded_away(1 / 300, monkeypatch)
    assert affine.LARGEST < float(np.finfo(np.float32).max) ** 0.9
