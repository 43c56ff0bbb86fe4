"""Steps of optimizers of ONNX's training domain, as arithmetic (specs/lower.md, "Import").

Operands are the rate R, the count of steps T, then all tensors, all gradients, all of each state; results are all new
tensors, then all of each new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators import gradient
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr

Step = Callable[["_Arithmetic", Expr, Expr, list[Expr]], Sequence[Expr]]
"""step(arithmetic, R, T, [tensor, gradient, states...]): the new tensor and states."""


class _Arithmetic:
    """Calls of elementwise operators in the dtype of one tensor; numbers are rounded to it."""

    def __init__(self, node: Node, like: Expr) -> None:
        self.node = node
        self.of = tensor(like).dtype

    def number(self, value: float) -> Expr:
        return self.node.constant(value, self.of)

    def attribute(self, name: str) -> Expr:
        return self.number(self.node.attrs[name])

    def __call__(self, op: str, *args: Expr) -> Expr:
        return self.node.call(op, *args)

    def times(self, a: Expr, b: Expr) -> Expr:
        return self("multiply", a, b)

    def plus(self, a: Expr, b: Expr) -> Expr:
        return self("add", a, b)

    def minus(self, a: Expr, b: Expr) -> Expr:
        return self("subtract", a, b)

    def regularized(self, x: Expr, gradient: Expr) -> Expr:
        return self.plus(self.times(self.attribute("norm_coefficient"), x), gradient)

    def first(self, count: Expr) -> Expr:
        """Whether this is the first step."""
        return self("equal", count, self.node.constant(0, INT64))


def _adagrad(a: _Arithmetic, rate: Expr, count: Expr, parts: list[Expr]) -> Sequence[Expr]:
    x, gradient, squares = parts
    one = a.number(1)
    decayed = a("divide", rate, a.plus(one, a.times(a.node.cast(count, a.of), a.attribute("decay_factor"))))
    g = a.regularized(x, gradient)
    squares = a.plus(squares, a.times(g, g))
    scale = a.plus(a("sqrt", squares), a.attribute("epsilon"))
    return a.minus(x, a("divide", a.times(decayed, g), scale)), squares


def _momentum(a: _Arithmetic, rate: Expr, count: Expr, parts: list[Expr]) -> Sequence[Expr]:
    x, gradient, moment = parts
    mode = a.node.attrs["mode"]
    if mode not in ("standard", "nesterov"):
        raise a.node.wrong(f"mode is {mode!r}; standard or nesterov is wanted")
    g = a.regularized(x, gradient)
    weight = a("where", a.first(count), a.number(1), a.attribute("beta"))
    moment = a.plus(a.times(a.attribute("alpha"), moment), a.times(weight, g))
    step = moment if mode == "standard" else a.plus(g, a.times(a.attribute("alpha"), moment))
    return a.minus(x, a.times(rate, step)), moment


def _adam(a: _Arithmetic, rate: Expr, count: Expr, parts: list[Expr]) -> Sequence[Expr]:
    x, gradient, moment, squares = parts
    one, alpha, beta = a.number(1), a.attribute("alpha"), a.attribute("beta")
    g = a.regularized(x, gradient)
    moment = a.plus(a.times(alpha, moment), a.times(a.minus(one, alpha), g))
    squares = a.plus(a.times(beta, squares), a.times(a.minus(one, beta), a.times(g, g)))
    scale = a.plus(a("sqrt", squares), a.attribute("epsilon"))
    # the first step has no correction; 1 stands for its count, so that nothing is divided by zero
    steps = a.node.cast(a("where", a.first(count), a.node.constant(1, INT64), count), a.of)
    corrected = a("sqrt", a.minus(one, a("power", beta, steps)))
    corrected = a("divide", a.times(rate, corrected), a.minus(one, a("power", alpha, steps)))
    rate = a("where", a.first(count), rate, corrected)
    new = a.minus(x, a.times(rate, a("divide", moment, scale)))
    return a.times(a.minus(one, a.attribute("norm_coefficient_post")), new), moment, squares


def _optimizer(step: Step, states: int) -> Rule:
    def rule(node: Node) -> Sequence[Expr]:
        tensors = [node[i] for i in range(2, len(node.inputs))]
        each = 2 + states
        if not tensors or len(tensors) % each:
            raise node.wrong(f"{len(tensors)} tensors after R and T; {each} for each that is trained are wanted")
        count = len(tensors) // each
        found: list[Sequence[Expr]] = []
        for i in range(count):
            parts = tensors[i::count]
            arithmetic = _Arithmetic(node, parts[0])
            found.append(step(arithmetic, node.cast(node[0], arithmetic.of), node[1], parts))
        return [row[k] for k in range(1 + states) for row in found]

    return rule


TABLE: dict[str, Rule] = {
    "Adagrad": _optimizer(_adagrad, 1),
    "Adam": _optimizer(_adam, 2),
    **gradient.TABLE,
    "Momentum": _optimizer(_momentum, 1),
}
"""Of the domain ai.onnx.preview.training."""
