"""The domain ai.onnx.ml: features, labels, trees (specs/lower.md, "Import")."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import INT64, dtype
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
    of = dtype(values.dtype)
    x = node[0]
    result: Expr = node.constant(default.astype(values.dtype).reshape(()))
    if tensor(x).dtype is not dtype(keys.dtype):
        raise node.wrong(f"X is {tensor(x)}, the keys are {dtype(keys.dtype)}")
    missing = node.call("not_equal", x, x) if tensor(x).dtype.is_float else None
    result = node.call("broadcast_to", result, shape=tensor(x).shape)
    for k, v in zip(keys[::-1], values[::-1], strict=True):
        same = missing if missing is not None and k != k else node.call("equal", x, node.constant(k))
        result = node.call("where", same, node.constant(v, of), result)
    return node.text(result) if isinstance(values, _Numbers) else result


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


# --- trees --------------------------------------------------------------------------------------------------------

_COMPARE = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
_MEMBER = 6


class _Trees:
    """The trees as tables over all nodes, the leaves after the others; a leaf leads to itself."""

    def __init__(self, node: Node, of: np.dtype[Any]) -> None:
        def stored(name: str) -> Array:
            return node.stored(name).reshape(-1)

        self.node = node
        modes, splits, weights = stored("nodes_modes").astype(np.int64), stored("nodes_splits"), stored("leaf_weights")
        self.nodes, self.leaves = len(modes), len(weights)
        own = np.arange(self.nodes, self.nodes + self.leaves)
        branches = []
        for way in ("true", "false"):
            ids, leaf = (np.array(node.attrs[f"nodes_{way}{k}"], np.int64) for k in ("nodeids", "leafs"))
            if not len(ids) == len(leaf) == len(splits) == self.nodes:
                raise node.wrong(f"{self.nodes} modes, but {len(ids)} nodes_{way}nodeids, {len(splits)} splits")
            if np.any((ids < 0) | (ids >= np.where(leaf != 0, self.leaves, self.nodes))):
                raise node.wrong(f"nodes_{way}nodeids name a node or leaf that is not there")
            branches.append(np.r_[np.where(leaf != 0, ids + self.nodes, ids), own])
        self.true, self.false = branches
        if np.any((modes < 0) | (modes > _MEMBER)):
            raise node.wrong(f"nodes_modes are {modes.tolist()}; 0 to {_MEMBER} are wanted")
        self.modes = np.r_[modes, np.zeros(self.leaves, np.int64)]
        self.features = np.r_[np.array(node.attrs["nodes_featureids"], np.int64), np.zeros(self.leaves, np.int64)]
        self.splits = np.r_[splits, np.zeros(self.leaves, splits.dtype)].astype(of)
        missing = node.attrs.get("nodes_missing_value_tracks_true") or (0,) * self.nodes
        self.missing = np.r_[np.array(missing, bool), np.zeros(self.leaves, bool)]
        self.weights = weights.astype(of)
        self.targets = np.array(node.attrs["leaf_targetids"], np.int64)
        self.members = self._members(stored("membership_values") if node.attrs.get("membership_values") else None, of)
        roots = np.array(node.attrs["tree_roots"], np.int64)
        if np.any((roots < 0) | (roots >= self.nodes)):
            raise node.wrong(f"tree_roots are {roots.tolist()}; there are {self.nodes} nodes")
        # a tree that is one leaf is written as a node whose branches are both that leaf
        single = (self.true[roots] == self.false[roots]) & (self.true[roots] >= self.nodes)
        self.roots = np.where(single, self.true[roots], roots)

    def _members(self, values: Array | None, of: np.dtype[Any]) -> Array:
        """A row for each node, filled up with NaN, which equals nothing. Each set ends with NaN."""
        sets: list[list[float]] = [[]]
        for v in values if values is not None else ():
            if v != v:
                sets.append([])
            else:
                sets[-1].append(float(v))
        asking = np.flatnonzero(self.modes == _MEMBER)
        if len(asking) != len(sets) - 1:
            raise self.node.wrong(
                f"{len(asking)} nodes ask for members, but membership_values has {len(sets) - 1} sets"
            )
        table = np.full((len(self.modes), max(map(len, sets))), np.nan, of)
        for n, found in zip(asking, sets[:-1], strict=True):
            table[n, : len(found)] = found
        return table

    def depth(self) -> int:
        """The most steps from a root to a leaf; Invalid (onnx.C12) where a way leads in a circle."""
        at, steps = np.unique(self.roots), 0
        while np.any(at < self.nodes):
            steps += 1
            if steps > self.nodes:
                raise self.node.wrong("the trees have a circle")
            at = np.unique(np.r_[self.true[at], self.false[at]])
        return steps


def tree_ensemble(node: Node) -> Expr:
    """All rows go down all trees at once, a level at a time."""
    x = tensor(node[0])
    if x.ndim != 2:
        raise node.wrong(f"X is {x}; rows of features are wanted")
    trees = _Trees(node, np.dtype(x.dtype.numpy))
    rows, count = x.shape[0], len(trees.roots)
    at = node.call("broadcast_to", node.constant(trees.roots), shape=(rows, count))
    row = node.call("expand_dims", node.call("arange", size=rows), axis=(1,))
    row = node.call("expand_dims", node.call("broadcast_to", row, shape=(rows, count)), axis=(2,))

    def look(table: Array, of: Expr) -> Expr:
        return node.call("take", node.constant(table), of, axis=0)

    for _ in range(trees.depth()):
        feature = node.call("expand_dims", look(trees.features, at), axis=(2,))
        value = node.call("gather_nd", node[0], node.call("concat", row, feature, axis=2))
        holds = node.call("logical_and", node.call("not_equal", value, value), look(trees.missing, at))
        for mode in np.unique(trees.modes[: trees.nodes]):
            if mode == _MEMBER:
                same = node.call("equal", node.call("expand_dims", value, axis=(2,)), look(trees.members, at))
                found = node.call("sum", node.cast(same, INT64), axis=(2,), keepdims=False)
                here = node.call("greater", found, 0)
            else:
                here = node.call(_COMPARE[mode], value, look(trees.splits, at))
            holds = node.call("logical_or", holds, node.call("logical_and", here, look(trees.modes == mode, at)))
        at = node.call("where", holds, look(trees.true, at), look(trees.false, at))
    leaf = node.call("subtract", at, trees.nodes)
    return _transformed(node, _aggregated(node, trees, leaf, look))


def _aggregated(node: Node, trees: _Trees, leaf: Expr, look: Any) -> Expr:
    of = tensor(node[0]).dtype
    how = node.attrs["aggregate_function"]
    if how not in range(4):
        raise node.wrong(f"aggregate_function is {how}; 0 to 3 are wanted")
    neutral = of.max if how == 2 else of.min if how == 3 else 0
    weight = node.call("expand_dims", look(trees.weights, leaf), axis=(2,))
    target = node.call("expand_dims", look(trees.targets, leaf), axis=(2,))
    own = node.call("equal", target, node.call("arange", size=node.attrs["n_targets"]))
    part = node.call("where", own, weight, neutral)
    result = node.call({2: "min", 3: "max"}.get(how, "sum"), part, axis=(1,), keepdims=False)
    return node.call("divide", result, len(trees.roots)) if how == 0 else result


def _transformed(node: Node, x: Expr) -> Expr:
    how = node.attrs["post_transform"]
    if how not in range(3):
        raise node.unsupported(f"post_transform {how}; 0 (none), 1 (softmax) or 2 (logistic) is wanted")
    return x if how == 0 else node.call("nn.softmax", x, axis=1) if how == 1 else node.call("sigmoid", x)


TABLE: dict[str, Rule] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "LabelEncoder": label_encoder,
    "TreeEnsemble": tree_ensemble,
}
"""Of the domain ai.onnx.ml."""
