"""Models that cannot be used: one line that says what is wrong, where, and by which rule; never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.semantics import budget
from assay.semantics.errors import AssayError, BudgetSpent, Crash, Invalid, Trap, Unsupported
from tests.lower.frontends.onnx.onnx_cases import F32, chain, floats, imported, ints, tensor, whole
from tests.lower.frontends.onnx.test_onnx_operators import EVERY
from tests.models import model, single, small_cnn, transformer_block

X = floats(2, 3)


def refused(proto: Any, label: str, *parts: str, **options: Any) -> Invalid:
    """The import fails with this label, one line, and these parts of a message."""
    with pytest.raises(Invalid) as found:
        import_onnx(proto, evaluate=graph.evaluate, **options)
    said = str(found.value)
    assert found.value.label == label, said
    assert "\n" not in said
    for part in parts:
        assert part in said, said
    return found.value


def relu() -> ModelProto:
    return single("Relu", 14, [X], outputs=[(F32, (2, 3))])


def altered(change: Callable[[ModelProto], object], base: Callable[[], ModelProto] = relu) -> ModelProto:
    proto = base()
    change(proto)
    return proto


# --- C1, C2: not a model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [load_model, lambda p: import_onnx(p, evaluate=graph.evaluate)])
def test_c1_files_that_are_no_models(tmp_path: Path, read: Callable[[Any], object]) -> None:
    data = small_cnn().SerializeToString()
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.onnx").write_text("this is no model\n")
    (tmp_path / "picture.onnx").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    for name, part in (
        ("missing.onnx", "No such file"),
        (".", "is a directory"),
        ("empty.onnx", "no bytes"),
        ("half.onnx", "truncated"),
        ("text.onnx", "not an ONNX model"),
        ("picture.onnx", "not an ONNX model"),
    ):
        with pytest.raises(Invalid, match=part) as found:
            read(tmp_path / name)
        assert found.value.label == "onnx.C1" and "\n" not in str(found.value)
    with pytest.raises(Invalid, match="cannot read"):
        read("a\0b")


def test_c1_bytes_that_are_no_models() -> None:
    refused(b"", "onnx.C1", "no bytes")
    refused(b"\x08", "onnx.C1", "truncated")
    refused(ModelProto(), "onnx.C1", "no graph")
    refused(altered(lambda m: m.ClearField("ir_version")), "onnx.C1", "no ir_version")


def test_c1_names_that_are_not_utf8() -> None:
    data = relu().SerializeToString().replace(b"node", b"\xff\xfe\xfd\xfc").replace(b"Relu", b"\xff\xfe\xfd\xfc")
    refused(data, "onnx.C1", "not UTF-8")


def test_c2_versions() -> None:
    newest = onnx.defs.onnx_opset_version()
    refused(altered(lambda m: setattr(m, "ir_version", 99)), "onnx.C2", "IR version 99")
    refused(altered(lambda m: setattr(m.opset_import[0], "version", 999)), "onnx.C2", "set 999", f"1 to {newest}")
    refused(altered(lambda m: setattr(m.opset_import[0], "version", 0)), "onnx.C2", "set 0")
    refused(altered(lambda m: m.opset_import.add(domain="ai.onnx", version=9)), "onnx.C2", "two operator sets")
    refused(altered(lambda m: m.ClearField("opset_import")), "onnx.C2", "Relu", "ai.onnx")
    refused(altered(lambda m: setattr(m.graph.node[0], "domain", "com.other")), "onnx.C2", "com.other")
    old = altered(lambda m: (m.ClearField("opset_import"), setattr(m, "ir_version", 2)))
    assert imported(old).body.type is not None  # then, version 1 was meant


def test_the_other_name_of_the_domain() -> None:
    proto = altered(
        lambda m: (setattr(m.graph.node[0], "domain", "ai.onnx"), setattr(m.opset_import[0], "domain", "ai.onnx"))
    )
    assert imported(proto).body.type is not None


# --- C3: inputs ---------------------------------------------------------------------------------------------------


def test_c3_inputs() -> None:
    def untyped(m: ModelProto) -> None:
        m.graph.input[0].ClearField("type")

    def shapeless(m: ModelProto) -> None:
        m.graph.input[0].type.tensor_type.ClearField("shape")

    refused(altered(untyped), "onnx.C3", "input 'x0' has no type", "model (x0)")
    refused(altered(shapeless), "onnx.C3", "no shape")


def test_c3_dims() -> None:
    proto = single("Relu", 14, [X])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    refused(proto, "onnx.C3", "'m'", "it has n", dims={"m": 3})
    for value in (-1, 2.5, True, "4"):
        refused(proto, "onnx.C3", "whole number", dims={"n": value})
    refused(relu(), "onnx.C3", "it has none", dims={"n": 3})


# --- C4: names ----------------------------------------------------------------------------------------------------


def test_c4_names() -> None:
    a, b = (helper.make_node("Neg", [i], [o], name=f"{i}{o}") for i, o in (("x", "a"), ("a", "y")))
    types = {"x": (F32, (2,))}
    wanted = {"y": (F32, (2,))}
    refused(model([b, a], types, wanted), "onnx.C4", "'a' is used before a later node gives it", "model (ay)")
    loop = [helper.make_node("Add", ["x", "y"], ["a"], name="first"), b]
    refused(model(loop, types, wanted), "onnx.C4", "'y' depends on itself: the graph has a cycle", "model (first)")
    itself = [helper.make_node("Add", ["x", "y"], ["y"], name="alone")]
    refused(model(itself, types, wanted), "onnx.C4", "cycle")
    refused(model([b], types, wanted), "onnx.C4", "nothing gives 'a'")
    refused(model([a, a, b], types, wanted), "onnx.C4", "'a' is defined twice")
    refused(
        model([helper.make_node("Neg", ["x"], ["x"])], types, {"x": (F32, (2,))}), "onnx.C4", "'x' is defined twice"
    )
    refused(model([a, b], types, {"z": (F32, (2,))}), "onnx.C4", "nothing gives 'z'", "model (z)")
    refused(model([a, b], types, {}), "onnx.C4", "no outputs")
    doubled = altered(lambda m: m.graph.output.append(m.graph.output[0]))
    refused(doubled, "onnx.C4", "named twice")
    refused(altered(lambda m: m.graph.input.append(m.graph.input[0])), "onnx.C4", "named twice")
    stored = single("Add", 14, [X, X], constants=[1])
    stored.graph.initializer.append(stored.graph.initializer[0])
    refused(stored, "onnx.C4", "'x1' is defined twice")
    refused(altered(lambda m: setattr(m.graph.input[0], "name", "")), "onnx.C4", "an input has no name")
    nameless = altered(lambda m: m.graph.initializer.append(TensorProto(data_type=1, dims=[0])))
    refused(nameless, "onnx.C4", "an initializer has no name")


def test_c4_a_long_cycle_is_found() -> None:
    count = 5_000
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    nodes[0].input[0] = f"v{count}"
    refused(model(nodes, {}, {f"v{count}": (F32, (2,))}), "onnx.C4", "cycle")


def test_c4_functions() -> None:
    def twice(m: ModelProto) -> None:
        body = helper.make_function(
            "mine", "f", ["a"], ["b"], chain(("Neg", ["a"], ["b"], {})), [helper.make_opsetid("", 14)]
        )
        m.functions.extend([body, body])

    refused(altered(twice), "onnx.C4", "function 'f' of domain 'mine' is defined twice")


# --- C5: operators that do not exist ------------------------------------------------------------------------------


def test_c5_unknown_operators() -> None:
    refused(single("Frobnicate", 14, [X]), "onnx.C5", "Frobnicate", "ai.onnx", "operator set 14", "model (node)")
    refused(single("Gelu", 17, [X]), "onnx.C5", "Gelu", "operator set 17", "from set 20 on")
    refused(single("Upsample", 17, [X, X]), "onnx.C5", "Upsample", "removed", "set 10")
    refused(single("Gelu", 17, [X], domain="com.other"), "onnx.C5", "Gelu", "com.other")


# --- C6: attributes -----------------------------------------------------------------------------------------------


def test_c6_attributes() -> None:
    refused(single("Relu", 14, [X], {"alpha": 1.0}), "onnx.C6", "Relu-14 has no attribute 'alpha'")
    refused(single("LeakyRelu", 16, [X], {"alpha": 1}), "onnx.C6", "'alpha' is of kind INT, FLOAT is wanted")
    refused(single("Concat", 13, [X, X], {"axis": [0, 1]}), "onnx.C6", "'axis' is of kind INTS")
    refused(single("Concat", 13, [X, X]), "onnx.C6", "Concat-13 needs the attribute 'axis'")
    refused(single("ReduceSum", 13, [X], {"axes": [1]}), "onnx.C6", "no attribute 'axes'")
    doubled = single("Concat", 13, [X, X], {"axis": 0})
    doubled.graph.node[0].attribute.append(doubled.graph.node[0].attribute[0])
    refused(doubled, "onnx.C6", "'axis' is given twice")
    unbound = single("LeakyRelu", 16, [X])
    unbound.graph.node[0].attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
    refused(unbound, "onnx.C6", "there is no function")
    number = single("LeakyRelu", 16, [X], {"alpha": 1.0})
    number.graph.node[0].attribute[0].type = 0  # as the oldest models have it
    assert imported(number).body.type is not None


# --- C7: operands -------------------------------------------------------------------------------------------------


def test_c7_operands() -> None:
    refused(single("Relu", 14, []), "onnx.C7", "operand X (number 0) is missing")
    refused(single("Add", 14, [X]), "onnx.C7", "operand B (number 1) is missing")
    refused(single("Gemm", 13, [X, None, X]), "onnx.C7", "operand B (number 1) is missing")
    refused(single("Relu", 14, [X, X]), "onnx.C7", "at most 1 operands, 2 given")
    refused(single("Relu", 14, [X], outputs=2), "onnx.C7", "at most 1 outputs, 2 named")
    refused(single("Sum", 13, [X, None, X]), "onnx.C7", "(number 1) is missing")
    refused(single("Sum", 13, []), "onnx.C7", "missing")
    refused(single("Relu", 13, [whole(2, 3)]), "onnx.C7", "operand X is int64, allowed are bfloat16, double")
    refused(single("Add", 14, [X, whole(2, 3)]), "onnx.C7", "operands A and B are float32 and int64")
    refused(single("Not", 1, [X]), "onnx.C7", "allowed are bool")
    refused(single("Gather", 13, [X, X]), "onnx.C7", "indices is float32, allowed are int32, int64")


# --- C8: types that we do not have --------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["STRING", "COMPLEX64", "COMPLEX128"])
def test_c8_element_types(of: str) -> None:
    number = TensorProto.DataType.Value(of)
    proto = model(chain(("Identity", ["x"], ["y"], {})), {"x": (number, (2,))}, {"y": (number, (2,))}, opset=14)
    refused(proto, "onnx.C8", "input 'x'", of.lower(), "strings are for" if of == "STRING" else "supported are float32")
    is_text = of == "STRING"  # which may stand inside of a model
    label = "onnx.C13" if is_text else "onnx.C8"
    refused(single("Cast", 21, [X], {"to": number}), label, of.lower())
    refused(single("Cast", 1, [X], {"to": of}), label, of.lower() if is_text else of)
    stored = altered(lambda m: m.graph.initializer.append(TensorProto(name="s", data_type=number)))
    refused(stored, "onnx.C9" if is_text else "onnx.C8", "initializer 's'", "model (s)")


def test_c8_kinds_of_values() -> None:
    def kind(maker: Callable[[], onnx.TypeProto]) -> ModelProto:
        return altered(lambda m: m.graph.input[0].type.CopyFrom(maker()))

    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    refused(kind(lambda: helper.make_sequence_type_proto(element)), "onnx.C7", "X is seq(tensor(float))")
    refused(kind(lambda: helper.make_optional_type_proto(element)), "onnx.C7", "X is optional(tensor(float))")
    refused(kind(lambda: helper.make_sparse_tensor_type_proto(1, [2])), "onnx.C8", "a sparse tensor")
    refused(altered(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77)), "onnx.C8", "number 77")
    refused(altered(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0)), "onnx.C8", "number 0")


@pytest.mark.parametrize(
    "places,shape,said",
    [([2, 1], [2], "do not ascend"), ([1, 1], [2], "do not ascend"), ([1, 3], [2], "outside of its shape"),
     ([0, 1, 2], [3], "a vector and int64"), ([-1, 0], [2], "outside of its shape"),
     ([0, 0, 0, 1, 1, 0], [2, 3], "(2, 3)")],
)  # fmt: skip
def test_c9_sparse_initializers(places: list[int], shape: list[int], said: str) -> None:
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, shape, places), [3])
    refused(altered(lambda m: m.graph.sparse_initializer.append(sparse)), "onnx.C9", said)


# --- C9: stored data ----------------------------------------------------------------------------------------------


def test_c9_data_that_does_not_fit_its_shape() -> None:
    def stored(**fields: Any) -> ModelProto:
        return altered(lambda m: m.graph.initializer.append(TensorProto(name="s", data_type=1, **fields)))

    refused(stored(dims=[2, 3], raw_data=bytes(20)), "onnx.C9", "(2, 3)", "takes 24 bytes, but 20", "model (s)")
    refused(stored(dims=[3], float_data=[1, 2]), "onnx.C9", "2 numbers in float_data")
    refused(stored(dims=[3]), "onnx.C9", "0 numbers")
    refused(stored(dims=[-1]), "onnx.C9", "a size is negative")
    refused(stored(dims=[2**40, 2**40], raw_data=b""), "onnx.C9", "more than any machine has")
    refused(stored(dims=[3], segment=TensorProto.Segment(begin=0, end=1)), "onnx.C9", "segment")
    refused(stored(dims=[2**62, 0, 2]), "onnx.C9", "more than any machine has")
    refused(stored(dims=[1] * 65, float_data=[1]), "onnx.C9", "more than any machine has")
    packed = altered(
        lambda m: m.graph.initializer.append(TensorProto(name="s", data_type=22, dims=[3], raw_data=b"\0"))
    )
    refused(packed, "onnx.C9", "int4", "takes 2 bytes, but 1")
    refused(single("Constant", 13, [], {"value": TensorProto(data_type=1, dims=[2])}), "onnx.C9", "Constant-13: value")


# --- C11: declarations that are not so ----------------------------------------------------------------------------


def test_c11_declared_types_that_contradict_ours() -> None:
    def output(of: Any, shape: Any) -> ModelProto:
        return single("Relu", 14, [X], outputs=[(of, shape)])

    refused(output(F32, (2, 4)), "onnx.C11", "Tensor((2, 4), float32)", "it is Tensor((2, 3), float32)", "model (y0)")
    refused(output(F32, (2, 3, 1)), "onnx.C11", "Tensor((2, 3, 1), float32)")
    refused(output(np.float64, (2, 3)), "onnx.C11", "Tensor((2, 3), float64)")
    assert imported(output(F32, ("n", 3))).body.type is not None
    assert imported(output(F32, None)).body.type is not None
    inner = model(
        chain(("Neg", ["x"], ["h"], {}), ("Neg", ["h"], ["y"], {})), {"x": (F32, ("n", 3))}, {"y": (F32, ("n", 3))}
    )
    declared = inner.graph.value_info.add()
    for shape, wrong in ((("n", 3), False), (("m", 3), False), ((None, 3), False), (("n", 4), True), ((7, 4), True)):
        declared.CopyFrom(helper.make_tensor_value_info("h", TensorProto.FLOAT, shape))
        if wrong:
            refused(inner, "onnx.C11", "'h' is declared as", "Tensor((n, 3), float32)")
        else:
            assert imported(inner).body.type is not None
    declared.CopyFrom(helper.make_tensor_value_info("h", TensorProto.FLOAT, (7, 3)))
    refused(inner, "onnx.C11", "Tensor((7, 3), float32)", dims={"n": 5})
    assert imported(inner, dims={"n": 7}).body.type is not None


def test_c11_declared_initializers() -> None:
    proto = single("Add", 7, [X, X], constants=[1])  # IR version 3: x1 is declared as an input
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 5
    refused(proto, "onnx.C11", "'x1' is declared as Tensor((5, 3), float32)", "model (x1)")


# --- C12: what operators ask ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proto", "part"),
    [
        (single("Conv", 11, [X, X]), "axes N, C and at least one spatial"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2, 2)]), "3 axes are wanted in both"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2)], {"kernel_shape": [3]}), "kernel_shape is (3,)"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2)], {"pads": [1]}), "pads is (1,); 2 integers"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2)], {"pads": [1, -1]}), "at least 0"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2)], {"strides": [0]}), "strides is (0,)"),
        (single("Conv", 11, [floats(1, 2, 5), floats(3, 2, 2)], {"auto_pad": "SOME"}), "auto_pad is 'SOME'"),
        (single("MaxPool", 12, [floats(1, 2, 5)], {"kernel_shape": [2, 2]}), "kernel_shape is (2, 2); 1 positive"),
        (single("GlobalMaxPool", 1, [X]), "axes N, C and at least one spatial"),
        (single("Gemm", 13, [floats(2), X]), "operand A is Tensor((2), float32); a matrix"),
        (single("Gemm", 13, [X, floats(3, 4), floats(5, 1, 4)]), "does not broadcast"),
        (single("Reshape", 13, [X, ints(0, 0, 0)], constants=[1]), "0 at 2 stands for no size"),
        (single("Reshape", 13, [X, ints(-2, 3)], constants=[1]), "-2 at 0"),
        (
            single("Reshape", 14, [floats(0, 3), ints(0, -1)], {"allowzero": 1}, constants=[1]),
            "nothing tells what -1 is",
        ),
        (single("Flatten", 13, [X], {"axis": 3}), "axis 3 is out of range"),
        (single("Split", 13, [X], {"axis": 1}, outputs=2), "has size 3, which is no multiple of 2"),
        (single("Split", 13, [X, ints(1, 1, 1)], {"axis": 1}, constants=[1], outputs=2), "3 parts, but 2 outputs"),
        (single("Split", 18, [X], {"num_outputs": 3}, outputs=2), "num_outputs is 3, and 2"),
        (single("Split", 18, [X, ints(1, 1)], {"num_outputs": 2}, constants=[1], outputs=2), "only one may be"),
        (single("Split", 18, [floats(5)], {"num_outputs": 4}, outputs=4), "too short for 4 parts"),
        (single("Expand", 13, [X, ints(5, 3)], constants=[1]), "2 against 5 in axis 0"),
        (single("Expand", 13, [X, ints(-1, 3)], constants=[1]), "-1 is no size"),
        (single("Tile", 13, [X, ints(2)], constants=[1]), "2 numbers of at least 0"),
        (single("Slice", 13, [X, ints(0, 0), ints(1), ints(0)], constants=[1, 2, 3]), "2 starts, 1 ends"),
        (single("Slice", 13, [X, ints(0), ints(1), ints(0), ints(0)], constants=[1, 2, 3, 4]), "0 is no step"),
        (single("Pad", 13, [X, ints(1, 1)], constants=[1]), "4 numbers are wanted"),
        (single("Pad", 13, [X, ints(1, 1, 1, 1)], {"mode": "wrap"}, constants=[1]), "since operator set 19"),
        (single("Pad", 13, [X, ints(1, 1, 1, 1), floats(2)], constants=[1, 2]), "a scalar is wanted"),
        (single("Clip", 13, [X, floats(2)]), "operand min is Tensor((2), float32); a scalar"),
        (single("Gelu", 20, [X], {"approximate": "some"}), "approximate is 'some'"),
        (single("LayerNormalization", 17, [X, floats(3)], {"stash_type": 2}), "stash_type is 2"),
        (single("LayerNormalization", 17, [X, floats(4, 2, 3)]), "must broadcast to X"),
        (single("Constant", 13, []), "0 values are given"),
        (single("Constant", 13, [], {"value_int": 1, "value_float": 2.0}), "2 values are given"),
        (single("ConstantOfShape", 9, [ints(-1)], constants=[0]), "a vector of sizes"),
        (single("ConstantOfShape", 9, [ints(2)], {"value": tensor(floats(2))}, constants=[0]), "one element"),
        (single("Range", 11, [np.array(1), np.array(5), np.array(0)], constants=[0, 1, 2]), "delta is 0"),
        (single("BatchNormalization", 15, [floats(), *(floats(1) for _ in range(4))]), "a scalar; axes N and C"),
    ],
)
def test_c12_operands_and_attributes_that_do_not_fit(proto: ModelProto, part: str) -> None:
    refused(proto, "onnx.C12", part, "model (node)", proto.graph.node[0].op_type)


def test_constraints_of_our_own_operators_have_the_place() -> None:
    refused(single("MatMul", 13, [X, X]), "matmul.C2", "model (node)")
    refused(single("Add", 14, [X, floats(2)]), "broadcast.C1", "model (node)")
    refused(single("Concat", 13, [X, X], {"axis": 2}), "axis.C1", "model (node)")
    refused(single("Unsqueeze", 13, [X, ints(0, 0)], constants=[1]), "axis.C2", "model (node)")
    refused(single("Squeeze", 13, [X, ints(0)], constants=[1]), "squeeze.C2", "model (node)")
    refused(single("Transpose", 13, [X], {"perm": [0, 0]}), "permute_dims.C2", "model (node)")


# --- C14: forms that are not translated -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proto", "part"),
    [
        (single("Conv", 11, [floats(1, 1, 2, 2, 2, 2), floats(1, 1, 1, 1, 1, 1)]), "4 spatial axes"),
    ],
)
def test_c14_unsupported_forms(proto: ModelProto, part: str) -> None:
    assert isinstance(refused(proto, "onnx.C14", part), Unsupported)


def test_c14_symbolic_sizes_that_must_be_numbers() -> None:
    def free(
        op: str, shape: tuple[Any, ...], attrs: dict[str, Any], stored: dict[str, Any] | None = None
    ) -> ModelProto:
        nodes = [helper.make_node(op, ["x", *(stored or {})], ["y"], name="node", **attrs)]
        return model(nodes, {"x": (F32, shape)}, {"y": (F32, None)}, stored, 19)

    same = {"auto_pad": "SAME_UPPER", "kernel_shape": [3], "strides": [2]}
    refused(free("MaxPool", (1, 2, "n"), same), "onnx.C14", "SAME_UPPER of an axis of size n with stride 2")
    stepless = free("MaxPool", (1, 2, "n"), {**same, "strides": [1]})
    assert str(imported(stepless).body.type) == "Tensor((1, 2, n), float32)"
    refused(free("Squeeze", ("n", 1), {}), "onnx.C14", "give the symbolic dims values")
    backward = {"starts": ints(-3), "ends": ints(-9), "axes": ints(0), "steps": ints(-1)}
    refused(free("Slice", ("n", 1), {}, backward), "onnx.C14", "backward slice")


# --- damaged models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [relu, small_cnn, lambda: transformer_block(4, 6, 2, shapes="computed")])
def test_damaged_models_are_invalid_or_fine(make: Callable[[], ModelProto]) -> None:
    """Bytes altered, dropped, doubled: an import succeeds or says Invalid, and nothing else."""
    whole_model = make().SerializeToString()
    chance = random.Random(1)
    refusals = 0
    for _ in range(150):
        data = bytearray(whole_model)
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at] ^= 1 << chance.randrange(8)
                case 2:
                    del data[at : at + chance.randrange(1, 9)]
                case _:
                    data[at:at] = data[at : at + chance.randrange(1, 9)]
        try:
            import_onnx(bytes(data), evaluate=graph.evaluate)
        except (Trap, Crash):
            raise
        except AssayError as wrong:
            assert isinstance(wrong, Invalid) and wrong.label and "\n" not in str(wrong)
            refusals += 1
    assert refusals > 20


EXTREME = (0, 1, -1, 3, 2**31, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("at", range(0, len(EVERY), 9))
def test_extreme_numbers_are_invalid_or_fine(at: int) -> None:
    """Every whole number of a model, one after another: sizes, attributes, stored integers."""
    whole_model = EVERY[at].model()
    if "dilations" in EVERY[at].attrs and "Pool" in EVERY[at].op:
        pytest.skip("the type rule of a dilated pool takes time and memory that grow with the size")
    for number in EXTREME:
        for place in range(len(list(_numbers(whole_model, None, 0)))):
            copy = ModelProto()
            copy.CopyFrom(whole_model)
            list(_numbers(copy, place, number))
            try:
                with budget.of(budget.Budget(1 << 28)):
                    import_onnx(copy, evaluate=graph.evaluate)
            except (Invalid, BudgetSpent) as wrong:
                assert wrong.label and "\n" not in str(wrong)


def _numbers(proto: ModelProto, change: int | None, to: int) -> Iterator[int]:
    """Count the whole numbers of a model's first node, inputs and integer initializers; replace one."""
    count = 0
    for attribute in proto.graph.node[0].attribute:
        if attribute.type == AttributeProto.INT:
            attribute.i = to if count == change else attribute.i
            yield (count := count + 1)
        for i in range(len(attribute.ints)):
            attribute.ints[i] = to if count == change else attribute.ints[i]
            yield (count := count + 1)
    for given in proto.graph.input:
        for d in given.type.tensor_type.shape.dim:
            d.dim_value = to if count == change else d.dim_value
            yield (count := count + 1)
    for stored in proto.graph.initializer:
        if stored.data_type == TensorProto.INT64:
            data = numpy_helper.to_array(stored).copy()
            for i in range(data.size):
                data.reshape(-1)[i] = to if count == change else data.reshape(-1)[i]
                yield (count := count + 1)
            stored.CopyFrom(numpy_helper.from_array(data, stored.name))
