"""Elementwise operators, contractions and normalisations: values against plain formulas, types, bounds, every label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, DType, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.ops import OPERATORS, contraction, elementwise, normalization
from assay.semantics.scalar import Dim, Expr, Var, evaluate_dim
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
F32 = np.float32
INF, NAN = math.inf, math.nan
TABLE = (*elementwise.TABLE, *contraction.TABLE, *normalization.TABLE)
USES = [pytest.param(op, e, id=f"{op.name}-{k}") for op in TABLE for k, e in enumerate(op.examples)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the interpreter runs: floating-point exceptions have their IEEE results and no warning."""
    with np.errstate(all="ignore"):
        yield


def tensor(shape: Sequence[Dim], of: DType | str = FLOAT32) -> TensorType:
    return TensorType(tuple(shape), dtype(of))


def values(example: Example, of: str | None = None) -> list[Array]:
    """Operands for an example; `of` replaces float32."""
    rng = np.random.default_rng(len(example.operands[0][0]))
    out = []
    for k, (shape, name) in enumerate(example.operands):
        low, high = example.ranges.get(k, (0, 2) if name == "bool" else (-4, 5))
        x = rng.uniform(low, high, shape) if name.startswith("float") else rng.integers(max(low, 0) if name[0] == "u" else low, high, shape)
        out.append(np.asarray(x).astype(DTYPES[of if of and name == "float32" else name].numpy))
    return out


def run(name: str, *xs: Any, **attrs: Any) -> Any:
    op = OPERATORS[name]
    return op.value(op.check_attrs(attrs), *xs)


def bounded(op: Operator, attrs: Attrs, xs: Sequence[Array]) -> Any:
    return op.value(op.check_attrs(attrs), *(Bounded.exact(x) if dtype(x.dtype).is_float else x for x in xs))


# --- plain formulas ------------------------------------------------------------------------------------------------


