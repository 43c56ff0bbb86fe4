"""`assay run` and `assay prove` on programs whose sizes nobody gives: which are chosen, what is said of them."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay as product
from assay.lower.c import emit
from assay.lower.interfaces import Interface
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import BudgetSpent, Trap
from assay.semantics.graph import function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.verify.app.size_choice import MOST_ELEMENTS, SizeChoice
from assay.verify.c import check_c
from assay.verify.trials.sizes import Sizes
from tests.inputs import read_npz
from tests.verify.app.test_cli import assay
from tests.verify.app.test_loops import write

PAST = """past (float[2,p] past, float[2,s] x, float[2,total] mask) => (float[2,total] y) {
    all = Concat <axis: int = 1> (past, x)
    y = Add (all, mask) }"""
SIXES = "sixes (float[n] x, int64[2] s) => (float[m,6] y) <int64[2] s = {-1, 6}> { y = Reshape (x, s) }"
SEVEN = """seven (float[n] x, int64[1] s) => (float[7] y) <int64[1] s = {7}> {
    a = Concat <axis: int = 0> (x, x)
    y = Reshape (a, s) }"""
WORDS = "words (string[n] w, float[n,m] x) => (string[k] u, float[n,m] y) { u = StringNormalizer (w) y = Neg (x) }"
NONZERO = "nonzero (float[n,m] x) => (int64[2,k] y) { i = NonZero (x) y = Neg (i) }"
BOXES = """boxes (float[b,n,4] boxes, float[b,c,n] scores) => (int64[k,3] y)
    <int64[1] most = {3}, float[1] iou = {0.5}> { y = NonMaxSuppression (boxes, scores, most, iou) }"""
SPEAKING = """@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 3), "float32"), c: R.Tensor((), "bool")):
        _0 = R.print(x, format="x is {}")
        _1 = R.assert_op(c, format="c is false")
        return R.add(x, x)
"""
OUTSIDE = """@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        _0 = R.print(x, format="before")
        z = R.call_packed("told", x, sinfo_args=(R.Tensor(("n",), "float32"),))
        w = R.match_cast(y, R.Tensor(("n",), "float32"))
        return R.add(z, w)
"""
CALLS: list[tuple[int, ...]] = []


def told(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An extern that says when it is called."""
    CALLS.append(x.shape)
    return x


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out = capsys.readouterr()
    return out.out, " ".join(out.err.split())


