"""What a model as a whole becomes: names, sharing, depth, real models."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators import RULES
from assay.semantics.bounds import contains
from assay.semantics.graph import Call, Expr, Tuple, show_head
from assay.semantics.walk import post_order
from tests.lower.frontends.onnx.onnx_cases import (
    F32,
    Array,
    agree,
    cases,
    chain,
    evaluated,
    floats,
    imported,
    ints,
    operators,
    shape_of,
    tensor,
)
from tests.models import LightModel, light_models, model, single, small_cnn, transformer_block
from tests.scale import MANY

# --- names and structure ------------------------------------------------------------------------------------------


def test_parameters_are_the_true_inputs_in_order() -> None:
    nodes = chain(("Add", ["b", "w"], ["t"], {}), ("Add", ["t", "a"], ["y"], {}))
    types = {"b": (F32, (2, 3)), "a": (F32, (3,))}
    for ir_version in (3, 8):  # in the first, w is an input too
        proto = model(nodes, types, {"y": (F32, (2, 3))}, {"w": floats(3)}, 7, ir_version=ir_version)
        main = imported(proto)
        assert [p.name for p in main.params] == ["b", "a"]
        assert main.attrs["outputs"] == ("y",)
        got = evaluated(proto, {"a": floats(3), "b": floats(2, 3)})
        np.testing.assert_array_equal(got["y"], floats(2, 3) + floats(3) + floats(3))


def test_several_outputs_are_a_tuple_and_shared_values_stay_shared() -> None:
    nodes = chain(("Exp", ["x"], ["e"], {}), ("Neg", ["e"], ["n"], {}), ("Add", ["e", "n"], ["s"], {}))
    proto = model(nodes, {"x": (F32, (2,))}, {"s": (F32, (2,)), "e": (F32, (2,)), "x": (F32, (2,))}, {"c": floats(2)})
    proto.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [2]))
    main = imported(proto)
    assert main.attrs["outputs"] == ("s", "e", "x", "c")
    assert isinstance(main.body, Tuple)
    assert operators(main) == {"exp": 1, "negative": 1, "add": 1}
    got = evaluated(proto, {"x": floats(2)})
    np.testing.assert_array_equal(got["x"], floats(2))
    np.testing.assert_array_equal(got["c"], floats(2))


def test_every_node_has_a_span(tmp_path: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"], name="first"), helper.make_node("Neg", ["e"], ["y"])]
    path = tmp_path / "little.onnx"
    onnx.save(model(nodes, {"x": (F32, (2,))}, {"y": (F32, (2,))}), path)
    main = import_onnx(path, evaluate=graph.evaluate).main
    places = {show_head(n): str(n.span) for n in post_order(main) if isinstance(n, Call)}
    assert places == {
        "exp(): Tensor((2), float32)": "little.onnx (first)",
        "negative(): Tensor((2), float32)": "little.onnx (y)",
    }
    named = import_onnx(str(path), evaluate=graph.evaluate, source="elsewhere").main
    assert named.body.span is not None and named.body.span.source == "elsewhere"
    assert imported(onnx.load(path)).body.type is not None
    assert import_onnx(path.read_bytes(), evaluate=graph.evaluate).main.body.span is not None


def test_tensors_by_name() -> None:
    found: dict[str, Expr] = {}
    nodes = chain(("Exp", ["x"], ["e"], {}), ("Identity", ["e"], ["i"], {}), ("Neg", ["i"], ["y"], {}))
    import_onnx(model(nodes, {"x": (F32, (2,))}, {"y": (F32, (2,))}), evaluate=graph.evaluate, tensors=found)
    assert set(found) == {"x", "e", "i", "y"}
    assert found["i"] is found["e"]


def test_what_passes_a_value_on_leaves_nothing() -> None:
    nodes = chain(
        ("Identity", ["x"], ["i"], {}),
        ("Dropout", ["i"], ["d"], {}),
        ("Cast", ["d"], ["c"], {"to": TensorProto.FLOAT}),
        ("Reshape", ["c", "shape"], ["y"], {}),
    )
    main = imported(model(nodes, {"x": (F32, (2, 3))}, {"y": (F32, (2, 3))}, {"shape": ints(2, -1)}, 13))
    assert main.body is main.params[0] or operators(main) == {"reshape": 1}


def test_a_large_fill_is_not_made() -> None:
    proto = single("ConstantOfShape", 9, [ints(10**6, 10**6)], {"value": tensor(F32([2.5]))}, constants=[0])
    main = imported(proto)
    assert operators(main) == {"full": 1}
    assert shape_of(main.body) == ("1000000", "1000000")


# --- real models --------------------------------------------------------------------------------------------------

COUNTED = {
    "AveragePool": "nn.avg_pool2d",
    "BatchNormalization": "nn.batch_norm",
    "Concat": "concat",
    "ConstantOfShape": "full",
    "Conv": "nn.conv2d",
    "Gemm": "matmul",
    "LRN": "nn.lrn",
    "MaxPool": "nn.max_pool2d",
    "Mul": "multiply",
    "Relu": "nn.relu",
    "Softmax": "nn.softmax",
    "Transpose": "permute_dims",
    "Unsqueeze": "expand_dims",
}


@pytest.mark.parametrize("light", light_models(), ids=lambda m: m.name)
def test_light_models_import_node_by_node(light: LightModel) -> None:
    proto = light.load()
    main = imported(proto)
    ours, theirs = operators(main), Counter(n.op_type for n in proto.graph.node)
    transposed = sum(a.name == "transB" and a.i for n in proto.graph.node if n.op_type == "Gemm" for a in n.attribute)
    for name, op in COUNTED.items():
        assert ours[op] == theirs[name] + (transposed if name == "Transpose" else 0), name
    # a Gemm adds its third operand; a Sum of n adds n - 1 times
    sums = sum(len(n.input) - 1 for n in proto.graph.node if n.op_type == "Sum")
    assert ours["add"] == theirs["Add"] + theirs["Gemm"] + sums
    known = {*COUNTED, "Add", "Dropout", "GlobalAveragePool", "Reshape", "Sum"}
    assert set(theirs) <= known
    assert main.result_type is main.body.type


def test_there_are_nine_light_models() -> None:
    assert len(light_models()) == 9


@pytest.mark.parametrize("name", ["shufflenet"])
def test_light_models_give_the_stored_output(name: str) -> None:
    light = next(m for m in light_models() if m.name == name)
    module = import_onnx(light.path, evaluate=graph.evaluate)
    bounds = graph.run(module, light.inputs, bounds=True)
    for output, wanted in light.outputs.items():
        assert not bounds[output].vacuous.any()
        assert contains(bounds[output], wanted).all()


@pytest.mark.slow
@pytest.mark.parametrize("light", light_models(), ids=lambda m: m.name)
def test_every_light_model_gives_the_stored_output(light: LightModel) -> None:
    got = graph.run(import_onnx(light.path, evaluate=graph.evaluate), light.inputs)
    for output, wanted in light.outputs.items():
        np.testing.assert_allclose(got[output], wanted, rtol=1e-5, atol=1e-9)


@pytest.mark.peer
@pytest.mark.parametrize("erf", [True, False])
@pytest.mark.parametrize("shapes", ["constant", "computed"])
def test_transformer_block_agrees_with_onnx_runtime(erf: bool, shapes: str) -> None:
    pytest.importorskip("onnxruntime")
    agree(transformer_block(erf=erf, shapes=shapes), {"x": floats(1, 16, 32)})
    free = transformer_block("length", 12, 3, batch="n", erf=erf, shapes=shapes, approximate="tanh")
    for n, length in ((1, 5), (2, 7)):
        agree(free, {"x": floats(n, length, 12)})


@pytest.mark.peer
def test_small_cnn_agrees_with_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    agree(small_cnn(), {"x": floats(1, 3, 12, 12)})
    agree(small_cnn(batch="n", size=9, opset=11), {"x": floats(3, 3, 9, 9)})


def test_the_comparison_notices_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    (case,) = cases("LeakyRelu", [floats(2, 3)], 16)
    agree(case.model(), case.feed())
    monkeypatch.setitem(RULES, "LeakyRelu", lambda node: node.call("nn.leakyrelu", node[0], alpha=0.0101))
    with pytest.raises(AssertionError):
        agree(case.model(), case.feed())


# --- depth --------------------------------------------------------------------------------------------------------


def test_a_long_chain() -> None:
    count = MANY
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    main = import_onnx(model(nodes, {"v0": (F32, (2,))}, {f"v{count}": (F32, (2,))}), evaluate=graph.evaluate).main
    assert operators(main) == {"negative": count}


def test_a_long_chain_of_sizes() -> None:
    """Each step is computed from the one before, not from the start."""
    count = 2_000
    nodes = []
    for i in range(count):
        nodes += chain(("Sub", ["zero", f"s{i}"], [f"s{i + 1}"], {}), ("Abs", [f"s{i + 1}"], [f"a{i}"], {}))
        nodes += chain(("Reshape", [f"v{i}", f"a{i}"], [f"v{i + 1}"], {}))
    stored = {"s0": ints(3, 2), "zero": ints(0)}
    proto = model(nodes, {"v0": (F32, (2, 3))}, {f"v{count}": (F32, (3, 2))}, stored)
    seen = 0

    def evaluate(expr: Expr) -> Array:
        nonlocal seen
        seen += sum(1 for _ in post_order(expr))
        return np.asarray(graph.evaluate(expr))

    import_onnx(proto, evaluate=evaluate)
    assert seen < 20 * count
