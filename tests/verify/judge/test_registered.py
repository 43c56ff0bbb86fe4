"""A model with an operator of its own, which a package says by a record, is judged as any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from assay.lower.frontends.onnx import registered
from assay.semantics.errors import Invalid
from assay.verify.app.cli import main
from assay.verify.backends import subject_of_model
from assay.verify.oracle import Oracle

PACKAGE = """
import numpy as np
from assay.semantics.operator import Attr, Operator

def same(attrs, operands):
    return operands[0]

def swish(attrs, x):
    return x * (1 / (1 + np.exp(-(x * x.dtype.type(attrs["beta"])))))

SWISH = Operator(
    "my.swish", "x * sigmoid(beta * x)", ("x",), "elementwise", same, swish, "the bound of its formula", (),
    attrs={"beta": Attr("what x is multiplied with", 1.0)}, onnx="my.domain::Swish",
)
NO_RECORD = 7

def right(model, inputs):
    return run(inputs["x"], 2.0)

def wrong(model, inputs):
    return run(inputs["x"], 2.001)

def run(x, beta):
    x = x + x
    return {"y": np.maximum(swish({"beta": beta}, x), 0)}
"""


def model() -> onnx.ModelProto:
    """A sum, the operator, and a Relu."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("Swish", ["a"], ["s"], domain="my.domain", beta=2.0),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, 1, [4, 8]) for n in "xy")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that says what the operator means, and the model."""
    (tmp_path / "swishing.py").write_text(PACKAGE)
    onnx.save(model(), tmp_path / "m.onnx")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    registered._records.cache_clear()
    yield tmp_path
    registered._records.cache_clear()
    sys.modules.pop("swishing", None)


def installed(folder: Path, *entries: str) -> None:
    """The package's metadata, with these entries."""
    info = folder / "swishing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swishing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[assay.operators]\n" + "\n".join(entries) + "\n")


def judged(monkeypatch: pytest.MonkeyPatch, backend: str) -> int:
    words = ["assay", "judge", "m.onnx", "--backend", f"swishing:{backend}", "--kinds", "random"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def test_a_registered_operator_is_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(folder, "swish = swishing:SWISH")
    assert judged(monkeypatch, "right") == 0
    assert "is right on 2 sets of inputs" in capsys.readouterr().out
    assert judged(monkeypatch, "wrong") == 1
    assert "is wrong" in capsys.readouterr().out


def test_without_a_record_the_rest_is_judged_if_the_backend_tells_what_it_gives(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged(monkeypatch, "right") == 5
    assert "it has to give the results of what has no meaning here, Swish s" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["one = swishing:SWISH", "two = swishing:SWISH"], "my.domain::Swish is registered twice"),
        (["one = swishing:NO_RECORD"], "an Operator whose `onnx` is DOMAIN::NAME is wanted"),
        (["one = swishing:GONE"], "does not load: AttributeError"),
    ],
)
def test_what_is_no_record_is_told(folder: Path, entries: list[str], said: str) -> None:
    installed(folder, *entries)
    with pytest.raises(Invalid, match=said) as wrong:
        subject_of_model(model())
    assert wrong.value.label == "onnx.C15"


def test_an_attribute_that_the_record_has_not_is_told(folder: Path) -> None:
    installed(folder, "swish = swishing:SWISH")
    odd = model()
    odd.graph.node[1].attribute.append(helper.make_attribute("alpha", 1.0))
    with pytest.raises(Invalid, match="my.swish has no attribute 'alpha'; it has beta"):
        subject_of_model(odd)


def test_its_bound_is_that_of_its_formula(folder: Path) -> None:
    installed(folder, "swish = swishing:SWISH")
    subject = subject_of_model(model())

    found = Oracle(subject.module).expected({"x": np.ones((4, 8), np.float32)}).possible
    assert isinstance(found, dict) and 0 < found["y"].radius.max() < 1e-5
