"""Functions as backends, and backends by MODULE:NAME (specs/verify.md, "Backends")."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import assay
from assay.semantics.errors import Invalid
from assay.verify.api.judge import judge
from assay.verify.backends import Isolated, backend, subject_of_model
from assay.verify.backends.functions import RunFunction, as_backend, is_run
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.registry import is_place, require_known
from assay.verify.fuzz.rerun import check_again, rerun
from assay.verify.oracle import judge_backend
from tests.verify.app.test_cli import assay as exit_code

TEXT = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2,3] x, float[3,2] w) => (float[2,2] y) { a = MatMul(x, w) y = Relu(a) }"""
INPUTS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 3, "w": np.ones((3, 2), np.float32)}
MODULE = """
import os, sys, time
import numpy as np
from onnx.reference import ReferenceEvaluator

print("noise of the module")

def run(model, inputs):
    print("noise of the run")
    os.write(1, b"and past Python")
    return ReferenceEvaluator(model).run(None, inputs)

def raw(model: bytes, inputs):
    assert isinstance(model, bytes)
    return ReferenceEvaluator(model).run(None, inputs)

def off(model, inputs):
    return {o.name: v + 1 for o, v in zip(model.graph.output, run(model, inputs))}

def refuses(model, inputs):
    raise NotImplementedError("no MatMul")

def dies(model, inputs):
    os._exit(3)

def sleeps(model, inputs):
    time.sleep(60)

class Whole:
    name = "whole"
    accepts = ["flushes"]

    def prepare(self, subject, wanted):
        return lambda inputs: dict(zip(wanted, ReferenceEvaluator(subject.model).run(list(wanted), inputs)))

class Unnamed(Whole):
    @property
    def name(self):
        raise KeyError("name")

class Misspelt(Whole):
    accepts = ["flush"]

number = 3
"""


@pytest.fixture
def model() -> onnx.ModelProto:
    return parser.parse_model(TEXT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto) -> Path:
    """A working directory with a model, and a module of backends that is nowhere else on the path."""
    (tmp_path / "by_place.py").write_text(MODULE)
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_a_function_of_a_model_and_inputs() -> None:
    def run(model: Any, inputs: Any, level: int = 3) -> None: ...

    def factory() -> None: ...

    def options(level: int = 3, other: int = 4) -> None: ...

    class Called:
        def __call__(self, model: Any, inputs: Any) -> None: ...

    assert is_run(run) and is_run(Called()) and is_run(functools.partial(run, level=4)) and is_run(lambda m, i: 3)
    for other in (factory, options, Called, lambda m: m, lambda m, i, j: m, 3, backend("numpy"), print):
        assert not is_run(other)


@pytest.mark.parametrize("way", [list, tuple, lambda v: {"y": v[-1]}, lambda v: v[0]])
def test_what_a_function_may_give(model: onnx.ModelProto, way: Any) -> None:
    verdict = judge_backend(
        subject_of_model(model), RunFunction("f", lambda m, i: way(ReferenceEvaluator(m).run(None, i))), INPUTS
    )
    assert verdict.outcome == "right"


def test_it_is_asked_for_intermediate_tensors_with_their_types(model: onnx.ModelProto) -> None:
    seen = []

    def run(given: onnx.ModelProto, inputs: Any) -> Any:
        onnx.checker.check_model(given, full_check=True)
        seen.append([(o.name, [d.dim_value for d in o.type.tensor_type.shape.dim]) for o in given.graph.output])
        results = ReferenceEvaluator(given).run(None, inputs)
        del given.graph.node[:]  # it is its own
        return results

    verdict = judge_backend(subject_of_model(model), RunFunction("f", run), INPUTS)
    assert verdict.outcome == "right" and verdict.judged == 2
    assert [("y", [2, 2])] in seen and [("a", [2, 2]), ("y", [2, 2])] in seen


