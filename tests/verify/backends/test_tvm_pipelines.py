"""TVM's passes and pipelines by the names that a person types: how they are read, and what each failure says."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid
from assay.verify.api.judge import judge
from assay.verify.app.terminal import Screen
from assay.verify.backends import Died, Refused, apache_tvm, attempt, backend, subject_of_model
from assay.verify.backends.apache_tvm import Tvm
from assay.verify.backends.registry import of_ours, require_known
from assay.verify.backends.tvm_pipelines import steps_of
from assay.verify.tvm.command import TvmRequest, judge_inside, require_none_of

with_tvm = pytest.mark.skipif(find_spec("tvm") is None, reason="the peer apache-tvm is not installed")

OURS = """
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

@mutator
class Swap(PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        return relax.op.subtract(*call.args) if call.op == tvm.ir.Op.get("relax.add") else call

@tvm.transform.module_pass(opt_level=0, name="AddIsSubtract")
def wrong(mod, ctx):
    made = Swap(mod)
    for name, f in mod.functions_items():
        if isinstance(f, relax.Function):
            made.builder_.update_func(name, made.visit_expr(f))
    return made.builder_.get()

def failing(times=1):
    @tvm.transform.module_pass(opt_level=0, name="AlwaysFails")
    def run(mod, ctx):
        raise ValueError("it works\\n" + "never " * times)
    return run

@tvm.transform.module_pass(opt_level=0, name="OneMore")
def wider(mod, ctx):
    mod = mod.clone()
    name, f = next((n, f) for n, f in mod.functions_items() if isinstance(f, relax.Function))
    more = relax.Var("more", relax.TensorType((2,), "float32"))
    mod.update_func(name, relax.Function([*f.params, more], f.body, f.ret_ty, f.is_pure, f.attrs))
    return mod

number = 3
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small model, in a working directory with passes of ours: each in a module that no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "our_tvm_passes", raising=False)
    (tmp_path / "our_tvm_passes.py").write_text(OURS, "utf-8")
    node = onnx.helper.make_node
    of = [onnx.helper.make_tensor_value_info(n, 1, [2, 3]) for n in "xyz"]
    graph = onnx.helper.make_graph([node("Add", ["x", "y"], ["a"]), node("Tanh", ["a"], ["z"])], "m", of[:2], of[2:])
    opset = [onnx.helper.make_opsetid("", 17)]
    file = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), file)
    return file


def outcome(model: Path, name: str) -> Any:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    subject = subject_of_model(onnx.load(model))
    return attempt(backend(name), subject, subject.outputs, {"x": x, "y": x[::-1].copy()})


def test_a_list_is_read_as_python_writes_it_and_nothing_is_run() -> None:
    first, second, third = steps_of('FuseOps(1, fuse_opt_level=2),tirx.UnrollLoop, ConvertLayout({"a": ["NHWC"]})')
    assert (first.name, first.arguments, first.options) == ("FuseOps", (1,), {"fuse_opt_level": 2})
    assert (second.name, second.arguments, third.arguments) == ("tirx.UnrollLoop", (), ({"a": ["NHWC"]},))
    for text in ("", "a b", "FuseOps(", "f(g())", "f(x)", "1", "(a)()()", "a),(b", "f(**{})", "[a]", "a,,b"):
        with pytest.raises(Invalid, match="are no passes of TVM") as caught:
            steps_of(text)
        assert caught.value.label == "backend.C3"


def test_a_name_behind_a_colon_is_tvm_by_these_passes() -> None:
    found = of_ours("tvm:FoldConstant,cpu")
    assert isinstance(found, Tvm) and [s.name for s in found.steps] == ["FoldConstant", "cpu"]
    require_known("tvm:FoldConstant")  # what TVM has is not looked at before it is asked to run
    for name in ("tvm:", "tvm:a b", "onnxruntime:a", "tvms:FoldConstant,a"):
        with pytest.raises(Invalid) as caught:
            require_known(name)
        assert caught.value.label == "backend.C3"


