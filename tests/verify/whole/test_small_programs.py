"""Small programs through the command check: never a false FAILS, never a fault of ours, and the right refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.inputs import read_npz
from tests.verify.app.test_cli import assay
from tests.verify.whole import small_onnx_programs, small_text_programs
from tests.verify.whole.command_trials import command
from tests.verify.whole.small_text_programs import Small

ALL: list[Small] = [*small_text_programs.programs(), *small_onnx_programs.programs()]
FIRST = (
    "a tuple in a tuple",
    "a tuple in a tuple comes in",
    "a function handed to a function",
    "a size of zero in a tuple",
    "LSTM of twenty",
    "RNN of one number",
    "ScatterElements into what is computed",
    "Loop of a number that is given",
    "a local function that calls itself",
    "If whose branches differ in size",
    "main calls itself with a tuple",
    "local functions whose results have sizes around them",
    "one recursive function in another, lifted",
    "strings",
)
"""Those that `check` once got wrong, and others that are kept for what they say."""
SAMPLE = [p for i, p in enumerate(ALL) if p.name in FIRST or i % (16 if p.says == "0" else 5) == 0]
"""What is refused is quick; of what is lowered whole, some."""


def written(small: Small, folder: Path) -> Path:
    if isinstance(small, small_onnx_programs.SmallModel):
        path = folder / "p.onnx"
        onnx.save(small.model(), path)
    else:
        path = folder / "p.py"
        path.write_text(small.text, "utf-8")
    return path


def holds(small: Small, folder: Path) -> None:
    """The command says what the table says."""
    done = command(0, ("check", str(written(small, folder)), *small.options))
    if small.says == "0":
        assert (done.code, done.wrong, done.err) == (0, "", ""), done.out + done.err
    elif small.says.startswith("vm "):
        assert (done.code, done.wrong, done.err) == (0, "", ""), done.out + done.err
        assert "no plan can have it" in done.out and f"[{small.says[3:]}]" in done.out, done.out
    else:
        assert done.code == 2 and done.label.startswith(small.says) and "FAILS" not in done.out, done.out + done.err


def test_names_are_distinct() -> None:
    assert len({(type(p), p.name) for p in ALL}) == len(ALL) >= 180


@pytest.mark.parametrize("small", SAMPLE, ids=lambda p: p.name)
def test_a_small_program(small: Small, tmp_path: Path) -> None:
    holds(small, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("small", ALL, ids=lambda p: p.name)
def test_every_small_program(small: Small, tmp_path: Path) -> None:
    holds(small, tmp_path)


@pytest.mark.parametrize(("c", "right"), [(True, [-1, -2, -3, -4]), (False, [-1, -2])])
def test_branches_of_different_sizes_run(
    c: bool, right: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """(bool c, float[4] x) => (float[n] y) { h = Neg(x) y = If (c) <then_branch = t () => (float[4] a) { a = \
Identity(h) }, else_branch = e () => (float[2] b) <int64[1] s = {0}, int64[1] f = {2}> { b = Slice(h, s, f) }> }"""
    path = written(small_onnx_programs.SmallModel("", "0", text), tmp_path)
    np.savez(tmp_path / "in.npz", c=np.array(c), x=np.float32([1, 2, 3, 4]))
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz") == 0
    assert read_npz(tmp_path / "out.npz")["y"].tolist() == right