@pytest.mark.parametrize(
    ("text", "sizes", "others"),
    [
        (PAST, "p = 2, s = 3, total = 5", ()),
        (PAST, "s = 2, total = 4", ("--dim", "p=2")),
        (PAST, "p = 4, s = 37, total = 41", ("--bound", "p=4..4", "--bound", "s=9..")),
        (SIXES, "n = 6", ()),
        (NONZERO, "n = 2, m = 7", ()),
    ],
)
def test_a_model_runs_at_the_first_sizes_that_fit(
    text: str,
    sizes: str,
    others: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are those of the first run of `check`, on the same inputs."""
    path, out = write(tmp_path / "model.onnx", text), tmp_path / "out.npz"
    assert assay(monkeypatch, "run", path, "--seed", 3, "-o", out, *others) == 0
    assert f"sizes chosen: {sizes}, the first tried at which it runs; others with --dim" in said(capsys)[1]
    if not others and text != NONZERO:
        found = product.check(path, seed=3)
        assert found.holds
        assert {n: a.tobytes() for n, a in read_npz(out).items()} == {n: a.tobytes() for n, a in found.outputs.items()}


@pytest.mark.parametrize("interface", [Interface.UNPACKED, Interface.PACKED])
def test_c_without_a_use_of_a_size_compiles(interface: Interface, tmp_path: Path) -> None:
    """With `--bound p=4..4` it is written as 4 wherever it stands."""
    path = write(tmp_path / "model.onnx", PAST)
    planned = product.check(path, bounds={"p": (4, 4)}, stop_after="pool").modules["pool"]
    assert check_c(emit(planned, "past", interface=interface))[1].holds


def test_sizes_of_strings_are_those_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "model.onnx", WORDS)
    assert assay(monkeypatch, "run", path) == 2
    assert "input 'w' is of strings: give it with --inputs" in said(capsys)[1]
    np.savez(tmp_path / "in.npz", w=np.array(["a", "b", "c"]))
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz") == 0
    out, err = said(capsys)
    assert "sizes chosen: m = 2," in err and "x = Tensor((3, 2), float32)" in out and "w = Tensor((3,), string)" in out
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz", "--dim", "n=4") == 2
    assert "axis 0 of input 'w' is 3, expected 4, the value of n by --dim n [input.C4]" in said(capsys)[1]


def test_no_sizes_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that traps at all of them is run at the first; one that has no run at any cannot be used."""
    path = write(tmp_path / "model.onnx", SEVEN)
    assert assay(monkeypatch, "run", path) == 2
    err = said(capsys)[1]
    assert "no sizes were found at which the program can run: at n = 2: " in err and "give --dim n=4" in err, err
    path = tmp_path / "never.py"
    path.write_text(SPEAKING.replace("(c, format", '(R.const(False, "bool"), format'))
    assert assay(monkeypatch, "run", path) == 1
    out, err = said(capsys)
    assert "at none of the sizes tried does it run: at n = 2 or n = 4 or n = 8 or n = 16 and " in err, err
    assert err.endswith("c is false [assert_op.T1]") and out.count("print: x is") == 1
    assert assay(monkeypatch, "run", path, "--json", "--bound", "n=2..4") == 1
    found = json.loads(said(capsys)[0])
    assert (found["holds"], found["exit"], found["trap"], found["sizes"]) == (False, 1, "assertion", {"n": 2})
    assert [p for tried in found["failing"] for p in tried["sizes"]] == [{"n": 2}, {"n": 4}, {"n": 3}]
    assert "c is false" in found["failing"][0]["why"] and found["effects"][0]["kind"] == "print"


def test_a_program_that_always_traps_is_not_waited_for() -> None:
    """Neither its many sizes nor its large ones; a budget that a try would spend ends the search."""
    symbols = [Symbol(name) for name in "abc"]
    tried: list[Sizes] = []

    def at(sizes: Sizes) -> tuple[None, Trap]:
        tried.append(sizes)
        if spends and len(tried) == 3:
            raise BudgetSpent("time is up")
        return None, Trap("assertion", "never")

    for spends in (False, True):
        tried.clear()
        choice: SizeChoice[None] = SizeChoice(symbols, {}, at)
        assert choice.first() is None and len(choice.trapping) == 1
        assert len(tried) <= 100 and all(prod(s.values()) <= MOST_ELEMENTS for s in tried)
        assert (len(tried) == 3) == spends
        tried.clear()
        choice = SizeChoice(symbols, {}, at)  # several, as check takes them
        assert choice.all()[0] == [] and len(choice.trapping) == 1
        assert len(tried) <= 200 and all(prod(s.values()) <= MOST_ELEMENTS for s in tried)
        assert (len(tried) == 3) == spends
    assert SizeChoice(symbols[:1], {symbols[0]: (1 << 30, None)}, at).first() is None and len(tried) > 3  # the first is


def test_what_is_large_is_the_largest_tensor() -> None:
    """Many sizes of which no two meet in a tensor are small; and where something ran, what is large is tried."""
    symbols = [Symbol(name) for name in "abcdefgh"]
    rows = [var(s.name, TensorType((s, 2), FLOAT32)) for s in symbols]
    module = Module({"main": function(rows, tuple_of(*rows))})
    sums: list[Sizes] = []

    def at(sizes: Sizes) -> tuple[None, Trap | None]:
        first, second, both = (sizes[s] for s in symbols[:3])
        fits = first + second == both and all(n > 1 for n in sizes.values())
        sums.extend([sizes] if fits else [])
        return None, None if fits else Trap("assertion", "no sum")

    bounds = {s: (0, 1 << 24) for s in symbols[7:]}
    assert len(SizeChoice(symbols, bounds, at, module).all()[0]) == len(sums) >= 2
    assert any(s[symbols[7]] == 1 << 24 for s in sums) and prod(sums[0].values()) > MOST_ELEMENTS


def test_inputs_are_drawn_until_what_is_asserted_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where sizes are chosen, and there alone: a run whose sizes are known is that of its seed."""
    path = tmp_path / "speaking.py"
    path.write_text(SPEAKING)
    ends = [assay(monkeypatch, "run", path, "--dim", "n=2", "--seed", seed) for seed in range(8)]
    seed = ends.index(1)
    first = ends.index(0, seed)
    capsys.readouterr()
    assert assay(monkeypatch, "run", path, "--seed", seed) == 0
    out, err = said(capsys)
    assert f"the inputs are those of --seed {first}, the first on which what it asserts holds" in err, err
    assert out.count("print: x is") == 1
    assert assay(monkeypatch, "run", path, "--dim", "n=2", "--seed", first) == 0
    assert said(capsys)[0] == out


def test_a_try_calls_no_extern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How far it was tried is said; what comes behind may trap."""
    path = tmp_path / "outside.py"
    path.write_text(OUTSIDE)
    place = ("--extern", f"{__name__}:told")
    for dims, code in (((), 1), (("--dim", "m=2"), 0)):
        CALLS.clear()
        assert assay(monkeypatch, "run", path, *place, *dims) == code
        out, err = said(capsys)
        assert CALLS == [(2,)] and out.count("print: before") == 1
        assert "n = 2" in err and "the first tried at which it comes to its first call of an extern" in err, err
    lines = OUTSIDE.splitlines()
    path.write_text("\n".join([*lines[:4], lines[6], lines[4], lines[5], lines[7]]).replace('("told", x', '("told", w'))
    CALLS.clear()
    assert assay(monkeypatch, "run", path, *place) == 0  # what stands before the call decides
    assert "n = 2, m = 2" in said(capsys)[1] and CALLS == [(2,)]


def test_a_run_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path / "model.onnx", NONZERO), tmp_path / "out.npz"
    assert assay(monkeypatch, "run", path, "--json", "-o", out, "--dim", "n=1", "--bound", "m=3..4") == 0
    found = json.loads(said(capsys)[0])
    assert (found["holds"], found["sizes"], found["chosen"]) == (True, {"n": 1, "m": 4}, ["m"])
    (y,) = found["outputs"]
    assert (y["name"], y["dtype"], y["shape"], y["values"]) == ("y", "int64", [2, 4], read_npz(out)["y"].tolist())
    assert found["inputs"][0]["name"] == "x" and found["output"] == str(out) and len(y["digest"]) == 64
    path = tmp_path / "odd.py"
    path.write_text("""@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 0), "float32")):
        return R.divide(R.max(x, axis=0), R.sum(x)), R.const(float("inf"), "float32")
""".replace("R.divide(R.max(x, axis=0), R.sum(x))", 'R.log(R.const([-1.0, 0.0], "float32"))'))  # fmt: skip
    assert assay(monkeypatch, "run", path, "--json") == 0
    values = [o["values"] for o in json.loads(said(capsys)[0])["outputs"]]
    assert values == [["nan", "-inf"], "inf"]
    for more in (("--text",), ("--passes", "common")):
        assert assay(monkeypatch, "run", path, "--json", *more) == 2
        assert json.loads(said(capsys)[0])["exit"] == 2


