"""Trigonometry, bits, reductions, scans, quantization, losses, Einsum: cases for ONNX Runtime, in every version."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.lower.frontends.onnx.onnx_cases import SPECIAL, cases, floats, ints, whole

F = np.float32
UNIT = np.array([-1, -0.5, 0, 0.25, 1], F)
BYTES = np.array([[0, 128, 255], [3, 127, 200]], np.uint8)
SIGNED = np.array([[-128, 0, 127], [5, -6, 7]], np.int8)
REDUCED = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
POSITIVE = floats(2, 3, 4, low=0.1)
TARGET = ints(0, 2)

ELEMENTARY = [
    *(c for op in ("Sin", "Cos", "Tan", "Atan") for c in cases(op, [floats(2, 3)])),
    *(c for op in ("Asin", "Acos") for c in cases(op, [UNIT])),
    *(c for op in ("Sinh", "Cosh", "Asinh") for c in cases(op, [floats(2, 3)], 9)),
    *cases("Acosh", [floats(2, 3, low=1.0)], 9),
    *cases("Atanh", [UNIT], 9),
    *cases("Mod", [floats(2, 3), floats(3)], 10, fmod=1),
    *(c for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for c in cases(op, [whole(2, 3), whole(3)], 18)),
    *cases("BitwiseNot", [whole(2, 3)], 18),
    *(c for way in ("LEFT", "RIGHT") for c in cases("BitShift", [BYTES, np.uint8([1, 2, 7])], 11, direction=way)),
    *cases("IsNaN", [SPECIAL], 9),
    *cases("IsInf", [SPECIAL], 10),
    *cases("IsInf", [SPECIAL], 10, detect_negative=0),
    *cases("BitCast", [floats(2, 3)], 26, to=TensorProto.INT32),
]
REDUCING = [
    *(c for op in REDUCED for c in cases(op, [POSITIVE], 7, 17, axes=[0, -1])),
    *(c for op in REDUCED for c in cases(op, [POSITIVE, ints(1)], 18, constants=[1], keepdims=0)),
    *(c for op in ("ArgMax", "ArgMin") for c in cases(op, [whole(3, 4, of=np.int32)], axis=1)),
    *(c for op in ("ArgMax", "ArgMin") for c in cases(op, [whole(3, 4, of=np.int32) // 4], 12, select_last_index=1)),
    *cases("Hardmax", [np.round(floats(2, 3, 4))], axis=1),
    *(c for p in (1, 2) for c in cases("LpNormalization", [floats(2, 3)], p=p, axis=0)),
    *cases("CumSum", [floats(2, 3), np.array(1)], 11, constants=[1]),
    *cases("CumSum", [floats(2, 3), np.array(-2)], 11, constants=[1], exclusive=1, reverse=1),
    *cases("CumProd", [floats(2, 3), np.array(1)], 26, constants=[1]),
    *cases("TopK", [floats(2, 5)], 7, 9, outputs=2, k=2),
    *cases("TopK", [floats(2, 5), ints(3)], 10, constants=[1], outputs=2, axis=1),
    *cases("TopK", [whole(5, 2, low=0, high=3), ints(4)], 11, constants=[1], outputs=2, axis=0, largest=0),
    *cases("Trilu", [floats(2, 3, 4), np.array(1)], 14, constants=[1]),
    *cases("Trilu", [floats(4, 3), np.array(-1)], 14, upper=0),
    *cases("Einsum", [floats(2, 3, 4), floats(2, 4, 5)], 12, equation="bij,bjk->bik"),
    *cases("Einsum", [floats(3, 4), floats(4, 5), floats(5)], 12, equation="ij,jk,k"),
    *cases("NegativeLogLikelihoodLoss", [floats(2, 3), TARGET, floats(3, low=0.1)], 12),
    *cases("SoftmaxCrossEntropyLoss", [floats(2, 3), TARGET], 12, ignore_index=2),
]
SMALL = np.int8([-64, 0, 63, 5, -6, 7]).reshape(3, 2, 1)
"""On processors without VNNI, ONNX Runtime adds two products of bytes in int16, where larger ones are cut off."""
QUANTIZED = [
    *cases("QuantizeLinear", [floats(2, 3) * 9, F(0.05), np.uint8(128)], 10),
    *cases("QuantizeLinear", [floats(2, 3) * 9, np.array([0.1, 0.05, 2], F), np.int8([1, -2, 0])], 13, axis=1),
    *cases("DequantizeLinear", [BYTES, F(0.05), np.uint8(128)], 10),
    *cases("DequantizeLinear", [SIGNED, np.array([0.1, 2], F), np.int8([1, -2])], 13, axis=0),
    *cases("DynamicQuantizeLinear", [floats(2, 3)], 11, outputs=3),
    *cases("MatMulInteger", [BYTES, SIGNED.T.copy(), np.uint8(12), np.int8(-3)], 10),
    *cases("QLinearMatMul", [BYTES, F(0.02), np.uint8(9), BYTES.T.copy(), F(0.1), np.uint8(7), F(3), np.uint8(4)], 10),
    *cases("ConvInteger", [BYTES.reshape(1, 1, 2, 3), BYTES.reshape(1, 1, 2, 3), np.uint8(12)], 10, pads=[1, 1, 1, 1]),
    *cases(
        "QLinearConv",
        [BYTES.reshape(1, 2, 3), F(0.02), np.uint8(9), SMALL, np.array([0.1, 0.2, 0.3], F),
         np.zeros(3, np.int8), F(3), np.uint8(4), np.int32([100, -200, 300])],
        10,
        constants=[1, 2, 3, 4, 5, 6, 7, 8],
    ),
]  # fmt: skip
CASES = [*ELEMENTARY, *REDUCING, *QUANTIZED]
