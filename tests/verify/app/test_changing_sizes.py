"""Sizes that an arm or an iteration tells, through the command line: checked, built, and run by a user's C."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import indent

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.exported.loops import MODELS
from tests.lower.liveness.changing_programs import HEAD, text_of
from tests.verify.app.test_cli import assay
from tests.verify.app.test_loops import held


@pytest.mark.row("J15", "J13", "R21")
@pytest.mark.parametrize("name", ["growing", "counting", "choosing"])
def test_models_go_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(MODELS[name](), path := tmp_path / f"{name}.onnx")
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "measured size" in table and "at rows = 0, 1, 2, 7; C bit for bit the machine's" in table, table
    assert ("room for loop.n up to 1024" in table) is (name == "counting"), table


@pytest.mark.row("J15", "R17")
@pytest.mark.parametrize("name", ["nested", "loop_in_a_loop"])
def test_texts_go_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / f"{name}.py").write_text(text_of(name))
    assert assay(monkeypatch, "check", path) == 0
    table = held(capsys)
    assert "measured size" in table and " = 0, 1, 2" in table and "every arm taken" in table, table


def test_what_is_built_returns_the_size_or_says_that_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "growing.py").write_text(text_of("growing"))
    assert (
        assay(monkeypatch, "build", path, "-o", tmp_path / "built", "--bound", "grow.n=0..6", "--bound", "p=0..4") == 0
    )
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text("""#include "growing.h"
#include <stdio.h>
int main(void)
{
    static unsigned char workspace[GROWING_WORKSPACE_BYTES];
    int32_t x[2] = {7, 8}, y[6], top;
    for (top = 3; top < 6; ++top) {
        int64_t k = -1, i;
        int status = growing_run(2, &top, x, y, &k, workspace);
        printf("%d:", status == GROWING_OK ? 0 : status == GROWING_BAD_SIZE ? 1 : 2);
        for (i = 0; status == GROWING_OK && i < k; ++i) {
            printf(" %d", (int)y[i]);
        }
        printf("\\n");
    }
    return 0;
}
""")
    subprocess.run(
        ["cc", "-std=c99", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall", "-Werror", f"-I{tmp_path / 'built'}"]
        + [str(tmp_path / "main.c"), str(tmp_path / "built" / "growing.c"), "-lm", "-o", str(tmp_path / "main")],
        check=True,
    )
    done = subprocess.run([str(tmp_path / "main")], check=True, capture_output=True, text=True)
    assert done.stdout == "0: 7 8 0 1 2\n0: 7 8 0 1 2 3\n1:\n"


def test_inputs_for_which_there_is_no_room_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "growing.py").write_text(text_of("growing"))
    np.savez(tmp_path / "in.npz", top=np.int32(9), x=np.ones((2, 1), np.int32))
    with_bound = ("check", path, "--inputs", tmp_path / "in.npz", "--bound")
    assert assay(monkeypatch, *with_bound, "grow.n=0..10") == 2
    said = capsys.readouterr().err
    assert "the size grow.n is 11, and the program has room for 10; --bound grow.n=0..N makes more [room.C1]" in said, (
        said
    )
    assert assay(monkeypatch, *with_bound, "grow.n=0..11") == 0
    assert "room for grow.n up to 11" in held(capsys)
    assert assay(monkeypatch, *with_bound, "q=0..11") == 2
    assert "main has no symbolic dim q; it has " in capsys.readouterr().err
    assert assay(monkeypatch, *with_bound, "grow.n=2..11") == 2
    said = capsys.readouterr().err
    assert "grow.n is no size of the inputs" in said and "[limits.C4]" in said, said


TAKEN = """@R.function
def main(
    c: R.Tensor((), "bool"), i: R.Tensor((), "int64"), x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")
) -> R.Tensor((), "float32"):
    if c:
        r = R.negative(x)
    else:
        r = R.negative(y)
    return R.negative(R.take(r, i, axis=0))
"""
CAST = """@R.function
def main(
    c: R.Tensor((), "bool"), x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")
) -> R.Tensor((n,), "float32"):
    if c:
        r = R.negative(x)
    else:
        r = R.negative(y)
    return R.match_cast(r, R.Tensor((n,), "float32"))
"""
COMPRESSED = """<ir_version: 8, opset_import: ["" : 18]>
compressed (float[n] x, float[m] y, bool c) => (float[k] z) {
    r = If (c) <then_branch: graph = t () => (float[p] a) { a = Concat <axis: int = 0> (x, y) },
      else_branch: graph = e () => (float[q] b) { b = Neg (y) }>
    g = Cast <to: int = 9> (r)
    z = Compress <axis: int = 0> (r, g) }"""


@pytest.mark.parametrize(("text", "word"), [(TAKEN, "take"), (CAST, "copy0")], ids=["taken", "cast"])
def test_what_is_handed_to_steps_may_end_the_run_where_sizes_change(
    text: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index that was handed to one step is outside of what another makes, or a size of an arm is not the one that is
    asserted: the C is right to end there, and what has not run is named."""
    (path := tmp_path / "model.py").write_text(HEAD + indent(text, "    "))
    assert assay(monkeypatch, "check", path) == 0
    table = held(capsys)
    assert f"not {word}, whose sizes the run changes, where " in table and " runs ended" in table, table


def test_steps_are_tried_where_a_choice_and_a_vector_tell_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(parser.parse_model(COMPRESSED), path := tmp_path / "model.onnx")
    assert assay(monkeypatch, "check", path) == 0
    table = held(capsys)
    assert "handed to each" in table and "whose sizes the run changes" in table and " measured; " in table, table
