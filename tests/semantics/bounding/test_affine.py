"""What each function makes of errors that hang together, against numbers that hang together so.

The symbols of a run are drawn, the function is computed of what they make of its operands, and must be what its form
says, within the rest of the form, and inside of its interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounding import affine, affine_rules
from assay.semantics.bounding.affine import Exhausted, Followed, Symbols
from assay.semantics.bounding.model import unit
from assay.semantics.bounds import Bounded, contains, erf, windows
from assay.semantics.dtypes import FLOAT32
from assay.semantics.ops import operator

Array = np.ndarray[Any, Any]
Function = Callable[[Any, Any], Any]


def _attrs(name: str, **given: Any) -> dict[str, Any]:
    return {n: a.default for n, a in operator(name).attrs.items() if hasattr(a, "default")} | given


def _softmax(a: Any, b: Any) -> Any:
    if not isinstance(a, Bounded):
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    return operator("nn.softmax").value({"axis": -1}, a)


def _layer_norm(a: Any, b: Any) -> Any:
    if isinstance(a, Bounded):
        ones = Bounded.exact(np.ones(a.shape[-1], np.float32))
        return operator("nn.layer_norm").value(_attrs("nn.layer_norm", axes=(-1,), epsilon=0.1), a, ones)
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 0.1)


def _sigmoid(a: Any, b: Any) -> Any:
    return operator("sigmoid").value({}, a) if isinstance(a, Bounded) else 1 / (1 + np.exp(-a))


def _leakyrelu(a: Any, b: Any) -> Any:
    if isinstance(a, Bounded):
        return operator("nn.leakyrelu").value({"alpha": 0.125}, a)
    return np.where(a >= 0, a, 0.125 * a)


def _at_least(a: Any, number: float) -> Any:
    """a**2 + number, which is not below it."""
    return a * a + (np.float32(number) if isinstance(a, Bounded) else number)


def _erf(a: Any, b: Any) -> Any:
    return erf(a)


FUNCTIONS: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "add itself": lambda a, b: a + a,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "square": lambda a, b: a * a,
    "divide": lambda a, b: a / _at_least(b, 1.0),
    "reciprocal": lambda a, b: np.reciprocal(_at_least(b, 1.0)),
    "negative": lambda a, b: -a,
    "exp": lambda a, b: np.exp(a),
    "log": lambda a, b: np.log(_at_least(a, 0.5)),
    "sqrt": lambda a, b: np.sqrt(_at_least(a, 0.5)),
    "tanh": lambda a, b: np.tanh(a),
    "erf": _erf,
    "sin": lambda a, b: np.sin(a),
    "cos": lambda a, b: np.cos(a),
    "power 2": lambda a, b: np.power(a, np.asarray(2.0, a.dtype)),
    "power 3": lambda a, b: np.power(a, np.asarray(3.0, a.dtype)),
    "power 1.5": lambda a, b: np.power(_at_least(a, 0.5), np.asarray(1.5, a.dtype)),
    "maximum": lambda a, b: np.maximum(a, b),
    "relu": lambda a, b: np.maximum(a, a.dtype.type(0)),
    "minimum": lambda a, b: np.minimum(a, b),
    "clip": lambda a, b: np.clip(a, a.dtype.type(-0.25), a.dtype.type(0.25)),
    "absolute": lambda a, b: np.abs(a),
    "where": lambda a, b: np.where(a > b, a + a, b),
    "max": lambda a, b: np.max(a, axis=-1, keepdims=True),
    "min of all": lambda a, b: np.min(a),
    "max over two": lambda a, b: np.max(a * b, axis=(0, 1)),
    "sum": lambda a, b: np.sum(a, axis=0),
    "mean": lambda a, b: np.mean(a, axis=1, keepdims=True),
    "matmul": lambda a, b: np.matmul(a, np.transpose(b)),
    "tensordot": lambda a, b: np.tensordot(a, b, ((0,), (0,))),
    "concatenate": lambda a, b: np.concatenate([a, b, a], axis=1),
    "stack": lambda a, b: np.stack([b, a]),
    "split": lambda a, b: np.split(a * b, 2, axis=1)[1],
    "pad": lambda a, b: np.pad(a, ((1, 0), (0, 2)), constant_values=a.dtype.type(3)) * 2,
    "pad by itself": lambda a, b: np.pad(a, ((1, 0), (0, 2)), mode="edge"),
    "take": lambda a, b: np.take(a, [1, 0, 1], axis=0) - np.flip(b)[:1],
    "windows": lambda a, b: np.sum(windows(a, (2,), (1,), (2,)), axis=-1),
    "chain": lambda a, b: np.transpose(np.tanh(a * (b + a)) * (a - b).reshape(a.shape)[:, ::-1]),
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "sigmoid": _sigmoid,
    "leaky relu": _leakyrelu,
    "leaky relu that rises": lambda a, b: -_leakyrelu(-a, b) * a.dtype.type(8),
}


def _operands(
    rng: np.random.Generator, size: float, mixes: bool
) -> tuple[Bounded, Bounded, Array, tuple[Array, Array, Array]]:
    """Two tensors of shape (2, 4), the radius of their symbols, and what makes them. If it `mixes`, they share symbols;
    else each element is its own symbol, and there is no rest."""
    x = rng.standard_normal((1, 6 if mixes else 16)).astype(np.float32)
    radius = size * rng.uniform(0.1, 1, x.shape)
    w = rng.standard_normal((6, 16)).astype(np.float32) / 3 if mixes else np.eye(16, dtype=np.float32)
    named = Symbols().named(Bounded(x, radius, FLOAT32))
    mixed = np.matmul(named, Bounded.exact(w)) if mixes else named
    assert isinstance(mixed, Followed)
    a, b = (mixed[:, i : i + 8].reshape(2, 4) for i in (0, 8))
    return a, b, radius, x, w


def _leaves(function: Function, seed: int, size: float, slip: float = 0.0) -> list[str]:
    """How the function, rounded by `slip`, leaves its form or its interval, on symbols at their ends and between."""
    rng = np.random.default_rng(seed)
    a, b, radius, x, w = _operands(rng, size, mixes=not slip)
    with np.errstate(all="ignore"):
        made = function(a, b)
    assert isinstance(made, Followed), "errors are not followed"
    found = []
    for k in range(40):
        e = rng.choice([-1.0, 1.0], x.shape) if k % 2 else rng.uniform(-1, 1, x.shape)
        mixed = (x.astype(np.float64) + e * radius) @ w.astype(np.float64)
        with np.errstate(all="ignore"):
            real = np.asarray(function(*(mixed[:, i : i + 8].reshape(2, 4) for i in (0, 8))))
        for sign in (-1, 1):
            near = real * (1 + sign * slip)
            drawn = made.shared.ids < x.size  # a product of two of them has symbols of its own
            part = made.shared.part(slice(None)).astype(np.float64)
            form = made.centre + np.tensordot(e.ravel()[made.shared.ids[drawn]], part[drawn], 1)
            rest = made.rest + np.abs(part[~drawn]).sum(axis=0)
            if (np.abs(near - form) > rest * (1 + 1e-12) + 1e-15).any():
                found.append("form")
            if (np.abs(near - made.value) > made.radius * (1 + 1e-12) + 1e-15).any():
                found.append("interval")
    return found


@pytest.mark.parametrize("size", [1e-4, 0.05, 0.6])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_form_and_its_interval_hold(name: str, size: float) -> None:
    for seed in range(6):
        assert not _leaves(FUNCTIONS[name], seed, size)


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "sqrt", "exp", "tanh", "erf", "sum", "matmul"])
def test_a_rounding_is_inside_of_the_form(name: str) -> None:
    for seed in range(4):
        assert not _leaves(FUNCTIONS[name], seed, 1e-7, unit(FLOAT32) / 2)


def test_what_was_wrong_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that are planted: a derivative that is wrong, what it leaves out forgotten, a rounding forgotten, a chord
    without its gap, a rest that gets lost."""
    monkeypatch.setitem(affine.RULES, np.exp, affine_rules._curved(np.exp, np.exp, lambda low, high: 0.0))
    assert _leaves(FUNCTIONS["exp"], 0, 0.05)
    monkeypatch.setitem(
        affine.RULES, np.tanh, affine_rules._curved(np.tanh, lambda x: 1.0 + 0 * x, affine_rules._tanh_second)
    )
    assert _leaves(FUNCTIONS["tanh"], 0, 1e-4)
    with monkeypatch.context() as patch:
        patch.setattr(affine_rules, "_kinked", lambda low, high: (np.where(low + high > 0, 1.0, 0.0), 0.0 * low))
        assert _leaves(FUNCTIONS["relu"], 1, 0.6)

    def product(made: Bounded, a: Any, b: Any) -> Bounded:
        return affine.elementwise(made, a.value * b.value, [(b.value, a), (a.value, b)], 0.0)

    monkeypatch.setitem(affine.RULES, np.multiply, product)
    assert _leaves(FUNCTIONS["multiply"], 0, 0.05)

    def unrounded(made: Bounded, a: Any, b: Any) -> Bounded:
        return affine.elementwise(made, a.value + b.value, [(1.0, a), (1.0, b)], 0.0, exact=True)

    monkeypatch.setitem(affine.RULES, np.add, unrounded)
    assert _leaves(FUNCTIONS["add"], 0, 1e-7, unit(FLOAT32) / 2)