def test_a_function_declares_by_its_attributes(model: onnx.ModelProto) -> None:
    def run(given: Any, inputs: Any) -> Any:
        raise LookupError("no kernel")

    run.refuses = LookupError  # type: ignore[attr-defined]
    assert InProcess(RunFunction("f", run)).declared.package == "tests"
    report = assay.check(model, INPUTS, backends=run, stop_after="import")
    assert report.verdicts == {"run": "refused"}
    run.operators = ["MatMul"]  # type: ignore[attr-defined]
    [line] = [line for line in assay.check(model, backends=run, stop_after="import").lines if line.stage == "run"]
    assert line.evidence.detail == "the backend run cannot run this model: it does not take Relu"


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (3, "gives a int; tensors by name are wanted"),
        ([], "gives 0 tensors; those of y are wanted"),
        ({1: np.zeros(2)}, "gives a tensor by the name 1"),
        ({"y": [[1], [1, 2]]}, "gives 'y' as what is no tensor: ValueError: "),
        ([np.array([{}])], "gives 'y' as what is no tensor: Garbled: an array of objects, such as dict"),
        ([np.zeros(2, "M8[s]")], "what is no tensor: Garbled: an array of datetime64[s]"),
    ],
)
def test_what_is_no_tensor(model: onnx.ModelProto, gives: Any, words: str) -> None:
    with pytest.raises(Invalid, match=r"the backend f .*\[backend\.C7\]") as wrong:
        judge_backend(subject_of_model(model), InProcess(RunFunction("f", lambda m, i: gives)), INPUTS)
    assert words in wrong.value.message


def test_another_order_of_bytes_is_a_tensor(model: onnx.ModelProto) -> None:
    def run(given: Any, inputs: Any) -> Any:
        return [v.astype(">f4") for v in ReferenceEvaluator(given).run(None, inputs)]

    assert judge_backend(subject_of_model(model), RunFunction("f", run), INPUTS).outcome == "right"


# --- MODULE:NAME --------------------------------------------------------------------------------------------------


