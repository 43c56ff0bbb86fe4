"""ImageDecoder of ONNX (specs/lower.md, "Import").

The bytes of an image decide the sizes of the result, so it is decoded at import, by Pillow: they must be a constant, or
those of an input that the caller says, and the module asserts that they are.
"""

from __future__ import annotations

import io
from math import prod

import numpy as np

from assay.lower.frontends.onnx.dynamic_shapes import MOST_BYTES
from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.graph import Expr

MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


def image_decoder(node: Node) -> Expr:
    """(height, width, channels) of uint8."""
    try:
        from PIL import Image
    except ImportError:
        raise node.unsupported("Pillow, which decodes images, is not installed; pip install 'assay[images]'") from None
    order = node.attrs["pixel_format"]
    if order not in MODES:
        raise node.wrong(f"pixel_format is {order!r}; one of {', '.join(MODES)} is wanted")
    if tensor(node[0]).ndim != 1:
        raise node.wrong(f"encoded_stream is {tensor(node[0])}; a vector is wanted")
    data = io.BytesIO(node.known(0, MOST_BYTES).tobytes())
    try:
        with Image.open(data) as image:
            node.require_room(prod(image.size))
            pixels = np.asarray(image.convert(MODES[order]))
    except (OSError, ValueError, Image.DecompressionBombError) as wrong:
        raise node.wrong(f"encoded_stream is no image: {wrong}") from None
    if order == "Grayscale":
        return node.constant(pixels[:, :, None])
    return node.constant(np.ascontiguousarray(pixels[:, :, ::-1]) if order == "BGR" else pixels)


TABLE: dict[str, Rule] = {"ImageDecoder": image_decoder}
