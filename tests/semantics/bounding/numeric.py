"""What the tests of elementwise operators, contractions and normalisations share: each operator as a plain formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.semantics.dtypes import FLOAT32, DType, dtype
from assay.semantics.operator import Attrs
from assay.semantics.ops import OPERATORS, contraction, elementwise, normalization
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
F32 = np.float32
INF, NAN = math.inf, math.nan
TABLE = (*elementwise.TABLE, *contraction.TABLE, *normalization.TABLE)


def tensor(shape: Sequence[Dim], of: DType | str = FLOAT32) -> TensorType:
    return TensorType(tuple(shape), dtype(of))


def type_of(name: str, *types: TensorType, **attrs: Any) -> TensorType:
    op = OPERATORS[name]
    op.check_operands(len(types))
    result = op.type_rule(op.check_attrs(attrs), types)
    assert isinstance(result, TensorType)
    return result


def run(name: str, *xs: Any, **attrs: Any) -> Any:
    op = OPERATORS[name]
    return op.value(op.check_attrs(attrs), *xs)


# --- plain formulas ------------------------------------------------------------------------------------------------


def each(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python numbers at every index, operands broadcast by hand."""

    def apply(attrs: Attrs, *xs: Array) -> Array:
        shape = tuple(max(d) for d in itertools.zip_longest(*(x.shape[::-1] for x in xs), fillvalue=1))[::-1]
        out = np.empty(shape, object)
        for i in np.ndindex(*shape):
            own = [tuple(0 if d == 1 else j for d, j in zip(x.shape, i[len(i) - x.ndim :], strict=True)) for x in xs]
            out[i] = f(attrs, *(x[o].item() for x, o in zip(xs, own, strict=True)))
        return out

    return apply


def total(f: Callable[..., float]) -> Callable[..., Any]:
    """A formula of floats with NaN where Python raises."""

    def safe(attrs: Attrs, *xs: float) -> float:
        try:
            return f(attrs, *xs)
        except (ValueError, ZeroDivisionError):
            return -INF if f is LOG and xs[0] == 0 else NAN

    return each(safe)


def _log(attrs: Attrs, x: float) -> float:
    return math.log(x)


LOG = _log


def _clip(attrs: Attrs, x: float) -> float:
    x = x if attrs["min"] is None else max(x, attrs["min"])
    return x if attrs["max"] is None else min(x, attrs["max"])


def _matmul(attrs: Attrs, a: Array, b: Array) -> Array:
    left = a[None] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = np.broadcast_to(left, batch + left.shape[-2:]), np.broadcast_to(right, batch + right.shape[-2:])
    out = np.zeros((*batch, left.shape[-2], right.shape[-1]))
    for i in np.ndindex(*out.shape):
        out[i] = sum(left[(*i[:-1], k)].item() * right[(*i[:-2], k, i[-1])].item() for k in range(left.shape[-1]))
    out = out[..., 0, :] if a.ndim == 1 else out
    return out[..., 0] if b.ndim == 1 else out


def _conv(attrs: Attrs, x: Array, w: Array, *bias: Array) -> Array:
    rank = w.ndim - 2
    strides, dilation, padding = attrs["strides"], attrs["dilation"], attrs["padding"]
    plane = [
        (x.shape[2 + k] + padding[k] + padding[k + rank] - dilation[k] * (w.shape[2 + k] - 1) - 1) // strides[k] + 1
        for k in range(rank)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *plane))
    for n, o, *place in np.ndindex(*out.shape):
        group = o // (w.shape[0] // attrs["groups"])
        result = bias[0][o].item() if bias else 0
        for c, *tap in np.ndindex(*w.shape[1:]):
            at = [place[k] * strides[k] + tap[k] * dilation[k] - padding[k] for k in range(rank)]
            if all(0 <= a < s for a, s in zip(at, x.shape[2:], strict=True)):
                result += x[(n, group * w.shape[1] + c, *at)].item() * w[(o, c, *tap)].item()
        out[(n, o, *place)] = result
    return out


def _softmax(log: bool) -> Callable[..., Array]:
    def apply(attrs: Attrs, x: Array) -> Array:
        rows = np.moveaxis(x.astype(float), attrs["axis"], -1)
        out = np.empty(rows.shape)
        for i in np.ndindex(*rows.shape[:-1]):
            e = [math.exp(v) for v in rows[i]]
            out[i] = [math.log(v / math.fsum(e)) if log else v / math.fsum(e) for v in e]
        return np.moveaxis(out, -1, attrs["axis"])

    return apply


