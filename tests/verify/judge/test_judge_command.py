"""`assay judge` as a person meets it: the table, the closing lines, JSON, JUnit, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid
from assay.verify.api.judge import judge
from assay.verify.app.judgement import judge_table
from assay.verify.app.judgement.judge_baseline import Baseline, findings
from assay.verify.app.junit import TestCase, junit
from assay.verify.app.terminal import Screen
from assay.verify.backends import backend, subject_of_model
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict, TensorError
from assay.verify.judge.run import JudgeRun
from assay.verify.oracle import Worst
from tests.places import ROOT
from tests.verify.app.test_cli import assay
from tests.verify.judge.planted import two_outputs

PLANTED = "tests.verify.judge.planted"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(two_outputs(), tmp_path / "two.onnx")
    return tmp_path / "two.onnx"


# --- the command ------------------------------------------------------------------------------------------------------


def test_json_and_junit_name_the_worst_element(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    to = model.with_name("j.xml")
    words = ["judge", model, "--backend", f"{PLANTED}:Off", "--backend", f"{PLANTED}:Refuses", "--backend", "numpy"]
    assert assay(monkeypatch, *words, "--kinds", "random", "--json", "--junit", to) == 1
    found = json.loads(capsys.readouterr().out, parse_constant=lambda x: pytest.fail(f"{x} is no JSON"))
    assert (found["holds"], found["exit"], found["samples"], len(found["digest"])) == (
        False,
        1,
        ["random", "random 2"],
        64,
    )
    off, refuses, right = found["backends"]
    assert [b["outcome"] for b in (off, refuses, right)] == ["wrong", "refused", "right"]
    sample, again = off["samples"]
    assert again["outcome"] == "wrong"
    assert sample["worst"]["index"] == [0, 1] and sample["worst"]["tensor"] == "b" and "Add" in sample["culprit"]
    assert {o["tensor"]: o["outcome"] for o in sample["outputs"]} == {"a": "right", "b": "wrong"}
    assert all(isinstance(o["error"], float) for o in sample["outputs"])
    assert "no such operator here" in refuses["why"] and "refuses this model" in refuses["closing"]
    suites = {s.get("name"): s for s in ElementTree.parse(to).getroot()}
    said = {n: [(t.get("name"), *(c.tag for c in t)) for t in s] for n, s in suites.items()}
    assert said[off["name"]][:2] == [("random: a",), ("random: b", "failure")]
    assert said[refuses["name"]] == [("the model", "skipped")]
    assert said["numpy"] == [(f"{k}: {o}",) for k in ("random", "random 2") for o in "ab"]
    failure = suites[off["name"]][1][0]
    assert "element (0, 1)" in (failure.text or "") and "ONNX Add-14" in (failure.text or "")


def test_what_is_not_there_is_told_before_the_model_is_read(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    gone = model.with_name("no-such-model.onnx")
    for name, said in (("nobody", "no backend 'nobody'"), (f"{PLANTED}:Missing", "is not installed")):
        assert assay(monkeypatch, "judge", gone, "--backend", "numpy", "--backend", name) == 2
        assert said in capsys.readouterr().err
    assert assay(monkeypatch, "judge", model) == 2
    assert "who is judged?" in capsys.readouterr().err


def test_the_lines_of_check_are_tests_too(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.ones((2, 3), np.float32)
    right = backend("numpy").prepare(subject_of_model(two_outputs()), ["a", "b"])({"x": x})
    np.savez(model.with_name("in.npz"), x=x)
    np.savez(model.with_name("out.npz"), a=right["a"], b=right["b"] + 1)
    words = ["--inputs", model.with_name("in.npz"), "--expected", model.with_name("out.npz"), "--stop-after", "import"]
    to = model.with_name("j.xml")
    assert assay(monkeypatch, "check", model, *words, "--junit", to) == 1
    (suite,) = ElementTree.parse(to).getroot()
    assert [(t.get("name"), [c.tag for c in t]) for t in suite] == [("import", []), ("expected", ["failure"])]
    assert "b element" in (suite[1][0].text or "")
    for command in ("check", "judge"):
        place = model.with_name("no-such-directory") / "j.xml"
        assert assay(monkeypatch, command, model, "--backend", "numpy", "--junit", place) == 2
        assert "[output.C1]" in capsys.readouterr().err


# --- baselines --------------------------------------------------------------------------------------------------------


def test_a_baseline_lets_pass_what_it_has(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording that is off in `b`; then in `a` too; then in `b` no more."""
    right = backend("numpy").prepare(subject_of_model(two_outputs()), ["a", "b"])
    x = np.ones((2, 3), np.float32)
    made = {"x": x, **right({"x": x})}
    out, before = model.with_name("out.npz"), model.with_name("before.json")

    def judged(*names: str, more: tuple[object, ...] = ()) -> tuple[int, str]:
        np.savez(out, **{n: v + (n in names) for n, v in made.items()})
        code = assay(monkeypatch, "judge", model, "--recorded", out, *more)
        return code, capsys.readouterr().out

    code, text = judged("b", more=("--json",))
    assert code == 1
    before.write_text(text)
    old = ("--baseline", before)
    code, text = judged("b", more=old)
    assert code == 0 and "0 new, 1 known, 0 mended" in text and "to b (Add sum)" in text
    code, text = judged("a", "b", more=old)
    assert code == 1 and "new since the baseline:" in text and "1 new, 1 known, 0 mended" in text
    code, text = judged(more=(*old, "--json"))
    found = json.loads(text)
    assert (code, found["exit"], found["holds"]) == (0, 0, True)
    assert [f["outcome"] for f in found["baseline"]["mended"]] == ["wrong"]
    assert found["baseline"]["new"] == found["baseline"]["known"] == []

    another = two_outputs()
    another.graph.node[1].op_type = "Abs"
    onnx.save(another, model)
    assert assay(monkeypatch, "judge", model, "--recorded", out, *old) == 2
    assert "is of another model" in capsys.readouterr().err
    for text in ("{", "[]", '{"digest": "", "backends": [{}]}'):
        before.write_text(text)
        assert assay(monkeypatch, "judge", model, "--recorded", out, *old) == 2
        assert "is no baseline" in capsys.readouterr().err
    before.unlink()
    assert assay(monkeypatch, "judge", model, "--recorded", out, *old) == 2
    assert "no such file [judge.C4]" in capsys.readouterr().err