def each(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python numbers at every index, operands broadcast by hand."""

    def apply(attrs: Attrs, *xs: Array) -> Array:
        shape = tuple(max(d) for d in itertools.zip_longest(*(x.shape[::-1] for x in xs), fillvalue=1))[::-1]
        out = np.empty(shape, object)
        for i in np.ndindex(*shape):
            own = [tuple(0 if d == 1 else j for d, j in zip(x.shape, i[len(i) - x.ndim :], strict=True)) for x in xs]
            out[i] = f(attrs, *(x[o].item() for x, o in zip(xs, own, strict=True)))
        return out

    return apply


def total(f: Callable[..., float]) -> Callable[..., Any]:
    """A formula of floats with NaN where Python raises."""

    def safe(attrs: Attrs, *xs: float) -> float:
        try:
            return f(attrs, *xs)
        except (ValueError, ZeroDivisionError):
            return -INF if f is LOG and xs[0] == 0 else NAN

    return each(safe)


def _log(attrs: Attrs, x: float) -> float:
    return math.log(x)


LOG = _log


def _clip(attrs: Attrs, x: float) -> float:
    x = x if attrs["min"] is None else max(x, attrs["min"])
    return x if attrs["max"] is None else min(x, attrs["max"])


def _matmul(attrs: Attrs, a: Array, b: Array) -> Array:
    left = a[None] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = np.broadcast_to(left, batch + left.shape[-2:]), np.broadcast_to(right, batch + right.shape[-2:])
    out = np.zeros((*batch, left.shape[-2], right.shape[-1]))
    for i in np.ndindex(*out.shape):
        out[i] = sum(left[(*i[:-1], k)].item() * right[(*i[:-2], k, i[-1])].item() for k in range(left.shape[-1]))
    out = out[..., 0, :] if a.ndim == 1 else out
    return out[..., 0] if b.ndim == 1 else out


def _conv(attrs: Attrs, x: Array, w: Array, *bias: Array) -> Array:
    rank = w.ndim - 2
    strides, dilation, padding = attrs["strides"], attrs["dilation"], attrs["padding"]
    plane = [
        (x.shape[2 + k] + padding[k] + padding[k + rank] - dilation[k] * (w.shape[2 + k] - 1) - 1) // strides[k] + 1
        for k in range(rank)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *plane))
    for n, o, *place in np.ndindex(*out.shape):
        group = o // (w.shape[0] // attrs["groups"])
        result = bias[0][o].item() if bias else 0
        for c, *tap in np.ndindex(*w.shape[1:]):
            at = [place[k] * strides[k] + tap[k] * dilation[k] - padding[k] for k in range(rank)]
            if all(0 <= a < s for a, s in zip(at, x.shape[2:], strict=True)):
                result += x[(n, group * w.shape[1] + c, *at)].item() * w[(o, c, *tap)].item()
        out[(n, o, *place)] = result
    return out


def _softmax(log: bool) -> Callable[..., Array]:
    def apply(attrs: Attrs, x: Array) -> Array:
        rows = np.moveaxis(x.astype(float), attrs["axis"], -1)
        out = np.empty(rows.shape)
        for i in np.ndindex(*rows.shape[:-1]):
            e = [math.exp(v) for v in rows[i]]
            out[i] = [math.log(v / math.fsum(e)) if log else v / math.fsum(e) for v in e]
        return np.moveaxis(out, -1, attrs["axis"])

    return apply


def _batch_norm(attrs: Attrs, x: Array, *channel: Array) -> Array:
    out = np.empty(x.shape)
    for i in np.ndindex(*x.shape):
        gamma, beta, mean, var = (v[i[attrs["axis"]]].item() for v in channel)
        out[i] = gamma * (x[i].item() - mean) / math.sqrt(var + attrs["epsilon"]) + beta
    return out


def _layer_norm(attrs: Attrs, x: Array, gamma: Array, *beta: Array) -> Array:
    out = np.empty(x.shape)
    lead = x.ndim - len(attrs["axes"])
    for i in np.ndindex(*x.shape[:lead]):
        row = [v.item() for v in x[i].ravel()]
        mean = math.fsum(row) / len(row)
        var = math.fsum((v - mean) ** 2 for v in row) / len(row)
        y = [(v - mean) / math.sqrt(var + attrs["epsilon"]) * g.item() for v, g in zip(row, gamma.ravel(), strict=True)]
        if beta:
            y = [v + b.item() for v, b in zip(y, beta[0].ravel(), strict=True)]
        out[i] = np.reshape(y, x.shape[lead:])
    return out


def _lrn(attrs: Attrs, x: Array) -> Array:
    out = np.empty(x.shape)
    size = attrs["size"]
    for n, c, *i in np.ndindex(*x.shape):
        first, last = c - math.floor((size - 1) / 2), c + math.ceil((size - 1) / 2)
        s = math.fsum(x[(n, k, *i)].item() ** 2 for k in range(max(0, first), min(x.shape[1] - 1, last) + 1))
        out[(n, c, *i)] = x[(n, c, *i)].item() / (attrs["bias"] + attrs["alpha"] / size * s) ** attrs["beta"]
    return out


FORMULAS: dict[str, Callable[..., Array]] = {
    "negative": each(lambda attrs, x: -x),
    "abs": each(lambda attrs, x: abs(x)),
    "exp": each(lambda attrs, x: math.exp(x)),
    "log": total(LOG),
    "sqrt": total(lambda attrs, x: math.sqrt(x)),
    "sigmoid": each(lambda attrs, x: 1 / (1 + math.exp(-x))),
    "tanh": each(lambda attrs, x: math.tanh(x)),
    "erf": each(lambda attrs, x: math.erf(x)),
    "floor": each(lambda attrs, x: float(math.floor(x))),
    "ceil": each(lambda attrs, x: float(math.ceil(x))),
    "round": each(lambda attrs, x: float(round(x))),
    "reciprocal": each(lambda attrs, x: 1 / x),
    "nn.relu": each(lambda attrs, x: max(x, 0)),
    "nn.leakyrelu": each(lambda attrs, x: x if x >= 0 else F32(attrs["alpha"]).item() * x),
    "nn.gelu": each(lambda attrs, x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "nn.gelu_tanh": each(
        lambda attrs, x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    ),
    "clip": each(_clip),
    "astype": each(lambda attrs, x: {"float16": float, "float64": float, "int8": int, "bool": bool}[attrs["dtype"]](x)),
    "logical_not": each(lambda attrs, x: not x),
    "add": each(lambda attrs, a, b: a + b),
    "subtract": each(lambda attrs, a, b: a - b),
    "multiply": each(lambda attrs, a, b: a * b),
    "divide": each(lambda attrs, a, b: a / b),
    "truncate_divide": each(lambda attrs, a, b: int(a / b)),
    "floor_divide": each(lambda attrs, a, b: a // b),
    "power": total(lambda attrs, a, b: a**b if a >= 0 else math.pow(a, b)),
    "maximum": each(lambda attrs, a, b: max(a, b)),
    "minimum": each(lambda attrs, a, b: min(a, b)),
    "equal": each(lambda attrs, a, b: a == b),
    "not_equal": each(lambda attrs, a, b: a != b),
    "less": each(lambda attrs, a, b: a < b),
    "less_equal": each(lambda attrs, a, b: a <= b),
    "greater": each(lambda attrs, a, b: a > b),
    "greater_equal": each(lambda attrs, a, b: a >= b),
    "logical_and": each(lambda attrs, a, b: a and b),
    "logical_or": each(lambda attrs, a, b: a or b),
    "logical_xor": each(lambda attrs, a, b: a != b),
    "where": each(lambda attrs, c, a, b: a if c else b),
    "matmul": _matmul,
    **{f"nn.conv{rank}d": _conv for rank in (1, 2, 3)},
    "nn.softmax": _softmax(log=False),
    "nn.log_softmax": _softmax(log=True),
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.lrn": _lrn,
}


def test_every_operator_has_a_formula() -> None:
    assert FORMULAS.keys() == {op.name for op in TABLE}
    assert all(OPERATORS[op.name] is op for op in TABLE)


def wrapped(exact: Array, of: DType) -> Array:
    """Python numbers as integers of a dtype, modulo its size."""
    if of is BOOL:
        return exact.astype(bool)
    return np.vectorize(lambda v: (int(v) - int(of.min)) % 2**of.bits + int(of.min), otypes=[object])(exact).astype(of.numpy)


@pytest.mark.parametrize(("op", "example"), USES)
def test_the_value_is_the_formula(op: Operator, example: Example) -> None:
    attrs = op.check_attrs(example.attrs)
    xs = values(example)
    want = op.type_rule(attrs, tuple(tensor(x.shape, dtype(x.dtype)) for x in xs))
    got = op.value(attrs, *xs)
    assert isinstance(want, TensorType) and got.shape == want.shape and dtype(got.dtype) is want.dtype
    exact = np.asarray(FORMULAS[op.name](attrs, *xs))
    bounds = bounded(op, example.attrs, xs)
    if isinstance(bounds, Bounded):
        exact = exact.astype(np.float64)
        assert contains(bounds, got).all() and not np.isinf(bounds.radius).any()
        near = np.abs(exact - bounds.value) <= bounds.radius + 1e-14 * np.abs(exact)
        assert (near | (exact == bounds.value) | (np.isnan(exact) & np.isnan(bounds.value))).all()
    else:
        assert np.array_equal(got, wrapped(exact, want.dtype)) and np.array_equal(got, bounds)


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float64", "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize(("op", "example"), [u for u in USES if all(o[1] == "float32" for o in u.values[1].operands)])
def test_every_float_dtype(op: Operator, example: Example, of: str) -> None:
    """The same record computes in every float dtype, and its bound holds the value and the exact result."""
    attrs = op.check_attrs(example.attrs)
    xs = values(example, of)
    got = op.value(attrs, *xs)
    want = op.type_rule(attrs, tuple(tensor(x.shape, dtype(x.dtype)) for x in xs))
    assert isinstance(want, TensorType) and dtype(got.dtype) is want.dtype and got.shape == want.shape
    bounds = bounded(op, example.attrs, xs)
    if isinstance(bounds, Bounded):
        assert contains(bounds, got).all()
        # alpha is rounded to the dtype, where the formula has it in float32; three axes of plain loops take long
        if op.name not in ("nn.leakyrelu", "nn.conv3d"):
            exact = np.asarray(FORMULAS[op.name](attrs, *(x.astype(np.float64) for x in xs))).astype(np.float64)
            inside = np.abs(exact - bounds.value) <= bounds.radius + 1e-14 * np.abs(exact)
            assert (inside | ~np.isfinite(exact) | ~np.isfinite(bounds.value)).all()
        if got.dtype == np.float64 and got.size:
            assert bounds.radius.max() < 1e-12 * np.nanmax(np.abs(bounds.value)) + 1e-15


@pytest.mark.parametrize("of", ["int4", "uint4", "int8", "uint64", "int64"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "negative", "abs", "maximum", "matmul", "floor_divide"])
def test_integers_wrap(name: str, of: str) -> None:
    op, t = OPERATORS[name], DTYPES[of]
    edge = [int(t.min), int(t.max), 1, int(t.max) - 1, 3]
    a = np.array(edge, object).astype(t.numpy)
    xs = [a] if len(op.operands) == 1 else [a, np.array([3, int(t.max), int(t.max), 2, 1], object).astype(t.numpy)]
    if name == "matmul":
        exact = np.array(sum(int(p) * int(q) for p, q in zip(*xs, strict=True)), object)
    else:
        exact = np.array([getattr(_Integers, name)(*(int(v) for v in pair)) for pair in zip(*xs, strict=True)], object)
    got = op.value({}, *xs)
    assert got.dtype == t.numpy and np.array_equal(got, wrapped(exact, t))


class _Integers:
    add = staticmethod(lambda a, b: a + b)
    subtract = staticmethod(lambda a, b: a - b)
    multiply = staticmethod(lambda a, b: a * b)
    negative = staticmethod(lambda a: -a)
    abs = staticmethod(abs)
    maximum = staticmethod(max)
    floor_divide = staticmethod(lambda a, b: a // b)


# --- edges ---------------------------------------------------------------------------------------------------------

TINY = 1e-45
EDGES: list[tuple[str, Attrs, list[list[float]], list[float]]] = [
    ("negative", {}, [[0.0, -0.0, INF]], [-0.0, 0.0, -INF]),
    ("abs", {}, [[-0.0, -INF, NAN]], [0.0, INF, NAN]),
    ("exp", {}, [[0.0, -INF, INF, 100.0, NAN, -104.0]], [1.0, 0.0, INF, INF, NAN, 0.0]),
    ("log", {}, [[0.0, -0.0, -1.0, 1.0, INF]], [-INF, -INF, NAN, 0.0, INF]),
    ("sqrt", {}, [[0.0, -0.0, -1.0, 4.0, INF]], [0.0, -0.0, NAN, 2.0, INF]),
    ("sigmoid", {}, [[0.0, INF, -INF, 200.0, -200.0, NAN]], [0.5, 1.0, 0.0, 1.0, 0.0, NAN]),
    ("tanh", {}, [[0.0, -0.0, INF, -INF, NAN]], [0.0, -0.0, 1.0, -1.0, NAN]),
    ("erf", {}, [[0.0, -0.0, INF, -INF, NAN]], [0.0, -0.0, 1.0, -1.0, NAN]),
    ("floor", {}, [[-0.5, 0.5, -0.0, INF, 2.0**30]], [-1.0, 0.0, -0.0, INF, 2.0**30]),
    ("ceil", {}, [[-0.5, 0.5, TINY]], [-0.0, 1.0, 1.0]),
    ("round", {}, [[0.5, 1.5, 2.5, -0.5, -2.5, NAN]], [0.0, 2.0, 2.0, -0.0, -2.0, NAN]),
    ("reciprocal", {}, [[0.0, -0.0, INF, TINY, 4.0]], [INF, -INF, 0.0, INF, 0.25]),
    ("nn.relu", {}, [[-0.0, 0.0, -1.0, NAN, TINY, INF]], [0.0, 0.0, 0.0, NAN, TINY, INF]),
    ("nn.leakyrelu", {"alpha": 0.0}, [[-0.0, -2.0, NAN, -INF]], [-0.0, -0.0, NAN, NAN]),
    ("nn.gelu", {}, [[0.0, -0.0, INF, -INF]], [0.0, -0.0, INF, NAN]),
    ("clip", {"min": 0.0, "max": 1.0}, [[-0.0, NAN, -5.0, 5.0]], [0.0, NAN, 0.0, 1.0]),
    ("clip", {"min": 2.0, "max": 1.0}, [[0.0, 3.0]], [1.0, 1.0]),
    ("clip", {"max": -0.0}, [[0.0, -1.0]], [-0.0, -1.0]),
    ("add", {}, [[0.0, -0.0, INF, TINY, 3e38], [-0.0, -0.0, -INF, TINY, 3e38]], [0.0, -0.0, NAN, 2.8e-45, INF]),
    ("multiply", {}, [[0.0, -0.0, INF, 1e-30], [-1.0, -1.0, 0.0, 1e-30]], [-0.0, 0.0, NAN, 0.0]),
    ("divide", {}, [[1.0, -1.0, 0.0, 1.0, INF], [0.0, 0.0, 0.0, -0.0, INF]], [INF, -INF, NAN, -INF, NAN]),
    ("power", {}, [[0.0, NAN, -8.0, 2.0, 0.0, -2.0], [0.0, 0.0, 0.5, -1.0, -1.0, 3.0]], [1.0, 1.0, NAN, 0.5, INF, -8.0]),
    ("maximum", {}, [[0.0, -0.0, NAN, 1.0], [-0.0, 0.0, 1.0, NAN]], [0.0, 0.0, NAN, NAN]),
    ("minimum", {}, [[0.0, -0.0, NAN, 1.0], [-0.0, 0.0, 1.0, NAN]], [-0.0, -0.0, NAN, NAN]),
    ("nn.softmax", {}, [[1000.0, 1000.0, -INF]], [0.5, 0.5, 0.0]),
    ("nn.softmax", {}, [[INF, 1.0]], [NAN, NAN]),
    ("nn.log_softmax", {}, [[1000.0, -1000.0]], [0.0, -2000.0]),
]


@pytest.mark.parametrize(("name", "attrs", "operands", "expected"), EDGES)
@pytest.mark.parametrize("of", ["float32", "float64"])
def test_edges(name: str, attrs: Attrs, operands: list[list[float]], expected: list[float], of: str) -> None:
    if of == "float64":  # subnormals and overflows of float32 are neither here
        keep = [all(abs(c) not in (TINY, 3e38, 1e-30, 100.0, 104.0, 200.0) for c in column) for column in zip(*operands, strict=True)]
        operands = [[v for v, k in zip(row, keep, strict=True) if k] for row in operands]
        expected = [v for v, k in zip(expected, keep, strict=True) if k]
    xs = [np.array(row, of) for row in operands]
    got, want = np.asarray(run(name, *xs, **attrs)), np.array(expected, of)
    nan = np.isnan(got) & np.isnan(want)
    assert (nan | ((got == want) & (np.signbit(got) == np.signbit(want)))).all(), got
    bounds = bounded(OPERATORS[name], attrs, xs)
    assert contains(bounds, got).all() and not np.isinf(bounds.radius).any()


def test_conversions() -> None:
    x = np.array([1.9, -1.9, 0.0, -0.0, 127.9], F32)
    assert run("astype", x, dtype="int8").tolist() == [1, -1, 0, 0, 127]
    assert run("astype", np.array([NAN, 0.0, -0.0], F32), dtype="bool").tolist() == [True, False, False]
    assert run("astype", np.array([300, -1], np.int32), dtype="uint8").tolist() == [44, 255]
    assert run("astype", np.array([True]), dtype="float16").tolist() == [1.0]
    assert run("astype", np.array([1e6], F32), dtype="float16").tolist() == [INF]
    assert run("astype", np.array(2.5, F32), dtype="int64").shape == ()
    for wrong in (128.0, NAN, INF, -129.0):
        with pytest.raises(Trap, match="range") as trap:
            run("astype", np.array([wrong], F32), dtype="int8")
        assert trap.value.kind == "cast"


@pytest.mark.parametrize("name", ["truncate_divide", "floor_divide"])
def test_integer_division_by_zero_traps(name: str) -> None:
    with pytest.raises(Trap) as trap:
        run(name, np.array([1], np.int8), np.array([0], np.int8))
    assert trap.value.kind == "division by zero"
    got = run(name, np.array([-7, 7, -128], np.int8), np.array([2, -2, -1], np.int8))
    assert got.tolist() == ([-3, -3, -128] if name == "truncate_divide" else [-4, -4, -128])


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, F32)
    for name in ("exp", "nn.relu", "nn.softmax", "nn.log_softmax", "erf"):
        for operand in (x, Bounded.exact(x)):
            assert run(name, operand).shape == shape
    assert run("add", x, x).shape == shape
    weights = np.ones((4, 0, 3), F32)
    assert (run("nn.conv1d", np.ones((1, 0, 5), F32), weights) == np.zeros((1, 4, 3))).all()
    assert run("nn.conv1d", np.ones((0, 2, 5), F32), np.ones((4, 2, 3), F32)).shape == (0, 4, 3)


# --- speed is bought by blocks and wide accumulators ---------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 100])
def test_a_convolution_in_blocks_of_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 9, 7)).astype(F32), rng.standard_normal((6, 2, 3, 2)).astype(F32)
    attrs = {"groups": 2, "padding": (1, 0, 2, 1), "strides": (2, 1)}
    whole, bounds = run("nn.conv2d", x, w, **attrs), bounded(OPERATORS["nn.conv2d"], attrs, [x, w])
    monkeypatch.setattr(contraction, "BLOCK", block)
    assert contains(bounds, run("nn.conv2d", x, w, **attrs)).all()
    again = bounded(OPERATORS["nn.conv2d"], attrs, [x, w])
    np.testing.assert_allclose(again.radius, bounds.radius, rtol=1e-9)
    assert contains(again, whole).all()


def test_narrow_floats_are_accumulated_in_float32() -> None:
    ones = np.ones((1, 4000), DTYPES["bfloat16"].numpy)
    assert run("matmul", ones, ones.T).item() == 4000  # a bfloat16 accumulator stops at 256
    assert run("nn.softmax", ones)[0, 0] == np.asarray(1 / 4000).astype(ones.dtype)


def test_large_integer_products_are_exact() -> None:
    a = np.full((1, 2), 2**62 + 1, np.int64)
    assert run("matmul", a, a.T).item() == (2 * (2**62 + 1) ** 2 + 2**63) % 2**64 - 2**63
    b = np.full((1, 3), 2**25, np.int32)
    assert run("matmul", b, b.T).item() == 0


# --- planted faults ------------------------------------------------------------------------------------------------


def test_wrong_operators_are_outside_their_bounds() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 7, 5, 6)).astype(F32)
    w, bias = rng.standard_normal((4, 7, 3, 3)).astype(F32), rng.standard_normal(4).astype(F32)
    lrn = bounded(OPERATORS["nn.lrn"], {"size": 4, "alpha": 1.0}, [x])
    assert contains(lrn, run("nn.lrn", x, size=4, alpha=1.0)).all()
    flipped = run("nn.lrn", x[:, ::-1], size=4, alpha=1.0)[:, ::-1]  # the window of an even size on the wrong side
    assert not contains(lrn, flipped).all() and not contains(lrn, run("nn.lrn", x, size=4, alpha=4.0)).all()
    conv = bounded(OPERATORS["nn.conv2d"], {"padding": (1, 1, 1, 1)}, [x, w, bias])
    right = run("nn.conv2d", x, w, bias, padding=(1, 1, 1, 1))
    assert contains(conv, right).all()
    for wrong in (
        run("nn.conv2d", x, w[:, :, ::-1], bias, padding=(1, 1, 1, 1)),
        run("nn.conv2d", x, w, padding=(1, 1, 1, 1)),
        run("nn.conv2d", np.roll(x, 1, axis=3), w, bias, padding=(1, 1, 1, 1)),
        right * F32(1.001),
    ):
        assert not contains(conv, wrong).all()
    gamma, beta = np.ones(6, F32), np.zeros(6, F32)
    norm = bounded(OPERATORS["nn.layer_norm"], {"axes": (-1,)}, [x, gamma, beta])
    sample = x.std(axis=-1, ddof=1, keepdims=True)
    assert not contains(norm, (x - x.mean(axis=-1, keepdims=True)) / sample).any()  # the sample variance
    assert not contains(norm, run("nn.layer_norm", x, gamma, beta, axes=(-1,), epsilon=1e-2)).all()
    soft = bounded(OPERATORS["nn.softmax"], {"axis": 1}, [x])
    assert not contains(soft, run("nn.softmax", x, axis=2)).any()


def test_formulas_that_backends_use_are_inside() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 3, 50)) + 30).astype(F32)
    gamma, beta, mean = rng.standard_normal((3, 3)).astype(F32)
    mean, var = mean + F32(30), rng.uniform(0.5, 2, 3).astype(F32)
    channel = [gamma, beta, mean, var]
    scale = gamma / np.sqrt(var + F32(1e-5))
    folded = x * scale[:, None] + (beta - mean * scale)[:, None]
    assert contains(bounded(OPERATORS["nn.batch_norm"], {}, [x, *channel]), folded).all()
    average = x.mean(axis=-1, keepdims=True)
    moments = (x * x).mean(axis=-1, keepdims=True) - average * average
    g, b = rng.standard_normal((2, 50)).astype(F32)
    layer = (x - average) / np.sqrt(moments + F32(1e-5)) * g + b
    assert contains(bounded(OPERATORS["nn.layer_norm"], {"axes": (2,)}, [x, g, b]), layer).all()
    y = np.linspace(-120, 120, 999).astype(F32)
    sigmoid = bounded(OPERATORS["sigmoid"], {}, [y])
    assert contains(sigmoid, 1 / (1 + np.exp(-y))).all() and contains(sigmoid, F32(0.5) + np.tanh(y / 2) / 2).all()
    z = rng.standard_normal((3, 40)).astype(F32) * 20
    peak = z.max(axis=-1, keepdims=True)
    late = z - (peak + np.log(np.exp(z - peak).sum(axis=-1, keepdims=True)))
    assert contains(bounded(OPERATORS["nn.log_softmax"], {}, [z]), late).all()
    running = np.zeros((2, 9, 4), F32)
    squares = np.pad(x[:, 0, :36].reshape(2, 9, 4) ** 2, ((0, 0), (2, 2), (0, 0)))
    running[:, 0] = squares[:, :5].sum(axis=1)
    for c in range(1, 9):
        running[:, c] = running[:, c - 1] + squares[:, c + 4] - squares[:, c - 1]
    source = x[:, 0, :36].reshape(2, 9, 4)
    lrn = source * np.power(F32(1) + F32(1e-4 / 5) * running, F32(-0.75))
    assert contains(bounded(OPERATORS["nn.lrn"], {"size": 5}, [source]), lrn).all()


# --- types ---------------------------------------------------------------------------------------------------------

N, M = Var("n"), Var("m")


def type_of(name: str, *types: TensorType, **attrs: Any) -> TensorType:
    op = OPERATORS[name]
    op.check_operands(len(types))
    result = op.type_rule(op.check_attrs(attrs), types)
    assert isinstance(result, TensorType)
    return result


def test_symbolic_dims() -> None:
    assert str(type_of("add", tensor((N, 1)), tensor((3,)))) == "Tensor((n, 3), float32)"
    assert str(type_of("where", tensor((N,), BOOL), tensor((N,)), tensor(()))) == "Tensor((n,), float32)".replace(",)", ")")
    assert str(type_of("matmul", tensor((M, N)), tensor((N, 4)))) == "Tensor((m, 4), float32)"
    assert str(type_of("matmul", tensor((N, 2, 3)), tensor((1, 3, M)))) == "Tensor((n, 2, m), float32)"
    assert str(type_of("nn.layer_norm", tensor((M, N)), tensor((N,)), axes=(-1,))) == "Tensor((m, n), float32)"
    for name in ("nn.softmax", "nn.log_softmax"):
        assert str(type_of(name, tensor((M, N)))) == "Tensor((m, n), float32)"
    with pytest.raises(Invalid, match=r"broadcast\.C1"):
        type_of("add", tensor((N,)), tensor((M,)))


@pytest.mark.parametrize("attrs", [{}, {"strides": (2, 3)}, {"padding": (1, 0, 2, 1), "dilation": (2, 1), "strides": (3, 2)}])
def test_symbolic_convolution(attrs: Attrs) -> None:
    w = tensor((5, 3, 3, 2))
    general = type_of("nn.conv2d", tensor((M, 3, N, 8)), w, **attrs)
    assert isinstance(general.shape[2], Expr)
    for n in range(6, 20):
        special = type_of("nn.conv2d", tensor((2, 3, n, 8)), w, **attrs)
        assert tuple(evaluate_dim(d, {N: n, M: 2}) for d in general.shape) == special.shape
        assert run("nn.conv2d", np.ones((2, 3, n, 8), F32), np.ones((5, 3, 3, 2), F32), **attrs).shape == special.shape


def test_a_window_that_turns_out_not_to_fit_traps() -> None:
    type_of("nn.conv1d", tensor((1, 3, N)), tensor((5, 3, 4)))
    with pytest.raises(Trap, match=r"nn\.conv1d\.T1") as trap:
        run("nn.conv1d", np.ones((1, 3, 2), F32), np.ones((5, 3, 4), F32))
    assert trap.value.kind == "shape"


def test_same_channels_by_algebra() -> None:
    assert str(type_of("nn.conv1d", tensor((1, N * 2, 9)), tensor((4, N, 3)), groups=2).shape) == "(1, 4, 7)"
    assert type_of("nn.conv1d", tensor((1, 4, 9)), tensor((N * 2, 2, 3)), groups=2).shape[0] == 1


X4, W4 = tensor((2, 6, 9, 7)), tensor((4, 3, 3, 2))
C6 = tensor((6,))
CONV_INVALID: list[tuple[str, tuple[TensorType, ...], Attrs]] = [
    ("C1", (tensor((6, 9, 7)), W4), {}),
    ("C1", (X4, tensor((4, 3, 3))), {}),
    ("C2", (X4, W4), {"groups": 2, "strides": (0, 1)}),
    ("C2", (X4, W4), {"groups": 2, "strides": 2}),
    ("C2", (X4, W4), {"groups": 2, "dilation": (1.5, 1)}),
    ("C3", (X4, W4), {"groups": 2, "padding": (1, 1)}),
    ("C3", (X4, W4), {"groups": 2, "padding": (1, 1, -1, 0)}),
    ("C4", (X4, W4), {"groups": 0}),
    ("C4", (X4, W4), {"groups": True}),
    ("C5", (X4, W4), {}),
    ("C5", (tensor((2, N, 9, 7)), W4), {"groups": 2}),
    ("C6", (X4, tensor((5, 3, 3, 2))), {"groups": 2}),
    ("C6", (X4, tensor((N, 3, 3, 2))), {"groups": 2}),
    ("C7", (X4, W4, tensor((6,))), {"groups": 2}),
    ("C7", (X4, W4, tensor((4, 1))), {"groups": 2}),
    ("C8", (X4, W4), {"groups": 2, "dilation": (5, 1)}),
    ("C8", (X4, tensor((4, 3, 0, 2))), {"groups": 2}),
]


def flat(t: TensorType, rank: int) -> TensorType:
    """A type of a 2-d convolution for another number of spatial axes: the last one left out, or repeated."""
    if t.ndim < 3:
        return t
    return TensorType(t.shape[:-1] if rank == 1 else (*t.shape, t.shape[-1]), t.dtype)


def per_rank(attrs: Attrs, rank: int) -> Attrs:
    def fit(name: str, value: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        if name == "padding" and len(value) == 4:
            return value[::2] if rank == 1 else (*value[:2], value[1], *value[2:], value[3])
        return value[:rank] + value[1:] * (rank - 2) if len(value) == 2 else value + (1,) * 3

    return {k: fit(k, v) for k, v in attrs.items()}


INVALID: dict[str, list[tuple[str, tuple[TensorType, ...], Attrs]]] = {
    "nn.leakyrelu": [("C1", (C6,), {"alpha": "0.1"}), ("C1", (C6,), {"alpha": NAN})],
    "clip": [
        ("C1", (C6,), {"min": "0"}),
        ("C1", (C6,), {"max": NAN}),
        ("C2", (tensor((6,), INT32),), {"min": 0.5}),
        ("C3", (tensor((6,), "int8"),), {"min": 128}),
        ("C3", (tensor((6,), "uint8"),), {"max": -1}),
    ],
    "astype": [("C1", (C6,), {"dtype": "float128"}), ("C1", (C6,), {"dtype": np.float32})],
    "where": [("C1", (C6, C6, C6), {})],
    "matmul": [
        ("C1", (tensor(()), C6), {}),
        ("C1", (C6, tensor(())), {}),
        ("C2", (tensor((2, 3)), tensor((2, 3))), {}),
        ("C2", (tensor((2, 3)), tensor((2,))), {}),
        ("C2", (tensor((2, N)), tensor((M, 3))), {}),
    ],
    "nn.conv2d": CONV_INVALID,
    **{
        f"nn.conv{rank}d": [
            (label, tuple(flat(t, rank) for t in types), per_rank(attrs, rank)) for label, types, attrs in CONV_INVALID
        ]
        for rank in (1, 3)
    },
    "nn.softmax": [("C1", (C6,), {"axis": (0,)}), ("C1", (C6,), {"axis": None})],
    "nn.log_softmax": [("C1", (C6,), {"axis": 0.0})],
    "nn.batch_norm": [
        ("C1", (X4, C6, C6, C6, C6), {"axis": None}),
        ("C2", (X4, C6, C6, C6, tensor((1,))), {}),
        ("C2", (X4, tensor((6, 1)), C6, C6, C6), {}),
        ("C3", (X4, C6, C6, C6, C6), {"epsilon": -1e-5}),
        ("C3", (X4, C6, C6, C6, C6), {"epsilon": NAN}),
    ],
    "nn.layer_norm": [
        ("C1", (X4, tensor((7,))), {"axes": -1}),
        ("C1", (X4, tensor(())), {"axes": ()}),
        ("C2", (X4, C6), {"axes": (1,)}),
        ("C2", (X4, tensor((9, 7))), {"axes": (3, 2)}),
        ("C3", (X4, C6), {"axes": (-1,)}),
        ("C3", (X4, tensor((7,)), tensor((1,))), {"axes": (-1,)}),
        ("C4", (X4, tensor((7,))), {"axes": (-1,), "epsilon": "small"}),
    ],
    "nn.lrn": [
        ("C1", (C6,), {"size": 3}),
        ("C2", (X4,), {"size": 0}),
        ("C2", (X4,), {"size": 3.0}),
        ("C3", (X4,), {"size": 3, "alpha": None}),
        ("C3", (X4,), {"size": 3, "beta": INF}),
        ("C3", (X4,), {"size": 3, "bias": True}),
    ],
}


@pytest.mark.parametrize(
    ("name", "label", "types", "attrs"),
    [pytest.param(n, *case, id=f"{n}.{case[0]}-{k}") for n, cases in INVALID.items() for k, case in enumerate(cases)],
)
def test_invalid(name: str, label: str, types: tuple[TensorType, ...], attrs: Attrs) -> None:
    with pytest.raises(Invalid) as wrong:
        type_of(name, *types, **attrs)
    assert wrong.value.label == f"{name}.{label}"


def test_every_label_is_exercised() -> None:
    declared = {f"{op.name}.{label}" for op in TABLE for label in op.constraints}
    assert declared == {f"{name}.{case[0]}" for name, cases in INVALID.items() for case in cases}


SHARED: list[tuple[str, str, tuple[TensorType, ...], Attrs]] = [
    ("broadcast.C1", "add", (C6, tensor((5,))), {}),
    ("broadcast.C1", "where", (tensor((5,), BOOL), C6, C6), {}),
    ("broadcast.C1", "matmul", (tensor((4, 2, 3)), tensor((5, 3, 2))), {}),
    ("dtype.C2", "add", (C6, tensor((6,), INT32)), {}),
    ("dtype.C2", "where", (tensor((6,), BOOL), C6, tensor((6,), INT32)), {}),
    ("dtype.C2", "matmul", (C6, tensor((6,), "float16")), {}),
    ("dtype.C2", "nn.conv2d", (X4, tensor((4, 3, 3, 2), "float16")), {"groups": 2}),
    ("dtype.C2", "nn.batch_norm", (X4, C6, C6, C6, tensor((6,), "float64")), {}),
    ("dtype.C2", "nn.layer_norm", (X4, tensor((7,), "float64")), {"axes": (-1,)}),
    *(
        ("dtype.C3", name, (tensor((6,), INT32),) * len(OPERATORS[name].operands), {})
        for name in ("exp", "divide", "power", "nn.leakyrelu", "nn.softmax", "logical_and", "logical_not")
    ),
    *(("dtype.C3", name, (C6, C6), {}) for name in ("truncate_divide", "floor_divide", "logical_or")),
    *(("dtype.C3", name, (tensor((6,), BOOL),), {}) for name in ("negative", "clip", "nn.relu")),
    ("dtype.C3", "matmul", (tensor((6,), BOOL), tensor((6,), BOOL)), {}),
    ("dtype.C3", "nn.lrn", (tensor((2, 3), INT32),), {"size": 3}),
    ("axis.C1", "nn.softmax", (C6,), {"axis": 1}),
    ("axis.C1", "nn.softmax", (tensor(()),), {}),
    ("axis.C1", "nn.batch_norm", (X4, C6, C6, C6, C6), {"axis": 4}),
    ("axis.C1", "nn.layer_norm", (X4, C6), {"axes": (4,)}),
    ("call.C1", "add", (C6,), {}),
    ("call.C1", "nn.layer_norm", (X4, C6, C6, C6), {"axes": (-1,)}),
    ("call.C2", "exp", (C6,), {"axis": 1}),
    ("call.C3", "astype", (C6,), {}),
    ("call.C3", "nn.lrn", (X4,), {}),
]


@pytest.mark.parametrize(("label", "name", "types", "attrs"), SHARED)
def test_shared_rules(label: str, name: str, types: tuple[TensorType, ...], attrs: Attrs) -> None:
    with pytest.raises(Invalid) as wrong:
        type_of(name, *types, **attrs)
    assert wrong.value.label == label


def test_every_record_is_complete() -> None:
    for op in TABLE:
        assert op.doc and op.bound and op.source and op.examples, op.name
        for e in op.examples:
            op.check_attrs(e.attrs)
            for shape, _ in e.operands:  # equal dims would hide an axis taken for another
                dims = [d for d in shape if d > 1]
                assert len(set(dims)) == len(dims), (op.name, e)


# --- another runtime -----------------------------------------------------------------------------------------------

PEER = [
    ("sigmoid", "Sigmoid", [(200,)], {}, {}),
    ("tanh", "Tanh", [(200,)], {}, {}),
    ("erf", "Erf", [(200,)], {}, {}),
    ("log", "Log", [(200,)], {}, {}),
    ("exp", "Exp", [(200,)], {}, {}),
    ("nn.gelu", "Gelu", [(200,)], {}, {}),
    ("nn.gelu_tanh", "Gelu", [(200,)], {}, {"approximate": "tanh"}),
    ("power", "Pow", [(200,), (200,)], {}, {}),
    ("matmul", "MatMul", [(5, 3, 70), (70, 4)], {}, {}),
    ("nn.softmax", "Softmax", [(5, 30)], {}, {"axis": -1}),
    ("nn.log_softmax", "LogSoftmax", [(5, 30)], {}, {"axis": -1}),
    ("nn.layer_norm", "LayerNormalization", [(5, 30), (30,), (30,)], {"axes": (-1,)}, {"axis": -1}),
    ("nn.batch_norm", "BatchNormalization", [(2, 5, 7)] + [(5,)] * 4, {}, {}),
    ("nn.lrn", "LRN", [(2, 7, 5, 3)], {"size": 5, "alpha": 0.1}, {"size": 5, "alpha": 0.1}),
    ("nn.lrn", "LRN", [(2, 7, 5, 3)], {"size": 3, "beta": 0.5}, {"size": 3, "beta": 0.5}),
    (
        "nn.conv2d",
        "Conv",
        [(2, 6, 9, 8), (4, 3, 3, 2), (4,)],
        {"groups": 2, "strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
    ),
    ("nn.conv1d", "Conv", [(2, 6, 19), (6, 1, 4)], {"groups": 6}, {"group": 6}),
    ("nn.conv3d", "Conv", [(1, 2, 5, 6, 7), (3, 2, 2, 3, 2)], {}, {}),
]


@pytest.mark.peer
@pytest.mark.parametrize(("name", "onnx_name", "shapes", "attrs", "onnx_attrs"), PEER)
def test_onnxruntime_is_inside_the_bounds(
    name: str, onnx_name: str, shapes: list[tuple[int, ...]], attrs: Attrs, onnx_attrs: dict[str, Any]
) -> None:
    ort = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    xs = [(rng.uniform(0.1, 4, s) if name in ("log", "power", "nn.batch_norm") else rng.standard_normal(s) * 3) for s in shapes]
    xs = [x.astype(F32) for x in xs]
    names = [f"x{k}" for k in range(len(xs))]
    make, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [make.make_node(onnx_name, names, ["y"], **onnx_attrs)],
        "one",
        [make.make_tensor_value_info(n, real, x.shape) for n, x in zip(names, xs, strict=True)],
        [make.make_tensor_value_info("y", real, None)],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 20)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, dict(zip(names, xs, strict=True)))
    bounds = bounded(OPERATORS[name], attrs, xs)
    assert contains(bounds, got).all() and not bounds.vacuous.any()
    assert not contains(bounds, got + F32(0.01) * np.abs(got).max()).any()
