"""Versions and forms of ONNX operators that no runtime here has, against expectations written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from assay.lower.frontends.onnx.operators import RULES, draws
from assay.lower.frontends.onnx.schema import schema_of
from assay.semantics.errors import Invalid, Unsupported
from tests.lower.frontends.onnx.onnx_cases import Array, evaluated, every_version, floats, ints, tensor, versions, whole
from tests.models import model, single

X = floats(2, 3, 4)
ROWS, COLUMNS = floats(2), floats(3, 4)


def value(op: str, opset: int, inputs: Sequence[Array | None], constants: Sequence[int] = (), **attrs: Any) -> Any:
    """The first output of one node."""
    return values(op, opset, inputs, constants, 1, **attrs)["y0"]


def values(
    op: str, opset: int, inputs: Sequence[Array | None], constants: Sequence[int] = (), outputs: int = 1, **attrs: Any
) -> Mapping[str, Any]:
    feed = {f"x{i}": np.asarray(a) for i, a in enumerate(inputs) if a is not None and i not in constants}
    return evaluated(single(op, opset, inputs, attrs, constants=constants, outputs=outputs), feed)


def same(ours: Any, wanted: Any, rtol: float = 0.0) -> None:
    wanted = np.asarray(wanted)
    assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(ours.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=rtol)


# --- before version 7: broadcast and axis -------------------------------------------------------------------------

NUMERIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("op", NUMERIC)
def test_arithmetic_before_7(op: str, opset: int) -> None:
    f = NUMERIC[op]
    same(value(op, opset, [X, X + 5]), f(X, X + 5))
    same(value(op, opset, [X, np.float32(2)], broadcast=1), f(X, np.float32(2)))
    same(value(op, opset, [X, floats(1, 1)], broadcast=1), f(X, floats(1, 1)))
    same(value(op, opset, [X, floats(4)], broadcast=1), f(X, floats(4)))
    same(value(op, opset, [X, COLUMNS], broadcast=1), f(X, COLUMNS))
    same(value(op, opset, [X, floats(3)], broadcast=1, axis=1), f(X, floats(3)[:, None]))
    same(value(op, opset, [X, ROWS], broadcast=1, axis=0), f(X, ROWS[:, None, None]))
    same(value(op, opset, [X, floats(2, 3)], broadcast=1, axis=0), f(X, floats(2, 3)[:, :, None]))
    same(value(op, opset, [X, floats(1, 4)], broadcast=1), f(X, floats(1, 4)))
    for wrong, attrs in (
        (floats(4), {}),
        (floats(3), {"broadcast": 1}),
        (floats(2, 4), {"broadcast": 1}),
        (floats(3), {"broadcast": 1, "axis": 2}),
    ):
        with pytest.raises(Invalid, match=r"onnx\.C12"):
            value(op, opset, [X, wrong], **attrs)


def test_comparisons_and_logic_before_7() -> None:
    a, b = X > 0, floats(3) > 0
    for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        same(value(op, 1, [a, b], broadcast=1, axis=1), f(a, b[:, None]))
    for op, f in (("Greater", np.greater), ("Less", np.less)):
        same(value(op, 1, [X, ROWS], broadcast=1, axis=0), f(X, ROWS[:, None, None]))
    same(value("Equal", 1, [whole(2, 3), whole(3)], broadcast=1), whole(2, 3) == whole(3))
    same(value("Pow", 1, [np.abs(X), floats(3)], broadcast=1, axis=1), np.abs(X) ** floats(3)[:, None], 1e-5)


@pytest.mark.parametrize("opset", [1, 6])
def test_variadic_before_8_does_not_broadcast(opset: int) -> None:
    a, b, c = X, X[::-1].copy(), X * 2
    same(value("Sum", opset, [a, b, c]), (a + b) + c)
    same(value("Max", opset, [a, b, c]), np.maximum(np.maximum(a, b), c))
    same(value("Min", opset, [a, b, c]), np.minimum(np.minimum(a, b), c))
    same(value("Mean", opset, [a, b, c]), ((a + b) + c) / np.float32(3), 1e-6)
    same(value("Mean", opset, [a]), a)
    for op in ("Sum", "Max", "Min", "Mean"):
        with pytest.raises(Invalid, match="not broadcast before"):
            value(op, opset, [a, floats(4)])


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_before_7(opset: int) -> None:
    a, b, c = floats(3, 2), floats(2, 4), floats(4)
    same(value("Gemm", opset, [a, b, floats(3, 4)]), a @ b + floats(3, 4), 1e-6)
    same(value("Gemm", opset, [a, b, c], broadcast=1, alpha=0.5), 0.5 * (a @ b).astype(np.float32) + c, 1e-6)
    with pytest.raises(Invalid, match="broadcast is 0"):
        value("Gemm", opset, [a, b, c])


# --- before version 7: the rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Abs", "Ceil", "Exp", "Floor", "Neg", "Relu", "Sigmoid", "Tanh"])
def test_unary_version_1_ignores_consumed_inputs(op: str) -> None:
    same(value(op, 1, [X], consumed_inputs=[0]), value(op, 13, [X]))


def test_clip_before_11() -> None:
    x = np.array([-np.inf, -2, 0, 2, np.inf], np.float32)
    largest = np.finfo(np.float32).max
    same(value("Clip", 1, [x], min=-1.0), np.array([-1, -1, 0, 2, largest], np.float32))
    same(value("Clip", 6, [x], max=1.0), np.array([-largest, -2, 0, 1, 1], np.float32))
    half = x.astype(np.float16)
    same(value("Clip", 6, [half]), np.array([-65504, -2, 0, 2, 65504], np.float16))


def test_reshape_version_1() -> None:
    same(value("Reshape", 1, [X], shape=[0, -1]), X.reshape(2, 12))
    same(value("Reshape", 4, [X], shape=[4, 6]), X.reshape(4, 6))
    with pytest.raises(Invalid, match="attribute shape is missing"):
        value("Reshape", 1, [X])


def test_concat_version_1_has_axis_1() -> None:
    same(value("Concat", 1, [X, X]), np.concatenate([X, X], 1))
    same(value("Concat", 4, [X, X], axis=2), np.concatenate([X, X], 2))


def test_split_version_1() -> None:
    sizes = np.array([2, 4], np.float32)  # of the type of the operand, in this version
    parts = values("Split", 1, [floats(6, 4), sizes], [1], 2, axis=0)
    same(parts["y0"], floats(6, 4)[:2])
    same(parts["y1"], floats(6, 4)[2:])
    with pytest.raises(Invalid, match="whole numbers"):
        values("Split", 1, [floats(6, 4), sizes + np.float32(0.5)], [1], 2, axis=0)
    parts = values("Split", 1, [floats(6, 4)], (), 2, axis=1, split=[1, 3])
    same(parts["y0"], floats(6, 4)[:, :1])
    same(parts["y1"], floats(6, 4)[:, 1:])
    parts = values("Split", 2, [floats(6, 4)], (), 3)
    for i in range(3):
        same(parts[f"y{i}"], floats(6, 4)[2 * i : 2 * i + 2])


def test_pad_versions_1_and_2() -> None:
    x = floats(2, 3)
    same(value("Pad", 1, [x], paddings=[0, 2, 1, 0], value=1.5), np.pad(x, ((0, 1), (2, 0)), constant_values=1.5))
    same(value("Pad", 2, [x], pads=[0, 2, 1, 0]), np.pad(x, ((0, 1), (2, 0))))
    same(value("Pad", 2, [x], pads=[0, -2, 1, 0]), np.pad(x, ((0, 1), (0, 0)))[:, 2:])
    with pytest.raises(Invalid, match="before operator set 2"):
        value("Pad", 1, [x], paddings=[0, -2, 1, 0])


def test_cast_version_1_names_the_type() -> None:
    same(value("Cast", 1, [X], to="INT32"), X.astype(np.int32))
    same(value("Cast", 6, [X], to=TensorProto.DOUBLE), X.astype(np.float64))
    with pytest.raises(Unsupported, match="strings"):
        value("Cast", 1, [X], to="STRING")


def test_tile_version_1() -> None:
    same(value("Tile", 1, [X, np.float32(3), np.float32(1)], [1, 2]), np.tile(X, (1, 3, 1)))


def test_batch_normalization_before_7() -> None:
    x, stats = floats(2, 3, 4, 5), [floats(3), floats(3) + 1, floats(3) / 2, floats(3, low=0.5)]
    scale, bias, mean, var = (s[:, None, None] for s in stats)
    wanted = (scale * (x - mean) / np.sqrt(var + np.float32(1e-5)) + bias).astype(np.float32)
    same(value("BatchNormalization", 1, [x, *stats], consumed_inputs=[0, 0, 0, 1, 1], is_test=1), wanted, 1e-5)
    same(value("BatchNormalization", 6, [x, *stats], is_test=1), wanted, 1e-5)
    per_element = [np.broadcast_to(s[:, None, None], (3, 4, 5)).copy() for s in stats]
    with pytest.raises(Unsupported, match="training form"):
        value("BatchNormalization", 6, [x, *stats])
    same(value("BatchNormalization", 7, [x, *per_element], spatial=0), wanted, 1e-5)


def test_dropout() -> None:
    same(value("Dropout", 1, [X], is_test=1), X)
    same(value("Dropout", 6, [X], is_test=1), X)
    for opset in (1, 6):
        with pytest.raises(Unsupported, match="training form"):
            value("Dropout", opset, [X])
    for opset in (7, 10):
        with pytest.raises(Unsupported, match="mask has no meaning"):
            values("Dropout", opset, [X], (), 2)
    # a mask that is named, but used by nothing, does no harm
    two = [helper.make_node("Dropout", ["x"], ["a", "mask"]), helper.make_node("Relu", ["a"], ["y"])]
    unused = model(two, {"x": (np.float32, (2, 3, 4))}, {"y": (np.float32, None)}, opset=9)
    same(evaluated(unused, {"x": X})["y"], np.maximum(X, 0))
    masked = values("Dropout", 12, [X, np.float32(0.5), np.array(False)], [1, 2], 2)
    same(masked["y0"], X)
    same(masked["y1"], np.ones(X.shape, bool))
    with pytest.raises(Unsupported, match="random result"):
        value("Dropout", 13, [X, np.float32(0.5), np.array(True)], [1, 2])
    same(value("Dropout", 13, [X, np.float32(0), np.array(True)], [1, 2]), X)
    with pytest.raises(Unsupported, match="random result"):
        value("Dropout", 13, [X, np.float32(0.5), np.array(True)], [1])


def test_training_batch_normalization_is_refused() -> None:
    args = [floats(2, 3), floats(3), floats(3), floats(3), floats(3)]
    for opset, outputs in ((7, 5), (9, 5), (14, 3)):
        with pytest.raises(Unsupported, match="more outputs than Y"):
            values("BatchNormalization", opset, args, (), outputs)


def test_softmax_flattens_before_13() -> None:
    def softmax(m: Array) -> Array:
        e = np.exp(m - m.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for opset in (1, 6, 11):
        same(value("Softmax", opset, [X]), softmax(X.reshape(2, 12)).reshape(X.shape), 1e-6)
        same(value("Softmax", opset, [X], axis=2), softmax(X), 1e-6)
        same(value("LogSoftmax", opset, [X], axis=0), np.log(softmax(X.reshape(1, 24))).reshape(X.shape), 1e-5)
    same(value("Softmax", 13, [X]), softmax(X), 1e-6)


def test_automatic_padding_counts_the_dilated_kernel() -> None:
    x, w = floats(1, 2, 7, 10), floats(3, 2, 2, 3)
    for mode, pads in (("SAME_UPPER", [1, 2, 2, 2]), ("SAME_LOWER", [2, 2, 1, 2])):
        automatic = value("Conv", 11, [x, w], auto_pad=mode, dilations=[3, 2])
        same(automatic, value("Conv", 11, [x, w], pads=pads, dilations=[3, 2]))
        assert automatic.shape == (1, 3, 7, 10)


def test_automatic_padding_fixes_the_count_whatever_ceil_mode_says() -> None:
    x = floats(1, 1, 8)
    for mode in ("VALID", "SAME_UPPER"):
        with_ceil = value("MaxPool", 12, [x], kernel_shape=[3], strides=[2], auto_pad=mode, ceil_mode=1)
        same(with_ceil, value("MaxPool", 12, [x], kernel_shape=[3], strides=[2], auto_pad=mode))
    agreeing = value("MaxPool", 12, [x], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER", pads=[0, 1])
    same(agreeing, value("MaxPool", 12, [x], kernel_shape=[3], strides=[2], pads=[0, 1]))
    with pytest.raises(Invalid, match="only one may be given"):
        value("MaxPool", 12, [x], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER", pads=[1, 1])


# --- element types that no runtime here takes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "saturate", "wanted"),
    [
        ("float8_e4m3fn", 1, [1, 448, -448, 0.3125, np.nan, 448, -448]),
        ("float8_e4m3fn", 0, [1, np.nan, np.nan, 0.3125, np.nan, np.nan, np.nan]),
        ("float8_e4m3fnuz", 1, [1, 240, -240, 0.3125, np.nan, np.nan, np.nan]),
        ("float8_e5m2", 1, [1, 512, -512, 0.3125, np.nan, 57344, -57344]),
        ("float8_e5m2", 0, [1, 512, -512, 0.3125, np.nan, np.inf, -np.inf]),
        ("float8_e5m2fnuz", 1, [1, 512, -512, 0.3125, np.nan, np.nan, np.nan]),
    ],
)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.float16])
def test_casts_to_float8_by_the_table_at_cast_19(to: str, saturate: int, wanted: list[float], of: type) -> None:
    x = np.array([1, 500, -500, 0.3, np.nan, np.inf, -np.inf], of)
    numpy = np.dtype(getattr(ml_dtypes, to))
    got = value("Cast", 19, [x], to=helper.np_dtype_to_tensor_dtype(numpy), saturate=saturate)
    assert got.dtype == numpy
    np.testing.assert_array_equal(got.astype(np.float64), wanted)


def test_casts_of_integers_and_float8_to_float8() -> None:
    e4m3, e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
    to = TensorProto.FLOAT8E4M3FN
    whole_numbers = value("Cast", 19, [np.array([3, 5000, -7], np.int32)], to=to)
    np.testing.assert_array_equal(whole_numbers.astype(np.float64), [3, 448, -7])
    narrowed = value("Cast", 19, [np.array([3, 57344, -0.125], e5m2)], to=to)
    np.testing.assert_array_equal(narrowed.astype(np.float64), [3, 448, -0.125])
    like = value("CastLike", 19, [np.array([2.0, 1e4], np.float32), np.array([0], e4m3)])
    np.testing.assert_array_equal(like.astype(np.float64), [2, 448])


def test_bfloat16() -> None:
    x = floats(2, 3).astype(ml_dtypes.bfloat16)
    got = value("Add", 13, [x, x])
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x + x)
    with pytest.raises(Invalid, match="allowed are"):
        value("Add", 7, [x, x])  # bfloat16 came with version 13


def test_layer_normalization_in_the_dtype_that_stash_type_says() -> None:
    x, scale = floats(3, 4).astype(np.float16), np.array([1, 2, 0.5, 1], np.float16)
    wide = x.astype(np.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5))).astype(np.float16)
    same(value("LayerNormalization", 17, [x, scale]), normal * scale, 2e-3)
    outputs = values("LayerNormalization", 17, [x, scale], (), 3)
    assert (outputs["y1"].dtype, outputs["y2"].dtype) == (np.float32, np.float32)
    same(outputs["y1"], wide.mean(-1, keepdims=True), 1e-6)


def test_batch_normalization_of_several_dtypes() -> None:
    x = floats(2, 3).astype(np.float16)
    wide = [floats(3), floats(3), floats(3), floats(3, low=0.5)]
    got = value("BatchNormalization", 15, [x, *wide])
    scale, bias, mean, var = wide
    wanted = (scale * (x.astype(np.float32) - mean) / np.sqrt(var + np.float32(1e-5)) + bias).astype(np.float16)
    same(got, wanted, 1e-3)


def test_integer_forms() -> None:
    a, b = whole(3, 4, of=np.int32), whole(4, 2, of=np.int32)
    same(value("Gemm", 11, [a, b, whole(2, of=np.int32)], alpha=2.0, beta=3.0), 2 * (a @ b) + 3 * whole(2, of=np.int32))
    with pytest.raises(Unsupported, match="whole number"):
        value("Gemm", 11, [a, b], alpha=0.5)
    same(
        value("ReduceMean", 13, [np.array([[-3, 0], [2, 5]], np.int32)], axes=[1], keepdims=0),
        np.array([-1, 3], np.int32),
    )
    same(
        value("Pow", 12, [np.array([3, -2], np.int32), np.array([40], np.int64)], [1]),
        np.array([3, -2], np.int32) ** 40,
    )


# --- totality -----------------------------------------------------------------------------------------------------


def test_every_version_before_7_is_translated() -> None:
    """Each rule runs for each old version; the values of those that changed are looked at above."""
    operands: dict[str, list[Array | None]] = {
        "BatchNormalization": [floats(2, 3, 4, 5), floats(3), floats(3), floats(3), floats(3, low=0.5)],
        "Conv": [floats(1, 2, 5, 5), floats(3, 2, 3, 3)],
        "ConvTranspose": [floats(1, 2, 5, 5), floats(2, 3, 3, 3)],
        "DepthToSpace": [floats(1, 8, 2, 2)],
        "GRU": [floats(3, 2, 4), floats(1, 6, 4), floats(1, 6, 2)],
        "LSTM": [floats(3, 2, 4), floats(1, 8, 4), floats(1, 8, 2)],
        "RNN": [floats(3, 2, 4), floats(1, 2, 4), floats(1, 2, 2)],
        "InstanceNormalization": [floats(2, 3, 4), floats(3), floats(3)],
        "MaxRoiPool": [floats(1, 2, 5, 5), np.array([[0, 1, 1, 3, 4]], np.float32)],
        "PRelu": [X, floats(3)],
        "SpaceToDepth": [floats(1, 2, 4, 6)],
        "Upsample": [floats(1, 2, 3, 4)],
        "Gather": [X, ints(0, 1)],
        "Gemm": [floats(2, 3), floats(3, 4), floats(2, 4)],
        "MatMul": [floats(2, 3), floats(3, 4)],
        "Reshape": [X, ints(4, 6)],
        "Tile": [X, ints(1, 2, 3)],
    }
    constants = {"Reshape": [1], "Tile": [1, 2]}
    attrs: dict[str, dict[str, Any]] = {
        "BatchNormalization": {"is_test": 1, "consumed_inputs": [0]},
        "Cast": {"to": TensorProto.INT32},
        "Concat": {"axis": 1},
        "Constant": {"value": tensor(X)},
        "DepthToSpace": {"blocksize": 2},
        "Dropout": {"is_test": 1},
        "GRU": {
            "hidden_size": 2,
            "output_sequence": 1,
            "direction": "forward",
        },  # what its schema has by default is misspelt
        "LSTM": {"hidden_size": 2, "output_sequence": 1},
        "RNN": {"hidden_size": 2, "output_sequence": 1},
        "TopK": {"k": 2},
        "LpPool": {"kernel_shape": [2, 2]},
        "MaxRoiPool": {"pooled_shape": [2, 2]},
        "SpaceToDepth": {"blocksize": 2},
        "Upsample": {"height_scale": 2.0, "width_scale": 1.5},
        "LRN": {"size": 3},
        "MaxPool": {"kernel_shape": [2, 2]},
        "AveragePool": {"kernel_shape": [2, 2]},
        "Pad": {"pads": [0, 1, 0, 1, 0, 0], "paddings": [0, 1, 0, 1, 0, 0]},
        "Slice": {"starts": [0], "ends": [1]},
        "Unsqueeze": {"axes": [0]},
    }
    boolean = {"And", "Not", "Or", "Xor"}
    spatial = {"AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LRN", "LpPool", "MaxPool"}
    seen = 0
    known = RULES.keys() & every_version().keys()  # ONNX Runtime has operators of its own in the standard's domain
    for op in sorted(known - draws.TABLE.keys()):  # random results need a seed, and are any of a set
        for opset in versions(op, 1, 6) if _is_old(op) else []:
            schema = schema_of(op, "", opset)
            given = operands.get(op)
            if given is None:
                x = floats(2, 3, 5, 5) if op in spatial else X > 0 if op in boolean else X
                given = [x] * schema.least
            if op == "Split" and opset == 1:
                given = [X]
            if op == "Equal":
                given = [whole(2, 3)] * 2
            if op == "Reshape" and opset < 5:
                given = [X]
            if op == "Tile" and opset < 6:
                given = [X, np.float32(2), np.float32(1)]
            if op == "Squeeze":
                given = [floats(2, 1, 3)]
            named = {k: v for k, v in attrs.get(op, {}).items() if k in schema.kinds}
            if op == "Cast" and opset < 6:
                named = {"to": "INT32"}
            if op == "Reshape" and opset < 5:
                named = {"shape": [4, 6]}
            fixed = [c for c in constants.get(op, []) if c < len(given)]
            values(op, opset, given, fixed, **named)
            seen += 1
    assert seen > 80


def _is_old(op: str) -> bool:
    try:
        schema_of(op, "", 6)
    except Invalid:
        return False
    return True
