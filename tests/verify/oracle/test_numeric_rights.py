"""What a correct backend may do with numbers, and may not: rules M9.7 and on, and what ONNX leaves open in an operator.

Peers are written here, in float32, as a backend would compute; the same peers with a fault must stay wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from assay.interp import vector
from assay.lower.legalize import kernels
from assay.lower.legalize.kernels.elementwise import elementwise
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid
from assay.semantics.ops import operator
from assay.semantics.scalar import cast, operation
from assay.semantics.types import TensorType
from assay.verify.backends.protocol import subject_of_model
from assay.verify.oracle import Verdict, oracle_of
from tests.models import model, single
from tests.verify.app.test_cli import assay

Array = np.ndarray[Any, Any]
F32 = np.float32


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def verdict(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Verdict:
    return oracle_of(subject_of_model(proto)).judge(inputs, outputs)


def outcome(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str:
    return verdict(proto, inputs, outputs).outcome


def checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The exit code of `assay check MODEL --inputs --expected`, of a model, its inputs and outputs, and more
    options."""

    def run(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array], *more: object) -> int:
        onnx.save(proto, tmp_path / "m.onnx")
        np.savez(tmp_path / "in.npz", **inputs)
        np.savez(tmp_path / "out.npz", **outputs)
        return assay(
            monkeypatch,
            "check",
            tmp_path / "m.onnx",
            "--inputs",
            tmp_path / "in.npz",
            "--expected",
            tmp_path / "out.npz",
            *more,
        )

    return run


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    return checker(tmp_path, monkeypatch)


# --- one value used twice is one value (M9.7) --------------------------------------------------------------------


