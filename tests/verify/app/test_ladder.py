"""The ladder of verdicts, through the command line: each word, its exit code, and what is never said of what is not
known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from assay.lower.c import CSource, emit
from assay.verify.app import judging
from assay.verify.app.check import CheckRun, Lowering
from assay.verify.backends import Subject, backend as find_backend, subject_of_model
from assay.verify.backends.protocol import cannot
from assay.verify.compare import Comparison
from assay.verify.oracle import Oracle, judge_backend
from assay.verify.trials.as_compiled import WatchedC, step_that_is_outside
from tests.verify.app.ladder import brought, deep, made, run, shallow, sums


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`assay check --json` of a model with a backend: the exit code, `holds`, and the backend's line. It needs no
    lowering."""
    brought(tmp_path, monkeypatch)

    def asked(model: onnx.ModelProto, backend: str, **inputs: Any) -> tuple[int, bool | None, dict[str, Any]]:
        onnx.save(model, tmp_path / "model.onnx")
        given = []
        if inputs:
            np.savez(tmp_path / "in.npz", **inputs)
            given = ["--inputs", tmp_path / "in.npz"]
        capsys.readouterr()
        code = run(
            monkeypatch,
            "check",
            tmp_path / "model.onnx",
            "--backend",
            backend,
            "--stop-after",
            "import",
            "--json",
            *given,
        )
        data = json.loads(capsys.readouterr().out)
        return code, data["holds"], data["lines"][-1]

    return asked


def test_outputs_that_are_all_a_million(ask: Any) -> None:
    """Where the graph's intervals exclude nothing, a piece of it is wrong."""
    code, holds, line = ask(deep(), "million_closed")
    assert (code, holds, line["holds"], line["outcome"]) == (1, False, False, "wrong")
    assert "is 1000000.0, allowed is" in line["detail"] and "inside the graph's bounds" not in line["detail"]


@pytest.mark.parametrize(("backend", "when"), [("later", "(again)"), ("stale", "(others)")])
def test_what_a_backend_keeps_from_run_to_run(backend: str, when: str, ask: Any) -> None:
    code, holds, line = ask(shallow(), backend)
    assert (code, holds) == (1, False) and when in line["detail"] and line["outcome"] == "wrong"
    code, holds, line = ask(deep(), backend)
    # of what it gave on others bounds that follow errors know enough; a million is beyond the spread
    assert (code, holds, line["outcome"]) == (1, False, "implausible" if backend == "later" else "wrong")
    assert ("times their spread" if backend == "later" else "(others)") in line["detail"]
    subject = subject_of_model(deep())
    inputs = Oracle(subject.module).inputs("random")
    assert judge_backend(subject, find_backend("numpy"), inputs).outcome == "right"
    assert judge_backend(subject, find_backend("million"), inputs).outcome == "wrong", (
        "the first operator, on its own operands"
    )


ONE = np.int32([1])
OTHERS: dict[str, tuple[Any, ...]] = {
    "one integer": ([("Neg", "x", "y")], {"x": ONE}),
    "one truth": ([("Not", "x", "y")], {"x": np.array(True)}),
    "equal integers": ([("Neg", "x", "y")], {"x": np.int32([3, 3, 3])}),
    "the end of the range": ([("Neg", "x", "y")], {"x": np.int8([127])}),
    "what any order leaves": ([("ReduceMax", "x", "y")], {"x": np.int32([1, 2])}),
    "truths that are not all": ([("Cast", "x", "c"), ("ReduceMax", "c", "y")], {"x": np.array([True, False])}),
    "what a sign decides": ([("Relu", "x", "y")], {"x": np.float32([-1, -2])}),
}


def nodes_of(text: list[tuple[str, ...]]) -> list[onnx.NodeProto]:
    return [
        helper.make_node(op, list(names[:-1]), [names[-1]], **({"to": onnx.TensorProto.INT32} if op == "Cast" else {}))
        for op, *names in text
    ]


