"""XLA as a backend: what it declares is measured; programs of JAX and of ONNX are judged with it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.dtypes import DTYPES, FLOAT32
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.text.module_text import show
from assay.semantics.types import TensorType
from assay.verify.backends import subject_of_module
from assay.verify.backends.child import answer_of
from assay.verify.backends.protocol import UnreadSubject
from assay.verify.backends.xla import Client, Xla
from tests.lower.frontends.stablehlo.test_stablehlo_programs import PROGRAMS
from tests.verify.app.test_cli import assay

needs_jaxlib = pytest.mark.skipif(find_spec("jaxlib") is None, reason="jaxlib is not installed")


def two_steps() -> Module:
    """A product, and a sum with it."""
    x, y = var("x", TensorType((4,), FLOAT32)), var("y", TensorType((4,), FLOAT32))
    return Module({"main": function([x, y], call("add", call("multiply", x, x), y))})


def test_without_jaxlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> Client:
        raise ImportError

    monkeypatch.setattr(Client, "of_process", missing)
    with pytest.raises(Invalid, match=r"pip install 'assay\[jax\]'") as caught:
        Xla("xla").prepare(subject_of_module(two_steps()), ["output_0"])
    assert caught.value.label == "backend.C1"


def test_a_module_crosses_as_itself() -> None:
    """What was exported for the border is not what is meant: the text of the module is."""
    x = var("x", TensorType((3,), FLOAT32))
    subject = subject_of_module(Module({"main": function([x], call("nn.gelu", x))}))
    assert subject.is_exported
    crossed = UnreadSubject(subject.model, {}, show(subject.module))
    assert export_stablehlo(crossed.module) == export_stablehlo(subject.module)
    assert set(crossed.tensors) == set(subject.tensors)
    other = subject_of_module(two_steps()).model
    assert not UnreadSubject(other, {}, show(subject.module)).tensors


class _Failing:
    """A client that raises what XLA may raise."""

    def __init__(self, message: str) -> None:
        self.message = message

    def compile(self, text: str, fused: bool) -> Any:
        raise RuntimeError(self.message)


@pytest.mark.parametrize(("message", "label"), [("UNIMPLEMENTED: no", "backend.C2"), ("INTERNAL: oh", "backend.C10")])
def test_what_xla_raises_is_a_refusal_or_a_crash(message: str, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "of_process", lambda device: _Failing(message))
    with pytest.raises(Unsupported) as caught:
        Xla("xla").prepare(subject_of_module(two_steps()), ["output_0"])
    assert caught.value.label == label and answer_of(caught.value)[0] in ("invalid", "crashed")


@needs_jaxlib
@pytest.mark.peer
class TestWithJaxlib:
    def test_what_it_declares_is_what_it_does(self) -> None:
        """Subnormal numbers are zeros, as operands and as results. A product that is added is not rounded, which rule
        M9 allows everybody; what is shown of it is what was used."""
        subject = subject_of_module(two_steps())
        run = Xla("xla").prepare(subject, subject.outputs)
        tiny = np.full(4, 2.0**-140, np.float32)
        assert not run({"x": np.zeros(4, np.float32), "y": tiny})["output_0"].any()
        assert not run({"x": np.full(4, 2.0**-64, np.float32), "y": np.zeros(4, np.float32)})["output_0"].any()
        x, y = np.full(4, 1 + 2.0**-12, np.float32), np.full(4, -1 - 2.0**-11, np.float32)
        assert set(run({"x": x, "y": y})["output_0"]) == {np.float32(2.0**-24)}
        (product,) = set(subject.tensors) - {"x", "y", "output_0"}
        shown = Xla("xla").prepare(subject, [product, "output_0"])({"x": x, "y": y})
        assert np.array_equal(shown[product] + y, shown["output_0"])

    @pytest.mark.parametrize("of", ["bool", "int8", "uint64", "float16", "bfloat16", "float64", "float8_e5m2", "int4"])
    def test_element_types_cross(self, of: str) -> None:
        x = var("x", TensorType((2, 3), DTYPES[of]))
        module = Module({"main": function([x], call("permute_dims", x))})
        array = np.arange(6).reshape(2, 3).astype(DTYPES[of].numpy)
        subject = subject_of_module(module)
        found = Xla("xla").prepare(subject, subject.outputs)({"x": array})["output_0"]
        assert found.dtype == array.dtype and found.tobytes() == np.ascontiguousarray(array.T).tobytes()

    @pytest.mark.parametrize("name", ["mlp", "scan", "sorting"])
    def test_programs_of_jax_are_judged(
        self, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = "judge", PROGRAMS / f"{name}.mlir", "--backend", "xla", "--kinds", "random,specials"
        assert assay(monkeypatch, *command) == 0
        assert "xla is right" in capsys.readouterr().out

    def test_an_onnx_model_of_any_size_is_judged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        x, y = (helper.make_tensor_value_info(n, 1, ["n", 5]) for n in "xy")
        made = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "g", [x], [y])
        onnx.save(
            helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx"
        )
        assert assay(monkeypatch, "judge", tmp_path / "m.onnx", "--backend", "xla") == 0
        assert "xla is right" in capsys.readouterr().out

    def test_what_stands_in_a_loop_is_said(self) -> None:
        module = parse_stablehlo((PROGRAMS / "linalg.mlir").read_text())
        subject = subject_of_module(module)
        run = Xla("xla").prepare(subject, subject.outputs)
        with np.load(PROGRAMS / "linalg.npz") as stored:
            found = run({p.name: stored[p.name] for p in module.main.params})
            wanted = [stored[k] for k in stored if k.startswith("o")]
        for a, b in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
