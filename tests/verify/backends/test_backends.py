"""Backends: by name, of other packages, what they refuse, and in processes of their own that may die."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.backends import (
    Backend,
    Died,
    Isolated,
    Ran,
    Refused,
    Subject,
    attempt,
    backend,
    names,
    subject_of_model,
    subject_of_module,
)
from assay.verify.backends.child import answer_of
from assay.verify.backends.registry import BACKENDS
from assay.verify.oracle import judge_backend
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.features import Features
from assay.verify.strategies.graphs import a_module
from assay.verify.strategies.values import picked_inputs
from tests.models import model

OURS = ("numpy", "numpy:wide", "numpy:reversed", "reference")
PAIR = {"a": np.array([7, -9], np.int32), "b": np.array([2, 2], np.int32)}
DEADLY = {"a": np.array([-(2**31), 1], np.int32), "b": np.array([-1, 1], np.int32)}
"""A quotient that no int32 holds: the processor's division stops the process."""


def quotient() -> Subject:
    nodes = [onnx.helper.make_node("Div", ["a", "b"], ["q"]), onnx.helper.make_node("Add", ["q", "a"], ["y"])]
    return subject_of_model(model(nodes, {"a": (np.int32, [2]), "b": (np.int32, [2])}, {"y": (np.int32, [2])}))


def small() -> Subject:
    b = Builder()
    with b.function("main", x=tensor("n", 6), w=tensor(6, 5)) as f:
        with b.if_(b.greater(b.sum(f.x), 0.0)) as branch:
            with branch.then():
                b.result(b.nn.softmax(b.matmul(f.x, f.w)))
            with branch.otherwise():
                b.result(b.nn.relu(b.matmul(f.x, f.w)))
        b.result(b.mean(branch.value, axis=(1,)))
    return subject_of_module(b.module())


