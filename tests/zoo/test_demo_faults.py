"""The faults of `make demo-fault` are found by its commands, on a model that takes less time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from assay.verify.app.cli import main
from tests.places import ROOT

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,6,3,3] x) => (float[1,6,3,3] y)
<float[6] scale = {0.5, 1.5, 1.0, 0.7, 0.9, 1.1}, float[6] shift = {0.1, 0.2, -0.3, 0.4, 0.5, 0.0},
 float[6] mean = {0.3, -0.2, 0.1, 0.0, 0.2, 0.1}, float[6] var = {0.5, 2.0, 3.0, 0.25, 0.7, 1.3},
 int64[4] back = {1, 6, 3, 3}>
{
  n = BatchNormalization(x, scale, shift, mean, var)
  r = Relu(n)
  s = Reshape(r, groups)
  t = Transpose<perm = [0, 2, 1, 3, 4]>(s)
  y = Reshape(t, back)
}
"""


def commands() -> list[list[str]]:
    """Those of the target, without the program."""
    rule = re.search(r"^demo-fault:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert rule is not None
    found = re.findall(r"^\t\$\(BIN\)/(assay .*); test \$\$\? -eq 1$", rule[1], re.MULTILINE)
    return [c.replace('"$(SHUFFLENET)"', "MODEL").replace("'", "").split() for c in found]


@pytest.mark.parametrize("command", commands(), ids=lambda c: c[1])
def test_the_faults_are_found(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 3, 3, 3]), "groups"))
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", [str(path) if c == "MODEL" else c for c in command])
    with pytest.raises(SystemExit) as end:
        main()
    out = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 1, out
    assert "own FAILS" in out or "tests.zoo.demo_faults:shuffled is wrong on" in out


def test_both_are_there() -> None:
    assert [c[1] for c in commands()] == ["check", "judge"]
