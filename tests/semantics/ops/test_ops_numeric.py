"""Values and bounds of elementwise operators, contractions and normalisations, against plain formulas and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import BOOL, DTYPES, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.ops import OPERATORS, contraction
from assay.semantics.types import TensorType
from tests.semantics.bounding.numeric import F32, FORMULAS, INF, NAN, TABLE, Array, run, tensor, type_of

USES = [pytest.param(op, e, id=f"{op.name}-{k}") for op in TABLE for k, e in enumerate(op.examples)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the interpreter runs: floating-point exceptions have their IEEE results and no warning."""
    with np.errstate(all="ignore"):
        yield


def values(example: Example, of: str | None = None) -> list[Array]:
    """Operands for an example; `of` replaces float32."""
    rng = np.random.default_rng(len(example.operands[0][0]))
    out = []
    for k, (shape, name) in enumerate(example.operands):
        low, high = example.ranges.get(k, (0, 2) if name == "bool" else (-4, 5))
        x = (
            rng.uniform(low, high, shape)
            if name.startswith("float")
            else rng.integers(max(low, 0) if name[0] == "u" else low, high, shape)
        )
        out.append(np.asarray(x).astype(DTYPES[of if of and name == "float32" else name].numpy))
    return out


def bounded(op: Operator, attrs: Attrs, xs: Sequence[Array]) -> Any:
    return op.value(op.check_attrs(attrs), *(Bounded.exact(x) if dtype(x.dtype).is_float else x for x in xs))


def test_every_operator_has_a_formula() -> None:
    assert FORMULAS.keys() == {op.name for op in TABLE}
    assert all(OPERATORS[op.name] is op for op in TABLE)


def wrapped(exact: Array, of: DType) -> Array:
    """Python numbers as integers of a dtype, modulo its size."""
    if of is BOOL:
        return exact.astype(bool)
    return np.vectorize(lambda v: (int(v) - int(of.min)) % 2**of.bits + int(of.min), otypes=[object])(exact).astype(
        of.numpy
    )


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
@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "negative", "abs", "maximum", "matmul", "floor_divide"]
)
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
    (
        "power",
        {},
        [[0.0, NAN, -8.0, 2.0, 0.0, -2.0], [0.0, 0.0, 0.5, -1.0, -1.0, 3.0]],
        [1.0, 1.0, NAN, 0.5, INF, -8.0],
    ),
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
        keep = [
            all(abs(c) not in (TINY, 3e38, 1e-30, 100.0, 104.0, 200.0) for c in column)
            for column in zip(*operands, strict=True)
        ]
        operands = [[v for v, k in zip(row, keep, strict=True) if k] for row in operands]
        expected = [v for v, k in zip(expected, keep, strict=True) if k]
    xs = [np.array(row, of) for row in operands]
    got, want = np.asarray(run(name, *xs, **attrs)), np.array(expected, of)
    nan = np.isnan(got) & np.isnan(want)
    assert (nan | ((got == want) & (np.signbit(got) == np.signbit(want)))).all(), got
    bounds = bounded(OPERATORS[name], attrs, xs)
    assert contains(bounds, got).all() and not np.isinf(bounds.radius).any()


def test_bounds_that_no_integer_crosses() -> None:
    x = np.array([-128, 0, 127], np.int8)
    assert run("clip", x, min=-200, max=300).tolist() == x.tolist()
    assert run("clip", x, min=127).tolist() == [127] * 3 and run("clip", x, max=-128).tolist() == [-128] * 3
    assert type_of("clip", tensor((3,), "int8"), min=127, max=-128).dtype is DTYPES["int8"]


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
    b = np.full((1, 3), 2**31 - 1, np.int32)
    assert run("matmul", b, b.T).item() == 3
    c = np.full((1, 3), 2**63 + 1, np.uint64)
    assert run("matmul", c, c.T).item() == 3


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
    z = rng.standard_normal((3, 40)).astype(F32) * 2 + 1000
    peak = z.max(axis=-1, keepdims=True)
    late = z - (peak + np.log(np.exp(z - peak).sum(axis=-1, keepdims=True)))
    assert contains(bounded(OPERATORS["nn.log_softmax"], {}, [z]), late).all()


def test_a_variance_from_sequential_moments_is_inside() -> None:
    x = np.full((1, 2000), 329.7, F32)  # nearly all roundings go the same way
    x += np.array([2, -2] * 1000, F32)
    ones, count = np.ones(2000, F32), F32(2000)
    average = np.add.accumulate(x, axis=1)[:, -1:] / count
    moments = np.add.accumulate(x * x, axis=1)[:, -1:] / count - average * average
    assert moments > 2 * x.astype(np.float64).var()
    layer = (x - average) / np.sqrt(moments + F32(1e-5))
    wanted = bounded(OPERATORS["nn.layer_norm"], {"axes": (1,)}, [x, ones])
    assert contains(wanted, layer).all() and np.isfinite(wanted.radius).all()


def test_a_response_from_a_running_sum_is_inside() -> None:
    attrs = {"size": 5, "alpha": 5.0, "bias": 1e-3, "beta": 0.75}
    x = np.random.default_rng(0).uniform(1, 2, (2, 9, 4)).astype(F32)
    x[:, :2] *= 100  # what has left the window leaves its rounding errors behind
    squares = np.pad(x * x, ((0, 0), (2, 2), (0, 0)))
    base = F32(1e-3) + squares[:, :5].sum(axis=1)
    running = [base]
    for c in range(1, 9):
        running.append(running[-1] + squares[:, c + 4] - squares[:, c - 1])
    wanted = bounded(OPERATORS["nn.lrn"], attrs, [x])
    assert contains(wanted, x * np.power(np.stack(running, axis=1), F32(-0.75))).all()
    assert not contains(wanted, x * np.power(np.stack(running, axis=1), F32(-0.7))).any()


def test_a_convolution_that_starts_from_its_bias_is_inside() -> None:
    x, w, bias = np.full((1, 300, 1), 0.011, F32), np.full((1, 300, 1), 0.013, F32), np.array([1000.0], F32)
    total = bias[0]
    for p, q in zip(x.ravel(), w.ravel(), strict=True):
        total = total + p * q
    wanted = bounded(OPERATORS["nn.conv1d"], {}, [x, w, bias])
    assert contains(wanted, np.full((1, 1, 1), total)).all()
    assert not contains(wanted, np.full((1, 1, 1), F32(1000.2))).any()


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
    xs = [
        (rng.uniform(0.1, 4, s) if name in ("log", "power", "nn.batch_norm") else rng.standard_normal(s) * 3)
        for s in shapes
    ]
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
