"""A size in numbers alone that is beyond int64 is refused, in every language: it never wraps to a small one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.verify.app.test_cli import assay

GRAPH = (
    '@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor(({0},), "float32"), s: R.Shape(["n"])):\n  '
    "      n = T.int64()\n        return {1}\n"
)
TENSOR = (
    '@T.prim_func\ndef main(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):\n    z ='
    ' T.alloc_buffer(({0},), "float32")\n    y[0] = x[0]\n'
)
RELAY = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) {{ {0} }}\n'
WRAPPED = {
    "a product": "(1 << 62) * (1 << 62) * (1 << 62)",
    "literals": "4611686018427387904 * 4",
    "typed": "T.int64(4611686018427387904) * T.int64(4)",
    "a shift": "(T.int64(1) << 62) << 2",
    "a sum": "T.int64(9223372036854775807) + T.int64(9223372036854775807) + 5",
    "a difference": "T.int64(-9223372036854775807) - T.int64(9223372036854775807)",
    "a negative": "-T.int64(-9223372036854775807) * 2 + 2",
    "inside": "T.max(T.int64(4611686018427387904) * T.int64(4), 3)",
    "int32": "T.int32(65536) * T.int32(65536)",
}
DIMS = {
    "an input": ('"n * 4"', "x"),
    "a shape": ("3", 'R.zeros(R.shape([n * 4]), "float32")'),
    "a factor": ("3", 'R.zeros(R.shape([n * 4611686018427387904 * 4]), "float32")'),
}
"""Sizes that wrap to 0 where n is 2**62."""


def refused(
    text: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *args: object,
) -> str:
    path = tmp_path / name
    path.write_text(text)
    assert assay(monkeypatch, *(args or ("check",)), path, *(["--stop-after", "import"] if not args else [])) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("size", WRAPPED.values(), ids=WRAPPED)
def test_sizes_in_scripts(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(GRAPH.format(size, "x"), "p.py", tmp_path, monkeypatch, capsys)
    assert ":4:" in said and ("is beyond int" in said or "too large" in said), said
    said = refused(GRAPH.format(3, f'R.zeros(R.shape([{size}]), "int8")'), "p.py", tmp_path, monkeypatch, capsys)
    assert ":6:" in said and "[text.C6]" in said, said
    said = refused(TENSOR.format(size), "p.py", tmp_path, monkeypatch, capsys, "run")
    assert ":3:" in said and "[text.C6]" in said, said


@pytest.mark.parametrize(("of_input", "result"), DIMS.values(), ids=DIMS)
def test_sizes_at_a_number(
    of_input: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.py"
    path.write_text(GRAPH.format(of_input, result))
    assert assay(monkeypatch, "check", path, "--dim", f"n={1 << 62}", "--stop-after", "import") == 2
    said = capsys.readouterr().err
    assert "at n=4611686018427387904" in said and "is beyond int64 [graph.C13]" in said, said


@pytest.mark.parametrize(
    "call",
    [
        'zeros(shape=[18446744073709551616], dtype="int8")',
        "tile(%x, reps=[4611686018427387904])",
        "nn.pad(%x, 0f, pad_width=[[9223372036854775807, 9223372036854775807]])",
    ],
)
def test_sizes_in_relay(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(RELAY.format(call), "p.relay", tmp_path, monkeypatch, capsys)
    assert "is no size: 0 to 2**63 - 1 are" in said, said


@pytest.mark.parametrize(("op", "number"), [("Tile", [1 << 62]), ("Pad", [(1 << 63) - 1] * 2)])
def test_sizes_in_models(
    op: str, number: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("x", [4]), ("y", None))]
    stored = [numpy_helper.from_array(np.array(number, np.int64), "n")]
    graph = helper.make_graph([helper.make_node(op, ["x", "n"], ["y"])], "g", infos[:1], infos[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--stop-after", "import") == 2
    assert "is no size: 0 to 2**63 - 1 are" in capsys.readouterr().err
