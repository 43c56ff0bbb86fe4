"""What a sum of products may be off by, with terms that it takes up, against trees of additions in which every step
rounds as far off as it may (specs/semantics.md, M9.2 and M9.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounding import pointwise, sums
from assay.semantics.bounding.model import FOLDS, TAKEN_UP
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT32

Array = np.ndarray[Any, Any]
U = FLOAT32.unit_roundoff
COUNTS = (2, 7, 32, 128)


def _chain(terms: Array) -> tuple[float, float]:
    """The sum one after another, and what it is off where each step is rounded upwards as far as may be."""
    total, off = float(terms[0]), 0.0
    for t in terms[1:]:
        total += float(t)
        off += U * abs(total + off)
    return total, off


def _joined(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """Partial sums, two by two."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [
            p[0] if len(p) == 1 else (s := p[0][0] + p[1][0], (o := p[0][1] + p[1][1]) + U * abs(s + o)) for p in pairs
        ]
    return parts[0]


def _orders(rng: np.random.Generator, terms: Array) -> Iterator[list[Array]]:
    """Chains whose sums are then added: what is above 0 first, or below, both apart, the largest first, by chance."""
    up = np.sort(terms)
    above, below = up[up > 0][::-1], up[up <= 0]
    yield [np.concatenate([above, below[::-1]])]
    yield [np.concatenate([below, above[::-1]])]
    yield [p for p in (above, below) if p.size]
    yield [terms[np.argsort(-np.abs(terms))]]
    for parts in (1, 4):
        yield [p for p in np.array_split(rng.permutation(terms), parts) if p.size]


def _worst(rng: np.random.Generator, products: Array, taken: Array) -> float:
    """The most that a right sum of these was found to be off, with what each product may round by itself."""
    found = 0.0
    for sign in (1, -1):
        own = products * (1 + sign * (1 + FOLDS) * U * np.sign(products))
        for chains in _orders(rng, np.concatenate([own, taken])):
            total, off = _joined([_chain(c) for c in chains])
            found = max(found, abs(total + off - products.sum() - taken.sum()))
    return found


def _bound(a: Array, b: Array, taken: Array) -> float:
    made = np.matmul(Bounded.exact(a[None]), Bounded.exact(b[:, None]))
    for t in taken:
        made = pointwise.add(made, Bounded.exact(np.full((1, 1), t, np.float32)))
    return float(made.radius.item())


def _parts(count: int, taken: float) -> float:
    """The greatest part of its bound that a sum was found to be off by."""
    rng = np.random.default_rng(count)
    most = 0.0
    for k in range(40):
        a, b = rng.standard_normal((2, count)).astype(np.float32)
        more = (taken * rng.standard_normal(k % (TAKEN_UP + 2))).astype(np.float32)
        most = max(most, _worst(rng, a.astype(np.float64) * b, more.astype(np.float64)) / _bound(a, b, more))
    return most


@pytest.mark.parametrize("taken", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("count", COUNTS)
def test_no_tree_of_additions_is_further_off(count: int, taken: float) -> None:
    assert 0.3 < _parts(count, taken) <= 1


def test_sums_of_elements_are_no_further_off() -> None:
    rng = np.random.default_rng(0)
    for count in COUNTS:
        for scale in (0.0, 1.0):
            x = np.abs(rng.standard_normal(count) + scale).astype(np.float32) * rng.choice([-1, 1, 1], count)
            made = np.sum(Bounded.exact(x.astype(np.float32)))
            off = max(_joined([_chain(c) for c in p])[1] for p in _orders(rng, x.astype(np.float64)))
            assert 0.2 * made.radius < off <= made.radius


def test_bounds_that_are_too_small_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: half as much for additions, and nothing for terms that are taken up."""
    real = sums.summation
    with monkeypatch.context() as patch:
        patch.setattr(sums, "summation", lambda *given: tuple(p / 2 for p in real(*given)))
        assert _parts(128, 0.1) > 1
    monkeypatch.setattr(pointwise, "_taken_up", lambda out, a, b, sign=1: out)
    assert _parts(32, 30.0) > 1


def test_where_terms_cancel_partial_sums_are_small() -> None:
    """Of as much above 0 as below, no partial sum is more than half of all magnitudes."""
    a = np.ones(128, np.float32)
    b = np.resize(np.array([1, -1], np.float32), 128)
    assert _bound(a, b, np.zeros(0)) < 0.6 * _bound(a, np.abs(b), np.zeros(0))