def test_findings_are_of_kinds_and_places() -> None:
    piece = {"title": "p", "verdict": {"outcome": "wrong"}}
    data: dict[str, Any] = {
        "name": "x",
        "outcome": "wrong",
        "samples": [
            {"sample": "random 2", "outcome": "wrong", "pieces": [piece], "outputs": []},
            {"sample": "ties", "outcome": "undecided", "pieces": [], "outputs": []},
        ],
    }
    ended = {"name": "y", "outcome": "died", "samples": []}
    assert [*findings([data, ended])] == [("x", "random", "p", "wrong"), ("y", "", "", "died")]
    old = Baseline(Path("b"), "", findings([ended, {**ended, "name": "gone"}]))
    compared = old.compared([data, {**ended, "outcome": "refused"}])
    assert [f.outcome for f in compared.new] == ["wrong", "refused"] and compared.exit == 1
    assert [f.backend for f in compared.mended] == ["y"]  # nobody judged `gone` again


# --- the table --------------------------------------------------------------------------------------------------------


def error(tensor: str, off: float = 1.0, bound: float = 2.0) -> TensorError:
    return TensorError(tensor, (0, 12, 112, 112), 1.0, 1.5, off, bound, off / 3, 0, 100)


def long_verdict() -> BackendVerdict:
    names = [f"/model/decoder/layers.{i}/self_attn/present_key_values.output_{i}" for i in range(30)]
    errors = [error(n) for n in names[:-1]] + [error(names[-1], 64.0)]
    worst = Worst(names[-1], (0,), 1.0, 0.0, 0.5, 62.0)
    sample = SampleVerdict("cancelling 2", "wrong", "", "it is outside", worst, errors=errors)
    return BackendVerdict("a backend", [SampleVerdict("random", "right", "bounds", "", errors=errors[:3]), sample])


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_and_begins_with_what_is_wrong(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    judge_table.print_verdict(Screen(width=width), long_verdict(), "m.onnx")
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if "0,12,112,112" in line]
    assert len(rows) == judge_table.MOST_ROWS and all(len(line) <= width for line in rows)
    assert rows[0].split()[:3] == ["cancelling", "2", "wrong"] and "output_29" in rows[0] and "64" in rows[0]
    assert "wrong" not in rows[1] and "(9 rows more: 9 right; all with --json)" in lines