def attention_row() -> tuple[ModelProto, dict[str, Array], dict[str, Array]]:
    """Softmax, and zeros for the NaN of a row that is masked throughout, as PyTorch exports attention."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("IsNaN", ["s"], ["n"]),
        helper.make_node("Where", ["n", "zero", "s"], ["y"]),
    ]
    x = rng().normal(size=(3, 5)).astype(F32)
    x[1] = -np.inf
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        s = e / e.sum(-1, keepdims=True)
    right = np.where(np.isnan(s), F32(0), s)
    return model(nodes, {"x": (F32, (3, 5))}, {"y": (F32, (3, 5))}, {"zero": F32(0)}), {"x": x}, {"y": right, "nan": s}


def test_isnan_of_what_rounds_is_decided(check: Any) -> None:
    proto, inputs, outputs = attention_row()
    assert check(proto, inputs, {"y": outputs["y"]}) == 0
    assert outcome(proto, inputs, {"y": outputs["y"]}) == "right"
    assert outcome(proto, inputs, {"y": outputs["nan"]}) == "wrong", "the row of NaN must be zeros"
    assert outcome(proto, inputs, {"y": np.zeros((3, 5), F32)}) == "wrong"


@pytest.mark.parametrize(
    "op, right",
    [("Sub", 0.0), ("Div", 1.0), ("Less", False), ("Equal", True), ("Max", None), ("Min", None), ("Where", None)],
)
def test_one_value_used_twice(op: str, right: float | bool | None) -> None:
    """Of y = exp(x): y - y is 0, y / y is 1, ...; the other answers are wrong."""
    of = bool if isinstance(right, bool) else F32
    names = ["c", "y", "y"] if op == "Where" else ["y", "y"]
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node(op, names, ["z"])]
    proto = model(nodes, {"x": (F32, (4,)), **({"c": (bool, (4,))} if op == "Where" else {})}, {"z": (of, (4,))})
    inputs = {"x": rng().normal(size=4).astype(F32)} | ({"c": np.array([True, False] * 2)} if op == "Where" else {})
    given = np.exp(inputs["x"]) if right is None else np.full(4, right, of)
    assert outcome(proto, inputs, {"z": given}) == "right"
    off = ~given if of is bool else given + F32(1e-3)
    assert outcome(proto, inputs, {"z": off}) == "wrong"


@pytest.mark.parametrize(("op", "right"), [("Sub", 0.0), ("GreaterOrEqual", True)])
def test_the_command_knows_a_value_that_is_used_twice(op: str, right: float | bool, check: Any) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node(op, ["y", "y"], ["z"])]
    of = bool if isinstance(right, bool) else F32
    proto, inputs = model(nodes, {"x": (F32, (4,))}, {"z": (of, (4,))}), {"x": rng().normal(size=4).astype(F32)}
    given = np.full(4, right, of)
    assert check(proto, inputs, {"z": given}, "--stop-after", "import") == 0
    assert check(proto, inputs, {"z": ~given if of is bool else given + F32(1e-3)}, "--stop-after", "import") == 1


def test_two_values_may_differ() -> None:
    """exp(x) computed by two nodes: nothing says that they agree to the last bit."""
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Exp", ["x"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["z"]),
    ]
    proto = model(nodes, {"x": (F32, (4,))}, {"z": (F32, (4,))})
    assert outcome(proto, {"x": np.ones(4, F32)}, {"z": np.full(4, 2.0**-22, F32)}) != "wrong"


# --- a term added to a sum is one of its terms (M9.8) --------------------------------------------------------------


def by_blocks(a: Array, b: Array, c: Array, block: int) -> Array:
    """The bias stands in the accumulator; then blocks of terms are added."""
    total = np.broadcast_to(c, (a.shape[0], b.shape[1])).astype(F32)
    for k in range(0, a.shape[1], block):
        total = (total + a[:, k : k + block] @ b[k : k + block]).astype(F32)
    return total


def products(fused: bool) -> ModelProto:
    nodes = [helper.make_node("Gemm", ["a", "b", "c"], ["y"])]
    if not fused:
        nodes = [helper.make_node("MatMul", ["a", "b"], ["t"]), helper.make_node("Add", ["t", "c"], ["y"])]
    return model(nodes, {"a": (F32, (7, 256)), "b": (F32, (256, 5)), "c": (F32, (5,))}, {"y": (F32, (7, 5))})


@pytest.mark.parametrize("fused", [True, False])
def test_a_bias_may_be_the_first_term(check: Any, fused: bool) -> None:
    a, b = (rng(i).normal(size=s).astype(F32) * F32(0.1) for i, s in enumerate([(7, 256), (256, 5)]))
    inputs = {"a": a, "b": b, "c": rng(3).normal(size=5).astype(F32) * F32(100)}
    proto = products(fused)
    if fused:
        assert check(proto, inputs, {"y": by_blocks(*inputs.values(), 1)}) == 0
    for block in (1, 32):
        assert outcome(proto, inputs, {"y": by_blocks(*inputs.values(), block)}) == "right"
    without = by_blocks(a[:, :-1], b[:-1], inputs["c"], 1)
    assert outcome(proto, inputs, {"y": without}) == "wrong", "a term is left out"
    assert outcome(proto, inputs, {"y": by_blocks(a, b, np.roll(inputs["c"], 1), 1)}) == "wrong"


LATER = {
    "Sub": ([helper.make_node("Sub", ["t", "c"], ["y"])], -1),
    "Sub from": (
        [
            helper.make_node("Neg", ["a"], ["n"]),
            helper.make_node("MatMul", ["n", "b"], ["s"]),
            helper.make_node("Sub", ["c", "s"], ["y"]),
        ],
        1,
    ),
    "Neg": (
        [
            helper.make_node("Neg", ["t"], ["n"]),
            helper.make_node("Sub", ["n", "c"], ["m"]),
            helper.make_node("Neg", ["m"], ["y"]),
        ],
        1,
    ),
}


@pytest.mark.parametrize("how", LATER)
def test_a_term_that_is_subtracted_may_be_the_first(how: str) -> None:
    """Of t = a b: t - c, c - (-a) b, and -(-t - c)."""
    nodes, sign = LATER[how]
    a, b = (rng(i).normal(size=s).astype(F32) * F32(0.1) for i, s in enumerate([(7, 256), (256, 5)]))
    c = rng(3).normal(size=5).astype(F32) * F32(1000)
    proto = model(
        [helper.make_node("MatMul", ["a", "b"], ["t"]), *nodes],
        {"a": (F32, a.shape), "b": (F32, b.shape), "c": (F32, (5,))},
        {"y": (F32, (7, 5))},
    )
    inputs = {"a": a, "b": b, "c": c}
    last = a @ b + sign * c
    first = by_blocks(a, b, sign * c, 1)
    assert np.abs(first - last).max() > 4 * np.spacing(np.abs(last).max()), "more than its own rounding"
    assert outcome(proto, inputs, {"y": first}) == "right"
    assert outcome(proto, inputs, {"y": by_blocks(a[:, :-1], b[:-1], sign * c, 1)}) == "wrong", "a term is left out"
    assert outcome(proto, inputs, {"y": by_blocks(a, b, -sign * c, 1)}) == "wrong"


def test_a_term_that_is_added_to_a_sum_is_one_of_its_terms(check: Any) -> None:
    """Through the command: ReduceSum and Add, and a convolution and Sub, the other operand first."""
    a, c = rng(5).normal(size=(5, 512)).astype(F32) * F32(0.1), F32(3000)
    nodes = [
        helper.make_node("ReduceSum", ["a", "axes"], ["t"], keepdims=0),
        helper.make_node("Add", ["t", "c"], ["y"]),
    ]
    proto = model(nodes, {"a": (F32, a.shape), "c": (F32, ())}, {"y": (F32, (5,))}, {"axes": np.array([1])})

    def summed(rows: Array) -> Array:
        return np.array([np.add.accumulate(np.concatenate([[c], row]), dtype=F32)[-1] for row in rows], F32)

    assert check(proto, {"a": a, "c": c}, {"y": summed(a)}, "--stop-after", "import") == 0
    assert check(proto, {"a": a, "c": c}, {"y": summed(a[:, :-8])}, "--stop-after", "import") == 1, "terms are left out"
    x, w, r = (
        a[:1].reshape(1, 64, 8, 1),
        rng(6).normal(size=(4, 64, 1, 1)).astype(F32) * F32(0.1),
        rng(7).normal(size=(1, 4, 8, 1)).astype(F32) * F32(300),
    )
    nodes = [helper.make_node("Conv", ["x", "w"], ["t"]), helper.make_node("Sub", ["t", "r"], ["y"])]
    proto = model(nodes, {n: (F32, v.shape) for n, v in {"x": x, "w": w, "r": r}.items()}, {"y": (F32, r.shape)})
    first = by_blocks(w[:, :, 0, 0], x[0, :, :, 0], -r[0, :, :, 0], 1)[None, :, :, None]
    assert outcome(proto, {"x": x, "w": w, "r": r}, {"y": first}) == "right"
    assert outcome(proto, {"x": x, "w": w, "r": r}, {"y": first + r * F32(1e-5)}) == "wrong"


# --- what ONNX says, and leaves open, of single operators ----------------------------------------------------------


def test_sign_of_a_zero_is_zero(check: Any) -> None:
    x = np.array([-0.0, 0.0, 3, -np.inf, 1e-45], F32)
    proto = single("Sign", 13, [x], outputs=[(F32, (5,))])
    assert check(proto, {"x0": x}, {"y0": np.array([0.0, 0, 1, -1, 1], F32)}) == 0
    assert outcome(proto, {"x0": x}, {"y0": np.array([-0.0, 0, 1, -1, 1], F32)}) == "right", "zeros compare equal"
    assert outcome(proto, {"x0": x}, {"y0": np.array([0, 0, 1, -1, 0], F32)}) == "wrong"
    nan = np.array([np.nan], F32)
    assert outcome(single("Sign", 13, [nan], outputs=[(F32, (1,))]), {"x0": nan}, {"y0": nan}) == "right"


def test_affine_grid_of_one_image(check: Any) -> None:
    theta, size = rng().normal(size=(1, 2, 3)).astype(F32), np.array([1, 2, 3, 4])
    proto = single("AffineGrid", 20, [theta, size], constants=[1], outputs=[(F32, (1, 3, 4, 2))])
    y, x = np.meshgrid((np.arange(3) * 2 + 1) / 3 - 1, (np.arange(4) * 2 + 1) / 4 - 1, indexing="ij")
    right = np.stack([x, y, np.ones((3, 4))], -1).astype(F32) @ theta[0].T
    assert check(proto, {"x0": theta}, {"y0": right[None]}) == 0
    assert outcome(proto, {"x0": theta}, {"y0": right[None, ::-1]}) == "wrong"


def test_hardmax_of_nothing(check: Any) -> None:
    x = np.zeros((2, 0), F32)
    old, new = (single("Hardmax", opset, [x], {"axis": 1}, outputs=[(F32, (2, 0))]) for opset in (11, 13))
    assert check(new, {"x0": x}, {"y0": x}) == 0
    assert outcome(old, {"x0": x}, {"y0": x}) == "right"


def test_group_normalization_before_21(check: Any) -> None:
    """Scale and bias have a number for each group; from 21 on for each channel."""
    x, s, b = rng().normal(size=(2, 6, 3, 4)).astype(F32), np.array([1, 2, 3], F32), np.array([0.1, 0.2, 0.3], F32)
    proto = single("GroupNormalization", 18, [x, s, b], {"num_groups": 3}, outputs=[(F32, x.shape)])
    g = x.reshape(2, 3, -1)
    normal = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + F32(1e-5))
    right = (normal * s[:, None] + b[:, None]).reshape(x.shape)
    assert check(proto, {"x0": x, "x1": s, "x2": b}, {"y0": right}) == 0
    assert outcome(proto, {"x0": x, "x1": s, "x2": b}, {"y0": normal.reshape(x.shape)}) == "wrong"


# --- what is open, and dropped (M9.9) ------------------------------------------------------------------------------


def buckets(condition: str = "Less") -> ModelProto:
    """T5's relative positions: the logarithm of 0 is cast to an integer, and dropped."""
    nodes = [
        helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Log", ["f"], ["l"]),
        helper.make_node("Cast", ["l"], ["i"], to=TensorProto.INT64),
        helper.make_node(condition, ["p", "four"], ["small"]),
        helper.make_node("Where", ["small", "p", "i"], ["b"]),
        helper.make_node("Gather", ["w", "b"], ["y"]),
    ]
    stored = {"four": np.array(4), "w": np.arange(12, dtype=F32).reshape(6, 2)}
    return model(nodes, {"p": (np.int64, (6,))}, {"y": (F32, (6, 2))}, stored)