def _batch_norm(attrs: Attrs, x: Array, *channel: Array) -> Array:
    out = np.empty(x.shape)
    for i in np.ndindex(*x.shape):
        gamma, beta, mean, var = (v[i[attrs["axis"]]].item() for v in channel)
        out[i] = gamma * (x[i].item() - mean) / math.sqrt(var + attrs["epsilon"]) + beta
    return out


def _layer_norm(attrs: Attrs, x: Array, gamma: Array, *beta: Array) -> Array:
    out = np.empty(x.shape)
    lead = x.ndim - len(attrs["axes"])
    for i in np.ndindex(*x.shape[:lead]):
        row = [v.item() for v in x[i].ravel()]
        mean = math.fsum(row) / len(row)
        var = math.fsum((v - mean) ** 2 for v in row) / len(row)
        y = [(v - mean) / math.sqrt(var + attrs["epsilon"]) * g.item() for v, g in zip(row, gamma.ravel(), strict=True)]
        if beta:
            y = [v + b.item() for v, b in zip(y, beta[0].ravel(), strict=True)]
        out[i] = np.reshape(y, x.shape[lead:])
    return out


def _lrn(attrs: Attrs, x: Array) -> Array:
    out = np.empty(x.shape)
    size = attrs["size"]
    for n, c, *i in np.ndindex(*x.shape):
        first, last = c - math.floor((size - 1) / 2), c + math.ceil((size - 1) / 2)
        s = math.fsum(x[(n, k, *i)].item() ** 2 for k in range(max(0, first), min(x.shape[1] - 1, last) + 1))
        out[(n, c, *i)] = x[(n, c, *i)].item() / (attrs["bias"] + attrs["alpha"] / size * s) ** attrs["beta"]
    return out


FORMULAS: dict[str, Callable[..., Array]] = {
    "negative": each(lambda attrs, x: -x),
    "abs": each(lambda attrs, x: abs(x)),
    "exp": each(lambda attrs, x: math.exp(x)),
    "log": total(LOG),
    "sqrt": total(lambda attrs, x: math.sqrt(x)),
    "sigmoid": each(lambda attrs, x: 1 / (1 + math.exp(-x))),
    "tanh": each(lambda attrs, x: math.tanh(x)),
    "erf": each(lambda attrs, x: math.erf(x)),
    "floor": each(lambda attrs, x: float(math.floor(x))),
    "ceil": each(lambda attrs, x: float(math.ceil(x))),
    "round": each(lambda attrs, x: float(round(x))),
    "reciprocal": each(lambda attrs, x: 1 / x),
    "nn.relu": each(lambda attrs, x: max(x, 0)),
    "nn.leakyrelu": each(lambda attrs, x: x if x >= 0 else F32(attrs["alpha"]).item() * x),
    "nn.gelu": each(lambda attrs, x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "nn.gelu_tanh": each(lambda attrs, x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
    "clip": each(_clip),
    "astype": each(lambda attrs, x: {"float16": float, "float64": float, "int8": int, "bool": bool}[attrs["dtype"]](x)),
    "logical_not": each(lambda attrs, x: not x),
    "add": each(lambda attrs, a, b: a + b),
    "subtract": each(lambda attrs, a, b: a - b),
    "multiply": each(lambda attrs, a, b: a * b),
    "divide": each(lambda attrs, a, b: a / b),
    "truncate_divide": each(lambda attrs, a, b: int(a / b)),
    "floor_divide": each(lambda attrs, a, b: a // b),
    "power": total(lambda attrs, a, b: a**b if a >= 0 else math.pow(a, b)),
    "maximum": each(lambda attrs, a, b: max(a, b)),
    "minimum": each(lambda attrs, a, b: min(a, b)),
    "equal": each(lambda attrs, a, b: a == b),
    "not_equal": each(lambda attrs, a, b: a != b),
    "less": each(lambda attrs, a, b: a < b),
    "less_equal": each(lambda attrs, a, b: a <= b),
    "greater": each(lambda attrs, a, b: a > b),
    "greater_equal": each(lambda attrs, a, b: a >= b),
    "logical_and": each(lambda attrs, a, b: a and b),
    "logical_or": each(lambda attrs, a, b: a or b),
    "logical_xor": each(lambda attrs, a, b: a != b),
    "where": each(lambda attrs, c, a, b: a if c else b),
    "matmul": _matmul,
    **{f"nn.conv{rank}d": _conv for rank in (1, 2, 3)},
    "nn.softmax": _softmax(log=False),
    "nn.log_softmax": _softmax(log=True),
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.lrn": _lrn,
}
