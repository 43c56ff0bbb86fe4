"""What numeric rights allow: coordinates in float32, and functions that a standard prints as a formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from assay.interp import vector
from assay.lower.legalize import kernels
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DTYPES
from assay.semantics.ops import operator
from assay.semantics.scalar import operation
from assay.semantics.types import TensorType
from tests.models import model, single
from tests.verify.app.test_cli import assay
from tests.verify.oracle.test_numeric_rights import F32, Array, outcome, rng

# --- coordinates in float32 (M9.10) --------------------------------------------------------------------------------

COORDINATES = {
    "half_pixel": lambda o, n, m: (o + F32(0.5)) / (F32(m) / F32(n)) - F32(0.5),
    "asymmetric": lambda o, n, m: o / (F32(m) / F32(n)),
    "align_corners": lambda o, n, m: o * F32(n - 1) / F32(m - 1),
}


def keys(d: Array) -> Array:
    a = F32(-0.75)
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, np.where(d < 2, far, F32(0))).astype(F32)


def resized(x: Array, sizes: tuple[int, int], transform: str, mode: str, shift: float = 0.0) -> Array:
    """Resize by the formulas of ONNX, in float32 throughout; `shift` is a fault."""
    for axis, m in zip((2, 3), sizes, strict=True):
        n = x.shape[axis]
        at = (COORDINATES[transform](np.arange(m, dtype=F32), n, m) + F32(shift)).astype(F32)
        base, total = np.floor(at), np.zeros((), F32)
        for step in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            d = np.abs(at - (base + F32(step)))
            w = (F32(1) - d if mode == "linear" else keys(d)).reshape(-1, *(1,) * (3 - axis))
            total = total + np.take(x, np.clip(base + step, 0, n - 1).astype(int), axis) * w
        x = total
    return x


def resize(sizes: tuple[int, int], transform: str, mode: str) -> ModelProto:
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=transform)
    return model(
        [node], {"x": (F32, (1, 2, 9, 11))}, {"y": (F32, (1, 2, *sizes))}, {"s": np.array([1, 2, *sizes])}, opset=19
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transform", COORDINATES)
def test_coordinates_of_resize_may_be_float32(transform: str, mode: str) -> None:
    x = rng().normal(size=(1, 2, 9, 11)).astype(F32)
    for sizes in ((13, 29), (5, 4), (18, 22)):
        proto = resize(sizes, transform, mode)
        assert outcome(proto, {"x": x}, {"y": resized(x, sizes, transform, mode)}) == "right"
        for other in COORDINATES:
            if other != transform:
                assert outcome(proto, {"x": x}, {"y": resized(x, sizes, other, mode)}) == "wrong"
        assert outcome(proto, {"x": x}, {"y": resized(x, sizes, transform, mode, 1e-4)}) == "wrong"
        swapped = resized(x.transpose(0, 1, 3, 2), sizes[::-1], transform, mode).transpose(0, 1, 3, 2)
        assert outcome(proto, {"x": x}, {"y": swapped}) == "right", "one axis before the other"
        assert outcome(proto, {"x": x}, {"y": swapped[..., ::-1]}) == "wrong"


def test_coordinates_of_resize_through_the_command(check: Any) -> None:
    x = rng(1).normal(size=(1, 2, 9, 11)).astype(F32)
    proto = resize((13, 29), "half_pixel", "linear")
    assert check(proto, {"x": x}, {"y": resized(x, (13, 29), "half_pixel", "linear")}) == 0


def test_a_range_of_floats_may_add_again_and_again() -> None:
    """As ONNX's own body does; or multiply."""
    inputs = {"x0": np.array(0.1, F32), "x1": np.array(30, F32), "x2": np.array(0.3, F32)}
    proto = single("Range", 11, list(inputs.values()), outputs=[(F32, ("n",))])
    added = np.add.accumulate(np.array([0.1] + [0.3] * 99, F32), dtype=F32)
    assert len(added) == 100 and abs(added[-1] - 29.8) > 1e-5
    assert outcome(proto, inputs, {"y0": added}) == "right"
    assert outcome(proto, inputs, {"y0": F32(0.1) + np.arange(100, dtype=F32) * F32(0.3)}) == "right"
    assert outcome(proto, inputs, {"y0": F32(0.1) + np.arange(1, 101, dtype=F32) * F32(0.3)}) == "wrong"
    assert outcome(proto, inputs, {"y0": added + F32(0.01)}) == "wrong"


