"""Small ONNX models, one to four operators each: what they are, and what `check` says of them.

A line begins a model: its name, and 0 or the label of the message with which a stage refuses it. What follows is ONNX's
own text, of operator set 18; functions stand behind the graph.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx
import onnx.parser

from tests.verify.whole.small_text_programs import Small


@dataclass(frozen=True)
class SmallModel(Small):
    """A model, as text."""

    def model(self) -> onnx.ModelProto:
        opsets = '"" : 18, "own" : 1'
        head = f"<ir_version: 10, opset_import: [{opsets}]>\n"
        text = re.sub(r"^function ", f'<domain: "own", opset_import: [{opsets}]> ', self.text, flags=re.MULTILINE)
        return onnx.parser.parse_model(head + "g " + text)


def programs() -> list[SmallModel]:
    """The table."""
    found: list[SmallModel] = []
    for part in re.split(r"^== ", TABLE, flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        name, says, *options = (x.strip() for x in head.split("|"))
        found.append(SmallModel(name, says, text, tuple(w for o in options for w in o.split())))
    return found


TABLE = """
== one operator | 0
(float[2] x) => (float[2] y) { y = Relu(x) }
== an input is an output | 0
(float[2] x) => (float[2] y) { y = Identity(x) }
== a scalar for an operator whose body has a constant of shape (1) | 0
(float x) => (float y) { y = Celu(x) }
== one value, two outputs | 0
(float[2] x) => (float[2] y, float[2] z) { y = Exp(x) z = Identity(y) }
== a constant output | 0
(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Identity(w) }
== an output that is read too | 0
(float[2] x) => (float[2] y, float[2] z) { y = Exp(x) z = Add(y, x) }
== If | 0
(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Exp(x) }, else_branch = e \
() => (float[2] b) { b = Neg(x) }> }
== If whose branch is an outer value | 0
(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Identity(x) }, else_branch \
= e () => (float[2] b) { b = Neg(x) }> }
== If of two results | 0
(bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If (c) <then_branch = t () => (float[2] a, float[2] b) { a = \
Exp(x) b = Neg(x) }, else_branch = e () => (float[2] d, float[2] f) { d = Neg(x) f = Identity(d) }> }
== If in If | 0
(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = If (c) <then_branch = tt \
() => (float[2] p) { p = Exp(x) }, else_branch = ee () => (float[2] q) { q = Abs(x) }> }, else_branch = e () => \
(float[2] b) { b = Neg(x) }> }
== If whose branches differ in size | 0
(bool c, float[4] x) => (float[n] y) { h = Exp(x) y = If (c) <then_branch = t () => (float[4] a) { a = Neg(h) }, \
else_branch = e () => (float[2] b) <int64[1] s = {0}, int64[1] f = {2}> { b = Slice(h, s, f) }> }
== If whose branches differ in rank | onnx.C14
(bool c, float[1, 2] x) => (float y) { y = If (c) <then_branch = t () => (float[1, 2] a) { a = Neg(x) }, else_branch = \
e () => (float[2] b) { b = Squeeze(x) }> }
== If with an inner constant | 0
(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) <float[2] w = {1, 2}> { a = \
Add(x, w) }, else_branch = e () => (float[2] b) { b = Constant <value_floats = [3.0, 4.0]> () }> }
== If by a constant | 0
(float[2] x) => (float[2] y) <bool c = {1}> { y = If (c) <then_branch = t () => (float[2] a) { a = Exp(x) }, \
else_branch = e () => (float[3] b) { b = Constant <value_floats = [1.0, 2.0, 3.0]> () }> }
== Loop of three rounds | 0
(float[2] x) => (float[2] y) <int64 n = {3}, bool t = {1}> { y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { d = Identity(c) w = Add(v, x) }> }
== Loop of a number that is given | 0
(int64 n, float[2] x) => (float[2] y) { y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] \
w) { d = Identity(c) w = Add(v, x) }> }
== Loop of many rounds | 0
(float[2] x) => (float[2] y) <int64 n = {40}, bool t = {1}> { y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { d = Identity(c) w = Add(v, x) }> }
== Loop while something holds | 0
(float[2] x) => (float[2] y) <bool t = {1}, float s = {9}> { y = Loop ( , t, x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { w = Exp(v) m = ReduceMax <keepdims = 0> (w) d = Less(m, s) }> }
== Loop of no round | 0
(float[2] x) => (float[2] y) <int64 n = {0}, bool t = {1}> { y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { d = Identity(c) w = Add(v, x) }> }
== Loop that scans | 0
(float[2] x) => (float[2] y, float[3, 2] z) <int64 n = {3}, bool t = {1}> { y, z = Loop (n, t, x) <body = b (int64 i, \
bool c, float[2] v) => (bool d, float[2] w, float[2] s) { d = Identity(c) w = Add(v, x) s = Neg(w) }> }
== Loop that scans, of a number that is given | 0
(int64 n, float[2] x) => (float[2] y, float[k, 2] z) { y, z = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => \
(bool d, float[2] w, float[2] s) { d = Identity(c) w = Add(v, x) s = Neg(w) }> }
== Loop in Loop | 0
(float[2] x) => (float[2] y) <int64 n = {2}, bool t = {1}> { y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { d = Identity(c) w = Loop (n, t, v) <body = bb (int64 j, bool cc, float[2] vv) => (bool \
dd, float[2] ww) { dd = Identity(cc) ww = Add(vv, x) }> }> }
== Loop in Loop, of numbers that are given | 0
(int64 n, float[2] x) => (float[2] y) { y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] \
w) { d = Identity(c) w = Loop (i, , v) <body = bb (int64 j, bool cc, float[2] vv) => (bool dd, float[2] ww) { dd = \
Identity(cc) ww = Add(vv, x) }> }> }
== Loop in If | 0
(bool c, int64 n, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Loop (n, , x) \
<body = b (int64 i, bool k, float[2] v) => (bool d, float[2] w) { d = Identity(k) w = Add(v, x) }> }, else_branch = e \
() => (float[2] b) { b = Neg(x) }> }
== If in Loop | 0
(bool c, int64 n, float[2] x) => (float[2] y) { y = Loop (n, , x) <body = b (int64 i, bool k, float[2] v) => (bool d, \
float[2] w) { d = Identity(k) w = If (c) <then_branch = t () => (float[2] p) { p = Exp(v) }, else_branch = e () => \
(float[2] q) { q = Neg(v) }> }> }
== two Loops, one after another | 0
(int64 n, float[2] x) => (float[2] y) { z = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] \
w) { d = Identity(c) w = Add(v, x) }> y = Loop (n, , z) <body = f (int64 i, bool c, float[2] v) => (bool d, float[2] \
w) { d = Identity(c) w = Exp(v) }> }
== Loop whose body captures what is computed | 0
(int64 n, float[2] x) => (float[2] y, float[2] k) { k = Exp(x) y = Loop (n, , x) <body = b (int64 i, bool c, float[2] \
v) => (bool d, float[2] w) { d = Identity(c) w = Add(v, k) }> }
== Loop that carries a sequence | vm liveness.C2
(float[2] x) => (float[2] y) <int64 n = {3}, bool t = {1}, int64 one = {1}> { e = SequenceEmpty() s = Loop (n, t, e) \
<body = b (int64 i, bool c, seq(float[2]) v) => (bool d, seq(float[2]) w) { d = Identity(c) w = SequenceInsert(v, x) \
}> y = SequenceAt(s, one) }
== Scan | 0
(float[3, 2] x, float[2] z) => (float[2] y, float[3, 2] s) { y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, \
float[2] r) => (float[2] w, float[2] o) { w = Add(v, r) o = Neg(w) }> (z, x) }
== Scan of twenty | 0
(float[20, 2] x, float[2] z) => (float[2] y, float[20, 2] s) { y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, \
float[2] r) => (float[2] w, float[2] o) { w = Add(v, r) o = Neg(w) }> (z, x) }
== Scan of nothing | 0
(float[0, 2] x, float[2] z) => (float[2] y, float[0, 2] s) { y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, \
float[2] r) => (float[2] w, float[2] o) { w = Add(v, r) o = Neg(w) }> (z, x) }
== LSTM of four | 0
(float[4, 1, 2] x, float[1, 12, 2] W, float[1, 12, 3] R) => (float[4, 1, 1, 3] y) { y = LSTM <hidden_size = 3> (x, W, \
R) }
== LSTM of twenty | 0
(float[20, 1, 2] x, float[1, 12, 2] W, float[1, 12, 3] R) => (float[20, 1, 1, 3] y) { y = LSTM <hidden_size = 3> (x, \
W, R) }
== LSTM of twenty, both ways | 0
(float[20, 1, 2] x, float[2, 12, 2] W, float[2, 12, 3] R) => (float[20, 2, 1, 3] y, float[2, 1, 3] h) { y, h = LSTM \
<hidden_size = 3, direction = "bidirectional"> (x, W, R) }
== GRU of twenty | 0
(float[20, 1, 2] x, float[1, 9, 2] W, float[1, 9, 3] R) => (float[20, 1, 1, 3] y) { y = GRU <hidden_size = 3> (x, W, \
R) }
== RNN of twenty | 0
(float[20, 1, 2] x, float[1, 3, 2] W, float[1, 3, 3] R) => (float[1, 1, 3] h) { , h = RNN <hidden_size = 3> (x, W, R) }
== RNN of twenty, backwards | 0
(float[20, 1, 2] x, float[1, 3, 2] W, float[1, 3, 3] R) => (float[20, 1, 1, 3] y) { y = RNN <hidden_size = 3, \
direction = "reverse"> (x, W, R) }
== RNN of one number | 0
(float[1, 1, 1] x, float[1, 1, 1] W, float[1, 1, 1] R) => (float[1, 1, 1, 1] y) { y = RNN <hidden_size = 1> (x, W, R) }
== ScatterElements into what is computed | 0
(float[3] x, int64[3] i, float[3] u) => (float[3] y) { a = Relu(x) b = Neg(u) c = ScatterElements(a, i, b) y = Exp(c) }
== ScatterND into what is computed | 0
(float[3] x, int64[3, 1] i, float[3] u) => (float[3] y) { a = Relu(x) b = Neg(u) c = ScatterND <reduction = "add"> (a, \
i, b) y = Exp(c) }
== Gather from what is computed | 0
(float[3] x, int64[3] i) => (float[3] y) { a = Relu(x) c = Gather(a, i) y = Exp(c) }
== RNN of one | 0
(float[1, 1, 2] x, float[1, 3, 2] W, float[1, 3, 3] R) => (float[1, 1, 1, 3] y) { y = RNN <hidden_size = 3> (x, W, R) }
== RNN of lengths | 0
(float[4, 2, 2] x, float[1, 3, 2] W, float[1, 3, 3] R) => (float[4, 1, 2, 3] y) <float[6] b = {0, 0, 0, 0, 0, 0}, \
int32[2] l = {2, 4}> { s = Constant <value_ints = [1, 6]> () k = Reshape(b, s) y = RNN <hidden_size = 3> (x, W, R, k, \
l) }
== a sequence inside | 0
(float[2] x) => (float[2] y) <int64 i = {1}> { n = Neg(x) s = SequenceConstruct(x, n) y = SequenceAt(s, i) }
== a sequence at a place that is given | vm liveness.C2
(float[2] x, int64 i) => (float[2] y) { n = Neg(x) s = SequenceConstruct(x, n) y = SequenceAt(s, i) }
== a sequence made one tensor | 0
(float[2] x) => (float[4] y) { n = Neg(x) s = SequenceConstruct(x, n) y = ConcatFromSequence <axis = 0> (s) }
== the length of a sequence | 0
(float[2] x) => (int64 y) { s = SequenceConstruct(x, x) y = SequenceLength(s) }
== a sequence of an If | vm liveness.C2
(bool c, float[2] x) => (float[2] y) <int64 i = {0}> { n = Neg(x) s = If (c) <then_branch = t () => (seq(float[2]) a) \
{ a = SequenceConstruct(x, n) }, else_branch = e () => (seq(float[2]) b) { b = SequenceConstruct(n) }> y = \
SequenceAt(s, i) }
== a sequence goes out | 0
(float[2] x) => (seq(float[2]) y) { n = Neg(x) y = SequenceConstruct(x, n) }
== a sequence comes in | input.C6
(seq(float[2]) s, int64 i) => (float[2] y) { y = SequenceAt(s, i) }
== a split as a sequence | 0
(float[4] x) => (float[2] y) <int64 i = {1}, int64 two = {2}> { s = SplitToSequence <axis = 0> (x, two) y = \
SequenceAt(s, i) }
== a sequence map | vm liveness.C2
(float[2] x) => (float[2] y) <int64 i = {1}> { n = Neg(x) s = SequenceConstruct(x, n) m = SequenceMap (s) <body = b \
(float[2] v) => (float[2] w) { w = Exp(v) }> y = SequenceAt(m, i) }
== an optional value inside | 0
(float[2] x) => (float[2] y) { o = Optional(x) y = OptionalGetElement(o) }
== whether an optional value holds something | 0
(float[2] x) => (bool y) { o = Optional(x) y = OptionalHasElement(o) }
== an optional value goes out | 0
(float[2] x) => (optional(float[2]) y) { y = Optional(x) }
== an optional value comes in | input.C6
(optional(float[2]) o) => (bool y) { y = OptionalHasElement(o) }
== a function | 0
(float[2] x) => (float[2] y) { y = own.twice(x) }
function twice (x) => (y) { y = Add(x, x) }
== a function twice | 0
(float[2] x) => (float[2] y) { z = own.twice(x) y = own.twice(z) }
function twice (x) => (y) { y = Add(x, x) }
== a function of a function | 0
(float[2] x) => (float[2] y) { y = own.four(x) }
function four (x) => (y) { z = own.twice(x) y = own.twice(z) }
function twice (x) => (y) { y = Add(x, x) }
== a function with an attribute | 0
(float[2, 3] x) => (float[3, 2] y) { y = own.turned <order = [1, 0]> (x) }
function turned <order> (x) => (y) { y = Transpose <perm : ints = @order> (x) }
== a function with an If | 0
(bool c, float[2] x) => (float[2] y) { y = own.f(c, x) }
function f (c, x) => (y) { y = If (c) <then_branch = t () => (float[2] a) { a = Exp(x) }, else_branch = e () => \
(float[2] b) { b = Neg(x) }> }
== a function with a Loop | 0
(int64 n, float[2] x) => (float[2] y) { y = own.f(n, x) }
function f (n, x) => (y) { y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = \
Identity(c) w = Add(v, x) }> }
== a function of which an output is left out | 0
(float[2] x) => (float[2] y) { y = own.two(x) }
function two (x) => (y, z) { y = Add(x, x) z = Neg(x) }
== a function called in a branch | 0
(bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = own.twice(x) }, \
else_branch = e () => (float[2] b) { b = Neg(x) }> }
function twice (x) => (y) { y = Add(x, x) }
== a size of zero | 0
(float[0, 3] x) => (float[0, 3] y) { y = Exp(x) }
== a mean over nothing | 0
(float[0, 3] x) => (float[3] y) { a = Constant <value_ints = [1]> () z = Transpose(x) y = ReduceSum <keepdims = 0> (z, \
a) }
== a product over nothing | 0
(float[2, 0] x, float[0, 3] w) => (float[2, 3] y) { y = MatMul(x, w) }
== a concatenation with nothing | 0
(float[0, 3] x, float[2, 3] w) => (float[2, 3] y) { y = Concat <axis = 0> (x, w) }
== sizes of one | 0
(float[1, 1] x, float[2, 3] w) => (float[2, 3] y) { y = Mul(x, w) }
== scalars | 0
(float x, float w) => (float y) { y = Sub(x, w) }
== a symbolic size | 0 | --dim n=3
(float[n, 2] x) => (float[n, 2] y) { y = Softmax(x) }
== a symbolic size that is read | 0 | --dim n=3
(float[n, 2] x) => (float[m] y) { s = Shape(x) y = Cast <to = 1> (s) }
== a symbolic size without a number | 0
(float[n, 2] x) => (float[n, 2] y) { y = Softmax(x) }
== a size that only the run knows | 0
(float[3] x) => (int64[1, k] y) { z = Relu(x) y = NonZero(z) }
== a size without a name | 0 | --dim x_0=3
(float[?, 2] x) => (float[?, 2] y) { y = Exp(x) }
== an output left out | 0
(float[3] x) => (float[2] y) <int64[1] k = {2}> { y = TopK(x, k) }
== a name for each of two outputs | 0
(float[3] x) => (float[2] y, int64[2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }
== a Where | 0
(bool[2] c, float[2] x) => (float[2] y) { n = Neg(x) y = Where(c, x, n) }
== half precision | 0
(float16[3] x) => (float16[3] y) { y = Add(x, x) }
== bfloat16 | 0
(bfloat16[3] x) => (bfloat16[3] y) { y = Add(x, x) }
== strings | 0
(string[2] x) => (string[2] y) { y = Identity(x) }
== random numbers | onnx.C14
(float[2] x) => (float[2] y) { r = RandomNormalLike(x) y = Add(x, r) }
"""
