"""Ensembles of trees of ONNX's domain ai.onnx.ml (specs/lower.md, "Import").

TreeEnsemble, and the two operators that it replaced: their lists become the same tables. All rows go down all trees at
once, a level at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.linear_models import class_labels, first_largest, numbers_of, transformed
from assay.semantics.dtypes import FLOAT32, INT64, DType, dtype
from assay.semantics.graph import Expr

Array = np.ndarray[Any, Any]

_COMPARE = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
_MEMBER = 6
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class _Trees:
    """The trees as tables over all nodes, the leaves after the others; a leaf leads to itself."""

    nodes: int
    roots: Array
    true: Array
    false: Array
    modes: Array
    """Of the nodes that are no leaves, as are the next three."""
    features: Array
    splits: Array
    missing: Array
    members: Array | None
    """The numbers that a node of mode 6 asks for: a row for each node, filled up with NaN."""
    votes: Sequence[tuple[int, int, float]]
    """Leaf, target, weight; a leaf may have several, for one target too."""

    def depth(self, node: Node) -> int:
        """The most steps from a root to a leaf; Invalid (onnx.C12) where a way leads in a circle."""
        at, steps = np.unique(self.roots), 0
        while np.any(at < self.nodes):
            steps += 1
            if steps > self.nodes:
                raise node.wrong("the trees have a circle")
            at = np.unique(np.r_[self.true[at], self.false[at]])
        return steps

    def weights(self, node: Node, targets: int, neutral: float, of: np.dtype[Any]) -> Array:
        """What each leaf votes: (leaf, vote, target), `neutral` where it does not. Most leaves vote once for a
        target."""
        if any(not 0 <= target < targets for _, target, _ in self.votes):
            raise node.wrong(f"a leaf votes for a target that is not there; there are {targets}")
        count: dict[tuple[int, int], int] = {}
        placed = []
        for leaf, target, weight in self.votes:
            k = count[leaf, target] = count.get((leaf, target), 0) + 1
            placed.append((leaf, k - 1, target, weight))
        leaves, deep = len(self.true) - self.nodes, max(count.values(), default=1)
        node.require_room(leaves * deep * targets)
        table = np.full((leaves, deep, targets), neutral, of)
        for leaf, k, target, weight in placed:
            table[leaf, k, target] = weight
        return table


def _with_leaves(inner: Array, leaves: int, fill: Any = 0) -> Array:
    made: Array = np.r_[inner, np.full(leaves, fill, inner.dtype)]
    return made


# --- TreeEnsemble -------------------------------------------------------------------------------------------------


def _of_tables(node: Node, of: np.dtype[Any]) -> _Trees:
    """The trees of TreeEnsemble: nodes and leaves have numbers of their own."""

    def stored(name: str) -> Array:
        return node.stored(name).reshape(-1)

    modes, splits, weights = stored("nodes_modes").astype(np.int64), stored("nodes_splits"), stored("leaf_weights")
    nodes, leaves = len(modes), len(weights)
    own = np.arange(nodes, nodes + leaves)
    branches = []
    for way in ("true", "false"):
        ids, leaf = (np.array(node.attrs[f"nodes_{way}{k}"], np.int64) for k in ("nodeids", "leafs"))
        if not len(ids) == len(leaf) == len(splits) == nodes:
            raise node.wrong(f"{nodes} modes, but {len(ids)} nodes_{way}nodeids, {len(splits)} splits")
        if np.any((ids < 0) | (ids >= np.where(leaf != 0, leaves, nodes))):
            raise node.wrong(f"nodes_{way}nodeids name a node or leaf that is not there")
        branches.append(np.r_[np.where(leaf != 0, ids + nodes, ids), own])
    true, false = branches
    if np.any((modes < 0) | (modes > _MEMBER)):
        raise node.wrong(f"nodes_modes are {modes.tolist()}; 0 to {_MEMBER} are wanted")
    targets = np.array(node.attrs["leaf_targetids"], np.int64)
    roots = np.array(node.attrs["tree_roots"], np.int64)
    if np.any((roots < 0) | (roots >= nodes)):
        raise node.wrong(f"tree_roots are {roots.tolist()}; there are {nodes} nodes")
    # a tree that is one leaf is written as a node whose branches are both that leaf
    single = (true[roots] == false[roots]) & (true[roots] >= nodes)
    values = stored("membership_values") if node.attrs.get("membership_values") else None
    return _Trees(
        nodes,
        np.where(single, true[roots], roots),
        true,
        false,
        modes,
        np.array(node.attrs["nodes_featureids"], np.int64),
        splits,
        np.array(node.attrs.get("nodes_missing_value_tracks_true") or (0,) * nodes, bool),
        _members(node, modes, leaves, values, of),
        [(i, int(t), w) for i, (t, w) in enumerate(zip(targets, weights, strict=False))],
    )


def _members(node: Node, modes: Array, leaves: int, values: Array | None, of: np.dtype[Any]) -> Array | None:
    """A row for each node, filled up with NaN, which equals nothing. Each set ends with NaN."""
    sets: list[list[float]] = [[]]
    for v in values if values is not None else ():
        if v != v:
            sets.append([])
        else:
            sets[-1].append(float(v))
    asking = np.flatnonzero(modes == _MEMBER)
    if len(asking) != len(sets) - 1:
        raise node.wrong(f"{len(asking)} nodes ask for members, but membership_values has {len(sets) - 1} sets")
    if not len(asking):
        return None
    table = np.full((len(modes) + leaves, max(map(len, sets))), np.nan, of)
    for n, found in zip(asking, sets[:-1], strict=True):
        table[n, : len(found)] = found
    return table


# --- TreeEnsembleRegressor and TreeEnsembleClassifier ---------------------------------------------------------------


def _of_lists(node: Node, kind: str) -> _Trees:
    """The trees of the older operators: a node is found by its tree's number and its own, and a leaf is a node."""
    modes = node.attrs.get("nodes_modes") or ()

    def ints(name: str, count: int = len(modes), given: Sequence[int] | None = None) -> Array:
        found = np.array(node.attrs.get(name) or () if given is None else given, np.int64)
        if len(found) != count:
            raise node.wrong(f"{len(found)} {name}; {count} are wanted")
        return found

    unknown = sorted({*modes} - {*_MODES, "LEAF"})
    if unknown:
        raise node.wrong(f"a node has the mode {unknown[0]!r}; {', '.join(_MODES)} or LEAF is wanted")
    is_leaf = np.array([m == "LEAF" for m in modes], bool)
    order = np.r_[np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)]  # the leaves after the others
    nodes, leaves = int(np.sum(~is_leaf)), int(np.sum(is_leaf))
    trees, ids = ints("nodes_treeids"), ints("nodes_nodeids")
    place = {(int(trees[at]), int(ids[at])): k for k, at in enumerate(order)}
    if len(place) != len(modes):
        raise node.wrong("two nodes of a tree have one number")
    own = np.arange(nodes, nodes + leaves)
    ways = []
    for way in ("nodes_truenodeids", "nodes_falsenodeids"):
        to = ints(way)
        try:
            ways.append(np.array([place[int(trees[i]), int(to[i])] for i in order[:nodes]], np.int64))
        except KeyError:
            raise node.wrong(f"{way} name a node that is not there") from None
    heads = {int(t): [] for t in trees}  # type: dict[int, list[int]]
    for k in sorted({*range(len(modes))} - {*map(int, np.r_[ways[0], ways[1]])}):
        heads[int(trees[order[k]])].append(k)
    if any(len(found) != 1 for found in heads.values()):
        raise node.wrong("a tree has no root, or several")
    tracks = node.attrs.get("nodes_missing_value_tracks_true") or (0,) * len(modes)
    weights = numbers_of(node, f"{kind}_weights")
    voters = [ints(f"{kind}_{k}", len(weights)) for k in ("treeids", "nodeids", "ids")]
    votes = []
    for tree, own_id, target, weight in zip(*voters, weights, strict=True):
        at = place.get((int(tree), int(own_id)), -1)
        if at < nodes:
            raise node.wrong(f"{kind}_nodeids name {own_id} of tree {tree}, which is no leaf")
        votes.append((at - nodes, int(target), weight))
    return _Trees(
        nodes,
        np.array([found[0] for found in heads.values()], np.int64),
        np.r_[ways[0], own],
        np.r_[ways[1], own],
        np.array([_MODES.index(modes[i]) for i in order[:nodes]], np.int64),
        ints("nodes_featureids")[order[:nodes]],
        _splits(node, len(modes))[order[:nodes]],
        ints("nodes_missing_value_tracks_true", given=tracks)[order[:nodes]] != 0,
        None,
        votes,
    )