def test_a_place_on_a_jump_may_be_either() -> None:
    """49 elements become 14: the scale 2 / 7 is rounded in float32, and every other coordinate lies half between two
    elements. Where the scale is exact, there is one answer."""
    x = rng().normal(size=(1, 1, 49)).astype(F32)

    def case(m: int, nearest: str) -> ModelProto:
        node = helper.make_node(
            "Resize",
            ["x", "", "", "s"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode=nearest,
        )
        return model([node], {"x": (F32, (1, 1, 49))}, {"y": (F32, (1, 1, m))}, {"s": np.array([1, 1, m])}, opset=19)

    at = COORDINATES["asymmetric"](np.arange(14, dtype=F32), 49, 14)
    right = np.floor(at + F32(0.5)).astype(int)
    assert (right != np.floor(np.arange(14) * 3.5 + 0.5)).any(), "float32 is on the other side"
    assert outcome(case(14, "round_prefer_ceil"), {"x": x}, {"y": x[:, :, right]}) != "wrong"
    assert outcome(case(14, "round_prefer_ceil"), {"x": x}, {"y": x[:, :, np.minimum(right + 1, 48)]}) == "wrong"
    ties = np.arange(98) / 2
    up, down = np.minimum(np.floor(ties + 0.5), 48).astype(int), np.ceil(ties - 0.5).astype(int)
    assert outcome(case(98, "round_prefer_ceil"), {"x": x}, {"y": x[:, :, up]}) == "right"
    assert outcome(case(98, "round_prefer_ceil"), {"x": x}, {"y": x[:, :, down]}) == "wrong"


def test_topk_in_any_order_through_the_command(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x, k = rng().normal(size=(3, 9)).astype(F32), np.array([4])
    proto = single("TopK", 11, [x, k], {"sorted": 0}, constants=[1], outputs=[(F32, (3, 4)), (np.int64, (3, 4))])
    i = np.argsort(-x, axis=1)[:, [2, 0, 3, 1]]
    v = np.take_along_axis(x, i, 1)
    assert check(proto, {"x0": x}, {"y0": v, "y1": i}) == 0
    assert "topk.order" in capsys.readouterr().out
    for values, places in ((v, i[:, ::-1]), (np.repeat(v[:, :1], 4, 1), np.repeat(i[:, :1], 4, 1)), (v, i + 1)):
        assert outcome(proto, {"x0": x}, {"y0": values, "y1": places}) == "wrong"


def test_a_folded_scale_may_be_subnormal(check: Any) -> None:
    """Batch norm as x * scale: where the scale is two units of the least number, what it is rounded by is a fifth of
    the result. Our own C does so."""
    shapes = {"x": [1, 1, 3], "scale": [1], "b": [1], "mean": [1], "var": [1]}
    values = {"x": [[[1e38, 2e38, 3]]], "scale": [1e-38], "b": [0], "mean": [0], "var": [1e13]}
    inputs = {n: np.array(v, F32).reshape(shapes[n]) for n, v in values.items()}
    proto = model(
        [helper.make_node("BatchNormalization", [*shapes], ["y"], epsilon=0.0)],
        {n: (F32, s) for n, s in shapes.items()},
        {"y": (F32, [1, 1, 3])},
        opset=17,
    )
    y = inputs["x"] * (inputs["scale"] / np.sqrt(inputs["var"]))
    assert check(proto, inputs, {"y": y}) == 0
    y[0, 0, 1] *= F32(2.1)
    assert check(proto, inputs, {"y": y}, "--skip", "fuse") == 1


SIGNALLING = {"float16": 0x7C72, "bfloat16": 0x7F82, "float32": 0x7F800072, "float64": 0x7FF0000000000072}


@pytest.mark.parametrize("name", SIGNALLING)
def test_a_signalling_nan_is_a_nan(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the power 0 it is 1, in every definition, whatever the platform's pow says; so `check` holds on all values of
    16 bits."""
    of = DTYPES[name]
    nan = np.array([SIGNALLING[name]], f"u{of.itemsize}").view(of.numpy)
    zero, one = np.zeros(1, of.numpy), np.ones(1, of.numpy)
    for a, b in ((nan, zero), (one, nan)):
        assert operator("power").value({}, a, b) == operation("pow").meaning(a, b) == one
        assert operator("power").value({}, Bounded.exact(a), Bounded.exact(b)).value == 1
    if name == "float16":
        kind = 'R.Tensor((2,), "float16")'
        (tmp_path / "m.py").write_text(
            f"@I.ir_module\nclass M:\n    @R.function\n    def main(x: {kind}, y: {kind}):\n        return R.power(x,"
            " y)\n"
        )
        assert assay(monkeypatch, "check", tmp_path / "m.py", "--stop-after", "legalize") == 0


# --- a function that a standard prints as a formula --------------------------------------------------------------


def recurrent(op: str, gates: int, small: float) -> tuple[ModelProto, dict[str, Array]]:
    """One step of one unit, whose candidate is tanh of a small number: sigmoids of 0 are 1/2."""
    nodes = [helper.make_node(op, ["x", "w", "r"], ["", "y"], hidden_size=1)]
    w = np.zeros((1, gates, 1), F32)
    w[0, -1] = 1
    consts = {"w": w, "r": np.zeros((1, gates, 1), F32)}
    return model(nodes, {"x": (F32, (1, 1, 1))}, {"y": (F32, (1, 1, 1))}, consts), {"x": np.full((1, 1, 1), small, F32)}


@pytest.mark.parametrize(("op", "gates", "share"), [("RNN", 1, 1.0), ("GRU", 3, 0.5)])
def test_tanh_of_a_recurrent_operator_by_its_formula(check: Any, op: str, gates: int, share: float) -> None:
    """ONNX prints it as (1 - e^-2x) / (1 + e^-2x), which loses the digits of a small x. Tanh itself has no formula."""
    proto, inputs = recurrent(op, gates, 2.4e-4)
    e = np.exp(F32(-2) * inputs["x"])
    printed = (F32(1) - e) / (F32(1) + e)
    assert abs(float(printed.item()) / np.tanh(2.4e-4) - 1) > 1e-5
    assert check(proto, inputs, {"y": F32(share) * printed}) == 0
    assert check(proto, inputs, {"y": F32(share) * (printed + F32(4e-6))}) == 1
    tanh = model([helper.make_node("Tanh", ["x"], ["y"])], {"x": (F32, (1, 1, 1))}, {"y": (F32, (1, 1, 1))})
    assert check(tanh, inputs, {"y": printed}) == 1


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_running_total_of_minus_zero(exclusive: bool) -> None:
    """It begins with the element, or with 0 where that is left out: where nothing rounds, definition and kernel agree
    to the bit."""
    attrs = {"axis": 0, "exclusive": exclusive, "reverse": False}
    x = np.array([-0.0, 3e38], F32)
    of = TensorType((2,), DTYPES["float32"])
    ours = operator("cumsum").value(attrs, x)
    (got,) = vector.run(kernels.build("cumsum", attrs, (of,), of, "f"), [x])
    assert np.signbit(ours).any() != exclusive and ours.tobytes() == got.tobytes()


def test_subnormal_numbers_times_huge_ones_may_cancel() -> None:
    """In double: the error of a product is known though its factor, times a subnormal number, is nothing."""
    tiny, huge = np.float64(-1.5e-323), np.finfo(np.float64).max
    x, w = np.array([[tiny, 1.0, tiny]]), np.array([[huge], [2.0**-102], [-huge]])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, {"x": (np.float64, (1, 3)), "w": (np.float64, (3, 1))}, {"y": (np.float64, (1, 1))})
    for got, want in ((2.0**-102, "right"), (0.0, "right"), (2.0**-90, "wrong")):
        assert outcome(proto, {"x": x, "w": w}, {"y": np.array([[got]])}) == want


@pytest.mark.parametrize(("reduction", "sign"), [("max", False), ("min", True)])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_that_meet_in_a_scatter(reduction: str, sign: bool, zero: float) -> None:
    """-0 is below +0, in the definition as in the kernel, whichever was there first."""
    attrs = {"reduction": reduction}
    operands = [np.array([zero] * 20, F32), np.zeros((1, 1), np.int64), np.array([-zero], F32)]
    types = tuple(TensorType(x.shape, DTYPES[x.dtype.name]) for x in operands)
    ours = operator("scatter_nd").value(attrs, *operands)
    (got,) = vector.run(kernels.build("scatter_nd", attrs, types, types[0], "f"), operands)
    assert np.signbit(ours[0]) == np.signbit(got[0]) == sign
