"""Softmax, batch and layer normalization, LRN and Dropout of ONNX (specs/lower.md, "Import").

Everything is taken in its inference meaning, but for Dropout where the caller asks for random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.contraction import image
from assay.lower.frontends.onnx.operators.draws import dropped
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.sizes import product


def _softmax(op: str, node: Node) -> Expr:
    """Along one axis since version 13; before, over all axes from `axis` on taken as one."""
    x = tensor(node[0])
    axis = node.axis(x.ndim)
    if node.version >= 13 or axis == x.ndim - 1:
        return node.call(op, node[0], axis=axis)
    matrix = (product(x.shape[:axis]), product(x.shape[axis:]))
    return node.shaped(node.call(op, node.shaped(node[0], matrix), axis=1), x.shape)


def batch_norm(node: Node) -> Sequence[Result]:
    """(x - mean) / sqrt(var + epsilon) * scale + bias for each channel, axis 1.

    In training, since version 14, mean and variance are those of x, and two more outputs move the given ones there.
    """
    if node.attrs.get("is_test") == 0:
        raise node.unsupported("the training form (is_test 0, as by default before version 7)")
    training = bool(node.attrs.get("training_mode"))
    if not training and any(node.wants(i) for i in range(1, 5)):
        raise node.unsupported("the training form before version 14: it has more outputs than Y")
    of = tensor(node[0]).dtype
    # since version 14 scale and statistics may have dtypes of their own: what holds them all is computed in
    every = {tensor(i).dtype for i in node.operands()}
    wide = max(every, key=lambda d: d.bits)
    if any(d is not wide and d.bits == wide.bits for d in every):
        wide = FLOAT32  # float16 and bfloat16
    x, *params = (node.cast(i, wide) for i in node.operands())
    shape = tensor(x).shape
    if node.attrs.get("spatial") == 0:  # until version 8: one mean for each element of [C, *spatial]
        x = node.shaped(x, (shape[0], product(shape[1:])))
        params = [node.shaped(p, (product(tensor(p).shape),)) for p in params]
    elif len(shape) == 1:
        x = node.shaped(x, (shape[0], 1))  # a vector is N values of one channel
    elif not shape:
        raise node.wrong("operand X is a scalar; axes N and C are wanted")
    moved: list[Result] = []
    if training:
        own = _moments(node, x, tuple(a for a in range(tensor(x).ndim) if a != 1))
        own = [node.shaped(m, tensor(x).shape[1:2]) for m in own]
        moved = [_moved(node, node[3 + k], params[2 + k], own[k]) for k in range(2)]
        params[2:] = own
    y = node.call("nn.batch_norm", x, *params, axis=1, epsilon=node.attrs["epsilon"])
    return [node.cast(node.shaped(y, shape), of), *moved]


def _moments(node: Node, x: Expr, axes: tuple[int, ...]) -> list[Expr]:
    """Mean and variance along axes, which stay."""
    mean = node.call("mean", x, axis=axes, keepdims=True)
    apart = node.call("subtract", x, mean)
    return [mean, node.call("mean", node.call("multiply", apart, apart), axis=axes, keepdims=True)]


def _moved(node: Node, operand: Expr, given: Expr, own: Expr) -> Expr:
    """given * momentum + own * (1 - momentum)."""
    kept = node.call("multiply", given, node.attrs["momentum"])
    new = node.call("multiply", own, 1 - node.attrs["momentum"])
    return node.cast(node.call("add", kept, new), tensor(operand).dtype)


def instance_norm(node: Node) -> Expr:
    """(x - mean) / sqrt(var + epsilon) * scale + bias, with mean and variance for each image and channel."""
    x = image(node)
    wide = x.dtype if x.dtype.bits >= 32 else FLOAT32
    axes, inner = tuple(range(2, x.ndim)), x.shape[2:]
    one = node.full(inner, 1.0, wide)
    y = node.call("nn.layer_norm", node.cast(node[0], wide), one, axes=axes, epsilon=node.attrs["epsilon"])
    for k, op in ((1, "multiply"), (2, "add")):
        if not same_shape(tensor(node[k]).shape, x.shape[1:2]):
            name = node.schema.operand(k).name
            raise node.wrong(f"operand {name} is {node[k].type}; a number for each channel is wanted")
        y = node.call(op, y, node.shaped(node.cast(node[k], wide), (*x.shape[1:2], *(1 for _ in inner))))
    return node.cast(y, x.dtype)


def layer_norm(node: Node) -> Sequence[Result]:
    """Stage one, (x - mean) / sqrt(var + epsilon), in the dtype that `stash_type` says; stage two in that of x."""
    x = tensor(node[0])
    stash = {1: "float32", 16: "bfloat16"}.get(node.attrs["stash_type"])
    if stash is None:
        raise node.wrong(f"stash_type is {node.attrs['stash_type']}; 1 (float) or 16 (bfloat16) is wanted")
    axis = node.axis(x.ndim)
    axes, inner = tuple(range(axis, x.ndim)), x.shape[axis:]
    params = [node[i] for i in (1, 2) if node.has(i)]
    for p in params:
        if not same_shape(broadcast_shapes(str(node), [x.shape, tensor(p).shape]), x.shape):
            raise node.wrong(f"operands Scale and B must broadcast to X: {p.type} does not to {x}")
    width = DTYPES[stash]
    if width is x.dtype and all(tensor(p).ndim <= len(inner) for p in params):
        params = [node.stretched(p, inner) for p in params]
        y = node.call("nn.layer_norm", node[0], *params, axes=axes, epsilon=node.attrs["epsilon"])
    else:
        one = node.full(inner, 1.0, width)
        normal = node.call("nn.layer_norm", node.cast(node[0], width), one, axes=axes, epsilon=node.attrs["epsilon"])
        y = node.cast(normal, x.dtype)
        for op, p in zip(("multiply", "add"), params, strict=False):
            y = node.call(op, y, p)
    return [y, *_statistics(node, axes, width)]


def _statistics(node: Node, axes: tuple[int, ...], width: DType) -> list[Result]:
    """The outputs Mean and InvStdDev, composed where the model names one of them."""
    if not (node.wants(1) or node.wants(2)):
        return []
    mean, variance = _moments(node, node.cast(node[0], width), axes)
    shifted = node.call("add", variance, node.attrs["epsilon"])
    return [mean, node.call("reciprocal", node.call("sqrt", shifted))]


def dropout(node: Node) -> Sequence[Result]:
    """The operand itself. The mask is all true where the documentation says so: since version 12."""
    if node.attrs.get("is_test") == 0:
        raise node.unsupported("the training form (is_test 0, as by default before version 7)")
    if node.has(2) and node.scalar(2) is not False and not (node.scalar(2) and node.scalar(1) == 0):
        return dropped(node, node.shaped(node[2], ()))
    if node.version < 12:
        return [node[0], Refused("the mask has no meaning outside training before operator set 12")]
    return [node[0], *([node.full(tensor(node[0]).shape, True, BOOL)] if node.wants(1) else [])]


TABLE: dict[str, Rule] = {
    "BatchNormalization": batch_norm,
    "Dropout": dropout,
    "InstanceNormalization": instance_norm,
    "LRN": lambda node: node.call("nn.lrn", node[0], **node.attrs),
    "LayerNormalization": layer_norm,
    "LogSoftmax": partial(_softmax, "nn.log_softmax"),
    "Softmax": partial(_softmax, "nn.softmax"),
}