def test_names_that_are_places() -> None:
    assert is_place("mine:run") and is_place("a.b:C.d") and is_place("é:ü")
    for name in ("onnxruntime:none", "onnxruntime:al", "mine", ":run", "mine:", "a:b:c", "1a:b", "../a:b", "a/b:c"):
        assert not is_place(name)
    require_known("no_such_module:run")  # nothing is imported here
    with pytest.raises(Invalid, match=r"no backend 'onnxruntime:al'; there are .* or MODULE:NAME.*\[backend\.C3\]"):
        require_known("onnxruntime:al")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("run", 0, "2 tensors right on the backend's own operands"),
        ("dies", 1, "the process of backend by_place:dies died with exit code 3"),
    ],
)
def test_a_backend_at_a_place(
    folder: Path, name: str, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ("check", "m.onnx", "--backend", f"by_place:{name}", "--stop-after", "import", "--json")
    assert exit_code(monkeypatch, *command) == code
    answer = json.loads(capfd.readouterr().out)  # what the backend prints is not in it
    assert words in answer["lines"][-1]["detail"] + answer["lines"][-1]["did"]
    assert "by_place" not in sys.modules, "it is imported in its own process"


def test_several_in_one_process(folder: Path) -> None:
    subject = subject_of_model(onnx.load("m.onnx"))
    with Isolated("by_place:Whole") as there:
        assert there.accepts.flushes and not there.accepts.splits and there.accepts.wider
        for name, outcome in (("Whole", "right"), ("raw", "right"), ("off", "wrong")):
            there.name = f"by_place:{name}"
            assert judge_backend(subject, there, INPUTS).outcome == outcome
        there.name = "by_place:refuses"
        with pytest.raises(Invalid, match=r"cannot run this model: NotImplementedError: no MatMul \[backend\.C2\]"):
            judge_backend(subject, there, INPUTS)
        for name, words in NONE_THERE.items():
            there.name = name
            vars(there).pop("accepts", None)
            with pytest.raises(Invalid) as wrong:
                there.require()
            assert wrong.value.label == "backend.C4" and words in wrong.value.message
    assert "by_place" not in sys.modules


NONE_THERE = {
    "by_place:number": "by_place:number is a int; an object with `name` and `prepare(subject, wanted)`, or a function",
    "by_place:zilch": "module 'by_place' has no attribute 'zilch'",
    "by_place:Unnamed": "does not load: KeyError: 'name'",
    "by_place:Misspelt": "the backend whole: it accepts 'flush'; there is kept-wider, flushes, splits, tf32, bf16-sums",
    "nowhere:run": "No module named 'nowhere'",
}


def test_a_place_of_no_backend(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "check", "m.onnx", "--backend", "by_place:zilch") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert NONE_THERE["by_place:zilch"] in said and "[backend.C4]" in said


def test_reduce_takes_a_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(monkeypatch, "reduce", "m.onnx", "--backend", "by_place:off", "-o", "reduced") == 1
    assert list((folder / "reduced").glob("*.py"))


def test_what_no_object_may_be() -> None:
    with pytest.raises(Invalid, match=r"it is the class Path; an object with `name`.*\[backend\.C4\]"):
        as_backend(Path, "it", "path", called=False)


# --- assay judge --------------------------------------------------------------------------------------------------


def in_place(model: onnx.ModelProto, inputs: Any) -> Any:
    inputs["x"] += 1
    return ReferenceEvaluator(model).run(None, inputs)


def short(model: onnx.ModelProto, inputs: Any) -> Any:
    return [inputs["x"][:, :2]]


def failing(wrong: Exception) -> Any:
    def run(model: onnx.ModelProto, inputs: Any) -> Any:
        raise wrong

    return run


@pytest.mark.parametrize(
    ("run", "outcome", "words"),
    [
        (in_place, "wrong", "the backend in_place changes its input x"),
        (short, "wrong", "output y element"),
        (failing(assay.Trap("", "no")), "wrong", "fails where it must not: trap: no"),
        (
            failing(NotImplementedError("no")),
            "refused",
            "the backend run cannot run this model: NotImplementedError: no",
        ),
        (failing(KeyError("no")), "died", "the backend run raised KeyError: 'no' (test_functions.py:"),
    ],
)
def test_the_judge_tells_it_too(model: onnx.ModelProto, run: Any, outcome: str, words: str) -> None:
    [verdict] = judge(model, run, kinds="random").verdicts
    assert verdict.outcome == outcome and words in verdict.closing(), verdict.closing()


def test_patience_is_with_the_backend_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it takes to begin its process is not its time."""
    command = ("check", "m.onnx", "--backend", "by_place:sleeps", "--stop-after", "import", "--patience", "0.3")
    assert exit_code(monkeypatch, *command) == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "the backend by_place:sleeps took more than 0.3 seconds, and was ended" in said
    with Isolated("numpy", 1e-6) as there, pytest.raises(Invalid, match=r"took more than 1e-06 seconds.*backend\.C6"):
        there.prepare(subject_of_model(parser.parse_model(TEXT)), ["y"])
    assert exit_code(monkeypatch, "judge", "m.onnx", "--backend", "numpy", "--patience", "-1") == 2
    assert "--patience is -1.0" in capfd.readouterr().err


LIKE_A_STRANGERS = """
import numpy as np

def turned(model, inputs):  # a fault in a shape
    return inputs["x"].T

def masked(model, inputs):  # a fault under a mask
    return np.ma.masked_array(np.maximum(inputs["x"], 0), mask=True)

def no_nan(model, inputs):  # a fault in a special value
    return np.nan_to_num(inputs["x"] * 2, nan=0, posinf=np.inf, neginf=-np.inf)
"""


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("y = Relu(x)", "turned", "wrong: y is Tensor((3, 2), float32) instead of Tensor((2, 3), float32) (ONNX R"),
        ("y = Relu(x)", "masked", "died: the backend strange_ones:masked gives 'y' as what is no tensor: Type"),
        ("y = Add(x, x)", "no_nan", "wrong: y element"),
    ],
)  # fmt: skip
def test_the_first_hour_of_a_stranger(
    text: str,
    name: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a planted fault is called, by the command, and that the fault in NaN is found in so small a tensor."""
    monkeypatch.chdir(tmp_path)
    Path("strange_ones.py").write_text(LIKE_A_STRANGERS)
    onnx.save(
        parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) {{ {text} }}'),
        "m.onnx",
    )
    assert (
        exit_code(monkeypatch, "judge", "m.onnx", "--backend", f"strange_ones:{name}", "--kinds", "specials", "--json")
        == 1
    )
    (who,) = json.loads(capsys.readouterr().out)["backends"]
    found = next(s for s in who["samples"] if s["outcome"] == who["outcome"])
    rule = f" ({found['rule']})" if found["rule"] else ""
    assert f"{who['outcome']}: {found['detail']}{rule}".startswith(words)


def test_a_reduced_test_whose_backend_is_not_found_fails_in_one_line(model: onnx.ModelProto) -> None:
    found = rerun(model, INPUTS, "no_such_module_here:run")
    assert found.outcome == "unusable" and str(found).endswith("its module is looked for on PYTHONPATH")
    with pytest.raises(AssertionError, match="No module named 'no_such_module_here'"):
        check_again(model, INPUTS, "no_such_module_here:run")
