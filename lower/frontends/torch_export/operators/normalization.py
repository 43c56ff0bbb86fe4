"""Normalisations of ATen (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/nn.functional.html. Narrow floats are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.lower.frontends.torch_export.operators.reduction import count_of, deviations
from assay.semantics.dtypes import FLOAT32, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim


def softmax(op: str, safe: bool = False) -> AtenRule:
    """e^x by the sum of it along an axis, or the logarithm of that; `safe`: 0 where all are -inf."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        of = aten_type(x).dtype
        to = node.dtype(FLOAT32 if node.flag("half_to_float") else of)
        rank = aten_type(x).ndim
        axis = node.axis(rank)
        work = node.work(node.cast(x, to))
        y = node.call(op, work if rank else node.shaped(work, 1), axis=axis)
        y = y if rank else node.shaped(y)
        return node.cast(without_masked(node, work, y, axis) if safe else y, to)

    return rule


def without_masked(node: AtenNode, x: Expr, y: Expr, axis: int) -> Expr:
    """0 in place of the softmax of what is -inf along the whole axis."""
    masked = node.call("equal", node.call("max", x, axis=(axis,), keepdims=True), -math.inf)
    return node.call("where", masked, constant_like(node, 0, y), y)


def ones(node: AtenNode, shape: Sequence[Dim], of: DType) -> Expr:
    """1 everywhere."""
    return node.full(shape, 1, of)


