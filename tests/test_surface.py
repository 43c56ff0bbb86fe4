"""`import assay`: what the documents say of it, and what it does not load (specs/verify.md, "From Python")."""

from __future__ import annotations

import doctest
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import assay
from assay.semantics.memory import BufferInfo
from assay.verify.app import cli
from tests.places import ROOT

HEAVY = ("hypothesis", "importlib.metadata", "ml_dtypes", "numpy", "onnx", "rich", "typer", "z3")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / ".src")}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [3, 2], [1.0, -1.0, 2.0, 0.5, -3.0, 1.0])
    graph = helper.make_graph(nodes, "small", given, made, [weights])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "three.csv"
    path.write_text("id,lower,upper,size\na,0,2,64\nb,1,3,128\nc,2,4,64\n")
    return path


# --- the names ----------------------------------------------------------------------------------------------------


def documented() -> set[str]:
    """The names that the chapter lists."""
    chapter = (ROOT / "specs" / "verify.md").read_text("utf-8")
    section = chapter.partition("\n## From Python\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)", row)}


def test_the_names_are_those_of_the_chapter() -> None:
    assert documented() == set(assay.__all__)
    assert set(assay.__all__) <= set(dir(assay))


@pytest.mark.parametrize("name", assay.__all__)
def test_each_name_is_there(name: str) -> None:
    value = getattr(assay, name)
    assert callable(value) or name in ("__version__", "builder", "onnx_backend", "strategies")
    assert value is getattr(assay, name)


def examples(name: str) -> list[doctest.Example]:
    """The examples of a name's documentation."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(getattr(assay, name)) or "")


@pytest.mark.parametrize("name", [n for n in assay.__all__ if n != "__version__"])
def test_each_name_has_an_example_that_runs(
    name: str, model: Path, buffers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.rename(model.with_name("model.onnx"))
    buffers.rename(buffers.with_name("buffers.csv"))
    monkeypatch.chdir(model.parent)
    names = {"assay": assay, "numpy": np, "pathlib": pathlib}
    found = doctest.DocTest(examples(name), names, name, None, None, None)
    assert found.examples, f"assay.{name} has no example"
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not said, "".join(said)


def test_what_is_found_is_shown_in_a_line(model: Path) -> None:
    right = assay.judge(model, lambda m, given: {"y": np.zeros((len(given["x"]), 2), np.float32)}, kinds="random")
    assert repr(right).startswith("<Judgement: <lambda> is wrong on ") and "\n" not in repr(right)
    report = assay.check(model, stop_after="anf")
    assert repr(report) == (
        "<Report: all 3 lines hold; proved for every input, at the sizes that each line names: devices, anf; checked,"
        " every claim on this run's own output: import>"
    )


@pytest.mark.parametrize("given", [[[0.0, 0.5]], "abc", None])
def test_what_somebody_gave_is_arrays(given: Any, model: Path) -> None:
    x = np.ones((1, 3), np.float32)
    said = rf"output 'y' is {type(given).__name__}; an array is wanted \[values\.C1\]"
    with pytest.raises(assay.Invalid, match=said):
        assay.check(model, {"x": x}, expected={"y": given}, stop_after="import")
    with pytest.raises(assay.Invalid, match=said):
        assay.judge(model, recorded={"x": x, "y": given})


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        _ = assay.chekc  # type: ignore[attr-defined]


PROBE = """
import assay
from assay import Backend, Invalid, MemoryPlan, Module, Proofs, Report, Trap
module: Module = assay.load("m.onnx", dims={"N": 2})
report: Report = assay.check(module, backends=["onnxruntime"], pools="fast=65536,slow", on_line=print)
again: Report = assay.verify("out", model="m.onnx")
built: Report = assay.build(module, "out", interface="packed")
proofs: Proofs = assay.prove(module, bounds={"n": (1, None)})
planned: MemoryPlan = assay.plan("b.csv", capacity=100)
total = sum(array.nbytes for array in assay.run(module, {}).values())
programs = assay.strategies.modules(size=3)
said: str = assay.__version__
class Mine:
    name = "mine"
