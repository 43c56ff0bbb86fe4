"""Sizes that are 0: a model means the same where the size is a symbol and where it is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from assay.interp.graph import evaluate, run
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators import reduction
from assay.semantics.errors import AssayError, Trap
from assay.semantics.types import TensorType
from assay.verify.api.run import ran
from tests.lower.frontends.onnx import onnx_own_cases
from tests.verify.app.test_cli import assay

EMPTY = """<ir_version: 8, opset_import: ["" : 18]>
empty (float[n,3] x, int8[n,m] i) => (float[1,3] large, float[3] small, int8 least, int8[1,1] most, float[1,3] sum,
    int32[m] whole, float[n,3] hot, float[n,3] soft, float[1,3] product) {
    a = Constant <value = int64[1] {0}> ()
    large = ReduceMax (x, a)
    small = ReduceMin <keepdims: int = 0> (x, a)
    least = ReduceMin <keepdims: int = 0> (i)
    most = ReduceMax (i)
    sum = ReduceLogSumExp (x, a)
    j = Cast <to: int = 6> (i)
    whole = ReduceLogSumExp <keepdims: int = 0> (j, a)
    hot = Hardmax <axis: int = 0> (x)
    soft = Softmax <axis: int = 0> (x)
    product = ReduceProd (x, a)
}"""
VALUES = {
    "large": "[[-inf, -inf, -inf]]", "small": "[inf, inf, inf]", "least": "127", "most": "[[-128]]",
    "sum": "[[-inf, -inf, -inf]]", "hot": "[]", "product": "[[1., 1., 1.]]",
}  # fmt: skip
PLACE = """<ir_version: 8, opset_import: ["" : 18]>
place (float[n,3] x) => (int64[1,3] y) { y = ArgMax <axis: int = 0> (x) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(EMPTY), tmp_path / "empty.onnx")
    return tmp_path / "empty.onnx"


def shown(said: str) -> dict[str, str]:
    """The outputs by name, as they are printed."""
    parts = re.findall(r"^(\w+): (Tensor.*(?:\n    .*)*)", said, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in parts}


@pytest.mark.row("J16")
@pytest.mark.parametrize("n", [0, 2])
def test_a_symbol_that_is_0_is_as_a_size_that_is_0(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], n: int
) -> None:
    """`--kernels` imports the model for all sizes, the other run at those that are given."""
    sizes = ("--dim", f"n={n}", "--dim", "m=0")
    assert assay(monkeypatch, "run", model, *sizes) == 0
    given = shown(capsys.readouterr().out)
    assert assay(monkeypatch, "run", model, *sizes, "--kernels", "interpreted") == 0
    assert shown(capsys.readouterr().out) == given
    assert len(given) == 9
    if n == 0:
        assert {k: v for k, v in VALUES.items() if not given[k].endswith(v)} == {}


def test_no_place_is_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX gives ArgMax of no elements no value."""
    onnx.save(parser.parse_model(PLACE), tmp_path / "place.onnx")
    assert assay(monkeypatch, "run", tmp_path / "place.onnx", "--dim", "n=0") == 2
    assert "max.C3" in capsys.readouterr().err
    assert assay(monkeypatch, "run", tmp_path / "place.onnx", "--dim", "n=0", "--kernels", "interpreted") != 0


def test_an_output_may_say_no_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[n,3] x) => (y) { y = ReduceMax (x) }')
    onnx.save(model, tmp_path / "untyped.onnx")
    assert assay(monkeypatch, "check", tmp_path / "untyped.onnx", "--bound", "n=0..3", "--stop-after", "import") == 0


def test_an_import_that_forgets_size_0_is_noticed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "never_negative", lambda d: True)
    assert differs(onnx.load(model), {"n": 0, "m": 0}, model) == "one of them fails"


# --- ONNX's own cases -------------------------------------------------------------------------------------------------


def differs(model: onnx.ModelProto, sizes: dict[str, int], place: Path) -> str:
    """What a model at given sizes and the model for all sizes, run at them, do differently; "" where they agree. A
    model that is not imported for all sizes has nothing to compare."""
    try:
        for_all = import_onnx(model, evaluate=evaluate)
    except AssayError:
        return ""
    onnx.save(model, place)
    given: Any = None
    values: dict[str, Any] = {}
    try:
        done = ran(place, None, sizes, {}, 0)
        given, values = done.results if done.trap is None else None, dict(done.inputs)
    except AssayError as wrong:
        if wrong.label == "reshape.C2" or "Reshape-" in str(wrong):  # what it says of 0 it says of numbers only
            return ""
    if not values:
        for p in for_all.main.params:
            if not isinstance(p.type, TensorType):
                return ""
            shape = tuple(d if isinstance(d, int) else sizes[str(d)] for d in p.type.shape)
            values[p.name] = np.ones(shape, p.type.dtype.numpy)
    try:
        found = run(for_all, values)
    except (Trap, AssayError):
        return "" if given is None else "one of them fails"
    if given is None:
        return "one of them fails"
    pairs = zip(given.values(), found.values(), strict=True)
    return "" if all(same(a, b) for a, b in pairs) else "their values differ"


def same(one: Any, other: Any) -> bool:
    """Whether two tensors are one, a NaN being a NaN; of other values nothing is said."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return True
    a, b = (np.asarray(v, np.float64) if v.dtype.kind == "V" else v for v in (one, other))
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all((a == b) | (a != a) & (b != b)))


def with_symbol(model: onnx.ModelProto, size: int) -> onnx.ModelProto:
    """A model with a symbol in place of a size of its inputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for given in made.graph.input:
        for d in given.type.tensor_type.shape.dim:
            if d.dim_value == size:
                d.dim_param = "n"
    for result in made.graph.output:
        result.type.tensor_type.ClearField("shape")
    return made


@pytest.mark.campaign
@pytest.mark.parametrize("size", [0, 1])
def test_every_size_of_every_case(tmp_path: Path, size: int) -> None:
    """The bodies of Attention take a computed size that is 0 for one of the operand's, as Reshape does with numbers."""
    odd = []
    for case in onnx_own_cases.named(r"(?!.*(expanded|attention))\w"):
        tensors = [i.type.tensor_type for i in case.model.graph.input if i.type.HasField("tensor_type")]
        if not all(o.type.HasField("tensor_type") for o in case.model.graph.output):
            continue
        for own in sorted({d.dim_value for t in tensors for d in t.shape.dim if 0 < d.dim_value < 200}):
            why = differs(with_symbol(case.model, own), {"n": size}, tmp_path / "case.onnx")
            odd += [f"{case.name}, {own}: {why}"] if why else []
    assert odd == []
