"""Inputs of an ONNX model that have a default: what is given for them counts, for the definition and for who is
judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.semantics.errors import Invalid
from assay.verify.app import bound as binding, certificate
from assay.verify.app.check import CheckRun
from assay.verify.border.inputs import load_npz, save
from assay.verify.plugins.pytest_plugin import JudgedBackend
from tests.verify.app.test_certificate import manifest, said, seal
from tests.verify.app.test_cli import assay

SUM = "g (float[2] x, float[2] w = {3, 4}) => (float[2] y) { y = Mul (w, x) }"
SHAPE = "g (float[6] x, int64[2] s = {2, 3}) => (float[a, b] y) { y = Reshape (x, s) }"
TEXTS = 'g (string[2] x, string[2] w = {"b", "b"}) => (bool[2] y) { y = Equal (x, w) }'
X = np.float32([1, 2])


def kept(path: Path, text: str, opset: int = 19) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}'), path)
    return path


def given(folder: Path, **arrays: Any) -> Path:
    save(folder / "in.npz", {n: np.asarray(a) for n, a in arrays.items()})
    return folder / "in.npz"


def test_what_is_given_counts_and_what_is_not_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, out = kept(tmp_path / "m.onnx", SUM), tmp_path / "out.npz"
    for arrays, y in (({"x": X}, [3, 8]), ({"x": X, "w": np.float32([5, -1])}, [5, -2])):
        inputs = given(tmp_path, **arrays)
        assert assay(monkeypatch, "run", program, "--inputs", inputs, "-o", out) == 0
        assert load_npz(out)["y"].tolist() == y
    program = kept(tmp_path / "s.onnx", SHAPE)  # what decides a shape is still known before the run
    assert assay(monkeypatch, "run", program, "--inputs", given(tmp_path, s=[3, 2]), "-o", out) == 0
    assert load_npz(out)["y"].shape == (3, 2)
    program = kept(tmp_path / "t.onnx", TEXTS)
    assert assay(monkeypatch, "run", program, "--inputs", given(tmp_path, x=["a", "b"], w=["a", "ab"]), "-o", out) == 0
    assert load_npz(out)["y"].tolist() == [True, False]


def test_outputs_are_judged_on_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the default are wrong."""
    program, inputs = kept(tmp_path / "m.onnx", SUM), given(tmp_path, x=X, w=np.float32([5, -1]))
    save(tmp_path / "out.npz", {"y": np.float32([3, 8])})
    options = ("--expected", tmp_path / "out.npz", "--stop-after", "import", "--json")
    assert assay(monkeypatch, "check", program, "--inputs", inputs, *options) == 1
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert lines[0]["data"]["defaults"] == ["w"] and "given in place of a default: w" in lines[0]["did"]
    assert "output y element (1,) is 8.0, allowed is -2.0" in lines[-1]["detail"]


