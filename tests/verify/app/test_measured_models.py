"""Models with sizes that only a run tells, through the command line: lowered, compiled, and beside onnxruntime."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.verify.app.test_cli import assay
from tests.verify.app.test_loops import held, write

NONZERO = """nonzero (float[n,3] x) => (int64[2,k] y, float[k] z) {
    y = NonZero (x)
    t = Transpose <perm: ints = [1, 0]> (y)
    z = GatherND (x, t) }"""
UNIQUE = "unique (float[6] x) => (float[k] y) { y = Unique (x) }"
COMPRESS = "compress (float[n,2] x, bool[n] c) => (float[k,2] y) { y = Compress <axis: int = 0> (x, c) }"
BOXES = """boxes (float[1,5,4] b, float[1,2,5] s) => (int64[k,3] y) {
    m = Constant <value: tensor = int64[1] {3}> ()
    i = Constant <value: tensor = float[1] {0.5}> ()
    t = Constant <value: tensor = float[1] {0.1}> ()
    y = NonMaxSuppression (b, s, m, i, t) }"""
TWICE = """twice (float[n] x, float[n] y) => (int64[1,k] a, int64[1,m] b, float s) {
    a = NonZero (x)
    b = NonZero (y)
    c = Concat <axis: int = 1> (a, b)
    f = Cast <to: int = 1> (c)
    s = ReduceSum <keepdims: int = 0> (f) }"""
IN_A_LOOP = """in_a_loop (float[steps,3] x) => (float s) {
    shape = Shape <start: int = 0, end: int = 1> (x)
    zero = Constant <value_ints: ints = [0]> ()
    t = Squeeze (shape, zero)
    yes = Constant <value: tensor = bool {1}> ()
    f = Constant <value_float: float = 0.0> ()
    s = Loop <body: graph = body (int64 i, bool go, float v) => (bool go_on, float r) {
        go_on = Identity (go)
        row = Gather <axis: int = 0> (x, i)
        places = NonZero (row)
        numbers = Cast <to: int = 1> (places)
        a = ReduceSum <keepdims: int = 0> (numbers)
        r = Add(v, a) }> (t, yes, f) }"""
IN_AN_ARM = """in_an_arm (float[n] x, bool c) => (float s) {
    s = If (c) <then_branch: graph = t () => (float a) {
        places = NonZero (x)
        numbers = Cast <to: int = 1> (places)
        a = ReduceSum <keepdims: int = 0> (numbers) },
      else_branch: graph = e () => (float b) { b = ReduceSum <keepdims: int = 0> (x) }> }"""
MODELS = {
    "nonzero": NONZERO,
    "unique": UNIQUE,
    "compress": COMPRESS,
    "boxes": BOXES,
    "twice": TWICE,
    "in_a_loop": IN_A_LOOP,
    "in_an_arm": IN_AN_ARM,
}
USUAL = ("unique", "boxes", "in_a_loop", "in_an_arm")
"""Those of the default suite: an operator with several outputs, a chain of them, and both kinds of control. Others of
its tests have nonzero."""


def run_c(folder: Path) -> str:
    """What main.c prints, beside what was built."""
    files = [folder / "main.c", folder / "built" / "nonzero.c"]
    command = ["cc", "-std=c11", "-I", folder / "built", "-o", folder / "main", *files, "-lm"]
    subprocess.run(command, check=True)
    return subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout


@pytest.mark.row("J13", "R21")
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in USUAL else pytest.mark.campaign) for n in MODELS])
def test_what_only_a_run_tells_goes_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / f"{name}.onnx", MODELS[name])
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "measured size" in table and "bit for bit the machine's" in table and " measured; " in table, table


def test_what_is_built_returns_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's program: room for the most, and the size that came."""
    path = write(tmp_path / "nonzero.onnx", NONZERO)
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built", "--bound", "n=0..4") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text("""#include "nonzero.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const float x[6] = {0.0f, 2.0f, 0.0f, 3.0f, 0.0f, 4.0f};
    int64_t y[12];
    float z[6];
    int64_t count = -1;
    int64_t i;
    void *const workspace = aligned_alloc(NONZERO_WORKSPACE_ALIGN, NONZERO_WORKSPACE_BYTES);
    const int status = nonzero_run(2, x, y, z, &count, workspace);
    printf("%s, %d:", nonzero_status_text(status), (int)count);
    for (i = 0; i < count; ++i) {
        printf(" (%d %d) %g", (int)y[i], (int)y[count + i], (double)z[i]);
    }
    free(workspace);
    return status;
}
""")
    assert run_c(tmp_path) == "all is done, 3: (0 1) 2 (1 0) 3 (1 2) 4"


@pytest.mark.parametrize("interface", ["c-packed", "packed"])
def test_a_packed_convention_returns_them_too(
    interface: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such an output is a vector with the room, the size a number behind the outputs. Too little room is refused."""
    path = write(tmp_path / "nonzero.onnx", "nonzero (float[n,3] x) => (int64[2,k] y) { y = NonZero (x) }")
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built", "--interface", interface) == 0
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text("""#include "nonzero.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    float x[6] = {0.0f, 2.0f, 0.0f, 3.0f, 0.0f, 4.0f};
    int64_t y[12];
    int64_t count = -1;
    int64_t sizes[3] = {2, 3, 12};
    int64_t bytes = 4096;
    void *const workspace = aligned_alloc(NONZERO_WORKSPACE_ALIGN, (size_t)bytes);
    struct assay_tensor tensors[4] = {
        {x, 1, 0, 2, 2, 32, 1, sizes, NULL, 0}, {y, 1, 0, 1, 0, 64, 1, sizes + 2, NULL, 0},
        {&count, 1, 0, 0, 0, 64, 1, NULL, NULL, 0}, {workspace, 1, 0, 1, 1, 8, 1, &bytes, NULL, 0}};
    struct assay_value args[4], result;
    int k, status;
    for (k = 0; k < 4; ++k) {
        args[k].code = ASSAY_CODE_TENSOR;
        args[k].zero = 0u;
        args[k].as.pointer = &tensors[k];
    }
    status = nonzero_run(NULL, args, 4, &result);
    printf("%s, %d:", nonzero_status_text(status), (int)count);
    for (k = 0; k < count; ++k) {
        printf(" (%d %d)", (int)y[k], (int)y[count + k]);
    }
    sizes[2] = 11;
    status = nonzero_run(NULL, args, 4, &result);
    printf("; %d %s", status == NONZERO_WRONG_SHAPE, result.as.text);
    free(workspace);
    return 0;
}
""")
    assert run_c(tmp_path) == ("all is done, 3: (0 1) (1 0) (1 2); 1 y: int64[2][count_1_0] in int64[n * 6] or larger")


def test_why_no_run_has_some_sizes_is_told_as_a_certificate_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At n = 0 it traps; at numbers the model is imported anew, and what it says of the trap has other dims."""
    model = "topk (float[3,n] x, int64[1] k) => (float[3,m] y, int64[3,m] i) { y, i = TopK <axis: int = 1> (x, k) }"
    path = write(tmp_path / "topk.onnx", model)
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built") == 0
    assert "not run at n = 0" in " ".join(capsys.readouterr().out.split())
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
