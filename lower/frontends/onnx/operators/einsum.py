"""Einsum of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from assay.lower.frontends.onnx.node import Rule
from assay.semantics.composed.equations import einsum

TABLE: dict[str, Rule] = {"Einsum": lambda node: einsum(node, node.attrs["equation"], node.operands())}
