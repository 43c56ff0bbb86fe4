"""Random numbers of ONNX (specs/lower.md, "Import").

What a random operator gives is any member of a set. A caller that asks for `draws` gets a module that gives one of
them: the numbers are drawn at import and are constants, the same in each run. A node with a `seed` has a generator of
its own, the Mersenne Twister as NumPy seeds it; the others share one, which the caller seeds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


def _generator(node: Node) -> np.random.RandomState:
    shared = node.builder.draws
    if shared is None:
        raise node.unsupported(
            "a random result, which is any of a set (in Python `import_onnx` takes one of them, by a seed: `draws`)"
        )
    seed = node.attrs.get("seed")
    if seed is None:
        return shared
    whole = float(seed).is_integer() and 0 <= seed < 2**32
    return np.random.RandomState(int(seed) if whole else struct.unpack("<I", struct.pack("<f", seed))[0])


def _sizes(node: Node, shape: Sequence[Dim]) -> tuple[int, ...]:
    numbers = tuple(d for d in shape if isinstance(d, int))
    if len(numbers) != len(shape) or any(n < 0 for n in numbers):
        raise node.unsupported(f"random numbers of shape ({', '.join(map(str, shape))}); give the sizes numbers")
    return numbers


def random(node: Node) -> Expr:
    """Translate RandomNormal and RandomUniform, of a shape or of that of an operand."""
    shape = tensor(node[0]).shape if node.has(0) else node.attrs["shape"]
    of = node.dtype("dtype", tensor(node[0]).dtype if node.has(0) else None)
    if not of.is_float:
        raise node.wrong(f"random numbers of {of}; a float dtype is wanted")
    if node.attrs.get("scale", 0) < 0:
        raise node.wrong(f"scale is {node.attrs['scale']}; at least 0 is wanted")
    g, sizes = _generator(node), _sizes(node, shape)
    if "scale" in node.attrs:
        return node.constant(g.normal(node.attrs["mean"], node.attrs["scale"], sizes), of)
    return node.constant(g.uniform(node.attrs["low"], node.attrs["high"], sizes), of)


def multinomial(node: Node) -> Expr:
    """A class for each sample: how many of the running totals of the probabilities are not above a number of [0, 1)."""
    x, count = tensor(node[0]), node.attrs["sample_size"]
    if x.ndim != 2 or count < 1:
        raise node.wrong(f"{count} samples of {x}; at least one, of rows of a matrix, is wanted")
    of = node.dtype("dtype")
    numbers = node.constant(_generator(node).uniform(size=(*_sizes(node, x.shape[:1]), count, 1)))
    wide = node.cast(node[0], FLOAT64)
    totals = node.call("cumsum", node.call("nn.softmax", wide, axis=1), axis=1)
    inner = node.call("strided_slice", totals, axes=(1,), begin=(0,), end=(-1,))  # the last class takes what is left
    passed = node.call("less_equal", node.call("expand_dims", inner, axis=(1,)), numbers)
    return node.cast(node.call("sum", node.cast(passed, INT64), axis=(2,), keepdims=False), of)


def bernoulli(node: Node) -> Expr:
    """1 with the probability that the operand says. (ONNX's body for it compares the other way round.)"""
    x = tensor(node[0])
    numbers = node.constant(_generator(node).uniform(size=_sizes(node, x.shape)))
    return node.cast(node.call("less", numbers, node.cast(node[0], FLOAT64)), node.dtype("dtype", x.dtype))


def dropped(node: Node, training: Expr) -> tuple[Expr, Expr]:
    """Dropout-12 and later: the operand with some elements 0 and the others scaled, and which these are, where
    `training` holds; the operand itself elsewhere."""
    x = tensor(node[0])
    numbers = node.constant(_generator(node).uniform(size=_sizes(node, x.shape)))
    ratio = node.shaped(node[1], ()) if node.has(1) else node.constant(0.5, FLOAT32)
    kept = node.call("greater_equal", numbers, node.cast(ratio, FLOAT64))
    scale = node.cast(node.call("divide", 1.0, node.call("subtract", 1.0, ratio)), x.dtype)
    y = node.call("multiply", node.call("multiply", node[0], node.cast(kept, x.dtype)), scale)
    return node.call("where", training, y, node[0]), node.call("logical_or", kept, node.call("logical_not", training))


TABLE: dict[str, Rule] = {
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "RandomNormal": random,
    "RandomNormalLike": random,
    "RandomUniform": random,
    "RandomUniformLike": random,
}