def _splits(node: Node, count: int) -> Array:
    found = numbers_of(node, "nodes_values")
    if len(found) != count:
        raise node.wrong(f"{len(found)} nodes_values; {count} are wanted")
    return found


# --- down the trees -------------------------------------------------------------------------------------------------


def _leaves(node: Node, trees: _Trees, given: Expr) -> Expr:
    """The number of the leaf that each row reaches in each tree: (row, tree)."""
    x = tensor(given)
    rows, count, leaves = x.shape[0], len(trees.roots), len(trees.true) - trees.nodes
    if isinstance(x.shape[1], int) and np.any((trees.features < 0) | (trees.features >= x.shape[1])):
        raise node.wrong(f"nodes_featureids name a feature that {x} does not have")
    features, splits, missing = (
        _with_leaves(t, leaves) for t in (trees.features, trees.splits.astype(x.dtype.numpy), trees.missing)
    )
    modes = np.unique(trees.modes)

    def look(table: Array, of: Expr) -> Expr:
        return node.call("take", node.constant(table), of, axis=0)

    at = node.call("broadcast_to", node.constant(trees.roots), shape=(rows, count))
    row = node.call("expand_dims", node.call("arange", size=rows), axis=(1,))
    row = node.call("expand_dims", node.call("broadcast_to", row, shape=(rows, count)), axis=(2,))
    for _ in range(trees.depth(node)):
        feature = node.call("expand_dims", look(features, at), axis=(2,))
        value = node.call("gather_nd", given, node.call("concat", row, feature, axis=2))
        ways = []
        for mode in modes:
            if mode == _MEMBER:
                assert trees.members is not None
                same = node.call("equal", node.call("expand_dims", value, axis=(2,)), look(trees.members, at))
                found = node.call("sum", node.cast(same, INT64), axis=(2,), keepdims=False)
                here = node.call("greater", found, 0)
            else:
                here = node.call(_COMPARE[mode], value, look(splits, at))
            if len(modes) > 1:
                here = node.call("logical_and", here, look(_with_leaves(trees.modes == mode, leaves), at))
            ways.append(here)
        if np.any(missing):
            ways.append(node.call("logical_and", node.call("not_equal", value, value), look(missing, at)))
        holds = ways[0]
        for more in ways[1:]:
            holds = node.call("logical_or", holds, more)
        at = node.call("where", holds, look(trees.true, at), look(trees.false, at))
    return node.call("subtract", at, trees.nodes)


