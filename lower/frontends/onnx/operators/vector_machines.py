"""Support vector machines of ONNX's domain ai.onnx.ml (specs/lower.md, "Import"). All compute in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.control import looped
from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.linear_models import class_labels, first_largest, numbers_of, transformed
from assay.semantics import graph
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.graph import Expr
from assay.semantics.types import TensorType, TupleType

Array = np.ndarray[Any, Any]

LEAST = 1e-7
"""A probability of one class against another is kept so far from 0 and 1."""
MOST_ROUNDS = 100
CLOSE = 0.005
"""The rounds end where the probabilities are within this, over the number of classes, of a fixed point."""


def _rows(node: Node) -> tuple[Expr, int]:
    """X as rows of float32, and how many features it has."""
    x = tensor(node[0])
    if x.ndim != 2 or not isinstance(x.shape[1], int):
        raise node.unsupported(f"X is {x}; rows of a number of features are wanted")
    return node.cast(node[0], FLOAT32), x.shape[1]


def _kernel(node: Node, x: Expr, vectors: Array, how: str) -> Expr:
    """The kernel of each row with each vector: (row, vector)."""
    gamma, shift, degree = node.attrs.get("kernel_params") or (0.0, 0.0, 0.0)
    if how == "RBF":
        apart = node.call("subtract", node.call("expand_dims", x, axis=(1,)), node.constant(vectors[None], FLOAT32))
        total = node.call("sum", node.call("multiply", apart, apart), axis=(2,), keepdims=False)
        return node.call("exp", node.call("multiply", total, float(-np.float32(gamma))))
    made = node.call("matmul", x, node.constant(np.ascontiguousarray(vectors.T), FLOAT32))
    if how == "LINEAR":
        return made
    made = node.call("add", node.call("multiply", made, gamma), shift)
    return node.call("tanh", made) if how == "SIGMOID" else node.call("power", made, float(int(degree)))


def _kernel_type(node: Node) -> str:
    return node.choice("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID")


def _vectors(node: Node, count: int, features: int) -> Array:
    found = numbers_of(node, "support_vectors")
    if found.size != count * features:
        raise node.wrong(f"{found.size} numbers in support_vectors; {count} vectors of {features} features are wanted")
    return found.reshape(count, features)


def svm_regressor(node: Node) -> Expr:
    """Translate SVMRegressor: the kernels with the support vectors, times the coefficients, and rho; for one class
    whether that is above 0, as 1 or -1."""
    x, features = _rows(node)
    count, by, rho = node.attrs["n_supports"], numbers_of(node, "coefficients"), numbers_of(node, "rho")
    if rho.size < 1 or by.size != (count or features):
        raise node.wrong(f"{by.size} coefficients and {rho.size} rho; {count or features} and 1 are wanted")
    kernel = _kernel(node, x, _vectors(node, count, features), _kernel_type(node)) if count else x
    made = node.call("matmul", kernel, node.constant(by.reshape(-1, 1), FLOAT32))
    made = node.call("add", made, float(rho[0]))
    if node.attrs["one_class"]:
        above = node.call("greater", made, 0.0)
        made = node.call("where", above, node.constant(1.0, FLOAT32), node.constant(-1.0, FLOAT32))
    return transformed(node, made)


def svm_classifier(node: Node) -> Sequence[Expr]:
    """Translate SVMClassifier. Without support vectors a row of coefficients for each class. With them a score for each
    two classes, whose sign is a vote for one of them; the label is the class with most votes, the first of several;
    with prob_a and prob_b the scores become probabilities of the classes."""
    x, features = _rows(node)
    labels, sizes, by = class_labels(node), node.attrs.get("vectors_per_class") or (), numbers_of(node, "coefficients")
    count, rho = len(labels), numbers_of(node, "rho")
    if count < 2:
        raise node.unsupported(f"{count} labels; several are wanted")
    if not sum(sizes):
        return _linear(node, x, features)
    total, pairs = sum(sizes), count * (count - 1) // 2
    wanted = ((by, (count - 1) * total), (rho, pairs), (sizes, count))
    if any(np.size(found) != size for found, size in wanted):
        raise node.wrong(
            f"{by.size} coefficients, {rho.size} rho, {len(sizes)} vectors_per_class;"
            f" {(count - 1) * total}, {pairs} and {count} are wanted"
        )
    if count == 2 and np.all(by >= 0):
        raise node.unsupported("two classes and no coefficient below 0: runtimes do not agree on the label")
    kernel = _kernel(node, x, _vectors(node, total, features), _kernel_type(node))
    scores = node.call("matmul", kernel, node.constant(_of_pairs(by.reshape(count - 1, total), sizes), FLOAT32))
    scores = node.named(node.call("add", scores, node.constant(rho, FLOAT32)))
    label = labels.at(node, first_largest(node, _votes(node, scores, count)))
    a, b = numbers_of(node, "prob_a"), numbers_of(node, "prob_b")
    if a.size:
        if a.size != pairs or b.size != pairs:
            raise node.wrong(f"{a.size} prob_a and {b.size} prob_b; {pairs} are wanted")
        return [label, transformed(node, _probabilities(node, scores, a, b, count))]
    if count > 2:
        return [label, transformed(node, scores)]
    if node.attrs["post_transform"] != "NONE":
        raise node.unsupported("post_transform for one score of two classes: runtimes do not agree on the other's")
    return [label, node.call("concat", node.call("negative", scores), scores, axis=1)]


def _linear(node: Node, x: Expr, features: int) -> Sequence[Expr]:
    labels, by, rho = class_labels(node), numbers_of(node, "coefficients"), numbers_of(node, "rho")
    if by.size != len(labels) * features or rho.size < 1:
        raise node.wrong(f"{by.size} coefficients; {len(labels)} rows of {features} are wanted, and a rho")
    if len(labels) == 2:
        raise node.unsupported("two classes without support vectors: runtimes do not agree on the label")
    scores = node.call("matmul", x, node.constant(np.ascontiguousarray(by.reshape(-1, features).T), FLOAT32))
    scores = node.call("add", scores, float(rho[0]))
    return [labels.at(node, first_largest(node, scores)), transformed(node, scores)]


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _of_pairs(by: Array, sizes: Sequence[int]) -> Array:
    """By what each kernel is multiplied in the score of each two classes: (vector, pair). The vectors of both count, no
    others."""
    ends = np.cumsum(sizes)
    found = np.zeros((by.shape[1], len(_pairs(len(sizes)))), np.float32)
    for k, (i, j) in enumerate(_pairs(len(sizes))):
        for one, row in ((i, j - 1), (j, i)):
            own = slice(ends[one] - sizes[one], ends[one])
            found[own, k] = by[row, own]
    return found


def _votes(node: Node, scores: Expr, count: int) -> Expr:
    """How many of the pairs of a class it has won: (row, class). Whole numbers, so that equal ones are known to be
    equal where the signs of the scores are known."""
    first, second = (np.zeros((len(_pairs(count)), count), np.int64) for _ in range(2))
    for k, (i, j) in enumerate(_pairs(count)):
        first[k, i] = second[k, j] = 1
    won = node.call("expand_dims", node.call("greater", scores, 0.0), axis=(2,))
    found = node.call("where", won, node.constant(first), node.constant(second))
    return node.call("sum", found, axis=(1,), keepdims=False)


# --- probabilities ----------------------------------------------------------------------------------------------------


def _probabilities(node: Node, scores: Expr, a: Array, b: Array, count: int) -> Expr:
    """Probabilities of the classes from those of each two, by the rounds of libsvm's `multiclass_probability` (Wu, Lin
    and Weng 2004, algorithm 2), which ONNX's reference and ONNX Runtime have: ONNX's text gives no formula. A row that
    is close enough stays."""
    score = Term(node, scores)
    both = [Term(node, node.constant(v, FLOAT32)) for v in (a, b)]
    one = 1.0 - Term(node, node.call("sigmoid", (score * both[0] + both[1]).expr))
    one = Term(node, node.call("clip", one.expr, min=LEAST, max=float(np.float32(1) - np.float32(LEAST))))
    won: dict[tuple[int, int], Term] = {}
    for k, (i, j) in enumerate(_pairs(count)):
        won[i, j] = Term(node, node.named(node.pick(one.expr, k, 1)))
        won[j, i] = Term(node, node.named((1.0 - won[i, j]).expr))
    forms = {(t, s): -(won[s, t] * won[t, s]) for t in range(count) for s in range(count) if s != t}
    for t in range(count):
        squares = [won[s, t] * won[s, t] for s in range(count) if s != t]
        forms[t, t] = sum(squares[1:], squares[0])
    table = [[Term(node, node.named(forms[t, s].expr)) for s in range(count)] for t in range(count)]
    rows = tensor(scores).shape[0]
    start = [node.full((rows,), float(np.float32(1) / np.float32(count)), FLOAT32)] * count
    return node.call("concat", *[node.call("expand_dims", p, axis=(1,)) for p in _rounds(node, table, start)], axis=1)


def _rounds(node: Node, table: Sequence[Sequence[Term]], start: Sequence[Expr]) -> Sequence[Expr]:
    count, mark = len(start), node.builder.runs.mark
    at = graph.var("round", TensorType((), INT64))
    going = graph.var("going", TensorType(tensor(start[0]).shape, BOOL))
    states = [graph.var(f"p{t}", s.type) for t, s in enumerate(start)]
    p = [Term(node, s) for s in states]
    q = [sum((table[t][s] * p[s] for s in range(1, count)), table[t][0] * p[0]) for t in range(count)]
    both = sum((p[t] * q[t] for t in range(1, count)), p[0] * q[0])
    off = [abs(q[t] - both).expr for t in range(count)]
    far = Term(node, node.call("greater_equal", off[0], CLOSE / count)).expr
    for o in off[1:]:
        far = node.call("logical_or", far, node.call("greater_equal", o, float(np.float32(CLOSE) / np.float32(count))))
    still = node.call("logical_and", going, far)
    for t in range(count):
        step = (both - q[t]) / table[t][t]
        p[t] = p[t] + step
        whole = step + 1.0
        both = (both + step * (step * table[t][t] + q[t] * 2.0)) / whole / whole
        q = [(q[s] + step * table[t][s]) / whole for s in range(count)]
        p = [s / whole for s in p]
    new = [node.call("where", still, made.expr, kept) for made, kept in zip(p, states, strict=True)]
    goes_on = node.call("less", at, MOST_ROUNDS)
    if count > 2:  # all rounds would take long; where intervals leave open whether a row goes on, errors are followed
        some = node.call("sum", node.cast(going, INT64), axis=(0,), keepdims=False)
        goes_on = node.call("logical_and", goes_on, node.call("greater", some, 0))
    params = [at, going, *states]
    results = TupleType(tuple(v.type for v in params[1:]))
    first = [node.constant(0, INT64), node.full(tensor(start[0]).shape, True, BOOL), *start]
    return looped(node, params, results, goes_on, [node.call("add", at, 1), still, *new], first, mark)[1:]


TABLE: dict[str, Rule] = {"SVMClassifier": svm_classifier, "SVMRegressor": svm_regressor}
"""Of the domain ai.onnx.ml."""
