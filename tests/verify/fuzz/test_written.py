"""Failures are written as ONNX, as text and as tests that run by themselves; operators go by ONNX's names too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.app.cli import main
from assay.verify.backends import Subject
from assay.verify.fuzz import targets
from assay.verify.fuzz.campaign import Campaign, Plan, replay_corpus
from assay.verify.fuzz.cases import EXPORTED, OWN, SWITCHES, Recipe, again, campaign_example, fitting
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.onnx_names import (
    OnnxExample,
    chosen_operators,
    examples_of,
    exported,
    ours,
    undeclared,
    varied_example,
)
from assay.verify.fuzz.targets import BackendTarget
from assay.verify.fuzz.worker import ExampleReport, Task, judge_examples
from assay.verify.strategies.choosing import Tape
from tests.places import ROOT

BACKEND = """
import numpy as np

def low(v):
    return np.minimum(v, 132) if v.dtype == np.float32 else v

class Saturating:
    name = "saturating"
    def prepare(self, subject, wanted):
        from assay.verify.backends import backend
        from assay.verify.backends.protocol import cannot
        if list(wanted) != subject.outputs:
            raise cannot("saturating", "no intermediate tensors")
        if FAULT and "Relu" in {n.op_type for n in subject.model.graph.node}:
            run = backend("numpy").prepare(subject, wanted)
            return lambda inputs: {n: low(v) for n, v in run(inputs).items()}
        return backend("numpy").prepare(subject, wanted)
"""


class Here:
    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        for task in tasks:
            yield from judge_examples(task)


def own_backend(folder: Path, fault: bool) -> None:
    (folder / "planted_saturating.py").write_text(BACKEND.replace("FAULT", str(fault)))
    info = folder / "saturating-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: saturating\\nVersion: 1.0\\n".replace("\\n", chr(10)))
    (info / "entry_points.txt").write_text("[assay.backends]" + chr(10) + "saturating = planted_saturating:Saturating")


def run_tests(folder: Path, backend: Path | None) -> tuple[int, str]:
    path = os.pathsep.join([*([str(backend)] if backend else []), str(ROOT / ".src")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", str(folder)],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_failure_is_a_model_and_a_test_that_follows_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 132 it saturates: one element is left, 133; the test fails, passes when it is mended, and is skipped with
    one line where the backend is not there."""
    own_backend(tmp_path, True)
    monkeypatch.syspath_prepend(tmp_path)
    corpus = Corpus(tmp_path / "corpus")
    recipe = Recipe(("nn.relu",), 3, ())
    campaign = Campaign(Plan(("saturating",), recipe, examples=30), corpus)
    campaign.run(Here())
    assert campaign.done.kinds["wrong"] and len(campaign.new) == len(list(corpus.failures()))
    stored = list(corpus.failures())[0]
    program, inputs = stored.program()
    assert isinstance(program, onnx.ModelProto) and [n.op_type for n in program.graph.node] == ["Relu"]
    arrays = [*inputs.values(), *(onnx.numpy_helper.to_array(t) for t in program.graph.initializer)]
    assert [float(x) for a in arrays for x in np.ravel(a)] == [133.0]
    name = stored.path.name.removesuffix(".json")
    files = {p.name for p in corpus.directory.iterdir()}
    assert {f"{name}.onnx", f"{name}.npz", f"{name}.py", f"{name}.json"} <= files
    assert all(r.still for r in replay_corpus(corpus))
    code, said = run_tests(corpus.directory, tmp_path)
    assert code == 1 and "allowed is 133.0" in said and f"{len(campaign.new)} failed" in said, said
    own_backend(tmp_path, False)
    code, said = run_tests(corpus.directory, tmp_path)
    assert code == 0 and f"{len(campaign.new)} passed" in said, said
    code, said = run_tests(corpus.directory, None)
    lines = [x for x in said.split(chr(10)) if x.startswith("SKIPPED")]
    assert code == 0 and len(lines) == len(campaign.new) and all("no backend 'saturating'" in x for x in lines), said


def test_what_onnx_cannot_say_is_written_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Never:
        name = "never"

        def judge(self, module: object, inputs: object) -> targets.Result:
            return targets.Result("wrong", "planted", "", "planted")

    monkeypatch.setitem(targets.OURS, "never", Never())  # type: ignore[arg-type]
    corpus = Corpus(tmp_path)
    Campaign(Plan(("never",), Recipe(("suppress",), 1, ()), examples=1), corpus).run(Here())
    (stored,) = corpus.failures()
    assert not stored.is_model and not list(tmp_path.glob("*.onnx"))
    (test,) = tmp_path.glob("test_*.py")
    assert "load_text(Path(__file__).with_name(" in test.read_text() and test.stem.isidentifier()
    before = test.read_text()
    test.write_text(before + "# mine")
    Campaign(Plan(("never",), Recipe(("suppress",), 1, ()), seed=0, examples=3), corpus).run(Here())
    assert test.read_text() == before + "# mine", "nothing is overwritten"