@pytest.mark.peer
@with_tvm
@pytest.mark.parametrize(
    "passes",
    [
        "zero",
        "default_build,s_tir",
        "FuseOps,FuseTIR",
        "relax.transform.FoldConstant,tvm.relax.transform.DeadCodeElimination,cpu",
        "LegalizeOps(enable_warning=True),tirx.UnrollLoop,s_tir.transform.LoopPartition",
        "PassContext(opt_level=3,disabled_pass=['FuseOps'],config={'tirx.disable_cse_tir': True}),cpu",
    ],
)
def test_passes_of_tvm_run_by_their_names(model: Path, passes: str) -> None:
    ran = outcome(model, f"tvm:{passes}")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    assert np.allclose(ran.outputs["z"], np.tanh(x + x[::-1]), atol=1e-6)


@pytest.mark.peer
@with_tvm
@pytest.mark.parametrize(
    ("passes", "says"),
    [
        ("FuseOp", "has no pass or pipeline 'FuseOp'; there is FuseOps"),
        ("StmtSimplify", "tirx.transform.StmtSimplify or s_tir.transform.StmtSimplify: say which"),
        ("FuseOps(fuse_levels=3)", "TVM does not take FuseOps.fuse_levels=3.: TypeError"),
        ("PassContext(config={'no.such': 1})", "Invalid config option"),
        ("PassContext(3)", "by name"),
        ("s_tir,tirx", "one of these, not two"),
        ("our_tvm_passes.nothing", "nor is there such a Python object"),
        ("our_tvm_passes.number", "is a int, no pass"),
        ("our_tvm_passes.wrong(1)", "takes no arguments"),
        ("relax.const(1.0)", "no pass of TVM"),
    ],
)
def test_what_tvm_has_not_is_told(model: Path, passes: str, says: str) -> None:
    with pytest.raises(Invalid, match=says) as caught:
        backend(f"tvm:{passes}").prepare(subject_of_model(onnx.load(model)), ["z"])
    assert caught.value.label == "backend.C3"


@pytest.mark.peer
@with_tvm
def test_a_pass_that_fails_is_named(model: Path) -> None:
    """A planted one, with what it says on one line; one that fails by TVM's own word for a fault; the generator."""
    ours = outcome(model, "tvm:FoldConstant,our_tvm_passes.failing(2)")
    assert isinstance(ours, Refused)
    assert ours.reason.endswith("the pass AlwaysFails fails: ValueError: it works never never")
    long = outcome(model, "tvm:our_tvm_passes.failing(1000)")
    assert isinstance(long, Refused) and len(long.reason) < 500
    inside = outcome(model, "tvm:tirx")
    assert (
        isinstance(inside, Died) and "(the pass tirx.TilePrimitiveDispatch inside of tirx.LowerTIRx, " in inside.reason
    )
    generator = outcome(model, "tvm:VMShapeLower")
    assert isinstance(generator, Died) and "(the code generator, codegen_vm.cc:" in generator.reason


