"""Prints, assertions on values, and values that shapes depend on, through the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.verify.app.test_cli import assay
from tests.verify.app.test_loops import held, write

SPEAKING = """@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32"), most: R.Tensor((), "float32")):
        y = R.multiply(x, x)
        _0 = R.print(y, most, format="y is {}, at most {}")
        big = R.sum(R.astype(R.greater(y, most), "int64"))
        _1 = R.assert_op(R.equal(big, R.const(0, "int64")), most, format="more than {}")
        return Module.halved(R.const(0, "int64"), y)
    @R.function(pure=False)
    def halved(i: R.Tensor((), "int64"), x: R.Tensor(("k", 2), "float32")) -> R.Tensor(("k", 2), "float32"):
        _0 = R.print(i, format="round {}")
        if R.less(i, R.const(1, "int64")):
            r = Module.halved(R.add(i, R.const(1, "int64")), R.multiply(x, R.const(0.5, "float32")))
        else:
            r = x
        return r
"""
TILE = "tile (float[2,n] x, int64[2] r) => (float[a,b] y) { t = Tile (x, r) y = Neg (t) }"
RESHAPE = "reshape (float[n,6] x, int64[3] s) => (float[a,b,c] y) { t = Reshape (x, s) y = Neg (t) }"
SLICE = "slice (float[9,5] x, int64[1] b, int64[1] e, int64[1] a) => (float[p,q] y) { y = Slice (x, b, e, a) }"
TOPK = "topk (float[3,n] x, int64[1] k) => (float[3,m] y, int64[3,m] i) { y, i = TopK <axis: int = 1> (x, k) }"
GIVEN = {
    "tile": (TILE, {"x": np.ones((2, 3), np.float32), "r": np.array([2, 0])}),
    "reshape": (RESHAPE, {"x": np.ones((4, 6), np.float32), "s": np.array([2, -1, 4])}),
    "topk": (TOPK, {"k": np.array([2])}),
    "slice": (SLICE, {"b": np.array([-3]), "e": np.array([9]), "a": np.array([0])}),
}


@pytest.mark.row("R21")
def test_what_is_printed_and_asserted_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs are drawn anew until what is asserted of them holds, at the sizes at which there are such."""
    path = tmp_path / "speaking.py"
    path.write_text(SPEAKING)
    np.savez(tmp_path / "in.npz", most=np.float32(9.0))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz") == 0
    table = held(capsys)
    assert "1 assertion on values, 2 prints" in table and "traps alike" in table and "every arm taken" in table, table
    np.savez(tmp_path / "in.npz", most=np.float32(-1.0), x=np.ones((1, 2), np.float32))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz") == 2
    assert "more than -1. [assert_op.T1]" in held_errors(capsys)
    path.write_text(SPEAKING.replace('print(i, format="round {}")', 'print((i, i), format="round {}")'))
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built") == 2
    assert "a plan shows tensors" in (said := held_errors(capsys)) and "[liveness.C2]" in said
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz") == 2
    np.savez(tmp_path / "in.npz", most=np.float32(9.0))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz") == 0
    assert "no plan can have it" in (said := held(capsys)) and "[liveness.C2]" in said and "vm proved" in said


def held_errors(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_what_is_built_tells_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's program with a function that prints, and one without."""
    path = tmp_path / "speaking.py"
    path.write_text(SPEAKING)
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built", "--bound", "n=0..4") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built", "--model", path) == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text("""#include "speaking.h"
#include <stdio.h>
#include <stdlib.h>

#ifdef SPEAKING_PRINT
int speaking_print(int step, const void *const *shown, const int64_t *dims)
{
    if (dims != NULL) {
        const float *const y = shown[0];
        printf("%d x %d from %g, ", (int)dims[0], (int)dims[1], (double)y[0]);
        printf("at most %g\\n", (double)*(const float *)shown[1]);
    } else {
        printf("round %d\\n", (int)*(const int64_t *)shown[0]);
    }
    return step < 0;
}
#endif

int main(int argc, char **argv)
{
    const float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    const float most = (float)atof(argv[argc - 1]);
    float y[4];
    void *const workspace = aligned_alloc(SPEAKING_WORKSPACE_ALIGN, SPEAKING_WORKSPACE_BYTES);
    const int status = speaking_run(2, x, &most, y, workspace);
    printf("%s: %g\\n", speaking_status_text(status), (double)y[0]);
    free(workspace);
    return status != SPEAKING_OK;
}
""")
    files = [tmp_path / "main.c", tmp_path / "built" / "speaking.c"]
    command = ["cc", "-std=c11", "-I", tmp_path / "built", "-o", tmp_path / "main", *files, "-lm"]

    def said(most: str) -> tuple[int, str]:
        found = subprocess.run([tmp_path / "main", most], capture_output=True, text=True, check=False)
        return found.returncode, found.stdout

    subprocess.run([*command, "-DSPEAKING_PRINT"], check=True)
    assert said("16") == (0, "2 x 2 from 1, at most 16\nround 0\nround 1\nall is done: 0.5\n")
    assert said("15")[1].startswith("2 x 2 from 1, at most 15\nan assertion does not hold")
    subprocess.run(command, check=True)
    assert said("16") == (0, "all is done: 0.5\n")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.campaign if n in ("tile", "slice") else ()) for n in GIVEN]
)
def test_values_that_shapes_depend_on_are_taken_from_the_inputs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are asserted: the certificate is of this model with these values."""
    text, given = GIVEN[name]
    path = write(tmp_path / f"{name}.onnx", text)
    if name == "topk":  # a size that only a run tells has room
        assert assay(monkeypatch, "check", path) == 0
        assert "1 measured size" in held(capsys)
    else:
        assert assay(monkeypatch, "check", path) == 2
        assert "[onnx.C13]" in held_errors(capsys)
    np.savez(tmp_path / "in.npz", **given)  # type: ignore[arg-type]
    at = ("--inputs", tmp_path / "in.npz")
    assert assay(monkeypatch, "check", path, *at, "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "on values" in table and "traps alike" in table, table
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built", *at) == 0
    manifest = json.loads((tmp_path / "built" / "certificate" / "manifest.json").read_text())
    assert manifest["model"]["given"] == sorted(given)
    assert assay(monkeypatch, "verify", tmp_path / "built", "--model", path) == 0
    manifest["model"]["given"] = []
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "built" / "certificate" / "manifest.json").write_text(text)
    assert assay(monkeypatch, "verify", tmp_path / "built") in (1, 2)  # where others are drawn it may not run at all