def _aggregated(node: Node, trees: _Trees, leaf: Expr, targets: int, how: str, of: DType) -> Expr:
    """What the leaves vote for each target: (row, target)."""
    neutral = of.max if how == "MIN" else of.min if how == "MAX" else 0
    table = node.constant(trees.weights(node, targets, neutral, np.dtype(of.numpy)))
    part = node.call("take", table, leaf, axis=0)
    result = node.call({"MIN": "min", "MAX": "max"}.get(how, "sum"), part, axis=(1, 2), keepdims=False)
    return node.call("divide", result, len(trees.roots)) if how == "AVERAGE" else result


def _rows(node: Node) -> Expr:
    """X as rows of floats."""
    x = tensor(node[0])
    if x.ndim != 2:
        raise node.wrong(f"X is {x}; rows of features are wanted")
    of = x.dtype if x.dtype.is_float else FLOAT32
    if "nodes_values" in node.schema.kinds and numbers_of(node, "nodes_values").dtype == np.float64:
        of = dtype("float64")  # thresholds that are doubles are compared as such
    return node.cast(node[0], of)


def tree_ensemble(node: Node) -> Expr:
    """Translate TreeEnsemble."""
    x = _rows(node)
    of = tensor(x).dtype
    trees = _of_tables(node, np.dtype(of.numpy))
    how = node.attrs["aggregate_function"]
    if how not in range(len(_AGGREGATES)):
        raise node.wrong(f"aggregate_function is {how}; 0 to 3 are wanted")
    given = node.attrs["post_transform"]
    if given not in range(3):
        raise node.unsupported(f"post_transform {given}; 0 (none), 1 (softmax) or 2 (logistic) is wanted")
    made = _aggregated(node, trees, _leaves(node, trees, x), node.attrs["n_targets"], _AGGREGATES[how], of)
    return transformed(node, made, ("NONE", "SOFTMAX", "LOGISTIC")[given])