def given(sign: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": sign * rng.random((4, 6), np.float32), "w": rng.random((6, 5), np.float32)}


def refusal(
    label: str, name: str = "onnxruntime", subject: Subject | None = None, wanted: Sequence[str] = ("y",)
) -> str:
    with pytest.raises(Invalid) as wrong:
        backend(name).prepare(subject or quotient(), wanted)(PAIR)
    assert wrong.value.label == label
    return wrong.value.message


# --- names --------------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert {"onnxruntime", "onnxruntime:none", "reference", "tvm", "tvm:cpu", "torch", "c", *OURS} <= set(names())
    assert all(isinstance(b, Backend) and b.name == n for n, b in BACKENDS.items())
    assert "no backend 'onnx'; there are onnxruntime, " in refusal("backend.C3", "onnx")


@pytest.mark.parametrize("name", ["onnxruntime", "tvm", "torch"])
def test_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert f"{name} is not installed; pip install" in refusal("backend.C1", name)


PLUGIN = """
class Doubling:
    name = "doubling"
    def prepare(self, subject, wanted):
        return lambda inputs: {n: 2 * next(iter(inputs.values())) for n in wanted}

instance = Doubling()
number = 7

def broken():
    raise RuntimeError("no licence")

class Dying:
    name = "dying"
    def prepare(self, subject, wanted):
        import os, sys, time
        def run(inputs):
            print("noise on the standard output")
            if "sleep" in wanted:
                time.sleep(60)
            print("no such device", file=sys.stderr, flush=True)
            os.abort()
        return run
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that registers backends, on the path of this process and of those that it starts."""
    (tmp_path / "assay_test_plugin.py").write_text(PLUGIN)
    folder = tmp_path / "fake-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    rows = {
        "doubling": "Doubling",
        "instance": "instance",
        "dying": "Dying",
        "number": "number",
        "broken": "broken",
        "none": "nothing",
    }
    text = "".join(f"{name} = assay_test_plugin:{place}\n" for name, place in rows.items())
    (folder / "entry_points.txt").write_text(f"[assay.backends]\n{text}reference = assay_test_plugin:number\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "assay_test_plugin", raising=False)


@pytest.mark.usefixtures("plugin")
def test_backends_of_other_packages() -> None:
    assert {"doubling", "instance", "broken"} <= set(names())
    assert backend("reference") is BACKENDS["reference"]
    for name in ("doubling", "instance"):
        outcome = attempt(backend(name), quotient(), ["y"], PAIR)
        assert isinstance(outcome, Ran) and list(outcome.outputs["y"]) == [14, -18]
    assert "broken, assay_test_plugin:broken of fake, does not load: RuntimeError: no licence" in refusal(
        "backend.C4", "broken"
    )
    assert "does not load: AttributeError" in refusal("backend.C4", "none")
    assert "number of fake, is a int; an object" in refusal("backend.C4", "number")


@pytest.mark.usefixtures("plugin")
def test_two_packages_of_one_name(tmp_path: Path) -> None:
    folder = tmp_path / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[assay.backends]\ndoubling = assay_test_plugin:Doubling\n")
    assert "is registered 2 times, by fake, other" in refusal("backend.C4", "doubling")


# --- running ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*OURS, "c", "c:O0", "c:contract", "onnxruntime", "onnxruntime:none"])
def test_outputs_and_intermediate_tensors(name: str) -> None:
    if name.startswith("onnxruntime"):
        pytest.importorskip("onnxruntime")
    subject = small()
    made = [n for n in subject.tensors if n not in ("x", "w")]
    assert len(made) >= 3
    for sign in (1, -1):
        verdict = judge_backend(subject, backend(name), given(sign))
        assert verdict.outcome == "right", str(verdict)
        run = backend(name).prepare(subject, made)
        assert list(run(given(sign))) == made
        with np.errstate(all="ignore"):
            for n, value in backend("numpy").prepare(subject, made)(given(sign)).items():
                np.testing.assert_allclose(run(given(sign))[n], value, rtol=1e-5, atol=1e-6)


def test_the_variants_differ() -> None:
    """They are no copies of one another."""
    b = Builder()
    with b.function("main", x=tensor(50, 300), w=tensor(300, 7)) as f:
        b.result(b.matmul(f.x, f.w))
    subject = subject_of_module(b.module())
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((50, 300), np.float32), "w": rng.standard_normal((300, 7), np.float32)}
    totals = {backend(n).prepare(subject, ["output_0"])(inputs)["output_0"].tobytes() for n in OURS[:3]}
    assert len(totals) == 3


def test_no_false_alarm_on_random_programs() -> None:
    judged = 0
    for seed in range(15):
        module = a_module(by_random(Random(seed)), 8, Features(names=True, branches=True, symbolic=bool(seed % 2)))
        try:
            subject = subject_of_module(module)
        except Unsupported:
            continue
        inputs = picked_inputs(by_random(Random(seed)), module)
        for name in OURS[:3]:
            outcome = attempt(backend(name), subject, subject.outputs, inputs)
            if isinstance(outcome, Ran):
                verdict = judge_backend(subject, backend(name), inputs)
                assert verdict.outcome != "wrong", f"{seed} {name}: {verdict}"
                judged += 1
    assert judged > 25


def test_what_a_backend_cannot() -> None:
    assert "no tensor 'nothing'" in refusal("backend.C2", "numpy", wanted=["nothing"])
    pytest.importorskip("onnxruntime")
    assert "(nothing) does not exist" in refusal("backend.C2", wanted=["nothing"])
    nodes = [onnx.helper.make_node("Add", ["a", "b"], ["y"])]
    of = (np.uint16, [2])
    unable = subject_of_model(model(nodes, {"a": of, "b": of}, {"y": of}))
    outcome = attempt(backend("onnxruntime:none"), unable, ["y"], {n: x.astype(np.uint16) for n, x in PAIR.items()})
    assert isinstance(outcome, Ran) or isinstance(outcome, Refused) and "NOT_IMPLEMENTED" in outcome.reason
    outcome = attempt(backend("onnxruntime"), quotient(), ["y"], {**PAIR, "a": np.zeros((3, 3), np.int32)})
    assert isinstance(outcome, Refused) and outcome.reason.startswith(
        "the backend onnxruntime cannot run this model: InvalidArgument"
    )