@pytest.mark.peer
@pytest.mark.campaign
@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_a_backend_has_it_too(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = given(tmp_path, x=X, w=np.float32([5, -1]))
    assert assay(monkeypatch, "check", kept(tmp_path / "m.onnx", SUM), "--inputs", inputs, "--backend", backend) == 0


def test_a_test_of_ones_own_takes_it(tmp_path: Path) -> None:
    """The backend here multiplies by the default whatever is given; only where that is so it is right."""

    class Deaf:
        name = "deaf"

        def prepare(self, subject: Any, wanted: Any) -> Any:
            return lambda inputs: {n: np.float32([3, 4]) * inputs["x"] for n in wanted}

    deaf = JudgedBackend("deaf", Deaf(), (), 0, {}, lambda: tmp_path, lambda kind, outcome: None)  # type: ignore[arg-type]
    model = onnx.load(kept(tmp_path / "m.onnx", SUM))
    assert deaf.check(model, {"x": X})["given"].outcome == "right"
    with pytest.raises(AssertionError, match="y element .* is 8.0, allowed is 4.0"):
        deaf.check(model, {"x": X, "w": X})
    assert load_npz(tmp_path / "inputs.npz")["w"].tolist() == X.tolist()


@pytest.mark.parametrize(
    ("text", "arrays", "say"),
    [
        (SUM, {"v": X}, "unknown input 'v'; the inputs are x; with a default: w [input.C1]"),
        (SUM, {"w": np.float64([1, 2])},
            "input 'w' is Tensor((2,), float64), expected Tensor((2), float32) [input.C3]"),
        (SUM, {"w": np.float32([1, 2, 3])}, "axis 0 of input 'w' is 3, expected 2 [input.C4]"),
        (SUM, {"w": ["a", "b"]}, "input 'w' is no array of numbers, expected Tensor((2), float32) [input.C3]"),
        (TEXTS, {"x": ["a", "b"], "w": X},
            "input 'w' is float32; strings are wanted, as an array of dtype str [values.C4]"),
        (TEXTS, {"x": ["a", "b"], "w": [["a", "b"]]},
            "input 'w' is Tensor((1, 2), int64), expected Tensor((2), int64) [input.C3]"),
        ("g (seq(float[2]) q, float[2] w = {1, 1}) => (float[2] y) { y = Add (w, w) }", {"v": X},
         (
             "unknown input 'v'; the inputs are q; with a default: w; q is a sequence: q.0, q.1 and so on, or "
             "q.length, 0, where it is empty"
         )),
    ],
)  # fmt: skip
def test_what_cannot_be_given(
    text: str,
    arrays: dict[str, Any],
    say: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = (
        "run",
        kept(tmp_path / "m.onnx", text),
        "--inputs",
        given(tmp_path, **arrays),
        "-o",
        tmp_path / "out.npz",
    )
    assert assay(monkeypatch, *command) == 2
    assert say in said(capsys)


def test_every_element_type_and_a_default_of_any_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old exporter may say neither element type nor shape of an input that has a default."""
    for of in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_, np.float16):
        stored = numpy_helper.from_array(np.array([1, 0, 1]).astype(of), "w")
        infos = [onnx.ValueInfoProto(name="w"), helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
        y = onnx.ValueInfoProto(name="y", type=helper.make_tensor_type_proto(stored.data_type, None))
        graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", infos, [y], [stored])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx"
        )
        w = np.array([[0, 1], [1, 1]]).astype(of)
        command = ("run", tmp_path / "m.onnx", "--inputs", given(tmp_path, w=w), "-o", tmp_path / "out.npz")
        assert assay(monkeypatch, *command) == 0
        y = load_npz(tmp_path / "out.npz")["y"]
        assert y.dtype == w.dtype and y.tobytes() == w.tobytes() and y.shape == (2, 2)


def test_weights_that_are_listed_as_inputs_stay_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With many of them, a message names some."""
    many = ", ".join(f"float[2] w{i} = {{{i}, 1}}" for i in range(30))
    program = kept(tmp_path / "m.onnx", f"g (float[2] x, {many}) => (float[2] y) {{ y = Mul (w0, x) }}")
    assert (
        assay(
            monkeypatch,
            "check",
            program,
            "--inputs",
            given(tmp_path, w1=X),
            "--stop-after",
            "import",
            "--dump",
            tmp_path,
        )
        == 0
    )
    assert (
        "def main(x: " in (tmp_path / "01-import.py").read_text()
        and "w1:" not in (tmp_path / "01-import.py").read_text()
    )
    capsys.readouterr()
    assert assay(monkeypatch, "check", program, "--inputs", given(tmp_path, w=X)) == 2
    assert (
        "with a default: w0, w1," in (say := said(capsys)) and "w19 and 10 more [input.C1]" in say and "w20" not in say
    )


def test_a_certificate_says_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, out = kept(tmp_path / "m.onnx", SUM), tmp_path / "out"
    w = np.float32([5, -1])
    assert assay(monkeypatch, "build", program, "--inputs", given(tmp_path, x=X, w=w), "-o", out) == 0
    listed = manifest(out)
    assert list(listed["model"]["defaults"]) == ["w"]
    assert load_npz(out / "certificate" / "inputs.npz")["w"].tolist() == [5, -1]
    whole = certificate.Stored(out)
    checked = CheckRun(whole, whole.inputs(), whole.seed, defaults=whole.defaults())
    found = list(certificate.lines(whole, checked, model=program))
    assert all(line.evidence.holds for line in found)

    def forged(**defaults: Any) -> certificate.Stored:
        """All that can be changed with what was given, is."""
        save(out / "certificate" / "inputs.npz", {**defaults, "x": X})
        listed["model"]["defaults"] = binding.digests_of_arrays(defaults)
        seal(out, listed)
        return certificate.Stored(out)

    other = np.float32([5, 1])
    for defaults, why in (
        ({"w": other}, "the stored module is not the one that the import makes"),
        ({}, "the stored module is not the one that the import makes"),
        ({"x": X, "w": w}, "gives x in place of a default, and the file has none"),
    ):
        said = certificate._of_model(forged(**defaults), program)
        assert said.holds is False and why in said.detail
    with pytest.raises(Invalid, match="unknown input 'v'"):
        certificate._of_model(forged(v=other), program)
    for defaults, why in (
        ({"w": other}, "the C text is not"),
        ({"x": X, "w": w}, "x is an input of the program, and no default"),
    ):
        stored = forged(**defaults)
        run = replace(
            checked, origin=stored, defaults=stored.defaults(), source=stored.c_source(checked.modules["pool"])
        )
        said = certificate._claims(stored, run, found[1:-1])
        assert said.holds is False and why in said.detail