def test_names_of_onnx() -> None:
    assert chosen_operators(["Softmax", "nn.conv2d"]) == (("nn.softmax", "nn.conv2d"), ())
    assert chosen_operators(["MaxPool"])[0] == ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
    assert chosen_operators(["ConvTranspose", "add"]) == (("add",), ("ConvTranspose",))
    mine, others = chosen_operators(["Conv*"])
    assert mine == ("nn.conv1d", "nn.conv2d", "nn.conv3d") and others == ("ConvTranspose",)
    assert ours("Equal") == ("equal",) and {"equal"} < {
        n for n, s in exported().items() if any("Equal" in x for x in s)
    }
    for wrong, near in (("Sofmax", "near it: Softmax"), ("maxpool", "near it: MaxPool"), ("xyzzy", "of ONNX [")):
        with pytest.raises(Invalid) as said:
            chosen_operators([wrong])
        assert said.value.label == "fuzz.C6" and near in str(said.value)


def test_what_a_backend_declares_is_drawn_from_the_beginning() -> None:
    class Small:
        name = "small"
        operators = ("Add", "Relu", "Constant")

        def prepare(self, subject: Subject, wanted: object) -> object:
            raise AssertionError

    assert {"add", "nn.relu"}.isdisjoint(undeclared(Small.operators)) and "matmul" in undeclared(Small.operators)
    campaign = Campaign(Plan(("values",), Recipe(("add", "nn.relu", "matmul", "exp"), 4, ()), examples=16), None)
    campaign.standings["values"].declared = BackendTarget(Small()).undeclared  # type: ignore[arg-type]
    campaign.run(Here())
    assert campaign.done.operators["add"] > 5 and campaign.done.operators["matmul"] <= 3


def deconvolution() -> OnnxExample:
    node = onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "g", [info("x", 1, [1, 1, 2, 2]), info("w", 1, [1, 1, 2, 2])], [info("y", 1, None)]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])
    zeros = np.zeros((1, 1, 2, 2), np.float32)
    return OnnxExample(model, {"x": zeros, "w": zeros})


def test_an_operator_that_none_of_ours_is() -> None:
    """From ONNX's own examples: other contents, element types, attributes left out; replayed from its choices."""
    recipe = Recipe((), 3, (), examples=(("ConvTranspose", (deconvolution(),)),))
    assert recipe.as_data()["onnx"] == ["ConvTranspose"]
    kinds, attributes = set(), set()
    for number in range(40):
        case = campaign_example(recipe, 0, number)
        assert case.operators == ("ConvTranspose",) and case.model is not None
        kinds |= {a.dtype.name for a in case.inputs.values()}
        attributes.add(len(case.model.graph.node[0].attribute))
        assert again(recipe, case.picks).picks == case.picks
    assert kinds == {"float32", "float64", "float16", "bfloat16"} and attributes == {0, 1}
    simplest = varied_example(Tape(), recipe.examples[0][1])
    assert simplest.inputs["x"].dtype == np.float32 and simplest.inputs["x"].reshape(-1).tolist() == [1, 2, 3, 4]
    campaign = Campaign(Plan(("numpy",), recipe, examples=12), None)
    campaign.run(Here())
    assert campaign.done.operators == {"ConvTranspose": 12} and campaign.done.kinds["right"] > 5


def test_nothing_is_called_that_was_not_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Features that call operators of their own are left out, but where they are asked for: then these are named."""
    given = chosen_operators("Transpose,Relu,Add,Mul".split(","))[0]
    recipe = Recipe(given, 10, fitting(EXPORTED, given))
    assert recipe.switches == ("branches", "names", "symbolic", "named_constants")
    called = {n for number in range(150) for n in campaign_example(recipe, 0, number).operators}
    assert called == {*given}
    assert fitting(SWITCHES, OPERATORS) == SWITCHES
    for feature, own in OWN.items():
        asked = Recipe(given, 20, (feature,))
        called = {n for number in range(150) for n in campaign_example(asked, 0, number).operators}
        assert called - {*given} <= {*own}, "the table names all"
        assert called - {*given}, "the planted fault: it would be called"
    command = ["assay", "fuzz", "--backend", "values", "--examples", "6", "--jobs", "1", "--ops", "Relu,Add"]
    for more, said in (([], False), (["--features", "functions"], True)):
        monkeypatch.setattr(sys, "argv", [*command, *more])
        with pytest.raises(SystemExit):
            main()
        assert ("and, to stay inside domains or for a feature: clip, " in capsys.readouterr().out) == said


def test_the_command_takes_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["assay", "fuzz", "--backend", "values", "--examples", "6", "--jobs", "1", "--features", "", "--json"]
    monkeypatch.setattr(sys, "argv", [*command, "--ops", "Softmax,add"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert set(json.loads(capsys.readouterr().out)["operators"]) <= {"nn.softmax", "add"}
    monkeypatch.setattr(sys, "argv", [*command, "--ops", "Sofmax"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2 and "near it: Softmax" in capsys.readouterr().err


def test_an_operator_of_which_there_is_no_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx.backend.test.case.node.collect_testcases", lambda name: [])
    with pytest.raises(Invalid) as said:
        examples_of("BlackmanWindow")
    assert said.value.label == "fuzz.C7" and "BlackmanWindow" in said.value.message
    examples_of.cache_clear()