mine: Backend = Mine()  # wrong: it has no prepare
assay.check(module, planer="exact")  # wrong: no such option
assay.verify(3)  # wrong: no directory
assay.nothing  # wrong: no such name
"""


@pytest.mark.slow
def test_a_type_checker_knows_them(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary"]
    done = subprocess.run([*command, str(tmp_path / "probe.py")], check=False, cwd=ROOT, capture_output=True, text=True)
    wrong = [n for n, line in enumerate(PROBE.splitlines(), 1) if "# wrong" in line]
    assert [int(n) for n in re.findall(r"probe\.py:(\d+): error", done.stdout)] == wrong, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.peer
def test_the_python_of_the_readme_runs(model: Path, buffers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    text = "".join((ROOT / page).read_text("utf-8") for page in ("README.md", "specs/commands.md"))
    blocks = re.findall(r"^```python\n(import assay\n.*?)^```$", text, re.M | re.S)
    assert len(blocks) == 3
    model.rename(model.with_name("model.onnx"))
    buffers.rename(buffers.with_name("buffers.csv"))
    monkeypatch.chdir(model.parent)
    found: list[dict[str, Any]] = [{} for _ in blocks]
    for block, names in zip(blocks, found, strict=True):
        exec(block, names)
    assert found[0]["report"].verdicts == {"onnxruntime": "right"} and found[0]["outputs"]["y"].shape == (2, 2)
    assert found[2]["report"].verdicts == {"onnxruntime": "right", "mine": "right"}


def test_documents_import_nothing_deeper() -> None:
    for page in ("README.md", "specs/commands.md"):
        text = (ROOT / page).read_text("utf-8")
        assert re.findall(r"^(?:from|import) assay\S*", text, re.MULTILINE)
        assert not re.findall(r"^(?:from|import) assay\.\S*", text, re.MULTILINE)


def test_the_readme_is_two_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


# --- what is loaded -----------------------------------------------------------------------------------------------


def loaded_by(code: str, *arguments: object) -> set[str]:
    """Which of HEAVY a fresh interpreter has loaded after `code`."""
    after = f"import json, sys; print('\\n' + json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    main = f"try:\n    exec({code!r})\nexcept SystemExit:\n    pass\n{after}"
    done = subprocess.run(
        [sys.executable, "-c", main, *map(str, arguments)], check=True, env=ENVIRONMENT, capture_output=True, text=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


COMMAND = "from assay.verify.app.cli import main; main()"


def test_nothing_is_loaded_before_it_is_used(buffers: Path) -> None:
    assert loaded_by("import numpy, rich") >= {"numpy", "rich"}  # it would be seen
    assert loaded_by("import assay") == set()
    assert loaded_by("import assay; assay.Invalid, assay.Trap") == set()
    assert loaded_by(COMMAND, "--help") == {"rich", "typer"}
    assert not loaded_by(COMMAND, "plan", "--help") & {"hypothesis", "ml_dtypes", "numpy", "onnx", "z3"}
    assert not loaded_by(COMMAND, "plan", buffers) & {"onnx", "hypothesis"}
    buffers.write_text("id,lower,upper,size\na,2,1,64\n")
    assert not loaded_by(COMMAND, "plan", buffers) & {"onnx", "hypothesis", "z3"}


# --- what the functions do ----------------------------------------------------------------------------------------


def test_run_and_load(model: Path) -> None:
    module = assay.load(model, dims={"N": 2})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(assay.run(module, {"x": x})["y"], assay.run(model, {"x": x})["y"])
    w = np.array([[1, -1], [2, 0.5], [-3, 1]], np.float32)
    assert np.array_equal(assay.run(module, {"x": x})["y"], np.maximum(x @ w, 0))
    with pytest.raises(assay.Invalid):
        assay.run(module, {"x": x[:1]})
    with pytest.raises(assay.Invalid):
        assay.load(model, dims={"M": 2})


def test_a_trap_is_raised() -> None:
    from assay.semantics.builder import Builder, tensor

    b = Builder()
    with b.function("main", x=tensor(3, of="int32"), y=tensor(3, of="int32")) as f:
        b.result(b.floor_divide(f.x, f.y))
    zeros = np.zeros(3, np.int32)
    with pytest.raises(assay.Trap):
        assay.run(b.module(), {"x": zeros, "y": zeros})


class Doubled:
    """A backend of a user's own, which is wrong."""

    name = "doubled"

    def prepare(self, subject: object, wanted: object) -> object:
        return lambda inputs: {"y": assay.run(self.model, inputs)["y"] * 2 + 1}

    def __init__(self, model: Path) -> None:
        self.model = model


def test_check_build_and_verify(model: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    report = assay.check(
        model,
        dims={"N": 2},
        backends=["reference", Doubled(model)],  # type: ignore[list-item]
        on_line=lambda line: seen.append(line.stage),
    )
    assert report.verdicts == {"reference": "right", "doubled": "wrong"} and report.holds is False
    assert seen == [line.stage for line in report.lines] and seen[0] == "import"
    assert report.exit == 1 and set(report.outputs) == {"y"} and "pool" in report.modules
    built = assay.build(assay.load(model, dims={"N": 2}), tmp_path / "out")
    assert built.holds and (tmp_path / "out" / "model.c").is_file()
    assert assay.verify(tmp_path / "out").holds
    assert assay.verify(tmp_path / "out", model=model).holds is False  # it is of a module, not of the file
    (tmp_path / "out" / "model.c").write_text("int main(void);")
    with pytest.raises(assay.Invalid):
        assay.verify(tmp_path / "out")


def test_prove(model: Path, tmp_path: Path) -> None:
    proofs = assay.prove(model, dims={"N": 2})
    assert proofs.verdict == "proved" and proofs.reports
    proofs.write(tmp_path / "kept")
    assert list((tmp_path / "kept").glob("*.smt2"))
    with pytest.raises(assay.Invalid):
        assay.prove(model, "nothing", dims={"N": 2})


def test_plan(buffers: Path, tmp_path: Path) -> None:
    told: list[str] = []
    planned = assay.plan(buffers, capacity=192, progress=told.append)
    assert planned.holds and planned.plan.sizes == {"workspace": 192}
    planned.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("id,lower,upper,size,offset\na,0,2,64,")
    assert assay.plan(buffers, capacity=191).holds is False
    made = assay.plan([BufferInfo("a", 64, ((0, 2), (5, 6))), BufferInfo("b", 64, ((2, 5),), alignment=32)])
    assert made.holds and made.plan.sizes == {"workspace": 64}
    made.write(tmp_path / "again.csv")
    assert assay.plan(tmp_path / "again.csv").plan.places == made.plan.places
    with pytest.raises(assay.Invalid):
        assay.plan([BufferInfo("a", -1, ((0, 2),))])
    buffers.write_text("id,lower,upper,size\na,0,2,8*n\n")
    assert assay.plan(buffers, bounds={"n": (1, 64)}).holds


def test_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay.__version__ == version("assay")
    monkeypatch.setattr("sys.argv", ["assay", "--version"])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert not done.value.code and capsys.readouterr().out == f"assay {assay.__version__}\n"
