"""Values of movement and creation against plain loops, NumPy and onnxruntime."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.ops import operator
from tests.semantics.structure import compute, onnxruntime_result, same, sample

# --- movement -----------------------------------------------------------------------------------------------------

GRID = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@given(
    st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9) | st.sampled_from([2**31 - 1, 2**63 - 1, -(2**63)]),
                  st.sampled_from([1, 2, 3, -1, -2, -9])),
        min_size=1, max_size=3,
    ),
    st.permutations([0, 1, 2]),
    st.booleans(),
)  # fmt: skip
def test_strided_slice(parts: list[tuple[int, int, int]], order: list[int], negative: bool) -> None:
    axes = [a - 3 if negative else a for a in order[: len(parts)]]
    begin, end, strides = (tuple(p[i] for p in parts) for i in range(3))
    want = GRID
    for a, (b, e, s) in zip(axes, parts, strict=True):
        places = []
        at = b + GRID.shape[a] if b < 0 else b
        stop = e + GRID.shape[a] if e < 0 else e
        at = min(max(at, 0), GRID.shape[a]) if s > 0 else min(max(at, -1), GRID.shape[a] - 1)
        while (at < min(stop, GRID.shape[a])) if s > 0 else (at > max(stop, -1)):
            places.append(at)
            at += s
        want = np.take(want, np.array(places, np.int64), axis=a)
    assert same(compute("strided_slice", GRID, axes=tuple(axes), begin=begin, end=end, strides=strides), want)


@pytest.mark.peer
def test_strided_slice_is_that_of_onnxruntime_but_for_what_is_documented() -> None:
    x = np.arange(3, dtype=np.float32)
    for begin, end, stride in itertools.product(range(-5, 6), [*range(-5, 6), -(2**63)], (1, 2, -1, -2)):
        ends = [np.array([v]) for v in (begin, end, 0, stride)]
        want = onnxruntime_result("Slice", 18, [x, *ends], {})
        got = compute("strided_slice", x, axes=(0,), begin=(begin,), end=(end,), strides=(stride,))
        if stride < 0 and begin < -3:
            assert got.size == 0  # onnxruntime begins at element 0 here
        else:
            assert same(got, want)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@given(data=st.data())
def test_pad(mode: str, data: st.DataObject) -> None:
    shape = data.draw(st.tuples(*[st.integers(0, 4)] * 2))
    crop = [data.draw(st.integers(0, d)) for d in shape]
    widths = []
    for d, c in zip(shape, crop, strict=True):
        most = 5 if mode == "constant" or (mode == "edge" and d > c) else max(0, d - c - 1)
        grow = data.draw(st.integers(0, most))
        widths.append(
            data.draw(st.sampled_from([(-c, grow), (grow, -c)]) if c else st.tuples(*[st.integers(0, most)] * 2))
        )
    x = sample(shape, data.draw(st.sampled_from(["float32", "bfloat16"])))
    inner = x[tuple(slice(max(-b, 0), d - max(-e, 0)) for d, (b, e) in zip(shape, widths, strict=True))]
    outer = [(max(b, 0), max(e, 0)) for b, e in widths]
    more = {"constant_values": x.dtype.type(1.5)} if mode == "constant" else {}
    want = np.pad(inner, outer, mode=mode, **more)  # type: ignore[call-overload]
    pad_width = tuple(b for b, _ in widths) + tuple(e for _, e in widths)
    assert same(compute("nn.pad", x, pad_width=pad_width, mode=mode, pad_value=1.5), want)


def test_pad_keeps_special_numbers() -> None:
    x = np.array([1.0], np.float32)
    for value in (-0.0, math.inf, math.nan, 0.1):
        assert same(compute("nn.pad", x, pad_width=(1, 0), pad_value=value), np.array([value, 1], np.float32))
    assert same(compute("nn.pad", x.reshape(()), pad_width=()), x[0])


@pytest.mark.parametrize(
    ("mode", "widths"), [("constant", (-3, 0)), ("reflect", (2, 0)), ("reflect", (-2, 1)), ("edge", (-2, 1))]
)
def test_padding_that_does_not_fit_traps(mode: str, widths: tuple[int, int]) -> None:
    attrs = {"pad_width": widths, "mode": mode, "pad_value": 0.0}
    with pytest.raises(Trap) as caught:
        operator("nn.pad").value(attrs, np.zeros(2, np.float32))
    assert (caught.value.kind, caught.value.label) == ("shape", "nn.pad.T1")


@given(st.integers(-3, 2), st.lists(st.integers(-3, 2), max_size=3), st.sampled_from(["int4", "int32", "int64"]))
def test_take(axis: int, indices: list[int], of: str) -> None:
    x = GRID[:, :3, :3]
    places = np.array(indices, np.int64).astype(dtype(of).numpy)
    got = compute("take", x, places, axis=axis)
    want = np.stack([x[(slice(None),) * (axis % 3) + (i,)] for i in indices], axis % 3) if indices else got
    assert same(got, want)
    assert got.size or not indices


@pytest.mark.parametrize(
    ("index", "of"),
    [
        (3, "int64"),
        (-4, "int64"),
        (3, "uint8"),
        (2**64 - 1, "uint64"),
        (2**63, "uint64"),
        (-(2**63), "int64"),
        (7, "int4"),
    ],
)
def test_indices_outside_trap(index: int, of: str) -> None:
    indices = np.array([0, index], np.uint64 if of == "uint64" else np.int64).astype(dtype(of).numpy)
    with pytest.raises(Trap) as caught:
        compute("take", np.zeros((3, 2), np.float32), indices)
    assert (caught.value.kind, caught.value.label) == ("out of bounds", "take.T1")
    assert str(index) in caught.value.message


def test_take_one() -> None:
    assert compute("take", np.array([4.0, 5.0]), np.array(-1)) == 5


def test_take_from_nothing() -> None:
    x = np.zeros((0, 2), np.float32)
    assert compute("take", x, np.zeros((0, 3), np.int64)).shape == (0, 3, 2)
    with pytest.raises(Trap):
        compute("take", x, np.array([0]))


@given(st.permutations([0, 1, 2]))
def test_permute_dims(order: list[int]) -> None:
    got = compute("permute_dims", GRID, axes=tuple(order))
    for i in np.ndindex(got.shape):
        place = [0, 0, 0]
        for axis, at in zip(order, i, strict=True):
            place[axis] = at
        assert got[i] == GRID[tuple(place)]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(-3, 2))
def test_split_and_concat_are_inverse(sections: list[int], axis: int) -> None:
    shape = [2, 3, 4]
    shape[axis] = sum(sections)
    x = sample(tuple(shape), "bfloat16")
    parts = compute("split", x, sections=tuple(sections), axis=axis)
    assert [p.shape[axis] for p in parts] == sections
    assert same(compute("concat", *parts, axis=axis), x)
    start = 0
    for p in parts:
        assert same(p, np.take(x, np.arange(start, start + p.shape[axis]), axis=axis))
        start += p.shape[axis]


def test_views_keep_the_bytes() -> None:
    """A view's result is the operand's bytes: the planner gives both one place."""
    for name, attrs in (
        ("reshape", {"shape": (5, -1)}),
        ("expand_dims", {"axis": (0, -1)}),
        ("reshape", {"shape": (60,)}),
    ):
        got = compute(name, GRID, **attrs)
        assert operator(name).view and np.shares_memory(got, GRID)
        assert got.tobytes() == GRID.tobytes()
    got = compute("squeeze", GRID[:1], axis=(0,))
    assert operator("squeeze").view and got.shape == (4, 5) and np.shares_memory(got, GRID)


def test_reshape_of_nothing() -> None:
    x = np.zeros((0, 3), np.float32)
    assert compute("reshape", x, shape=(-1, 3)).shape == (0, 3)
    assert compute("reshape", x, shape=(0, -1)).shape == (0, 3)  # 0 stands on both sides
    assert compute("reshape", x, shape=(7, 0)).shape == (7, 0)
    assert compute("strided_slice", np.array(1.0), axes=(), begin=(), end=()).shape == ()
    assert compute("reshape", np.ones((1, 1)), shape=()).shape == ()


def test_broadcast_to() -> None:
    x = np.array([[1], [2]], np.int8)
    got = compute("broadcast_to", x, shape=(3, 2, 4))
    assert all(got[i] == x[i[1], 0] for i in np.ndindex(got.shape))


# --- creation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "of", "stored"),
    [
        (0.1, "float32", np.float32(0.1)),
        (1e39, "float32", np.float32(np.inf)),
        (-0.0, "float16", np.float16(-0.0)),
        (math.nan, "bfloat16", ml_dtypes.bfloat16(math.nan)),
        (2**63, "uint64", np.uint64(2**63)),
        (-(2**63), "int64", np.int64(-(2**63))),
        (-8, "int4", ml_dtypes.int4(-8)),
        (3.0, "int32", np.int32(3)),
        (1, "bool", np.True_),
        (2**64, "float64", np.float64(2.0**64)),
    ],
)
def test_full(value: float, of: str, stored: Any) -> None:
    assert same(compute("full", shape=(2, 3), fill_value=value, dtype=of), np.full((2, 3), stored))


def test_shape_of() -> None:
    assert compute("shape_of", GRID).tolist() == [3, 4, 5]
    assert compute("shape_of", GRID[:0]).tolist() == [0, 4, 5]
