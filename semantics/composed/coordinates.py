"""Coordinates of resized images (specs/semantics.md, "Text")."""

from __future__ import annotations

NEAR = 8 * 2.0**-24
"""How far off a coordinate may be, as a part of the axis, that is computed in float32: a scale that is rounded, a
quotient, a sum and a difference, each within an ulp. ONNX gives the scales in float32, and TVM computes in it, whatever
the images are."""
