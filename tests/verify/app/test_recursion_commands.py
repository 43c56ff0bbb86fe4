"""Recursion that is no tail call, through the command line down to the C: at several depths, and where there are no
more frames."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.lower.recursion.programs import ORDER, SIZES, TREE
from tests.lower.recursion.test_recursion import GROWING
from tests.verify.app.test_cli import assay
from tests.verify.app.test_effects_commands import held_errors
from tests.verify.app.test_loops import held

MAIN = """#include "fib.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *const workspace = aligned_alloc(FIB_WORKSPACE_ALIGN, FIB_WORKSPACE_BYTES + 16);
    for (int64_t n = 0; n < 10; n += n < 3 ? 1 : 3) {
        int64_t found = 0;
        const int status = fib_run(&n, &found, workspace);
        printf("%d %s %d\\n", (int)n, fib_status_text(status), status == FIB_OK ? (int)found : -1);
    }
    free(workspace);
    return 0;
}
"""


@pytest.mark.row("R16")
def test_what_is_built_of_a_recursion_runs_at_every_depth_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word about it; `depth` says how many frames there are, and one more is a status of the C."""
    path = tmp_path / "fib.py"
    path.write_text(TREE.text)
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built", "--passes", "recursion[depth=5]") == 0
    table = held(capsys)
    assert "recursion proved" in table and "fib in 3 parts and at most 5 frames" in table and "1 loop" in table, table
    assert assay(monkeypatch, "verify", tmp_path / "built", "--model", path) == 0
    (tmp_path / "main.c").write_text(MAIN)
    files = [tmp_path / "main.c", tmp_path / "built" / "fib.c"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(
        ["cc", "-std=c11", "-g", *checks, "-I", tmp_path / "built", "-o", tmp_path / "main", *files, "-lm"], check=True
    )
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:5] == [f"{n} all is done {found}" for n, found in ((0, 0), (1, 1), (2, 1), (3, 2), (6, 8))]
    assert said[5:] == ["9 an assertion does not hold -1"]


def test_a_recursion_over_unknown_sizes_goes_to_the_c_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(SIZES.text)
    np.savez(tmp_path / "in.npz", n=np.int64(2))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz", "--bound", "rows=1..3") == 0
    table = held(capsys)
    assert "f and g in 4 parts and at most 64 frames: put back, same value" in table, table
    assert "for all rows in 1 to 3" in table and "at rows = 1, 2, 3" in table, table


def test_a_run_that_goes_deeper_says_how_many_frames_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(ORDER.text)
    np.savez(tmp_path / "in.npz", n=np.int64(4), x=np.ones(3, np.float32))
    at = ("--inputs", tmp_path / "in.npz")
    assert assay(monkeypatch, "check", path, *at, "--passes", "recursion[depth=3]") == 2
    said = held_errors(capsys)
    assert "on these inputs f: recursion takes more than 3 frames" in said and "[recursion.C6]" in said, said
    assert assay(monkeypatch, "check", path, *at, "--passes", "recursion[depth=0]") == 2
    assert "recursion takes depth=N in brackets, not 'depth=0'" in held_errors(capsys)


def test_recursion_over_growing_tensors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(GROWING.text)
    np.savez(tmp_path / "in.npz", n=np.int64(2))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz") == 0
    assert "vm proved" in (said := held(capsys)) and "arguments keep the sizes" in said, said
    assert assay(monkeypatch, "build", path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "built") == 2
    assert "arguments keep the sizes that they began with" in (said := held_errors(capsys)) and "recursion.C2" in said
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz") == 0
