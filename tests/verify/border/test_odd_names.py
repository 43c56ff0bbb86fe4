"""Names of inputs and outputs that look like something else in a file: each is written so that it is read as what it
was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from assay.semantics.errors import Invalid
from assay.verify.border.inputs import load_npz, save
from tests.verify.app.test_cli import assay
from tests.verify.app.test_whole_answers import saved

NAMES = (
    "y", "y:bfloat16", "y:float32", "y:bfloat16:float32", "y:bfloat16:float32:float32", "y:bfloat16:bfloat16",
        "y:bfloat16:str",
    "z:float8_e4m3fn", ":int4", ":", "", "y.npy", "y.npy.npy", "y.0", "y.none", "y.length", "a/b", "../y", "a/", "/y",
        " y ", "é:bfloat16", "y\n",
)  # fmt: skip


@pytest.mark.parametrize("of", [np.float32, ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_, np.str_])
def test_a_file_gives_back_each_name_and_array(of: Any, tmp_path: Path) -> None:
    arrays = {n: np.array([i, 1]).astype(of) for i, n in enumerate(NAMES)}
    save(tmp_path / "a.npz", arrays)
    found = load_npz(tmp_path / "a.npz")
    assert [(n, a.dtype, a.tobytes()) for n, a in found.items()] == [
        (n, a.dtype, a.tobytes()) for n, a in arrays.items()
    ]


def test_names_with_no_place_in_a_file(tmp_path: Path) -> None:
    for name in ("y\0", "y" * 70_000, "é" * 40_000):
        with pytest.raises(Invalid, match="without a NUL"):
            save(tmp_path / "a.npz", {name: np.zeros(2)})
    save(tmp_path / "a.npz", {"y" * 65_531: np.ones(1)})
    assert load_npz(tmp_path / "a.npz")["y" * 65_531].tolist() == [1]


def odd(folder: Path) -> Path:
    """Inputs and outputs that differ only by what looks like an element type, or a part."""
    ends = [("x:bfloat16", TensorProto.FLOAT, [2]), ("x", TensorProto.BFLOAT16, [2]), ("x.npy", TensorProto.FLOAT, [2])]
    nodes = [
        helper.make_node("Neg", ["x:bfloat16"], ["y:bfloat16"]),
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Abs", ["x.npy"], ["y.npy"]),
    ]
    outputs = [(n.replace("x", "y"), of, shape) for n, of, shape in ends]
    return saved(folder / "odd.onnx", nodes, ends, outputs)


def test_outputs_under_odd_names_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, inputs, out = odd(tmp_path), tmp_path / "in.npz", tmp_path / "out.npz"
    arrays = {
        "x:bfloat16": np.float32([0.1, -3]),
        "x": np.array([0.1, 2]).astype(ml_dtypes.bfloat16),
        "x.npy": np.float32([0.3, -1]),
    }
    save(inputs, arrays)
    assert assay(monkeypatch, "run", program, "--inputs", inputs, "-o", out) == 0
    found = load_npz(out)
    assert (
        found["y:bfloat16"].tolist() == (-arrays["x:bfloat16"]).tolist()
        and found["y.npy"].tolist() == np.float32([0.3, 1]).tolist()
    )
    save(out, {**found, "y:bfloat16": found["y:bfloat16"] + 1})
    capsys.readouterr()
    assert assay(monkeypatch, "check", program, "--inputs", inputs, "--expected", out, *("--stop-after", "import")) == 1
    assert "output y:bfloat16 element" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "say"),
    [
        (
            {"x:bfloat16": np.float32([0.1, 1])},
            "if 'x:bfloat16' is the whole name, call it 'x:bfloat16:float32' [values.C4]",
        ),
        (
            {"x:bfloat16": np.array(["a", "b"])},
            "if 'x:bfloat16' is the whole name, call it 'x:bfloat16:str' [values.C4]",
        ),
        (
            {"x:bfloat16:float32": np.float64([1, 2])},
            "x:bfloat16:float32 is float64, and float32 stands behind its name [values.C4]",
        ),
        ({"w:bfloat16": np.float32([1, 2])}, "unknown input 'w'; the inputs are x:bfloat16, x, x.npy [input.C1]"),
    ],
)
def test_what_is_called_otherwise_is_told(
    arrays: dict[str, Any],
    say: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert assay(monkeypatch, "run", odd(tmp_path), "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz") == 2
    assert say in capsys.readouterr().err


def test_numbers_that_would_do_under_the_short_name_are_told_the_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = saved(
        tmp_path / "m.onnx", [helper.make_node("Neg", ["x:bfloat16"], ["y"])], [("x:bfloat16", 1, [2])], [("y", 1, [2])]
    )
    np.savez(tmp_path / "in.npz", **{"x:bfloat16": np.float32([1, 2])})
    assert assay(monkeypatch, "run", program, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz") == 2
    assert (
        "the inputs are x:bfloat16; x:bfloat16 is called 'x:bfloat16:DTYPE' in a file, as in 'x:bfloat16:float32'"
        in capsys.readouterr().err
    )
