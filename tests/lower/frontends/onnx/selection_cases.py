"""Gathers, scatters, places that are found, counted numbers: cases for ONNX Runtime, in every version."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.lower.frontends.onnx.onnx_cases import bools, cases, floats, ints, whole

F = np.float32
PLACES = np.array([[0, -1, 2], [1, 0, -3]], np.int64)
BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101]]], F
)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.1, 0.7, 0.2, 0.9, 0.7]]], F)
LIMITS = [ints(3), np.array([0.5], F), np.array([0.15], F)]

SELECTION = [
    *(c for axis in (0, -1) for c in cases("Compress", [floats(3, 4), np.array([True, False, True])], 9, axis=axis)),
    *cases("Compress", [floats(3, 4), bools(9)], 9),
    *cases("EyeLike", [whole(3, 4, of=np.int32)], 9, k=1),
    *cases("EyeLike", [floats(3, 2)], 9, k=-1, dtype=TensorProto.INT64),
    *(c for axis in (0, 1) for c in cases("GatherElements", [floats(3, 3), PLACES], 11, axis=axis)),
    *cases("GatherElements", [whole(3, 3, of=np.int8), PLACES.astype(np.int32)], 11, axis=1),
    *cases("GatherND", [floats(3, 4, 2), np.array([[[0, 1], [-1, 3]]])], 11),
    *cases("GatherND", [floats(2, 3, 4), np.array([[1], [-2]])], 12, batch_dims=1),
    *cases("NonMaxSuppression", [BOXES, SCORES, *LIMITS], 10),
    *cases("NonMaxSuppression", [floats(1, 6, 4, low=0.2), SCORES, *LIMITS], 10, center_point_box=1),
    *cases("NonMaxSuppression", [BOXES, SCORES, *LIMITS[:2]], 10),
    *cases("NonZero", [whole(3, 4, low=-1, high=2)], 9),
    *cases("NonZero", [bools(2, 2, 3)], 9),
    *(
        c
        for axis in (0, -1)
        for c in cases("OneHot", [ints(0, 4, -1, 9), ints(5), np.array([-1, 2], F)], 9, constants=[1], axis=axis)
    ),
    *cases("Range", [ints(3), ints(17), ints(4)], 11),
    *cases("Range", [np.int64(9), np.int64(-2), np.int64(-3)], 11),
    *cases("Range", [F(1), F(2), F(0.3)], 11, constants=[0, 1, 2]),
    *cases("Range", [F(1), F(2), F(-0.3)], 11),
    *cases("ReverseSequence", [floats(4, 3, 2), ints(4, 1, 2)], 10),
    *cases("ReverseSequence", [floats(3, 4), ints(4, 1, 2)], 10, batch_axis=0, time_axis=1),
    *cases("Scatter", [floats(3, 3), PLACES, floats(2, 3)], 9, 10, axis=1),
    *(c for axis in (0, 1) for c in cases("ScatterElements", [floats(3, 3), PLACES, floats(2, 3)], 11, axis=axis)),
    *(
        c
        for how in ("add", "mul")
        for c in cases("ScatterElements", [floats(3, 3), PLACES, floats(2, 3)], 16, axis=1, reduction=how)
    ),
    *(
        c
        for how in ("max", "min")
        for c in cases("ScatterElements", [floats(3, 3), PLACES * 0, floats(2, 3)], 18, axis=1, reduction=how)
    ),
    *cases("ScatterND", [floats(3, 4), np.array([[2], [-3]]), floats(2, 4)], 11),
    *(
        c
        for how, first in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
        for c in cases("ScatterND", [floats(3, 4), np.array([[2], [0], [2]]), floats(3, 4)], first, reduction=how)
    ),
    *cases("TensorScatter", [floats(2, 1, 4, 3), floats(2, 1, 2, 3), ints(1, 3)], 24, mode="circular"),
    *cases("TensorScatter", [floats(2, 4, 3), floats(2, 2, 3)], 24),
    *cases("Unique", [np.array([2, 1, 1, 3, 4, 3], F)], 11, outputs=4),
    *cases("Unique", [np.array([2, 1, 1, 3, 4, 3], np.int64)], 11, outputs=4, sorted=0),
    *cases("Unique", [np.array([[1, 0, 0], [1, 0, 0], [0, 5, 4]], F)], 11, outputs=4, axis=0),
    *cases("Unique", [np.array([[1, 0, 1], [7, 0, 7]], np.int8)], 11, outputs=4, axis=-1),
    *cases(
        "TfIdfVectorizer",
        [np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])],
        9,
        mode="TFIDF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=3,
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        weights=[1.0, 2.0, 3.0, 0.5, 1.5, 2.5, 3.5],
    ),
    *cases(
        "ConstantOfShape", [ints(2, 3)], 9, value=helper.make_tensor("v", TensorProto.INT32, [1], [7]), note="measured"
    ),
]