@pytest.mark.parametrize("command", ["run", "check", "build", "prove"])
@pytest.mark.parametrize("kind", ["py", "onnx"])
def test_names_and_numbers_of_sizes(
    command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words in every command."""
    path = tmp_path / f"model.{kind}"
    if kind == "py":
        path.write_text("@R.function\ndef main(x: R.Tensor(('n', 'm'), 'float32')):\n    return R.exp(x)\n")
    else:
        write(path, "model (float[n,m] x) => (float[n,m] y) { y = Exp (x) }")
    to = ("-o", tmp_path / "built") if command == "build" else ()
    cases = [
        (("--dim", "k=3"), r"has no symbolic dim '?k'?; it has n, m"),
        (("--bound", "k=3.."), r"has no symbolic dim k; it has n, m [check.C1]"),
        (("--dim", "n=3", "--bound", "k=3.."), r"has no symbolic dim k; it has"),
        (("--dim", "n=5", "--bound", "n=1..4"), "n is 5, and --bound n=1..4 excludes that [cli.C2]"),
    ]
    for options, message in cases:
        assert assay(monkeypatch, command, path, *to, *options) == 2
        err = said(capsys)[1].replace("'k'", "k")
        assert message.replace("'?", "") in err, err


def test_proofs_are_for_all_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of operators of texts and models; scalars that are sizes of the inputs are no other numbers."""
    path = write(tmp_path / "boxes.onnx", BOXES)
    assert assay(monkeypatch, "prove", path, "--function", "strided_slice") == 0
    out = " ".join(said(capsys)[0].split())
    assert "1 tensor function, for every b in 0.., n in 0.., c in 0..: " in out, out
    assert "strided_slice assumes: its sizes are those of boxes (b, n, 4), scores (b, c, n), in every call" in out
    text = tmp_path / "text.py"
    text.write_text(SPEAKING)
    assert assay(monkeypatch, "prove", text) == 0
    assert "for every n in 0..: 6 goals proved" in " ".join(said(capsys)[0].split())
    assert assay(monkeypatch, "prove", text, "--dim", "n=4") == 0
    assert "for every n = 4: " in " ".join(said(capsys)[0].split())
    loop = write(
        tmp_path / "loop.onnx", "loop (float[n] x, float[m] z) => (float[n] y, float[m] w) { y = Exp (x) w = Log (z) }"
    )
    assert assay(monkeypatch, "prove", loop, "--bound", "m=1..9") == 0  # the other kernel has no m
    out = " ".join(said(capsys)[0].split())
    assert "for every n in 0.., m in 1..9" in out and "log assumes: m <= 9" in out and "exp assumes: m" not in out
