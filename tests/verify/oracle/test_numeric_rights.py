"""What a correct backend may do with numbers, and may not: rules M9.7 and on, and what ONNX leaves open in an operator.

Peers are written here, in float32, as a backend would compute; the same peers with a fault must stay wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from assay.interp import vector
from assay.lower.legalize import kernels
from assay.lower.legalize.kernels.elementwise import elementwise
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid
from assay.semantics.ops import operator
from assay.semantics.scalar import cast
from assay.semantics.types import TensorType
from assay.verify.backends.protocol import subject_of_model
from assay.verify.oracle import Verdict, oracle_of
from tests.models import model, single

Array = np.ndarray[Any, Any]
F32 = np.float32


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def verdict(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Verdict:
    return oracle_of(subject_of_model(proto)).judge(inputs, outputs)


def outcome(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str:
    return verdict(proto, inputs, outputs).outcome


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
