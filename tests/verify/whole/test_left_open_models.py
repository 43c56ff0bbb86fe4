"""Every entry of the table of what ONNX leaves open, on a model of each operator that it is about: what the entry
allows is open, and a neighbour of it is wrong. specs/semantics.md, "Left open"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from assay.semantics.left_open.entries import ENTRIES
from assay.verify.backends.protocol import subject_of_model
from assay.verify.oracle import oracle_of
from tests.verify.app.test_cli import assay

INF, NAN, TOP = float("inf"), float("nan"), 2**31 - 1
ROW = "float[1,3] x"


@dataclass(frozen=True)
class Case:
    """A node on small inputs: outputs that an entry allows, and outputs near them that are wrong. Results come in the
    order of the model's outputs."""

    entry: str
    operator: str
    signature: str
    body: str
    inputs: Sequence[Any]
    open: Sequence[Any]
    wrong: Sequence[Any]
    opset: int = 22
    more: Sequence[Any] = field(default_factory=tuple)
    """The results after the first."""

    @property
    def model(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : {self.opset}]>\ng {self.signature} {{ {self.body} }}'
        )

    def arrays(self, places: Sequence[Any], given: Sequence[Any]) -> dict[str, Any]:
        kinds = [onnx.helper.tensor_dtype_to_np_dtype(p.type.tensor_type.elem_type) for p in places]
        return {p.name: np.array(a, k) for p, k, a in zip(places, kinds, given, strict=True)}


def two(
    entry: str, operator: str, of: str, x: Any, z: Any, open_: Any, wrong: Any, more: str = "", opset: int = 22
) -> Case:
    n = len(x)
    return Case(
        entry,
        operator,
        f"({of}[{n}] x, {of}[{n}] z) => ({of}[{n}] y)",
        f"y = {operator}{more}(x, z)",
        [x, z],
        open_,
        wrong,
        opset,
    )


def one(entry: str, operator: str, of: str, x: Any, open_: Any, wrong: Any, more: str = "", opset: int = 22) -> Case:
    return Case(
        entry,
        operator,
        f"({of}[{len(x)}] x) => ({of}[{len(x)}] y)",
        f"y = {operator}{more}(x)",
        [x],
        open_,
        wrong,
        opset,
    )


def reduced(entry: str, operator: str, of: str, x: Any, open_: Any, wrong: Any, to: str = "", opset: int = 13) -> Case:
    """A row to one element."""
    axes = "axis=1" if operator.startswith("Arg") else "axes=[1]"
    return Case(
        entry,
        operator,
        f"({of}[1,{len(x)}] x) => ({to or of}[1] y)",
        f"y = {operator}<{axes}, keepdims=0>(x)",
        [[x]],
        open_,
        wrong,
        opset,
    )


def inverse(operator: str, call: str, signature: str, inputs: Sequence[Any], shape: str = "2", opset: int = 22) -> Case:
    """1 / a zero whose sign is open, beside 1."""
    y, other, wrong = (np.reshape(a, [int(d) for d in shape.split(",")]) for a in ([INF, 1], [-INF, 1], [INF, 2]))
    return Case(
        "zero.sign",
        operator,
        f"({signature}) => (float[{shape}] y)",
        f"t = {call} y = Reciprocal(t)",
        inputs,
        [y, other],
        [wrong],
        opset,
    )


