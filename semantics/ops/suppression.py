"""Greedy choice of boxes that do not overlap (specs/semantics.md, "Selection")."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.ops.common import require_kind
from assay.semantics.ops.selection import decided_array
from assay.semantics.ops.sizes import product
from assay.semantics.ops.slicing import record
from assay.semantics.scalar import provably_equal, simplify
from assay.semantics.types import TensorType, TupleType


def _suppress_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TupleType:
    scores, allowed, overlaps, most = types
    require_kind("suppress with scores", scores.dtype, ("float", "int", "uint"))
    wanted = (scores.shape[0], scores.shape[2], scores.shape[2]) if scores.ndim == 3 else ()
    SUPPRESS.require(
        scores.ndim == 3
        and allowed.dtype is BOOL
        and overlaps.dtype is BOOL
        and _same(allowed, scores.shape)
        and _same(overlaps, wanted),
        "C1",
        f"scores are {scores}, allowed {allowed}, overlaps {overlaps}; (batches, classes, boxes), a bool for each, and"
        " bools (batches, boxes, boxes) are wanted",
    )
    SUPPRESS.require(
        most.dtype.is_integer and most.shape == (1,), "C2", f"most is {most}; a tensor of one whole number is wanted"
    )
    return TupleType((TensorType((simplify(product(scores.shape)), 3), INT64), TensorType((1,), INT64)))


def _same(of: TensorType, shape: tuple[Any, ...]) -> bool:
    return of.ndim == len(shape) and all(map(provably_equal, of.shape, shape))


def _suppress(attrs: Attrs, scores: Any, allowed: Any, overlaps: Any, most: Any) -> tuple[Any, Any]:
    scores, allowed, overlaps, most = (
        decided_array(a, "which boxes are chosen") for a in (scores, allowed, overlaps, most)
    )
    found: list[tuple[int, int, int]] = []
    batches, classes, _ = scores.shape
    for b in range(batches):
        for c in range(classes):
            line = scores[b, c]
            left, taken = allowed[b, c] & (line == line), 0
            while taken < most[0] and left.any():
                places = np.flatnonzero(left)
                best = int(places[np.argmax(line[places])])
                found.append((b, c, best))
                taken += 1
                left = left & ~overlaps[b, :, best]
                left[best] = False
    out = np.zeros((scores.size, 3), np.int64)
    out[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
    return out, np.array([len(found)], np.int64)


SUPPRESS = record(
    "suppress",
    "Boxes that are chosen for each batch and class, the one with the highest score first (of equals the first), each"
    " allowed and overlapping none that was chosen before, until there are `most`: rows of batch, class, box; zeros"
    " after them; and their count. A score of NaN is never chosen",
    ("scores", "allowed", "overlaps", "most"),
    _suppress_type,
    _suppress,
    "ONNX NonMaxSuppression, docs/Operators.md, where overlaps and allowed scores are said by thresholds",
    (
        Example(
            (((2, 3, 5), "float32"), ((2, 3, 5), "bool"), ((2, 5, 5), "bool"), ((1,), "int64")), ranges={3: (0, 5)}
        ),
        Example((((1, 2, 4), "int8"), ((1, 2, 4), "bool"), ((1, 4, 4), "bool"), ((1,), "int64")), ranges={3: (2, 3)}),
    ),
    constraints={
        "C1": "scores have three axes; allowed are bools of the same sizes, overlaps bools of (batches, boxes, boxes)",
        "C2": "most is one whole number",
    },
    family="selection",
)

TABLE: tuple[Operator, ...] = (SUPPRESS,)
