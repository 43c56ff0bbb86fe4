"""Values of reduction and pooling against plain loops and onnxruntime; all examples against their own bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import creation, movement, operator, pooling, reduction
from tests.semantics.structure import compute, onnxruntime_result, same, sample

OPS = (*reduction.TABLE, *pooling.TABLE, *movement.TABLE, *creation.TABLE)
EXAMPLES = [(op, e) for op in OPS for e in op.examples]
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Overflow and NaN are values here, as for the evaluator."""
    with np.errstate(all="ignore"):
        yield


def operands_of(example: Example, of: str) -> list[np.ndarray[Any, Any]]:
    """Data for an example, its float32 operands in another dtype."""
    out = []
    for i, (shape, name) in enumerate(example.operands):
        if i in example.ranges:
            out.append(np.random.default_rng(i).integers(*example.ranges[i], shape).astype(dtype(name).numpy))
        else:
            out.append(sample(shape, of if name == "float32" else name, seed=i))
    return out


@pytest.mark.parametrize("of", [*FLOATS, "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("op", "example"), EXAMPLES, ids=lambda v: getattr(v, "name", "example"))
def test_examples_have_values_within_their_own_bounds(op: Operator, example: Example, of: str) -> None:
    arrays = operands_of(example, of)
    value = compute(op.name, *arrays, **example.attrs)
    lifted = [Bounded.exact(a) if dtype(a.dtype).is_float else a for a in arrays]
    bounds = op.value(op.check_attrs(example.attrs), *lifted)
    for v, b in zip(value, bounds, strict=True) if isinstance(value, tuple) else [(value, bounds)]:
        if isinstance(b, Bounded):
            assert contains(b, v).all()
            # a product may overflow on the way, in an order that the value does not take
            assert not b.vacuous.any() or of.startswith("float8") or (op.name, of) == ("prod", "float16")
            assert op.family in ("reduction", "stepwise", "pooling") or b.is_decided
        else:
            assert same(v, b)


# --- reductions ---------------------------------------------------------------------------------------------------

LOOPS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": math.fsum,
    "prod": math.prod,
    "mean": lambda v: math.fsum(v) / len(v) if v else math.nan,
}


def larger(a: Any, b: Any) -> Any:
    if np.isnan(a) or np.isnan(b):
        return a if np.isnan(a) else b
    if a == b:
        return b if np.signbit(a) else a
    return a if a > b else b


def smaller(a: Any, b: Any) -> Any:
    if np.isnan(a) or np.isnan(b):
        return a if np.isnan(a) else b
    if a == b:
        return a if np.signbit(a) else b
    return a if a < b else b


def groups(x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> tuple[tuple[int, ...], list[list[Any]]]:
    """The shape of a reduction's result, and for each element of it what is reduced, in row-major order."""
    axes = set(range(x.ndim)) if axis is None else {a % x.ndim for a in axis}
    kept = [range(1) if a in axes else range(d) for a, d in enumerate(x.shape)]
    reduced = [range(d) if a in axes else range(1) for a, d in enumerate(x.shape)]
    shape = tuple(len(r) for a, r in enumerate(kept) if keepdims or a not in axes)
    return shape, [
        [x[tuple(map(sum, zip(i, j, strict=True)))] for j in itertools.product(*reduced)]
        for i in itertools.product(*kept)
    ]


@st.composite
def reductions(draw: st.DrawFn, least: int = 0) -> tuple[tuple[int, ...], tuple[int, ...] | None, bool]:
    shape = tuple(draw(st.lists(st.integers(least, 4), max_size=3)))
    axes = draw(st.none() | st.sets(st.sampled_from(range(len(shape))) if shape else st.nothing()))
    if axes is None:
        return shape, None, draw(st.booleans())
    order = sorted(axes, reverse=draw(st.booleans()))
    return shape, tuple(a - len(shape) if draw(st.booleans()) else a for a in order), draw(st.booleans())


@given(st.sampled_from(sorted(LOOPS)), reductions(), st.sampled_from(FLOATS), st.integers(0, 99))
def test_float_sums(name: str, case: Any, of: str, seed: int) -> None:
    """One rounding of the exact result, or in float32 and float64 nearly."""
    shape, axis, keepdims = case
    x = sample(shape, of, seed)
    want_shape, lists = groups(x, axis, keepdims)
    want = np.array([LOOPS[name]([float(v) for v in g]) for g in lists], np.float64).reshape(want_shape)
    size = np.array([math.fsum(abs(float(v)) for v in g) for g in lists]).reshape(want_shape)
    if name == "prod":
        size = np.abs(want)
    got = compute(name, x, axis=axis, keepdims=keepdims)
    u = dtype(of).unit_roundoff
    terms = 1 if of in ("float16", "bfloat16") else 8
    error = np.abs(got.astype(np.float64) - want)
    near = error <= (terms * u * (np.abs(want) if terms == 1 else size)) * (1 + 1e-4) + dtype(of).smallest_subnormal
    assert (near | (np.isnan(want) & np.isnan(got.astype(np.float64)))).all()


@pytest.mark.parametrize("of", ["int4", "uint4", "int8", "uint8", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_integers_wrap(name: str, of: str) -> None:
    x = sample((5, 7), of)
    _, lists = groups(x, (1,), False)
    exact = [(sum if name == "sum" else math.prod)(int(v) for v in g) for g in lists]
    count, least = 1 << dtype(of).bits, int(dtype(of).min)
    want = [(v - least) % count + least for v in exact]
    assert [int(v) for v in compute(name, x, axis=(1,))] == want
    assert any(v != w for v, w in zip(exact, want, strict=True))


@given(
    st.sampled_from(["max", "min"]),
    reductions(least=1),
    st.sampled_from([*FLOATS, "int4", "uint4", "int8", "uint64", "bool", "float8_e4m3fn", "float8_e4m3fnuz"]),
    st.integers(0, 99),
)
def test_extremes(name: str, case: Any, of: str, seed: int) -> None:
    shape, axis, keepdims = case
    x = sample(shape, of, seed, special=True)
    want_shape, lists = groups(x, axis, keepdims)
    want = np.zeros(want_shape, x.dtype)
    for i, g in zip(np.ndindex(want_shape), lists, strict=True):
        result = g[0]
        for v in g[1:]:
            result = (larger if name == "max" else smaller)(result, v)
        want[i] = result
    assert same(compute(name, x, axis=axis, keepdims=keepdims), want)


def test_sums_of_nothing_and_of_negative_zeros() -> None:
    for of in FLOATS:
        none = np.zeros((2, 0), dtype(of).numpy)
        assert same(compute("sum", none, axis=(1,)), np.zeros(2, none.dtype))
        assert same(compute("prod", none, axis=(1,)), np.ones(2, none.dtype))
        assert np.isnan(compute("mean", none, axis=(1,)).astype(np.float64)).all()
        minus = np.full((2, 3), -0.0, none.dtype)
        assert same(compute("sum", minus), np.zeros((), none.dtype))  # the sum starts from +0
        assert same(compute("max", minus), minus[0, 0])
    assert compute("max", np.zeros((0, 3), np.float32), axis=(1,)).shape == (0,)


def test_narrow_floats_are_summed_in_float32() -> None:
    """Each addition rounded to bfloat16 would stop at 256."""
    ones = np.ones(4096, ml_dtypes.bfloat16)
    assert float(compute("sum", ones)) == 4096
    assert float(compute("mean", ones)) == 1
    assert float(compute("mean", np.full(70000, 3, np.float16))) == 3  # neither sum nor count is a float16


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_nothing_trap(name: str) -> None:
    """What a type rule with a symbolic size cannot see."""
    with pytest.raises(Trap) as caught:
        operator(name).value({"axis": None, "keepdims": False}, np.zeros((2, 0), np.float32))
    assert (caught.value.kind, caught.value.label) == ("shape", f"{name}.T1")


# --- pooling ------------------------------------------------------------------------------------------------------


@st.composite
def pools(draw: st.DrawFn, rank: int) -> dict[str, Any]:
    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    size, dilation = each(1, 3), each(1, 2)
    span = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    padding = [draw(st.integers(0, s)) for s in (*span, *span)]
    return {
        "pool_size": size,
        "strides": each(1, 4),
        "dilation": dilation,
        "padding": tuple(padding),
        "ceil_mode": draw(st.booleans()),
    }


def windows_of(attrs: dict[str, Any], axis: int, size: int) -> list[list[int]]:
    """The places that each window takes along an axis, padding included: the rules of ONNX, word for word."""
    rank = len(attrs["pool_size"])
    kernel, stride, dilation = (attrs[a][axis] for a in ("pool_size", "strides", "dilation"))
    before, after = attrs["padding"][axis], attrs["padding"][axis + rank]
    room = size + before + after - dilation * (kernel - 1) - 1
    count = (math.ceil(room / stride) if attrs["ceil_mode"] else math.floor(room / stride)) + 1
    starts = [i * stride - before for i in range(count)]
    if attrs["ceil_mode"]:
        starts = [s for s in starts if s < size]
    return [[s + t * dilation for t in range(kernel)] for s in starts]


def pooled(x: Any, attrs: dict[str, Any], one: Callable[[list[Any], int], Any]) -> np.ndarray[Any, Any]:
    """Pooling by loops; `one` makes a result from a window's elements and the number of those that are counted."""
    rank = x.ndim - 2
    axes = [windows_of(attrs, a, d) for a, d in enumerate(x.shape[2:])]
    out = np.zeros((*x.shape[:2], *map(len, axes)), x.dtype)
    include = attrs.get("count_include_pad", False)
    for i in np.ndindex(out.shape):
        places = list(itertools.product(*(axes[a][i[a + 2]] for a in range(rank))))
        inside = [p for p in places if all(0 <= q < d for q, d in zip(p, x.shape[2:], strict=True))]
        around = [
            p
            for p in places
            if all(
                -attrs["padding"][a] <= q < d + attrs["padding"][a + rank]
                for a, (q, d) in enumerate(zip(p, x.shape[2:], strict=True))
            )
        ]
        out[i] = one([x[(*i[:2], *p)] for p in inside], len(around if include else inside))
    return out


SIZES = {1: (2, 1, 7), 2: (1, 2, 5, 4), 3: (1, 2, 4, 3, 5)}


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_max_pool(rank: int, data: st.DataObject) -> None:
    attrs = data.draw(pools(rank))
    of = data.draw(st.sampled_from([*FLOATS, "int8", "uint8", "int4"]))
    x = sample(SIZES[rank], of, data.draw(st.integers(0, 99)), special=True)

    def one(elements: list[Any], count: int) -> Any:
        result = elements[0]
        for e in elements[1:]:
            result = larger(result, e)
        return result

    try:
        got = compute(f"nn.max_pool{rank}d", x, **attrs)
    except Invalid as wrong:
        assert wrong.label.endswith((".C6", ".C7"))
        assume(False)
    assert same(got, pooled(x, attrs, one))


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_avg_pool(rank: int, data: st.DataObject) -> None:
    attrs = {**data.draw(pools(rank)), "count_include_pad": data.draw(st.booleans())}
    x = sample(SIZES[rank], data.draw(st.sampled_from(["float64", "float16"])), data.draw(st.integers(0, 99)))
    try:
        got = compute(f"nn.avg_pool{rank}d", x, **attrs)
    except Invalid as wrong:
        assert wrong.label.endswith((".C6", ".C7"))
        assume(False)
    want = pooled(x.astype(np.float64), attrs, lambda elements, count: math.fsum(elements) / count)
    # float16 is one rounding of a float32 computation, so a tie may go either way
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-12 if x.dtype == np.float64 else 2**-10, atol=1e-6)


def test_windows_that_are_refused_are_those_without_elements() -> None:
    """C6 and C7 exactly where a window has nothing to take, or there is none."""
    refused = 0
    for size, kernel, stride, dilation, before, after, ceil in itertools.product(
        (1, 2, 4), (1, 2, 3), (1, 3), (1, 2, 3), (0, 1, 2), (0, 1, 2), (False, True)
    ):
        attrs = {
            "pool_size": (kernel,), "strides": (stride,), "dilation": (dilation,),
            "padding": (before, after), "ceil_mode": ceil,
        }  # fmt: skip
        if max(before, after) >= (kernel - 1) * dilation + 1:
            continue
        places = windows_of(attrs, 0, size)
        bad = not places or any(all(not 0 <= p < size for p in w) for w in places)
        x = np.ones((1, 1, size), np.float32)
        try:
            assert compute("nn.max_pool1d", x, **attrs).shape == (1, 1, len(places)) and not bad
        except Invalid as wrong:
            assert bad and wrong.label[-2:] in ("C6", "C7")
            refused += 1
    assert refused > 50


def test_averages_start_from_positive_zero() -> None:
    x = np.full((1, 1, 4), -0.0, np.float32)
    for size in (1, 2):
        assert not np.signbit(compute("nn.avg_pool1d", x, pool_size=(size,))).any()
    assert np.signbit(compute("nn.max_pool1d", x, pool_size=(2,))).all()


def test_pooling_of_no_batch() -> None:
    x = np.zeros((0, 3, 5, 4), np.float32)
    for name in ("nn.max_pool2d", "nn.avg_pool2d"):
        assert compute(name, x, pool_size=(2, 2)).shape == (0, 3, 4, 3)


def test_pooling_what_does_not_fit_traps() -> None:
    attrs = operator("nn.avg_pool1d").check_attrs({"pool_size": (4,)})
    with pytest.raises(Trap) as caught:
        operator("nn.avg_pool1d").value(attrs, np.zeros((1, 1, 3), np.float32))
    assert (caught.value.kind, caught.value.label) == ("shape", "nn.avg_pool1d.T1")


def test_the_bound_of_an_average_holds_for_every_order() -> None:
    """1e8 - 1e8 + 1 is 0 or 1 in float32, as one adds; from left to right nothing is rounded at all."""
    x = np.array([[[1e8, -1e8, 1.0]]], np.float32)
    attrs = operator("nn.avg_pool1d").check_attrs({"pool_size": (3,)})
    bounds = operator("nn.avg_pool1d").value(attrs, Bounded.exact(x))
    for total in (np.float32(0), np.float32(1)):
        assert contains(bounds, np.full((1, 1, 1), total / np.float32(3))).all()
    assert not contains(bounds, np.full((1, 1, 1), 100, np.float32)).any()


@pytest.mark.peer
@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_pooling_is_that_of_onnxruntime(rank: int, data: st.DataObject) -> None:
    attrs = data.draw(pools(rank))
    assume(all(p < k for p, k in zip(attrs["padding"], attrs["pool_size"] * 2, strict=True)))
    op, opset = data.draw(st.sampled_from([("MaxPool", 22), ("AveragePool", 19), ("AveragePool", 22)]))
    name = f"nn.max_pool{rank}d"
    if op == "AveragePool":
        name, attrs = f"nn.avg_pool{rank}d", {**attrs, "count_include_pad": data.draw(st.booleans())}
    x = sample(SIZES[rank], "float32", data.draw(st.integers(0, 99)))
    try:
        got = compute(name, x, **attrs)
    except Invalid:
        assume(False)
    names = {"pool_size": "kernel_shape", "padding": "pads", "dilation": "dilations"}
    given_ = {names.get(a, a): int(v) if isinstance(v, bool) else v for a, v in attrs.items()}
    want = onnxruntime_result(op, opset, [x], given_)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0 if op == "MaxPool" else 1e-5, atol=0 if op == "MaxPool" else 1e-6)
