"""Operators of com.microsoft beside ONNX Runtime, and their schemas beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.contrib import contrib_schemas
from assay.lower.frontends.onnx.known import without_meaning
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators import DOMAINS
from assay.semantics.errors import AssayError
from assay.verify.backends import subject_of_model
from assay.verify.oracle import oracle_of
from tests.lower.frontends.onnx.onnx_cases import Array, agree, floats, with_types
from tests.verify.app.test_cli import assay

onnxruntime = pytest.importorskip("onnxruntime")
MS = "com.microsoft"
U8, I8, F32 = np.uint8, np.int8, np.float32


def case(
    op: str, *operands: Any, stored: tuple[int, ...] = (), domain: str = MS, outputs: Any = 1, **attrs: Any
) -> Any:
    """One node: operands are arrays, None where one is left out; those of the places `stored` are initializers. The
    model, and what is given."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(operands)]
    made = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, made, domain=domain, **attrs)
    given = {n: np.asarray(a) for n, a in zip(names, operands, strict=True) if n}
    kept = {f"x{i}" for i in stored}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
        if n not in kept
    ]
    proto = helper.make_graph(
        [node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in made if n],
        [numpy_helper.from_array(given[n], n) for n in sorted(kept)],
    )  # fmt: skip
    sets = [helper.make_opsetid(MS, 1), helper.make_opsetid("", 17)]
    model = helper.make_model(proto, opset_imports=sets, ir_version=8)
    return model, {n: a for n, a in given.items() if n not in kept}


def u8(*shape: int, of: Any = U8) -> Array:
    """Numbers of 8 bits, those with a sign of 7: on processors without VNNI instructions ONNX Runtime adds two products
    of uint8 and int8 in 16 bits, where larger ones saturate."""
    low, high = (0, 256) if of is U8 else (-64, 64)
    return np.random.default_rng(int(np.prod(shape))).integers(low, high, shape).astype(of)


def one(value: float, of: Any = F32) -> Array:
    return np.array(value, of)