@pytest.mark.parametrize("what", OTHERS)
def test_other_inputs_in_between_are_others(what: str) -> None:
    text, inputs = OTHERS[what]
    out = np.int32 if "c" in text[0] else inputs["x"].dtype
    model = made(nodes_of(text), {n: (a.dtype, a.shape) for n, a in inputs.items()}, {"y": (out, None)})
    subject = subject_of_model(model)
    assert judge_backend(subject, find_backend("numpy"), inputs).unseen == ""
    verdict = judge_backend(subject, Stays(), inputs)
    assert verdict.outcome == "wrong" and verdict.detail.startswith("on other inputs in between, ")


class Stays:
    """Gives what it gave first."""

    name = "stays"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Any:
        run, kept = find_backend("numpy").prepare(subject, wanted), {}  # type: ignore[var-annotated]

        def again(inputs: Mapping[str, Any]) -> Any:
            return kept or kept.update(run(inputs)) or kept

        return again


def picked(*more: tuple[str, ...]) -> onnx.ModelProto:
    """A table of one element, at the magnitude of i: no other i is in range."""
    table, inputs = [numpy_helper.from_array(np.float32([7]), "table")], {"i": (np.int64, [1])}
    inputs |= {"x": (np.float32, [1])} if more else {}
    nodes = nodes_of([("Abs", "i", "a"), ("Gather", "table", "a", "g"), *more])
    return made(nodes, inputs, {"y" if more else "g": (np.float32, [1])}, table)


def test_where_there_are_no_other_inputs_the_line_says_so(ask: Any) -> None:
    code, _, line = ask(made(nodes_of([("Neg", "x", "y")]), {"x": (np.int32, [1])}, {"y": (np.int32, [1])}), "stale")
    assert code == 1 and "(others), in Neg, tensor y: y element (0,) is -1" in line["detail"]
    code, _, line = ask(picked(), "stale", i=np.int64([0]))
    assert code == 0 and line["data"] == {
        "unseen": "the program fails on all of the 2 sets of other inputs that were tried"
    }
    assert f"not shown is whether it keeps something from run to run: {line['data']['unseen']}" in line["detail"]


def test_what_other_inputs_could_not_show_is_said() -> None:
    inputs = {"i": np.int64([0]), "x": np.float32([1])}
    subject = subject_of_model(picked(("Add", "g", "x", "y")))
    kept = "input i is the same in all runs, for no other value was found that the program takes"
    assert judge_backend(subject, find_backend("numpy"), inputs).unseen == kept
    assert judge_backend(subject, Stays(), inputs).outcome == "wrong"
    same = subject_of_model(made(nodes_of([("Sub", "x", "x", "y")]), {"x": (np.int32, [1])}, {"y": (np.int32, [1])}))
    assert (
        "output y is right for the other inputs that were tried too" in judge_backend(same, Stays(), {"x": ONE}).unseen
    )
    empty = subject_of_model(made(nodes_of([("Neg", "x", "y")]), {"x": (np.int32, [0])}, {"y": (np.int32, [0])}))
    assert judge_backend(empty, Stays(), {"x": ONE[:0]}).unseen == "no input has another value of its size"


def test_other_inputs_that_a_backend_refuses() -> None:
    class Picky(Stays):
        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Any:
            def run(inputs: Mapping[str, Any]) -> Any:
                if inputs["x"] != ONE:
                    raise cannot("picky", "one is wanted")
                return {"y": -ONE}

            return run

    subject = subject_of_model(made(nodes_of([("Neg", "x", "y")]), {"x": (np.int32, [1])}, {"y": (np.int32, [1])}))
    verdict = judge_backend(subject, Picky(), {"x": ONE})
    assert verdict.outcome == "right" and verdict.unseen == "it refuses other inputs"


@pytest.mark.parametrize(
    ("backend", "code", "outcome", "word"),
    [
        ("refuses", 5, "refused", "no licence"),
        ("dies", 1, "died", "SIGABRT"),
        ("sleeps", 1, "late", "took more than 1 seconds"),
    ],
)
def test_a_backend_that_gives_nothing(
    backend: str, code: int, outcome: str, word: str, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "PATIENCE", 1.0 if backend == "sleeps" else 60.0)
    found, holds, line = ask(shallow(), backend)
    assert (found, holds, line["outcome"]) == (code, None if code == 5 else False, outcome) and word in line["detail"]


