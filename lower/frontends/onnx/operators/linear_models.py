"""Scalers, linear models and what stands beside them, of ONNX's domain ai.onnx.ml (specs/lower.md, "Import").

All compute in float32, whatever the operand is; rows are the first axis, features the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import FLOAT32, DType
from assay.semantics.graph import Expr


def numbers_of(node: Node, name: str) -> np.ndarray[Any, Any]:
    """A list of floats in an attribute, or the doubles in the one that stands beside it; empty where both are left
    out."""
    if node.attrs.get(f"{name}_as_tensor") is not None:
        return node.stored(f"{name}_as_tensor").reshape(-1)
    return np.asarray(node.attrs.get(name) or (), np.float32)


def _features(node: Node) -> int:
    """How many features a row has; Unsupported where the model does not say."""
    x = tensor(node[0])
    count = x.shape[-1] if x.ndim == 2 else None
    if not isinstance(count, int):
        raise node.unsupported(f"operand {x}; rows of a number of features are wanted")
    return count


def _for_each(node: Node, name: str, default: float, of: DType = FLOAT32) -> Expr:
    """A number for all features, or one for each."""
    found, features = np.asarray(node.attrs.get(name) or (default,), of.numpy), tensor(node[0]).shape[-1:]
    if found.size > 1 and features != (found.size,):
        raise node.wrong(f"{name} has {found.size} numbers; one, or one for each feature of {tensor(node[0])}")
    return node.constant(found, of)


def scaler(node: Node) -> Expr:
    """Translate Scaler: (x - offset) * scale."""
    if not tensor(node[0]).ndim:
        raise node.wrong("X is a scalar; an axis is wanted")
    x = node.call("subtract", node.cast(node[0], FLOAT32), _for_each(node, "offset", 0.0))
    return node.call("multiply", x, _for_each(node, "scale", 1.0))


def _scores(node: Node, outputs: int) -> Expr:
    """x times the coefficients, a row of these for each output, and the intercepts."""
    features, weights = _features(node), numbers_of(node, "coefficients")
    shifts = numbers_of(node, "intercepts")
    if weights.size != features * outputs or shifts.size not in (0, outputs):
        raise node.wrong(
            f"{weights.size} coefficients and {shifts.size} intercepts for {outputs} outputs of {features} features;"
            f" {features * outputs} and {outputs} are wanted"
        )
    by = node.constant(np.ascontiguousarray(weights.reshape(outputs, features).T), FLOAT32)
    made = node.call("matmul", node.cast(node[0], FLOAT32), by)
    return node.call("add", made, node.constant(shifts, FLOAT32)) if shifts.size else made


def transformed(node: Node, scores: Expr, how: str = "") -> Expr:
    """Scores after the post_transform of a node, or another. PROBIT and SOFTMAX_ZERO are Unsupported: ONNX says no
    formula, and its reference and ONNX Runtime have different ones."""
    match how or node.choice("post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
        case "NONE":
            return scores
        case "SOFTMAX":
            return node.call("nn.softmax", scores, axis=-1)
        case "LOGISTIC":
            return node.call("sigmoid", scores)
        case other:
            raise node.unsupported(f"post_transform {other}; NONE, SOFTMAX or LOGISTIC is wanted")


@dataclass(frozen=True)
class Labels:
    """The labels of classes, whole numbers or the numbers of strings."""

    numbers: np.ndarray[Any, Any]
    are_texts: bool

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, node: Node, places: Expr) -> Expr:
        """The labels at some places, one for each row."""
        label = node.call("take", node.constant(self.numbers), places, axis=0)
        return node.text(label) if self.are_texts else label


def class_labels(node: Node, ints: str = "classlabels_ints") -> Labels:
    """The labels that a classifier has in its attributes."""
    if node.attrs.get("classlabels_strings"):
        return Labels(node.strings.numbers(node.attrs["classlabels_strings"]), True)
    return Labels(np.asarray(node.attrs.get(ints) or (), np.int64), False)


def first_largest(node: Node, scores: Expr) -> Expr:
    """The place of the largest score of each row, the first of several."""
    _, places = node.fields(node.call("topk", scores, k=1, axis=1), 2)
    return node.shaped(places, tensor(scores).shape[:1])


def linear_regressor(node: Node) -> Expr:
    """Translate LinearRegressor."""
    return transformed(node, _scores(node, node.attrs["targets"]))


def linear_classifier(node: Node) -> Sequence[Expr]:
    """Translate LinearClassifier: the label with the largest score, the first of several, and the scores."""
    labels = class_labels(node)
    count = len(labels)
    if count < 2 or numbers_of(node, "coefficients").size == _features(node) < count * _features(node):
        raise node.unsupported(f"{count} labels and one row of coefficients; a row for each of several is wanted")
    scores = _scores(node, count)
    return [labels.at(node, first_largest(node, scores)), transformed(node, scores)]


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
    """Translate Imputer: a number for all features, or one for each, in place of what is missing."""
    of = tensor(node[0]).dtype
    if not of.is_float:
        missed = node.call("equal", node[0], node.attrs["replaced_value_int64"])
        return node.call("where", missed, _for_each(node, "imputed_value_int64s", 0, of), node[0])
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