@pytest.mark.peer
@pytest.mark.slow
@with_tvm
def test_a_wrong_pass_of_ours_is_named_by_per_pass(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = TvmRequest(model, True, True)
    assert judge_inside(request, ["tvm:our_tvm_passes.wrong,cpu"], Screen(), False) == 1
    out = capsys.readouterr().out
    assert "FAILS first: AddIsSubtract: changed (main)" in out
    assert judge_inside(request, ["tvm:our_tvm_passes.failing,cpu", "tvm:zero"], Screen(), True) == 1
    failing, zero, calls = json.loads(capsys.readouterr().out)["judged"]
    assert (failing["pipeline"], failing["first"]) == ("our_tvm_passes.failing,cpu", "AlwaysFails")
    assert (zero["pipeline"], zero["first"], calls["first"]) == ("zero", None, None)
    assert judge_inside(TvmRequest(model, False, True), ["tvm:our_tvm_passes.failing"], Screen(), False) == 1
    assert "FAILS first: AlwaysFails: fails: ValueError: it works never" in capsys.readouterr().out
    with pytest.raises(Invalid, match="has no pass"):
        judge_inside(request, ["tvm:FuseOp"], Screen(), False)
    for others in ([], ["onnxruntime"], ["tvm", "reference"]):
        with pytest.raises(Invalid, match="look inside TVM") as caught:
            judge_inside(request, others, Screen(), False)
        assert caught.value.label == "cli.C3"


@pytest.mark.peer
@with_tvm
def test_passes_that_change_nothing_or_what_main_takes_are_told(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is no fault, of the second nothing is known: exit code 5."""
    bundled = onnx.load(model)
    bundled.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "y"))
    del bundled.graph.input[1:]
    onnx.save(bundled, model)
    assert judge_inside(TvmRequest(model, True, False), ["tvm:FoldConstant,FuseOps"], Screen(), False) == 0
    assert "changed nothing: FoldConstant, FuseOps\n" in capsys.readouterr().out
    assert judge_inside(TvmRequest(model, True, False), ["tvm:our_tvm_passes.wider,FuseOps"], Screen(), False) == 5
    out = capsys.readouterr().out
    assert "the compiled code: not read: main takes 2 arguments, 1 are given" in out and "FAILS" not in out
    assert "changed nothing: FuseOps\n" in out


@pytest.mark.peer
@with_tvm
def test_each_pass_is_a_test_of_junit(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    request = TvmRequest(model, True, True, junit=file)
    assert judge_inside(request, ["tvm:our_tvm_passes.wrong", "tvm:our_tvm_passes.failing"], Screen(), True) == 1
    tests = {(t.get("classname"), t.get("name")): t for t in ElementTree.parse(file).iter("testcase")}
    wrong = tests["our_tvm_passes.wrong, stages", "AddIsSubtract"].find("failure")
    assert wrong is not None and "wrong: changed: result 0" in str(wrong.get("message"))
    assert tests["our_tvm_passes.failing, stages", "AlwaysFails"].find("failure") is not None
    assert len(tests["our_tvm_passes.wrong, stages", "LegalizeOps"]) == 0
    calls = [name for group, name in tests if group == "our_tvm_passes.wrong, calls of kernels"]
    assert len(calls) == 2 and calls[0] == "call 0 of subtract"
    with pytest.raises(Invalid, match="--report, --patience: --per-pass"):
        require_none_of(["--report", "--patience"])


@pytest.mark.peer
@pytest.mark.slow
@with_tvm
def test_judge_takes_the_names(model: Path) -> None:
    """Another process: the wrong pass makes the model wrong, and a name that TVM has not ends the command."""
    verdict = judge(model, ["tvm:our_tvm_passes.wrong,zero"], kinds="random").verdicts[0]
    assert verdict.outcome == "wrong" and "in Add, tensor a" in verdict.closing()
    with pytest.raises(Invalid, match="there is FuseOps") as caught:
        judge(model, ["tvm:FuseOp"], kinds="random")
    assert caught.value.label == "backend.C3"


@pytest.mark.peer
@with_tvm
@pytest.mark.parametrize("kind", ["ValueError", "InternalError"])
def test_a_result_that_cannot_be_had_is_no_fault_of_ours(
    model: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of a negative size: what TVM gives is looked at where its failures are its own."""

    class Odd:
        def numpy(self) -> Any:
            raise type(kind, (ValueError,), {})("negative dimensions are not allowed")

    monkeypatch.setattr(apache_tvm, "compile_plan", lambda *_: {"main": lambda *_: Odd()})
    found = outcome(model, "tvm")
    assert type(found) is (Died if kind == "InternalError" else Refused)
    assert "negative dimensions are not allowed" in found.reason
