"""Movement, selection and creation as ONNX (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, numpy_helper

from assay.lower.onnx_export.use import ExportedCall, Results, Rule
from assay.lower.onnx_export.writer import Value, accepts
from assay.semantics.dtypes import FLOAT32, INT32, INT64, dtype
from assay.semantics.scalar import Dim, simplify
from assay.semantics.types import TensorType, TupleType

# --- shapes -------------------------------------------------------------------------------------------------------


def reshape(use: ExportedCall) -> Value:
    """Export reshape as Reshape to the shape of the result."""
    return use.shaped(use.args[0], use.type.shape)


def squeeze(use: ExportedCall) -> Value:
    """Export squeeze as Squeeze; without axes it is Identity."""
    axes = [a % use.rank for a in use.attrs["axis"]]
    return use.op("Squeeze", use.args[0], use.ints(axes)) if axes else use.op("Identity", *use.args)


def expand_dims(use: ExportedCall) -> Value:
    """Export expand_dims as Unsqueeze."""
    return use.op("Unsqueeze", use.args[0], use.ints([a % use.type.ndim for a in use.attrs["axis"]]))


def permute_dims(use: ExportedCall) -> Value:
    """Export permute_dims as Transpose; of rank 0 it is Identity."""
    axes = use.attrs["axes"]
    order = range(use.rank)[::-1] if axes is None else [a % use.rank for a in axes]
    return use.op("Transpose", *use.args, perm=list(order)) if use.rank else use.op("Identity", *use.args)


def broadcast_to(use: ExportedCall) -> Value:
    """Export broadcast_to as Expand."""
    return use.moved("Expand", use.args[0], use.dims(use.type.shape))


# --- parts --------------------------------------------------------------------------------------------------------


def strided_slice(use: ExportedCall) -> Value:
    """Places as they are; where the sizes are known, those that a backward slice of ONNX would move are said
    exactly."""
    axes = [a % use.rank for a in use.attrs["axes"]]
    steps = use.attrs["strides"] or (1,) * len(axes)
    begin, end = list(use.attrs["begin"]), list(use.attrs["end"])
    for i, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        size, b = use.types[0].shape[axis], begin[i]
        if step > 0 or isinstance(b, int) and b >= -1:
            continue
        if not isinstance(size, int) or not isinstance(b, int):
            raise use.unsupported(f"a backward slice from {b} of an axis of size {size}")
        if b < -size:  # nothing is taken
            begin[i], end[i] = 0, 0
    return use.moved("Slice", use.args[0], use.dims(begin), use.dims(end), use.ints(axes), use.ints(steps))


def split(use: ExportedCall) -> Results:
    """Export split as Split into sections of the given sizes."""
    assert isinstance(use.result, TupleType)
    sizes = use.dims(use.attrs["sections"])
    x, back = use.carrier("Split", use.args[0])
    return [back(v) for v in use.ops("Split", x, sizes, of=[x.dtype] * len(use.result.fields), axis=use.axis())]


def take(use: ExportedCall) -> Value:
    """Export take as Gather; indices of other dtypes become int64."""
    x, indices = use.args
    if not accepts("Gather", 1, indices.dtype):
        indices = use.cast(indices, INT64)
    return use.moved("Gather", x, indices, axis=use.axis())


def pad(use: ExportedCall) -> Value:
    """Export pad as Pad, with a value only in the mode "constant"."""
    mode = use.attrs["mode"]
    widths = use.ints(use.attrs["pad_width"])
    if mode != "constant":
        return use.moved("Pad", use.args[0], widths, mode=mode)
    return use.op("Pad", use.args[0], widths, use.number(use.attrs["pad_value"]), mode=mode)


def concat(use: ExportedCall) -> Value:
    """Export concat as Concat, in a dtype that ONNX's takes."""
    carried = [use.carrier("Concat", x) for x in use.args]
    return carried[0][1](use.op("Concat", *(x for x, _ in carried), axis=use.axis()))


# --- places -------------------------------------------------------------------------------------------------------


def gather_nd(use: ExportedCall) -> Value:
    """Export gather_nd as GatherND with int64 indices."""
    return use.moved("GatherND", use.args[0], use.cast(use.args[1], INT64))


