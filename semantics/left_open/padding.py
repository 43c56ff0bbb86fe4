"""Zeros that are no elements, in sums of products: padding, and what lies between the elements of a ConvTranspose
(specs/semantics.md, "Left open").

Where one of them meets an infinity or NaN among the weights, an implementation that multiplies has NaN, and one that
leaves it out has the sum of the other products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from assay.semantics.bounding.model import SLACK, gamma
from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Array, Opening, OperatorUse
from assay.semantics.ops import operator

Sums = Callable[[Any, Any], Array]
"""Of x and w, the sums of their products; what is no element counts as 0."""


def products_of_zeros(u: OperatorUse) -> Iterator[Opening]:
    """nn.conv1d, nn.conv2d and nn.conv3d with padding, or of whole planes of zeros beside others, as a transposed
    convolution is of the elements with zeros between and around them; and ConvTranspose, which is imported so."""
    x, w = u.operands[:2]
    if u.operator == "ConvTranspose":
        yield from _without_zeros(
            u, lambda x, w: _put_back(u, x, w), prod(w.shape) // w.shape[1], np.ones_like(x, bool)
        )
    elif u.is_float and not np.isfinite(w).all():
        there = ~_in_planes_of_zeros(x)
        if any(u.attrs["padding"]) or not there.all():
            yield from _without_zeros(
                u, lambda x, w: np.asarray(operator(u.operator).value(u.attrs, x, w)), prod(w.shape[1:]), there
            )


def _in_planes_of_zeros(x: Array) -> Array:
    """Which elements have a place on a spatial axis where all are zeros, unless all places of that axis are so."""
    found = np.zeros_like(x, bool)
    for axis in range(2, x.ndim):
        zeros = np.asarray((x == 0).all(axis=tuple(a for a in range(x.ndim) if a != axis), keepdims=True))
        found |= zeros & ~zeros.all()
    return found


def _without_zeros(u: OperatorUse, sums: Sums, terms: int, there: Array) -> Iterator[Opening]:
    """What an implementation may give that leaves out the products of what is not `there`."""
    result = u.results[0]
    if not u.is_float or not np.isnan(result).any() or np.isfinite(u.operands[1]).all():
        return
    of = dtype(result.dtype)
    x, w, *more = (a.astype(np.float64) for a in u.operands)
    bias = more[0].reshape((-1, *(1,) * (x.ndim - 2))) if more else np.zeros(())

    def some(*pairs: tuple[Any, Any]) -> Any:
        """Where one product is of an element of the first kind and a weight of the second."""
        return sum(sums((a & there).astype(np.float64), b.astype(np.float64)) for a, b in pairs) > 0

    up, down = ((w > 0) & np.isfinite(w), (w < 0) & np.isfinite(w))
    plus = some((x > 0, w == np.inf), (x < 0, w == -np.inf), (x == np.inf, up), (x == -np.inf, down)) | (bias == np.inf)
    minus = some((x > 0, w == -np.inf), (x < 0, w == np.inf), (x == np.inf, down), (x == -np.inf, up)) | (
        bias == -np.inf
    )
    no_number = some(
        (np.isnan(x), w == w),
        (np.isnan(x), w != w),
        (x == x, np.isnan(w)),
        (x == 0, np.isinf(w)),
        (np.isinf(x), w == 0),
    ) | np.isnan(bias)
    finite = [np.where(np.isfinite(a), a, 0.0) for a in (x, w, bias)]
    total = sums(*finite[:2]) + finite[2]
    size = sums(*map(np.abs, finite[:2])) + np.abs(finite[2])
    off = np.where(plus | minus, 0.0, gamma(terms + SLACK + 1, of) * size + of.smallest_subnormal)
    value = np.where(plus, np.inf, np.where(minus, -np.inf, total))
    beyond = ~(plus | minus) & (size + off > float(of.max))  # where a partial sum may overflow, to either side
    low, high = np.where(beyond, -np.inf, value - off), np.where(beyond, np.inf, value + off)
    yield Opening(np.isnan(result) & ~no_number & ~(plus & minus), low, high, nan=True)


def _put_back(u: OperatorUse, x: Array, w: Array) -> Array:
    """The products of ConvTranspose, each added where it belongs."""
    group, rank, spatial, out = int(u.attrs.get("group", 1)), x.ndim - 2, x.shape[2:], u.results[0].shape
    strides, dilations = ([int(s) for s in u.attrs.get(name) or (1,) * rank] for name in ("strides", "dilations"))
    before = _cut_off(u, strides, dilations)
    lead = [max(0, -b) for b in before]
    full = [
        lead[k] + max(strides[k] * spatial[k] + w.shape[2 + k] * dilations[k], before[k] + out[2 + k])
        for k in range(rank)
    ]
    x = x.reshape((x.shape[0], group, -1, *spatial))
    w = w.reshape((group, -1, *w.shape[1:]))
    made = np.zeros((x.shape[0], group, w.shape[2], *full))
    for tap in np.ndindex(*w.shape[3:]):
        first = [lead[k] + tap[k] * dilations[k] for k in range(rank)]
        at: tuple[Any, ...] = (
            ...,
            *(slice(f, f + s * (n - 1) + 1, s) for f, s, n in zip(first, strides, spatial, strict=True)),
        )
        made[at] += np.einsum("ngc...,gcm->ngm...", x, w[(slice(None),) * 3 + tap])
    cut: tuple[Any, ...] = (..., *(slice(a + b, a + b + n) for a, b, n in zip(lead, before, out[2:], strict=True)))
    return np.asarray(made[cut].reshape(out))


def _cut_off(u: OperatorUse, strides: list[int], dilations: list[int]) -> list[int]:
    """How much of the full result is cut off before each spatial axis, by the equations of the text."""
    rank, mode = len(strides), u.attrs.get("auto_pad", b"NOTSET")
    wanted = u.attrs.get("output_shape")
    if not wanted and mode in (b"NOTSET", b"VALID"):
        return [int(p) for p in (u.attrs.get("pads") or (0,) * rank)[:rank]] if mode == b"NOTSET" else [0] * rank
    extra = u.attrs.get("output_padding") or (0,) * rank
    x, w, y = u.operands[0].shape[2:], u.operands[1].shape[2:], u.results[0].shape[2:]
    total = [strides[k] * (x[k] - 1) + extra[k] + (w[k] - 1) * dilations[k] + 1 - y[k] for k in range(rank)]
    if not wanted:
        total = [max(t, 0) for t in total]
    return [t // 2 if mode == b"SAME_UPPER" else t - t // 2 for t in total]