def _sigmoid_of(x: Array) -> Array:
    return np.where(x >= 0, 1.0, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x)))


def _softmax_of(x: Array) -> Array:
    return np.asarray(_softmax(x.astype(np.float64), None))


GAIN, OFFSET = np.linspace(-2, 2, 8, dtype=np.float32), np.linspace(0, 1, 8, dtype=np.float32)


def _layer_norm_of(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * GAIN + OFFSET)


@pytest.mark.parametrize(
    ("name", "attrs", "more", "real"),
    [
        ("sigmoid", {}, {}, _sigmoid_of),
        ("leakyrelu", {"alpha": 0.125}, {"alpha": 0.125}, lambda x: np.where(x >= 0, x, 0.125 * x)),
        ("softmax", {"axis": -1}, {"axis": -1}, _softmax_of),
        ("layer_norm", {"axes": (-1,), "epsilon": 1e-5}, {"axes": (1,), "epsilon": 1e-5}, _layer_norm_of),
    ],
)
def test_what_a_whole_function_rounds_is_what_its_formula_may(name: str, attrs: Any, more: Any, real: Any) -> None:
    """What the rule of a whole function says that it rounds is no less than the interval of the formula, on numbers."""
    op = operator(name if name == "sigmoid" else f"nn.{name}")
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0):
        x = Bounded.exact((scale * rng.standard_normal((50, 8))).astype(np.float32))
        more_operands = [Bounded.exact(GAIN), Bounded.exact(OFFSET)] if name == "layer_norm" else []
        made = op.value(attrs, x, *more_operands)
        near = Symbols().named(Bounded(x.value, np.full(x.shape, 1e-30), FLOAT32))
        off = made.radius + np.abs(made.value - real(x.value))
        found = affine.WHOLES[name](made, near, *more_operands, **more)
        assert isinstance(found, Followed) and not found.joints or name in ("softmax", "layer_norm")
        rounding = made.rounding if name != "softmax" else found.rounding
        assert (rounding >= off * (1 - 1e-9)).all()
        assert not (rounding / 8 >= off).all(), "it says that anything is rounded"


