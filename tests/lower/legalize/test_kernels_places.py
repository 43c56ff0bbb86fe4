"""Kernels of pooling, normalisation, movement and creation against plain Python and NumPy, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.interp.tensor import run
from assay.lower.legalize.kernels import build
from assay.semantics import scalar
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Trap
from assay.semantics.ops import OPERATORS
from assay.semantics.types import TensorType
from tests.lower.legalize.kernel_check import (
    FLOATS,
    NUMBERS,
    Array,
    box,
    check,
    data,
    fold,
    kernel,
    larger,
    least,
    same_bits,
)

# --- pooling ------------------------------------------------------------------------------------------------------


def window_count(size: int, window: int, stride: int, before: int, after: int, dilation: int, ceil: bool) -> int:
    """By trying: windows that end within the padded axis; with ceil, one more that starts before the padding after."""
    span = (window - 1) * dilation + 1
    starts = range(-before, size + before + after + span, stride)
    if not ceil:
        return sum(start + span <= size + after for start in starts)
    whole = sum(start + span <= size + after for start in starts)
    partial = whole * stride - before
    ends_at = partial - stride + span if whole else -before
    return whole + (ends_at < size + after and partial < size)


def plain_pool(name: str, x: Array, attrs: dict[str, Any]) -> Array:
    rank = x.ndim - 2
    pads, k_sizes, strides, dilation = attrs["padding"], attrs["pool_size"], attrs["strides"], attrs["dilation"]
    counts = [
        window_count(n, k_sizes[a], strides[a], pads[a], pads[a + rank], dilation[a], attrs["ceil_mode"])
        for a, n in enumerate(x.shape[2:])
    ]
    out = np.empty((*x.shape[:2], *counts), x.dtype)
    for n, c, *i in box(out.shape):
        places = [[i[a] * strides[a] + k[a] * dilation[a] - pads[a] for a in range(rank)] for k in box(k_sizes)]
        inside = [p for p in places if all(0 <= q < s for q, s in zip(p, x.shape[2:], strict=True))]
        read = (x[(n, c, *p)] for p in inside)
        if "max" in name:
            out[(n, c, *i)] = fold(larger, least(dtype(x.dtype)), read)
            continue
        if attrs["count_include_pad"]:
            limit = [s + pads[a + rank] for a, s in enumerate(x.shape[2:])]
            inside = [p for p in places if all(q < s for q, s in zip(p, limit, strict=True))]
        with np.errstate(all="ignore"):
            out[(n, c, *i)] = fold(lambda a, b: a + b, x.dtype.type(0), read) / x.dtype.type(len(inside))
    return out


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"pool_size": (3,), "strides": (2,), "padding": (1, 1), "dilation": (1,)}),
    ((1, 2, 10), {"pool_size": (2,), "strides": (3,), "padding": (0, 0), "dilation": (1,)}),
    ((1, 2, 7), {"pool_size": (3,), "strides": (2,), "padding": (2, 0), "dilation": (2,)}),
    ((1, 1, 5), {"pool_size": (3,), "strides": (4,), "padding": (2, 2), "dilation": (1,)}),
    ((1, 1, 4), {"pool_size": (2,), "strides": (3,), "padding": (1, 1), "dilation": (2,)}),
    ((2, 1, 6, 5), {"pool_size": (3, 2), "strides": (2, 3), "padding": (1, 0, 1, 1), "dilation": (1, 1)}),
    ((1, 2, 5, 7), {"pool_size": (2, 3), "strides": (2, 2), "padding": (0, 1, 1, 2), "dilation": (2, 1)}),
    ((1, 1, 4, 4), {"pool_size": (4, 4), "strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1)}),
    (
        (1, 1, 3, 5, 4),
        {"pool_size": (2, 3, 2), "strides": (1, 2, 2), "padding": (1, 1, 0, 0, 1, 1), "dilation": (1, 1, 2)},
    ),
    ((0, 2, 4), {"pool_size": (2,), "strides": (1,), "padding": (0, 0), "dilation": (1,)}),
]  # fmt: skip


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("shape", "attrs"), POOLS)
def test_pool_in_order(shape: tuple[int, ...], attrs: dict[str, Any], ceil_mode: bool) -> None:
    rank = len(shape) - 2
    x = data(shape, "float16")
    attrs = {**attrs, "ceil_mode": ceil_mode}
    for include in (False, True):
        average = {**attrs, "count_include_pad": include}
        check(f"nn.avg_pool{rank}d", [x], plain_pool("avg", x, average), **average)
    func = check(f"nn.max_pool{rank}d", [x], plain_pool("max", x, attrs), **attrs)
    if not any(attrs["padding"]) and not ceil_mode:
        assert func.allocations == ()


@pytest.mark.parametrize("of", [*NUMBERS, "float8_e4m3fn"])
def test_pool_dtypes_and_specials(of: str) -> None:
    x = data((1, 1, 6, 5), of)
    attrs: dict[str, Any] = {"pool_size": (2, 3), "strides": (1, 1), "padding": (1, 1, 0, 2), "dilation": (1, 1)}
    attrs["ceil_mode"] = False
    if dtype(of).is_float:
        x[0, 0, 1, 1], x[0, 0, 3, 3], x[0, 0, 5] = math.nan, -math.inf, -0.0
        average = {**attrs, "count_include_pad": True}
        check("nn.avg_pool2d", [x], plain_pool("avg", x, average), **average)
    else:
        x[0, 0, 0] = dtype(of).min
    check("nn.max_pool2d", [x], plain_pool("max", x, attrs), **attrs)


# --- normalization ------------------------------------------------------------------------------------------------


def elementary(name: str) -> Callable[..., Any]:
    """exp, log and pow as the scalar language has them, one number at a time; they have tests of their own."""
    return lambda *args: scalar.operation(name).meaning(*args)


exp, log, power = map(elementary, ("exp", "log", "pow"))


def plain_softmax(x: Array, axis: int, logarithm: bool) -> Array:
    out = np.empty_like(x)
    moved, result = np.moveaxis(x, axis, -1), np.moveaxis(out, axis, -1)
    with np.errstate(all="ignore"):
        for at in box(moved.shape[:-1]):
            row = moved[at]
            shifted = row - fold(larger, least(dtype(x.dtype)), iter(row))
            terms = [exp(v) for v in shifted]
            total = fold(lambda a, b: a + b, x.dtype.type(0), iter(terms))
            result[at] = [s - log(total) for s in shifted] if logarithm else [t / total for t in terms]
    return out


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_in_order(axis: int, of: str) -> None:
    x = (data((3, 5, 4), of) * dtype(of).numpy.type(4)).astype(dtype(of).numpy)
    check("nn.softmax", [x], plain_softmax(x, axis, False), axis=axis)
    check("nn.log_softmax", [x], plain_softmax(x, axis, True), axis=axis)


def test_softmax_at_the_edges() -> None:
    x = np.array([[0, -math.inf, 0], [math.inf, 0, 1], [math.nan, 0, 1], [-math.inf] * 3, [1e30, -1e30, 0]], np.float32)
    for name, logarithm in (("nn.softmax", False), ("nn.log_softmax", True)):
        check(name, [x], plain_softmax(x, -1, logarithm), axis=-1)
    for shape in ((0, 3), (3, 0), (1,)):
        y = data(shape)
        check("nn.softmax", [y], plain_softmax(y, -1, False), axis=-1)


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("axis", [1, -1, 0])
def test_batch_norm(axis: int, of: str) -> None:
    x = data((2, 3, 4), of)
    channels = x.shape[axis]
    gamma, beta, mean, var = (data((channels,), of, k) for k in range(4))
    var = np.abs(var)
    wide = [p.reshape([channels if a == axis % 3 else 1 for a in range(3)]) for p in (gamma, beta, mean, var)]
    epsilon = x.dtype.type(0.01)
    want = wide[0] * (x - wide[2]) / np.sqrt(wide[3] + epsilon) + wide[1]
    check("nn.batch_norm", [x, gamma, beta, mean, var], want, axis=axis, epsilon=0.01)


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("axes", [(-1,), (1, 2), (0, 1, 2)])
def test_layer_norm_in_order(axes: tuple[int, ...], biased: bool, of: str) -> None:
    x = data((2, 3, 5), of)
    inner = x.shape[len(x.shape) - len(axes) :]
    gamma, beta = data(inner, of, 1), data(inner, of, 2)
    number, want = x.dtype.type, np.empty_like(x)
    for o in box(x.shape[: 3 - len(axes)]):
        row = x[o].reshape(-1)
        mean = fold(lambda a, b: a + b, number(0), iter(row)) / number(row.size)
        squares = fold(lambda a, b: a + b, number(0), ((v - mean) * (v - mean) for v in row))
        deviation = np.sqrt(squares / number(row.size) + number(1e-3))
        value = (x[o] - mean) / deviation * gamma
        want[o] = value + beta if biased else value
    check("nn.layer_norm", [x, gamma, *([beta] if biased else [])], want, axes=axes, epsilon=1e-3)


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_lrn_in_order(size: int, of: str) -> None:
    x = data((2, 5, 3), of)
    number, want = x.dtype.type, np.empty_like(x)
    for n, c, i in box(x.shape):
        window = range(max(0, c - (size - 1) // 2), min(4, c + size // 2) + 1)
        total = fold(lambda a, b: a + b, number(0), (x[n, k, i] * x[n, k, i] for k in window))
        want[n, c, i] = x[n, c, i] / power(number(2) + number(0.3 / size) * total, number(0.75))
    check("nn.lrn", [x], want, size=size, alpha=0.3, beta=0.75, bias=2.0)


# --- movement -----------------------------------------------------------------------------------------------------

ANY = ["bool", "int8", "bfloat16", "float64"]


@pytest.mark.parametrize("of", ANY)
def test_permute_concat_split_broadcast(of: str) -> None:
    x, y = data((2, 3, 4), of), data((2, 5, 4), of, 1)
    check("permute_dims", [x], x.transpose(2, 0, 1), axes=(2, 0, 1))
    check("permute_dims", [x], x.transpose(1, 2, 0), axes=(1, -1, -3))
    check("permute_dims", [x], x.T, axes=None)
    check("concat", [x, y, x], np.concatenate([x, y, x], 1), axis=-2)
    check("concat", [x, x[:0]], x, axis=0)
    check("split", [y], (y[:, :2], y[:, 2:2], y[:, 2:]), sections=(2, 0, 3), axis=1)
    check("split", [y], (y[..., :1], y[..., 1:]), sections=(1, 3), axis=-1)
    check("broadcast_to", [x[:, :1]], np.broadcast_to(x[:, :1], (5, 2, 3, 4)), shape=(5, 2, 3, 4))
    check("broadcast_to", [x[0, 0, 0]], np.broadcast_to(x[0, 0, 0], (2, 3)), shape=(2, 3))


places = st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63)])


@given(st.integers(0, 6), places, places, st.integers(-4, 4).filter(bool), st.booleans())
def test_strided_slice_is_that_of_numpy(size: int, begin: int, end: int, stride: int, last: bool) -> None:
    x = data((size, 2) if not last else (2, size), "int32")
    axis = -1 if last else 0
    want = x[:, begin:end:stride] if last else x[begin:end:stride]
    check("strided_slice", [x], want, axes=(axis,), begin=(begin,), end=(end,), strides=(stride,))


def test_strided_slice_of_several_axes() -> None:
    x = data((5, 4, 7))
    want = x[4:0:-2, :, 1::3]
    check("strided_slice", [x], want, axes=(0, 2), begin=(4, 1), end=(0, 99), strides=(-2, 3))
    check("strided_slice", [x], x[1:3], axes=(0,), begin=(1,), end=(3,), strides=None)


def test_strided_slice_from_a_symbol() -> None:
    x, n = data((5, 4)), scalar.Var("n")
    types = (TensorType((5, 4), dtype("float32")),)
    attrs = {"axes": (0,), "begin": (n,), "end": (n + 2,)}
    of = OPERATORS["strided_slice"]
    made = build("strided_slice", attrs, types, of.type_rule(of.check_attrs(attrs), types), "kernel")
    func = replace(made, scalars=(n,))
    for at in (0, 1, 3, 4, 5):
        assert same_bits(run(func, [x], scalars=[at])[0], x[at : at + 2])


def test_strided_slice_of_another_length_is_a_crash() -> None:
    x = data((5, 4))
    with pytest.raises(Crash, match="strided_slice: 0:3:1 of 5"):
        kernel("strided_slice", [x], x[:2], axes=(0,), begin=(0,), end=(3,), strides=None)


@pytest.mark.parametrize("of", ["int8", "uint8", "int32", "int64", "uint64"])
def test_take(of: str) -> None:
    x = data((3, 5, 2), "float32")
    low = -5 if dtype(of).kind == "int" else 0
    for shape in ((), (4,), (2, 3), (0,)):
        indices = np.random.default_rng(4).integers(low, 5, shape).astype(of)
        wrapped = indices.astype(np.int64) % 5
        check("take", [x, indices], np.take(x, wrapped, 1), axis=1)
        check("take", [x, indices], np.take(x, wrapped, 1), axis=-2)
    for bad in (5, 100, *([-6] if low else []), *([2**64 - 1] if of == "uint64" else [])):
        indices = np.array([0, bad], of)
        with pytest.raises(Trap, match=r"take: an index is outside of \[-5, 5\)"):
            run(kernel("take", [x, indices], np.take(x, [0, 0], 1), axis=1), [x, indices])


def test_take_traps_even_where_nothing_is_copied() -> None:
    x, indices = data((0, 3)), np.array([3])
    with pytest.raises(Trap, match="take"):
        run(kernel("take", [x, indices], data((0, 1)), axis=1), [x, indices])


@given(st.sampled_from(["constant", "reflect", "edge"]), st.lists(st.integers(-2, 4), min_size=4, max_size=4))
def test_pad_is_crop_and_then_that_of_numpy(mode: str, widths: list[int]) -> None:
    x = data((5, 6), "int32")
    cropped = x[max(-widths[0], 0) : 5 + min(widths[2], 0), max(-widths[1], 0) : 6 + min(widths[3], 0)]
    if mode == "reflect":
        widths = [min(w, cropped.shape[k % 2] - 1) for k, w in enumerate(widths)]
    grown = [(max(widths[a], 0), max(widths[a + 2], 0)) for a in range(2)]
    more = {"constant_values": 7} if mode == "constant" else {}
    want = np.pad(cropped, grown, mode=mode, **more)  # type: ignore[call-overload]
    check("nn.pad", [x], want, pad_width=tuple(widths), mode=mode, pad_value=7.0)


def test_pad_edges() -> None:
    x = np.array([[-0.0, math.nan]], np.float32)
    want = np.array([[0.1, -0.0, math.nan], [0.1, 0.1, 0.1]], np.float32)
    check("nn.pad", [x], want, pad_width=(0, 1, 1, 0), mode="constant", pad_value=0.1)
    check("nn.pad", [x[:, :0]], np.full((2, 1), -math.inf, np.float32), pad_width=(0, 1, 1, 0), pad_value=-math.inf)
    check("nn.pad", [x], x[:, 2:], pad_width=(0, -1, 0, -1))
    assert check("nn.pad", [x], x, pad_width=(0, 0, 0, 0)).allocations == ()
    check("nn.pad", [np.array([True])], np.array([False, True]), pad_width=(1, 0), pad_value=0.0)


# --- creation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "value", "of"), [((2, 3), 0.1, "float16"), ((), -7, "int8"), ((0, 2), 1, "bool")])
def test_full(shape: Sequence[int], value: Any, of: str) -> None:
    check("full", [], np.full(shape, value, of), shape=tuple(shape), fill_value=value, dtype=of)


def test_full_rounds_once_and_keeps_the_sign_of_zero() -> None:
    of = dtype("bfloat16").numpy
    check("full", [], np.array([1 + 2**-7], of), shape=(1,), fill_value=1 + 2**-8 + 2**-30, dtype="bfloat16")
    check("full", [], np.array([-0.0], of), shape=(1,), fill_value=-0.0, dtype="bfloat16")


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 5)])
def test_shape_of(shape: tuple[int, ...]) -> None:
    x = data(shape, "int8")
    check("shape_of", [x], np.array(shape, np.int64))


def test_the_comparison_sees_one_wrong_bit() -> None:
    x = data((2, 3))
    for k in range(x.size):
        wrong = x.copy()
        wrong.reshape(-1)[k] = np.nextafter(wrong.reshape(-1)[k], np.float32(9))
        assert not same_bits(x, wrong)
        with pytest.raises(AssertionError, match="permute_dims"):
            check("permute_dims", [x], wrong, axes=(0, 1))
    assert not same_bits(np.zeros(prod(x.shape)), -np.zeros(6))