def scatter_nd(use: ExportedCall) -> Value:
    """Export scatter_nd as ScatterND with int64 indices."""
    x, indices, updates = use.args
    return use.op("ScatterND", x, use.cast(indices, INT64), updates, reduction=use.attrs["reduction"])


def _filled(use: ExportedCall, x: Value, whole: Sequence[Dim], axis: int) -> Value:
    """`x` with zeros after it along an axis, which has then its size in `whole`."""
    there = use.op("Shape", x, of=INT64, start=axis, end=axis + 1)
    missing = use.op("Sub", use.dims((whole[axis],)), there)
    others = [use.dims((d,)) if a != axis else missing for a, d in enumerate(whole)]
    shape = others[0] if len(others) == 1 else use.op("Concat", *others, axis=0)
    zeros = use.op("ConstantOfShape", shape, of=x.dtype, value=_zero(x))
    return use.op("Concat", x, zeros, axis=axis)


def _zero(like: Value) -> TensorProto:
    return numpy_helper.from_array(np.zeros(1, like.dtype.numpy))


def nonzero(use: ExportedCall) -> Results:
    """ONNX gives as many columns as there are; zeros are put after them."""
    assert isinstance(use.result, TupleType)
    whole = use.result.fields[0]
    assert isinstance(whole, TensorType)
    x = use.args[0]
    if not use.rank:  # no axis, so no row of places
        found = use.op("NonZero", use.op("Unsqueeze", x, use.ints([0])), of=INT64)
        return use.writer.constant(np.zeros((0, 1), np.int64)), use.op("Shape", found, of=INT64, start=1, end=2)
    if not accepts("NonZero", 0, x.dtype):
        x = use.cast(x, FLOAT32 if x.dtype.is_float else INT32)
    found = use.op("NonZero", x, of=INT64)
    return _filled(use, found, whole.shape, 1), use.op("Shape", found, of=INT64, start=1, end=2)


def unique(use: ExportedCall) -> Results:
    """Export unique as Unique, its first places and counts filled with 0 to the static length."""
    rows = use.types[0].shape[:1]
    x = use.args[0]
    if not accepts("Unique", 0, x.dtype):
        x = use.cast(x, FLOAT32 if x.dtype.is_float else INT32)
    _, first, inverse, counts = use.ops(
        "Unique", x, of=[x.dtype, INT64, INT64, INT64], axis=0, sorted=int(use.attrs["sorted"])
    )
    count = use.op("Shape", first, of=INT64)
    return _filled(use, first, rows, 0), inverse, _filled(use, counts, rows, 0), count


# --- creation -----------------------------------------------------------------------------------------------------


def full(use: ExportedCall) -> Value:
    """Export full as Expand of a scalar."""
    of = dtype(use.attrs["dtype"])
    value = use.writer.constant(np.asarray(use.attrs["fill_value"]), of)
    return use.moved("Expand", value, use.dims(use.attrs["shape"]))


def arange(use: ExportedCall) -> Value:
    """Export arange as Range over int64 and a cast."""
    size = simplify(use.attrs["size"])
    end = use.number(size, INT64) if isinstance(size, int) else use.op("Squeeze", use.dims((size,)), use.ints([0]))
    counted = use.op("Range", use.number(0, INT64), end, use.number(1, INT64), of=INT64)
    return use.cast(counted, dtype(use.attrs["dtype"]))


TABLE: dict[str, Rule] = {
    "arange": arange,
    "broadcast_to": broadcast_to,
    "concat": concat,
    "device_copy": lambda use: use.op("Identity", *use.args),
    "expand_dims": expand_dims,
    "full": full,
    "gather_nd": gather_nd,
    "nn.pad": pad,
    "nonzero": nonzero,
    "permute_dims": permute_dims,
    "reshape": reshape,
    "scatter_nd": scatter_nd,
    "shape_of": lambda use: use.op("Shape", *use.args, of=INT64),
    "split": split,
    "squeeze": squeeze,
    "strided_slice": strided_slice,
    "take": take,
    "unique": unique,
}
