"""What is made of one element after another (specs/lower.md, "torch.export").

PyTorch: torch.logcumsumexp, torch.vander.
"""

from __future__ import annotations

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.arithmetic import logaddexp
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr

MOST_STEPS = 256
"""Elements of an axis, each of which becomes operations of its own."""


def logcumsumexp(node: AtenNode) -> Expr:
    """log(e^x + ...) of the elements up to each place of an axis. Each step is rounded, as ATen does it: all exponents
    at once would be nearer to the sum, and PyTorch called wrong."""
    given = node.tensor()
    of = aten_type(given).dtype
    if not of.is_float:
        raise node.wrong(f"the operand is {given.type}; floats are wanted")
    if not aten_type(given).ndim:
        return given
    x, axis = node.work(given), node.axis(aten_type(given).ndim)
    size = aten_type(x).shape[axis]
    if not isinstance(size, int) or size > MOST_STEPS:
        raise node.unsupported(f"an axis of size {size}; it has to be a number, of at most {MOST_STEPS},")
    made: list[Expr] = []
    for k in range(size):
        own = node.cut(x, axis, k, k + 1)
        made.append(logaddexp(node, own, made[-1]) if made else node.call("add", own, 0))  # 0 for -0
    found = node.call("concat", *made, axis=axis) if len(made) > 1 else (made or [x])[0]
    return node.cast(found, of)


def vander(node: AtenNode) -> Expr:
    """The powers of each element along a last axis: 1, x, x x, ...; or the other way round."""
    x = node.tensor("x")
    shape, of = aten_type(x).shape, aten_type(x).dtype
    of = of if of.is_float else INT64
    own = shape[-1] if shape else 1
    count = node.whole("N") if node.has("N") else own
    if not isinstance(count, int) or count < 0:
        raise node.unsupported(f"{count} powers, which have to be a number,")
    if not count:
        return node.full([*shape, 0], 0, of)
    parts = [node.full([*shape, 1], 1, of)]
    if count > 1:
        wide = node.shaped(node.work(node.cast(x, of)), *shape, 1)
        every = node.call("cumprod", node.stretched(wide, *shape, count - 1), axis=len(shape))
        parts.append(node.cast(every, of))
    ascending = node.name == "linalg_vander" or node.flag("increasing")
    if not ascending and len(parts) > 1:
        axis = (len(shape),)
        parts = [node.call("strided_slice", parts[1], axes=axis, begin=(-1,), end=(-(2**63),), strides=(-1,)), parts[0]]
    return node.call("concat", *parts, axis=len(shape)) if len(parts) > 1 else parts[0]


TABLE: dict[str, AtenRule] = {
    "linalg_vander": vander,
    "logcumsumexp": logcumsumexp,
    "vander": vander,
}