def test_an_open_value_that_is_dropped(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    p = np.array([0, 1, 2, 3, 20, 60])
    right = np.arange(12, dtype=F32).reshape(6, 2)[[0, 1, 2, 3, 2, 4]]
    assert check(buckets(), {"p": p}, {"y": right}) == 0
    assert outcome(buckets(), {"p": p}, {"y": right[::-1]}) == "wrong"
    assert outcome(buckets("Greater"), {"p": p}, {"y": right}) == "unpredictable", "an index that is open"
    monkeypatch.setitem(kernels.KERNELS, "astype", elementwise(lambda attrs, x: cast(x, attrs["dtype"])))
    assert check(buckets(), {"p": p}, {"y": right}) == 1, "a kernel that traps where the operator does not"


def test_an_open_element_may_be_anything_and_its_neighbours_not() -> None:
    x = np.array([1.5, np.nan, 1e20, -np.inf], F32)
    proto = single("Cast", 13, [x], {"to": TensorProto.INT32}, outputs=[(np.int32, (4,))])
    assert outcome(proto, {"x0": x}, {"y0": np.array([1, 0, 7, -(2**31)], np.int32)}) not in ("wrong", "unpredictable")
    assert outcome(proto, {"x0": x}, {"y0": np.array([2, 0, 7, -(2**31)], np.int32)}) == "wrong"


@pytest.mark.parametrize("op, more", [("Div", {}), ("Mod", {})])
def test_a_quotient_by_zero_that_is_dropped(op: str, more: dict[str, Any]) -> None:
    nodes = [
        helper.make_node(op, ["x", "y"], ["q"], **more),
        helper.make_node("Equal", ["y", "zero"], ["none"]),
        helper.make_node("Where", ["none", "x", "q"], ["z"]),
    ]
    proto = model(nodes, {n: (np.int32, (4,)) for n in "xy"}, {"z": (np.int32, (4,))}, {"zero": np.array(0, np.int32)})
    x, y = np.array([5, 6, -7, 8], np.int32), np.array([2, 0, 2, 0], np.int32)
    right = np.array([2, 6, -3, 8] if op == "Div" else [1, 6, 1, 8], np.int32)
    assert outcome(proto, {"x": x, "y": y}, {"z": right}) == "right"
    assert outcome(proto, {"x": x, "y": y}, {"z": right + np.array([0, 0, 1, 0], np.int32)}) == "wrong"


def test_a_size_that_is_open_is_refused() -> None:
    nodes = [
        helper.make_node("Cast", ["n"], ["i"], to=TensorProto.INT64),
        helper.make_node("Expand", ["x", "i"], ["y"]),
    ]
    proto = model(nodes, {"x": (F32, (1,))}, {"y": (F32, ("k",))}, {"n": np.array([np.nan], F32)})
    with pytest.raises(Invalid, match="leaves open"):
        subject_of_model(proto)


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("to", ["int8", "uint8", "int32", "uint64"])
def test_kernels_do_not_trap_where_a_cast_is_open(of: str, to: str) -> None:
    """The ends of the range, what is beyond, NaN: what has a value has it, and the rest gets 0."""
    ends = [
        float(f(np.float64(DTYPES[to].max)))
        for f in (lambda m: m, lambda m: m + 1, lambda m: m / 2, lambda m: -m - 1.5, lambda m: -m - 1)
    ]
    with np.errstate(all="ignore"):
        x = np.array([0.5, -0.5, 1.5, -1.5, 100, -200, np.nan, np.inf, -np.inf, *ends]).astype(DTYPES[of].numpy)
    attrs = {"dtype": to, "open": True}
    func = kernels.KERNELS["astype"]("f", attrs, (TensorType(x.shape, DTYPES[of]),), TensorType(x.shape, DTYPES[to]))
    (made,) = vector.run(func, [x])
    with np.errstate(all="ignore"):
        whole = np.trunc(x.astype(np.float64))
        held = (whole >= float(DTYPES[to].min)) & (whole < float(DTYPES[to].max) + 1)
        wanted = np.where(held, np.where(held, whole, 0).astype(DTYPES[to].numpy), 0)
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(np.asarray(operator("astype").value(attrs, x)), wanted)
    assert (np.asarray(operator("astype").value(attrs, Bounded.exact(x)).radius == np.inf) == ~held).all() or held.all()


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