def tree_ensemble_regressor(node: Node) -> Expr:
    """Translate TreeEnsembleRegressor: float32, base values after the aggregate."""
    x, trees, targets = _rows(node), _of_lists(node, "target"), node.attrs["n_targets"]
    if not targets:
        raise node.wrong("n_targets is missing")
    how = node.choice("aggregate_function", *_AGGREGATES)
    of = _sum_dtype(node, x, "target_weights")
    if how in ("MIN", "MAX") and len({v[:2] for v in trees.votes}) < targets * (len(trees.true) - trees.nodes):
        raise node.unsupported(f"{how} with leaves that do not vote for every target: ONNX does not say what they give")
    made = _aggregated(node, trees, _leaves(node, trees, x), targets, how, of)
    base = numbers_of(node, "base_values")
    if base.size not in (0, targets):
        raise node.wrong(f"{base.size} base_values; {targets} are wanted")
    made = node.call("add", made, node.constant(base, of)) if base.size else made
    return transformed(node, node.cast(made, FLOAT32))


def _sum_dtype(node: Node, x: Expr, weights: str) -> DType:
    """In which dtype leaves are added up. ONNX does not say. Weights that are given as doubles are added as such; of
    others a sum in float32 has the bound that holds for both."""
    return dtype("float64") if numbers_of(node, weights).dtype == np.float64 else FLOAT32


def tree_ensemble_classifier(node: Node) -> Sequence[Expr]:
    """Translate TreeEnsembleClassifier: the label with the largest score, the first of several, and the scores."""
    x, trees, labels = _rows(node), _of_lists(node, "class"), class_labels(node, "classlabels_int64s")
    count, base = len(labels), numbers_of(node, "base_values")
    of = _sum_dtype(node, x, "class_weights")
    voted = sorted({target for _, target, _ in trees.votes})
    if count < 2:
        raise node.unsupported(f"{count} labels; several are wanted")
    leaf = _leaves(node, trees, x)
    if count == 2 and len(voted) < 2:
        return _of_two(node, trees, leaf, voted, of)
    if count == 2:
        raise node.unsupported("two classes, and leaves that vote for both: runtimes do not agree on the label")
    if base.size not in (0, count):
        raise node.wrong(f"{base.size} base_values; {count} are wanted")
    scores = _aggregated(node, trees, leaf, count, "SUM", of)
    scores = node.call("add", scores, node.constant(base, of)) if base.size else scores
    scores = node.cast(scores, FLOAT32)
    return [labels.at(node, first_largest(node, scores)), transformed(node, scores)]


def _of_two(node: Node, trees: _Trees, leaf: Expr, voted: Sequence[int], of: DType) -> Sequence[Expr]:
    """Two classes, all votes for one of them. ONNX's text does not say what the other gets. Its reference and ONNX
    Runtime agree on 1 - score without a transform, where no weight is below 0, and on the logistic of -score where one
    is; other forms are Unsupported."""
    how, base, labels = (
        node.attrs["post_transform"],
        numbers_of(node, "base_values"),
        class_labels(node, "classlabels_int64s"),
    )
    below = any(w < 0 for *_, w in trees.votes)
    forms = {("NONE", False), ("LOGISTIC", True)}
    if (how, below) not in forms or (base.size > 1 and (how == "NONE" or len(set(base.tolist())) > 1)):
        raise node.unsupported(
            f"votes for one of two classes, {'some' if below else 'no'} weights below 0, {base.size} base values,"
            f" post_transform {how}: runtimes do not agree on the score of the other class"
        )
    score = _aggregated(node, trees, leaf, max([*voted, 0]) + 1, "SUM", of)
    score = node.call("strided_slice", score, axes=(1,), begin=(max([*voted, 0]),), end=(max([*voted, 0]) + 1,))
    score = node.cast(node.call("add", score, node.constant(base[:1], of)) if base.size else score, FLOAT32)
    if how == "NONE":
        label, both = node.call("greater", score, 0.5), (node.call("subtract", 1.0, score), score)
    else:
        label = node.call("greater", score, 0.0)
        both = (node.call("sigmoid", node.call("negative", score)), node.call("sigmoid", score))
    place = node.shaped(node.cast(label, INT64), tensor(score).shape[:1])
    return [labels.at(node, place), node.call("concat", *both, axis=1)]


TABLE: dict[str, Rule] = {
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}
"""Of the domain ai.onnx.ml."""
