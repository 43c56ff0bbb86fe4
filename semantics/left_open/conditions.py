"""The conditions of the entries, and what is allowed under them (specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from assay.semantics.bounding.model import has_infinity
from assay.semantics.dtypes import DType, dtype
from assay.semantics.left_open import Array, Fields, Flags, Opening, OperatorUse
from assay.semantics.left_open.order import same_elements
from assay.semantics.ops import operator

Find = Callable[[OperatorUse], Iterator[Opening]]


Ends = tuple[Array, Array]
"""The least and the greatest number that each element may be."""


def _element_of(*operands: Ends) -> Callable[[Array, Fields], Flags]:
    """Whether a number may be an element of the operands; NaN is no number, and may stand."""
    low, high = (np.concatenate([ends[i].reshape(-1) for ends in operands]) for i in (0, 1))
    numbers = ~np.isnan(low)
    order = np.argsort(low[numbers], kind="stable")
    low, reach = low[numbers][order], np.maximum.accumulate(high[numbers][order])
    if not low.size:
        return lambda got, _: np.isnan(got)

    def only(got: Array, _: Fields) -> Flags:
        x = got.astype(np.float64)
        begun = np.searchsorted(low, x, side="right")  # how many of the intervals begin at x or below
        return np.asarray(np.isnan(x) | ((begun > 0) & (reach[np.maximum(begun - 1, 0)] >= x)))

    return only


# --- NaN among what a maximum is taken of -----------------------------------------------------------------------


def nan_of_two(u: OperatorUse) -> Iterator[Opening]:
    """maximum and minimum, and Max and Min of ONNX: some of the numbers are NaN, and any other may come out."""
    if u.has_nan:
        yield _one_of([u.ends(i) for i in range(len(u.operands))], u.results[0].shape)


def _one_of(numbers: Sequence[Ends], shape: tuple[int, ...]) -> Opening:
    """NaN, or one of the numbers that meet in an element, where NaN is among them and a number too."""
    low, high = (np.stack([np.broadcast_to(n[i], shape) for n in numbers]).astype(np.float64) for i in (0, 1))
    none = np.isnan(low)
    least, most = (
        np.where(none.all(axis=0), met[0], f(met, axis=0)) for met, f in ((low, np.fmin.reduce), (high, np.fmax.reduce))
    )
    return Opening(
        np.asarray(none.any(axis=0) & ~none.all(axis=0)), least, most, nan=True,
        only=lambda got, _: np.asarray(np.isnan(got) | ((low <= got) & (got <= high)).any(axis=0)),
    )  # fmt: skip


BOUNDS = {"nn.relu": (0,), "HardSigmoid": (0, 1)}
WITHIN = ("HardSwish", "Mish", "Softplus")


def nan_against_bounds(u: OperatorUse) -> Iterator[Opening]:
    """nn.relu, clip, and operators of ONNX that have bounds: a bound may come out in place of NaN; and where a bound is
    NaN the number, or the other. Where such a bound is only a part of a formula, NaN stands in another part, and comes
    out."""
    if not u.has_nan:
        return
    x, *bounds = u.operands
    if u.operator in WITHIN:
        low, high = u.ends(0)
        yield Opening(np.isnan(x), low, high, nan=True)
        return
    if u.operator in BOUNDS:
        bounds = [np.asarray(b, x.dtype) for b in BOUNDS[u.operator]]
    elif len(bounds) < 2:  # those that are left out are the ends of the dtype
        ends = [u.attrs.get(end) for end in ("min", "max")]
        limits = (float(dtype(x.dtype).min), float(dtype(x.dtype).max))
        bounds += [np.asarray(e if g is None else g).astype(x.dtype) for g, e in zip(ends, limits, strict=True)]
        if has_infinity(dtype(x.dtype)):  # where there is no bound, our exports write an infinity
            bounds += [np.asarray(s * np.inf).astype(x.dtype) for g, s in zip(ends, (-1, 1), strict=True) if g is None]
    given = [u.ends(i) for i in range(len(u.operands))]
    wide = [b.astype(np.float64) for b in bounds[len(given) - 1 :]]
    met = [*given[1:], *zip(wide, wide, strict=True)]
    yield _one_of([given[0], *((low.reshape(()), high.reshape(())) for low, high in met)], x.shape)


def nan_in_window(u: OperatorUse) -> Iterator[Opening]:
    """max, min, and maxima over windows: NaN, or a number among what is taken; of nothing but NaN, where an accumulator
    begins."""
    if not u.has_nan:
        return
    (x,) = u.operands
    value = operator(u.operator).value
    top = float(dtype(x.dtype).max)
    begin, lowest = (np.inf, top) if u.operator == "min" else (-np.inf, -top)

    def of_numbers(a: Array) -> Array:
        return np.asarray(value(u.attrs, np.where(np.isnan(a), begin, a)))

    # the extreme of the numbers, and the other one, which is an extreme of what is mirrored
    least, greatest = u.ends(0)
    near, far = (greatest, least) if begin < 0 else (least, greatest)
    one, other = of_numbers(near), -of_numbers(-far)
    none = (one == begin) & (other == -begin)  # both as they begin; of both infinities they are the other way round
    one, other = np.where(none, begin, one), np.where(none, lowest, other)
    starts = np.asarray([begin, lowest])
    only = _element_of(u.ends(0), (starts, starts))
    yield Opening(np.isnan(u.results[0]), np.minimum(one, other), np.maximum(one, other), nan=True, only=only)


def nan_in_scatter(u: OperatorUse) -> Iterator[Opening]:
    """scatter_nd with max or min: NaN, or one of the numbers that meet in the place."""
    if u.attrs["reduction"] not in ("max", "min") or not u.has_nan:
        return
    indices, met = u.operands[1], (u.ends(0), u.ends(2))
    value = operator("scatter_nd").value

    def of(reduction: str, infinite: float, end: int) -> Array:
        x, updates = (np.where(np.isnan(ends[end]), infinite, ends[end]) for ends in met)
        return np.asarray(value({**u.attrs, "reduction": reduction}, x, indices, updates))

    yield Opening(np.isnan(u.results[0]), of("min", np.inf, 0), of("max", -np.inf, 1), nan=True, only=_element_of(*met))


def updates_that_meet(u: OperatorUse) -> Iterator[Opening]:
    """scatter_nd without a reduction: updates that differ meet in one place, and any of them may stand there."""
    x, indices, updates = u.operands
    if u.attrs["reduction"] != "none":
        return
    numbers = np.arange(x.size).reshape(x.shape)
    places = np.asarray(operator("gather_nd").value({}, numbers, indices)).reshape(-1)
    given, last = updates.reshape(-1), u.results[0].reshape(-1)
    twice = np.zeros(x.size, bool)
    twice[places[~same_elements(given, last[places])]] = True
    meets = twice[places]
    places, given = places[meets], given[meets]
    low, high = last.copy(), last.copy()
    np.fmin.at(low, places, given)
    np.fmax.at(high, places, given)

    def only(got: Array, _: Fields) -> Flags:
        found = np.zeros(x.size, bool)
        np.logical_or.at(found, places, same_elements(got.reshape(-1)[places], given))
        return found.reshape(x.shape)

    nan = dtype(x.dtype).is_float and bool(np.isnan(given).any())
    yield Opening(twice.reshape(x.shape), low.reshape(x.shape), high.reshape(x.shape), nan, only)


def nan_in_places(u: OperatorUse) -> Iterator[Opening]:
    """ArgMax and ArgMin: any place of a row that has a NaN."""
    if not dtype(u.operands[0].dtype).is_float or not np.isnan(u.operands[0]).any():
        return
    (x,) = u.operands
    axis = u.attrs.get("axis", 0) % x.ndim
    rows = u.rows_with_nan(axis)
    where = np.broadcast_to(rows.reshape(u.results[0].shape), u.results[0].shape)
    last = np.full(where.shape, x.shape[axis] - 1, np.int64)
    yield Opening(where, np.zeros(where.shape, np.int64), last)


def nan_in_hardmax(u: OperatorUse) -> Iterator[Opening]:
    """Hardmax: the one may stand at any place of a row that has a NaN, or at none."""
    if not u.has_nan:
        return
    (x,) = u.operands
    axis = u.attrs.get("axis", -1) % x.ndim
    if u.attrs.get("since", 13) < 13:  # over all axes from there on
        rows = np.isnan(x).any(axis=tuple(range(axis, x.ndim)), keepdims=True)
        zeros = np.zeros(x.shape, x.dtype)
        yield Opening(np.broadcast_to(rows, x.shape), zeros, zeros + x.dtype.type(1))
        return
    where = np.broadcast_to(u.rows_with_nan(axis), x.shape)

    def one(got: Array, _: Fields) -> Flags:
        ones = np.sum(got.astype(np.float64), axis=axis, keepdims=True)
        return np.asarray(((got == 0) | (got == 1)) & np.broadcast_to(ones <= 1, got.shape))

    zeros = np.zeros(x.shape, x.dtype)
    yield Opening(where, zeros, zeros + x.dtype.type(1), only=one)


# --- integers that are too large --------------------------------------------------------------------------------


def overflow(u: OperatorUse) -> Iterator[Opening]:
    """Integer results that are out of range: wrapped, the end of the range, or the least number, which x86 gives for a
    float that is too large."""
    of = dtype(u.results[0].dtype)
    if not of.is_integer or u.operator == "negative" and of.kind == "uint":
        return
    beyond = _beyond(u, of)
    if beyond is None or not beyond.any():
        return
    wrapped = u.results[0]
    kind = wrapped.dtype.type
    end = np.where(beyond > 0, kind(of.max), kind(of.min)).astype(wrapped.dtype)
    least = np.full(wrapped.shape, of.min, wrapped.dtype)
    yield Opening(
        beyond != 0, np.minimum(np.minimum(wrapped, end), least), np.maximum(np.maximum(wrapped, end), least),
        only=lambda got, _: np.asarray((got == wrapped) | (got == end) | (got == least)),
    )  # fmt: skip


def _beyond(u: OperatorUse, of: DType) -> Array | None:
    """1 where the whole number that the operator stands for is above the range, -1 where it is below, 0 elsewhere; None
    where all are far within it."""
    name = ONNX.get(u.operator, u.operator)
    least, most = int(of.min), int(of.max)
    wide = [_term(u.operator, a.astype(np.float64)) for a in u.operands]
    if name in ("power", "prod"):
        # of what is clear by its size nothing is counted: it has too many digits
        near = np.power(*wide) if name == "power" else _prod(wide[0], u)
        far = (near > 2.0 * most).astype(np.int8) - (near < 2.0 * (least - 1)).astype(np.int8)
        close = (np.abs(near) > most / 4) & (far == 0)
        if not close.any():
            return np.asarray(far)
        exact = _few_digits(u) if name == "power" else _exact(u, name)
        return np.where(close, _side(exact, least, most), far)
    if _size(name, wide) <= most / 4:
        return None
    return _side(_exact(u, name), least, most)


ONNX = {"Pow": "power", "ReduceSum": "sum", "ReduceProd": "prod", "ReduceSumSquare": "sum", "ReduceL1": "sum"}


def _term(name: str, a: Any) -> Any:
    return a * a if name == "ReduceSumSquare" else abs(a) if name == "ReduceL1" else a


def _side(exact: Any, least: int, most: int) -> Array:
    return np.asarray(np.asarray(exact > most).astype(np.int8) - np.asarray(exact < least).astype(np.int8))


def _size(name: str, wide: Sequence[Array]) -> float:
    """What no result exceeds in magnitude."""
    size = [float(np.max(np.abs(a), initial=0.0)) for a in wide]
    match name:
        case "add" | "subtract":
            return size[0] + size[1]
        case "multiply":
            return size[0] * size[1]
        case "matmul":
            return size[0] * size[1] * int(wide[0].shape[-1])
        case "sum" | "cumsum":
            return float(np.sum(np.abs(wide[0])))
        case "negative" | "abs":
            return size[0] * 4
        case _:
            return float("inf")


def _reduced(u: OperatorUse) -> dict[str, Any]:
    """Axes and their keeping, of ours or of an ONNX node, where axes are an attribute or an operand."""
    if u.operator not in ONNX:
        return {"axis": u.attrs["axis"], "keepdims": u.attrs["keepdims"]}
    given = u.attrs.get("axes") or (u.operands[1].tolist() if len(u.operands) > 1 else None)
    if not given and u.attrs.get("noop_with_empty_axes"):
        given = ()
    elif not given:
        given = range(u.operands[0].ndim)
    return {"axis": tuple(int(a) for a in given), "keepdims": bool(u.attrs.get("keepdims", 1))}


def _prod(x: Array, u: OperatorUse) -> Array:
    how = _reduced(u)
    return np.where(np.any(x == 0, **how), 0.0, np.prod(x, **how))


def _few_digits(u: OperatorUse) -> Any:
    """Powers, as far as they are near the end of the range: others are cut."""
    base, exponent = np.broadcast_arrays(*u.operands)
    size = np.abs(base.astype(np.float64))
    least = np.where(size > 1, np.clip(exponent.astype(np.float64), 0, 200), 0)
    return base.astype(object) ** least.astype(np.int64).astype(object)


def _exact(u: OperatorUse, name: str) -> Any:
    """The result in whole numbers without end."""
    whole = [_term(u.operator, a.astype(object)) for a in u.operands]
    match name:
        case "add":
            return whole[0] + whole[1]
        case "subtract":
            return whole[0] - whole[1]
        case "multiply":
            return whole[0] * whole[1]
        case "matmul":
            return np.matmul(*whole)
        case "sum":
            return np.asarray(np.sum(whole[0], **_reduced(u)))
        case "prod":
            return np.asarray(np.prod(whole[0], **_reduced(u)))
        case "negative":
            return -whole[0]
        case "abs":
            return abs(whole[0])
        case _:
            return _running(u, whole[0])


def _running(u: OperatorUse, x: Any) -> Any:
    axis = u.attrs["axis"] % x.ndim
    given = np.flip(x, axis) if u.attrs["reverse"] else x
    ufunc = np.add if u.operator == "cumsum" else np.multiply
    made = ufunc.accumulate(given, axis)
    if u.attrs["exclusive"] and made.shape[axis]:
        start = np.full_like(np.take(made, [0], axis), ufunc.identity)
        made = np.concatenate([start, np.delete(made, -1, axis)], axis)
    return np.flip(made, axis) if u.attrs["reverse"] else made


# --- what has no value ------------------------------------------------------------------------------------------


def cast_out_of_range(u: OperatorUse) -> Iterator[Opening]:
    """astype of a float that the integer dtype cannot hold once it is cut, or of NaN: anything."""
    (x,), to = u.operands, dtype(u.results[0].dtype)
    if not dtype(x.dtype).is_float or not to.is_integer:
        return
    cut = np.trunc(x.astype(np.float64))
    yield Opening(~((cut >= float(to.min)) & (cut < float(to.max) + 1)))


def no_quotient(u: OperatorUse) -> Iterator[Opening]:
    """Integer division by zero, and of the least number by -1: anything."""
    a, b = u.operands
    of = dtype(u.results[0].dtype)
    if of.is_integer:
        yield Opening(np.asarray((b == 0) | ((a == of.min) & (b == -1) if of.kind == "int" else False)))


def far_shift(u: OperatorUse) -> Iterator[Opening]:
    """Shifts by less than 0 bits, or by all of them or more: anything, but in a version of ONNX that says what comes of
    them."""
    if u.attrs.get("since", 0) >= 28:
        return
    a, b = u.operands
    of = dtype(u.results[0].dtype)
    yield Opening(np.broadcast_to((b < 0) | (b >= of.bits), np.broadcast_shapes(a.shape, b.shape)))


def beside_infinity(u: OperatorUse) -> Iterator[Opening]:
    """nn.softmax and nn.log_softmax of a row that holds +inf: by the formula of the text what is beside it is exp(x) /
    inf, 0; with the largest element subtracted first it is NaN, as ours."""
    (x,) = u.operands
    infinite = np.isposinf(x)
    if not infinite.any():
        return
    rows = infinite.any(axis=u.attrs["axis"], keepdims=True) & ~np.isnan(x).any(axis=u.attrs["axis"], keepdims=True)
    formula = np.full(x.shape, 0 if u.operator == "nn.softmax" else -np.inf, x.dtype)
    yield Opening(rows & ~infinite, formula, formula, nan=True)


def mean_of_nothing(u: OperatorUse) -> Iterator[Opening]:
    """mean of no elements: anything."""
    (x,), axis = u.operands, u.attrs["axis"]
    if 0 in [x.shape[a] for a in (range(x.ndim) if axis is None else axis)]:
        yield Opening(np.ones(u.results[0].shape, bool))


def scale_of_zeros(u: OperatorUse) -> Iterator[Opening]:
    """DynamicQuantizeLinear of nothing but zeros, whose zero point is 0 / 0: any scale that is not negative, and any
    zero point; the numbers are that zero point."""
    (x,) = u.operands
    if np.any(x != 0):
        return
    y, scale, zero = u.results
    yield Opening(np.ones(y.shape, bool), only=lambda got, others: np.asarray(got == others.get(2, got)))
    least, most = (np.full(scale.shape, e, scale.dtype) for e in (0.0, np.finfo(np.float32).max))
    yield Opening(np.ones(scale.shape, bool), least, most, index=1)
    yield Opening(np.ones(zero.shape, bool), index=2)


# --- the sign of zero -------------------------------------------------------------------------------------------


def sign_of_zero(u: OperatorUse) -> Iterator[Opening]:
    """A zero that comes of a zero of the other sign, or of rounding: of either sign."""
    if not u.is_float:
        return
    result = u.results[0]
    zero = result == 0
    if not zero.any():
        return
    match u.operator:
        case "maximum" | "minimum":
            a, b = u.operands
            mixed = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
        case "ceil" | "round":
            mixed = np.signbit(u.operands[0]) & (u.operands[0] != 0)
        case "fmod":
            mixed = np.broadcast_to((u.operands[0] == 0) & np.signbit(u.operands[0]), result.shape)
        case "nn.relu" | "clip":
            mixed = np.asarray((u.operands[0] == 0) & np.signbit(u.operands[0]))
        case _:  # where a zero below stands among what a maximum is taken of
            below = ((u.operands[0] == 0) & np.signbit(u.operands[0])).astype(result.dtype)
            up = result.dtype.type(-1 if u.operator == "min" else 1)
            mixed = operator(u.operator).value(u.attrs, below * up) * up > 0
    nothing = np.zeros(result.shape, result.dtype)
    yield Opening(zero & mixed, nothing, nothing)