def test_what_looks_for_the_pass_is_said_of_tvm_alone(capsys: pytest.CaptureFixture[str]) -> None:
    right = BackendVerdict("tvm", [SampleVerdict("random", "right", "bounds", "", errors=[error("y")])])
    for verdict in (long_verdict(), right):
        judge_table.print_verdict(Screen(width=120), verdict, "m.onnx")
    assert "--per-pass" not in capsys.readouterr().out
    judge_table.print_verdict(Screen(width=120), replace(long_verdict(), name="tvm:FuseOps(1),cpu"), "a model.onnx")
    said = " ".join(capsys.readouterr().out.split())
    assert "assay check 'a model.onnx' --backend 'tvm:FuseOps(1),cpu' --per-pass" in said


def test_mean_errors_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (
        BackendVerdict(n, [SampleVerdict("random", "right", "bounds", "", errors=[error("y", off)])])
        for n, off in (("first", 3.0), ("second", 6.0))
    )
    judge_table.print_end(Screen(width=80), [one, two])
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("mean error of each") + 2].split() == ["random", "y", "1", "2"]


# --- closing lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("right", "x is right on 2 sets of inputs, by bounds of the whole program"),
        ("open", "but for what the standard leaves open, on ties: because"),
        ("wrong", "x is wrong on 1 of 2 sets of inputs (ties), in Add: because (M9.2); right on random"),
        ("implausible", "this rests on how far correct runs lie apart; right on random"),
        ("died", "x died on 1 of 2 sets of inputs (ties), in Add: because"),
        ("late", "x took too long on 1 of 2 sets of inputs (ties)"),
        ("undecided", "by bounds of the whole program; nothing could be told on ties: because"),
        ("unpredictable", "nothing could be told on ties: because"),
        ("refused", "x is right on 1 of 2 sets of inputs, by bounds of the whole program; nothing could be told on"),
    ],
)
def test_the_closing_line(outcome: str, said: str) -> None:
    rests = "bounds" if outcome in ("right", "open") else ""
    told = SampleVerdict("ties", outcome, rests, "because", culprit="Add", rule="M9.2" if outcome == "wrong" else "")
    verdict = BackendVerdict("x", [SampleVerdict("random", "right", "bounds", "within"), told])
    assert said in verdict.closing()


def test_the_closing_line_where_nothing_is_known() -> None:
    told = SampleVerdict("random", "undecided", "", "the bounds exclude nothing")
    said = BackendVerdict("x", [told]).closing()
    assert "x is undecided on 1 of 1 set of inputs (random): the bounds exclude nothing" in said
    assert "nothing known is broken, and not enough is known to say right" in said
    assert BackendVerdict("x", ended="late", why="600 seconds").closing() == "x took too long: 600 seconds"


def test_junit_has_no_character_that_xml_has_not() -> None:
    text = junit("a\x00", [TestCase("s", "n\x07\ud800", "wrong", "<&> \x01"), TestCase("s", "m", "late", "600 s")])
    root = ElementTree.fromstring(text.encode())
    assert (root.get("failures"), root.get("errors"), root.get("tests")) == ("1", "1", "2")
    assert root[0][0][0].text == "wrong: <&> \\x01"


def test_names_in_brackets_are_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, [2])
    names = ["y[/]", "[red]z[/red]"]
    outputs = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in names]
    nodes = [onnx.helper.make_node("Neg", ["x"], [n]) for n in names]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], outputs)), tmp_path / "m.onnx")
    assert assay(monkeypatch, "judge", tmp_path / "m.onnx", "--backend", "numpy", "--kinds", "random") == 0
    said = capsys.readouterr().out
    assert all(n in said for n in names)


# --- what ends it early, and what does not ----------------------------------------------------------------------------