SUMS = [[TOP], [-TOP - 1]]
CASES: tuple[Case, ...] = (
    *(two("overflow", o, "int32", [a, 5], [b, 6], [[TOP, c], [-TOP - 1, c]], [[7, c], [TOP, c + 1]])
      for o, a, b, c in (("Add", TOP, 3, 11), ("Sub", TOP, -3, -1), ("Mul", TOP, 3, 30), ("Pow", 7, 40, 15625))),
    *(one("overflow", o, "int32", [-TOP - 1, 5], [[TOP, c]], [[7, c], [TOP, c + 1]])
        for o, c in (("Neg", -5), ("Abs", 5))),
    *(reduced("overflow", o, "int32", [TOP, 5], SUMS, [[7]]) for o in ("ReduceProd", "ReduceSumSquare", "ReduceL1")),
    Case("overflow", "ReduceSum", "(int32[2] x) => (int32 y)", "y = ReduceSum<keepdims=0>(x)", [[TOP, 5]],
        [TOP, -TOP - 1], [7]),
    Case("overflow", "CumSum", "(int32[2] x) => (int32[2] y)", "k = Constant<value_int=0>() y = CumSum(x, k)",
        [[TOP, 5]], [[TOP, TOP]], [[TOP, 7], [7, TOP]]),
    Case("overflow", "CumProd", "(int32[2] x) => (int32[2] y)", "k = Constant<value_int=0>() y = CumProd(x, k)",
        [[TOP, 5]], [[TOP, TOP]], [[TOP, 7], [7, TOP]], 26),
    Case("overflow", "MatMul", "(int32[1,2] x, int32[2,1] z) => (int32[1,1] y)", "y = MatMul(x, z)",
        [[[TOP, 5]], [[2], [1]]], [[[TOP]]], [[[7]]]),
    *(two("nan.two", o, "float", [NAN, 1], [3, NAN], [[3, 1], [NAN, 1]], [[0, 1], [3, 0], [1, 3]])
        for o in ("Max", "Min")),
    Case("nan.two", "Max", "(float[3] a, float[3] b, float[3] c) => (float[3] y)", "y = Max(a, b, c)",
        [[NAN, 5, 1], [3, NAN, NAN], [4, 4, NAN]],
         [[3, 5, 1], [4, 4, NAN]], [[0, 5, 1], [5, 5, 1], [4, 4, 0]]),
    Case("nan.bounds", "Clip", "(float[4] x, float low, float high) => (float[4] y)", "y = Clip(x, low, high)",
        [[NAN, 1, 2.5, 9], 2, 3],
         [[2, 2, 2.5, 3], [3, 2, 2.5, 3]], [[0, 2, 2.5, 3], [2.5, 2, 2.5, 3], [2, 2, NAN, 3]]),
    Case("nan.bounds", "Clip", "(float[2] x, float low, float high) => (float[2] y)", "y = Clip(x, low, high)",
        [[1, 9], NAN, 3],
         [[1, 3], [3, 3], [NAN, 9]], [[2, 3], [0, 3]]),
    one("nan.bounds", "Clip", "float", [NAN, 1], [[0, 1], [6, 1]], [[3, 1], [0, 2]], "<min=0.0, max=6.0>", 6),
    one("nan.bounds", "Relu", "float", [NAN, 1], [[0, 1]], [[3, 1]]),
    one("nan.bounds", "HardSigmoid", "float", [NAN], [[0], [1]], [[0.5], [2]]),
    *(reduced("nan.window", o, "float", [NAN, 1, 2], [[1], [2]], [[1.5], [0]]) for o in ("ReduceMax", "ReduceMin")),
    *(Case("nan.window", o, "(float[1,1,3] x) => (float[1,1,1] y)", f"y = {o}{k}(x)", [[[[NAN, 1, 2]]]],
        [[[[2]]], [[[1]]]], [[[[3]]]])
      for o, k in (("MaxPool", "<kernel_shape=[3]>"), ("GlobalMaxPool", ""))),
    *(Case("nan.scatter", o, f"(float[2] x, int64{s} i, float[2] u) => (float[2] y)",
        f'y = {o}<reduction="max">(x, i, u)', [[NAN, 1], i, [1, NAN]],
           [[1, 1], [NAN, 1]], [[2, 1], [1, 0]])
               for o, s, i in (("ScatterND", "[2,1]", [[0], [1]]), ("ScatterElements", "[2]", [0, 1]))),
    *(Case("scatter.order", o, f"(float[2] x, int64{s} i, float[3] u) => (float[2] y)", f"y = {o}(x, i, u)",
        [[0, 0], i, [5, 6, 7]],
           [[6, 5]], [[6, 12], [5, 7], [6, 0]])
               for o, s, i in (("ScatterND", "[3,1]", [[1], [0], [1]]), ("ScatterElements", "[3]", [1, 0, 1]))),
    Case("scatter.order", "MaxUnpool", "(float[1,1,2] x, int64[1,1,2] i) => (float[1,1,4] y)",
        "y = MaxUnpool<kernel_shape=[2], strides=[2]>(x, i)",
         [[[[5, 6]]], [[[2, 2]]]], [[[[0, 0, 5, 0]]]], [[[[0, 0, 11, 0]]]]),
    *(reduced("nan.place", o, "float", [1, NAN, 2], [[0], [2]], [[3], [-1]], "int64") for o in ("ArgMax", "ArgMin")),
    Case("nan.hardmax", "Hardmax", f"({ROW}) => (float[1,3] y)", "y = Hardmax(x)", [[[1, NAN, 2]]],
        [[[0, 0, 1]], [[0, 0, 0]]], [[[1, 0, 1]]]),
    Case("nan.order", "TopK", f"({ROW}) => (float[1,2] y, int64[1,2] i)",
        "k = Constant<value_ints=[2]>() y, i = TopK(x, k)", [[[1, NAN, 2]]],
         [[[2, 1]]], [[[2, 2]], [[1, 2]]], more=[[[2, 0]]]),
    Case("topk.order", "TopK", f"({ROW}) => (float[1,2] y, int64[1,2] i)",
        "k = Constant<value_ints=[2]>() y, i = TopK<sorted=0>(x, k)", [[[1, 3, 2]]],
         [[[2, 3]]], [[[2, 2]], [[3, 2]], [[2, 1]]], more=[[[2, 1]]]),
    Case("cast.range", "Cast", "(float[3] x) => (uint8[3] y)", "y = Cast<to=2>(x)", [[1e20, NAN, 3]], [[7, 8, 3]],
        [[7, 8, 4]]),
    Case("cast.range", "CastLike", "(float[3] x, uint8 u) => (uint8[3] y)", "y = CastLike(x, u)", [[-3, NAN, 3], 1],
        [[7, 8, 3]], [[7, 8, 4]]),
    *(two("division", o, "int32", [7, -TOP - 1, 7], [0, -1, 2], [[9, 9, c]], [[9, 9, c + 1]])
        for o, c in (("Div", 3), ("Mod", 1))),
    *(two("shift", "BitShift", "uint32", [8, 8, 8], [32, 40, 1], [[8, 7, c], [0, 1, c]], [[8, 8, 8]],
        f'<direction="{way}">') for way, c in (("RIGHT", 4), ("LEFT", 16))),
    *(Case("softmax.infinite", o, f"({ROW}) => (float[1,3] y)", f"y = {o}(x)", [[[INF, 1, -INF]]], [[[NAN, c, c]]],
        [[[NAN, 0.5, c]], [[0, c, c]]])
      for o, c in (("Softmax", 0), ("LogSoftmax", -INF))),
    Case("padding.infinite", "Conv", "(float[1,1,3] x, float[2,1,3] w, float[2] b) => (float[1,2,3] y)",
        "y = Conv<pads=[1, 1]>(x, w, b)",
         [[[[1, 2, 3]]], [[[INF, 1, 1]], [[1, 0, NAN]]], [5, 1]], [[[[8, INF, INF], [NAN, NAN, 3]]]],
         [[[[9, INF, INF], [NAN, NAN, 3]]], [[[8, NAN, INF], [NAN, NAN, 3]]], [[[8, INF, INF], [1, NAN, 3]]],
             [[[8, INF, INF], [NAN, NAN, 4]]]]),
    Case("padding.infinite", "Conv", "(float[1,1,3] x, float[1,1,1] w) => (float[1,1,3] y)", "y = Conv(x, w)",
         [[[[1, 0, -2]]], [[[INF]]]], [[[[INF, 0, -INF]]]], [[[[INF, 1, -INF]]], [[[INF, INF, -INF]]]]),
    Case("padding.infinite", "ConvTranspose", "(float[1,1,2] x, float[1,1,2] w) => (float[1,1,4] y)",
        "y = ConvTranspose<strides=[2]>(x, w)",
         [[[[1, 2]]], [[[INF, 1]]]], [[[[INF, 1, INF, 2]]]],
             [[[[INF, 1, INF, 3]]], [[[-INF, 1, INF, 2]]], [[[INF, INF, INF, 2]]]]),
    Case("padding.infinite", "ConvTranspose", "(float[1,2,2] x, float[2,1,3] w) => (float[1,2,4] y)",
         'y = ConvTranspose<strides=[2], group=2, auto_pad="SAME_UPPER">(x, w)',
             [[[[1, 2], [3, 4]]], [[[1, 2, INF]], [[-INF, 5, 6]]]],
         [[[[1, 2, INF, 4], [-INF, 15, -INF, 20]]]],
             [[[[1, 2, INF, 4], [-INF, 15, -INF, 21]]], [[[1, 2, INF, INF], [-INF, 15, -INF, 20]]]]),
    Case("mean.nothing", "ReduceMean", "(float[0] x) => (float y)", "y = ReduceMean<keepdims=0>(x)", [[]], [0, 7], []),
    *(inverse(o, f"{o}(x, z)", "float[2] x, float[2] z", [[0.0, 1], [-0.0, 1]]) for o in ("Max", "Min")),
    inverse("Relu", "Relu(x)", "float[2] x", [[-0.0, 1]]),
    inverse("Clip", "Clip<min=0.0, max=6.0>(x)", "float[2] x", [[-0.0, 1]], opset=6),
    *(inverse(o, f"{o}(x)", "float[2] x", [[-0.25, 1]]) for o in ("Ceil", "Round")),
    *(inverse(o, f"{o}<axes=[1], keepdims=0>(x)", "float[2,2] x", [[[-0.0, 0.0], [1, 1]]], opset=13)
        for o in ("ReduceMax", "ReduceMin")),
    inverse("MaxPool", "MaxPool<kernel_shape=[2], strides=[2]>(x)", "float[1,1,4] x", [[[[-0.0, 0.0, 1, 1]]]], "1,1,2"),
    inverse("Mod", "Mod<fmod=1>(x, z)", "float[2] x, float[2] z", [[-0.0, 1], [2, 2]]),
    *(one("small", o, "float", [a, b], [[t + 1e-43, u], [t - 1e-43, u]], [[t + 1e-42, u], [-t, u]])
      for o, a, b, t, u in (("Tanh", 1.2e-38, 0, 1.2e-38, 0), ("Sin", 1.2e-38, 0, 1.2e-38, 0),
          ("Exp", -87.5, 0, float(np.exp(-87.5)), 1))),
    one("small", "Exp", "float", [-200, -INF], [[1e-43, 0]], [[1e-42, 0], [-1e-43, 0], [0, 1e-43]]),
    Case("det.one", "Det", "(float[1,1] x) => (float y)", "y = Det(x)", [[[0.7]]], [0.7 + 5e-7], [0.7 + 5e-6]),
    one("gelu.constants", "Gelu", "double", [-1.5], [[-0.10042842877952132]], [[-0.1004]], '<approximate="tanh">'),
    Case("resize.length", "Resize", "(float[1,1,4] x) => (float[1,1,6] y)",
         (
             'r = Constant<value_floats=[1.0, 1.0, 1.7]>() y = Resize<mode="linear", '
             'coordinate_transformation_mode="align_corners">(x,,r)'
         ),
         [[[[1, 2, 3, 4]]]], [[[[1, 1.6, 2.2, 2.8, 3.4, 4]]]], [[[[1, 1.7, 2.2, 2.8, 3.4, 4]]]]),
    Case("resize.length", "Resize", "(float[1,1,4] x) => (float[1,1,2] y)",
         'r = Constant<value_floats=[1.0, 1.0, 0.6]>() y = Resize<mode="linear">(x,,r)',
         [[[[1, 2, 3, 4]]]], [[[[1.5, 3.5]]]], [[[[1.5, 3.6]]], [[[1.4, 3.0]]]]),
    Case("resize.length", "Resize", "(float[1,1,4] x) => (float[1,1,3] y)",
         (
             'r = Constant<value_floats=[0.8]>() y = Resize<mode="cubic", axes=[2], '
             'coordinate_transformation_mode="align_corners">(x,,r)'
         ),
         [[[[1, 2, 3, 4]]]], [[[[1, 2.5, 4]]]], [[[[1, 2.5, 4.1]]]]),
    Case("resize.length", "Resize", "(float[1,1,2] x) => (float[1,1,3] y)",
         (
             'r = Constant<value_floats=[1.0, 1.0, 1.6]>() y = Resize<mode="cubic", exclude_outside=1, '
             'coordinate_transformation_mode="asymmetric">(x,,r)'
         ),
         [[[[0, 1]]]], [[[[0, 0.6825397, 1.1621623]]]], [[[[0, 0.6825397, 1.16]]]]),
    *(Case("mod.steps", "Mod", "(float[2] x, float[2] z) => (float[2] y)", f"y = Mod{fmod}(x, z)",
           [[4300, 5], [2.1, 3]], [[1.300293, 2]],
           [[1.302, 2], [1.300293, 2.001], [-0.7998, 2], [1.300293, -1]], opset=28)
      for fmod in ("", "<fmod=1>")),
    one("zero.made", "ThresholdedRelu", "float", [-1, 2], [[-0.0, 2]], [[-0.0, 3], [-1e-30, 2]]),
    one("zero.made", "Shrink", "float", [-0.25, 2], [[-0.0, 2]], [[-0.0, 3], [-1e-30, 2]]),
    Case("unpool.indices", "MaxUnpool", "(float[1,1,1,2] x, int64[1,1,1,2] i) => (float[1,1,3,5] y)",
         "o = Constant<value_ints=[1, 1, 3, 5]>() y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i, o)",
             [[[[[5, 6]]]], [[[[5, 7]]]]],
         [[[[[0] * 5, [5, 0, 6, 0, 0], [0] * 5]]]], [[[[[0] * 5, [5, 0, 7, 0, 0], [0] * 5]]]]),
    *(Case("loss.mean", o, "(float[2,2] x, int64[2] t) => (float y)", f"y = {o}<ignore_index=0>(x, t)",
           [[[-1, -2], [7, 7]], [0, 1]], [right], [right + 0.01])
      for o, right in (("NegativeLogLikelihoodLoss", -3.5), ("SoftmaxCrossEntropyLoss", np.log(2) / 2))),
    Case("quantize.zeros", "DynamicQuantizeLinear", "(float[2] x) => (uint8[2] y, float s, uint8 z)",
        "y, s, z = DynamicQuantizeLinear(x)", [[0, 0]],
         [[7, 7]], [], more=[1.0, 7]),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.entry}-{c.operator}")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_an_entry_allows_is_open_and_its_neighbour_is_wrong(case: Case) -> None:
    model = case.model
    inputs = case.arrays(model.graph.input, case.inputs)
    oracle = oracle_of(subject_of_model(model))
    verdicts = [
        oracle.judge(inputs, case.arrays(model.graph.output, [given, *case.more]))
        for given in (*case.open, *case.wrong)
    ]
    allowed, wrong = verdicts[: len(case.open)], verdicts[len(case.open) :]
    assert all(v.outcome == "wrong" for v in wrong), list(map(str, verdicts))
    if case.entry == "zero.sign":  # one of two is ours, where ours has a sign
        assert "wrong" not in {v.outcome for v in allowed} and {"open", "undecided"} & {v.outcome for v in allowed}, (
            list(map(str, verdicts))
        )
        return
    assert all(v.outcome == "open" and f"{case.entry}: " in v.detail for v in allowed), list(map(str, verdicts))


