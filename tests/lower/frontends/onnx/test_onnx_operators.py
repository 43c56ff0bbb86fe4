"""Every translated operator, in every version since operator set 7, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx.defs
import pytest
from onnx import TensorProto

from assay.lower.frontends.onnx.control import CONTROL as CONTROL_RULES
from assay.lower.frontends.onnx.operators import RULES, draws, images
from tests.lower.frontends.onnx.container_cases import CONTAINERS, CONTROL
from tests.lower.frontends.onnx.elementwise_cases import CASES
from tests.lower.frontends.onnx.onnx_cases import (
    INT_MAX,
    INT_MIN,
    SPECIAL,
    Case,
    agree,
    bools,
    cases,
    floats,
    ints,
    tensor,
    whole,
)
from tests.lower.frontends.onnx.selection_cases import SELECTION
from tests.lower.frontends.onnx.sequence_cases import SEQUENCES
from tests.lower.frontends.onnx.spatial_cases import ELSEWHERE, SPATIAL
from tests.models import NEWEST_RELEASED

pytestmark = pytest.mark.peer
f64, f16 = np.float64, np.float16

ELEMENTWISE = [
    *(c for op in ("Abs", "Ceil", "Floor", "Neg") for x in (floats(2, 3), SPECIAL) for c in cases(op, [x])),
    *(
        c
        for op in ("Exp", "Relu", "Reciprocal", "Sigmoid", "Tanh")
        for x in (floats(2, 3), SPECIAL)
        for c in cases(op, [x])
    ),
    *(c for op in ("Log", "Sqrt") for x in (floats(2, 3, low=0.1), SPECIAL) for c in cases(op, [x])),
    *(c for x in (floats(2, 3), SPECIAL) for c in cases("Erf", [x], 9)),
    *(c for x in (floats(2, 3), SPECIAL) for c in cases("Round", [x], 11)),
    *(c for op in ("Exp", "Relu", "Tanh", "Sqrt") for c in cases(op, [floats(2, 3, of=f64, low=0.1)])),
    *cases("Relu", [floats(2, 3, of=f16)]),
    *cases("Relu", [whole(2, 3, of=np.int32)], 14),
    *cases("Abs", [whole(2, 3, of=np.int8)]),
    *cases("Neg", [whole(2, 3, of=np.int32)]),
    *cases("LeakyRelu", [floats(2, 3)]),
    *cases("LeakyRelu", [floats(2, 3)], alpha=0.25),
    *cases("Gelu", [floats(2, 3)], 20),
    *cases("Gelu", [floats(2, 3)], 20, approximate="tanh"),
    *cases("Gelu", [floats(2, 3)], 20, approximate="none"),
    *cases("Not", [bools(2, 3)]),
    *cases("Softplus", [np.array([-200, -1, 0, 1, 200], np.float32)]),
    *cases("Mod", [whole(2, 7), ints(-3)], 10),
    *cases("Mod", [whole(2, 7), ints(-3)], 10, fmod=1),
    # numbers
    *(c for op in ("Add", "Sub", "Mul", "Div") for c in cases(op, [floats(2, 3), floats(4, 1, 3)])),
    *(c for op in ("Add", "Sub", "Mul") for c in cases(op, [whole(2, 3), whole(3)])),
    *(
        c
        for op in ("Add", "Sub", "Mul")
        for c in cases(op, [whole(2, 3, of=np.int8, low=-128, high=128), whole(3, of=np.int8)], 14)
    ),
    *cases("Div", [whole(2, 3, of=np.int32), np.array([2, -2, 3], np.int32)]),
    *cases("Div", [np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])]),
    *cases("Div", [np.array([1, -1, 0], np.float32), np.zeros(3, np.float32)]),
    *cases("Add", [floats(2, 0, 3), floats(3)]),
    *cases("Add", [floats(), floats()]),
    *(c for op in ("Max", "Min", "Sum", "Mean") for c in cases(op, [floats(2, 3), floats(4, 1, 3), floats(1)], 8)),
    *(c for op in ("Max", "Min", "Sum", "Mean") for c in cases(op, [floats(2, 3), floats(2, 3) + 1], 7, 7)),
    *(c for op in ("Max", "Min", "Sum", "Mean") for c in cases(op, [floats(2, 3)])),
    *(c for op in ("Max", "Min") for c in cases(op, [whole(2, 3), whole(3)], 12)),
    *(c for op in ("Max", "Min") for c in cases(op, [SPECIAL[2:], SPECIAL[2:][::-1].copy()], 8)),
    # comparisons and logic
    *(c for op in ("Equal", "Greater", "Less") for c in cases(op, [np.round(floats(2, 3)), np.round(floats(3))], 11)),
    *(c for op in ("Greater", "Less") for c in cases(op, [np.round(floats(2, 3)), np.round(floats(3))])),
    *(c for op in ("Equal", "Greater", "Less") for c in cases(op, [SPECIAL, SPECIAL[::-1].copy()], 11)),
    *(c for op in ("GreaterOrEqual", "LessOrEqual") for c in cases(op, [SPECIAL, SPECIAL[::-1].copy()], 12)),
    *cases("Equal", [whole(2, 3, low=0, high=3), whole(3, low=0, high=3)]),
    *cases("Equal", [bools(2, 3), bools(3)]),
    *cases("Less", [whole(2, 3), whole(3)], 9),
    *(c for op in ("And", "Or", "Xor") for c in cases(op, [bools(2, 3), bools(4, 1, 3)])),
    *cases("Where", [bools(2, 1), floats(3), floats(4, 1, 1)], 9),
    *cases("Where", [bools(2, 1), whole(3), whole(4, 1, 1)], 9),
    # clipping
    *cases("Clip", [floats(2, 3)], 7, 10, min=-1.0, max=1.5),
    *cases("Clip", [SPECIAL], 7, 10, max=1.5),
    *cases("Clip", [SPECIAL], 7, 10),
    *cases("Clip", [SPECIAL], 11),
    *cases("Clip", [SPECIAL, np.float32(-1), np.float32(2)], 11, constants=[1, 2]),
    *cases("Clip", [SPECIAL, None, np.float32(2)], 11, constants=[2]),
    *cases("Clip", [SPECIAL, np.float32(-1)], 11, constants=[1]),
    *cases("Clip", [floats(2, 3), np.float32(-1), np.float32(2)], 11, note="bounds at run time"),
    *cases("Clip", [floats(2, 3), None, np.float32(2)], 11, note="bounds at run time"),
    *cases("Clip", [whole(2, 3, of=np.int8), np.int8(-2), np.int8(5)], 12, constants=[1, 2]),
    *cases("Clip", [floats(2, 3), np.float32(2), np.float32(-1)], 12, constants=[1, 2], note="min above max"),
    # powers
    *cases("Pow", [floats(2, 3, low=0.1), floats(3)]),
    *cases("Pow", [floats(2, 3), np.float32(2)], constants=[1]),
    *cases("Pow", [floats(2, 3), ints(2)], 12, constants=[1]),
    *cases("Pow", [floats(2, 3), whole(3, low=-2, high=4)], 12),
    *cases("Pow", [floats(2, 3, low=0.1), floats(3, of=f64)], 12),
    *cases("Pow", [floats(2, 3, of=f64, low=0.1), floats(3)], 12),
    *cases("Pow", [whole(2, 3, of=np.int32), ints(3)], 12, constants=[1]),
    *cases("Pow", [whole(2, 3), ints(0)], 12, constants=[1]),
    *cases("Pow", [whole(2, 3, low=1), whole(3, low=0, high=4)], 12),
    *cases("Pow", [whole(2, 3, of=np.int32, low=1), floats(3, low=0.1)], 12),
]

MATRICES = [
    *cases("MatMul", [floats(3, 4), floats(4, 5)]),
    *cases("MatMul", [floats(2, 1, 3, 4), floats(6, 4, 5)]),
    *cases("MatMul", [floats(4), floats(4, 5)]),
    *cases("MatMul", [floats(2, 3, 4), floats(4)]),
    *cases("MatMul", [whole(3, 4, of=np.int32), whole(4, 5, of=np.int32)], 9),
    *cases("Gemm", [floats(3, 4), floats(4, 5), floats(5)]),
    *cases("Gemm", [floats(4, 3), floats(5, 4), floats(3, 1)], transA=1, transB=1, alpha=0.5, beta=2.0),
    *cases("Gemm", [floats(3, 4), floats(4, 5)], 11),
    *cases("Gemm", [floats(3, 4), floats(4, 5), floats()], beta=0.0),
    # convolution
    *cases("Conv", [floats(2, 3, 7), floats(4, 3, 3)]),
    *cases("Conv", [floats(2, 3, 7), floats(4, 3, 3), floats(4)], strides=[2], pads=[1, 2], dilations=[2]),
    *cases("Conv", [floats(2, 4, 7, 9), floats(6, 2, 3, 2), floats(6)], group=2, pads=[1, 0, 2, 1], strides=[2, 1]),
    *cases("Conv", [floats(1, 4, 7, 9), floats(4, 1, 3, 3)], group=4, kernel_shape=[3, 3], dilations=[1, 2]),
    *cases("Conv", [floats(1, 2, 5, 6, 7), floats(3, 2, 2, 3, 1)], pads=[1, 0, 1, 0, 1, 0]),
    *(
        c
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        for c in cases("Conv", [floats(1, 2, 7, 10), floats(3, 2, 4, 3)], auto_pad=mode, strides=[2, 3])
    ),
]

POOLS = [
    *(
        c
        for op in ("MaxPool", "AveragePool")
        for c in (
            *cases(op, [floats(2, 3, 9)], kernel_shape=[3]),
            *cases(op, [floats(2, 3, 9, 8)], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 2, 1]),
            *cases(op, [floats(1, 2, 5, 6, 7)], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 0, 1, 1]),
            *cases(op, [floats(2, 3, 9, 8)], 10, kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1], ceil_mode=1),
            *cases(op, [floats(1, 2, 4, 4)], 10, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
            *(
                c
                for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
                for c in cases(op, [floats(2, 3, 9, 8)], kernel_shape=[3, 2], strides=[2, 3], auto_pad=mode)
            ),
        )
    ),
    *cases("MaxPool", [floats(2, 3, 9, 8)], 10, kernel_shape=[3, 2], dilations=[2, 3]),
    *cases("MaxPool", [whole(2, 3, 9, 8, of=np.int8)], 12, kernel_shape=[3, 2], pads=[1, 1, 1, 1]),
    *cases("AveragePool", [floats(2, 3, 9, 8)], kernel_shape=[3, 2], pads=[1, 1, 2, 1], count_include_pad=1),
    *cases(
        "AveragePool", [floats(2, 3, 9, 8)], 19,
        kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 2, 1], count_include_pad=1,
    ),
    *(c for op in ("GlobalAveragePool", "GlobalMaxPool") for c in cases(op, [floats(2, 3, 5, 4)])),
    *(c for op in ("GlobalAveragePool", "GlobalMaxPool") for c in cases(op, [floats(2, 3, 5)])),
]  # fmt: skip

NORMALIZATION = [
    *(
        c
        for op in ("Softmax", "LogSoftmax")
        for x, axes in ((floats(2, 3, 4), (None, 0, 1, 2)), (floats(3, 5), (None, 0, 1)))
        for axis in axes
        for c in cases(op, [x], **({} if axis is None else {"axis": axis}))
    ),
    *(c for op in ("Softmax", "LogSoftmax") for c in cases(op, [floats(2, 3, 4)], 11, axis=-2)),
    *cases("BatchNormalization", [floats(2, 3, 4, 5), floats(3), floats(3) + 1, floats(3) / 2, floats(3, low=0.5)]),
    *cases(
        "BatchNormalization", [floats(2, 3, 4), floats(3), floats(3) + 1, floats(3) / 2, floats(3, low=0.5)],
        epsilon=0.125, momentum=0.5,
    ),
    *cases("BatchNormalization", [floats(2, 3), floats(3), floats(3) + 1, floats(3) / 2, floats(3, low=0.5)], 9),
    *cases("BatchNormalization", [floats(5), floats(1), floats(1), floats(1), floats(1, low=0.5)], 9),
    *cases(
        "BatchNormalization",
            [floats(2, 3, 4), floats(3, 4), floats(3, 4) + 1, floats(3, 4) / 2, floats(3, 4, low=0.5)],
        7, 8, spatial=0,
    ),
    *cases("LRN", [floats(2, 7, 4, 3)], size=3),
    *cases("LRN", [floats(2, 7, 4, 3)], size=5, alpha=0.5, beta=0.6, bias=2.0),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(4), floats(4) + 1], 17),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(4)], 17, epsilon=0.25),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(3, 4), floats(3, 4) + 1], 17, axis=1),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(3, 4), floats(3, 4) + 1], 17, axis=1, outputs=3),
    *cases("LayerNormalization", [floats(2, 3, 4, of=f16), floats(4, of=f16), floats(4, of=f16)], 17),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(1), floats(1)], 17, axis=-1),
    *cases("LayerNormalization", [floats(2, 3, 4), floats(3, 1), floats(1, 4)], 17, axis=-1),
    *cases("LayerNormalization", [floats(2, 3, 4, of=f64), floats(4, of=f64)], 17),
    *cases("Dropout", [floats(2, 3)], 7, 11, ratio=0.25),
    *cases("Dropout", [floats(2, 3)], 12),
    *cases("Dropout", [floats(2, 3), np.float32(0.75), np.array(False)], 12, constants=[1, 2], outputs=2),
]  # fmt: skip

REDUCTIONS = [
    *(
        c
        for op, moved in (
            ("ReduceSum", 13),
            ("ReduceMean", 18),
            ("ReduceMax", 18),
            ("ReduceMin", 18),
            ("ReduceProd", 18),
        )
        for c in (
            *cases(op, [floats(2, 3, 4)]),
            *cases(op, [floats(2, 3, 4)], keepdims=0),
            *cases(op, [floats(2, 3, 4)], 7, moved - 1, axes=[1]),
            *cases(op, [floats(2, 3, 4)], 7, moved - 1, axes=[0, 2], keepdims=0),
            *cases(op, [floats(2, 3, 4)], 11, moved - 1, axes=[-1]),
            *cases(op, [floats(2, 3, 4), ints(1)], moved, constants=[1]),
            *cases(op, [floats(2, 3, 4), ints(-1, 0)], moved, constants=[1], keepdims=0),
            *cases(op, [floats(2, 3, 4)], moved, noop_with_empty_axes=1),
            *cases(op, [floats(2, 3, 4), ints()], moved, constants=[1]),
            *cases(op, [floats(2, 3, 4, of=f64)]),
            *cases(op, [whole(2, 3, 4, of=np.int32)]),
        )
    ),
    *cases("ReduceSum", [floats(2, 0, 4)], 13, note="of nothing"),
    *cases("ReduceMax", [floats(2, 0, 3), ints(1)], 18, constants=[1], note="of nothing"),
    *cases("ReduceMin", [whole(2, 0, 3), ints(1)], 18, constants=[1], note="of nothing"),
    *cases("ReduceMax", [bools(2, 3, 4), ints(1)], 20, constants=[1]),
    *cases("ReduceMin", [bools(2, 3, 4), ints(1)], 20, constants=[1]),
]

MOVEMENT = [
    *cases("Concat", [floats(2, 3), floats(4, 3)], axis=0),
    *cases("Concat", [floats(2, 3, 1), floats(2, 5, 1), floats(2, 1, 1)], 11, axis=-2),
    *cases("Concat", [whole(2, 3)], axis=1),
    *cases("Reshape", [floats(2, 3, 4), ints(4, 6)], constants=[1]),
    *cases("Reshape", [floats(2, 3, 4), ints(0, -1)], constants=[1]),
    *cases("Reshape", [floats(2, 3, 4), ints(2, 0, 2, -1)], constants=[1]),
    *cases("Reshape", [floats(2, 0, 4), ints(0, -1)], constants=[1]),
    *cases("Reshape", [floats(1, 1), ints()], constants=[1]),
    *cases("Reshape", [floats(2, 0, 4), ints(0, 7)], 14, constants=[1], allowzero=1),
    *cases("Flatten", [floats(2, 3, 4)]),
    *(c for axis in (0, 1, 2, 3) for c in cases("Flatten", [floats(2, 3, 4)], axis=axis)),
    *cases("Flatten", [floats(2, 3, 4)], 11, axis=-1),
    *cases("Transpose", [floats(2, 3, 4)]),
    *cases("Transpose", [floats(2, 3, 4)], perm=[1, 2, 0]),
    *cases("Squeeze", [floats(2, 1, 3, 1)]),
    *cases("Squeeze", [floats(2, 1, 3, 1)], 7, 12, axes=[1]),
    *cases("Squeeze", [floats(2, 1, 3, 1)], 11, 12, axes=[-1]),
    *cases("Squeeze", [floats(2, 1, 3, 1), ints(-1, 1)], 13, constants=[1]),
    *cases("Unsqueeze", [floats(2, 3)], 7, 12, axes=[0, 2]),
    *cases("Unsqueeze", [floats(2, 3)], 11, 12, axes=[-1, 1]),
    *cases("Unsqueeze", [floats(2, 3), ints(3, 0)], 13, constants=[1]),
    *cases("Slice", [floats(5, 6, 7)], 7, 9, starts=[1, -3], ends=[3, 100]),
    *cases("Slice", [floats(5, 6, 7)], 7, 9, starts=[1, -3], ends=[-1, INT_MAX], axes=[2, 0]),
    *cases("Slice", [floats(5, 6, 7), ints(1, -3), ints(3, 100)], 10, constants=[1, 2]),
    *cases(
        "Slice", [floats(5, 6, 7), ints(1, 0), ints(INT_MAX, 6), ints(-1, 1), ints(2, 3)], 10, constants=[1, 2, 3, 4]
    ),
    *cases("Slice", [floats(5, 6, 7), ints(-1), ints(INT_MIN), ints(1), ints(-2)], 10, constants=[1, 2, 3, 4]),
    *cases("Slice", [floats(5, 6, 7), ints(20), ints(1), ints(0), ints(-1)], 10, constants=[1, 2, 3, 4]),
    *cases("Slice", [floats(5, 6), ints(-20), ints(INT_MIN), ints(0), ints(-1)], 10, constants=[1, 2, 3, 4]),
    *cases("Slice", [floats(5, 6, 7), ints(4), ints(2), ints(0)], 10, constants=[1, 2, 3], note="empty"),
    *cases("Split", [floats(6, 4)], 7, 17, outputs=3),
    *cases("Split", [floats(6, 4)], 7, 12, outputs=2, axis=1, split=[1, 3]),
    *cases("Split", [floats(6, 4), ints(1, 2, 3)], 13, constants=[1], outputs=3),
    *cases("Split", [floats(7, 4)], 18, outputs=3, num_outputs=3),
    *cases("Split", [floats(7, 4)], 18, outputs=2, num_outputs=2, axis=-1),
    *cases("Gather", [floats(5, 3), ints(0, 4, 2)]),
    *cases("Gather", [floats(5, 3, 4), whole(2, 6, low=0, high=3)], axis=1),
    *cases("Gather", [floats(5, 3), np.array(-1, np.int32)], 11, axis=-1),
    *cases("Pad", [floats(2, 3)], 7, 10, pads=[1, 0, 2, 3], value=1.5),
    *cases("Pad", [floats(4, 5)], 7, 10, pads=[1, 2, 3, 0], mode="reflect"),
    *cases("Pad", [floats(4, 5)], 7, 10, pads=[1, 2, 3, 0], mode="edge"),
    *cases("Pad", [floats(4, 5)], 7, 10, pads=[-1, 2, 0, -3]),
    *cases("Pad", [floats(2, 3), ints(1, 0, 2, 3), np.float32(1.5)], 11, constants=[1, 2]),
    *cases("Pad", [floats(2, 3), ints(1, 0, 2, 3)], 11, constants=[1]),
    *cases("Pad", [whole(2, 3), ints(1, -1, 2, 3), np.array(-(2**60))], 13, constants=[1, 2]),
    *cases("Pad", [floats(4, 5), ints(1, 2, 3, 0)], 11, constants=[1], mode="reflect"),
    *cases("Pad", [floats(4, 5), ints(1, 2, 3, 0)], 11, constants=[1], mode="edge"),
    *cases("Pad", [floats(4, 5), ints(1, 2), None, ints(-1)], 18, constants=[1, 3]),
    *cases("Pad", [floats(4, 5, 6), ints(1, 2, 3, 4), np.float32(2), ints(2, 0)], 18, constants=[1, 2, 3]),
    *cases("Pad", [floats(4, 5), ints(3, 2, 1, 4)], 19, constants=[1], mode="wrap"),
    *cases("Expand", [floats(3, 1), ints(2, 1, 6)], 8, constants=[1]),
    *cases("Expand", [floats(3, 1), ints(3, 4)], 8, constants=[1]),
    *cases("Expand", [floats(2, 3), ints(1)], 8, constants=[1]),
    *cases("Tile", [floats(2, 3), ints(2, 3)], constants=[1]),
    *cases("Tile", [floats(2, 3), ints(1, 4)], constants=[1]),
    *cases("Tile", [floats(2, 3), ints(0, 2)], constants=[1]),
]

CREATION = [
    *(
        c
        for of, to in (
            (np.float32, TensorProto.INT32), (np.float32, TensorProto.BOOL), (np.float32, TensorProto.DOUBLE),
            (np.float64, TensorProto.FLOAT16), (np.float64, TensorProto.INT8),
        )
        for c in cases("Cast", [floats(2, 3, of=of)], to=to)
    ),
    *cases("Cast", [np.array([300, -1, 127, 2**31], np.int64)], to=TensorProto.UINT8),
    *cases("Cast", [whole(2, 3)], to=TensorProto.FLOAT),
    *cases("Cast", [bools(2, 3)], to=TensorProto.INT64),
    *cases("CastLike", [floats(2, 3), whole(1, of=np.int32)], 15),
    *cases("Constant", [], 7, value=tensor(floats(2, 3))),
    *cases("Constant", [], 12, value_float=1.5),
    *cases("Constant", [], 12, value_floats=[1.5, -2.0]),
    *cases("Constant", [], 12, value_int=-7),
    *cases("Constant", [], 12, value_ints=[1, 2, 3]),
    *cases("ConstantOfShape", [ints(2, 3)], 9, constants=[0]),
    *cases("ConstantOfShape", [ints()], 9, constants=[0]),
    *cases("ConstantOfShape", [ints(2, 0)], 9, constants=[0], value=tensor(np.array([7], np.int32))),
    *cases("ConstantOfShape", [ints(2)], 9, constants=[0], value=tensor(np.array([True]))),
    *cases("Identity", [floats(2, 3)]),
    *cases("Range", [np.array(1), np.array(9), np.array(3)], 11, constants=[0, 1, 2]),
    *cases("Range", [np.float32(1), np.float32(-2), np.float32(-0.5)], 11, constants=[0, 1, 2]),
    *cases("Shape", [floats(2, 0, 4)]),
    *cases("Shape", [floats(2, 3, 4, 5)], 15, start=-3, end=-1),
    *cases("Shape", [floats(2, 3, 4, 5)], 15, start=1),
    *cases("Shape", [floats(2, 3, 4, 5)], 15, start=-9, end=9),
    *cases("Shape", [floats(2, 3, 4, 5)], 15, start=3, end=1),
    *cases("Size", [floats(2, 3, 4)]),
]  # fmt: skip

BY_BODY = [
    *cases("Elu", [floats(2, 3)], alpha=0.5),
    *cases("Elu", [floats(2, 3)]),
    *cases("HardSigmoid", [floats(2, 3)]),
    *cases("HardSwish", [floats(2, 3)], 14),
    *cases("MeanVarianceNormalization", [floats(2, 3, 4, 5)], 9),
    *cases("Mish", [floats(2, 3)], 18),
    *cases("PRelu", [floats(2, 3), floats(3)], 16),
    *cases("ReduceL1", [floats(2, 3), ints(1)], 18, constants=[1]),
    *cases("ReduceSumSquare", [floats(2, 3), ints(1)], 18, constants=[1], keepdims=0),
    *cases("Selu", [floats(2, 3)]),
    *cases("Softsign", [floats(2, 3)]),
    *cases("Celu", [floats(2, 3)], 12, alpha=0.5),
    *(
        c
        for op in ("Celu", "Elu", "HardSwish", "Mish", "Selu", "Softplus")
        for n in ((), (1,), (0,))
        for c in cases(op, [floats(*n)], 18)
    ),
    *cases("GroupNormalization", [floats(2, 4, 3), floats(4), floats(4) + 1], 21, num_groups=2),
    *cases("RMSNormalization", [floats(2, 3), floats(3)], 23),
    *cases("Attention", [floats(1, 2, 4, 8), floats(1, 2, 5, 8), floats(1, 2, 5, 8) + 1], 23),
    *cases("Attention", [floats(2, 4, 16)] * 3, 23, q_num_heads=2, kv_num_heads=2, is_causal=1),
    *cases("RotaryEmbedding", [floats(1, 2, 4, 8), floats(6, 4), floats(6, 4) + 1, whole(1, 4, low=0, high=6)], 23),
    *cases("CenterCropPad", [floats(5, 6), ints(3, 8)], 18, constants=[1]),
    *cases("ThresholdedRelu", [floats(2, 3)], 10, alpha=0.5),
]
"""Operators without a rule of their own."""

EVERY = [
    *ELEMENTWISE,
    *MATRICES,
    *POOLS,
    *NORMALIZATION,
    *REDUCTIONS,
    *MOVEMENT,
    *CREATION,
    *BY_BODY,
    *CASES,
    *SELECTION,
    *CONTAINERS,
    *CONTROL,
    *SEQUENCES,
    *SPATIAL,
]


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_agrees_with_onnx_runtime(case: Case) -> None:
    pytest.importorskip("onnxruntime")
    agree(case.model(), case.feed())


def test_every_version_of_every_rule_has_a_case() -> None:
    have = {(c.op, c.version) for c in [*EVERY, *ELSEWHERE]}
    wanted = {
        (s.name, s.since_version)
        for s in onnx.defs.get_all_schemas_with_history()
        if s.domain == ""
        and s.name in {*RULES, *CONTROL_RULES}
        and 7 <= s.since_version <= NEWEST_RELEASED
        and not s.deprecated
    }
    alone = {*draws.TABLE, *images.TABLE}  # random results are any of a set; images have no second decoder here
    assert sorted(w for w in wanted - have if w[0] not in alone) == []
