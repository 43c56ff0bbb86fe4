"""Each kernel, run by the definition of the tensor IR, against plain Python in the order of additions that is stated.

So most comparisons are bit for bit, also in float16. Here: elementwise, contraction, reduction. The other families are
in `test_kernels_places.py`; `test_kernels_values.py` compares the kernels with the operators' values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.interp.tensor import run
from assay.lower.legalize.kernels import build
from assay.semantics import scalar
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Trap
from assay.semantics.types import TensorType
from tests.lower.legalize.kernel_check import (
    FLOATS,
    NUMBERS,
    SPECIALS,
    Array,
    Reference,
    box,
    check,
    data,
    fold,
    greatest,
    kernel,
    larger,
    least,
    same_bits,
    smaller,
)
from tests.semantics.bounding.numeric import FORMULAS

# --- elementwise --------------------------------------------------------------------------------------------------

UNARY: dict[str, Reference] = {
    "negative": lambda x: -x,
    "abs": abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "reciprocal": lambda x: x.dtype.type(1) / x,
    "nn.relu": lambda x: larger(x, x.dtype.type(0)),
    "nn.leakyrelu": lambda x: x if x >= 0 else x * x.dtype.type(0.01),
}


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, of: str) -> None:
    x = np.array([*SPECIALS, 2.25, -7.75], np.float64).astype(dtype(of).numpy).reshape(3, 5)
    with np.errstate(all="ignore"):
        want = np.array([UNARY[name](v) for v in x.reshape(-1)], x.dtype).reshape(3, 5)
    check(name, [x], want)


@pytest.mark.parametrize("of", ["int8", "uint8", "int64"])
def test_unary_on_integers_wraps(of: str) -> None:
    d = dtype(of)
    x = np.array([d.min, -1 if d.min else 255, 0, 1, d.max], d.numpy)
    with np.errstate(all="ignore"):
        check("negative", [x], -x)
        check("abs", [x], np.abs(x))
        check("nn.relu", [x], np.maximum(x, d.numpy.type(0)))


SMOOTH = ("exp", "log", "tanh", "erf", "sigmoid", "nn.gelu", "nn.gelu_tanh")


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name: str, of: str) -> None:
    """Within a few roundings of |x|: that is what the formulas lose where 1 + erf(x) cancels."""
    x = np.linspace(-5, 5, 42).astype(dtype(of).numpy).reshape(6, 7)
    (got,) = run(kernel(name, [x], x), [x])
    want = FORMULAS[name]({}, x.astype(np.float64)).astype(np.float64)
    scale = np.abs(x.astype(np.float64)) if name.startswith("nn") else np.abs(want)
    near = np.abs(got.astype(np.float64) - want) <= 6 * dtype(of).unit_roundoff * scale
    assert np.all(near | np.isnan(want))
    assert np.array_equal(np.isnan(got), np.isnan(want))


def test_sigmoid_far_out() -> None:
    x = np.array([-103.0, -90.0, 90.0, math.inf, -math.inf, math.nan, -0.0], np.float32)
    (got,) = run(kernel("sigmoid", [x], x), [x])
    assert got[0] == np.float32(1.8e-45) and got[1] == np.float32(8.194013e-40)
    assert list(got[2:5]) == [1, 1, 0] and np.isnan(got[5]) and got[6] == 0.5


@pytest.mark.parametrize("of", NUMBERS)
def test_clip(of: str) -> None:
    floats = dtype(of).is_float
    x = np.array(SPECIALS if floats else [0, 1, 2, 3, 100, 127]).astype(dtype(of).numpy)
    for low, high in ((1, 3), (None, 2), (2, None), (None, None), (3, 1)):
        want = [v if low is None else larger(v, x.dtype.type(low)) for v in x]
        want = [v if high is None else smaller(v, x.dtype.type(high)) for v in want]
        check("clip", [x], np.array(want, x.dtype), min=low, max=high)


def test_clip_of_integers_at_bounds_that_they_cannot_reach() -> None:
    x = np.array([-128, 0, 127], np.int8)
    check("clip", [x], x, min=-math.inf, max=math.inf)
    check("clip", [x], np.array([0, 0, 127], np.int8), min=0, max=127)


BINARY: dict[str, Reference] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": larger,
    "minimum": smaller,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}


@pytest.mark.parametrize(
    ("name", "of"),
    [(name, of) for name in BINARY for of in NUMBERS] + [(name, of) for name in ("divide", "power") for of in FLOATS],
)
def test_binary(name: str, of: str) -> None:
    d = dtype(of)
    a = np.array(SPECIALS if d.is_float else [d.min, -1 if d.min else 1, 0, 3, d.max]).astype(d.numpy)
    b = np.roll(a, 2)
    with np.errstate(all="ignore"):
        if name == "power":
            want = scalar.operation("pow").meaning(a[:, None], b)  # compared with C in its own test
        else:
            rule = BINARY.get(name, lambda a, b: a / b)
            rows = [[rule(x, y) for y in b] for x in a]
            want = np.array(rows, bool if isinstance(rows[0][0], (bool, np.bool_)) else d.numpy)
    check(name, [a[:, None], b], want)


@pytest.mark.parametrize("of", ["int8", "uint8", "int64"])
def test_integer_division(of: str) -> None:
    d = dtype(of)
    a = np.array([0, 1, 7, 100, 127, *([-1, -7, -128] if d.min else [200])], d.numpy)
    b = np.array([1, 2, 7, *([-1, -2, -7] if d.min else [255])], d.numpy)
    exact = [[(int(x), int(y)) for y in b] for x in a]
    floor = np.array([[x // y for x, y in row] for row in exact]).astype(d.numpy)
    trunc = np.array([[abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in row] for row in exact])
    check("floor_divide", [a[:, None], b], floor)
    check("truncate_divide", [a[:, None], b], trunc.astype(d.numpy))
    for name in ("floor_divide", "truncate_divide"):
        with pytest.raises(Trap, match="division by zero"):
            run(kernel(name, [a, a], a), [a, np.zeros_like(a)])


def test_logic() -> None:
    a, b = np.array([[False], [True]]), np.array([False, True])
    check("logical_and", [a, b], a & b)
    check("logical_or", [a, b], a | b)
    check("logical_xor", [a, b], a ^ b)
    check("logical_not", [a], ~a)


@pytest.mark.parametrize(
    ("shapes", "out"),
    [
        (((4, 1, 3), (2, 1)), (4, 2, 3)),
        (((), (2, 3)), (2, 3)),
        (((), ()), ()),
        (((0, 3), (1, 3)), (0, 3)),
        (((1, 1), (5,)), (1, 5)),
    ],
)
def test_broadcasting(shapes: Sequence[tuple[int, ...]], out: tuple[int, ...]) -> None:
    a, b = (data(s, seed=k) for k, s in enumerate(shapes))
    check("subtract", [a, b], np.subtract(a, b).reshape(out))
    condition = data(out[-1:], "bool", 5)
    check("where", [condition, a, b], np.where(condition, a, b).reshape(out))


@pytest.mark.parametrize("to", ["bool", "int8", "uint8", "int64", *FLOATS])
@pytest.mark.parametrize("of", ["bool", "int8", "int64", "bfloat16", "float64"])
def test_astype(of: str, to: str) -> None:
    x = np.array([0, 1, 1, 0] if of == "bool" else [0, 1, 3, 100]).astype(dtype(of).numpy)
    if of == "float64":
        x[2] = 2.75
    want = [bool(v) if to == "bool" else int(v) if dtype(to).is_integer else float(v) for v in x]
    check("astype", [x], np.array(want).astype(dtype(to).numpy), dtype=to)


def test_astype_at_the_edge() -> None:
    x = np.array([300, -129, 255], np.int64)
    check("astype", [x], np.array([44, 127, -1], np.int8), dtype="int8")
    y = np.array([1 + 2**-8 + 2**-30, 1e300, -0.0])
    want = np.array([1 + 2**-7, math.inf, -0.0], np.float64).astype(dtype("bfloat16").numpy)
    check("astype", [y], want, dtype="bfloat16")
    for bad in (math.nan, math.inf, 128.0, -129.0):
        with pytest.raises(Trap, match="out of the range of int8"):
            run(kernel("astype", [np.array([bad])], np.zeros(1, np.int8), dtype="int8"), [np.array([bad])])


# --- contraction --------------------------------------------------------------------------------------------------


def plain_matmul(a: Array, b: Array) -> Array:
    left, right = a.reshape((1, *a.shape) if a.ndim == 1 else a.shape), b.reshape(-1, 1) if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (left, right))
    out = np.empty((*batch, left.shape[-2], right.shape[-1]), a.dtype)
    for at in box(out.shape):
        terms = (left[(*at[:-1], k)] * right[(*at[:-2], k, at[-1])] for k in range(left.shape[-1]))
        out[at] = fold(lambda s, t: s + t, a.dtype.type(0), terms)
    return out.reshape(np.matmul(np.ones(a.shape), np.ones(b.shape)).shape)


@pytest.mark.parametrize("of", NUMBERS)
def test_matmul_in_order(of: str) -> None:
    a, b = data((2, 7), of), data((7, 3), of)
    check("matmul", [a, b], plain_matmul(a, b))


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 4, 3), (5, 3, 2)), ((5, 2, 3), (3,))]
    + [((3,), (5, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((0,), (0,))]
    + [((1, 2, 3), (4, 3, 5)), ((0, 2, 3), (3, 1))],
)
def test_matmul_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = data(a), data(b, seed=1)
    check("matmul", [x, y], plain_matmul(x, y))


def test_the_order_of_additions_is_seen() -> None:
    """The comparison above would notice another order: in float16 these three sums differ."""
    a = np.array([[2048, 1, 1, -2048, 0.5]], np.float16)
    ones = np.ones((5, 1), np.float16)
    want = plain_matmul(a, ones)
    check("matmul", [a, ones], want)
    assert not same_bits(want, plain_matmul(a[:, ::-1], ones))
    assert not same_bits(want, a.astype(np.float64).sum(keepdims=True).astype(np.float16))


def plain_conv(x: Array, w: Array, bias: Array | None, strides: Any, padding: Any, dilation: Any, groups: int) -> Array:
    rank = x.ndim - 2
    sizes = [
        (n + padding[a] + padding[a + rank] - (k - 1) * dilation[a] - 1) // strides[a] + 1
        for a, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True))
    ]
    out = np.empty((x.shape[0], w.shape[0], *sizes), x.dtype)
    for n, o, *i in box(out.shape):
        group = o // (w.shape[0] // groups)

        def term(at: tuple[int, ...], n: int = n, o: int = o, i: Any = i, group: int = group) -> Any:
            c, *k = at
            place = [i[a] * strides[a] + k[a] * dilation[a] - padding[a] for a in range(rank)]
            inside = all(0 <= p < s for p, s in zip(place, x.shape[2:], strict=True))
            read = x[(n, group * w.shape[1] + c, *place)] if inside else x.dtype.type(0)
            return read * w[(o, c, *k)]

        total = fold(lambda s, t: s + t, x.dtype.type(0), map(term, box(w.shape[1:])))
        with np.errstate(all="ignore"):
            out[(n, o, *i)] = total if bias is None else total + bias[o]
    return out


CONVS = [
    ((2, 4, 9), (6, 4, 3), {"strides": (2,), "padding": (1, 2), "dilation": (2,), "groups": 1}),
    ((1, 3, 5, 7), (2, 3, 3, 2), {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}),
    ((2, 4, 6, 5), (6, 2, 3, 2), {"strides": (2, 1), "padding": (1, 0, 2, 3), "dilation": (1, 2), "groups": 2}),
    ((1, 3, 5, 4), (3, 1, 2, 3), {"strides": (1, 2), "padding": (1, 1, 0, 1), "dilation": (1, 1), "groups": 3}),
    ((1, 3, 4, 4), (6, 1, 1, 1), {"strides": (3, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 3}),
    (
        (1, 2, 3, 4, 5), (3, 2, 2, 3, 2),
        {"strides": (1, 2, 2), "padding": (0, 1, 0, 1, 1, 0), "dilation": (1, 1, 2), "groups": 1},
    ),
    ((0, 2, 5), (3, 2, 2), {"strides": (1,), "padding": (0, 1), "dilation": (1,), "groups": 1}),
]  # fmt: skip


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("x", "w", "attrs"), CONVS)
def test_conv_in_order(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any], biased: bool) -> None:
    arrays = [data(x, "float16"), data(w, "float16", 1), *([data(w[:1], "float16", 2)] if biased else [])]
    want = plain_conv(arrays[0], arrays[1], arrays[2] if biased else None, **attrs)
    func = check(f"nn.conv{len(x) - 2}d", arrays, want, **attrs)
    assert len(func.allocations) == any(attrs["padding"])


@pytest.mark.parametrize("of", ["float32", "float64", "bfloat16", "int8"])
def test_conv_dtypes_and_specials(of: str) -> None:
    x, w = data((1, 2, 4, 5), of), data((3, 2, 2, 3), of, 1)
    if dtype(of).is_float:
        x[0, 0, 1, 1], w[0, 0, 0, 0], w[1, 1, 1, 2] = math.nan, math.inf, -math.inf
    attrs = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    check("nn.conv2d", [x, w], plain_conv(x, w, None, **attrs), **attrs)


# --- reduction ----------------------------------------------------------------------------------------------------


def plain_reduction(name: str, x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    of = dtype(x.dtype)
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
    start = {"prod": x.dtype.type(1), "max": least(of), "min": greatest(of)}.get(name, x.dtype.type(0))
    steps: dict[str, Reference] = {"prod": lambda a, b: a * b, "max": larger, "min": smaller}
    out = np.empty(kept, x.dtype)
    for at in box(kept):
        rows = box([n if a in axes else 1 for a, n in enumerate(x.shape)])
        terms = (x[tuple(k if a in axes else i for a, (i, k) in enumerate(zip(at, r, strict=True)))] for r in rows)
        out[at] = fold(steps.get(name, lambda a, b: a + b), start, terms)
    if name == "mean":
        with np.errstate(all="ignore"):
            out = out / x.dtype.type(prod(x.shape[a] for a in axes))
    return out if keepdims else out.reshape([n for a, n in enumerate(x.shape) if a not in axes])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, (1,), (-1,), (0,), (0, 2), (1, 2), (2, 0, 1), ()])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_reduction_in_order(name: str, axis: tuple[int, ...] | None, keepdims: bool) -> None:
    for of in ("float16", "int8") if name != "mean" else ("float16", "bfloat16"):
        x = data((3, 5, 4), of)
        check(name, [x], plain_reduction(name, x, axis, keepdims), axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("of", [*NUMBERS, "float8_e4m3fn", "float8_e5m2", "int4"])
def test_reduction_dtypes_and_specials(of: str) -> None:
    x = data((4, 6), of)
    if dtype(of).is_float:
        x[0, 1], x[1, 2], x[2, 3], x[3] = math.nan, math.inf, -math.inf, -0.0
        x[3, 4] = 0.0
    for name in ("sum", "prod", "max", "min"):
        check(name, [x], plain_reduction(name, x, (1,), False), axis=(1,))
        check(name, [x], plain_reduction(name, x, (0,), False), axis=(0,))


def test_reduction_of_nothing() -> None:
    for shape, axis in (((2, 0, 3), (1,)), ((2, 0, 3), None), ((0, 3), (1,)), ((), None)):
        x = data(shape)
        for name in ("sum", "prod", "mean"):
            check(name, [x], plain_reduction(name, x, axis, False), axis=axis)


def test_a_count_beyond_the_dtype() -> None:
    """65536 is inf in float16; dividing by it in two steps is as good."""
    x = np.zeros(65536, np.float16)
    x[:1000] = 1
    (got,) = vector.run(kernel("mean", [x], np.zeros((), np.float16)), [x])
    assert got == np.float16(1000 / 65536)
    y = x.reshape(1, 1, 256, 256)
    attrs = {"pool_size": (256, 256), "strides": (1, 1), "dilation": (1, 1), "ceil_mode": False}
    for padding in ((0, 0, 0, 0), (1, 0, 0, 0)):
        like = np.empty((1, 1, 1 + padding[0], 1), np.float16)
        func = kernel("nn.avg_pool2d", [y], like, padding=padding, count_include_pad=False, **attrs)
        (got,) = vector.run(func, [y])
        assert got[0, 0, -1, 0] == np.float16(1000 / 65536)
        if padding[0]:
            assert got[0, 0, 0, 0] == np.float16(np.float16(1000 / 255) / 256)


# --- the build ----------------------------------------------------------------------------------------------------


def test_no_kernel_is_a_crash() -> None:
    with pytest.raises(Crash, match="reshape has no kernel"):
        build("reshape", {}, (), TensorType((), dtype("float32")), "kernel")
