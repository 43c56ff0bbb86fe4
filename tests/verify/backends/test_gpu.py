"""Backends on a GPU, and what such hardware is allowed: declared, and no more than that (specs/verify.md, "On a GPU").

There is no GPU here: what one computes is computed in NumPy, by functions that declare it or do not.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import assay as api
from assay.semantics.dtypes import FLOAT16, FLOAT32, DType
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.backends import backend, subject_of_module
from assay.verify.backends.catalogue import ON_A_GPU, TOOLS, tool_of
from assay.verify.backends.gpu import ON_CUDA
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.pytorch import Torch
from assay.verify.backends.registry import BACKENDS
from assay.verify.backends.xla import Client, Xla
from assay.verify.oracle import Oracle
from assay.verify.oracle.declarations import Accepts
from assay.verify.oracle.products import LARGEST
from tests.verify.app.test_cli import assay
from tests.verify.oracle import numeric_faults as product

HARDWARE = """
import ml_dtypes
import numpy as np
from onnx import numpy_helper

ANY = np.random.default_rng(0)


def rounded(x):
    bits = x.view(np.uint32).astype(np.uint64) + 0x1000
    return (bits & 0xFFFFE000).astype(np.uint32).view(np.float32)


def cut(x):
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def narrow(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def summed(a, b, order, kept=lambda total: total):
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in order:
        total = kept(total + kept(a[:, k, None] * b[None, k]))
    return total


def backend(product, accepts=()):
    def run(model, inputs):
        (w,) = (numpy_helper.to_array(t) for t in model.graph.initializer)
        with np.errstate(all="ignore"):
            m = product(inputs["x"], w)
            tensors = {"m": m, "y": np.maximum(m, np.float32(0))}
        return {o.name: tensors[o.name] for o in model.graph.output}

    run.accepts = list(accepts)
    return run


def in_order(x, w):
    return summed(x, w, range(len(w)))


any_order = backend(lambda x, w: summed(x, w, ANY.permutation(len(w))))
tf32 = backend(lambda x, w: in_order(cut(x), rounded(w)), ["tf32"])
tf32_unsaid = backend(lambda x, w: in_order(cut(x), rounded(w)))
tf32_and_less = backend(lambda x, w: in_order(narrow(x), narrow(w)), ["tf32"])
short_sums = backend(lambda x, w: summed(x, w, ANY.permutation(len(w)), narrow), ["bf16-sums"])
short_sums_unsaid = backend(lambda x, w: summed(x, w, range(len(w)), narrow))
short_sums_and_less = backend(lambda x, w: summed(x[:, 1:], w[1:], range(len(w) - 1), narrow), ["bf16-sums"])
"""
MUST = {
    "any_order": "right", "tf32": "right", "tf32_unsaid": "wrong", "tf32_and_less": "wrong", "short_sums": "right",
    "short_sums_unsaid": "wrong", "short_sums_and_less": "wrong",
}  # fmt: skip


def test_what_hardware_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is right where it is declared, wrong where it is not, and wrong where it is less than what is declared; sums
    in another order in each run are everybody's right."""
    text = "g (float[6,12] x) => (float[6,5] y) { m = MatMul(x, w) y = Relu(m) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}')
    weights = np.random.default_rng(3).uniform(0.1, 1, (12, 5)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "hardware.py").write_text(HARDWARE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = ("random", "integers")
    hardware = importlib.import_module("hardware")
    for name, outcome in MUST.items():
        (found,) = api.judge(model, getattr(hardware, name), kinds=kinds).verdicts
        assert found.outcome == outcome, (name, found)
    assert api.judge(model, hardware.tf32, kinds=kinds, exclude="tf32").verdicts[0].outcome == "wrong"
    words = [word for name in ("tf32", "tf32_unsaid") for word in ("--backend", f"hardware:{name}")]
    assert assay(monkeypatch, "judge", "m.onnx", "--json", "--kinds", "random", *words) == 1
    assert [b["outcome"] for b in json.loads(capsys.readouterr().out)["backends"]] == ["right", "wrong"]


# --- the bounds ---------------------------------------------------------------------------------------------------


def matmul(of: DType = FLOAT32, m: int = product.M, k: int = product.K, n: int = product.N) -> Module:
    x, w = var("x", TensorType((m, k), of)), var("w", TensorType((k, n), of))
    return Module({"main": function([x, w], call("matmul", x, w))})


def cut(x: Any) -> Any:
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("kind", product.DATA)
def test_what_is_declared_is_never_wrong(kind: str) -> None:
    a, b = product.operands(kind, 0)
    given = {"x": a, "w": b}
    ways = {"tf32": product.LOW["tf32"], "tf32, cut": lambda a, b: cut(a) @ cut(b), **product.RIGHT}
    for name, way in ways.items():
        assert Oracle(matmul(), accepts=ON_CUDA).judge(given, {"output_0": way(a, b)}).outcome == "right", name
    found = Oracle(matmul(), accepts=Accepts(sums=True)).judge(given, {"output_0": product.LOW["bf16 sums"](a, b)})
    assert found.outcome in ("right", "undecided"), str(found)


def test_what_is_less_than_what_is_declared() -> None:
    """Whole numbers that TF32 holds are multiplied and added up exactly; and three bits fewer are too few."""
    found = {}
    for kind in product.DATA:
        a, b = product.operands(kind, 0)
        for name, way in (product.WRONG | {"bf16": product.LOW["bf16"]}).items():
            verdict = Oracle(matmul(), accepts=ON_CUDA).judge({"x": a, "w": b}, {"output_0": way(a, b)})
            found[kind, name] = verdict.outcome
    assert all(found["integers", name] == "wrong" for name in product.WRONG)
    assert found["positive", "bf16"] == "right", "the worst that TF32 may be is no sum of what bfloat16 mostly is"
    assert sum(outcome == "wrong" for outcome in found.values()) >= 20


def test_a_factor_of_bfloat16_is_wrong_where_nothing_cancels_it() -> None:
    """One product: seven bits of the fraction are less than ten."""
    a, b = np.full((1, 1), 1 + 2.0**-8 + 2.0**-9, np.float32), np.full((1, 1), 1 + 2.0**-8, np.float32)
    oracle = Oracle(matmul(m=1, k=1, n=1), accepts=ON_CUDA)
    assert oracle.judge({"x": a, "w": b}, {"output_0": a * b}).outcome == "right"
    assert oracle.judge({"x": a, "w": b}, {"output_0": product.LOW["bf16"](a, b)}).outcome == "wrong"
    long = np.full((1, 1), 1 + 2.0**-11, np.float32)
    for got, outcome in ((1, "right"), (1 + 2.0**-9, "right"), (1 + 2.0**-7, "wrong")):
        assert oracle.judge({"x": long, "w": long}, {"output_0": np.full((1, 1), got, np.float32)}).outcome == outcome


def test_the_ends_of_the_range() -> None:
    """A subnormal factor loses bits by place, and the largest may round to infinity, of which nothing is said."""
    oracle = Oracle(matmul(m=1, k=1, n=1), accepts=ON_CUDA)
    tiny, two = np.full((1, 1), 2.0**-140, np.float32), np.full((1, 1), 2.0, np.float32)
    assert oracle.judge({"x": tiny, "w": two}, {"output_0": cut(tiny) * two}).outcome == "right"
    top, half = np.full((1, 1), np.finfo(np.float32).max), np.full((1, 1), 0.5, np.float32)
    assert LARGEST < top[0, 0] and cut(top)[0, 0] == np.float32(LARGEST)
    for got in (top * half, np.full((1, 1), np.inf, np.float32)):
        assert oracle.judge({"x": top, "w": half}, {"output_0": got}).outcome in ("right", "undecided")
    assert Oracle(matmul(m=1, k=1, n=1)).judge({"x": top, "w": half}, {"output_0": got}).outcome == "wrong"


def test_other_types_and_operators_are_no_freer() -> None:
    x = var("x", TensorType((64,), FLOAT32))
    given = {"x": np.linspace(0.1, 1, 64, dtype=np.float32)}
    for op, got in (("exp", np.exp(given["x"])), ("sum", np.sum(given["x"]))):
        module = Module({"main": function([x], call(op, x))})
        off = {"output_0": np.asarray(got * np.float32(1 + 2.0**-9))}
        for accepts, outcome in ((Accepts(), "wrong"), (ON_CUDA, "wrong"), (Accepts(sums=True), "right")):
            must = outcome if op == "sum" else "wrong"
            assert Oracle(module, accepts=accepts).judge(given, off).outcome == must
    a, b = (np.float16(np.random.default_rng(i).uniform(0.5, 1, s)) for i, s in enumerate([(4, 8), (8, 4)]))
    total = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    off = {"output_0": total * np.float16(1 + 2.0**-6)}
    for accepts, outcome in (
        (Accepts(wider=False), "wrong"),
        (Accepts(tf32=True, wider=False), "wrong"),
        (Accepts(sums=True), "right"),
    ):
        assert Oracle(matmul(FLOAT16, 4, 8, 4), accepts=accepts).judge({"x": a, "w": b}, off).outcome == outcome


# --- the backends -------------------------------------------------------------------------------------------------


def small() -> Any:
    return subject_of_module(matmul(m=2, k=3, n=2))


def test_onnxruntime_without_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    onnx.save(small().model, tmp_path / "m.onnx")
    assert assay(monkeypatch, "judge", str(tmp_path / "m.onnx"), "--backend", "onnxruntime:cuda") == 2
    said = capsys.readouterr().err
    assert "the backend onnxruntime:cuda needs a GPU with CUDA: there are " in said and "[backend.C1]" in said
    assert "pip install onnxruntime-gpu in its place" in said


def test_onnxruntime_that_goes_on_without_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run everything on the CPU and say nothing: that is refused."""
    ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    monkeypatch.setattr(ort, "InferenceSession", lambda data, options, providers: _OnTheCpu())
    with pytest.raises(Invalid, match="no device was found, and it took CPUExecutionProvider"):
        backend("onnxruntime:cuda").prepare(small(), ["output_0"])


class _OnTheCpu:
    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def test_torch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    without = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", without)  # type: ignore[misc]
    for name in ("torch:cuda", "torch:compile:cuda"):
        with pytest.raises(Invalid, match=f"{name} needs a GPU with CUDA: PyTorch finds none") as said:
            backend(name).prepare(small(), ["output_0"])
        assert said.value.label == "backend.C1"


@pytest.mark.peer
def test_torch_puts_all_on_its_device() -> None:
    """PyTorch's device without elements: what is left on another one is an error of PyTorch's."""
    pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'assay[torch]'")
    x = var("x", TensorType((3, 4), FLOAT32))
    made = call(
        "add",
        call("strided_slice", x, axes=(0,), begin=(-1,), end=(-9,), strides=(-1,)),
        call("full", shape=(3, 4), fill_value=1.0, dtype="float32"),
    )
    who = Torch("torch:meta", mode="eager", device="meta")
    run = who.prepare(subject_of_module(Module({"main": function([x], made)})), ["output_0"])
    with pytest.raises(NotImplementedError, match="out of meta tensor"):
        run({"x": np.ones((3, 4), np.float32)})


def test_xla_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax_plugins", None)  # type: ignore[arg-type]
    loaded: list[Any] = []
    xla = SimpleNamespace(
        pjrt_plugin_loaded=lambda name: False, load_pjrt_plugin_dynamically=lambda *of: loaded.append(of)
    )
    client = Client.__new__(Client)
    client.xla = xla
    with pytest.raises(Invalid, match=r"pip install 'jax\[cuda13\]' \[backend.C1\]"):
        client._of_plugin("cuda")
    assert not loaded

    def none(device: str) -> Client:
        raise RuntimeError("INTERNAL: no CUDA-capable device is detected")

    monkeypatch.setattr(Client, "of_process", none)
    with pytest.raises(Invalid, match=r"xla:cuda needs a GPU with CUDA: RuntimeError: INTERNAL: no CUDA-capable dev"):
        backend("xla:cuda").prepare(small(), ["output_0"])


def test_what_they_declare() -> None:
    assert {n for n in BACKENDS if n.endswith(":cuda")} == ON_A_GPU.keys()
    for name in ON_A_GPU:
        who = BACKENDS[name]
        assert isinstance(who, (OnnxRuntime, Torch, Xla)) and who.accepts == ON_CUDA
        assert tool_of(name).device == "CUDA" and tool_of(name) is not TOOLS[name.partition(":")[0]]