X, ROW = floats(2, 3, 8), floats(8)
SKIP = (X, floats(2, 3, 8) * F32(0.5), ROW)
Q = (u8(2, 3, 4, 4), one(0.05), one(120, U8))
TO = (one(0.1), one(100, U8))
FUSED = {
    "Gelu": case("Gelu", X),
    "BiasGelu": case("BiasGelu", X, ROW),
    "FastGelu": case("FastGelu", X),
    "FastGelu and a bias": case("FastGelu", X, ROW),
    "QuickGelu": case("QuickGelu", X, alpha=1.5),
    "FusedMatMul": case("FusedMatMul", X, floats(2, 5, 8), transB=1, alpha=0.25),
    "TransposeMatMul": case("TransposeMatMul", floats(2, 8, 3), floats(2, 8, 5), transA=1),
    **{
        f"FusedGemm {a}": case("FusedGemm", floats(3, 8), floats(8, 5), floats(5), activation=a, activation_alpha=0.2)
        for a in ("Relu", "Tanh", "Sigmoid", "LeakyRelu")
    },
    "FusedConv": case(
        "FusedConv", floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), stored=(1, 2),
        activation="Relu", pads=[1, 1, 1, 1],
    ),
    "FusedConv with a sum": case(
        "FusedConv", floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), floats(1, 4, 4, 4),
        stored=(1, 2), activation="Relu",
    ),
    "FusedConv HardSigmoid": case(
        "FusedConv", floats(1, 3, 6, 6), floats(4, 3, 3, 3), activation="HardSigmoid", activation_params=[0.2, 0.5]
    ),
    "SkipLayerNormalization": case(
        "SkipLayerNormalization", *SKIP, floats(8), ROW * F32(0.1), outputs=("y", "", "", "s")
    ),
    "SkipLayerNormalization without beta": case("SkipLayerNormalization", *SKIP, epsilon=1e-5),
    "SkipSimplifiedLayerNormalization": case(
        "SkipSimplifiedLayerNormalization", *SKIP, ROW, outputs=("y", "", "", "s")
    ),
    "SimplifiedLayerNormalization": case("SimplifiedLayerNormalization", X, ROW, domain="", epsilon=1e-5),
    "EmbedLayerNormalization": case(
        "EmbedLayerNormalization", np.int32([[1, 3, 0], [2, 2, 4]]), np.int32([[0, 1, 1], [0, 0, 1]]), floats(5, 8),
        floats(4, 8), floats(2, 8), ROW, floats(8), np.int32([[1, 1, 0], [1, 0, 0]]), outputs=3,
    ),
}  # fmt: skip
QUANTIZED = {
    "QLinearAdd": case("QLinearAdd", *Q, u8(2, 3, 4, 4), one(0.02), one(7, U8), *TO),
    "QLinearAdd of int8": case(
        "QLinearAdd", u8(2, 3, of=I8), one(0.05), one(-3, I8), u8(3, of=I8), one(0.02), one(7, I8), one(0.1), one(5, I8)
    ),
    "QLinearMul": case("QLinearMul", *Q, u8(2, 3, 4, 4), one(0.02), one(7, U8), *TO),
    "QLinearSigmoid": case("QLinearSigmoid", *Q, one(1 / 256), one(0, U8), stored=(1, 2, 3, 4)),
    "QLinearLeakyRelu": case("QLinearLeakyRelu", *Q, *TO, stored=(1, 2, 3, 4), alpha=0.125),
    "QLinearSoftmax": case("QLinearSoftmax", *Q, one(1 / 256), one(0, U8), stored=(1, 2, 3, 4), opset=13, axis=-1),
    "QLinearAveragePool": case(
        "QLinearAveragePool", *Q, *TO, stored=(1, 2, 3, 4), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "QLinearGlobalAveragePool": case("QLinearGlobalAveragePool", *Q, *TO),
    "QLinearConcat": case(
        "QLinearConcat", *TO, *Q, u8(2, 1, 4, 4), one(0.02), one(7, U8), axis=1, stored=(0, 1, 3, 4, 6, 7)
    ),
    "QGemm": case(
        "QGemm", u8(3, 8), one(0.02), one(7, U8), u8(5, 8, of=I8), np.full(5, 0.01, F32), np.zeros(5, I8),
        np.arange(5, dtype=np.int32) * 100, one(0.1), one(100, U8), stored=(3, 4, 5, 6), transB=1,
    ),
    "QGemm to floats": case(
        "QGemm", u8(3, 8), one(0.02), one(7, U8), u8(8, 5), one(0.01), one(9, U8), np.arange(5, dtype=np.int32)
    ),
    "MatMulIntegerToFloat": case(
        "MatMulIntegerToFloat", u8(3, 8), u8(8, 5), one(0.02), floats(5), one(7, U8), one(3, U8), floats(5)
    ),
    "DynamicQuantizeMatMul": case(
        "DynamicQuantizeMatMul", floats(3, 8), u8(8, 5, of=I8), one(0.02), one(3, I8), floats(5)
    ),
    "QuantizeLinear": case("QuantizeLinear", floats(3, 8), one(0.02), one(7, U8)),
    "DequantizeLinear": case("DequantizeLinear", u8(3, 8), one(0.02), one(7, U8)),
    "MatMulNBits": case(
        "MatMulNBits", floats(3, 40), u8(5, 2, 16), floats(10), stored=(1, 2), K=40, N=5, bits=4, block_size=32
    ),
    "MatMulNBits with zero points": case(
        "MatMulNBits", floats(3, 40), u8(5, 3, 8), floats(15), u8(10), stored=(1, 2, 3), K=40, N=5,
        bits=4, block_size=16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FUSED, *QUANTIZED])
def test_added_operators_as_the_runtime_has_them(name: str) -> None:
    """Within the bounds, or equal where nothing is rounded."""
    agree(*{**FUSED, **QUANTIZED}[name])


@pytest.mark.parametrize("name,attr,value", [("QuickGelu", "alpha", 1.501), ("FusedMatMul", "alpha", 0.2501)])
def test_another_number_is_told_apart(name: str, attr: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a rule that takes an attribute a thousandth too large."""
    rule = DOMAINS[MS][name]
    monkeypatch.setitem(DOMAINS[MS], name, lambda node: rule(node.with_(attrs={**node.attrs, attr: value})))
    with pytest.raises(AssertionError, match="theirs"):
        agree(*FUSED[name])


def test_a_range_that_is_the_same_on_both_sides_has_a_bound() -> None:
    """Its zero point is 127.5, so runtimes differ by one; what each element less that is does not."""
    x = np.tanh(floats(3, 8))
    x[0, :2] = 1, -1
    x *= np.float32(0.7)
    model, inputs = case("DynamicQuantizeMatMul", x, u8(8, 5, of=I8), one(0.02), one(3, I8), floats(5))
    oracle = oracle_of(subject_of_model(model))
    allowed = oracle.expected(inputs).possible
    assert isinstance(allowed, dict)
    bound = next(iter(allowed.values()))
    assert not bound.vacuous.any() and (bound.radius > 0).any()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.run(None, inputs)
    assert oracle.judge(inputs, {"y0": given}).outcome == "right"
    assert oracle.judge(inputs, {"y0": given * F32(1.5)}).outcome == "wrong"


def test_schemas_are_those_of_the_runtime() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    theirs = {(s.domain, s.name): s for s in state.get_all_operator_schema()}
    for key, ours in contrib_schemas().items():
        their = theirs[key]
        types = {t.type_param_str: frozenset(t.allowed_type_strs) for t in their.type_constraints}
        wanted = [(p.name, p.option.value == 1, types.get(p.typeStr, {p.typeStr})) for p in their.inputs]
        assert [(f.name, f.optional, f.allowed) for f in ours.operands] == wanted, key
        assert (ours.least, ours.outputs) == (their.min_input, their.max_output), key
        assert ours.most == min(their.max_input, 1 << 30), key
        attributes = {k: (str(a.type).rpartition(".")[2], a.required) for k, a in their.attributes.items()}
        assert {k: (kind, k in ours.required) for k, kind in ours.kinds.items()} == attributes, key
        for k, a in their.attributes.items():
            proto = onnx.AttributeProto()
            proto.ParseFromString(a._default_value)
            default = helper.get_attribute_value(proto) if proto.type else None
            given = default.decode() if isinstance(default, bytes) else default
            assert ours.defaults.get(k) == given, (key, k)
    assert {key for key in contrib_schemas() if key[0]} >= {(MS, n) for n in DOMAINS[MS]}


@pytest.mark.parametrize(
    "made,said",
    [
        (case("FusedMatMul", X, X, transBatchA=1), r"transBatchA.*onnx\.C14"),
        (case("FusedGemm", floats(3, 8), floats(8, 5), activation="Elu"), r"activation Elu.*onnx\.C14"),
        (case("QLinearConcat", *TO, *Q, u8(2, 1, 4, 4), axis=1), r"6 operands.*onnx\.C12"),
        (case("MatMulNBits", floats(3, 40), u8(5, 2, 16), floats(10), stored=(1, 2), K=40, N=5, bits=4, block_size=32,
              accuracy_level=4), r"accuracy_level 4.*onnx\.C14"),
        (case("MatMulNBits", floats(3, 40), u8(5, 2, 16), floats(10), K=40, N=5, block_size=32),
         r"which numbers B holds.*onnx\.C13"),
        (case("Gelu", X, alpha=1.0), r"no attribute 'alpha'.*onnx\.C6"),
        (case("BiasGelu", X), r"operand B.*missing.*onnx\.C7"),
    ],
)  # fmt: skip
def test_forms_of_added_operators_that_are_not_taken(made: Any, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        import_onnx(made[0], evaluate=graph.evaluate)


def test_one_that_is_not_known_has_no_meaning_here() -> None:
    model, _ = case("GroupNorm", X, ROW, ROW, groups=2)
    assert without_meaning(model) == [0] and without_meaning(FUSED["Gelu"][0]) == []


def test_a_model_with_them_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(with_types(QUANTIZED["QLinearAdd of int8"][0]), tmp_path / "q.onnx")
    assert assay(monkeypatch, "check", tmp_path / "q.onnx") == 0
    assert "compare" in capsys.readouterr().out