def test_every_operator_of_every_entry_has_a_case() -> None:
    assert {(e.name, o) for e in ENTRIES for o in e.standard} == {(c.entry, c.operator) for c in CASES}


def test_a_nan_in_a_part_of_a_formula_comes_out() -> None:
    """x * max(0, min(1, x / 6 + 1 / 2)) of NaN is NaN whatever the bounds make of theirs."""
    for operator in ("HardSwish", "Softplus", "Mish"):
        case = one("", operator, "float", [NAN], [], [])
        oracle = oracle_of(subject_of_model(case.model))
        assert [oracle.judge({"x": np.float32([NAN])}, {"y": np.float32([y])}).outcome for y in (NAN, 0, 1)] == [
            "right",
            "wrong",
            "wrong",
        ]


def test_a_later_version_says_what_a_far_shift_gives() -> None:
    case = two("shift", "BitShift", "uint32", [8], [32], [], [], '<direction="RIGHT">', 28)
    oracle, inputs = oracle_of(subject_of_model(case.model)), case.arrays(case.model.graph.input, case.inputs)
    assert [oracle.judge(inputs, {"y": np.uint32([y])}).outcome for y in (0, 8)] == ["right", "wrong"]


def test_a_run_that_decides_by_an_open_element_is_unpredictable() -> None:
    """A sum that wraps is below 0, one that ends at the greatest number is not. The sum itself is judged."""
    body = (
        "s = ReduceSum<keepdims=0>(x) c = Less(s, z) y = If(c) <then_branch = a () => (int32 t) { t = Neg(z) },"
        " else_branch = b () => (int32 e) { e = Add(z, z) }>"
    )
    case = Case("", "", "(int32[2] x, int32 z) => (int32 s, int32 y)", body, [[TOP, 5], 1], [], [])
    oracle, inputs = oracle_of(subject_of_model(case.model)), case.arrays(case.model.graph.input, case.inputs)
    said = [
        oracle.judge(inputs, case.arrays(case.model.graph.output, given)).outcome
        for given in ([5 - TOP - 2, -1], [TOP, 2], [7, 2])
    ]
    assert said == ["right", "unpredictable", "wrong"]


