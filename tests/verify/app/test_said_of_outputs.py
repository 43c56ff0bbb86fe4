"""What `assay check --expected` says of outputs: no more than is known, no less, and nothing of a file that does not
fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models import model
from tests.verify.app.test_cli import assay

F, L = np.float32, np.int64
TOP = 2**31 - 1


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The exit code and what is said of outputs of a model, or of a module as text."""

    def run(
        program: onnx.ModelProto | str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], *options: str
    ) -> tuple[int, str]:
        path = tmp_path / ("m.py" if isinstance(program, str) else "m.onnx")
        if isinstance(program, str):
            path.write_text(program)
        else:
            onnx.save(program, path)
        np.savez(tmp_path / "in.npz", **inputs)
        np.savez(tmp_path / "out.npz", **outputs)
        capsys.readouterr()
        code = assay(
            monkeypatch,
            "check",
            path,
            "--inputs",
            tmp_path / "in.npz",
            "--expected",
            tmp_path / "out.npz",
            "--json",
            "--stop-after",
            "import",  # what is said of outputs hangs on the model alone
            *options,
        )
        answer = json.loads(capsys.readouterr().out)
        if "error" in answer:
            return code, answer["error"]
        line = answer["lines"][-1]
        return code, f"{line['outcome']}: {line['did']}: {line['detail']}"

    return run


# --- the sign of a zero -------------------------------------------------------------------------------------------

ZEROS = np.array([-0.0, 1, 0.0], F)
SIGNS = """
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        z = R.add(x, x)
        if c:
            y = x
        else:
            y = z
        return (x, R.reshape(x, (3,)), y, R.concat((z, x), axis=0), z, R.permute_dims(R.nn.relu(x)))
"""


@pytest.mark.parametrize(("turned", "free"), [(0, False), (1, False), (2, False), (3, False), (4, True), (5, True)])
def test_the_sign_of_a_zero_that_is_only_moved(turned: int, free: bool, said: Any) -> None:
    """It is the input's, by whatever way it comes: an identity, a reshape to the same shape, a branch, beside a sum. Of
    a sum or a maximum it is free, moved or not, and the line says that a bit differs."""
    double, relu = ZEROS + ZEROS, np.maximum(ZEROS, F(0))
    right = [ZEROS, ZEROS, ZEROS, np.concatenate([double, ZEROS]), double, relu]
    right[turned] = right[turned].copy()
    right[turned][-1] *= F(-1)
    code, text = said(SIGNS, {"c": np.array(True), "x": ZEROS}, {f"output_{i}": a for i, a in enumerate(right)})
    if free:
        assert code == 0 and "but for the sign of" in text, text
    else:
        assert code == 1 and f"output_{turned} element ({len(right[turned]) - 1},) is -0.0, allowed is 0.0" in text, (
            text
        )


def test_an_identity_of_onnx_keeps_signs_and_bits_are_counted(said: Any) -> None:
    of = {"y": (F, [3])}
    identity = model([helper.make_node("Identity", ["x"], ["y"])], {"x": (F, [3])}, of)
    nan = np.array([0x7FC00000, 0, 0x80000000], np.uint32).view(F)
    other = np.array([0xFFC00123, 0, 0x80000000], np.uint32).view(F)
    assert said(identity, {"x": nan}, {"y": nan}) == (0, "right: 1 output: 1 output bit for bit")
    assert said(identity, {"x": nan}, {"y": other}) == (
        0,
        "right: 1 output: 1 output bit for bit, but for the bits of 1 NaN",
    )
    assert said(identity, {"x": nan}, {"y": np.abs(nan)})[0] == 1


# --- what is open, and how much of it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "given", "code"),
    [
        ("ScatterND", [0, 5, 7], 0),
        ("ScatterElements", [0, 5, 7], 0),
        ("ScatterND", [0, 7, 7], 1),
        ("ScatterElements", [0, 5, 8], 1),
    ],
)
def test_updates_that_meet_in_a_place(op: str, given: list[float], code: int, said: Any) -> None:
    """5 and 6 meet in the second place, and any order is right; another place's number is not, nor another number
    beside it."""
    places = np.array([1, -2, 2], L).reshape((3, 1) if op == "ScatterND" else (3,))
    of = {"x": (F, [3]), "i": (L, list(places.shape)), "u": (F, [3])}
    scatter = model([helper.make_node(op, ["x", "i", "u"], ["y"])], of, {"y": (F, [3])}, opset=18)
    found, text = said(scatter, {"x": np.zeros(3, F), "i": places, "u": F([5, 6, 7])}, {"y": F(given)})
    assert found == code, text
    if code == 0:
        assert (
            "1 output bit for bit, but for 1 element left open; 1 element as the standard leaves open: scatter.order"
            in text
        )
        assert f"ONNX {op}: " in text


