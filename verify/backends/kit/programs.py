"""Small programs for backends, in ONNX's text (specs/verify.md, "Backends").

Each shows something that backends get wrong: a default, a negative axis, an empty tensor, an operand that is used
twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import parser

HEAD = '<ir_version: 9, opset_import: ["" : 17]> g '

PROGRAMS: Mapping[str, str] = {
    "elementwise": "(float[2,3] x, float[2,3] y) => (float[2,3] z) { a = Add(x, y) b = Mul(a, x) z = Sub(b, y) }",
    "broadcast": "(float[2,1,3] x, float[4,1] y) => (float[2,4,3] z) { z = Add(x, y) }",
    "relu": "(float[5] x) => (float[5] y) { y = Relu(x) }",
    "clip": "(float[7] x) => (float[7] y) <float low = {-0.5}> { y = Clip(x, low) }",
    "tanh and sigmoid": "(float[9] x) => (float[9] y) { a = Tanh(x) b = Sigmoid(x) y = Mul(a, b) }",
    "gelu": """(float[9] x) => (float[9] y) <float r = {1.4142135}, float one = {1.0}, float half = {0.5}> {
        a = Div(x, r) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }""",
    "matrix product": "(float[3,5] x, float[5,2] w) => (float[3,2] y) { y = MatMul(x, w) }",
    "batched product": "(float[2,3,4] x, float[4,5] w) => (float[2,3,5] y) { y = MatMul(x, w) }",
    "gemm": """(float[5,3] x) => (float[3,2] y)
        <float[2,5] w = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5}, float[2] b = {0.5, -0.5}> {
        y = Gemm <transA = 1, transB = 1, alpha = 2.0, beta = 3.0> (x, w, b) }""",
    "convolution": """(float[1,2,5,5] x, float[4,1,3,3] w, float[4] b) => (float[1,4,3,2] y) {
        y = Conv <group = 2, strides = [2, 2], pads = [1, 0, 1, 0]> (x, w, b) }""",
    "max pool": "(float[1,1,5,5] x) => (float[1,1,3,3] y) { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2],"
    " ceil_mode = 1> (x) }",
    "average pool": "(float[1,1,4,4] x) => (float[1,1,5,5] y) { y = AveragePool <kernel_shape = [2, 2],"
    " pads = [1, 1, 1, 1]> (x) }",
    "softmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }",
    "layer normalization": """(float[2,3,4] x, float[4] s, float[4] b) => (float[2,3,4] y) {
        y = LayerNormalization <axis = -1, epsilon = 0.01> (x, s, b) }""",
    "mean": "(float[2,3,4] x) => (float[2,4] y) { y = ReduceMean <axes = [-2], keepdims = 0> (x) }",
    "sum of squares": "(float[3,4] x) => (float[1,1] y) { a = Mul(x, x) y = ReduceSum(a) }",
    "greatest": "(float[3,4] x) => (int64[3,1] i, float[3,1] m) { i = ArgMax <axis = 1> (x) m = ReduceMax <axes = [1]>"
    " (x) }",
    "reshape": "(float[2,6] x) => (float[3,4] y) <int64[2] s = {3, -1}> { y = Reshape(x, s) }",
    "transpose": "(float[2,3,4] x) => (float[4,2,3] y) { y = Transpose <perm = [2, 0, 1]> (x) }",
    "slice": """(float[6,5] x) => (float[3,2] y)
        <int64[2] b = {-1, 1}, int64[2] e = {-9999, 4}, int64[2] a = {0, 1}, int64[2] s = {-2, 2}> {
        y = Slice(x, b, e, a, s) }""",
    "concatenation": "(float[2,3] x, float[2,2] y) => (float[2,8] z) { z = Concat <axis = -1> (x, y, x) }",
    "split": "(float[2,5] x) => (float[2,3] y, float[2,2] z) <int64[2] s = {3, 2}> { y, z = Split <axis = 1> (x, s) }",
    "gather": "(float[4,3] x) => (float[2,2,3] y) <int64[2,2] i = {0, -1, 3, 0}> { y = Gather(x, i) }",
    "choice": "(float[3] x, float[3] y) => (float[3] z) { c = Less(x, y) z = Where(c, x, y) }",
    "cast": "(float[5] x) => (int32[5] y) <float low = {-9.0}, float high = {9.0}> { a = Clip(x, low, high)"
    " y = Cast <to = 6> (a) }",
    "whole numbers": "(int32[4] x, int32[4] y) => (int32[4] z) { a = Mul(x, y) b = Sub(a, x) z = Neg(b) }",
    "wrapping": "(int32[3] x) => (int32[3] y) <int32 k = {2147483647}> { y = Add(x, k) }",
    "truths": "(bool[4] x, bool[4] y) => (bool[4] z) { a = Not(x) b = And(a, y) z = Xor(b, x) }",
    "scalars": "(float x, float y) => (float z) { a = Mul(x, y) z = Add(a, x) }",
    "empty": """(float[0,3] x, float[2,3] y) => (float[2,3] z, float[1,3] s) <int64[1] a = {0}> {
        z = Concat <axis = 0> (x, y) s = ReduceSum <keepdims = 1> (x, a) }""",
    "no axes left": "(float[2,3] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }",
    "an operand twice": "(float[3] x) => (float[3] y) { y = Sub(x, x) }",
    "an output that is an input": "(float[3] x) => (float[3] y) { y = Identity(x) }",
    "an input that nothing reads": "(float[3] x, float[2] unused) => (float[3] y) { y = Neg(x) }",
    "a constant output": "(float[3] x) => (float[3] y, float[2] c) { y = Neg(x) c = Constant <value = float[2] {1, 2}>"
    " () }",
    "an output that is read": "(float[3] x) => (float[3] y, float[3] z) { y = Neg(x) z = Exp(y) }",
    "symbolic sizes": "(float[N,3] x, float[3,M] w) => (float[N,M] y) { a = MatMul(x, w) y = Relu(a) }",
    "branches": """(float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { a = Neg(x) },
                    else_branch = e () => (float[3] b) { b = Exp(x) }>
    }""",
}
"""Programs by name; those that know their sizes have distinct ones."""


def program(text: str) -> onnx.ModelProto:
    """The model of a text, from its inputs on."""
    return parser.parse_model(HEAD + text)
