"""Normalisations: a tensor scaled by what a part of it looks like as a whole (specs/semantics.md, "Normalization").

Each is a formula. Other formulas that are equal over the reals are in use: a batch norm folded to x * s + t, a variance
as the mean of squares minus the squared mean. The bound admits them by `widen`; the value is the formula as documented.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod
from typing import Any

import numpy as np

from assay.semantics.arrays import as_array
from assay.semantics.bounds import Bounded, as_a_whole, cut_at_zero, magnitude, rounded_literal, widen
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import normalize_axis, require_kind, same_dtype
from assay.semantics.ops.reduction import accumulator, total
from assay.semantics.ops.sizes import is_int
from assay.semantics.scalar import provably_equal, show
from assay.semantics.types import TensorType

FLOAT = ("float",)
FLOOR = 1024.0
"""So far below the greatest element nothing is left of an exponential."""


def _is_number(value: object, least: float = float("-inf")) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= least


def mean(x: Any, axes: tuple[int, ...]) -> Any:
    """The mean along some axes, which stay with size 1; floats of less than 32 bits are summed in float32."""
    if isinstance(x, Bounded):
        return x.mean(axis=axes, keepdims=True)
    wide = accumulator(x.dtype)
    result = np.sum(x, axis=axes, keepdims=True, dtype=wide)
    return as_array(result / wide.type(prod(x.shape[a] for a in axes)), x.dtype)


def _infinite(x: Any) -> Any:
    return np.isinf(x.value if isinstance(x, Bounded) else x)


def _in_any_width(y: Bounded, infinite: Any) -> Bounded:
    """What is computed on the way. It need not overflow in a wider register: only what comes of an infinity is infinite
    for certain."""
    known = ~np.isinf(y.value) | infinite
    return y if known.all() else Bounded(np.where(known, y.value, 0.0), np.where(known, y.radius, np.inf), y.of)


def _or_folded(y: Any, x: Any, average: Any, scale: Callable[[], Any], *more: Any) -> Any:
    """`y`, which may also be computed as x * scale + (more - average * scale)."""
    if not isinstance(y, Bounded):
        return y
    by = scale()
    # where the scale is subnormal, what it is rounded by counts as often as x is large
    size = magnitude(x) + magnitude(average)
    return widen(y, lambda: (x * by, average * by, *more), absolute=y.of.smallest_subnormal * size)


# --- softmax -----------------------------------------------------------------------------------------------------


def _softmax(attrs: Attrs, x: Any) -> Any:
    return x if x.size == 0 else as_a_whole("softmax", lambda x: _shares(attrs, x), x, axis=attrs["axis"])


def _shares(attrs: Attrs, x: Any) -> Any:
    peak = np.max(x, axis=attrs["axis"], keepdims=True)
    if isinstance(x, Bounded):
        # a masked element may be as low as the dtype goes, and overflow; below this floor e is 0 in every dtype
        x = np.maximum(x, Bounded(peak.value - (FLOOR + np.abs(peak.value) / FLOOR), peak.radius, x.of))
    e = np.exp(x - peak)
    return e / total(e, (attrs["axis"],), True)


def _log_softmax(attrs: Attrs, x: Any) -> Any:
    if x.size == 0:
        return x
    peak = np.max(x, axis=attrs["axis"], keepdims=True)
    less = x - peak
    norm = np.log(total(np.exp(less), (attrs["axis"],), True))
    # x - (peak + norm) is in use too
    return widen(less - norm, lambda: (x, peak, norm))


def _softmax_record(name: str, doc: str, value: Any, bound: str, onnx: str) -> Operator:
    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        (x,) = types
        require_kind(name, x.dtype, FLOAT)
        op.require(is_int(attrs["axis"]), "C1", f"axis is {attrs['axis']!r}, not an integer")
        normalize_axis(name, attrs["axis"], x.ndim)
        return x

    op = Operator(
        name, doc, ("x",), "normalization", rule, value, bound,
        (
            Example((((2, 3, 5), "float32"),)),
            Example((((2, 3, 5), "float32"),), {"axis": 0}),
            Example((((2, 3, 5), "float32"),), {"axis": -2}),
            Example((((4, 0), "float32"),)),
        ),
        {"axis": Attr("the axis along which the elements sum to 1, counted from the end if negative", -1)},
        {"C1": "axis is an integer"},
        source=f"ONNX {onnx}-13, docs/Operators.md; TVM relax.op.{name}",
    )  # fmt: skip
    return op


# --- batch norm --------------------------------------------------------------------------------------------------


def _batch_norm(attrs: Attrs, x: Any, gamma: Any, beta: Any, average: Any, var: Any) -> Any:
    shape = [1] * x.ndim
    shape[attrs["axis"]] = -1
    gamma, beta, average, var = (v.reshape(shape) for v in (gamma, beta, average, var))
    deviation = np.sqrt(var + rounded_literal(x, attrs["epsilon"]))
    scaled = gamma * (x - average)
    if isinstance(scaled, Bounded):
        scaled = _in_any_width(scaled, _infinite(x) | _infinite(average) | _infinite(gamma))
    quotient = scaled / deviation
    if isinstance(quotient, Bounded):
        quotient = _in_any_width(quotient, np.isinf(scaled.value) | (deviation.value == 0))
    y = quotient + beta
    if isinstance(y, Bounded) and _may_overflow(x, gamma, beta, average, 1 / deviation):
        by = gamma / deviation
        y = _in_any_order(y, (x - average) / deviation * gamma + beta, x * by + (beta - average * by))
    return _or_folded(y, x, average, lambda: gamma / deviation, beta)


def _may_overflow(*operands: Bounded) -> bool:
    """Whether a product of operands, or a sum of such, may be none of finite numbers."""
    of = operands[0].of
    sizes = map(magnitude, operands)
    with np.errstate(over="ignore", invalid="ignore"):
        most = np.prod([2 * max(float(size.max(initial=0.0)), 1.0) for size in sizes])
    return not most < float(of.max)


def _in_any_order(y: Bounded, *others: Bounded) -> Bounded:
    """What is also computed by other formulas. Where one of them overflows or subtracts infinities, and another does
    not, nothing is known."""
    differs = np.zeros(y.shape, bool)
    for other in others:
        same = (np.isfinite(y.value) & np.isfinite(other.value)) | (y.value == other.value)
        differs |= ~(same | (np.isnan(y.value) & np.isnan(other.value)))
    return Bounded(np.where(differs, 0.0, y.value), np.where(differs, np.inf, y.radius), y.of) if differs.any() else y


def _batch_norm_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    x, *rest = types
    require_kind("nn.batch_norm", same_dtype("nn.batch_norm", types), FLOAT)
    BATCH_NORM.require(is_int(attrs["axis"]), "C1", f"axis is {attrs['axis']!r}, not an integer")
    size = x.shape[normalize_axis("nn.batch_norm", attrs["axis"], x.ndim)]
    for name, t in zip(BATCH_NORM.operands[1:], rest, strict=True):
        BATCH_NORM.require(
            t.ndim == 1 and provably_equal(t.shape[0], size),
            "C2",
            f"{name} is {t}; one number for each of {show(size)} channels is wanted",
        )
    _require_epsilon(BATCH_NORM, attrs, "C3")
    return x


def _require_epsilon(op: Operator, attrs: Attrs, label: str) -> None:
    op.require(
        _is_number(attrs["epsilon"], 0), label, f"epsilon is {attrs['epsilon']!r}; a number of at least 0 is wanted"
    )


_EPSILON = Attr("what is added to the variance", 1e-5)

BATCH_NORM = Operator(
    "nn.batch_norm",
    "gamma * (x - mean) / sqrt(var + epsilon) + beta, one of each for every channel: inference form",
    ("x", "gamma", "beta", "mean", "var"),
    "normalization",
    _batch_norm_type,
    _batch_norm,
    "the bound of its formula, in either order of product and quotient, or of x * scale + (beta - mean * scale) with"
    " scale = gamma / sqrt(var + epsilon); where these are not infinite alike it excludes nothing",
    (
        Example((((2, 3, 5, 4), "float32"), *((((3,), "float32"),) * 4)), ranges={4: (0, 3)}),
        Example(
            (((2, 5, 3), "float32"), *((((3,), "float32"),) * 4)), {"axis": -1, "epsilon": 0.5}, ranges={4: (0, 3)}
        ),
        Example((((4,), "float32"), *((((4,), "float32"),) * 4)), {"axis": 0}, ranges={4: (0, 3)}),
    ),
    {"axis": Attr("the axis of the channels, counted from the end if negative", 1), "epsilon": _EPSILON},
    {
        "C1": "axis is an integer",
        "C2": "gamma, beta, mean and var have one element for each channel",
        "C3": "epsilon is a number, not negative",
    },
    source="ONNX BatchNormalization with training_mode 0, docs/Operators.md; TVM relax.op.nn.batch_norm",
)

# --- layer norm --------------------------------------------------------------------------------------------------


def _layer_norm(attrs: Attrs, x: Any, gamma: Any, beta: Any = None) -> Any:
    if x.size == 0:
        return x
    axes = tuple(a % x.ndim for a in attrs["axes"])

    def formula(x: Any, gamma: Any, beta: Any) -> Any:
        return _standardized(attrs, axes, x, gamma, beta)

    return as_a_whole("layer_norm", formula, x, gamma, beta, axes=axes, epsilon=attrs["epsilon"])


def _standardized(attrs: Attrs, axes: tuple[int, ...], x: Any, gamma: Any, beta: Any) -> Any:
    average = mean(x, axes)
    centred = x - average
    if isinstance(centred, Bounded):
        infinite = _infinite(x).any(axis=axes, keepdims=True)
        centred = _in_any_width(centred, infinite)
    # the mean of squares minus the squared mean is in use too; neither is below zero
    var = cut_at_zero(
        widen(
            mean(centred * centred, axes),
            lambda: (mean(x * x, axes), average * average),
            roundings=prod(x.shape[a] for a in axes),
        )
    )
    if isinstance(var, Bounded):
        var = _in_any_width(var, infinite)
    deviation = np.sqrt(var + rounded_literal(x, attrs["epsilon"]))
    y = centred / deviation * gamma
    if beta is not None:
        y = (_in_any_width(y, infinite | _infinite(gamma)) if isinstance(y, Bounded) else y) + beta

    return _or_folded(y, x, average, lambda: gamma / deviation, *(() if beta is None else (beta,)))


def _layer_norm_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    x, *rest = types
    require_kind("nn.layer_norm", same_dtype("nn.layer_norm", types), FLOAT)
    axes = attrs["axes"]
    LAYER_NORM.require(
        isinstance(axes, tuple) and len(axes) > 0 and all(map(is_int, axes)),
        "C1",
        f"axes is {axes!r}; a tuple of integers, one at least, is wanted",
    )
    own = tuple(normalize_axis("nn.layer_norm", a, x.ndim) for a in axes)
    trailing = tuple(range(x.ndim - len(own), x.ndim))
    LAYER_NORM.require(
        own == trailing, "C2", f"axes is {axes}; the last {len(own)} axes of {x} in order are {trailing}"
    )
    for name, t in zip(("gamma", "beta"), rest, strict=False):
        LAYER_NORM.require(
            t.ndim == len(own) and all(map(provably_equal, t.shape, x.shape[x.ndim - len(own) :])),
            "C3",
            f"{name} is {t}; the shape of the normalised axes of {x} is wanted",
        )
    _require_epsilon(LAYER_NORM, attrs, "C4")
    return x


LAYER_NORM = Operator(
    "nn.layer_norm",
    "(x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and the population variance of the last axes",
    ("x", "gamma", "beta?"),
    "normalization",
    _layer_norm_type,
    _layer_norm,
    "the bound of its formula, or of the same with a variance as the mean of squares minus the squared mean",
    (
        Example((((2, 3, 5), "float32"), ((5,), "float32"), ((5,), "float32")), {"axes": (-1,)}),
        Example((((2, 3, 5), "float32"), ((3, 5), "float32")), {"axes": (1, 2), "epsilon": 0.25}),
        Example((((4,), "float32"), ((4,), "float32"), ((4,), "float32")), {"axes": (0,)}),
    ),
    {"axes": Attr("the last axes of x, in order, negative ones counted from the end"), "epsilon": _EPSILON},
    {
        "C1": "axes is a tuple of integers, one at least",
        "C2": "axes are the last axes of x, in order",
        "C3": "gamma and beta have the shape of these axes",
        "C4": "epsilon is a number, not negative",
    },
    source="ONNX LayerNormalization, docs/Operators.md; TVM relax.op.nn.layer_norm",
)

# --- local response ----------------------------------------------------------------------------------------------


def _lrn(attrs: Attrs, x: Any) -> Any:
    size, channels = attrs["size"], x.shape[1]
    before = (size - 1) // 2
    widths = [(0, 0)] * x.ndim
    widths[1] = (before, size - 1 - before)
    squares = np.pad(x * x, widths)
    # the window of channel c is c - before ... c - before + size - 1
    near = total(np.stack([squares[:, k : k + channels] for k in range(size)]), (0,))
    number = x.dtype.type
    base = number(attrs["bias"]) + rounded_literal(x, attrs["alpha"] / size) * near
    # a running base, to which each channel adds one square and from which it subtracts another, is in use too
    base = widen(base, lambda: (number(0.5) * total(base, (1,), True),))
    if isinstance(base, Bounded):
        infinite = np.pad(_infinite(x), widths)
        base = _in_any_width(base, np.any([infinite[:, k : k + channels] for k in range(size)], axis=0))
    return x / np.power(base, number(attrs["beta"]))


def _lrn_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    require_kind("nn.lrn", x.dtype, FLOAT)
    LRN.require(x.ndim >= 2, "C1", f"x is {x}; two axes at least are wanted: N, C")
    LRN.require(is_int(attrs["size"], 1), "C2", f"size is {attrs['size']!r}; a positive integer is wanted")
    for name in ("alpha", "beta", "bias"):
        LRN.require(_is_number(attrs[name]), "C3", f"{name} is {attrs[name]!r}; a number is wanted")
    return x


LRN = Operator(
    "nn.lrn",
    "x / (bias + alpha / size * s) ** beta, s the sum of the squares of channels c - floor((size - 1) / 2) to"
    " c + ceil((size - 1) / 2), those there are",
    ("x",),
    "normalization",
    _lrn_type,
    _lrn,
    "the bound of its formula, or of the same with a running sum from channel to channel",
    (
        Example((((2, 7, 3, 5), "float32"),), {"size": 3}),
        Example((((2, 7, 3), "float32"),), {"size": 4, "alpha": 0.5, "beta": 0.25, "bias": 2.0}),
        Example((((2, 4), "float32"),), {"size": 1}),
        Example((((2, 3, 5), "float32"),), {"size": 9, "alpha": 1.0}),
    ),
    {
        "size": Attr("how many channels a window has"),
        "alpha": Attr("the scale of the sum, divided by size", 1e-4),
        "beta": Attr("the exponent", 0.75),
        "bias": Attr("what is added to the scaled sum", 1.0),
    },
    {"C1": "x has two axes at least", "C2": "size is a positive integer", "C3": "alpha, beta and bias are numbers"},
    source="ONNX LRN, docs/Operators.md",
)

TABLE: tuple[Operator, ...] = (
    _softmax_record(
        "nn.softmax", "exp(x - max) / sum(exp(x - max)) along an axis", _softmax, "the bound of its formula", "Softmax"
    ),
    _softmax_record(
        "nn.log_softmax", "(x - max) - log(sum(exp(x - max))) along an axis", _log_softmax,
        "the bound of its formula, or of x - (max + log(sum))", "LogSoftmax",
    ),
    BATCH_NORM,
    LAYER_NORM,
    LRN,
)  # fmt: skip
