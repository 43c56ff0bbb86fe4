"""Cases of what ONNX leaves open, each run by a test (specs/verify.md, "Findings").

Each is as small as it gets. `verdicts` are what the oracle says of a backend's run; a backend that is not named gives
what our definition gives, refuses, or cannot run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INF, NAN, TOP = float("inf"), float("nan"), 2**31 - 1


@dataclass(frozen=True)
class Case:
    """A node of ONNX on small inputs. `entry` is that of `assay.semantics.left_open.entries`; where it is empty no
    entry is needed, and `why` says what is so."""

    name: str
    entry: str
    signature: str
    body: str
    inputs: Mapping[str, Any]
    verdicts: Mapping[str, str]
    why: str = ""
    opset: int = 22

    @property
    def text(self) -> str:
        """The model, as ONNX writes it."""
        return f'<ir_version: 10, opset_import: ["" : {self.opset}]>\ng {self.signature} {{ {self.body} }}'


def _both(word: str) -> dict[str, str]:
    return {"onnxruntime": word, "reference": word}


ORT = {"onnxruntime": "open"}
ROWS: Sequence[Sequence[float]] = [[NAN, 1, 2], [1, NAN, 2]]
CASES: tuple[Case, ...] = (
    Case("ReduceSum of int32", "overflow", "(int32[2] x) => (int32 y)", "y = ReduceSum<keepdims=0>(x)", {"x": [TOP, 5]},
         ORT),
    Case("ReduceProd of int32", "overflow", "(int32[2] x) => (int32 y)", "y = ReduceProd<keepdims=0>(x)",
         {"x": [TOP, 5]}, ORT),
    Case("ReduceSumSquare of int32", "overflow", "(int32[2] x) => (int32 y)", "y = ReduceSumSquare<keepdims=0>(x)",
         {"x": [TOP, 5]}, ORT),
    Case("Pow of int32", "overflow", "(int32[2] x, int32[2] e) => (int32[2] y)", "y = Pow(x, e)",
         {"x": [7, 5], "e": [40, 2]}, ORT),
    Case("Pow of int64", "overflow", "(int64[2] x, int64[2] e) => (int64[2] y)", "y = Pow(x, e)",
         {"x": [7, 5], "e": [40, 2]}, ORT),
    Case("ReduceMax", "nan.window", "(float[2,3] x) => (float[2] y)", "y = ReduceMax<axes=[1], keepdims=0>(x)",
         {"x": ROWS}, ORT, opset=13),
    Case("ReduceMin", "nan.window", "(float[2,3] x) => (float[2] y)", "y = ReduceMin<axes=[1], keepdims=0>(x)",
         {"x": ROWS}, ORT, opset=13),
    Case("MaxPool", "nan.window", "(float[1,2,3] x) => (float[1,2,1] y)", "y = MaxPool<kernel_shape=[3]>(x)",
         {"x": [ROWS]}, _both("open")),
    Case("ArgMax", "nan.place", "(float[2,3] x) => (int64[2] y)", "y = ArgMax<axis=1, keepdims=0>(x)", {"x": ROWS},
         ORT),
    Case("Hardmax", "nan.hardmax", "(float[2,3] x) => (float[2,3] y)", "y = Hardmax(x)", {"x": ROWS}, ORT),
    Case("ScatterND with max", "nan.scatter", "(float[2] x, int64[2,1] i, float[2] u) => (float[2] y)",
         'y = ScatterND<reduction="max">(x, i, u)', {"x": [NAN, 1], "i": [[0], [1]], "u": [1, NAN]}, ORT),
    Case("ScatterND with a place twice", "scatter.order", "(float[2] x, int64[3,1] i, float[3] u) => (float[2] y)",
         "y = ScatterND(x, i, u)",
         {"x": [0, 0], "i": [[1], [0], [1]], "u": [5, 6, 7]}, _both("right")),
    Case("ScatterElements with a place twice", "scatter.order", "(float[2] x, int64[3] i, float[3] u) => (float[2] y)",
         "y = ScatterElements(x, i, u)", {"x": [0, 0], "i": [1, 0, 1], "u": [5, 6, 7]}, _both("right")),
    Case("TopK", "topk.order", "(float[1,9] x) => (float[1,5] y, int64[1,5] i)",
         "k = Constant<value_ints=[5]>() y, i = TopK<sorted=0>(x, k)", {"x": [[1, 9, 2, 8, 3, 7, 4, 6, 5]]}, ORT),
    Case("Cast to int32", "cast.range", "(float[3] x) => (int32[3] y)", "y = Cast<to=6>(x)", {"x": [1e20, NAN, 3]},
         _both("open")),
    Case("Cast to uint8", "cast.range", "(float[3] x) => (uint8[3] y)", "y = Cast<to=2>(x)", {"x": [1e20, -3, 3]},
         _both("open")),
    Case("Mod by 0", "division", "(int32[2] x, int32[2] z) => (int32[2] y)", "y = Mod(x, z)",
         {"x": [7, 5], "z": [0, 2]},
         _both("open")),
    Case("Div by 0", "division", "(int32[2] x, int32[2] z) => (int32[2] y)", "y = Div(x, z)",
         {"x": [7, 5], "z": [0, 2]},
         {"onnxruntime": "open"}),
    Case("ReduceMean of no elements", "mean.nothing", "(float[0] x) => (float y)", "y = ReduceMean<keepdims=0>(x)",
         {"x": []}, _both("open")),
    Case("1 / Relu(-0)", "zero.sign", "(float[2] x) => (float[2] y)", "t = Relu(x) y = Reciprocal(t)", {"x": [-0.0, 1]},
         ORT),
    Case("1 / Min(0, -0) and 1 / Min(-0, 0)", "zero.sign", "(float[2] x, float[2] z) => (float[2] y)",
         "t = Min(x, z) y = Reciprocal(t)",
         {"x": [0.0, -0.0], "z": [-0.0, 0.0]}, _both("open")),
    Case("Tanh", "small", "(float[3] x) => (float[3] y)", "y = Tanh(x)", {"x": [1e-40, 3e-39, 1]}, ORT),
    Case("Gelu with tanh in double", "gelu.constants", "(double[3] x) => (double[3] y)",
         'y = Gelu<approximate="tanh">(x)',
         {"x": [-1.5, 0.3, 1]}, _both("open")),
    Case("DynamicQuantizeLinear of zeros", "quantize.zeros", "(float[3] x) => (uint8[3] y, float s, uint8 z)",
         "y, s, z = DynamicQuantizeLinear(x)", {"x": [0, 0, 0]}, _both("open")),
    Case("Resize by 1.7 with align_corners", "resize.length", "(float[1,1,1,4] x) => (float[1,1,1,6] y)",
         'r = Constant<value_floats=[1.0, 1.0, 1.0, 1.7]>()'
         ' y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x,,r)', {"x": [[[[1, 2, 3, 4]]]]},
         ORT),
    Case("MaxUnpool with output_shape", "unpool.indices", "(float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,5,5] y)",
         "o = Constant<value_ints=[1, 1, 5, 5]>() y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i, o)",
         {"x": [[[[5, 6], [7, 8]]]], "i": [[[[5, 7], [13, 15]]]]}, ORT),
    Case("ConvTranspose with an infinite weight", "padding.infinite",
         "(float[1,1,2] x, float[1,1,2] w) => (float[1,1,4] y)",
         "y = ConvTranspose<strides=[2]>(x, w)", {"x": [[[1, 2]]], "w": [[[INF, 1]]]}, _both("open")),
    Case("Conv with padding and an infinite weight", "", "(float[1,1,2] x, float[1,1,3] w) => (float[1,1,2] y)",
         "y = Conv<pads=[1, 1]>(x, w)",
         {"x": [[[1, 1]]], "w": [[[INF, 1, 1]]]}, _both("right"), why="a pad is 0, and 0 * inf is NaN"),
    Case("Det of one element in double", "", "(double[1,1] x) => (double y)", "y = Det(x)", {"x": [[0.7]]},
         {"reference": "right"},
         why="by way of logarithms; one unit in the last place is within the entry det.one"),
    Case("Add of int32 that overflows", "", "(int32[2] x) => (int32[2] y)", "y = Add(x, x)", {"x": [TOP, 5]},
         _both("right"),
         why="wraps everywhere, as our definition does"),
    Case("double to float16", "", "(double[2] x) => (float16[2] y)", "y = Cast<to=10>(x)",
         {"x": [1 + 2**-11 + 2**-30, 1]}, _both("right"),
         why="rounded twice, by way of float, or once: both are within the interval of a cast"),
    Case("Elu near 0", "", "(float[3] x) => (float[3] y)", "y = Elu(x)", {"x": [-1e-8, -1e-4, 1]}, _both("right"),
         why="by exp(x) - 1 as written: 0 for -1e-8 is within its interval"),
    Case("ReduceL2 of what has too large a square", "", "(float[2] x) => (float y)", "y = ReduceL2<keepdims=0>(x)",
         {"x": [1e30, 1]},
         _both("right"), why="an infinity; the text names no intermediate type"),
    Case("LRN of what has too large a square", "", "(float[1,2,1,1] x) => (float[1,2,1,1] y)", "y = LRN<size=3>(x)",
         {"x": [[[[1e30]], [[1]]]]}, _both("undecided"), why="the text names no intermediate type"),
    Case("GroupNormalization-21 near 100000", "", "(float[1,2,3] x, float[2] s, float[2] b) => (float[1,2,3] y)",
         "y = GroupNormalization<num_groups=1>(x, s, b)",
         {"x": [[[100000, 100001, 100002], [100003, 100004, 100005]]], "s": [1, 1], "b": [0, 0]}, _both("undecided"),
         why="the function body takes E(x**2) - E(x)**2, in which nothing is left; the formula of the text gives 1.34"),
    Case("MeanVarianceNormalization near 10000", "", "(float[1,2,3,1] x) => (float[1,2,3,1] y)",
         "y = MeanVarianceNormalization(x)",
         {"x": [[[[10000], [10001], [10002]], [[10003], [10004], [10005]]]]}, _both("undecided"), why="likewise"),
)  # fmt: skip

RAN = {"onnxruntime": "1.32.", "reference": "1.23."}
"""The versions of the packages that gave this."""
GIVES: Mapping[str, Mapping[str, str]] = {
    "1 / Min(0, -0) and 1 / Min(-0, 0)": {"onnxruntime": "inf, -inf", "reference": "-inf, inf"},
    "1 / Relu(-0)": {"onnxruntime": "-inf, 1"},
    "Add of int32 that overflows": {"onnxruntime": "-2, 10", "reference": "-2, 10"},
    "ArgMax": {"onnxruntime": "0, 2"},
    "Cast to int32": {"onnxruntime": "-2147483648, -2147483648, 3", "reference": "-2147483648, -2147483648, 3"},
    "Cast to uint8": {"onnxruntime": "0, 253, 3", "reference": "0, 253, 3"},
    "Conv with padding and an infinite weight": {"onnxruntime": "nan, inf", "reference": "nan, inf"},
    "Det of one element in double": {"reference": "0.7"},
    "ConvTranspose with an infinite weight": {"onnxruntime": "inf, 1, inf, 2", "reference": "inf, 1, inf, 2"},
    "DynamicQuantizeLinear of zeros": {"onnxruntime": "0, 0, 0", "reference": "0, 0, 0"},
    "Elu near 0": {"onnxruntime": "0, -0.0001000165939, 1", "reference": "-9.999999939e-09, -9.999499889e-05, 1"},
    "Gelu with tanh in double": {
        "onnxruntime": "-0.1004284288, 0.1853709229, 0.8411919858",
        "reference": "-0.1004284288, 0.1853709229, 0.8411919858",
    },
    "GroupNormalization-21 near 100000": {
        "onnxruntime": "-790.569397, -474.3416443, -158.1138916, 158.1138916, 474.3416443, 790.569397",
        "reference": "-790.569397, -474.3416443, -158.1138916, 158.1138916, 474.3416443, 790.569397",
    },
    "Hardmax": {"onnxruntime": "0, 0, 0, 0, 0, 1"},
    "LRN of what has too large a square": {"onnxruntime": "0, 0", "reference": "0, 1"},
    "MaxPool": {"onnxruntime": "2, 2", "reference": "2, 2"},
    "MaxUnpool with output_shape": {
        "onnxruntime": "0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0"
    },
    "MeanVarianceNormalization near 10000": {
        "onnxruntime": "-1.224744797, 0, 1.224744797, -1.224744797, 0, 1.224744797",
        "reference": "-1000000000, 0, 1000000000, -0.3535533845, 0, 0.3535533845",
    },
    "Mod by 0": {"onnxruntime": "an error", "reference": "0, 1"},
    "Div by 0": {"onnxruntime": "an error"},
    "Pow of int32": {"onnxruntime": "-2147483648, 25"},
    "Pow of int64": {"onnxruntime": "-9223372036854775808, 25"},
    "ReduceL2 of what has too large a square": {"onnxruntime": "inf", "reference": "inf"},
    "ReduceMax": {"onnxruntime": "nan, 2"},
    "ReduceMean of no elements": {"onnxruntime": "0", "reference": "nan"},
    "ReduceMin": {"onnxruntime": "nan, 1"},
    "ReduceProd of int32": {"onnxruntime": "2147483647"},
    "ReduceSum of int32": {"onnxruntime": "2147483647"},
    "ReduceSumSquare of int32": {"onnxruntime": "2147483647"},
    "Resize by 1.7 with align_corners": {"onnxruntime": "1, 1.600000024, 2.200000048, 2.799999952, 3.400000095, 4"},
    "ScatterElements with a place twice": {"onnxruntime": "6, 7", "reference": "6, 7"},
    "ScatterND with a place twice": {"onnxruntime": "6, 7", "reference": "6, 7"},
    "ScatterND with max": {"onnxruntime": "1, nan"},
    "Tanh": {"onnxruntime": "9.993920518e-41, 2.999882937e-39, 0.7615941763"},
    "TopK": {"onnxruntime": "7, 9, 8, 6, 5"},
    "double to float16": {"onnxruntime": "1, 1", "reference": "1.000976562, 1"},
}
"""What the backends give for the first output, by case, on x86-64."""