def layer_norm(node: AtenNode) -> Expr | list[Expr]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, of the last axes; for the native form the mean and the
    reciprocal of the root too."""
    given = node.tensor("input")
    shape = node.sizes("normalized_shape")
    rank = aten_type(given).ndim
    axes = tuple(range(rank - len(shape), rank))
    eps = float(node.number("eps", 1e-5))
    x = node.work(given)
    of = aten_type(x).dtype
    weight, bias = node.optional("weight"), node.optional("bias")
    gamma = ones(node, aten_type(x).shape[rank - len(shape) :], of) if weight is None else node.cast(weight, of)
    more = [] if bias is None else [node.cast(bias, of)]
    y = node.cast(node.call("nn.layer_norm", x, gamma, *more, axes=axes, epsilon=eps), aten_type(given).dtype)
    if node.name == "layer_norm":
        return y
    mean, squares = deviations(node, x, axes)
    count = node.as_tensor(product([aten_type(x).shape[a] for a in axes]), of)
    spread = node.call("add", node.call("divide", squares, count), eps)
    return [y, *as_declared(node, mean, node.call("reciprocal", node.call("sqrt", spread)))]


def as_declared(node: AtenNode, *values: Expr) -> list[Expr]:
    """The results behind the first in the dtypes that the program says: those of gradients are narrow in some."""
    types = [*node.declared[1:], *[None] * len(values)]
    return [v if of is None else node.cast(v, of.dtype) for v, of in zip(values, types, strict=False)]


def rms_norm(node: AtenNode) -> Expr:
    """x / sqrt(mean(x^2) + eps) * weight, of the last axes; eps is that of the dtype where it is not said."""
    given = node.tensor("input")
    rank = aten_type(given).ndim
    axes = tuple(range(rank - len(node.sizes("normalized_shape")), rank))
    x = node.work(given)
    of = aten_type(x).dtype
    eps = float(node.number("eps")) if node.has("eps") else 2 * of.unit_roundoff
    mean = node.call("mean", node.call("multiply", x, x), axis=axes, keepdims=True)
    y = node.call("multiply", x, node.call("reciprocal", node.call("sqrt", node.call("add", mean, eps))))
    if node.has("weight"):
        y = node.call("multiply", y, node.cast(node.tensor("weight"), of))
    return node.cast(y, aten_type(given).dtype)


def by_channel(
    node: AtenNode, x: Expr, weight: Expr | None, bias: Expr | None, mean: Expr, spread: Expr, eps: float
) -> Expr:
    """Elements of a dtype of 32 bits or more, normalised by numbers for each channel, which is axis 1."""
    of, count = aten_type(x).dtype, aten_type(x).shape[1]
    gamma = ones(node, (count,), of) if weight is None else node.cast(weight, of)
    beta = node.full((count,), 0, of) if bias is None else node.cast(bias, of)
    mean, spread = node.cast(mean, of), node.cast(spread, of)
    return node.call("nn.batch_norm", x, gamma, beta, mean, spread, axis=1, epsilon=eps)


def batch_norm(node: AtenNode) -> Expr | list[Expr]:
    """(x - mean) / sqrt(var + eps) * weight + bias, with the statistics that are given; for the native form two empty
    tensors too."""
    given = node.tensor("input")
    if node.flag("training", node.flag("train")):
        return trained_norm(node)
    eps = float(node.number("eps", 1e-5))
    y = by_channel(node, node.work(given), node.optional("weight"), node.optional("bias"), node.tensor("running_mean"),
                   node.tensor("running_var"), eps)  # fmt: skip
    y = node.cast(y, aten_type(given).dtype)
    if node.name == "batch_norm":
        return y
    empty = node.constant([], FLOAT32)
    more = [empty, empty] if len(node.declared) < 4 else [empty, empty, node.constant([], aten_type(y).dtype)]
    return [y, *as_declared(node, *more)]


def trained_norm(node: AtenNode) -> Expr | list[Expr]:
    """Normalised with the mean and the variance of each channel. The running ones move to these, to the variance of a
    sample, by `momentum`; for the native forms the mean and the reciprocal of the root too."""
    given, eps = node.tensor("input"), float(node.number("eps", 1e-5))
    beside = [v for n in ("weight", "bias", "running_mean", "running_var") if (v := node.optional(n)) is not None]
    if aten_type(given).dtype.bits < 32 and FLOAT32 not in [aten_type(v).dtype for v in beside]:
        raise node.unsupported(f"statistics of {aten_type(given).dtype}, which are rounded before they are used,")
    x = node.work(given)
    of, axes = aten_type(x), [a for a in range(aten_type(x).ndim) if a != 1]
    mean, squares = (node.shaped(v, of.shape[1]) for v in deviations(node, x, axes))
    count = count_of(node, x, axes, of.dtype)
    spread = node.call("divide", squares, count)
    y = node.cast(by_channel(node, x, node.optional("weight"), node.optional("bias"), mean, spread, eps),
                  aten_type(given).dtype)  # fmt: skip
    sample = node.call("divide", squares, node.call("subtract", count, 1))
    names = [n for n in ("running_mean", "running_var") if node.has(n)]
    moved = {n: _moved(node, n, v) for n, v in (("running_mean", mean), ("running_var", sample)) if n in names}
    if "functional" not in node.name:
        node.writes.update(moved)
    if node.name == "batch_norm":
        return y
    root = node.call("reciprocal", node.call("sqrt", node.call("add", spread, eps)))
    more = list(moved.values()) if "functional" in node.name else []
    return [y, *as_declared(node, mean, root, *more)]


def _moved(node: AtenNode, name: str, to: Expr) -> Expr:
    """A running statistic after a batch."""
    old, of = node.tensor(name), aten_type(to).dtype
    by = float(node.number("momentum", 0.1))
    part = node.call("multiply", to, node.as_tensor(by, of))
    stays = node.call("multiply", node.cast(old, of), node.as_tensor(1 - by, of))
    return node.cast(node.call("add", part, stays), aten_type(old).dtype)


def in_groups(node: AtenNode, given: Expr, groups: int, eps: float) -> list[Expr]:
    """Normalised with the mean and the variance of each group of channels of each item; and these."""
    x = node.work(given)
    shape, of = aten_type(x).shape, aten_type(x).dtype
    items, channels = shape[0], shape[1]
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise node.wrong(f"{channels} channels in {groups} groups")
    each = node.shaped(x, items, groups, product([channels // groups, *shape[2:]]))
    mean, squares = deviations(node, each, (2,))
    spread = node.call("divide", squares, node.as_tensor(aten_type(each).shape[2], of))
    weight, bias = node.optional("weight"), node.optional("bias")
    wide = [node.shaped(node.stretched(node.shaped(v, items, groups, 1), items, groups, channels // groups),
                        product([items, channels])) for v in (mean, spread)]  # fmt: skip
    per = [None if v is None else node.shaped(node.stretched(v, items, channels), product([items, channels]))
           for v in (weight, bias)]  # fmt: skip
    flat = node.shaped(x, 1, product([items, channels]), *shape[2:])
    y = node.shaped(by_channel(node, flat, per[0], per[1], wide[0], wide[1], eps), *shape)
    root = node.call("reciprocal", node.call("sqrt", node.call("add", spread, eps)))
    return [node.cast(y, aten_type(given).dtype), *(node.shaped(v, items, groups) for v in (mean, root))]


def group_norm(node: AtenNode) -> Expr | list[Expr]:
    """Normalised over each group of channels."""
    native = node.name == "native_group_norm"
    groups = node.whole("group" if native else "num_groups")
    found = in_groups(node, node.tensor("input"), groups, float(node.number("eps", 1e-5)))
    return [found[0], *as_declared(node, *found[1:])] if native else found[0]


def instance_norm(node: AtenNode) -> Expr | list[Expr]:
    """Normalised over each channel of each item."""
    x = node.tensor("input")
    legit = node.name != "instance_norm"
    if node.has("running_mean") and not node.flag("use_input_stats"):
        return batch_norm(node.with_(training=False))
    if legit or node.has("running_mean"):  # which is written
        raise node.unsupported("training = True")
    channels = aten_type(x).shape[1]
    assert isinstance(channels, int)
    return in_groups(node, x, channels, float(node.number("eps", 1e-5)))[0]


TABLE: dict[str, AtenRule] = {
    "_log_softmax": softmax("nn.log_softmax"),
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_functional": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm,
    "_safe_softmax": softmax("nn.softmax", safe=True),
    "_softmax": softmax("nn.softmax"),
    "batch_norm": batch_norm,
    "cudnn_batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "log_softmax": softmax("nn.log_softmax"),
    "native_batch_norm": batch_norm,
    "native_group_norm": group_norm,
    "native_layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax("nn.softmax"),
}
