"""Scalers, linear models and what stands beside them, of ONNX's domain ai.onnx.ml (specs/lower.md, "Import").

All compute in float32, whatever the operand is; rows are the first axis, features the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr


def _numbers(node: Node, name: str) -> np.ndarray[Any, Any]:
    """A list of floats in an attribute; empty where it is left out."""
    return np.asarray(node.attrs.get(name) or (), np.float32)


def _features(node: Node) -> int:
    """How many features a row has; Unsupported where the model does not say."""
    x = tensor(node[0])
    count = x.shape[-1] if x.ndim == 2 else None
    if not isinstance(count, int):
        raise node.unsupported(f"operand {x}; rows of a number of features are wanted")
    return count


def _for_each(node: Node, name: str, default: float) -> Expr:
    """A number for all features, or one for each."""
    found, features = _numbers(node, name), tensor(node[0]).shape[-1:]
    if found.size > 1 and features != (found.size,):
        raise node.wrong(f"{name} has {found.size} numbers; one, or one for each feature of {tensor(node[0])}")
    return node.constant(found if found.size else np.array([default], np.float32), FLOAT32)


def scaler(node: Node) -> Expr:
    """Translate Scaler: (x - offset) * scale."""
    if not tensor(node[0]).ndim:
        raise node.wrong("X is a scalar; an axis is wanted")
    x = node.call("subtract", node.cast(node[0], FLOAT32), _for_each(node, "offset", 0.0))
    return node.call("multiply", x, _for_each(node, "scale", 1.0))


def _scores(node: Node, outputs: int) -> Expr:
    """x times the coefficients, a row of these for each output, and the intercepts."""
    features, weights = _features(node), _numbers(node, "coefficients")
    shifts = _numbers(node, "intercepts")
    if weights.size != features * outputs or shifts.size not in (0, outputs):
        raise node.wrong(
            f"{weights.size} coefficients and {shifts.size} intercepts for {outputs} outputs of {features} features;"
            f" {features * outputs} and {outputs} are wanted"
        )
    by = node.constant(np.ascontiguousarray(weights.reshape(outputs, features).T), FLOAT32)
    made = node.call("matmul", node.cast(node[0], FLOAT32), by)
    return node.call("add", made, node.constant(shifts, FLOAT32)) if shifts.size else made


def _transformed(node: Node, scores: Expr) -> Expr:
    how = node.choice("post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    match how:
        case "NONE":
            return scores
        case "SOFTMAX":
            return node.call("nn.softmax", scores, axis=-1)
        case "LOGISTIC":
            return node.call("sigmoid", scores)
        case _:
            raise node.unsupported(f"post_transform {how}; NONE, SOFTMAX or LOGISTIC is wanted")


def linear_regressor(node: Node) -> Expr:
    """Translate LinearRegressor."""
    return _transformed(node, _scores(node, node.attrs["targets"]))


def linear_classifier(node: Node) -> Sequence[Expr]:
    """Translate LinearClassifier: the label with the largest score, the first of several, and the scores."""
    if node.attrs.get("classlabels_strings"):
        labels, are_texts = node.strings.numbers(node.attrs["classlabels_strings"]), True
    else:
        labels, are_texts = np.asarray(node.attrs.get("classlabels_ints") or (), np.int64), False
    if labels.size < 2 or _numbers(node, "coefficients").size == _features(node) < labels.size * _features(node):
        raise node.unsupported(f"{labels.size} labels and one row of coefficients; a row for each of several is wanted")
    scores = _scores(node, int(labels.size))
    _, places = node.fields(node.call("topk", scores, k=1, axis=1), 2)
    rows = tensor(node[0]).shape[:1]
    label = node.call("take", node.constant(labels), node.shaped(places, rows), axis=0)
    return [node.text(label) if are_texts else label, _transformed(node, scores)]


def normalizer(node: Node) -> Expr:
    """Translate Normalizer: each row over its norm, a row of norm 0 as it is."""
    how = node.choice("norm", "MAX", "L1", "L2")
    if how == "MAX":
        raise node.unsupported("norm MAX: ONNX's text and its reference do not mean the same")
    x = node.cast(node[0], FLOAT32)
    size = node.call("abs", x) if how == "L1" else node.call("multiply", x, x)
    total = node.call("sum", size, axis=(tensor(x).ndim - 1,), keepdims=True)
    norm = total if how == "L1" else node.call("sqrt", total)
    return node.call("divide", x, node.call("where", node.call("equal", norm, 0.0), 1.0, norm))


def imputer(node: Node) -> Expr:
    """Translate Imputer for floats: a number for all features, or one for each, in place of what is missing."""
    of = tensor(node[0]).dtype
    if not of.is_float:
        raise node.unsupported(f"operand {tensor(node[0])}; floats are wanted")
    missing = float(node.attrs["replaced_value_float"])
    found = _for_each(node, "imputed_value_floats", 0.0)
    missed = node.call("not_equal", node[0], node[0]) if missing != missing else node.call("equal", node[0], missing)
    return node.call("where", missed, node.cast(found, of), node[0])


TABLE: dict[str, Rule] = {
    "Imputer": imputer,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "Scaler": scaler,
}
"""Of the domain ai.onnx.ml."""
