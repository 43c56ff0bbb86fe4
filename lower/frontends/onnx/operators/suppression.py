"""NonMaxSuppression of ONNX: overlaps of all pairs of boxes, then a greedy choice (specs/lower.md, "Import")."""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.composed.terms import Term
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
    numbers = [Term(node, node[0]).picked(k, 2) for k in range(4)]
    if node.attrs["center_point_box"]:
        x, y, width, height = numbers
        sides = [(m - half, m + half) for m, half in ((x, width / 2), (y, height / 2))]
    else:
        y1, x1, y2, x2 = numbers
        sides = [(a.at_most(b), a.at_least(b)) for a, b in ((x1, x2), (y1, y2))]
    lengths = []
    for low, high in sides:
        lengths.append(_new(high, 2).at_most(_new(high, 1)) - _new(low, 2).at_least(_new(low, 1)))
    area = (sides[0][1] - sides[0][0]) * (sides[1][1] - sides[1][0])
    inner, one, other = lengths[0] * lengths[1], _new(area, 2), _new(area, 1)
    union = one + other - inner
    found = inner / union > (Term(node, node[3]).shaped() if node.has(3) else 0)
    for v in (*lengths, inner, one, other, union):  # a box without area overlaps nothing
        found = found & (v > 0)
    return found.expr


def _new(t: Term, axis: int) -> Term:
    """With a new axis of one element."""
    return Term(t.node, t.node.call("expand_dims", t.expr, axis=(axis,)))


TABLE: dict[str, Rule] = {"NonMaxSuppression": non_max_suppression}
