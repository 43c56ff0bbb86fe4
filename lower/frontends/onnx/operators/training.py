"""Steps of optimizers of ONNX's training domain, as arithmetic (specs/lower.md, "Import").

Operands are the rate R, the count of steps T, then all tensors, all gradients, all of each state; results are all new
tensors, then all of each new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators import gradient
from assay.semantics.composed.terms import Term
from assay.semantics.graph import Expr

Step = Callable[[Node, Term, Expr, list[Term]], Sequence[Term]]
"""step(node, R, T, [tensor, gradient, states...]): the new tensor and states. Numbers are rounded to its dtype."""


def _adagrad(node: Node, rate: Term, count: Expr, parts: list[Term]) -> Sequence[Term]:
    x, gradient, squares = parts
    decayed = rate / (x.number(1) + Term(node, count).cast(x.type.dtype) * node.attrs["decay_factor"])
    g = x.number(node.attrs["norm_coefficient"]) * x + gradient
    squares = squares + g * g
    return x - decayed * g / (squares.sqrt() + node.attrs["epsilon"]), squares


def _momentum(node: Node, rate: Term, count: Expr, parts: list[Term]) -> Sequence[Term]:
    x, gradient, moment = parts
    mode, alpha = node.choice("mode", "standard", "nesterov"), x.number(node.attrs["alpha"])
    g = x.number(node.attrs["norm_coefficient"]) * x + gradient
    weight = x.number(1).chosen(Term(node, count).equal(0), node.attrs["beta"])
    moment = alpha * moment + weight * g
    return x - rate * (moment if mode == "standard" else g + alpha * moment), moment


def _adam(node: Node, rate: Term, count: Expr, parts: list[Term]) -> Sequence[Term]:
    x, gradient, moment, squares = parts
    one, alpha, beta = (x.number(v) for v in (1, node.attrs["alpha"], node.attrs["beta"]))
    g = x.number(node.attrs["norm_coefficient"]) * x + gradient
    moment = alpha * moment + (one - alpha) * g
    squares = beta * squares + (one - beta) * (g * g)
    scale = squares.sqrt() + node.attrs["epsilon"]
    # the first step has no correction; 1 stands for its count, so that nothing is divided by zero
    steps = Term(node, count)
    first = steps.equal(0)
    steps = steps.number(1).chosen(first, steps).cast(x.type.dtype)
    corrected = rate * (one - beta.power(steps)).sqrt() / (one - alpha.power(steps))
    new = x - rate.chosen(first, corrected) * (moment / scale)
    return (one - node.attrs["norm_coefficient_post"]) * new, moment, squares


def _optimizer(step: Step, states: int, node: Node) -> Sequence[Expr]:
    tensors = [node[i] for i in range(2, len(node.inputs))]
    each = 2 + states
    if not tensors or len(tensors) % each:
        raise node.wrong(f"{len(tensors)} tensors after R and T; {each} for each that is trained are wanted")
    count = len(tensors) // each
    found: list[Sequence[Term]] = []
    for i in range(count):
        parts = tensors[i::count]
        rate = Term(node, node.cast(node[0], tensor(parts[0]).dtype))
        found.append(step(node, rate, node[1], [Term(node, x) for x in parts]))
    return [row[k].expr for k in range(1 + states) for row in found]


TABLE: dict[str, Rule] = {
    "Adagrad": partial(_optimizer, _adagrad, 1),
    "Adam": partial(_optimizer, _adam, 2),
    **gradient.TABLE,
    "Momentum": partial(_optimizer, _momentum, 1),
}
"""Of the domain ai.onnx.preview.training."""
