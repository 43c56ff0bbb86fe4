"""Walks over graphs: types, errors and operators."""

from __future__ import annotations

import numpy as np
import pytest

from assay.semantics import dtypes, operator as operator_module
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, dtype, size_in_bytes
from assay.semantics.errors import AssayError, Crash, Invalid, Span, Trap, Unsupported
from assay.semantics.graph import (
    dims_at,
)
from assay.semantics.ops import OPERATORS
from assay.semantics.types import (
    FuncType,
    TupleType,
    flatten,
    same_type,
    symbols,
    with_dims,
)
from tests.semantics.test_walk_graph import m, n, tensor_type

# --- types --------------------------------------------------------------------------------------------------------


def test_same_type() -> None:
    a, b = tensor_type(n, n + m), tensor_type(n, m + n)
    assert same_type(a, b)
    assert not same_type(a, tensor_type(n, m))
    assert not same_type(tensor_type(2), tensor_type(2, of="float64"))
    assert not same_type(tensor_type(2), tensor_type(2, 1))
    assert same_type(TupleType((a, b)), TupleType((b, a)))
    assert not same_type(TupleType((a,)), TupleType((a, a)))
    assert not same_type(TupleType((a,)), a)
    assert same_type(FuncType((a,), b), FuncType((b,), a))
    assert not same_type(FuncType((a,), a), TupleType((a, a)))
    assert not same_type(FuncType((a,), a), FuncType((), a))
    assert not same_type(FuncType((a,), a), FuncType((a,), tensor_type(n)))


def test_parts_of_types() -> None:
    t = TupleType((tensor_type(n, m), TupleType((tensor_type(m),)), tensor_type(2)))
    assert [str(f) for f in flatten(t)] == [
        "Tensor((n, m), float32)", "Tensor((m), float32)", "Tensor((2), float32)"
    ]  # fmt: skip
    assert symbols(t) == (n, m)
    doubled = with_dims(t, lambda d: d * 2)
    assert (
        str(doubled)
        == "Tuple(Tensor(((n * 2), (m * 2)), float32), Tuple(Tensor(((m * 2)), float32)), Tensor((4), float32))"
    )
    assert (
        str(dims_at(t, {n: 3, m: 0}))
        == "Tuple(Tensor((3, 0), float32), Tuple(Tensor((0), float32)), Tensor((2), float32))"
    )
    assert str(FuncType((), TupleType(()))) == "Callable((), Tuple())"


@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_sizes_in_bytes(of: dtypes.DType) -> None:
    assert size_in_bytes((2, 3), of) == np.zeros((2, 3), of.numpy).nbytes
    assert size_in_bytes((), of) == of.itemsize and size_in_bytes((4, 0), of) == 0
    assert tensor_type(5, of=of.name).nbytes == 5 * of.itemsize
    assert dtype(of.name) is dtype(of.numpy) is dtype(of) is of
    assert str(of) == of.name


def test_what_dtypes_say_about_their_numbers() -> None:
    assert (BOOL.min, BOOL.max) == (False, True)
    assert [(dtype(t).min, dtype(t).max) for t in ("int4", "uint4", "int8", "uint64")] == [
        (-8, 7), (0, 15), (-128, 127), (0, 2**64 - 1)
    ]  # fmt: skip
    assert dtype("float16").max == 65504 and dtype("float8_e4m3fn").max == 448
    assert FLOAT32.unit_roundoff == 2.0**-24 and dtype("bfloat16").unit_roundoff == 2.0**-8
    assert FLOAT32.smallest_normal == 2.0**-126 and FLOAT32.smallest_subnormal == 2.0**-149
    assert INT32.is_integer and not INT32.is_float and not BOOL.is_integer


# --- errors -------------------------------------------------------------------------------------------------------


def test_the_three_failures_never_mix() -> None:
    kinds = (Invalid, Trap, Crash)
    assert all(issubclass(k, AssayError) for k in kinds)
    assert not any(issubclass(a, b) for a in kinds for b in kinds if a is not b)
    assert issubclass(Unsupported, Invalid)


def test_how_failures_read() -> None:
    assert str(Invalid("wrong", where="here", label="x.C1")) == "here: wrong [x.C1]"
    assert str(Trap("cast", "wrong", label="x.T1")) == "trap (cast): wrong [x.T1]"
    assert str(Span("f.py", line=3, column=4)) == "f.py:3:4" and str(Span("f", "node")) == "f (node)"
    e = Invalid("wrong")
    assert e.at("here") is e and e.where == "here"
    assert e.at("there").where == "here"  # the innermost place stays
    assert Crash("wrong").at(None).where is None


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPERATORS.values(), ids=lambda op: op.name)
def test_operators_check_what_they_are_given(op: operator_module.Operator) -> None:
    """Counts and attributes, before any type rule looks at them."""
    least = sum(not o.endswith("?") for o in op.operands)
    op.check_operands(least)
    op.check_operands(len(op.operands))
    for count in (least - 1, len(op.operands) + 1):
        if count > len(op.operands) and op.operands and op.operands[-1].startswith("*"):
            op.check_operands(count)
        elif count >= 0:
            with pytest.raises(Invalid, match="call.C1"):
                op.check_operands(count)
    with pytest.raises(Invalid, match="call.C2"):
        op.check_attrs({"no_such_attribute": 1})
