"""A seed makes the same inputs of a program, whichever command or function it is given to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import assay as product
from tests.inputs import read_npz
from tests.verify.app.test_cli import assay

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), t: R.Tuple(R.Tensor((2,), "float64"), R.Tensor((2,), "int64"))):
        return R.add(R.negative(x), R.const([1.0, 2.0], "float32")), R.add(t[0], t[0]), R.add(t[1], t[1])
"""
MODEL = """
<ir_version: 8, opset_import: ["": 17]>
agraph (float[3, 2] x, float[2] y) => (float[3, 2] a, float[3, 2] b) {
    a = Add(x, y)
    b = Mul(a, a)
}
"""


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(one[n].tobytes() == other[n].tobytes() for n in one)


@pytest.fixture(params=["program.py", "program.relay", "program.onnx"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    if path.suffix == ".py":
        path.write_text(TEXT)
    elif path.suffix == ".relay":
        path.write_text("def @main(%x: Tensor[(3, 2), float32], %y: Tensor[(2), float32]) { add(negative(%x), %y) }\n")
    else:
        onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


@pytest.mark.parametrize("seed", [0, 7])
def test_a_run_and_a_check_have_the_same_inputs(
    program: Path, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dims = {"n": 3} if program.suffix == ".py" else {}
    sizes = [word for name, n in dims.items() for word in ("--dim", f"{name}={n}")]
    ran = product.run(program, seed=seed, dims=dims)
    found = product.check(program, seed=seed, dims=dims)
    assert found.holds and same(ran, dict(found.outputs))
    said = []
    for passes in ([], ["--passes", "common,dead"], ["--passes", "legalize,tile"]):
        out = tmp_path / "out.npz"
        assert assay(monkeypatch, "run", program, "--seed", seed, *sizes, "-o", out, *passes) == 0
        assert same(ran, read_npz(out)), passes
        said.append({line for line in capsys.readouterr().out.splitlines() if line.startswith("x = ")})
    assert said[1] == said[2] and (program.suffix == ".onnx" or said[0] == said[1])
    other = product.run(program, seed=seed + 1, dims=dims)
    assert not same(ran, other)