ROWS = F([[np.nan, 1, 2], [1, 3, 2]])


@pytest.mark.parametrize(("given", "code"), [([2, 1], 0), ([2, 0], 1), ([3, 1], 1)])
def test_a_place_beside_nan_is_that_of_its_own_operator(given: list[int], code: int, said: Any) -> None:
    most = model([helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], {"x": (F, [2, 3])}, {"y": (L, [2])})
    found, text = said(most, {"x": ROWS}, {"y": np.array(given)})
    assert found == code, text
    if code == 0:
        assert text.endswith(
            "but for 1 element left open; 1 element as the standard leaves open: nan.place: one of the numbers is NaN"
            " (ONNX ArgMax is silent)"
        )


@pytest.mark.parametrize(("given", "code"), [([TOP, 25], 0), ([7, 25], 1), ([TOP, 26], 1)])
def test_what_an_operator_as_a_whole_opens_is_no_more(given: list[int], code: int, said: Any) -> None:
    """A sum of squares that is out of range is not 7, though one of the squares inside is out of range too."""
    squares = model(
        [helper.make_node("ReduceSumSquare", ["x"], ["y"], axes=[1], keepdims=0)],
        {"x": (np.int32, [2, 2])},
        {"y": (np.int32, [2])},
        opset=13,
    )
    found, text = said(squares, {"x": np.int32([[50000, 1], [3, 4]])}, {"y": np.int32(given)})
    assert found == code and (code or "(ONNX ReduceSumSquare is silent)" in text), text


@pytest.mark.parametrize(("given", "code"), [([7, 7, 7], 0), ([7, 7, 8], 5)])
def test_one_result_of_a_node_is_judged_beside_another(given: list[int], code: int, said: Any) -> None:
    """Zeros may be quantized to any zero point, and are that zero point."""
    of = {"y": (np.uint8, [3]), "s": (F, []), "z": (np.uint8, [])}
    quantize = model([helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": (F, [3])}, of)
    found, text = said(quantize, {"x": np.zeros(3, F)}, {"y": np.uint8(given), "s": F(1), "z": np.uint8(7)})
    assert found == code, text


@pytest.mark.parametrize(("given", "code"), [([-np.inf, np.inf, 0.5], 0), ([-np.inf, -np.inf, 0.5], 1)])
def test_a_zero_beside_one_of_which_the_sign_is_open(given: list[float], code: int, said: Any) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["z"], kernel_shape=[2], strides=[2]),
        helper.make_node("Reciprocal", ["z"], ["y"]),
    ]
    pooled = model(nodes, {"x": (F, [1, 1, 6])}, {"y": (F, [1, 1, 3])})
    found, text = said(pooled, {"x": F([[[0.0, -0.0, 0.0, 0.0, 1, 2]]])}, {"y": F([[given]])})
    assert found == code and (code or "1 element as the standard leaves open: zero.sign" in text), text


# --- files that do not fit, and values that are no tensors ----------------------------------------------------------

