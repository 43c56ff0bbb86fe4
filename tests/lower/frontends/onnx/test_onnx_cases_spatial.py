"""Images that are resized, sampled, pooled and put back: old versions, symbolic sizes, labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap, Unsupported
from tests.lower.frontends.onnx.onnx_cases import Case, cases, evaluated, floats, ints, with_types
from tests.lower.frontends.onnx.spatial_cases import ELSEWHERE
from tests.models import model, single

F = np.float32


def value(
    op: str, opset: int, inputs: Sequence[Any], outputs: int = 1, constants: Sequence[int] = (), **attrs: Any
) -> Any:
    """The outputs of one node; a tuple where there are several."""
    given = [None if i is None else np.asarray(i) for i in inputs]
    feed = {f"x{k}": v for k, v in enumerate(given) if v is not None and k not in constants}
    found = evaluated(single(op, opset, given, attrs, constants=constants, outputs=outputs), feed, values=feed)
    return found["y0"] if outputs == 1 else tuple(found.values())


def close(ours: Any, wanted: Any, within: float = 1e-5) -> None:
    assert ours.shape == np.shape(wanted) and np.allclose(ours, wanted, within, within, equal_nan=True)


# --- old versions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ELSEWHERE, ids=str)
def test_versions_that_mean_what_the_one_before_does(case: Case) -> None:
    before = single(case.op, 21, case.inputs, case.attrs)
    np.testing.assert_array_equal(evaluated(case.model(), case.feed())["y0"], evaluated(before, case.feed())["y0"])


def test_upsample_version_1() -> None:
    x = floats(1, 2, 2, 3)
    ours = value("Upsample", 1, [x], height_scale=2.0, width_scale=1.5)
    close(ours, x[:, :, [0, 0, 1, 1]][..., [0, 0, 1, 2]])
    ours = value("Upsample", 1, [x], height_scale=1.0, width_scale=2.0, mode="bilinear")
    close(ours[..., 0::2], x)
    close(ours[..., 1:5:2], (x[..., :-1] + x[..., 1:]) / 2)


def test_resize_10_rounds_up_where_the_result_is_smaller() -> None:
    x = np.arange(8, dtype=F).reshape(2, 4)
    close(value("Resize", 10, [x, F([0.6, 0.6])]), [[0, 2]])
    close(value("Resize", 10, [x, F([1, 1.5])]), x[:, [0, 0, 1, 2, 2, 3]])


def test_norms_and_slopes_before_7() -> None:
    x = floats(2, 3, 4, 5)
    for opset in (1, 2):
        p = {"p": 3.0 if opset == 1 else 3}
        close(value("GlobalLpPool", opset, [x], **p), (np.abs(x) ** 3).sum((2, 3), keepdims=True) ** (1 / 3))
        wanted = sum(np.abs(x[:, :, i : 3 + i, j : 4 + j]) ** 3 for i in range(2) for j in range(2)) ** (1 / 3)
        close(value("LpPool", opset, [x], kernel_shape=[2, 2], **p), wanted)
    slope = floats(3)
    for opset in (1, 6):
        close(value("PRelu", opset, [x, slope]), np.where(x < 0, x * slope[:, None, None], x))
        close(value("PRelu", opset, [x, slope[:1]]), np.where(x < 0, x * slope[0], x))
    close(value("ConvTranspose", 1, [x, floats(3, 2, 2, 2)]), value("ConvTranspose", 22, [x, floats(3, 2, 2, 2)]), 0)
    flat = x.reshape(2, 3, -1)
    normal = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
    close(value("InstanceNormalization", 1, [x, np.ones(3, F), slope]), normal.reshape(x.shape) + slope[:, None, None])


def test_activations_version_1() -> None:
    x = floats(3, 4)
    for op, attrs in (("Elu", {}), ("Selu", {"gamma": 1.5}), ("HardSigmoid", {})):
        close(value(op, 1, [x], alpha=0.75, **attrs), value(op, 22, [x], alpha=0.75, **attrs), 0)


# --- numbers that matter ------------------------------------------------------------------------------------------


def test_places_of_maxima_beside_padding() -> None:
    x = np.full((1, 2, 3, 3), -np.inf, F)
    x[0, 1, 2, 1] = np.nan
    y, places = value("MaxPool", 12, [x], 2, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    assert places[0, 0].tolist() == [[0, 0, 1], [0, 0, 1], [3, 3, 4]]  # never a place of the padding
    assert np.isnan(y[0, 1, 2, 1:]).all() and places[0, 1, 2, 1:].tolist() == [16, 16]


def test_a_place_between_others_reads_nothing_far_away() -> None:
    x = F([np.inf, 1, 2, 3, np.nan]).reshape(1, 1, 5)
    y = value("Resize", 19, [x, None, F([1, 1, 2])], mode="linear")
    assert y[0, 0, 3:7].tolist() == [1.25, 1.75, 2.25, 2.75]


def test_a_grid_of_infinities() -> None:
    grid = F([np.inf, -np.inf, np.nan, 1e30]).reshape(1, 2, 1, 2)
    for padding in ("zeros", "border", "reflection"):
        value("GridSample", 20, [floats(1, 1, 3, 4), grid], mode="nearest", padding_mode=padding)
    assert np.all(value("GridSample", 20, [floats(1, 1, 3, 4), grid], mode="nearest") == 0)


def test_whole_numbers_are_rounded() -> None:
    x = np.array([0, 1, 255], np.uint8).reshape(1, 1, 3)
    y = value("Resize", 19, [x, None, F([1, 1, 2])], mode="linear")
    assert y.dtype == np.uint8 and y.ravel().tolist() == [0, 0, 1, 64, 192, 255]


@pytest.mark.peer
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_by_any_scale_agrees_with_onnx_runtime(mode: str) -> None:
    """Within what the coordinates, which that has in float32, make of it."""
    runtime = pytest.importorskip("onnxruntime")
    draw = np.random.default_rng(7)
    for _ in range(12):
        by = F([1, 1, *draw.uniform(1.2, 3, 2) ** draw.choice([-1, 1], 2)])  # it copies what keeps its shape
        transform = str(draw.choice(["half_pixel", "asymmetric", "pytorch_half_pixel"]))
        attrs = {"mode": mode, "coordinate_transformation_mode": transform}
        (case,) = cases("Resize", [floats(1, 2, 5, 7), None, by], 19, constants=[2], **attrs)
        session = runtime.InferenceSession(
            with_types(case.model()).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        close(evaluated(case.model(), case.feed())["y0"], session.run(None, case.feed())[0], 2e-4)


# --- sizes that are symbols ---------------------------------------------------------------------------------------

ANY = {"n": 2, "h": 4, "w": 5, "m": 3}


def symbolic(op: str, opset: int, types: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any], **attrs: Any) -> Any:
    from onnx import helper

    names = [n if n in types or n in fixed else "" for n in attrs.pop("order")]
    node = helper.make_node(op, names, ["y"], name="node", **attrs)
    return model([node], {n: (F, s) for n, s in types.items()}, {"y": (TensorProto.UNDEFINED, None)}, fixed, opset)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("transform", ["half_pixel", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"])
def test_resize_of_symbolic_sizes(mode: str, transform: str) -> None:
    """One import serves all sizes, and gives what the import for each gives."""
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    for fixed in ({"scales": F([1, 1, 2, 1.5])}, {"sizes": ints(2, 1, 7, 3)}):
        shape = ["n", 1, "h", "w"] if "scales" in fixed else [2, 1, "h", "w"]
        proto = symbolic("Resize", 19, {"x": shape}, fixed, order=["x", "", "scales", "sizes"], **attrs)
        made = import_onnx(proto, evaluate=graph.evaluate)
        for sizes in ((2, 1, 4, 5), (2, 1, 3, 6)):
            x = floats(*sizes)
            inputs = [x, None, fixed.get("scales"), fixed.get("sizes")]
            close(graph.run(made, {"x": x})["y"], value("Resize", 19, inputs, **attrs), 1e-6)


def test_sampling_of_symbolic_sizes() -> None:
    for mode, padding in (("linear", "zeros"), ("cubic", "reflection"), ("nearest", "border")):
        attrs: dict[str, Any] = {"mode": mode, "padding_mode": padding}
        types = {"x": ["n", 2, "h", "w"], "grid": ["n", "m", 3, 2]}
        made = import_onnx(symbolic("GridSample", 20, types, {}, order=["x", "grid"], **attrs), evaluate=graph.evaluate)
        x, grid = floats(2, 2, 4, 5), floats(2, 4, 3, 2, low=-1.2, high=1.2)
        close(graph.run(made, {"x": x, "grid": grid})["y"], value("GridSample", 20, [x, grid], **attrs), 1e-6)


def test_regions_of_symbolic_sizes() -> None:
    """The number of samples is measured."""
    x, rois = floats(2, 2, 6, 7), F([[0, 1, 5, 5.5], [2.2, 0.3, 6, 2]])
    types = {"x": ["n", 2, "h", "w"], "rois": ["m", 4]}
    for mode in ("avg", "max"):
        fixed = {"images": ints(1, 0)}
        proto = symbolic(
            "RoiAlign", 16, {**types, "rois": [2, 4]}, fixed, order=["x", "rois", "images"], output_height=2, mode=mode
        )
        made = import_onnx(proto, evaluate=graph.evaluate)
        wanted = value("RoiAlign", 16, [x, rois, ints(1, 0)], output_height=2, mode=mode)
        close(graph.run(made, {"x": x, "rois": rois})["y"], wanted, 1e-6)
    made = import_onnx(
        symbolic("MaxRoiPool", 1, {"x": types["x"], "rois": ["m", 5]}, {}, order=["x", "rois"], pooled_shape=[2, 3]),
        evaluate=graph.evaluate,
    )
    y = graph.run(made, {"x": x, "rois": F([[1, 0, 0, 6, 5], [0, 9, 9, 12, 12]])})["y"]
    assert y[0].max() == x[1].max(initial=-9) and not y[1].any()


def test_put_back_of_symbolic_sizes() -> None:
    x, w = floats(2, 2, 4, 5), floats(2, 3, 3, 2)
    attrs: dict[str, Any] = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}
    made = import_onnx(
        symbolic("ConvTranspose", 11, {"x": ["n", 2, "h", "w"]}, {"k": w}, order=["x", "k"], **attrs),
        evaluate=graph.evaluate,
    )
    close(graph.run(made, {"x": x})["y"], value("ConvTranspose", 11, [x, w], **attrs), 1e-6)


# --- labels -------------------------------------------------------------------------------------------------------

X, GRID, ROIS = floats(1, 2, 4, 6), floats(1, 3, 3, 2), floats(2, 4)
NONE, TWICE = F([]), F([1, 1, 2, 2])


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "said"),
    [
        ("Resize", [X, None, TWICE], {"mode": "area"}, "mode is"),
        ("Resize", [X, None, TWICE], {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}, "one of half_pixel"),
        ("Resize", [X, None, TWICE], {"antialias": 1}, "antialias in mode nearest"),
        ("Resize", [X, None, TWICE, ints(1, 2, 3, 4)], {}, "scales and sizes"),
        ("Resize", [X], {}, "scales and sizes"),
        ("Resize", [X, None, F([2, 2])], {}, "4 are wanted"),
        ("Resize", [X, None, F([1, 1, 0, 2])], {}, "positive number"),
        ("Resize", [X, None, None, ints(1, 2, -3, 4)], {}, "at least 0"),
        ("Resize", [X, None, None, ints(3, 4)], {"axes": [2, 3], "keep_aspect_ratio_policy": "some"}, "policy is"),
        ("Resize", [X, None, TWICE], {"coordinate_transformation_mode": "tf_crop_and_resize"}, "operand roi of 8"),
        ("Resize", [X[:, :, :0], None, None, ints(1, 2, 3, 4)], {}, "no element to make 3"),
        ("GridSample", [X, GRID], {"mode": "bilinear"}, "mode is"),
        ("GridSample", [X, GRID], {"padding_mode": "wrap"}, "padding_mode is"),
        ("GridSample", [X, floats(1, 3, 3, 3)], {}, "grid is"),
        ("DeformConv", [X, floats(3, 2, 2, 2), floats(1, 8, 3, 4)], {}, "operand offset is"),
        ("DeformConv", [X, floats(3, 1, 2, 2), floats(1, 8, 3, 5)], {}, "do not fit"),
        ("DeformConv", [X, floats(3, 2, 2, 2), floats(1, 8, 3, 5)], {"pads": [1]}, "pads is"),
        ("DeformConv", [X, floats(3, 2, 2, 2), floats(1, 8, 3, 5)], {"kernel_shape": [3, 2]}, "kernel_shape is"),
        ("DeformConv", [X, floats(3, 2, 2, 2), floats(1, 24, 3, 5)], {"offset_group": 3}, "do not divide"),
        ("DeformConv", [X[0], floats(3, 2, 2, 2), floats(1, 8, 3, 5)], {}, "spatial ones"),
        ("RoiAlign", [X, ROIS, ints(0, 0)], {"mode": "sum"}, "mode is"),
        ("RoiAlign", [X, ROIS, ints(0, 0)], {"sampling_ratio": -1}, "is the least"),
        ("RoiAlign", [X, ROIS, ints(0)], {}, "batch_indices is"),
        ("RoiAlign", [X, ROIS[:, :3], ints(0, 0)], {}, "rois is"),
        ("MaxRoiPool", [X, floats(2, 5)], {"pooled_shape": [2]}, "pooled_shape is"),
        ("ConvTranspose", [X, floats(3, 2, 2, 2)], {}, "as many channels"),
        ("ConvTranspose", [X, floats(2, 2, 2)], {}, "4 axes are wanted"),
        ("ConvTranspose", [X, floats(2, 2, 2, 2)], {"group": 3}, "do not divide"),
        ("ConvTranspose", [X, floats(2, 2, 2, 2)], {"kernel_shape": [3, 3]}, "kernel_shape is"),
        ("ConvTranspose", [X, floats(2, 2, 2, 2)], {"auto_pad": "SAME"}, "auto_pad is"),
        ("ConvTranspose", [X, floats(2, 2, 2, 2)], {"output_padding": [1]}, "output_padding is"),
        ("ConvTranspose", [X, floats(2, 2, 2, 2)], {"output_shape": [5]}, "output_shape is"),
        ("Col2Im", [floats(1, 4, 5), ints(3, 3), ints(2, 2)], {}, "blocks (2, 2)"),
        ("Col2Im", [floats(1, 4, 4), ints(3, 3), ints(2)], {}, "block_shape"),
        ("Col2Im", [floats(1, 4, 4), ints(3, 3), ints(2, 2)], {"pads": [1, 1]}, "pads is"),
        ("MaxUnpool", [X, ints(1, 2)], {"kernel_shape": [2, 2]}, "one shape"),
        ("MaxUnpool", [X, np.zeros(X.shape, np.int64)], {"kernel_shape": [2, 2], "pads": [1]}, "pads is"),
        ("MaxUnpool", [X, np.zeros(X.shape, np.int64), ints(4)], {"kernel_shape": [2, 2]}, "output_shape is"),
        ("LpPool", [X], {"kernel_shape": [2, 2], "p": 0}, "p is"),
        ("GlobalLpPool", [X[0, 0]], {}, "at least one spatial"),
        ("InstanceNormalization", [X[0, 0], floats(4), floats(4)], {}, "at least one spatial"),
        ("InstanceNormalization", [X, floats(3), floats(2)], {}, "each channel"),
        ("DepthToSpace", [X], {"blocksize": 2}, "no multiple of 4"),
        ("SpaceToDepth", [X], {"blocksize": 0}, "blocksize 0"),
        ("PRelu", [X, floats(5, 1, 1, 1, 1)], {}, "does not broadcast"),
    ],
)  # fmt: skip
def test_invalid(op: str, inputs: list[Any], attrs: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=rf"(?s){re.escape(said)}.*\[onnx.C12\]"):
        value(op, 20, inputs, **attrs)


def test_invalid_before() -> None:
    for opset, op, inputs, attrs in (
        (10, "Resize", [X, TWICE], {"mode": "cubic"}),
        (9, "Upsample", [X, F([2, 2])], {}),
        (7, "Upsample", [X], {"scales": [2.0]}),
        (1, "Upsample", [X[0]], {"height_scale": 2.0, "width_scale": 2.0}),
        (6, "PRelu", [X, floats(6)], {}),
        (16, "GridSample", [X, GRID], {"mode": "linear"}),
    ):
        with pytest.raises(Invalid, match=r"\[onnx.C12\]"):
            value(op, opset, inputs, **attrs)


def test_symbols_that_must_be_numbers() -> None:
    any_ = {"x": ["n", 2, "h", "w"]}
    order = ["x", "", "scales", "sizes"]
    for fixed, attrs in (
        ({"scales": F([1, 1, 0.7, 2])}, {}),
        ({"sizes": ints(1, 2, 3, 3)}, {"mode": "linear", "antialias": 1}),
        ({"sizes": ints(1, 2, 3, 3)}, {"keep_aspect_ratio_policy": "not_larger"}),
    ):
        with pytest.raises(Unsupported, match=r"\[onnx.C14\]"):
            import_onnx(symbolic("Resize", 18, any_, fixed, order=order, **attrs), evaluate=graph.evaluate)
    with pytest.raises(Unsupported, match=r"scales.*\[onnx.C13\]"):
        import_onnx(symbolic("Resize", 18, {**any_, "scales": [4]}, {}, order=order), evaluate=graph.evaluate)
    same = {"kernel_shape": [2, 2], "ceil_mode": 1}
    with pytest.raises(Unsupported, match=r"ceil_mode.*\[onnx.C14\]"):
        import_onnx(symbolic("LpPool", 18, any_, {}, order=["x"], **same), evaluate=graph.evaluate)


def test_a_place_outside_traps() -> None:
    x = floats(1, 1, 2, 2)
    with pytest.raises(Trap, match=r"scatter_nd.T1"):
        value("MaxUnpool", 11, [x, np.full(x.shape, 99)], kernel_shape=[2, 2], strides=[2, 2])
    with pytest.raises(Trap, match=r"gather_nd.T1"):
        value("RoiAlign", 16, [x, F([[0, 0, 1, 1]]), ints(3)], sampling_ratio=1)