def test_element_types_that_numpy_has_not() -> None:
    pytest.importorskip("onnxruntime")
    of = ml_dtypes.bfloat16
    nodes = [onnx.helper.make_node("Transpose", ["a"], ["y"], perm=[1, 0])]
    a = np.arange(6).reshape(2, 3).astype(of)
    subject = subject_of_model(model(nodes, {"a": (of, [2, 3])}, {"y": (of, [3, 2])}))
    y = backend("onnxruntime").prepare(subject, ["y"])({"a": a})["y"]
    assert y.dtype == of
    np.testing.assert_array_equal(y, a.T)


# --- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("plugin")
def test_a_process_that_dies_is_replaced() -> None:
    pytest.importorskip("onnxruntime")
    subject = quotient()
    with Isolated("onnxruntime") as there:
        run = there.prepare(subject, ["q", "y"])
        assert list(run(PAIR)["q"]) == [3, -4]
        with pytest.raises(Unsupported, match=r"died by signal SIGFPE \[backend\.C5\]"):
            run(DEADLY)
        assert list(run(PAIR)["y"]) == [10, -13]
        assert attempt(there, subject, ["y"], DEADLY) == Died(
            "the process of backend onnxruntime died by signal SIGFPE"
        )
        outcome = attempt(there, subject, ["nothing"], PAIR)
        assert isinstance(outcome, Refused) and "does not exist" in outcome.reason
    with Isolated("dying") as there:
        outcome = attempt(there, subject, ["y"], PAIR)
        assert outcome == Died("the process of backend dying died by signal SIGABRT; its last words: no such device")
        there.seconds = 0.05
        outcome = attempt(there, subject, ["sleep"], PAIR)
        assert outcome == Died("the backend dying took more than 0.05 seconds, and was ended")
        with pytest.raises(Unsupported, match=r"was ended \[backend\.C6\]"):
            there.prepare(subject, ["sleep"])(PAIR)
    outcome = attempt(Isolated("onnx"), subject, ["y"], PAIR)
    assert isinstance(outcome, Refused) and outcome.reason.startswith("no backend 'onnx'")


# --- peers --------------------------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("name", ["tvm", "tvm:cpu", "torch", "torch:core"])
def test_peers(name: str) -> None:
    pytest.importorskip(name.partition(":")[0], reason="the peer is not installed")
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "shape"], ["r"]),
        onnx.helper.make_node("MatMul", ["r", "w"], ["m"]),
        onnx.helper.make_node("Clip", ["m", "low"], ["c"]),
        onnx.helper.make_node("ReduceSum", ["c", "axes"], ["y"], keepdims=0),
    ]
    stored = {
        "shape": np.array([4, 3]), "w": np.ones((3, 2), np.float32), "low": np.array(0, np.float32),
            "axes": np.array([1]),
    }  # fmt: skip
    proto = model(nodes, {"x": (np.float32, [2, 6])}, {"y": (np.float32, [4])}, stored)
    subject = subject_of_model(proto)
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)}
    verdict = judge_backend(subject, backend(name), inputs)
    assert verdict.outcome == "right", str(verdict)
    assert list(backend(name).prepare(subject, ["m", "c"])(inputs)) == ["m", "c"]
    unsaid = [onnx.helper.make_node("Unique", ["x"], ["y"])]
    refused = subject_of_model(model(unsaid, {"x": (np.float32, [6])}, {"y": (np.float32, ["k"])}))
    assert isinstance(attempt(backend(name), refused, ["y"], {"x": np.ones(6, np.float32)}), (Ran, Refused))