def test_an_answer_that_is_much_too_long_is_that_backends_own_fault(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    words = ["judge", model, "--backend", f"{PLANTED}:Endless", "--backend", "numpy", "--kinds", "random", "--json"]
    assert assay(monkeypatch, *words) == 1
    endless, numpy = json.loads(capsys.readouterr().out)["backends"]
    assert endless["outcome"] == "died" and "bytes; at most 6" in endless["closing"]
    assert numpy["outcome"] == "right"


def test_what_was_found_before_an_interruption_is_written(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: JudgeRun) -> Iterator[BackendVerdict]:
        yield next(whole(self))
        raise KeyboardInterrupt

    whole = JudgeRun.verdicts
    monkeypatch.setattr(JudgeRun, "verdicts", interrupted)
    words = ["judge", model, "--backend", "numpy", "--backend", "numpy:wide", "--kinds", "random", "--json"]
    assert assay(monkeypatch, *words) == 130
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["error"], found["exit"], found["holds"]) == ("interrupted", 130, None)
    assert [b["name"] for b in found["backends"]] == ["numpy"] and "assay: interrupted" in told.err


def quotients(tmp_path: Path) -> Path:
    """A division of whole numbers."""
    a, b, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT64, [4]) for n in "aby")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Div", ["a", "b"], ["y"])], "g", [a, b], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
              tmp_path / "div.onnx")  # fmt: skip
    return tmp_path / "div.onnx"


def test_a_failure_is_open_where_that_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", a=np.array([1, 2, 3, 4]), b=np.array([1, 0, 1, 1]))
    words = ["judge", quotients(tmp_path), "--backend", "onnxruntime", "--inputs", tmp_path / "in.npz", "--json"]
    assert assay(monkeypatch, *words) == 0
    (found,) = json.loads(capsys.readouterr().out)["backends"]
    assert found["samples"][0]["outcome"] == "open"
    assert "fails, as the standard leaves open, division: an integer is divided by 0" in found["samples"][0]["detail"]


def test_data_that_are_made_divide_by_zero_in_the_special_set_at_most(tmp_path: Path) -> None:
    found = judge(str(quotients(tmp_path)), ["numpy"])
    assert len(found.samples) >= 4
    assert all(s.inputs["b"].all() for s in found.samples if s.kind != "specials")


def test_rows_say_wrong_where_what_is_wrong_lies_within_the_model() -> None:
    errors = [TensorError(n, (0,), 1.0, 1.0, 0.0, bound, 0.0, 0, 4) for n, bound in (("a", 2.0), ("b", np.inf))]
    inside = Worst("hidden", (0,), 1.0, 2.0, 2.0, 4.0)
    sample = SampleVerdict("random", "wrong", "", "", inside, errors=errors)
    assert [sample.of_output(n) for n in "ab"] == ["wrong", "wrong"]
    shape = SampleVerdict("random", "wrong", "", "a tensor inside has another shape", culprit="n7", errors=errors)
    assert [shape.of_output(n) for n in "ab"] == ["right", "wrong"]


def test_a_text_that_is_no_onnx_names_the_command_that_gives_it_to_tvm(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        "from tvm.script import ir as I, relax as R, tirx as T\n\n@I.ir_module\nclass M:\n"
        "    @T.prim_func(private=True, s_tir=True)\n"
        '    def half(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):\n'
        "        for i in range(T.int64(4)):\n"
        "            B[i] = A[i] * T.float32(0.5)\n\n"
        "    @R.function\n"
        '    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):\n'
        '        y = R.call_tir(M.half, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))\n'
        "        return y\n",
        "utf-8",
    )
    with pytest.raises(Invalid, match=r"assay check kernel.py --backend tvm --per-pass") as caught:
        judge(file, ["numpy"])
    assert caught.value.label == "onnx_export.C1"


def test_words_that_it_does_not_take_end_in_one_object_too(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--runs", "0"], ["--nonsense"], ["--kinds", "odd"]):
        assert assay(monkeypatch, "judge", model, "--backend", "numpy", *words, "--json") == 2
        found = json.loads(capsys.readouterr().out)
        assert (found["holds"], found["exit"]) == (None, 2) and found["error"]