TWO = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
X = F([1, 2])


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"y": X + X, "z": -X, "q": X}, 2, "unknown output 'q'; the outputs are y, z"),
        ({"y": X + X, "zz": -X}, 2, "unknown output 'zz'; the outputs are y, z"),
        ({"y": X + X}, 2, "output 'z' is missing; the outputs are y, z; z is Tensor((2), float32) [values.C3]"),
        (
            {"y": np.array(["a", "b"]), "z": -X},
            2,
            "output 'y' is an array of strings, and numbers are due; y is Tensor((2), float32)",
        ),
        ({"y": (X + X).astype(float), "z": -X}, 1, "y is Tensor((2,), float64) instead of Tensor((2,), float32)"),
        ({"y": X + X, "z": X}, 1, "z element (1,) is 2.0"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(given: dict[str, Any], code: int, words: str, said: Any) -> None:
    found, text = said(model(TWO, {"x": (F, [2])}, {"y": (F, [2]), "z": (F, [2])}), {"x": X}, given)
    assert found == code and words in text, text


LISTS = """
a = A.typevar("a")
@I.ir_module
class Module:
    @A.data(a)
    class List:
        nil = ()
        cons = (a, List[a])
    @A.data(a)
    class Option:
        none = ()
        some = (a,)
    @R.function
    def main(x: V):
        return (List.cons(x, List.cons(R.add(x, x), List.nil(type_args=(V,)))), Option.some(R.negative(x)), \
Option.none(type_args=(V,)))
""".replace("V", 'R.Tensor((2,), "float32")')
RIGHT: dict[str, Any] = {"output_0.0": X, "output_0.1": X + X, "output_1": -X, "output_2.none": np.array(True)}


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({}, 0, "5 outputs"),
        ({"output_0.1": X}, 1, "output_0.1 element (1,) is 2.0, allowed is 4.0"),
        ({"output_0.2": X}, 1, "output_0.length is 3, must be 2"),
        ({"output_2.none": None, "output_2": X}, 1, "output_2.none is False, must be True"),
        ({"output_1": None, "output_1.none": np.array(True)}, 1, "output_1.none is True, must be False"),
        ({"output_1": None}, 2, "output 'output_1' is missing"),
    ],
)
def test_sequences_and_optional_values_of_a_text(changed: dict[str, Any], code: int, words: str, said: Any) -> None:
    """They are judged by their elements; the lowering goes on to bytecode, for no plan has such a program."""
    found, text = said(LISTS, {"x": X}, {n: a for n, a in {**RIGHT, **changed}.items() if a is not None})
    assert found == code and words in text, text


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"s.0": X, "s.1": -X}, 0, "3 outputs bit for bit"),
        ({"s.0": X, "s.1": X}, 1, "s.1 element"),
        ({"s.0": X, "s.1": -X, "s.2": X}, 1, "s.length element () is 3, allowed is 2"),
    ],
)
def test_a_sequence_of_onnx_needs_no_length(given: dict[str, Any], code: int, words: str, said: Any) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["z"]), helper.make_node("SequenceConstruct", ["x", "z"], ["s"])]
    made = model(nodes, {"x": (F, [2])}, {}, opset=18)
    made.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    found, text = said(made, {"x": X}, given)
    assert found == code and words in text, text


@pytest.mark.parametrize(
    ("op", "given", "answer"),
    [("Softmax", [np.nan, 0], "open"), ("LogSoftmax", [np.nan, -np.inf], "open"), ("Softmax", [1, 0], "wrong")],
)
def test_a_softmax_by_the_formula_of_the_text(op: str, given: list[float], answer: str, said: Any) -> None:
    softmax = model([helper.make_node(op, ["x"], ["y"])], {"x": (F, ["N"])}, {"y": (F, ["N"])})
    _, text = said(softmax, {"x": F([np.inf, 1])}, {"y": F(given)})
    assert text.startswith(answer) and (
        answer == "wrong" or f"softmax.infinite: a number of the row is +inf, another is not (ONNX {op}: " in text
    ), text


# --- within one operator --------------------------------------------------------------------------------------------

WITHIN = model(
    [
        helper.make_node("Mean", ["a", "a"], ["mean"]),
        helper.make_node("ReduceL2", ["g"], ["norm"]),
        helper.make_node(
            "Adagrad", ["r", "t", "a", "g", "s"], ["moved", "squares"], domain="ai.onnx.preview.training", epsilon=1.0
        ),
    ],
    {"a": (F, ["N"]), "g": (F, ["N"]), "r": (F, []), "t": (L, []), "s": (F, ["N"])},
    {"mean": (F, ["N"]), "norm": (F, [1]), "moved": (F, ["N"]), "squares": (F, ["N"])},
    opsets={"ai.onnx.preview.training": 1},
)
REST = {"r": F(0.5), "t": L(0), "s": F([0, 0])}


