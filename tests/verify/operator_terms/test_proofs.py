"""Kernels against their operators over terms: what is proved, and planted faults that are not (specs/verify.md,
"legalize")."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.legalize.kernels import build
from assay.lower.legalize.kernels.common import Kernel, kernel, nest
from assay.lower.legalize.kernels.elementwise import elementwise
from assay.semantics.dtypes import FLOAT16, FLOAT32, dtype
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, cast, const, select
from assay.semantics.tensor import Assert, Buffer, PrimFunc, Stmt, seq, store
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN
from assay.verify.operator_terms import KernelProof, prove_kernel

Types = tuple[tuple[tuple[int, ...], str], ...]
F32: Types = (((2, 3), "float32"),)
ZERO = const(0, FLOAT32)


def types_of(types: Types) -> tuple[TensorType, ...]:
    return tuple(TensorType(shape, dtype(name)) for shape, name in types)


def proof(name: str, types: Types, made: Kernel | None = None, value: Any = None, **attrs: Any) -> KernelProof:
    op = OPERATORS[name]
    operands, attrs = types_of(types), op.check_attrs(attrs)
    result = op.type_rule(attrs, operands)
    func = build(name, attrs, operands, result, "k") if made is None else made("k", attrs, operands, result)
    return prove_kernel(func, op if value is None else dataclasses.replace(op, value=value), attrs)


@pytest.mark.parametrize(
    ("name", "types", "attrs", "notion"),
    [
        ("add", (((4, 1, 3), "float32"), ((2, 1), "float32")), {}, BIT_EXACT),
        ("nn.relu", F32, {}, BIT_EXACT),
        ("clip", F32, {"min": -1, "max": 2}, BIT_EXACT),
        ("maximum", (((2, 3), "float32"), ((3,), "float32")), {}, BIT_EXACT),
        ("sigmoid", F32, {}, REAL),  # exp is another function in NumPy: sigmoid(-1) has another last bit
        ("floor_divide", (((5,), "int32"), ((5,), "int32")), {}, BIT_EXACT),
        ("matmul", (((2, 3), "int8"), ((3, 5), "int8")), {}, BIT_EXACT),
        ("matmul", (((2, 3), "float32"), ((3, 5), "float32")), {}, REASSOCIATED),
        ("nn.conv2d", (((1, 4, 5, 6), "float32"), ((6, 2, 2, 3), "float32")), {"groups": 2}, REASSOCIATED),
        ("sum", (((2, 3, 5), "float32"),), {"axis": (1,)}, REASSOCIATED),
        ("max", (((2, 3), "float32"),), {"axis": (0,)}, BIT_EXACT),
        ("nn.max_pool2d", (((1, 2, 5, 4), "float32"),), {"pool_size": (2, 3), "padding": (1, 0, 0, 1)}, BIT_EXACT),
        ("nn.softmax", (((2, 4), "float32"),), {}, REAL),
        ("nn.layer_norm", (((2, 4), "float32"), ((4,), "float32")), {"axes": (-1,)}, REASSOCIATED),
        ("nn.batch_norm", (((2, 3, 4), "float32"), *[((3,), "float32")] * 4), {}, BIT_EXACT),
        ("take", (((2, 7, 3), "float32"), ((4,), "int32")), {"axis": -2}, BIT_EXACT),
        ("take", (((0, 3), "float32"), ((4,), "int32")), {"axis": 0}, BIT_EXACT),  # both trap
        ("gather_nd", (((3, 4, 5), "float32"), ((2, 6, 2), "int64")), {}, BIT_EXACT),
        ("gather_nd", (((3, 0), "float32"), ((2, 2), "int32")), {}, BIT_EXACT),
        ("astype", F32, {"dtype": "int8", "open": True}, BIT_EXACT),
        ("astype", (((5,), "float16"),), {"dtype": "int64", "open": True}, UNKNOWN),  # another width before it
        ("reinterpret", (((3,), "int32"),), {"dtype": "float32"}, BIT_EXACT),
        ("reinterpret", (((3,), "uint16"),), {"dtype": "bfloat16"}, BIT_EXACT),
        ("sin", F32, {}, REAL),
        ("atan", (((3,), "float16"),), {}, REAL),
        ("sinh", F32, {}, REAL),
    ],
)
def test_what_is_proved(name: str, types: Types, attrs: dict[str, Any], notion: object) -> None:
    found = proof(name, types, **attrs)
    assert found.notion == notion, str(found)


def one(rule: Callable[..., Expr]) -> Kernel:
    return elementwise(lambda attrs, *args: rule(*args))


def normed(element: Callable[..., Expr]) -> Kernel:
    """A batch norm of three axes; `element` gets the element and the numbers of its channel."""

    def body(name: str, attrs: Any, x: Buffer, *more: Buffer) -> Stmt:
        *own, out = more
        return nest("i", out.shape, lambda *i: store(out, i, element(x[i], *(b[i[1]] for b in own))))

    return kernel("x gamma beta mean var", body)


EPSILON = const(1e-5, FLOAT32)
NORM_TYPES: Types = (((2, 3, 4), "float32"), *[((3,), "float32")] * 4)


@pytest.mark.parametrize(
    ("element", "notion"),
    [
        (lambda x, g, b, m, v: g * (x - m) / apply("sqrt", v + EPSILON) + b, BIT_EXACT),
        (lambda x, g, b, m, v: (x - m) * (g / apply("sqrt", v + EPSILON)) + b, REAL),
        (lambda x, g, b, m, v: g * (x - m) / (apply("sqrt", v) + EPSILON) + b, UNKNOWN),
        (lambda x, g, b, m, v: g * (x - v) / apply("sqrt", m + EPSILON) + b, UNKNOWN),
        (lambda x, g, b, m, v: g * x / apply("sqrt", v + EPSILON) - g * m / apply("sqrt", v + EPSILON) + b, UNKNOWN),
    ],
    ids=["the definition", "a factor first", "epsilon behind the root", "mean and variance exchanged", "in two parts"],
)
def test_a_batch_norm_in_another_order_is_no_bits(element: Callable[..., Expr], notion: object) -> None:
    """Which factor is divided first is other bits, and the proof says so."""
    assert proof("nn.batch_norm", NORM_TYPES, normed(element)).notion == notion


def pooled(pad: float) -> Kernel:
    """The maximum of 2 neighbours, with one padded before."""

    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        def element(n: Expr, c: Expr, i: Expr) -> Stmt:
            first = select(i > 0, x[n, c, apply("max", i - 1, const(0))], const(pad, FLOAT32))
            return store(out, (n, c, i), apply("max", first, x[n, c, i]))

        return nest("i", out.shape, element)

    return kernel("x", body)


def moved(place: Callable[..., tuple[Expr, ...]]) -> Kernel:
    return kernel("x", lambda name, attrs, x, out: nest("i", out.shape, lambda *i: store(out, i, x[place(*i)])))


def product(term: Callable[..., Expr], of: Any = FLOAT32) -> Kernel:
    """Sums of products, in an accumulator of dtype `of`."""

    def body(name: str, attrs: Any, a: Buffer, b: Buffer, out: Buffer) -> Stmt:
        def element(i: Expr, j: Expr) -> Stmt:
            total: Expr = const(0, of)
            for k in range(int(a.shape[1])):  # type: ignore[call-overload]
                total = total + cast(term(a, b, i, j, k), of)
            return store(out, (i, j), cast(total, out.dtype))

        return nest("i", out.shape, element)

    return kernel("a b", body)


def largest(last: int) -> Kernel:
    """The maximum along axis 0, of the first `last` rows."""

    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        def element(j: Expr) -> Stmt:
            steps = [store(out, (j,), apply("max", out[j], x[k, j])) for k in range(1, last)]
            return seq(store(out, (j,), x[0, j]), *steps)

        return nest("j", out.shape, element)

    return kernel("x", body)


def taken(inside: Callable[[Expr], Expr]) -> Kernel:
    """Rows at places, each of which is asserted to be `inside`."""

    def body(name: str, attrs: Any, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
        def row(i: Expr, j: Expr) -> Stmt:
            index = indices[i]
            return store(out, (i, j), x[select(index < 0, index + 5, index), j])

        checks = nest("j", indices.shape, lambda j: Assert(inside(indices[j]), "outside", "out of bounds"))
        return seq(checks, nest("i", out.shape, row))

    return kernel("x indices", body)


def gathered(place: Callable[[Expr, Expr], tuple[Expr, Expr]]) -> Kernel:
    """x[place(a, b)] for each pair of places a and b in a square."""

    def body(name: str, attrs: Any, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
        def inside(j: Expr, k: Expr) -> Stmt:
            return Assert(apply("and", indices[j, k] >= -4, indices[j, k] < 4), "outside", "out of bounds")

        def element(i: Expr) -> Stmt:
            a, b = place(*(indices[i, k] for k in range(2)))
            return store(out, (i,), x[tuple(select(p < 0, p + 4, p) for p in (a, b))])

        return seq(nest("j k", indices.shape, inside), nest("i", out.shape, element))

    return kernel("x indices", body)


def opened(inside: Callable[[Expr], Expr]) -> Kernel:
    """x as int8, or 0 where it is not inside."""
    return one(lambda x: cast(select(inside(x), x, ZERO), "int8"))


PLACES: Types = (((4, 4), "float32"), ((3, 2), "int64"))
X11: Types = (((3, 3), "float32"),)
AB: Types = (((3, 3), "float32"), ((3, 3), "float32"))
ROWS: Types = (((5, 2), "float32"), ((3,), "int64"))
FAULTS: dict[str, tuple[str, Types, Kernel, dict[str, Any], bool]] = {
    "arms of a select exchanged at the least number": (
        "nn.leakyrelu", F32, one(lambda x: select(x > const(1e-45, FLOAT32), x, x * 0.01)), {}, True
    ),
    "arms of a select exchanged for NaN": (
        "nn.leakyrelu", F32, one(lambda x: select(x < 0, x * 0.01, apply("max", x, ZERO))), {}, True
    ),
    "relu: a comparison that drops NaN": ("nn.relu", F32, one(lambda x: select(x > 0, x, ZERO)), {}, True),
    "relu: NaN with a sign is 0": (
        "nn.relu", F32,
        one(lambda x: apply("max", select(apply("and", apply("not", apply("or", x < 0, x >= 0)),
                                                apply("bits_of", x) < 0), ZERO, x), ZERO)),
        {}, True,
    ),
    "relu: -0 stays": ("nn.relu", F32, one(lambda x: select(x < 0, ZERO, x)), {}, True),
    "maximum: the first of two zeros": (
        "maximum", (F32[0], F32[0]), one(lambda a, b: select(a >= b, a, b)), {}, True
    ),
    "min for max": ("maximum", (F32[0], F32[0]), one(lambda a, b: apply("min", a, b)), {}, False),
    "clip in the other order": (
        "clip", F32, one(lambda x: apply("max", apply("min", x, const(1, FLOAT32)), const(3, FLOAT32))),
        {"min": 3, "max": 1}, False,
    ),
    "less or equal": ("less", (F32[0], F32[0]), one(lambda a, b: a <= b), {}, False),
    "not less, which NaN is too": (
        "greater_equal", (F32[0], F32[0]), one(lambda a, b: apply("not", a < b)), {}, True
    ),
    "a cast at the wrong place": (
        "add", (((4,), "int8"), ((4,), "int8")),
        one(lambda a, b: cast(apply("min", cast(a, "int32") + cast(b, "int32"), const(127, "int32")), "int8")),
        {}, True,
    ),
    "a quotient rounded down": (
        "truncate_divide", (((4,), "int32"), ((4,), "int32")), one(lambda a, b: a // b), {}, True
    ),
    "a division that cannot trap": (
        "floor_divide", (((4,), "int32"), ((4,), "int32")),
        one(lambda a, b: a // select(apply("eq", b, const(0, "int32")), const(1, "int32"), b)), {}, True,
    ),
    "an accumulator too narrow": (
        "matmul", AB, product(lambda a, b, i, j, k: a[i, k] * b[k, j], FLOAT16), {}, True
    ),
    "an operand transposed": ("matmul", AB, product(lambda a, b, i, j, k: a[i, k] * b[j, k]), {}, False),
    "one product less": (
        "matmul", AB, product(lambda a, b, i, j, k: a[i, max(k, 1)] * b[max(k, 1), j]), {}, False
    ),
    "padding with 0": ("nn.max_pool1d", (((1, 1, 3), "float32"),), pooled(0.0), {"pool_size": (2,), "padding": (1, 0)},
                       True),
    "a row less": ("max", X11, largest(2), {"axis": (0,)}, False),
    "an index that may be the size": (
        "take", ROWS, taken(lambda i: apply("and", i >= -5, i <= 5)), {"axis": 0}, True
    ),
    "an index that is not asserted": ("take", ROWS, taken(lambda i: i < 5), {"axis": 0}, True),
    "an assertion of too much": (
        "take", ROWS, taken(lambda i: apply("and", i >= 0, i < 5)), {"axis": 0}, True
    ),
    "axes not exchanged": ("permute_dims", X11, moved(lambda i, j: (i, j)), {}, False),
    "a flip of the other axis": (
        "strided_slice", X11, moved(lambda i, j: (i, 2 - j)),
        {"axes": (0,), "begin": (-1,), "end": (-4,), "strides": (-1,)}, False,
    ),
    "places in another order": ("gather_nd", PLACES, gathered(lambda a, b: (b, a)), {}, True),
    "places that count from another end": (
        "gather_nd", PLACES, gathered(lambda a, b: (a, select(b < 0, b + 5, b))), {}, True
    ),
    "an open cast of one number too many": (
        "astype", F32, opened(lambda x: apply("and", x >= -128.0, x <= 128.0)), {"dtype": "int8", "open": True}, True
    ),
    "an open cast of numbers that are rounded down": (
        "astype", F32, opened(lambda x: apply("and", apply("floor", x) >= -128.0, x < 128.0)),
        {"dtype": "int8", "open": True}, True,
    ),
    "a number for its bits": (
        "reinterpret", (((4,), "int32"),), one(lambda x: cast(x, FLOAT32)), {"dtype": "float32"}, False
    ),
    "another function": ("sin", F32, one(lambda x: apply("cos", x)), {}, False),
}  # fmt: skip
"""By name: operator, operands, kernel, attributes, and whether a run on whole numbers from 1 to 3 sees nothing."""


def test_what_is_right_passes() -> None:
    """The same builders without the fault."""
    assert proof("nn.leakyrelu", F32, one(lambda x: select(x > 0, x, x * 0.01))).notion is BIT_EXACT  # 0 * 0.01 is 0
    assert proof("nn.relu", F32, one(lambda x: apply("max", x, ZERO))).notion is BIT_EXACT
    assert proof("matmul", AB, product(lambda a, b, i, j, k: a[i, k] * b[k, j])).notion is REASSOCIATED
    pool = {"pool_size": (2,), "padding": (1, 0)}
    assert proof("nn.max_pool1d", (((1, 1, 3), "float32"),), pooled(-np.inf), **pool).notion is BIT_EXACT
    assert proof("max", X11, largest(3), axis=(0,)).notion is BIT_EXACT
    inside = taken(lambda i: apply("and", i >= -5, i < 5))
    assert proof("take", ROWS, inside, axis=0).notion is BIT_EXACT
    assert proof("permute_dims", X11, moved(lambda i, j: (j, i))).notion is BIT_EXACT
    assert proof("gather_nd", PLACES, gathered(lambda a, b: (a, b))).notion is BIT_EXACT
    inside = opened(lambda x: apply("and", apply("trunc", x) >= -128.0, apply("trunc", x) < 128.0))
    assert proof("astype", F32, inside, dtype="int8", open=True).notion is BIT_EXACT
    assert proof("sin", F32, one(lambda x: apply("sin", x))).notion is REAL


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_not_proved(name: str) -> None:
    operator, types, made, attrs, silent = FAULTS[name]
    found = proof(operator, types, made, **attrs)
    assert found.notion is UNKNOWN and found.reason, str(found)
    assert is_silent(operator, types, made, attrs) is silent


def is_silent(name: str, types: Types, made: Kernel, attrs: dict[str, Any]) -> bool:
    """Whether a run on small whole numbers shows no difference."""
    op, operands = OPERATORS[name], types_of(types)
    attrs = op.check_attrs(attrs)
    func: PrimFunc = made("k", attrs, operands, op.type_rule(attrs, operands))
    rng = np.random.default_rng(3)
    inputs = [rng.integers(1, 4, t.static_shape).astype(t.dtype.numpy) for t in operands]
    return np.array_equal(vector.run(func, inputs)[0], op.value(attrs, *inputs))


VALUES: dict[str, tuple[str, Types, Any, dict[str, Any]]] = {
    "a difference": ("add", (F32[0], F32[0]), lambda attrs, a, b: a - b, {}),
    "relu without its zero": ("nn.relu", F32, lambda attrs, x: np.maximum(x, x.dtype.type(0)), {}),
    "a maximum whose zeros are open": ("max", X11, lambda attrs, x: np.max(x, axis=0), {"axis": (0,)}),
    "another axis": ("sum", X11, lambda attrs, x: np.sum(x, axis=1), {"axis": (0,)}),
    "a bound as large": ("less", (F32[0], F32[0]), lambda attrs, a, b: np.less_equal(a, b), {}),
    "NaN taken for a number": (
        "nn.relu", F32, lambda attrs, x: np.where(x > x.dtype.type(0), x, x.dtype.type(0)), {}
    ),
    "a trap at none": (
        "take", (((0, 2), "float32"), ((3,), "int64")),
        lambda attrs, x, i: np.broadcast_to(np.zeros((), x.dtype), (3, 2)), {"axis": 0},
    ),
    "the tangent": ("sin", F32, lambda attrs, x: np.tan(x), {}),
    "wrong where there is a -0": (
        "nn.relu", F32,
        lambda attrs, x: x if np.any((x == 0) & np.signbit(x)) else OPERATORS["nn.relu"].value(attrs, x), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_another_definition_is_not_proved(name: str) -> None:
    operator, types, value, attrs = VALUES[name]
    assert proof(operator, types, value=value, **attrs).notion is UNKNOWN
