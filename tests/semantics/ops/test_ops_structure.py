"""Type rules of reduction, pooling, movement and creation: examples, symbolic dims, one negative test for each label.

Values are in test_ops_structure_values.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, var
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import OPERATORS, creation, movement, pooling, reduction
from assay.semantics.ops.sizes import (
    ceil_div,
    floor_div,
    larger,
    missing_dim,
    never_negative,
    same_size,
    slice_length,
    smaller,
)
from assay.semantics.scalar import Dim, Expr, Var, apply, evaluate_dim, provably_equal, select, show
from assay.semantics.types import TensorType, Type, flatten

OPS = (*reduction.TABLE, *pooling.TABLE, *movement.TABLE, *creation.TABLE)
EXAMPLES = [(op, e) for op in OPS for e in op.examples]

n, m, k = Var("n"), Var("m"), Var("k")


def typed(name: str, *shapes: Any, of: str = "float32", **attrs: Any) -> Type:
    """The type of a call; an operand is a shape of dtype `of`, or a pair of a shape and a dtype."""
    pairs = [s if len(s) == 2 and isinstance(s[0], tuple) else (s, of) for s in shapes]
    args = [var(f"x{i}", TensorType(shape, dtype(d))) for i, (shape, d) in enumerate(pairs)]
    return call(name, *args, **attrs).type


def ids(value: Any) -> str:
    return value.name if isinstance(value, Operator) else "example" if isinstance(value, Example) else str(value)


# --- records ------------------------------------------------------------------------------------------------------


def test_the_table_has_them_all() -> None:
    wanted = (
        "sum mean max min prod reshape squeeze expand_dims permute_dims concat strided_slice split take nn.pad"
        " broadcast_to device_copy full shape_of"
    ).split()
    wanted += [f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]
    assert sorted(op.name for op in OPS) == sorted(wanted)
    assert all(OPERATORS[op.name] is op for op in OPS)


@pytest.mark.parametrize("op", OPS, ids=ids)
def test_records_are_complete(op: Operator) -> None:
    assert op.doc and op.bound and op.source
    assert len(op.examples) >= 2
    assert all(a.doc for a in op.attrs.values()) and all(op.constraints.values())
    assert op.view == (op.name in ("reshape", "squeeze", "expand_dims"))


@pytest.mark.parametrize(("op", "example"), EXAMPLES, ids=ids)
def test_dims_of_examples_are_distinct(op: Operator, example: Example) -> None:
    """Equal dims would hide an axis taken for another; 1 and 0 have meanings of their own."""
    for shape, _ in example.operands:
        dims = [d for d in shape if d > 1]
        assert len(set(dims)) == len(dims)


# --- constraints --------------------------------------------------------------------------------------------------

X: Any = (2, 3, 4)
INVALID: list[tuple[str, str, tuple[Any, ...], Mapping[str, Any]]] = [
    ("reshape.C1", "reshape", (X,), {"shape": [6, 4]}),
    ("reshape.C1", "reshape", (X,), {"shape": (-1, -1)}),
    ("reshape.C1", "reshape", (X,), {"shape": (-2, 12)}),
    ("reshape.C1", "reshape", (X,), {"shape": (6.0, 4)}),
    ("reshape.C2", "reshape", (X,), {"shape": (5, 5)}),
    ("reshape.C2", "reshape", ((n, 4),), {"shape": (m, 4)}),
    ("reshape.C3", "reshape", (X,), {"shape": (5, -1)}),
    ("reshape.C3", "reshape", (X,), {"shape": (0, -1)}),
    ("reshape.C3", "reshape", ((n, 3),), {"shape": (2, -1)}),
    ("reshape.C3", "reshape", ((n, 3),), {"shape": (m, -1)}),
    ("squeeze.C1", "squeeze", ((2, 1),), {"axis": 1}),
    ("squeeze.C2", "squeeze", ((2, 1),), {"axis": (0,)}),
    ("squeeze.C2", "squeeze", ((n, 1),), {"axis": (0,)}),
    ("axis.C1", "squeeze", ((2, 1),), {"axis": (2,)}),
    ("axis.C2", "squeeze", ((2, 1),), {"axis": (1, -1)}),
    ("expand_dims.C1", "expand_dims", (X,), {"axis": (0.5,)}),
    ("axis.C1", "expand_dims", (X,), {"axis": (4,)}),
    ("axis.C2", "expand_dims", (X,), {"axis": (0, -5)}),
    ("permute_dims.C1", "permute_dims", (X,), {"axes": 1}),
    ("permute_dims.C2", "permute_dims", (X,), {"axes": (0, 1)}),
    ("permute_dims.C2", "permute_dims", (X,), {"axes": (0, 1, -2)}),
    ("axis.C1", "permute_dims", (X,), {"axes": (0, 1, 3)}),
    ("concat.C1", "concat", (X, X), {"axis": (0,)}),
    ("concat.C2", "concat", (X, (2, 3)), {"axis": 0}),
    ("concat.C3", "concat", (X, (2, 4, 4)), {"axis": 0}),
    ("concat.C3", "concat", ((2, n), (2, m)), {"axis": 0}),
    ("axis.C1", "concat", (X, X), {"axis": 3}),
    ("axis.C1", "concat", ((), ()), {"axis": 0}),
    ("dtype.C2", "concat", (X, (X, "float64")), {"axis": 0}),
    ("strided_slice.C1", "strided_slice", (X,), {"axes": 0, "begin": (0,), "end": (1,)}),
    ("strided_slice.C2", "strided_slice", (X,), {"axes": (0,), "begin": (0, 1), "end": (1,)}),
    ("strided_slice.C2", "strided_slice", (X,), {"axes": (0,), "begin": (0,), "end": (None,)}),
    ("strided_slice.C2", "strided_slice", (X,), {"axes": (0,), "begin": (0,), "end": (1,), "strides": (1, 1)}),
    ("strided_slice.C3", "strided_slice", (X,), {"axes": (0,), "begin": (0,), "end": (1,), "strides": (0,)}),
    ("axis.C1", "strided_slice", (X,), {"axes": (3,), "begin": (0,), "end": (1,)}),
    ("axis.C2", "strided_slice", (X,), {"axes": (0, 0), "begin": (0, 0), "end": (1, 1)}),
    ("split.C1", "split", (X,), {"sections": (2,), "axis": "0"}),
    ("split.C2", "split", (X,), {"sections": 2}),
    ("split.C2", "split", (X,), {"sections": ()}),
    ("split.C2", "split", (X,), {"sections": (3, -1)}),
    ("split.C3", "split", (X,), {"sections": (1, 2)}),
    ("split.C3", "split", ((n, 2),), {"sections": (1, 2)}),
    ("axis.C1", "split", (X,), {"sections": (2,), "axis": 3}),
    ("take.C1", "take", (X, ((2,), "int64")), {"axis": None}),
    ("take.C3", "take", (X, ((2,), "int64")), {"either": ((0,),)}),
    ("take.C2", "take", (X, ((2,), "int64")), {"near": 2.0}),
    ("axis.C1", "take", (X, ((2,), "int64")), {"axis": 3}),
    ("dtype.C3", "take", (X, (2,)), {"axis": 0}),
    ("nn.pad.C1", "nn.pad", ((2, 3),), {"pad_width": (1, 1)}),
    ("nn.pad.C1", "nn.pad", ((2, 3),), {"pad_width": [0, 0, 1, 1]}),
    ("nn.pad.C2", "nn.pad", ((2, 3),), {"pad_width": (0, 0, 1, 1), "mode": "wrap"}),
    ("nn.pad.C3", "nn.pad", (((2, 3), "int8"),), {"pad_width": (0, 0, 1, 1), "pad_value": 128}),
    ("nn.pad.C3", "nn.pad", (((2, 3), "int8"),), {"pad_width": (0, 0, 1, 1), "pad_value": 0.5}),
    ("nn.pad.C3", "nn.pad", ((2, 3),), {"pad_width": (0, 0, 1, 1), "pad_value": "0"}),
    ("nn.pad.C4", "nn.pad", ((2, 3),), {"pad_width": (-3, 0, 2, 0)}),
    ("nn.pad.C5", "nn.pad", ((2, 3),), {"pad_width": (0, 3, 0, 0), "mode": "reflect"}),
    ("nn.pad.C5", "nn.pad", ((2, 3),), {"pad_width": (0, -1, 0, 2), "mode": "reflect"}),
    ("nn.pad.C5", "nn.pad", ((0, 3),), {"pad_width": (1, 0, 0, 0), "mode": "edge"}),
    ("broadcast_to.C1", "broadcast_to", (X,), {"shape": (2, 3, -1)}),
    ("broadcast_to.C2", "broadcast_to", (X,), {"shape": (3, 4)}),
    ("broadcast_to.C3", "broadcast_to", (X,), {"shape": (2, 3, 8)}),
    ("broadcast_to.C3", "broadcast_to", ((n,),), {"shape": (m,)}),
    ("full.C1", "full", (), {"shape": 2, "fill_value": 0}),
    ("full.C1", "full", (), {"shape": (True,), "fill_value": 0}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": None}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": -1, "dtype": "uint8"}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": float("nan"), "dtype": "int32"}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": float("inf"), "dtype": "int32"}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": 2, "dtype": "bool"}),
    ("full.C2", "full", (), {"shape": (2,), "fill_value": 10**400}),
    ("dtype.C1", "full", (), {"shape": (2,), "fill_value": 0, "dtype": "float31"}),
]
for _name in ("sum", "mean", "prod", "max", "min"):
    INVALID += [
        (f"{_name}.C1", _name, (X,), {"axis": 1}),
        (f"{_name}.C1", _name, (X,), {"axis": (True,)}),
        (f"{_name}.C2", _name, (X,), {"keepdims": 1}),
        ("axis.C1", _name, (X,), {"axis": (3,)}),
        ("axis.C2", _name, (X,), {"axis": (2, -1)}),
    ]
INVALID += [
    ("max.C3", "max", ((2, 0, 3),), {}),
    ("min.C3", "min", ((2, 0, 3),), {"axis": (-2,)}),
    ("dtype.C3", "sum", (((2, 3), "bool"),), {}),
    ("dtype.C3", "prod", (((2, 3), "bool"),), {}),
    ("dtype.C3", "mean", (((2, 3), "int32"),), {}),
]
for _rank in (1, 2, 3):
    for _kind in ("max", "avg"):
        _pool, _x = f"nn.{_kind}_pool{_rank}d", (2, 3, *(6, 7, 8)[:_rank])
        _one, _two = {"pool_size": (1,) * _rank}, {"pool_size": (2,) * _rank}
        INVALID += [
            (f"{_pool}.C1", _pool, (_x[1:],), _two),
            (f"{_pool}.C2", _pool, (_x,), {"pool_size": 2}),
            (f"{_pool}.C2", _pool, (_x,), {"pool_size": (2,) * (_rank + 1)}),
            (f"{_pool}.C2", _pool, (_x,), {**_two, "strides": (0,) * _rank}),
            (f"{_pool}.C2", _pool, (_x,), {**_two, "dilation": [1] * _rank}),
            (f"{_pool}.C3", _pool, (_x,), {**_two, "padding": (1,) * (2 * _rank - 1)}),
            (f"{_pool}.C3", _pool, (_x,), {**_two, "padding": (-1,) * (2 * _rank)}),
            (f"{_pool}.C4", _pool, (_x,), {**_two, "ceil_mode": 0}),
            (f"{_pool}.C5", _pool, (_x,), {**_two, "padding": (2,) * (2 * _rank)}),
            (f"{_pool}.C5", _pool, (_x,), {**_one, "padding": (0,) * (2 * _rank - 1) + (1,)}),
            (f"{_pool}.C6", _pool, (_x,), {"pool_size": (9,) * _rank}),
            (f"{_pool}.C6", _pool, ((2, 3) + (0,) * _rank,), {**_two, "padding": (1,) * (2 * _rank)}),
            (
                f"{_pool}.C7",
                _pool,
                ((2, 3) + (1,) * _rank,),
                {**_two, "dilation": (2,) * _rank, "padding": (1,) * (2 * _rank)},
            ),
            ("dtype.C3", _pool, ((_x, "bool"),), _two),
        ]
    INVALID += [
        (f"nn.avg_pool{_rank}d.C4", f"nn.avg_pool{_rank}d", (_x,), {**_two, "count_include_pad": None}),
        ("dtype.C3", f"nn.avg_pool{_rank}d", ((_x, "int8"),), _two),
    ]


@pytest.mark.parametrize(("label", "name", "operands", "attrs"), INVALID, ids=ids)
def test_broken_constraints_are_named(
    label: str, name: str, operands: tuple[Any, ...], attrs: Mapping[str, Any]
) -> None:
    with pytest.raises(Invalid) as caught:
        typed(name, *operands, **attrs)
    assert caught.value.label == label
    # a message names the operator and is a sentence about this use
    assert label == "dtype.C1" or name in caught.value.message
    assert len(caught.value.message) > len(name) + 10


def test_every_label_has_a_negative_test() -> None:
    declared = {f"{op.name}.{c}" for op in OPS for c in op.constraints}
    shared = {"axis.C1", "axis.C2", "dtype.C1", "dtype.C2", "dtype.C3"}
    assert {label for label, *_ in INVALID} == declared | shared


@pytest.mark.parametrize("op", OPS, ids=ids)
def test_an_undeclared_label_is_a_fault(op: Operator) -> None:
    with pytest.raises(KeyError):
        op.require(True, "C99", "")


# --- symbolic dims ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: typed("sum", (n, 3, m), axis=(1,)), (n, m)),
        (lambda: typed("max", (n, 3, m), axis=(0, -1), keepdims=True), (1, 3, 1)),
        (lambda: typed("concat", (n, 3), (m, 3), (2, 3)), (n + m + 2, 3)),
        (lambda: typed("concat", (n + m, 3), (m + n, 4), axis=1), (m + n, 7)),
        (lambda: typed("reshape", (n, 3, m), shape=(m, n * 3)), (m, 3 * n)),
        (lambda: typed("reshape", (n + 1, 2 * m), shape=(m, n * 2 + 2)), (m, 2 * n + 2)),
        (lambda: typed("reshape", (n, 3, 4), shape=(-1, 6)), (n * 2, 6)),
        (lambda: typed("reshape", (n, m, 12), shape=(m, -1, 4)), (m, n * 3, 4)),
        (lambda: typed("reshape", (n, 3, 4), shape=(n, -1)), (n, 12)),
        (lambda: typed("reshape", (2 * n + 4, 3), shape=(2, -1)), (2, 3 * n + 6)),
        (lambda: typed("squeeze", (n, 1, m), axis=(-2,)), (n, m)),
        (lambda: typed("expand_dims", (n,), axis=(0, -1)), (1, n, 1)),
        (lambda: typed("permute_dims", (n, m, 3), axes=(2, 0, 1)), (3, n, m)),
        (lambda: typed("take", (n, 3), ((m, 2), "int64")), (m, 2, 3)),
        (lambda: typed("broadcast_to", (1, n), shape=(m, n)), (m, n)),
        (lambda: typed("nn.pad", (n, 3), pad_width=(1, 0, 2, -1)), (n + 3, 2)),
        (lambda: typed("full", shape=(n, 2), fill_value=0), (n, 2)),
        (lambda: typed("strided_slice", (n,), axes=(0,), begin=(0,), end=(2**63 - 1,)), (n,)),
        (lambda: typed("strided_slice", (n,), axes=(0,), begin=(0,), end=(2**31 - 1,)), (n,)),
        (lambda: typed("strided_slice", (n,), axes=(0,), begin=(-1,), end=(-(2**63),), strides=(-1,)), (n,)),
        (lambda: typed("strided_slice", (2 * n,), axes=(0,), begin=(1,), end=(2**63 - 1,), strides=(2,)), None),
        (lambda: typed("strided_slice", (n + 3,), axes=(0,), begin=(1,), end=(-1,)), (n + 1,)),
        (lambda: typed("strided_slice", (n + 3,), axes=(0,), begin=(1,), end=(3,)), (2,)),
        (lambda: typed("strided_slice", (n + m,), axes=(0,), begin=(0,), end=(n,)), (n,)),
        (lambda: typed("strided_slice", (n + m,), axes=(0,), begin=(n,), end=(n + m,)), (m,)),
        (lambda: typed("strided_slice", (n,), axes=(0,), begin=(0,), end=(2,)), (apply("min", 2, n),)),
        (lambda: typed("nn.max_pool1d", (n, 3, 2 * m), pool_size=(2,), strides=(2,)), (n, 3, m)),
        (lambda: typed("nn.max_pool1d", (n, 3, m), pool_size=(3,), padding=(1, 1)), (n, 3, m)),
        (lambda: typed("nn.max_pool1d", (1, 3, m), pool_size=(3,), strides=(2,)), (1, 3, (m + 1) // 2 - 1)),
        (
            lambda: typed("nn.avg_pool1d", (1, 3, m), pool_size=(2,), strides=(2,), ceil_mode=True),
            (1, 3, (m + 1) // 2),
        ),
    ],
)
def test_types_with_symbols(found: Any, wanted: tuple[Dim, ...] | None) -> None:
    got = found()
    if wanted is not None:
        assert len(got.shape) == len(wanted)
        assert all(provably_equal(a, b) for a, b in zip(got.shape, wanted, strict=True)), got
    else:
        assert all(evaluate_dim(got.shape[0], {n: v}) == v for v in range(5))


def test_split_with_symbols() -> None:
    parts = flatten(typed("split", (n + m, 3), sections=(m, n)))
    assert [[show(d) for d in p.shape] for p in parts] == [["m", "3"], ["n", "3"]]


@given(st.data())
def test_symbolic_types_agree_with_numbers(data: st.DataObject) -> None:
    """Equal dims of an example become one symbol: the symbolic type, at those sizes, is the type of the numbers."""
    op, example = data.draw(st.sampled_from(EXAMPLES))
    chosen = data.draw(st.sets(st.sampled_from(sorted({d for s, _ in example.operands for d in s} or {0}))))
    symbols: dict[int, Dim] = {d: Var(f"d{d}") for d in chosen if d > 1}
    types = tuple(TensorType(tuple(symbols.get(d, d) for d in s), dtype(of)) for s, of in example.operands)
    attrs = op.check_attrs(example.attrs)
    plain = op.type_rule(attrs, tuple(TensorType(s, dtype(of)) for s, of in example.operands))
    try:
        symbolic = op.type_rule(attrs, types)
    except Invalid as wrong:
        # only where a relation between sizes must be shown, and numbers in attributes cannot show it
        assume(wrong.label not in ("reshape.C2", "reshape.C3", "split.C3", "broadcast_to.C3", "concat.C3"))
        raise
    env = {v: d for d, v in symbols.items() if isinstance(v, Var)}
    for a, b in zip(flatten(symbolic), flatten(plain), strict=True):
        assert tuple(evaluate_dim(d, env) for d in a.shape) == b.shape


# --- sizes --------------------------------------------------------------------------------------------------------

SYMBOLS = (n, m, k)


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Dim:
    """Expressions over symbols as type rules build them."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(SYMBOLS) | st.integers(-4, 4))
    a, b = draw(dims(depth - 1)), draw(dims(depth - 1))
    op = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "min", "max", "select"]))
    if op in ("floordiv", "floormod"):
        b = draw(st.integers(1, 4))
    if op == "select":
        return select(apply("lt", a, b), a, b)
    return apply(op, a, b)


