"""The domain ai.onnx.ml: features and labels (specs/lower.md, "Import")."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics import graph
from assay.semantics.dtypes import FLOAT32, INT64, dtype
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import simplify

Array = np.ndarray[Any, Any]


def array_feature_extractor(node: Node) -> Expr:
    """The elements at some places of the last axis; of a vector as a matrix of one row."""
    x, places = tensor(node[0]), tensor(node[1])
    if not x.ndim:
        raise node.wrong("X is a scalar; an axis is wanted")
    count = simplify(product(places.shape))
    found = node.call("take", node[0], node.shaped(node[1], (count,)), axis=x.ndim - 1)
    return node.shaped(found, (1, count) if x.ndim == 1 else (*x.shape[:-1], count))


def binarizer(node: Node) -> Expr:
    """Translate Binarizer: 1 above the threshold, else 0, in the operand's dtype."""
    of = tensor(node[0]).dtype
    threshold = node.attrs["threshold"]
    if not of.is_float and threshold != int(threshold):  # above it is above the whole number below
        threshold = float(np.floor(threshold))
    return node.cast(node.call("greater", node[0], threshold), of)


def label_encoder(node: Node) -> Expr:
    """The value beside the first key that is equal, NaN equal to NaN; else a default."""
    if node.version == 1:
        return _label_encoder_1(node)
    keys, values = _labels(node, "keys"), _labels(node, "values")
    if keys.shape != values.shape or keys.ndim != 1:
        raise node.wrong(f"keys of shape {keys.shape}, values of shape {values.shape}; as many are wanted")
    if isinstance(keys, _Numbers) != (node[0] in node.builder.texts):
        raise node.wrong("strings are looked up among numbers, or numbers among strings")
    if node.attrs.get("default_tensor") is not None:
        default = node.stored("default_tensor").reshape(-1)[:1]
    elif isinstance(values, _Numbers):
        default = node.strings.numbers([node.attrs["default_string"]])
    else:
        default = np.array([node.attrs["default_float" if values.dtype == np.float32 else "default_int64"]])
    x = node[0]
    if tensor(x).dtype is not dtype(keys.dtype):
        raise node.wrong(f"X is {tensor(x)}, the keys are {dtype(keys.dtype)}")
    result = _looked_up(node, x, keys, values, default.astype(values.dtype).reshape(()))
    return node.text(result) if isinstance(values, _Numbers) else result


def _label_encoder_1(node: Node) -> Expr:
    """Version 1: a string's place in the list of classes, or the string at a place."""
    words = node.attrs.get("classes_strings") or ()
    codes, places = node.strings.numbers(words), np.arange(len(words))
    if node[0] in node.builder.texts:
        return _looked_up(node, node[0], codes, places, np.array(node.attrs["default_int64"]))
    default = node.strings.numbers([node.attrs["default_string"]])[0]
    return node.text(_looked_up(node, node[0], places, codes, default))


MOST_CHOSEN = 16
"""Of more keys the first that is equal is found in a table, not by a choice for each."""


def _looked_up(node: Node, x: Expr, keys: Array, values: Array, default: Array) -> Expr:
    """The value beside the first key that is equal, NaN equal to NaN; else the default."""
    missing = node.call("not_equal", x, x) if tensor(x).dtype.is_float else None
    if len(keys) > MOST_CHOSEN:
        return _looked_up_in_table(node, x, keys, values, default, missing)
    result = node.call("broadcast_to", node.constant(default), shape=tensor(x).shape)
    for k, v in zip(keys[::-1], values[::-1], strict=True):
        same = missing if missing is not None and k != k else node.call("equal", x, node.constant(k))
        result = node.call("where", same, node.constant(v, dtype(values.dtype)), result)
    return result


def _looked_up_in_table(node: Node, x: Expr, keys: Array, values: Array, default: Array, missing: Expr | None) -> Expr:
    """The place of the first key that is equal, or the one behind all, in a table of the values and the default."""
    places = node.constant(np.arange(len(keys)))
    same = node.call("equal", node.call("expand_dims", x, axis=(tensor(x).ndim,)), node.constant(keys))
    found = node.call("where", same, places, len(keys))
    place = node.call("min", found, axis=(tensor(x).ndim,), keepdims=False)
    if missing is not None and np.any(keys != keys):
        place = node.call("where", missing, int(np.argmax(keys != keys)), place)
    return node.call("take", node.constant(np.r_[values, default]), place, axis=0)


def leave_repeated_open(node: Node, keys: Array) -> None:
    """Of a key that is there more than once the standard does not say which counts."""
    if np.unique(keys).size != keys.size:
        node.leaves_open("which of equal keys counts")