@pytest.mark.peer
def test_what_tvm_raises_and_returns_is_its_own() -> None:
    """A shape where a tensor is wanted is a refusal, a broken invariant of TVM's own a crash of it, and neither a fault
    of ours."""
    pytest.importorskip("tvm", reason="the peer is not installed")
    x = {"x": np.ones((2, 3), np.float32)}

    def outcome(node: onnx.NodeProto, opset: int, of: tuple[Any, list[int]]) -> Any:
        more = {"w": (np.float32, [2, 3])} if len(node.input) > 1 else {}
        proto = model([node], {"x": (np.float32, [2, 3]), **more}, {"y": of}, opset=opset)
        return attempt(backend("tvm"), subject_of_model(proto), ["y"], {n: x["x"] for n in ("x", *more)})

    shape = outcome(onnx.helper.make_node("Shape", ["x"], ["y"]), 17, (np.int64, [2]))
    assert isinstance(shape, Refused) and "which is no tensor" in shape.reason
    norm = outcome(onnx.helper.make_node("RMSNormalization", ["x", "w"], ["y"], axis=0), 23, (np.float32, [2, 3]))
    assert isinstance(norm, Died) and "the backend tvm raised InternalError" in norm.reason


@pytest.mark.parametrize("name", ["c", "torch", "torch:eager"])
def test_sizes_that_elements_tell_are_those_of_each_run(name: str) -> None:
    """Where it is not known before a run how great they are, our own C has room for what the inputs want, and not for
    1024 along each of four axes."""
    if name.startswith("torch"):
        pytest.importorskip("torch", reason="the peer is not installed")
    resize = onnx.helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")
    proto = model([resize], {"x": (np.float32, [1, 1, 2, 2]), "sizes": (np.int64, [4])}, {"y": (np.float32, None)})
    subject = subject_of_model(proto)
    run = backend(name).prepare(subject, subject.outputs)
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    for rows, columns in ((4, 6), (3, 7)):
        found = run({"x": x, "sizes": np.array([1, 1, rows, columns])})["y"]
        wanted = x[:, :, np.arange(rows) * 2 // rows][:, :, :, np.arange(columns) * 2 // columns]
        np.testing.assert_array_equal(found, wanted)


def test_who_has_not_enough_memory_refuses() -> None:
    kind, message, label, unsupported = answer_of(MemoryError("Unable to allocate 8.00 TiB"))
    assert (kind, label, unsupported) == ("invalid", "backend.C11", True)
    assert "not enough memory: Unable to allocate 8.00 TiB" in str(message)


@pytest.mark.peer
def test_what_torch_compile_runs_is_compiled() -> None:
    """PyTorch leaves uncompiled what it cannot trace, and all programs behind a number of those that look alike: ten of
    them are ten graphs, and a part that cannot be traced is refused."""
    torch = pytest.importorskip("torch", reason="the peer is not installed")
    from torch._dynamo.utils import counters  # type: ignore[import-not-found,unused-ignore]

    from assay.verify.backends.pytorch import Torch, compiled_whole

    before = counters["stats"]["unique_graphs"]
    for size in range(1, 11):
        proto = model(
            [onnx.helper.make_node("Exp", ["x"], ["y"])], {"x": (np.float32, [size])}, {"y": (np.float32, [size])}
        )
        subject = subject_of_model(proto)
        run = Torch("torch:aot_eager", mode="aot_eager").prepare(subject, ["y"])
        np.testing.assert_allclose(run({"x": np.ones(size, np.float32)})["y"], np.e, rtol=1e-6)
    assert counters["stats"]["unique_graphs"] == before + 10

    class Breaks(torch.nn.Module):  # type: ignore[name-defined,misc,unused-ignore]
        def forward(self, x: Any) -> Any:
            torch._dynamo.graph_break()
            return x + 1

    with pytest.raises(Exception, match="graph_break"):
        compiled_whole(torch, Breaks(), "aot_eager")(torch.ones(2))
