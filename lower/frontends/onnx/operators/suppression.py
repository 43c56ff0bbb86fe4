"""NonMaxSuppression of ONNX: overlaps of all pairs of boxes, then a greedy choice (specs/lower.md, "Import")."""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import BOOL
from assay.semantics.graph import Expr


def non_max_suppression(node: Node) -> Expr:
    """Without `max_output_boxes_per_class` it is 0: nothing is chosen. Without `score_threshold` every box may be."""
    boxes, scores = tensor(node[0]), tensor(node[1])
    if boxes.ndim != 3 or scores.ndim != 3:
        raise node.wrong(f"boxes are {boxes}, scores are {scores}; three axes each are wanted")
    most = node.shaped(node[2], (1,)) if node.has(2) else node.constant(np.zeros(1, np.int64))
    overlaps = _overlaps(node)
    if node.has(4):
        allowed = node.call("greater", node[1], node.shaped(node[4], ()))
    else:
        allowed = node.full(scores.shape, True, BOOL)
    rows, count = node.fields(node.call("suppress", node[1], allowed, overlaps, most), 2)
    return node.cut(rows, count, 0)


def _overlaps(node: Node) -> Expr:
    """Whether the intersection of two boxes is more than `iou_threshold` of their union."""
    call = node.call
    numbers = [node.pick(node[0], k, 2) for k in range(4)]
    if node.attrs["center_point_box"]:
        x, y, width, height = numbers
        halves = [call("divide", n, 2) for n in (width, height)]
        sides = [(call("subtract", m, h), call("add", m, h)) for m, h in zip((x, y), halves, strict=True)]
    else:
        y1, x1, y2, x2 = numbers
        sides = [(call("minimum", a, b), call("maximum", a, b)) for a, b in ((x1, x2), (y1, y2))]
    area = call("multiply", *(call("subtract", high, low) for low, high in sides))
    lengths = []
    for low, high in sides:
        first, second = ([call("expand_dims", v, axis=(a,)) for v in (low, high)] for a in (2, 1))
        lengths.append(call("subtract", call("minimum", first[1], second[1]), call("maximum", first[0], second[0])))
    inner = call("multiply", *lengths)
    one, other = (call("expand_dims", area, axis=(a,)) for a in (2, 1))
    union = call("subtract", call("add", one, other), inner)
    threshold = node.shaped(node[3], ()) if node.has(3) else 0
    found = call("greater", call("divide", inner, union), threshold)
    for v in (*lengths, inner, one, other, union):  # a box without area overlaps nothing
        found = call("logical_and", found, call("greater", v, 0))
    return found


TABLE: dict[str, Rule] = {"NonMaxSuppression": non_max_suppression}