@pytest.mark.parametrize("stage", ["import", "legalize", "c", "compare"])
def test_who_is_named_is_judged_behind_the_last_stage(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lowering that is stopped early is no reason to say of a wrong output that all holds."""
    onnx.save(made(nodes_of([("Neg", "x", "y")]), {"x": (np.int32, [1])}, {"y": (np.int32, [1])}), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=ONE)
    np.savez(tmp_path / "out.npz", y=ONE)
    options = ("--inputs", tmp_path / "in.npz", "--expected", tmp_path / "out.npz", "--stop-after", stage, "--json")
    assert run(monkeypatch, "check", tmp_path / "m.onnx", *options) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is False and [line["stage"] for line in answer["lines"][-2:]] == [stage, "expected"]


ROWS = np.array([[2**31 - 1, 5], [1, 2], [3, 4]], np.int32)


@pytest.mark.parametrize(
    ("backend", "code", "outcome"),
    [("saturates", 0, "open"), ("seven", 1, "wrong"), ("saturates_and_more", 1, "wrong")],
)
def test_what_the_standard_leaves_open(backend: str, code: int, outcome: str, ask: Any) -> None:
    """A sum that is out of range may be the end of the range. It is not 7; and what is wrong beside it is wrong."""
    found, holds, line = ask(sums(), backend, x=ROWS)
    assert (found, holds, line["outcome"]) == (code, code == 0, outcome)
    if outcome == "open":
        assert (
            "overflow: an integer result is out of the range" in line["detail"]
            and "ONNX ReduceSum is silent" in line["detail"]
        )
    else:
        assert (
            "y element (0,) is 7" in line["detail"]
            if backend == "seven"
            else "y element (2,) is 8, allowed is 7" in line["detail"]
        )


def test_elements_that_are_open_for_several_reasons(ask: Any) -> None:
    """2**31 is out of range, (-2)**-1 is 0, 0**-1 has no value; on the inputs in between (-2)**-0.5 is NaN."""
    power = made(
        [helper.make_node("Pow", ["a", "b"], ["y"])],
        {"a": (np.int32, [3]), "b": (np.float32, [3])},
        {"y": (np.int32, [3])},
    )
    code, _, line = ask(power, "x86", a=np.int32([2, -2, 0]), b=np.float32([31, -1, -1]))
    assert (code, line["outcome"]) == (0, "open"), line
    assert (
        "but for 2 elements left open" in line["detail"]
        and "2 elements as the standard leaves open: overflow" in line["detail"]
    )


def test_what_comes_of_an_open_element_is_open() -> None:
    """With the tensor between shown and not shown; of the other elements nothing is open."""
    subject = subject_of_model(sums(more=True))
    oracle = Oracle(subject.module, subject.tensors)
    open_, wrong = np.array([-(2**31), 4, 8], np.int32), np.array([-(2**31), 4, 9], np.int32)
    assert oracle.judge({"x": ROWS}, {"z": open_}).outcome == "open"
    assert oracle.judge({"x": ROWS}, {"z": wrong}).outcome == "wrong"
    theirs = {"y": np.array([2**31 - 1, 3, 7], np.int32), "z": open_}
    assert oracle.judge({"x": ROWS}, {"z": open_}, theirs).outcome == "open"
    assert oracle.judge({"x": ROWS}, {"z": open_ - 1}, {**theirs, "z": open_ - 1}).outcome == "wrong"


def reduced(monkeypatch: pytest.MonkeyPatch, folder: Path, model: onnx.ModelProto, backend: str, **inputs: Any) -> int:
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "in.npz", **inputs)
    return run(
        monkeypatch,
        "reduce",
        folder / "model.onnx",
        "--backend",
        backend,
        "-o",
        folder / "out",
        "--limit",
        "1",
        "--inputs",
        folder / "in.npz",
    )


def test_reduce_says_which_of_them_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brought(tmp_path, monkeypatch)
    assert reduced(monkeypatch, tmp_path, deep(), "million_closed") == 5
    assert "nothing to reduce (6 undecided)" in capsys.readouterr().out
    assert reduced(monkeypatch, tmp_path, shallow(), "refuses") == 5
    assert "refused: " in capsys.readouterr().out
    assert reduced(monkeypatch, tmp_path, sums(), "saturates") == 0
    assert "nothing to reduce (6 right)" in capsys.readouterr().out
    assert reduced(monkeypatch, tmp_path, sums(), "saturates", x=ROWS) == 0
    said = capsys.readouterr().out
    assert "open: open (rebased)" in said and "nothing to reduce" not in said, "what is open is made smaller too"


def test_a_campaign_that_shows_nothing_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brought(tmp_path, monkeypatch)
    options = ("--examples", 2, "--jobs", 1, "--size", 2, "--operators", "add,multiply", "--features", "", "--json")
    assert run(monkeypatch, "fuzz", "--backend", "refuses", *options) == 5
    assert json.loads(capsys.readouterr().out)["holds"] is None
    assert run(monkeypatch, "fuzz", "--backend", "numpy", *options) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    options = ("--examples", 40, "--jobs", 1, "--size", 1, "--operators", "nn.relu", "--features", "", "--json")
    assert run(monkeypatch, "fuzz", "--backend", "zeros", *options) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is True and answer["kinds"]["open"], "what is open is no failure"


TIES = np.array([1, 3, 5, 7, -1, 9, 4.5, 11], np.float32)


def quantized() -> onnx.ModelProto:
    values = [numpy_helper.from_array(np.array(v), n) for n, v in (("s", np.float32(2)), ("z", np.uint8(3)))]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    return made([node], {"x": (np.float32, [8])}, {"y": (np.uint8, [8])}, values)


def test_an_exact_quotient_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a step is a tie, which goes to the even number: no other way of rounding is right, and this one is no
    guess."""
    onnx.save(quantized(), tmp_path / "q.onnx")
    np.savez(tmp_path / "in.npz", x=TIES)
    ways = {
        "even": np.rint,
        "up": lambda v: np.floor(v + 0.5),
        "down": lambda v: np.ceil(v - 0.5),
        "away": lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5),
    }
    found = {}
    for name, way in ways.items():
        np.savez(tmp_path / "out.npz", y=np.clip(way(TIES / 2) + 3, 0, 255).astype(np.uint8))
        arguments = (
            "check",
            tmp_path / "q.onnx",
            "--inputs",
            tmp_path / "in.npz",
            "--expected",
            tmp_path / "out.npz",
            "--json",
        )
        code = run(monkeypatch, *arguments)
        found[name] = code, json.loads(capsys.readouterr().out)["lines"][-1]["outcome"]
    assert found == {"even": (0, "right"), "up": (1, "wrong"), "down": (1, "wrong"), "away": (1, "wrong")}


def test_a_wrong_function_of_the_platform_shows_where_the_graph_excludes_nothing() -> None:
    """Only the C as its users compile it has it, and no interval of an output would tell."""

    def planted(*given: Any) -> CSource:
        source = emit(*given)
        changed = re.sub(r"(#else\n    return )sinf\((\w+)\)", r"\1cosf(\2)", source.source)
        assert changed != source.source
        return replace(source, source=changed)

    run = CheckRun(Lowering(deep(), "m"))
    line = list(run.lines())[-1]
    assert (
        line.evidence.holds
        and "with the platform's libm each step within its operator's bounds" in line.evidence.detail
    )
    compared = run.modules["pool"]
    at = Comparison(run.modules["import"], compared, run.source, None, run.inputs)  # type: ignore[arg-type]
    for emitter, wrong in ((emit, False), (planted, True)):
        watched = WatchedC(emitter(compared, "m")).libm
        said = step_that_is_outside(watched, compared, run.inputs, at.step_outside)
        assert bool(said) == wrong and (not wrong or ", its operands given: " in str(said)), said
