"""Movement: the same elements at other places (specs/semantics.md, "Movement"). No arithmetic, so every bound is zero.

reshape, squeeze and expand_dims are views: their result is the operand's bytes under another shape. The records of
strided_slice, take and nn.pad are in `assay.semantics.ops.slicing`.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from assay.semantics.errors import Crash
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import identity_type, normalize_axes, normalize_axis, same_dtype, show_shapes
from assay.semantics.ops.meeting import is_one_or
from assay.semantics.ops.sizes import is_dim, is_int, missing_dim, same_size
from assay.semantics.ops.slicing import PAD, STRIDED_SLICE, TAKE, is_tuple, record
from assay.semantics.scalar import Dim, provably_equal, show, simplify
from assay.semantics.types import TensorType, TupleType

# --- views ------------------------------------------------------------------------------------------------------------


def _reshape_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    shape = attrs["shape"]
    open_ = [d for d in shape if is_int(d) and d == -1] if isinstance(shape, tuple) else []
    RESHAPE.require(
        is_tuple(shape, lambda d: is_dim(d, -1)) and len(open_) <= 1,
        "C1",
        f"shape is {shape!r}; a tuple of sizes is wanted, of which one may be -1",
    )
    if not open_:
        RESHAPE.require(
            same_size(x.shape, shape), "C2", f"{show_shapes([x.shape, shape])} cannot be shown to have one size"
        )
        return TensorType(tuple(map(simplify, shape)), x.dtype)
    known = [d for d in shape if not (is_int(d) and d == -1)]
    missing = missing_dim(x.shape, known)
    said = f"cannot tell -1 in {show_shapes([shape])} from {x}; write the size there"
    RESHAPE.require(missing is not None, "C3", said)
    assert missing is not None
    return TensorType(tuple(missing if is_int(d) and d == -1 else simplify(d) for d in shape), x.dtype)


def _reshape(attrs: Attrs, x: Any) -> Any:
    shape = attrs["shape"]
    if -1 in shape:
        missing = missing_dim(x.shape, [d for d in shape if d != -1])
        if missing is None:
            raise Crash(f"reshape: cannot tell -1 in {shape} from {x.shape}, though the type rule could")
        shape = tuple(missing if d == -1 else d for d in shape)
    return x.reshape(shape)


RESHAPE = record(
    "reshape",
    "The elements in row-major order under another shape of the same size; -1 stands for what is missing",
    ("x",),
    _reshape_type,
    _reshape,
    "ONNX Reshape, docs/Operators.md; TVM relax.op.reshape",
    (
        Example((((2, 3, 4), "float32"),), {"shape": (6, 4)}),
        Example((((2, 3, 4), "float32"),), {"shape": (8, -1)}),
        Example((((0, 3), "float32"),), {"shape": (-1, 3)}),
        Example((((), "int32"),), {"shape": (1, 1)}),
    ),
    attrs={"shape": Attr("the sizes of the result, one of which may be -1")},
    constraints={
        "C1": "shape is a tuple of sizes, of which at most one is -1",
        "C2": "the operand and the result have equally many elements, for all values of their symbols",
        "C3": (
            "-1 stands for one size: dims that stand on both sides cancel, what is left of the others is a number"
            " that divides what is left of the operand's"
        ),
    },
    view=True,
)


def _squeeze_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    axis = attrs["axis"]
    SQUEEZE.require(is_tuple(axis, is_int), "C1", f"axis is {axis!r}; a tuple of integers is wanted")
    axes = normalize_axes("squeeze", axis, x.ndim)
    for a in axes:
        d = x.shape[a]
        SQUEEZE.require(isinstance(d, int) and d == 1, "C2", f"axis {a} of {x} has size {show(d)}, not 1")
    return TensorType(tuple(d for a, d in enumerate(x.shape) if a not in axes), x.dtype)


SQUEEZE = record(
    "squeeze",
    "The operand without some axes of size 1",
    ("x",),
    _squeeze_type,
    lambda attrs, x: x.reshape(
        tuple(d for a, d in enumerate(x.shape) if a not in normalize_axes("squeeze", attrs["axis"], x.ndim))
    ),
    "ONNX Squeeze, docs/Operators.md; TVM relax.op.squeeze",
    (
        Example((((2, 1, 3, 1), "float32"),), {"axis": (1, -1)}),
        Example((((1, 2, 1), "int8"),), {"axis": (0,)}),
        Example((((2, 3), "float32"),), {"axis": ()}),
    ),
    attrs={"axis": Attr("the axes that vanish, negative ones counted from the end")},
    constraints={"C1": "axis is a tuple of integers", "C2": "each axis that vanishes has size 1"},
    view=True,
)


def _expand_dims_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    axis = attrs["axis"]
    EXPAND_DIMS.require(is_tuple(axis, is_int), "C1", f"axis is {axis!r}; a tuple of integers is wanted")
    return TensorType(_expanded(axis, x.shape), x.dtype)


def _expanded(axis: tuple[int, ...], shape: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = len(shape) + len(axis)
    axes = normalize_axes("expand_dims", axis, rank)
    rest = iter(shape)
    return tuple(1 if a in axes else next(rest) for a in range(rank))


EXPAND_DIMS = record(
    "expand_dims",
    "The operand with axes of size 1 at the given positions of the result",
    ("x",),
    _expand_dims_type,
    lambda attrs, x: x.reshape(_expanded(attrs["axis"], x.shape)),
    "ONNX Unsqueeze, docs/Operators.md; TVM relax.op.expand_dims",
    (
        Example((((2, 3), "float32"),), {"axis": (1,)}),
        Example((((2, 3), "float32"),), {"axis": (-1, 0)}),
        Example((((), "float32"),), {"axis": (0, 1)}),
    ),
    attrs={"axis": Attr("the positions of the new axes in the result, negative ones counted from its end")},
    constraints={"C1": "axis is a tuple of integers"},
    view=True,
)

# --- whole axes -------------------------------------------------------------------------------------------------------


def _permute_dims_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    axes = attrs["axes"]
    PERMUTE_DIMS.require(
        axes is None or is_tuple(axes, is_int), "C1", f"axes is {axes!r}; a tuple of integers is wanted, or None"
    )
    order = range(x.ndim)[::-1] if axes is None else [normalize_axis("permute_dims", a, x.ndim) for a in axes]
    PERMUTE_DIMS.require(
        sorted(order) == list(range(x.ndim)), "C2", f"axes {axes!r} is no order of the {x.ndim} axes of {x}"
    )
    return TensorType(tuple(x.shape[a] for a in order), x.dtype)


PERMUTE_DIMS = record(
    "permute_dims",
    "The operand with its axes in another order: axis k of the result is axis axes[k] of the operand",
    ("x",),
    _permute_dims_type,
    lambda attrs, x: x.transpose(attrs["axes"]),
    "ONNX Transpose, docs/Operators.md; TVM relax.op.permute_dims",
    (
        Example((((2, 3, 4), "float32"),), {"axes": (1, -1, 0)}),
        Example((((2, 3, 4), "float32"),)),
        Example((((), "float32"),), {"axes": ()}),
    ),
    attrs={"axes": Attr("for each axis of the result that of the operand; None reverses them", None)},
    constraints={"C1": "axes is None or a tuple of integers", "C2": "axes names each axis of the operand once"},
)


def _concat_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    axis = attrs["axis"]
    CONCAT.require(is_int(axis), "C1", f"axis is {axis!r}, not an integer")
    of = same_dtype("concat", types)
    first = types[0]
    CONCAT.require(
        all(t.ndim == first.ndim for t in types), "C2", f"shapes {show_shapes([t.shape for t in types])} differ in rank"
    )
    axis = normalize_axis("concat", axis, first.ndim)
    length: Dim = 0
    for i, t in enumerate(types):
        for a, (d, e) in enumerate(zip(first.shape, t.shape, strict=True)):
            CONCAT.require(
                a == axis or provably_equal(d, e),
                "C3",
                f"operand {i} has size {show(e)} in axis {a}, operand 0 has {show(d)}; only axis {axis} may differ",
            )
        length = simplify(length + t.shape[axis])
    return TensorType((*first.shape[:axis], length, *first.shape[axis + 1 :]), of)


CONCAT = record(
    "concat",
    "The operands one after another along an axis",
    ("*xs",),
    _concat_type,
    lambda attrs, *xs: np.concatenate(xs, axis=attrs["axis"]),
    "ONNX Concat, docs/Operators.md; TVM relax.op.concat",
    (
        Example((((2, 3, 5), "float32"), ((2, 4, 5), "float32"), ((2, 1, 5), "float32")), {"axis": 1}),
        Example((((2, 3), "float32"), ((4, 3), "float32"))),
        Example((((2, 3), "int8"), ((2, 0), "int8")), {"axis": -1}),
        Example((((3, 2), "float32"),), {"axis": 0}),
    ),
    attrs={"axis": Attr("the axis along which they follow one another, counted from the end if negative", 0)},
    constraints={
        "C1": "axis is an integer",
        "C2": "the operands have one rank",
        "C3": "the operands have equal sizes in every other axis",
    },
)


def _split_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TupleType:
    (x,) = types
    sections, axis = attrs["sections"], attrs["axis"]
    SPLIT.require(is_int(axis), "C1", f"axis is {axis!r}, not an integer")
    SPLIT.require(
        is_tuple(sections, is_dim) and len(sections) > 0, "C2", f"sections is {sections!r}; a tuple of sizes is wanted"
    )
    axis = normalize_axis("split", axis, x.ndim)
    whole: Dim = 0
    for s in sections:
        whole = simplify(whole + s)
    SPLIT.require(
        provably_equal(whole, x.shape[axis]),
        "C3",
        f"sections add up to {show(whole)}, axis {axis} of {x} has size {show(x.shape[axis])}",
    )
    return TupleType(tuple(TensorType((*x.shape[:axis], simplify(s), *x.shape[axis + 1 :]), x.dtype) for s in sections))


def _split(attrs: Attrs, x: Any) -> tuple[Any, ...]:
    lead = (slice(None),) * normalize_axis("split", attrs["axis"], x.ndim)
    return tuple(x[(*lead, slice(a, b))] for a, b in pairwise(accumulate(attrs["sections"], initial=0)))


SPLIT = record(
    "split",
    "The operand cut along an axis into parts of the given sizes",
    ("x",),
    _split_type,
    _split,
    "ONNX Split, docs/Operators.md; TVM relax.op.split, which takes the places of the cuts instead",
    (
        Example((((2, 9, 3), "float32"),), {"sections": (4, 5), "axis": 1}),
        Example((((7, 2), "float32"),), {"sections": (1, 0, 6)}),
        Example((((2, 3), "int8"),), {"sections": (3,), "axis": -1}),
    ),
    attrs={
        "sections": Attr("the size of each part along the axis"),
        "axis": Attr("the axis that is cut, counted from the end if negative", 0),
    },
    constraints={
        "C1": "axis is an integer",
        "C2": "sections is a tuple of at least one size",
        "C3": "the sections add up to the size of the axis",
    },
)


def _broadcast_to_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    shape = attrs["shape"]
    BROADCAST_TO.require(is_tuple(shape, is_dim), "C1", f"shape is {shape!r}; a tuple of sizes is wanted")
    lead = len(shape) - x.ndim
    BROADCAST_TO.require(lead >= 0, "C2", f"{x} has more axes than {show_shapes([shape])}")
    for a, d in enumerate(x.shape, start=lead):
        BROADCAST_TO.require(
            is_one_or(d, shape[a]),
            "C3",
            f"{show(d)} against {show(shape[a])} in axis {a} of {show_shapes([shape])}; it must be 1 or the same",
        )
    return TensorType(tuple(map(simplify, shape)), x.dtype)


BROADCAST_TO = record(
    "broadcast_to",
    "The operand repeated along new leading axes and axes of size 1",
    ("x",),
    _broadcast_to_type,
    lambda attrs, x: np.broadcast_to(x, attrs["shape"]),
    "TVM relax.op.broadcast_to; ONNX Expand, docs/Operators.md, which also broadcasts the shape",
    (
        Example((((3, 1), "float32"),), {"shape": (2, 3, 4)}),
        Example((((2, 3), "float32"),), {"shape": (2, 3)}),
        Example((((), "int8"),), {"shape": (2, 3)}),
        Example((((1, 3), "float32"),), {"shape": (0, 3)}),
    ),
    attrs={"shape": Attr("the sizes of the result")},
    constraints={
        "C1": "shape is a tuple of sizes",
        "C2": "the result has at least as many axes as the operand",
        "C3": "each size of the operand, aligned at the end, is 1 or that of the result, whatever the symbols are",
    },
)

DEVICE_COPY = record(
    "device_copy",
    "The operand's elements on another device: the operand's device is the source, the call's the destination",
    ("x",),
    identity_type,
    lambda attrs, x: x.copy(),
    "TVM relay.op.device_copy; relax.op.to_vdevice",
    (
        Example((((2, 3), "float32"),)),
        Example((((), "bool"),)),
        Example((((0, 3), "int8"),)),
    ),
)

TABLE: tuple[Operator, ...] = (
    RESHAPE,
    SQUEEZE,
    EXPAND_DIMS,
    PERMUTE_DIMS,
    CONCAT,
    STRIDED_SLICE,
    SPLIT,
    TAKE,
    PAD,
    BROADCAST_TO,
    DEVICE_COPY,
)
