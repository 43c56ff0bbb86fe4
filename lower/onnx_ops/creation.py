"""Constants, shapes, casts and what passes a value on (specs/lower.md, "Import")."""

from __future__ import annotations

from math import ceil, isfinite, prod

import numpy as np
from onnx import TensorProto

from assay.lower.onnx_ops.node import MOST_ELEMENTS, Node, Rule, number, tensor
from assay.lower.onnx_ops.tensors import array_of, dtype_named, dtype_of
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64, DType
from assay.semantics.graph import Expr

SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def constant(node: Node) -> Expr:
    """The tensor in the one attribute that is given."""
    given = [(k, v) for k, v in node.attrs.items() if v is not None]
    if len(given) != 1:
        raise node.wrong(f"{len(given)} values are given; one is wanted")
    name, value = given[0]
    match name:
        case "value":
            return node.constant(array_of(value, f"{node}: value", node.builder.folder))
        case "value_float" | "value_floats":
            return node.constant(np.array(value, np.float32))
        case "value_int" | "value_ints":
            return node.constant(np.array(value, np.int64))
        case _:
            raise node.unsupported(f"{name}: strings and sparse tensors are not supported")


def constant_of_shape(node: Node) -> Expr:
    """One number everywhere; float32 zeros by default. The tensor is not made here, however large it is."""
    shape = node.dims(0)
    if any(isinstance(d, int) and d < 0 for d in shape) or tensor(node[0]).ndim != 1:
        raise node.wrong(f"operand input is {shape}; a vector of sizes is wanted")
    value: TensorProto | None = node.attrs["value"]
    if value is None:
        return node.call("full", shape=shape, fill_value=0.0, dtype="float32")
    fill = array_of(value, f"{node}: value", node.builder.folder)
    if fill.size != 1:
        raise node.wrong(f"value has the shape {fill.shape}; one element is wanted")
    element = node.constant(fill.reshape(()))
    return node.call("full", shape=shape, fill_value=number(fill.reshape(-1)[0]), dtype=tensor(element).dtype.name)


def shape(node: Node) -> Expr:
    """The sizes of the axes from `start` up to `end`."""
    x = tensor(node[0])
    part = slice(node.attrs.get("start") or 0, node.attrs.get("end"))
    dims = x.shape[part]
    if all(isinstance(d, int) for d in dims):
        return node.constant(np.array(dims, np.int64))
    whole = node.call("shape_of", node[0])
    if len(dims) == x.ndim:
        return whole
    begin, end, _ = part.indices(x.ndim)
    return node.call("strided_slice", whole, axes=(0,), begin=(begin,), end=(end,), strides=(1,))


def size(node: Node) -> Expr:
    x = tensor(node[0])
    if x.is_static:
        return node.constant(prod(x.static_shape), INT64)
    return node.call("prod", node.call("shape_of", node[0]), axis=(0,), keepdims=False)


def range_(node: Node) -> Expr:
    """start, start + delta, ... up to and without limit. The operands must be constants, of which the sizes follow."""
    start, limit, delta = (node.builder.value(node[i]) for i in range(3))
    if start is None or limit is None or delta is None:
        raise node.unsupported("operands that are only known when the model runs; constants are wanted")
    if not start.size == limit.size == delta.size == 1 or not delta.reshape(())[()]:
        raise node.wrong("three scalars are wanted, of which delta is not 0")
    begin, end, step = (number(v.reshape(())[()]) for v in (start, limit, delta))
    count = max(0, ceil((end - begin) / step)) if isfinite((end - begin) / step) else MOST_ELEMENTS + 1
    if count > MOST_ELEMENTS:
        raise node.unsupported(f"more than {MOST_ELEMENTS} elements")
    of = tensor(node[0]).dtype
    return node.constant(np.array([begin + i * step for i in range(count)]), of)


# --- casts --------------------------------------------------------------------------------------------------------


def cast(node: Node) -> Expr:
    to = node.attrs["to"]
    what = f"{node}: to"
    return _cast(node, dtype_named(to, what) if isinstance(to, str) else dtype_of(to, what))


def _cast(node: Node, to: DType) -> Expr:
    """A number that is too large for a float8 becomes its largest, unless `saturate` is 0; see the table at Cast-19.

    There an infinity becomes the largest number too, but NaN in the types without infinities and negative zero.
    """
    x = node[0]
    of = tensor(x).dtype
    if to.name == "float8_e8m0fnu" and of is not to:
        raise node.unsupported("casts to float8e8m0, which has rounding modes of its own")
    if to.name in SATURATING and of is not to and node.attrs.get("saturate", 1):
        # a float8 cannot hold another's largest number, an integer dtype may not
        x = node.cast(x, FLOAT64) if not of.is_float else node.cast(x, FLOAT32) if of.bits < 16 else x
        clipped = node.call("clip", x, min=to.min, max=to.max)
        if to.name.endswith("fnuz"):
            infinite = node.call("equal", node.call("abs", x), node.constant(float("inf"), tensor(x).dtype))
            clipped = node.call("where", infinite, x, clipped)
        x = clipped
    return node.cast(x, to)


def identity(node: Node) -> Expr:
    return node[0]


TABLE: dict[str, Rule] = {
    "Cast": cast,
    "CastLike": lambda node: _cast(node, tensor(node[1]).dtype),
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Identity": identity,
    "Range": range_,
    "Shape": shape,
    "Size": size,
}
