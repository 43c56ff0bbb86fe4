"""Constants, shapes, casts and what passes a value on (specs/lower.md, "Import")."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Rule, python_number, tensor
from assay.lower.frontends.onnx.string_table import texts_of
from assay.lower.frontends.onnx.tensors import array_of
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr


def constant(node: Node) -> Expr:
    """The tensor in the one attribute that is given."""
    given = [(k, v) for k, v in node.attrs.items() if v is not None]
    if len(given) != 1:
        raise node.wrong(f"{len(given)} values are given; one is wanted")
    name, value = given[0]
    match name:
        case "value":
            if value.data_type == TensorProto.STRING:
                return node.text(node.constant(node.strings.numbers(texts_of(value, f"{node}: value"))))
            return node.constant(array_of(value, f"{node}: value", node.builder.folder))
        case "value_float" | "value_floats":
            return node.constant(np.array(value, np.float32))
        case "value_int" | "value_ints":
            return node.constant(np.array(value, np.int64))
        case "value_string" | "value_strings":
            return node.text(node.constant(node.strings.numbers(value)))
        case _:
            raise node.unsupported(f"{name}: sparse tensors are not supported")


def constant_of_shape(node: Node) -> Expr:
    """One number everywhere; float32 zeros by default. The tensor is not made here, however large it is."""
    shape = node.sizes(0)
    if any(isinstance(d, int) and d < 0 for d in shape) or tensor(node[0]).ndim != 1:
        raise node.wrong(f"operand input is {shape}; a vector of sizes is wanted")
    value: TensorProto | None = node.attrs["value"]
    if value is None:
        return node.call("full", shape=shape, fill_value=0.0, dtype="float32")
    fill = array_of(value, f"{node}: value", node.builder.folder)
    if fill.size != 1:
        raise node.wrong(f"value has the shape {fill.shape}; one element is wanted")
    element = node.constant(fill.reshape(()))
    return node.call(
        "full", shape=shape, fill_value=python_number(fill.reshape(-1)[0]), dtype=tensor(element).dtype.name
    )


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


def identity(node: Node) -> Expr:
    """Translate Identity: the operand itself."""
    return node[0]


TABLE: dict[str, Rule] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Identity": identity,
    "Shape": shape,
    "Size": size,
}
