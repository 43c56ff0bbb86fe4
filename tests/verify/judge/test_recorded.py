"""`assay judge --recorded`: what a device gave, judged between the tensors that were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import assay
from tests.verify.app.test_cli import assay as command
from tests.verify.judge.deep import deep, inputs, tensors

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def run() -> dict[str, Array]:
    return tensors(deep())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(deep(), tmp_path / "deep.onnx")
    np.savez(tmp_path / "in.npz", **inputs())
    return tmp_path / "deep.onnx"


def recorded(model: Path, arrays: dict[str, Array]) -> Path:
    to = model.with_name("out.npz")
    np.savez(to, **arrays)
    return to


def some(run: dict[str, Array]) -> dict[str, Array]:
    """Every fourth layer, and the output."""
    return {n: a.copy() for n, a in run.items() if n in ("h3", "h7", "h11", "y")}


def test_some_tensors_decide_what_outputs_alone_do_not(model: Path, run: dict[str, Array]) -> None:
    alone = assay.judge(model, recorded={"y": run["y"]}, inputs=inputs(), sound_only=True)
    assert alone.verdicts[0].outcome == "undecided"
    found = assay.judge(model, recorded=[some(run)], inputs=inputs())
    assert found.holds and "by each tensor that was recorded" in found.verdicts[0].closing()


@pytest.mark.parametrize("name", ["h3", "h7", "y"])
def test_the_piece_that_ends_in_what_is_wrong_is_named(
    name: str, model: Path, run: dict[str, Array], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = some(run)
    odd[name][1, 3] += 0.5
    words = ["--inputs", model.with_name("in.npz"), "--json"]
    assert command(monkeypatch, "judge", model, "--recorded", recorded(model, odd), *words) == 1
    (found,) = json.loads(capsys.readouterr().out)["backends"]
    first = {"h3": "16 nodes from x to h3 (Add sum3)", "h7": "16 nodes from h3 to h7 (Add sum7)",
             "y": "17 nodes from h11 to y (Reciprocal last)"}[name]  # fmt: skip
    assert found["outcome"] == "wrong" and f"in the {first}" in found["closing"]
    (sample,) = found["samples"]
    assert sample["worst"]["tensor"] == name and sample["worst"]["index"] == [1, 3]


def test_with_every_tensor_the_operator_is_named(model: Path, run: dict[str, Array]) -> None:
    odd = {n: a.copy() for n, a in run.items()}
    odd["t5"][0, 0] = 0.5 * odd["t5"][0, 0] + 0.01
    (found,) = assay.judge(model, recorded=odd, inputs=inputs()).verdicts
    assert found.outcome == "wrong" and "in Sin bent5, tensor t5" in found.closing()


def test_inputs_may_be_in_the_recording(model: Path, run: dict[str, Array]) -> None:
    assert assay.judge(model, recorded=some(run) | inputs()).holds
    with pytest.raises(assay.Invalid, match="has another input 'x'"):
        assay.judge(model, recorded=some(run) | {"x": inputs()["x"] + 1}, inputs=inputs())


@pytest.mark.parametrize("words", [["--kinds", "random"], ["--runs", "2"]])
def test_kinds_of_inputs_are_not_made_for_a_recording(
    words: list[str], model: Path, run: dict[str, Array], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = ["--recorded", str(recorded(model, some(run))), "--inputs", str(model.with_name("in.npz")), *words]
    assert command(monkeypatch, "judge", model, *words) == 2
    assert "leave out --kinds and --runs [judge.C2]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"h33": "h3"}, "has 'h33', which is no tensor of the model; did you mean h3"),
        ({"nothing": "h3"}, "which is no tensor of the model; its outputs are y"),
        ({"y": None}, "has no output 'y'"),
        ({"h3": "flat"}, r"has 'h3' as Tensor((12,), float32), and in the model it is Tensor((2, 6), float32)"),
        ({"h3": "wide"}, r"has 'h3' as Tensor((2, 6), float64), and in the model it is Tensor((2, 6), float32)"),
        ({"x": None}, "give input 'x' with --inputs"),
    ],
)
def test_what_cannot_be_a_recording(
    change: dict[str, str | None], said: str, model: Path, run: dict[str, Array], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    arrays = some(run)
    words: list[Any] = ["--inputs", model.with_name("in.npz")]
    for name, what in change.items():
        if name == "x":
            words = []
        elif what is None:
            del arrays[name]
        else:
            made = {"flat": arrays["h3"].reshape(-1), "wide": arrays["h3"].astype(np.float64)}
            arrays[name] = made.get(what, arrays["h3"])
    assert command(monkeypatch, "judge", model, "--recorded", recorded(model, arrays), *words) == 2
    err = capsys.readouterr().err
    assert said in err and "[judge.C2]" in err
