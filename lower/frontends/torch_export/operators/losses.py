"""Losses (specs/lower.md, "torch.export"), as aten/src/ATen/native/Loss.cpp computes them: of each element, or their
mean or sum."""

from __future__ import annotations

from collections.abc import Callable

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.semantics.graph import Expr


def loss(each: Callable[[AtenNode, Expr, Expr], Expr]) -> AtenRule:
    """A loss for each element, its mean or its sum."""

    def rule(node: AtenNode) -> Expr:
        a, b = node.together(node.tensor(), node.tensor("target"))
        return reduced_loss(node, each(node, a, b))

    return rule


def reduced_loss(node: AtenNode, made: Expr) -> Expr:
    """The losses of the elements, their mean or their sum."""
    how = node.whole("reduction", 1)
    if how not in (0, 1, 2):
        raise node.wrong(f"reduction is {how}; 0, 1 or 2 is wanted")
    return made if how == 0 else node.call(("", "mean", "sum")[how], made, axis=None, keepdims=False)


def _apart(node: AtenNode, a: Expr, b: Expr) -> Expr:
    return node.call("abs", node.call("subtract", a, b))


def _squared(node: AtenNode, a: Expr, b: Expr) -> Expr:
    apart = node.call("subtract", a, b)
    return node.call("multiply", apart, apart)


def _smooth(node: AtenNode, a: Expr, b: Expr) -> Expr:
    """Half the square divided by beta below it, the distance less half of beta above."""
    z, beta = _apart(node, a, b), node.number("beta", 1.0)
    if not beta:
        return z
    low = node.call("divide", node.call("multiply", node.call("multiply", z, z), 0.5), beta)
    return node.call("where", node.call("less", z, beta), low, node.call("subtract", z, 0.5 * beta))


def _huber(node: AtenNode, a: Expr, b: Expr) -> Expr:
    """Half the square up to delta, delta times the distance less half of delta above."""
    z, delta = _apart(node, a, b), node.number("delta", 1.0)
    low = node.call("multiply", node.call("multiply", z, z), 0.5)
    high = node.call("multiply", node.call("subtract", z, 0.5 * delta), delta)
    return node.call("where", node.call("less_equal", z, delta), low, high)


def cosine_embedding_loss(node: AtenNode) -> Expr:
    """1 - cos where the target is 1, what of cos is above the margin where it is -1, else 0."""
    a, b, target = (node.work(node.tensor(n)) for n in ("input1", "input2", "target"))
    axis = aten_type(target).ndim
    if {aten_type(a).ndim, aten_type(b).ndim} != {axis + 1} or axis > 1:
        raise node.wrong(
            f"of {a.type} and {b.type} with a target {target.type}; vectors, or a batch of them, are wanted"
        )

    def met(x: Expr, y: Expr) -> Expr:
        return node.call("sum", node.call("multiply", x, y), axis=(axis,), keepdims=False)

    long = node.call("multiply", *(node.call("add", met(x, x), 1e-12) for x in (a, b)))
    cos = node.call("divide", met(a, b), node.call("sqrt", long))
    none = node.full(aten_type(cos).shape, 0, aten_type(cos).dtype)
    over = node.call("maximum", node.call("subtract", cos, node.number("margin", 0.0)), 0.0)
    alike = node.call("where", node.call("equal", target, 1), node.call("subtract", 1.0, cos), none)
    made = node.call("add", alike, node.call("where", node.call("equal", target, -1), over, none))
    return reduced_loss(node, node.cast(made, aten_type(node.tensor("input1")).dtype))


TABLE: dict[str, AtenRule] = {
    "cosine_embedding_loss": cosine_embedding_loss,
    "huber_loss": loss(_huber),
    "l1_loss": loss(_apart),
    "mse_loss": loss(_squared),
    "smooth_l1_loss": loss(_smooth),
}
