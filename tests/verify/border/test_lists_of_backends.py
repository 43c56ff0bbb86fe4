"""A backend's list is a sequence: right where one is wanted, and told as what it is where a tensor is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from assay.verify.backends import Subject, backend, subject_of_model
from assay.verify.backends.channel import pack, unpack
from assay.verify.backends.protocol import call_prepared
from assay.verify.oracle import Verdict, judge_backend
from tests.verify.app.test_cli import assay

X, OTHER = np.float32([1, 2]), np.float32([3])
OPTIONAL = "g (float[2] x) => (float[2] y) { o = Optional(x) y = OptionalGetElement(o) }"
SEQUENCE = "g (float[2] x) => (seq(float[2]) y) { n = Neg(x) y = SequenceConstruct(x, n) }"
SUM = "g (float[2] x) => (float[2] y) { z = Neg(x) y = Abs(z) }"


def subject(text: str) -> Subject:
    return subject_of_model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}'))


@dataclass(frozen=True)
class Says:
    """Gives what it was told to."""

    outputs: Mapping[str, Any]
    name: str = "says"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Any:
        return lambda inputs: {n: self.outputs[n] for n in wanted}


def judged(text: str, **outputs: Any) -> Verdict:
    return judge_backend(subject(text), Says(outputs), {"x": X})  # type: ignore[arg-type]


def test_the_reference_evaluator_gives_a_list_for_what_an_optional_value_holds() -> None:
    verdict = judge_backend(subject(OPTIONAL), backend("reference"), {"x": X})
    assert verdict.outcome == "wrong" and "is a list of 1 instead of Tensor((2,), float32)" in verdict.detail
    assert judge_backend(subject(SEQUENCE), backend("reference"), {"x": X}).outcome == "right"


@pytest.mark.parametrize("wrong", [[], [X], [X, OTHER], [[X]], [None], [X, X, X]])
def test_a_list_in_place_of_a_tensor(wrong: list[Any]) -> None:
    verdict = judged(SUM, y=wrong, z=-X)
    assert (
        verdict.outcome == "wrong" and f"y is a list of {len(wrong)} instead of Tensor((2,), float32)" in verdict.detail
    )
    verdict = judged(SUM, y=X, z=wrong)
    assert verdict.outcome == "wrong" and verdict.culprit == "Neg, tensor z"
    assert verdict.detail == f"z is a list of {len(wrong)} instead of Tensor((2,), float32)"


def test_a_list_of_numbers_is_an_array() -> None:
    assert call_prepared("says", lambda inputs: {"y": [1.0, 2.0]}, {})["y"].shape == (2,)
    assert call_prepared("says", lambda inputs: {"y": [[1, 2], [3, 4]]}, {})["y"].shape == (2, 2)


@pytest.mark.parametrize(("wrong", "say"), [
    ([X], "y.length is 1, must be 2"), ([X, X], "y.1 element"), ([X, -OTHER], "y.1 is Tensor((1,), float32)"),
        ([X, [-X]], "y.1 is a list of 1"),
    (X, "y.length is missing"),
])  # fmt: skip
def test_a_wrong_sequence(wrong: Any, say: str) -> None:
    verdict = judged(SEQUENCE, y=wrong, n=-X)
    assert verdict.outcome == "wrong" and say in verdict.detail


def test_a_sequence_crosses_to_another_process() -> None:
    whole = pack({"y": [X, [OTHER], None]})
    size = int.from_bytes(whole[:8])
    (found,) = unpack(whole[16 : 16 + size], bytearray(whole[16 + size :])).values()
    assert found[0].tolist() == X.tolist() and found[1][0].tolist() == OTHER.tolist() and found[2] is None


@pytest.mark.campaign
def test_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(subject(OPTIONAL).model, tmp_path / "m.onnx")
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--backend", "reference", "--json") == 1
    assert "is a list of 1 instead of Tensor((2,), float32)" in capsys.readouterr().out
