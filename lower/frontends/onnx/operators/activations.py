"""Activation functions of ONNX (specs/lower.md, "Import").

Other ones are taken by ONNX's own body for them.
"""

from __future__ import annotations

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.semantics.composed.terms import Term
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes


def elu(node: Node) -> Expr:
    """alpha * (exp(x) - 1) below 0."""
    x, alpha = Term(node, node[0]), float(node.attrs["alpha"])
    return x.chosen(x >= 0.0, (Term(node, node.call("exp", node[0])) - 1.0) * alpha).expr


def gelu(node: Node) -> Expr:
    """Translate Gelu, exact or with tanh. Invalid for another `approximate`."""
    return node.call({"none": "nn.gelu", "tanh": "nn.gelu_tanh"}[node.choice("approximate", "none", "tanh")], node[0])


def hard_sigmoid(node: Node) -> Expr:
    """alpha * x + beta, within 0 and 1."""
    alpha, beta = float(node.attrs["alpha"]), float(node.attrs["beta"])
    return (Term(node, node[0]) * alpha + beta).at_most(1.0).at_least(0.0).expr


def prelu(node: Node) -> Expr:
    """x where it is not negative, else slope * x. Before version 7 the slope had a number for each channel, or one."""
    x, slope = node[0], node[1]
    of, by = tensor(x), tensor(slope)
    if node.version < 7:
        if all(isinstance(d, int) and d == 1 for d in by.shape):
            slope = node.shaped(slope, ())
        elif by.ndim == 1 and same_shape(by.shape, of.shape[1:2]):
            slope = node.shaped(slope, (*by.shape, *(1 for _ in of.shape[2:])))
        else:
            raise node.wrong(f"X is {of}, slope is {by}; one number, or one for each channel, is wanted")
    elif by.ndim > of.ndim or not same_shape(broadcast_shapes(str(node), [of.shape, by.shape]), of.shape):
        raise node.wrong(f"slope is {by}, which does not broadcast to X, {of}")
    return node.call("where", node.call("less", x, 0), node.call("multiply", slope, x), x)


def selu(node: Node) -> Expr:
    """gamma * x, and gamma * (alpha * exp(x) - alpha) up to 0."""
    x, alpha, gamma = Term(node, node[0]), float(node.attrs["alpha"]), float(node.attrs["gamma"])
    low = Term(node, node.call("exp", node[0])) * alpha - alpha
    return (x.chosen(x > 0.0, low) * gamma).expr


def sign(node: Node) -> Expr:
    """1, -1, and 0 for a zero of either sign; NaN stays what it is."""
    x = node[0]
    of = tensor(x).dtype
    above = node.cast(node.call("greater", x, 0), of)
    if of.kind == "uint":
        return above
    signed = node.call("subtract", above, node.cast(node.call("less", x, 0), of))
    return node.call("where", node.call("equal", x, x), signed, x) if of.is_float else signed


def softplus(node: Node) -> Expr:
    """ln(1 + exp(x)) as max(x, 0) + ln(1 + exp(-|x|)): ONNX's body for it overflows where the result does not."""
    small = node.call("exp", node.call("negative", node.call("abs", node[0])))
    return node.call("add", node.call("nn.relu", node[0]), node.call("log", node.call("add", small, 1)))


TABLE: dict[str, Rule] = {
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": lambda node: node.call("nn.leakyrelu", node[0], alpha=node.attrs["alpha"]),
    "PRelu": prelu,
    "Selu": selu,
    "Sign": sign,
    "Softplus": softplus,
}
