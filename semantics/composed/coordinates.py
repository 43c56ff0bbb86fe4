"""Coordinates of resized images (specs/semantics.md, "Text")."""

from __future__ import annotations

from assay.semantics.composed.terms import Term

NEAR = 8 * 2.0**-24
"""How far off a coordinate may be, as a part of the axis, that is computed in float32: a scale that is rounded, a
quotient, a sum and a difference, each within an ulp. ONNX gives the scales in float32, and TVM computes in it, whatever
the images are."""
KEYS = -0.75
"""The usual coefficient of Keys' curve."""


def cubic(d: Term, a: float) -> Term:
    """Keys' curve with the coefficient `a`, of distances that are not negative; NaN of NaN."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return near.chosen(d <= 1.0, d.number(0.0).chosen(d >= 2.0, far))