def category_mapper(node: Node) -> Expr:
    """Translate CategoryMapper: strings to whole numbers or back, by what X is."""
    words, numbers = node.attrs.get("cats_strings") or (), np.array(node.attrs.get("cats_int64s") or (), np.int64)
    if len(words) != len(numbers):
        raise node.wrong(f"{len(words)} cats_strings and {len(numbers)} cats_int64s; as many are wanted")
    codes = node.strings.numbers(words)
    leave_repeated_open(node, codes if node[0] in node.builder.texts else numbers)
    if node[0] in node.builder.texts:
        return _looked_up(node, node[0], codes, numbers, np.array(node.attrs["default_int64"]))
    default = node.strings.numbers([node.attrs["default_string"]])[0]
    return node.text(_looked_up(node, node[0], numbers, codes, default))


def one_hot_encoder(node: Node) -> Expr:
    """Translate OneHotEncoder: 1 at the place of the category, all 0 for one that is not there. With `zeros` 0 a run in
    which one is not there traps (assert_op.T1)."""
    if node[0] in node.builder.texts:
        kinds = node.strings.numbers(node.attrs.get("cats_strings") or ())
    else:
        kinds = np.array(node.attrs.get("cats_int64s") or (), np.int64)
    if not kinds.size:
        raise node.wrong("no categories of the operand's kind, strings or whole numbers, are given")
    leave_repeated_open(node, kinds)
    x = node.call("expand_dims", node.cast(node[0], INT64), axis=(tensor(node[0]).ndim,))
    made = node.call("equal", x, node.constant(kinds))
    if not node.attrs["zeros"]:
        made = node.named(made)
        one = node.call("max", node.cast(made, INT64), axis=(tensor(made).ndim - 1,), keepdims=False)
        off = node.call("sum", node.cast(node.call("equal", one, 0), INT64), axis=None, keepdims=False)
        every = node.call("equal", off, 0)
        node.builder.runs.demand(graph.assert_op(every, format=f"{node}: an element is none of the categories"))
    return node.cast(made, FLOAT32)


def feature_vectorizer(node: Node) -> Expr:
    """Translate FeatureVectorizer: the operands beside one another as float32, a vector as one row."""
    sizes, parts = node.attrs.get("inputdimensions") or (), []
    if len(sizes) != len(node.operands()):
        raise node.wrong(f"{len(sizes)} inputdimensions for {len(node.operands())} operands; as many are wanted")
    for x, size in zip(node.operands(), sizes, strict=True):
        shape = tensor(x).shape
        if len(shape) not in (1, 2) or (isinstance(shape[-1], int) and shape[-1] != size):
            raise node.wrong(f"an operand is {tensor(x)}; rows of {size} features are wanted")
        parts.append(node.cast(node.shaped(x, (1, *shape)) if len(shape) == 1 else x, FLOAT32))
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=1)


def zip_map(node: Node) -> Expr:
    """Translate ZipMap: the tensor itself, of which a column stands for each key (specs/lower.md, O25)."""
    words, x = node.attrs.get("classlabels_strings"), tensor(node[0])
    keys = words or node.attrs.get("classlabels_int64s") or ()
    if x.ndim != 2 or (isinstance(x.shape[1], int) and x.shape[1] != len(keys)):
        raise node.wrong(f"X is {x}; rows of {len(keys)} numbers, one for each label, are wanted")
    node.builder.columns[node[0]] = tuple(keys)
    return node[0]


class _Numbers(np.ndarray[Any, Any]):
    """An array of numbers of strings."""


def _labels(node: Node, name: str) -> Array:
    if (given := node.attrs.get(f"{name}_tensor")) is not None:
        found = node.stored(f"{name}_tensor")
        return found.view(_Numbers) if given.data_type == TensorProto.STRING else found
    for kind, of in (("int64s", np.int64), ("floats", np.float32)):
        if node.attrs.get(f"{name}_{kind}"):
            return np.array(node.attrs[f"{name}_{kind}"], of)
    if node.attrs.get(f"{name}_strings"):
        return node.strings.numbers(node.attrs[f"{name}_strings"]).view(_Numbers)
    raise node.wrong(f"no {name} are given")


TABLE: dict[str, Rule] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "CategoryMapper": category_mapper,
    "FeatureVectorizer": feature_vectorizer,
    "LabelEncoder": label_encoder,
    "OneHotEncoder": one_hot_encoder,
    "ZipMap": zip_map,
}
"""Of the domain ai.onnx.ml."""
