"""Relax operators: elementwise, creation and reduction (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from assay.semantics import dtypes
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, Constant, Expr, ShapeOf
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.text.relax.build import (
    MISSING,
    Build,
    Number,
    RelaxCall,
    Row,
    Shape,
    as_list,
    direct,
    make_row,
    same_number,
    same_relax_call,
)
from assay.semantics.types import TensorType

SAME = [op for op in OPERATORS.values() if op.relax]
"""Our operators that Relax has."""

# --- arithmetic ---------------------------------------------------------------------------------------------------


def _divide(b: Build, x: Expr, y: Expr) -> Expr:
    return b.call("truncate_divide" if b.tensor(x).dtype.is_integer else "divide", x, y)


def _floor_divide(b: Build, x: Expr, y: Expr) -> Expr:
    if b.tensor(x).dtype.is_float:
        return b.call("floor", b.call("divide", x, y))
    return b.call("floor_divide", x, y)


def _remainder(quotient: str) -> Callable[[Build, Expr, Expr], Expr]:
    def make(b: Build, x: Expr, y: Expr) -> Expr:
        if b.tensor(x).dtype.is_float:
            raise b.unsupported("floating-point operands")
        return b.call("subtract", x, b.call("multiply", b.call(quotient, x, y), y))

    return make


def _sign(b: Build, x: Expr) -> Expr:
    zero = b.like(x, 0)
    below = b.call("where", b.call("less", x, zero), b.like(x, -1), zero)
    return b.call("where", b.call("greater", x, zero), b.like(x, 1), below)


def _trunc(b: Build, x: Expr) -> Expr:
    return b.call("where", b.call("less", x, b.like(x, 0)), b.call("ceil", x), b.call("floor", x))


def _clip(b: Build, x: Expr, min: Any, max: Any) -> Expr:
    b.tensor(x)
    return b.call("clip", x, min=b.number(min), max=b.number(max))


def _astype(b: Build, x: Expr, dtype: Any) -> Expr:
    return b.call("astype", x, dtype=str(dtype))


def _softplus(b: Build, x: Expr, beta: float, threshold: float) -> Expr:
    scaled = b.call("multiply", x, b.like(x, beta))
    grown = b.call("log", b.call("add", b.like(x, 1.0), b.call("exp", scaled)))
    soft = b.call("divide", grown, b.like(x, beta))
    return b.call("where", b.call("greater", scaled, b.like(x, threshold)), x, soft)


def _selu(b: Build, x: Expr) -> Expr:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    low = b.call("multiply", b.call("subtract", b.call("exp", x), b.like(x, 1.0)), b.like(x, alpha))
    both = b.call("where", b.call("greater", x, b.like(x, 0.0)), x, low)
    return b.call("multiply", both, b.like(x, scale))


def _prelu(b: Build, x: Expr, alpha: Expr, axis: int) -> Expr:
    t = b.tensor(x)
    sizes = tuple(-1 if a == axis % t.ndim else 1 for a in range(t.ndim))
    slope = alpha if b.tensor(alpha).ndim == 0 else b.call("reshape", alpha, shape=sizes)
    return b.call("where", b.call("greater", x, b.like(x, 0)), x, b.call("multiply", x, slope))


def _dropout(b: Build, x: Expr, rate: float) -> Expr:
    t = b.tensor(x)
    return b.tuple_of(x, b.call("full", shape=t.shape, fill_value=1.0, dtype=t.dtype.name))


# --- creation -----------------------------------------------------------------------------------------------------


def _filled(b: Build, shape: Any, value: Any, dtype: Any) -> Expr:
    dims = b.shape(shape)
    if isinstance(value, Expr) and not (isinstance(value, Constant) and value.data.ndim == 0):
        x = value if dtype in (None, b.tensor(value).dtype.name) else b.call("astype", value, dtype=str(dtype))
        return b.call("broadcast_to", x, shape=dims)
    if dtype is None:
        dtype = dtypes.dtype(value.data.dtype).name if isinstance(value, Constant) else "float32"
    to = dtypes.dtype(str(dtype))
    number = b.number(value)
    if not to.is_float:
        number = bool(number) if to.kind == "bool" else int(number)
    return b.call("full", shape=dims, fill_value=number, dtype=to.name)


def _uniform(value: int) -> Callable[..., Expr]:
    def make(b: Build, shape: Any, dtype: Any) -> Expr:
        return _filled(b, shape, value if dtype is not None and not str(dtype).startswith("f") else float(value), dtype)

    return make


def _full_like(b: Build, x: Expr, fill_value: Any, dtype: Any) -> Expr:
    t = b.tensor(x)
    return _filled(b, t.shape, fill_value, dtype or t.dtype.name)


def _uniform_like(value: int) -> Callable[..., Expr]:
    return lambda b, x, dtype: _uniform(value)(b, b.tensor(x).shape, dtype or b.tensor(x).dtype.name)


def _arange(b: Build, start: Any, end: Any, step: Any, dtype: Any) -> Expr:
    from_, to, by = b.number(start), b.number(end) if end is not None else None, b.number(step)
    if to is None:
        from_, to = 0, from_
    return b.constant(
        np.arange(from_, to, by), dtypes.dtype(str(dtype or ("int64" if isinstance(from_, int) else "float32")))
    )


def _eye(b: Build, n: Any, m: Any, k: Any, dtype: Any) -> Expr:
    rows = b.number(n)
    return b.constant(np.eye(rows, rows if m is None else b.number(m), b.number(k)), dtypes.dtype(str(dtype)))


def _shape_to_tensor(b: Build, value: Any) -> Expr:
    if isinstance(value, ShapeOf):
        return b.call("shape_of", value.value)
    dims = b.shape(value)
    if all(isinstance(d, int) for d in dims):
        return b.constant(np.array(dims, np.int64), INT64)
    # a scalar repeated to that shape is never written out; it has the sizes
    zero = b.constant(0, dtypes.dtype("bool"))
    return b.call("shape_of", b.call("broadcast_to", zero, shape=dims))


# --- reduction ----------------------------------------------------------------------------------------------------


def _reduction(op: str) -> Row:
    def make(b: Build, x: Expr, axis: Any, keepdims: bool) -> Expr:
        return b.call(op, x, axis=b.axes(axis), keepdims=bool(keepdims))

    return make_row("x", make, axis=None, keepdims=False)


def deviation(b: Build, x: Expr, axis: tuple[int, ...] | None, keepdims: bool = True) -> tuple[Expr, Expr]:
    """`x` less its mean along some axes, and the variance there, in which the axes may stay."""
    centred = b.call("subtract", x, b.call("mean", x, axis=axis, keepdims=True))
    return centred, b.call("mean", b.call("multiply", centred, centred), axis=axis, keepdims=keepdims)


def _variance(b: Build, x: Expr, axis: Any, keepdims: bool) -> Expr:
    return deviation(b, x, b.axes(axis), bool(keepdims))[1]


def _std(b: Build, x: Expr, axis: Any, keepdims: bool) -> Expr:
    return b.call("sqrt", _variance(b, x, axis, keepdims))


def _argument(extreme: str) -> Callable[..., Expr]:
    def make(b: Build, x: Expr, axis: int | None, keepdims: bool) -> Expr:
        t = b.tensor(x)
        if axis is None:
            if keepdims:
                raise b.unsupported("keepdims over all axes")
            x = b.call("reshape", x, shape=(-1,))
            t, axis = b.tensor(x), 0
        axis %= t.ndim
        size = t.shape[axis]
        if not isinstance(size, int):
            raise b.unsupported(f"an axis of unknown size, {size}")
        places = np.arange(size).reshape(tuple(-1 if a == axis else 1 for a in range(t.ndim)))
        best = b.call(extreme, x, axis=(axis,), keepdims=True)
        hits = b.call("where", b.call("equal", x, best), b.constant(places, INT64), b.constant(size, INT64))
        return b.call("min", hits, axis=(axis,), keepdims=keepdims)

    return make


def _names(op: Operator) -> str:
    """What Relax calls the operands."""
    return "x1 x2" if len(op.operands) == 2 else "data" if op.relax.startswith("nn.") else "x"


# --- the table ----------------------------------------------------------------------------------------------------

ROWS: dict[str, Row] = {
    **{op.relax: direct(_names(op), op.name) for op in SAME},
    **{name: direct("data", name) for name in ("nn.gelu", "nn.gelu_tanh")},
    "nn.leakyrelu": direct("data", "nn.leakyrelu", alpha=0.01),
    "nn.relu6": make_row("data", lambda b, x: b.call("clip", x, min=0, max=6)),
    "nn.silu": make_row("data", lambda b, x: b.call("multiply", x, b.call("sigmoid", x))),
    "nn.softplus": make_row("data", _softplus, beta=1.0, threshold=20.0),
    "nn.selu": make_row("data", _selu),
    "nn.prelu": make_row("data alpha", _prelu, axis=1),
    "nn.dropout": make_row("data", _dropout, rate=0.5),
    "where": direct("condition x1 x2", "where"),
    "divide": make_row("x1 x2", _divide),
    "floor_divide": make_row("x1 x2", _floor_divide),
    "floor_mod": make_row("x1 x2", _remainder("floor_divide")),
    "mod": make_row("x1 x2", _remainder("truncate_divide")),
    "rsqrt": make_row("x", lambda b, x: b.call("divide", b.like(x, 1.0), b.call("sqrt", x))),
    "square": make_row("x", lambda b, x: b.call("multiply", x, x)),
    "sign": make_row("x", _sign),
    "isnan": make_row("x", lambda b, x: b.call("not_equal", x, x)),
    "isinf": make_row("x", lambda b, x: b.call("equal", b.call("abs", x), b.like(x, inf))),
    "isfinite": make_row("x", lambda b, x: b.call("less", b.call("abs", x), b.like(x, inf))),
    "trunc": make_row("x", _trunc),
    "ewise_fma": make_row("x1 x2 x3", lambda b, x, y, z: b.call("add", b.call("multiply", x, y), z)),
    "clip": make_row("x min max", _clip),
    "astype": make_row("x", _astype, dtype=MISSING),
    "wrap_param": make_row("data", _astype, dtype="float32"),
    "stop_lift_params": make_row("x", lambda b, x: x),
    "memory.ensure_zero_offset": make_row("data", lambda b, x: x),
    "full": make_row("shape fill_value", _filled, dtype=None),
    "zeros": make_row("shape", _uniform(0), dtype="float32"),
    "ones": make_row("shape", _uniform(1), dtype="float32"),
    "zeros_like": make_row("x", _uniform_like(0), dtype=None),
    "ones_like": make_row("x", _uniform_like(1), dtype=None),
    "full_like": make_row("x fill_value", _full_like, dtype=None),
    "arange": make_row({"start": MISSING, "end": None, "step": 1}, _arange, dtype=None),
    "eye": make_row({"n": MISSING, "m": None, "k": 0}, _eye, dtype="float32"),
    "shape_to_tensor": make_row("expr", _shape_to_tensor),
    **{name: _reduction(name) for name in ("sum", "mean", "prod", "max", "min")},
    "variance": make_row("x", _variance, axis=None, keepdims=False),
    "std": make_row("x", _std, axis=None, keepdims=False),
    "argmax": make_row("x", _argument("max"), axis=None, keepdims=False),
    "argmin": make_row("x", _argument("min"), axis=None, keepdims=False),
}  # fmt: skip


def _write_divide(node: Call) -> RelaxCall | None:
    of = node.args[0].type
    return RelaxCall("divide", node.args) if isinstance(of, TensorType) and of.dtype.is_float else None


def _write_without(mark: str, name: str) -> Callable[[Call], RelaxCall | None]:
    """Relax has no name for an element that is open, nor for a function that may be computed by a formula."""

    def write(node: Call) -> RelaxCall | None:
        if node.attrs.get(mark):
            return None
        return RelaxCall(name, node.args, {k: v for k, v in node.attrs.items() if k != mark})

    return write


def _write_clip(node: Call) -> RelaxCall | None:
    low, high = node.attrs["min"], node.attrs["max"]
    if not all(type(v) in (int, float) and abs(v) != inf for v in (low, high)):
        return None
    return RelaxCall("clip", (*node.args, low, high))


def _write_full(node: Call) -> RelaxCall | None:
    value, of = node.attrs["fill_value"], dtypes.dtype(node.attrs["dtype"])
    try:
        with np.errstate(all="ignore"):
            there = np.asarray(value).astype(of.numpy)
    except (OverflowError, ValueError):
        return None
    back = bool(there) if of.kind == "bool" else int(there) if of.is_integer else float(there)
    if not same_number(back, value) or value != value:
        return None
    return RelaxCall("full", (Shape(node.attrs["shape"]), Number(value, of.name)), {"dtype": of.name})


def _write_reduction(node: Call) -> RelaxCall | None:
    assert not isinstance(node.op, Expr)
    axis = node.attrs["axis"]
    if axis == ():
        return None
    return RelaxCall(node.op.name, node.args, {"axis": as_list(axis), "keepdims": node.attrs["keepdims"]})


WRITERS: dict[str, Callable[[Call], RelaxCall | None]] = {
    **{op.name: same_relax_call(op.relax) for op in SAME},
    **{name: same_relax_call(name) for name in ("nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "where")},
    "divide": _write_divide,
    "truncate_divide": _write_without("open", "divide"),
    "floor_divide": _write_without("open", "floor_divide"),
    "astype": _write_without("open", "astype"),
    "tanh": _write_without("formula", "tanh"),
    "clip": _write_clip,
    "full": _write_full,
    **{name: _write_reduction for name in ("sum", "mean", "prod", "max", "min")},
}