ENVS = st.tuples(*[st.integers(0, 5)] * 3).map(lambda v: dict(zip(SYMBOLS, v, strict=True)))


@given(dims(), dims(), ENVS)
def test_larger_smaller_and_signs(a: Dim, b: Dim, env: dict[Var, int]) -> None:
    x, y = evaluate_dim(a, env), evaluate_dim(b, env)
    assert evaluate_dim(larger(a, b), env) == max(x, y)
    assert evaluate_dim(smaller(a, b), env) == min(x, y)
    assert not never_negative(a) or x >= 0


@pytest.mark.parametrize(
    ("dim", "shown"),
    [
        (n * m + 3, True),
        ((n + 3) // 2, True),
        (n - 1, False),
        (apply("max", n - 1, 0), True),
        (apply("max", n - 5, 0) + n, True),
        (n - (n + 1) % 2, False),
        (n * 3 - n, True),
        (apply("floormod", n - 7, 3), True),
        (apply("floormod", n, -3), False),
        (select(n < 3, n, m), True),
        (-1, False),
    ],
)
def test_signs_that_are_shown(dim: Dim, shown: bool) -> None:
    assert never_negative(dim) is shown


@given(dims(), st.integers(1, 5), ENVS)
def test_quotients(a: Dim, by: int, env: dict[Var, int]) -> None:
    x = evaluate_dim(a, env)
    assert evaluate_dim(floor_div(a, by), env) == x // by
    assert evaluate_dim(ceil_div(a, by), env) == -(-x // by)


def test_quotients_are_canonical() -> None:
    assert show(floor_div(4 * n + 2 * m + 3, 2)) == show(m + n * 2 + 1)
    assert provably_equal(floor_div(n + m, 2), floor_div(m + n, 2))
    assert provably_equal(floor_div(n + 4, 2), floor_div(n, 2) + 2)


@given(
    dims(depth=1).filter(never_negative),
    st.sampled_from([0, 1, 2, 5, -1, -2, -7, 2**31 - 1, 2**63 - 1, -(2**63), n, m, n + 1]),
    st.sampled_from([0, 1, 3, -1, -3, 2**31 - 1, 2**63 - 1, -(2**31), -(2**63), n, m + 2, n - 2]),
    st.sampled_from([1, 2, 3, -1, -2, -5]),
    ENVS,
)
def test_slice_lengths(size: Dim, begin: Dim, end: Dim, stride: int, env: dict[Var, int]) -> None:
    length = slice_length(size, begin, end, stride)
    whole = np.arange(evaluate_dim(size, env))
    assert evaluate_dim(length, env) == len(whole[evaluate_dim(begin, env) : evaluate_dim(end, env) : stride])


@given(st.lists(dims(depth=1), max_size=3), st.lists(dims(depth=1), max_size=3), ENVS)
def test_same_size_is_sound(a: list[Dim], b: list[Dim], env: dict[Var, int]) -> None:
    if same_size(a, b):
        assert math.prod(evaluate_dim(d, env) for d in a) == math.prod(evaluate_dim(d, env) for d in b)
    assert same_size([*a, *b], [*b, *a])


def test_a_dim_that_is_a_product_cancels_factor_by_factor() -> None:
    """Rows and columns of an image that were one axis; numbers among them."""
    n, m = Var("n"), Var("m")
    rows, columns = (n + 3) // 4, (m + 3) // 4
    for shape, known, wanted in (
        ([2, rows * columns, 8], [2, rows, columns], 8), ([rows * columns * 8], [columns, 4], rows * 2),
        ([n * m * 3], [m, n], 3), ([n * n], [n], n), ([n * 6], [n, 4], None), ([n, m], [rows], None),
    ):  # fmt: skip
        found = missing_dim(shape, known)
        assert (found is None) == (wanted is None)
        assert wanted is None or found is not None and provably_equal(found, wanted)


@given(st.permutations([n, m, 2, 3, 4]), st.sets(st.integers(0, 4), max_size=3), ENVS)
def test_the_missing_dim(shape: list[Dim], known: set[int], env: dict[Var, int]) -> None:
    """What is missing from dims of the shape itself can be told, even where one of them is 0 at run time."""
    rest = [shape[i] for i in known]
    missing = missing_dim(shape, rest)
    assert missing is not None
    numbers = [evaluate_dim(d, env) for d in shape]
    assert missing_dim(numbers, [numbers[i] for i in known]) == evaluate_dim(missing, env)
    assert evaluate_dim(missing, env) == np.prod([numbers[i] for i in range(5) if i not in known], dtype=int)


def test_a_size_that_cannot_be_told() -> None:
    assert missing_dim((n, 3), (2,)) is None
    assert missing_dim((n,), (m,)) is None
    assert missing_dim((2, 3), (0,)) is None
    assert missing_dim((0, 3), (0,)) == 3


def test_expressions_are_int64() -> None:
    """A size of another dtype is refused, not converted."""
    with pytest.raises(Invalid, match=r"broadcast_to\.C1"):
        typed("broadcast_to", (1,), shape=(Var("i", dtype("int32")),))
    assert isinstance(n + 1, Expr)