def in_float64(given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of that model, each node computed in float64 and rounded once."""
    a, g, r, s = (np.asarray(given[n], np.float64) for n in "agrs")
    squares = s + g * g
    made = {
        "mean": (a + a) / 2,
        "norm": np.sqrt(np.sum(g * g, keepdims=True)),
        "moved": a - r * g / (np.sqrt(squares) + 1),
        "squares": squares,
    }
    with np.errstate(over="ignore"):
        return {n: v.astype(F) for n, v in made.items()}


def test_what_overflows_within_an_operator_need_not(said: Any) -> None:
    """The operators of the model are several of ours, whose squares and sums overflow in float32, not in a wider dtype.
    The squares are an output too, and infinite as such. An addition and a division are not one operator."""
    given = {"a": F([3e38, 1]), "g": F([3e25, 4e25]), **REST}
    _, text = said(WITHIN, given, in_float64(given))
    assert text.startswith("right") and text.endswith(
        "what overflows within an operator need not in a wider dtype (M9.2)"
    ), text
    apart = model(
        [helper.make_node("Add", ["a", "a"], ["b"]), helper.make_node("Div", ["b", "two"], ["y"])],
        {"a": (F, ["N"]), "two": (F, [])},
        {"y": (F, ["N"])},
    )
    code, text = said(apart, {"a": given["a"], "two": F(2)}, {"y": given["a"]})
    assert code == 1 and "allowed is inf" in text, text


@pytest.mark.parametrize("wrong", ["mean", "norm"])
def test_within_an_operator_a_fault_is_one(wrong: str, said: Any) -> None:
    """A mean without its last operand, and a norm without its last number, where something beside it overflows."""
    given = {"a": F([3, 4]), "g": F([3e25, 4e25] if wrong == "mean" else [3, 4]), **REST}
    faults = {"mean": given["a"] / 2, "norm": given["g"][:1]}
    code, text = said(WITHIN, given, {**in_float64(given), wrong: faults[wrong]})
    assert code == 1 and f"output {wrong} element" in text, text


@pytest.mark.parametrize(
    ("op", "given", "answer"),
    [("Mean", 60000, "right"), ("Mean", np.inf, "right"), ("HardSigmoid", 0.1, "right"),
        ("HardSigmoid", 0.10009765625, "right"),
     ("HardSigmoid", 0.2, "wrong")],
)  # fmt: skip
def test_of_16_bits_within_an_operator(op: str, given: float, answer: str, said: Any) -> None:
    """A sum is in float32, and an attribute has not been rounded to 16 bits; without the right to keep tensors wider
    between operators."""
    half = np.float16
    node = (
        helper.make_node("Mean", ["x", "x"], ["y"])
        if op == "Mean"
        else helper.make_node(op, ["x"], ["y"], alpha=0.5, beta=0.6)
    )
    one = model([node], {"x": (half, ["N"])}, {"y": (half, ["N"])})
    _, text = said(
        one, {"x": half([60000 if op == "Mean" else -1] * 2)}, {"y": half([given] * 2)}, "--exclude", "kept-wider"
    )
    assert text.startswith(answer), text


@pytest.mark.parametrize(("scale", "fault", "answer"), [(3e38, 1, "undecided"), (3, 1, "right"), (3, 0.5, "wrong")])
@pytest.mark.parametrize("op", ["LayerNormalization", "BatchNormalization"])
def test_a_scaled_number_may_be_too_large_before_its_bias(
    op: str, scale: float, fault: float, answer: str, said: Any
) -> None:
    """6 / sqrt(12.5) and 0.5 / 0.25 times 3e38 are infinite in float32, and with a bias of -3e38 no more so in a wider
    dtype."""
    x = F([[1, 2, 3, 10]] if op == "LayerNormalization" else [[10]])
    more = {"scale": np.full(x.size, scale, F), "bias": np.full(x.size, -scale, F)}
    mean, var = (4, 12.5) if op == "LayerNormalization" else (9.5, 0.0625)
    if op == "BatchNormalization":
        more |= {"mean": F([mean]), "var": F([var])}
    one = model(
        [helper.make_node(op, ["x", *more], ["y"], epsilon=0.0)],
        {"x": (F, ["N", x.size]), **{n: (F, [x.size]) for n in more}},
        {"y": (F, ["N", x.size])},
    )
    y = (x.astype(np.float64) - mean) / np.sqrt(var) * scale - scale * fault
    with np.errstate(over="ignore"):
        _, text = said(one, {"x": x, **more}, {"y": y.astype(F)})
    assert text.startswith(answer), text


def summed(op: str, count: int) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(count)]
    shapes = [["N", 2], [2], ["N", 1]]
    return model(
        [helper.make_node(op, names, ["y"])],
        {n: (F, s) for n, s in zip(names, shapes, strict=False)},
        {"y": (F, ["N", 2])},
    )


@pytest.mark.parametrize(
    ("op", "numbers", "given", "answer"),
    [("Sum", [1e8, -1e8, 1.5], 0.0, "right"), ("Sum", [1e8, -1e8, 1.5], 1e3, "wrong"),
        ("Sum", [3e38, 3e38, -3e38], 3e38, "undecided"),
     ("Mean", [1, 2, 4], 7 / 3, "right"), ("Mean", [1, 2, 4], 1, "wrong"), ("Sum", [-0.0], 0.0, "right"),
         ("Sum", [1.0], -1.0, "wrong")],
)  # fmt: skip
def test_an_operator_adds_its_operands_in_any_order(
    op: str, numbers: list[float], given: float, answer: str, said: Any
) -> None:
    """With a symbolic size and broadcasting. Of one operand the sum may begin at 0."""
    shapes = [(3, 2), (2,), (3, 1)]
    inputs = {f"x{i}": np.full(s, x, F) for i, (x, s) in enumerate(zip(numbers, shapes, strict=False))}
    _, text = said(summed(op, len(numbers)), inputs, {"y": np.full((3, 2), given, F)})
    assert text.startswith(answer), text
