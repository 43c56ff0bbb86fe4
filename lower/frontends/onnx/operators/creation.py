"""Constants, shapes, casts and what passes a value on (specs/lower.md, "Import")."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.sparse import dense
from assay.semantics.dtypes import FLOAT32, INT64, dtype
from assay.semantics.graph import Expr
from assay.semantics.text.relax.build import python_number


def constant(node: Node) -> Expr:
    """The tensor in the one attribute that is given."""
    given = [(k, v) for k, v in node.attrs.items() if v is not None]
    if len(given) != 1:
        raise node.wrong(f"{len(given)} values are given; one is wanted")
    name, value = given[0]
    match name:
        case "value":
            made = node.constant(node.stored(name))
            return node.text(made) if value.data_type == TensorProto.STRING else made
        case "value_float" | "value_floats":
            return node.constant(value, FLOAT32)
        case "value_int" | "value_ints":
            return node.constant(value, INT64)
        case "value_string" | "value_strings":
            return node.text(node.constant(node.strings.numbers(value)))
        case _:
            return node.constant(dense(value, f"{node}: {name}", node.builder.folder))


def constant_of_shape(node: Node) -> Expr:
    """One number everywhere; float32 zeros by default. The tensor is not made here, however large it is."""
    shape = node.sizes(0)
    if any(isinstance(d, int) and d < 0 for d in shape) or tensor(node[0]).ndim != 1:
        raise node.wrong(f"operand input is {shape}; a vector of sizes is wanted")
    if node.attrs["value"] is None:
        return node.full(shape, 0.0, FLOAT32)
    fill = node.stored("value")
    if fill.size != 1:
        raise node.wrong(f"value has the shape {fill.shape}; one element is wanted")
    return node.full(shape, python_number(fill.reshape(())), dtype(fill.dtype))


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
    """Translate Size: a constant for static shapes, else the product of the shape, int64 of rank 0."""
    x = tensor(node[0])
    if x.is_static:
        return node.constant(prod(x.static_shape), INT64)
    return node.call("prod", node.call("shape_of", node[0]), axis=(0,), keepdims=False)


TABLE: dict[str, Rule] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Identity": lambda node: node[0],
    "Shape": shape,
    "Size": size,
}