def test_the_command_says_open_and_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = 'y = BitShift<direction="RIGHT">(x, z) m = Max(a, b, c) t = Tanh(s) p = ConvTranspose<strides=[2]>(k, w)'
    signature = (
        "(uint32 x, uint32 z, float a, float b, float c, float s, float[1,1,2] k, float[1,1,2] w) => (uint32 y, float"
        " m, float t, float[1,1,4] p)"
    )
    case = Case("", "", signature, body, [8, 32, NAN, 3, 4, 1.2e-38, [[[1, 2]]], [[[INF, 1]]]], [], [])
    put_back = [[[INF, 1, INF, 2]]]
    onnx.save(case.model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **case.arrays(case.model.graph.input, case.inputs))
    for given, code in (([8, 3, 1.20001e-38, put_back], 0), ([8, 0, 1.20001e-38, put_back], 1)):
        np.savez(tmp_path / "out.npz", **case.arrays(case.model.graph.output, given))
        assert (
            assay(
                monkeypatch,
                "check",
                tmp_path / "m.onnx",
                "--inputs",
                tmp_path / "in.npz",
                "--expected",
                tmp_path / "out.npz",
                "--stop-after",
                "import",
            )
            == code
        )
        said = " ".join(capsys.readouterr().out.split())
        assert (
            all(f"{entry}: " in said for entry in ("shift", "nan.two", "small", "padding.infinite"))
            if not code
            else "output m element () is 0.0" in said
        )
