"""Index notation: what an operator gives at one index, stated once (specs/semantics.md, "Index notation").

    meaning_of("matmul").element(use, i, j)     # sum(k < K: a[i, k] * b[k, j])

A term is a scalar expression that may have folds over boxes of indices. It is the definition that is read; that it is
the operator's value in NumPy is shown at small sizes, and that the operator's kernel gives it, for all sizes
(`assay.verify.all_sizes`).
"""

from __future__ import annotations

from assay.semantics.indexed import movement_meanings, normalization_meanings, pointwise_meanings, sum_meanings
from assay.semantics.indexed.meaning import Meaning

MEANINGS: dict[str, Meaning] = {
    **pointwise_meanings.TABLE,
    **sum_meanings.TABLE,
    **normalization_meanings.TABLE,
    **movement_meanings.TABLE,
}
"""The operators that are stated in index notation."""


def meaning_of(name: str) -> Meaning | None:
    """An operator in index notation; None where it is not stated in it."""
    return MEANINGS.get(name)