def test_what_is_mixed_twice_cancels() -> None:
    """The identity as two rotations: intervals grow with each, and errors that hang together do not."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((64, 64)))[0].astype(np.float32)
    x = Bounded(rng.standard_normal((1, 64)), np.full((1, 64), 1e-3), FLOAT32)

    def turned(x: Bounded) -> Any:
        return np.matmul(np.matmul(x, Bounded.exact(turn)), Bounded.exact(turn.T.copy()))

    plain, followed = turned(x), turned(Symbols().named(x))
    assert np.median(plain.radius) > 20e-3
    assert np.median(followed.radius) < 1.3e-3


def test_what_cannot_be_followed_is_its_interval() -> None:
    """Symbols are not made beyond the limit; rows beyond it go into the rest, and nothing gets lost; a product is no
    longer followed where it may overflow; and the work has an end."""
    x = Bounded(np.ones((1, 40)), np.full((1, 40), 0.1), FLOAT32)
    assert Symbols(limit=1000).named(x) is x
    symbols = Symbols(limit=1600)
    first = symbols.named(x)
    assert isinstance(first, Followed) and len(first.shared.ids) == 40
    again = symbols.named(first.widened(0.2))
    assert isinstance(again, Followed) and len(again.shared.ids) == 40
    assert (again.shared.reach + again.rest >= 0.3).all()
    huge = np.multiply(first, Bounded.exact(np.full((1, 40), 3.3e38, np.float32)))
    assert np.isinf(huge.radius).all()
    assert contains(huge, np.full((1, 40), np.inf, np.float32)).all()
    with pytest.raises(Exhausted):
        Symbols(budget=100).named(x)
