"""Losses of ONNX as compositions (specs/lower.md, "Import").

A class is picked by comparing the places of the class axis with the target. A target that names no class, which the
documentation leaves open, picks 0; that it does so with `ignore_index` is what the documentation asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.onnx.node import Node, Result, Rule, same_shape, tensor
from assay.semantics.composed.maker import numbered
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr


def _loss(node: Node, scores: Expr) -> Expr:
    """-scores[n, target[n, ...], ...] * weight[target[n, ...]], then the sum, or the sum over that of the weights."""
    x, target = tensor(scores), tensor(node[1])
    if x.ndim < 2 or not same_shape((x.shape[0], *x.shape[2:]), target.shape):
        raise node.wrong(f"scores are {x}, targets {target}; (N, C, ...) and (N, ...) are wanted")
    reduction = node.choice("reduction", "none", "mean", "sum")
    classes = node.cast(node.call("expand_dims", node[1], axis=(1,)), INT64)
    hot = node.call("equal", numbered(node, scores, 1), classes)
    ignored = node.attrs.get("ignore_index")
    if ignored is not None:
        hot = node.call("logical_and", hot, node.call("not_equal", classes, ignored))

    def picked(values: Expr) -> Expr:
        return node.call("sum", node.call("where", hot, values, 0.0), axis=(1,), keepdims=False)

    loss = node.call("negative", picked(scores))
    weights: Expr | None = None
    if node.has(2):
        if not same_shape(tensor(node[2]).shape, (x.shape[1],)):
            raise node.wrong(f"weights are {node[2].type}, scores {x}; one for each class is wanted")
        weights = picked(node.shaped(node[2], (x.shape[1], *(1,) * (x.ndim - 2))))
        loss = node.call("multiply", loss, weights)
    elif ignored is not None:
        weights = picked(node.constant(1.0, x.dtype))
    if reduction == "none":
        return loss
    if reduction == "sum" or weights is None:
        return node.call(reduction, loss, axis=None, keepdims=False)
    return node.call("divide", *(node.call("sum", x, axis=None, keepdims=False) for x in (loss, weights)))


def softmax_cross_entropy(node: Node) -> Sequence[Result]:
    """Translate SoftmaxCrossEntropyLoss: the loss, and the logarithms of the softmax along axis 1."""
    scores = node.call("nn.log_softmax", node[0], axis=1)
    return [_loss(node, scores), scores]


TABLE: dict[str, Rule] = {
    "NegativeLogLikelihoodLoss": lambda node: _loss(node, node[0]),
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
