"""Functions that a model defines, and tensors that it stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.semantics.errors import BudgetSpent, Invalid
from assay.semantics.graph import Constant
from tests.lower.frontends.onnx.onnx_cases import (
    F32,
    agree,
    chain,
    evaluated,
    floats,
    imported,
    whole,
)
from tests.models import model

# --- functions ----------------------------------------------------------------------------------------------------


def with_functions(main: list[onnx.NodeProto], *functions: onnx.FunctionProto) -> ModelProto:
    proto = model(main, {"x": (F32, (2, 3))}, {"y": (F32, (2, 3))}, opsets={"mine": 1}, ir_version=10)
    proto.functions.extend(functions)
    return proto


def function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], **more: Any
) -> onnx.FunctionProto:
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("mine", 1)]
    return helper.make_function("mine", name, inputs, outputs, nodes, sets, **more)


def test_functions_of_the_model() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    inner = function("inner", ["a", "bias"], ["b"], [leaky], attributes=["slope"])
    call = helper.make_node("inner", ["p"], ["q"], domain="mine")
    call.attribute.add(name="slope", type=onnx.AttributeProto.FLOAT, ref_attr_name="steep")
    outer_nodes = [*chain(("Neg", ["x"], ["p"], {})), call]
    outer = function("outer", ["x"], ["q"], outer_nodes, attribute_protos=[helper.make_attribute("steep", 0.5)])
    x = floats(2, 3)
    for attrs, slope in (({}, 0.5), ({"steep": 0.25}, 0.25)):
        main = [helper.make_node("outer", ["x"], ["y"], domain="mine", name="call", **attrs)]
        proto = with_functions(main, inner, outer)
        np.testing.assert_array_equal(evaluated(proto, {"x": x})["y"], np.where(-x >= 0, -x, -x * F32(slope)))
        assert str(imported(proto).body.span) == "model (call/q/b)"
    with pytest.raises(Invalid, match="has no attribute 'wrong'"):
        imported(with_functions([helper.make_node("inner", ["x"], ["y"], domain="mine", wrong=1)], inner))
    with pytest.raises(Invalid, match="takes 2 operands and gives 1 outputs; 3 and 1"):
        imported(with_functions([helper.make_node("inner", ["x", "x", "x"], ["y"], domain="mine")], inner))


def test_functions_that_never_end_are_refused() -> None:
    itself = function("f", ["a"], ["b"], [helper.make_node("g", ["a"], ["b"], domain="mine")])
    other = function("g", ["a"], ["b"], [helper.make_node("f", ["a"], ["b"], domain="mine")])
    with pytest.raises(Invalid, match=r"calls itself .*onnx\.C4"):
        imported(with_functions([helper.make_node("f", ["x"], ["y"], domain="mine")], itself, other))
    doubling = [function("f0", ["a"], ["b"], chain(("Neg", ["a"], ["b"], {})))]
    for i in range(40):
        twice = [
            helper.make_node(f"f{i}", ["a"], ["t"], domain="mine"),
            helper.make_node(f"f{i}", ["t"], ["b"], domain="mine"),
        ]
        doubling.append(function(f"f{i + 1}", ["a"], ["b"], twice))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.lower.frontends.onnx.model.MOST_INLINED", 1000)
        with pytest.raises(BudgetSpent, match="at most 1000 are taken"):
            imported(with_functions([helper.make_node("f40", ["x"], ["y"], domain="mine")], *doubling))


# --- stored tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of",
    ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64",
     "bool", "int4", "uint4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"],
)  # fmt: skip
@pytest.mark.parametrize("raw", [True, False])
def test_initializers_of_every_type(of: str, raw: bool) -> None:
    numpy = np.dtype(getattr(ml_dtypes, of, of))
    low = 0 if of.startswith(("u", "b")) and of != "bfloat16" else -7
    data = whole(3, 5, low=low, high=2 if of == "bool" else 8).astype(numpy)
    number = helper.np_dtype_to_tensor_dtype(numpy)
    if raw:
        stored = numpy_helper.from_array(data, "y")
    else:
        stored = helper.make_tensor("y", number, data.shape, data.reshape(-1).tolist())
    assert stored.HasField("raw_data") is raw
    proto = model([], {}, {"y": (number, (3, 5))}, opset=23)
    proto.graph.initializer.append(stored)
    body = imported(proto).body
    assert isinstance(body, Constant) and body.data.dtype == numpy
    np.testing.assert_array_equal(body.data.astype(np.float64), data.astype(np.float64))


def external(folder: Path, **info: str) -> Path:
    """A model whose initializer lies in weights.bin, 8 bytes in."""
    data = floats(2, 3)
    (folder / "weights.bin").write_bytes(bytes(8) + data.tobytes() + bytes(4))
    proto = model(chain(("Add", ["x", "w"], ["y"], {})), {"x": (F32, (2, 3))}, {"y": (F32, (2, 3))}, {"w": data})
    stored = proto.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", "offset": "8", "length": "24", **info}.items():
        if value:
            stored.external_data.add(key=key, value=value)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "model.onnx"


def test_data_beside_the_model(tmp_path: Path) -> None:
    path = external(tmp_path)
    got = graph.run(import_onnx(path, evaluate=graph.evaluate), {"x": floats(2, 3)})
    np.testing.assert_array_equal(got["y"], floats(2, 3) * 2)
    whole_model = load_model(path)  # stands alone
    np.testing.assert_array_equal(evaluated(whole_model, {"x": floats(2, 3)})["y"], floats(2, 3) * 2)
    agree(whole_model, {"x": floats(2, 3)})


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"location": "missing.bin"}, "No such file"),
        ({"location": "../weights.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": ""}, "says not where"),
        ({"length": "100"}, "a file of 36 bytes"),
        ({"length": "20"}, "takes 24 bytes, but 20"),
        ({"length": ""}, "takes 24 bytes, but 28"),
        ({"offset": "x"}, "the digits 0 to 9"),
        ({"offset": "-4"}, "the digits 0 to 9"),
        ({"location": "."}, "cannot be read"),
        ({"location": "a\0b"}, "is no path"),
    ],
)
def test_data_beside_the_model_that_cannot_be_had(tmp_path: Path, info: dict[str, str], message: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external(folder, **info)
    for read in (load_model, lambda p: import_onnx(p, evaluate=graph.evaluate)):
        if read is load_model and message.startswith("takes"):
            continue  # the size of what is read is looked at later
        with pytest.raises(Invalid, match=message) as found:
            read(path)
        assert str(found.value.where) == "model.onnx (w)"
    with pytest.raises(Invalid, match="give the model's path"):
        import_onnx(external(tmp_path).read_bytes(), evaluate=graph.evaluate)
