"""Windows of images as columns, and back (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.semantics.composed.maker import Maker, tensor_of
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


@dataclass(frozen=True)
class Windows:
    """Blocks of an image of known sizes, to which `pads` are added: before each axis, then behind each."""

    image: Sequence[int]
    block: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]

    @property
    def rank(self) -> int:
        """How many spatial axes there are."""
        return len(self.image)

    @property
    def padded(self) -> list[int]:
        """The sizes of the image with what is added to it."""
        return [n + self.pads[k] + self.pads[k + self.rank] for k, n in enumerate(self.image)]

    @property
    def counts(self) -> list[int]:
        """How many blocks there are along each axis."""
        reach = [(b - 1) * d + 1 for b, d in zip(self.block, self.dilations, strict=True)]
        return [(p - r) // s + 1 for p, r, s in zip(self.padded, reach, self.strides, strict=True)]

    @property
    def places(self) -> np.ndarray[Any, Any]:
        """Where each element of each block is in the padded image, in row-major order: [*block, *counts]."""
        places = np.zeros((*self.block, *self.counts), np.int64)
        for k, (size, count) in enumerate(zip(self.block, self.counts, strict=True)):
            along = [1] * (2 * self.rank)
            along[k], along[k + self.rank] = size, count
            lines = np.arange(size)[:, None] * self.dilations[k] + np.arange(count) * self.strides[k]
            places = places * self.padded[k] + lines.reshape(along)
        return places


def columns_to_image(make: Maker, x: Expr, channels: Dim, windows: Windows) -> Expr:
    """The columns [N, C * block, L] added up where the blocks lie in an image [N, C, *image]."""
    of, places, padded = tensor_of(x), windows.places, windows.padded
    columns = Term(make, x).shaped(of.shape[0], channels, places.size).moved((2, 0, 1))
    rest = (of.shape[0], channels)
    empty = make.call("full", shape=(prod(padded), *rest), fill_value=0, dtype=of.dtype.name)
    index = make.constant(places.reshape(-1, 1), INT64)
    added = make.call("scatter_nd", empty, index, columns.expr, reduction="add")
    whole = Term(make, added).moved((1, 2, 0)).shaped(*rest, *padded)
    if not any(windows.pads):
        return whole.expr
    axes = tuple(range(2, 2 + windows.rank))
    begin = tuple(windows.pads[: windows.rank])
    end = tuple(p + n for p, n in zip(begin, windows.image, strict=True))
    return make.call("strided_slice", whole.expr, axes=axes, begin=begin, end=end)


def image_to_columns(make: Maker, x: Expr, channels: Dim, windows: Windows) -> Expr:
    """The blocks of an image [N, C, *image], 0 beyond it, as the columns [N, C * block, L]."""
    images, rank = tensor_of(x).shape[0], windows.rank
    if any(windows.pads):
        pads = (0, 0, *windows.pads[:rank], 0, 0, *windows.pads[rank:])
        x = make.call("nn.pad", x, pad_width=pads, mode="constant", pad_value=0)
    flat = make.shaped(x, (images, channels, prod(windows.padded)))
    taken = make.call("take", flat, make.constant(windows.places.reshape(-1), INT64), axis=2)
    return make.shaped(taken, (images, channels * prod(windows.block), prod(windows.counts)))
