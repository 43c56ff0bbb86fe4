"""Parts of a tensor, and tensors around it, by place (specs/semantics.md, "Movement"): strided_slice, take, nn.pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.semantics.arrays import as_array, is_plain
from assay.semantics.bounding.logic import certain_and_possible
from assay.semantics.bounding.movement import taken
from assay.semantics.bounds import Bounded, hull, magnitude, off_place, steps
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attr, Attrs, Example, Family, Operator
from assay.semantics.ops.common import normalize_axes, normalize_axis, require_kind
from assay.semantics.ops.creation import fitted_scalar, number_fits
from assay.semantics.ops.sizes import is_dim, is_int, slice_length
from assay.semantics.scalar import Dim, Expr, simplify
from assay.semantics.types import TensorType, Type

EXACT = "exact: the same elements"


def record(
    name: str,
    doc: str,
    operands: tuple[str, ...],
    rule: Callable[[Attrs, tuple[TensorType, ...]], Type],
    value: Callable[..., Any],
    source: str,
    examples: Sequence[Example],
    family: Family = "movement",
    **more: Any,
) -> Operator:
    """An operator that moves or chooses elements; `more` is what `Operator` takes beside."""
    return Operator(name, doc, operands, family, rule, value, EXACT, tuple(examples), source=source, **more)


def is_tuple(value: object, accepts: Callable[[Any], bool]) -> bool:
    """Whether `value` is a tuple of elements that `accepts` takes."""
    return isinstance(value, tuple) and all(map(accepts, value))


# --- strided_slice ----------------------------------------------------------------------------------------------------


def _strides(attrs: Attrs) -> tuple[int, ...]:
    strides: tuple[int, ...] | None = attrs["strides"]
    return (1,) * len(attrs["axes"]) if strides is None else strides


def _strided_slice_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    axes = attrs["axes"]
    STRIDED_SLICE.require(is_tuple(axes, is_int), "C1", f"axes is {axes!r}; a tuple of integers is wanted")
    for name, accepts in (("begin", _is_place), ("end", _is_place), ("strides", is_int)):
        given = _strides(attrs) if name == "strides" else attrs[name]
        STRIDED_SLICE.require(
            is_tuple(given, accepts) and len(given) == len(axes),
            "C2",
            f"{name} is {given!r}; a tuple of {len(axes)} integers is wanted, one for each of axes",
        )
    STRIDED_SLICE.require(0 not in _strides(attrs), "C3", f"strides is {_strides(attrs)}; 0 is no stride")
    normalize_axes("strided_slice", axes, x.ndim)
    shape = list(x.shape)
    for axis, begin, end, stride in zip(axes, attrs["begin"], attrs["end"], _strides(attrs), strict=True):
        a = axis % x.ndim
        shape[a] = slice_length(shape[a], simplify(begin), simplify(end), stride)
    return TensorType(tuple(shape), x.dtype)


def _is_place(value: object) -> bool:
    return is_int(value) or (isinstance(value, Expr) and is_dim(value))


def _strided_slice(attrs: Attrs, x: Any) -> Any:
    index = [slice(None)] * x.ndim
    for axis, begin, end, stride in zip(attrs["axes"], attrs["begin"], attrs["end"], _strides(attrs), strict=True):
        index[axis] = slice(begin, end, stride)
    return as_array(x[tuple(index)])


STRIDED_SLICE = record(
    "strided_slice",
    "Every stride-th element from begin on and before end, along some axes; places are NumPy's: negative ones count"
    " from the end, and what is outside is moved to the border",
    ("x",),
    _strided_slice_type,
    _strided_slice,
    "NumPy basic slicing; TVM relax.op.strided_slice. ONNX Slice, docs/Operators.md, differs for a negative stride and"
    " a begin below -size: there it starts at element 0, here nothing is taken",
    (
        Example((((5, 4, 7), "float32"),), {"axes": (0, 2), "begin": (1, 0), "end": (4, 7), "strides": (1, 3)}),
        Example((((5, 4), "float32"),), {"axes": (-1,), "begin": (-3,), "end": (2**63 - 1,)}),
        Example((((5, 4), "float32"),), {"axes": (0,), "begin": (-1,), "end": (-(2**63),), "strides": (-2,)}),
        Example((((5, 4), "int8"),), {"axes": (1,), "begin": (3,), "end": (1,)}),
    ),
    attrs={
        "axes": Attr("the axes that are sliced, negative ones counted from the end"),
        "begin": Attr("for each of them the first place"),
        "end": Attr("for each of them the place before which it ends; 2**31 - 1 or more is beyond any size"),
        "strides": Attr("for each of them the step; a negative one goes backwards; None for all 1", None),
    },
    constraints={
        "C1": "axes is a tuple of integers",
        "C2": "begin, end and strides are integers, one for each of axes; begin and end may be symbolic",
        "C3": "no stride is 0",
    },
)

# --- take -------------------------------------------------------------------------------------------------------------


def _take_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    x, indices = types
    axis = attrs["axis"]
    TAKE.require(is_int(axis), "C1", f"axis is {axis!r}, not an integer")
    TAKE.require(
        _near_rule(attrs["near"]), "C2", f"near is {attrs['near']!r}; a number of at least 0, below 1, is wanted"
    )
    require_kind("take with indices", indices.dtype, ("int", "uint"))
    pairs = attrs["either"]
    right = isinstance(pairs, tuple) and all(
        isinstance(p, tuple) and len(p) == 2 and all(is_int(n, 0) for n in p) for p in pairs
    )
    TAKE.require(
        right and (not pairs or indices.ndim == 1),
        "C3",
        f"either is {pairs!r}; pairs of places, for a vector of indices, are wanted",
    )
    axis = normalize_axis("take", axis, x.ndim)
    return TensorType((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _take(attrs: Attrs, x: Any, indices: Any) -> Any:
    axis = normalize_axis("take", attrs["axis"], x.ndim)
    size = x.shape[axis]
    # unsigned 64-bit indices are compared as such: as int64 the large ones would count from the end
    outside = indices >= size if indices.dtype == np.uint64 else _outside(indices.astype(np.int64), size)
    if np.any(outside):
        raise Trap(
            "out of bounds", f"take: {_first(indices, outside)} into axis {axis} of size {size}", label="take.T1"
        )
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + size, places)
    found = taken(x, places, axis)
    if attrs.get("near") and isinstance(found, Bounded) and found.of.is_float:
        apart = magnitude(taken(steps(x, axis), places, axis))  # the places may be intervals
        return off_place(found, np.nan_to_num(apart, nan=np.inf, posinf=np.inf), attrs["near"] * (size + 1))
    if attrs.get("either") and isinstance(found, Bounded) and found.of.is_float:
        other = np.array(places)
        at = [i for i, _ in attrs["either"]]
        other[at] = [place for _, place in attrs["either"]]
        beside: Any = np.take(x, other, axis=axis)
        return hull(found, beside, np.ones(found.shape, bool))
    return as_array(found)


def _first(indices: Any, outside: Any) -> str:
    """The first index that is outside, in words."""
    if not isinstance(indices, Bounded) and not is_plain(indices):
        return "an index"
    centres = indices.value if isinstance(indices, Bounded) else np.asarray(indices)
    return f"index {int(centres[certain_and_possible(outside)[0]].reshape(-1)[0])}"


def _near_rule(near: Any) -> bool:
    return type(near) in (int, float) and 0 <= near < 1


def _outside(indices: Any, size: int) -> Any:
    return (indices < -size) | (indices >= size)


TAKE = record(
    "take",
    "The slices of x along an axis at the given indices; negative indices count from the end, others outside trap",
    ("x", "indices"),
    _take_type,
    _take,
    "ONNX Gather, docs/Operators.md; TVM relax.op.take",
    (
        Example((((5, 3), "float32"), ((2, 4), "int64")), {"axis": 0}, ranges={1: (-5, 5)}),
        Example((((2, 7, 3), "float32"), ((4,), "int32")), {"axis": -2}, ranges={1: (-7, 7)}),
        Example((((4, 3), "float32"), ((), "int64")), {"axis": 1}, ranges={1: (-3, 3)}),
        Example((((6, 2), "int8"), ((5,), "uint8")), {"axis": 0}, ranges={1: (0, 6)}),
    ),
    attrs={
        "axis": Attr("the axis of x that the indices are into, counted from the end if negative", 0),
        "near": Attr(
            "of a sum that is taken between places: how far off an implementation may be that computes the places, as a"
            " part of the axis; each number may be off by as much of the way to its neighbours (M9.10)",
            0.0,
        ),
        "either": Attr(
            "of places that are rounded, pairs of a place in the indices and another element that is as right there"
            " (M9.10)",
            (),
        ),
    },
    constraints={
        "C1": "axis is an integer",
        "C2": "near is a number of at least 0, below 1",
        "C3": "either is a tuple of pairs of places, and of a vector of indices only",
    },
    can_trap=True,
)

# --- nn.pad -----------------------------------------------------------------------------------------------------------

MODES = ("constant", "reflect", "edge")


def _pad_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    widths, mode, fill = attrs["pad_width"], attrs["mode"], attrs["pad_value"]
    PAD.require(
        is_tuple(widths, is_int) and len(widths) == 2 * x.ndim,
        "C1",
        f"pad_width is {widths!r}; {2 * x.ndim} integers are wanted: before each axis, then after each",
    )
    PAD.require(mode in MODES, "C2", f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    PAD.require(number_fits(fill, x.dtype), "C3", f"pad_value is {fill!r}, which is no number of {x.dtype}")
    shape: list[Dim] = []
    for a, size in enumerate(x.shape):
        before, after = widths[a], widths[a + x.ndim]
        if isinstance(size, int):
            fault = _pad_fault(mode, size, before, after)
            label, message = fault or ("C4", "")
            PAD.require(fault is None, label, f"axis {a} of {x} {message}")
        shape.append(simplify(size + before + after))
    return TensorType(tuple(shape), x.dtype)


def _pad_fault(mode: str, size: int, before: int, after: int) -> tuple[str, str] | None:
    """The broken constraint, and what is wrong with an axis of that size; None if nothing is."""
    size += min(before, 0) + min(after, 0)
    if size < 0:
        return "C4", f"is cropped by {-min(before, 0)} and {-min(after, 0)}, more than there is"
    most = max(before, after, 0)
    if mode == "reflect" and most and most >= size:
        return "C5", f"has {size} elements to reflect, too few for a padding of {most}; {size - 1} is the most"
    if mode == "edge" and most and size == 0:
        return "C5", "has no edge to repeat"
    return None


def _pad(attrs: Attrs, x: Any) -> Any:
    widths, mode = attrs["pad_width"], attrs["mode"]
    pairs = [(widths[a], widths[a + x.ndim]) for a in range(x.ndim)]
    for a, (before, after) in enumerate(pairs):
        fault = _pad_fault(mode, x.shape[a], before, after)
        if fault is not None:
            raise Trap("shape", f"nn.pad: axis {a} {fault[1]}", label="nn.pad.T1")
    # a negative width crops; what is left is padded
    x = as_array(x[tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, pairs, strict=True))])
    grown = [(max(b, 0), max(e, 0)) for b, e in pairs]
    if mode == "constant":
        return np.pad(x, grown, constant_values=fitted_scalar(attrs["pad_value"], dtype(x.dtype))) if x.ndim else x
    for a, (before, after) in enumerate(grown):
        if before or after:
            last = x.shape[a] - 1
            place = np.arange(-before, last + 1 + after)
            if mode == "edge":
                place = np.clip(place, 0, last)
            else:
                place = last - np.abs(last - np.abs(place))
            x = np.take(x, place, axis=a)
    return x


PAD = record(
    "nn.pad",
    "The operand with elements added before and after each axis: one number, the operand mirrored without repeating its"
    " border, or its border repeated; a negative width crops, before anything is added",
    ("x",),
    _pad_type,
    _pad,
    "ONNX Pad, docs/Operators.md; TVM relax.op.nn.pad",
    (
        Example((((2, 3), "float32"),), {"pad_width": (1, 0, 2, 4), "pad_value": 1.5}),
        Example((((5, 4), "float32"),), {"pad_width": (-1, 2, 3, -2)}),
        Example((((5, 4), "float32"),), {"pad_width": (4, 0, 2, 3), "mode": "reflect"}),
        Example((((5, 4), "float32"),), {"pad_width": (-2, 5, 2, 0), "mode": "edge"}),
        Example((((3, 2), "int8"),), {"pad_width": (1, 0, 0, 1), "pad_value": -128}),
    ),
    attrs={
        "pad_width": Attr("how many elements are added before each axis, then after each; negative ones are removed"),
        "mode": Attr('what is added: "constant", "reflect" or "edge"', "constant"),
        "pad_value": Attr("the number that is added in mode constant", 0.0),
    },
    constraints={
        "C1": "pad_width is twice as many integers as there are axes",
        "C2": "mode is constant, reflect or edge",
        "C3": "pad_value is a number; for an integer or bool dtype one that the dtype has",
        "C4": "no axis is cropped by more than its size",
        "C5": "what is left of an axis is larger than its padding in mode reflect, and not empty in mode edge",
    },
    can_trap=True,
)
