"""How large the large programs of the default suite are."""

from __future__ import annotations

MANY = 4_000
"""Nodes, or levels: four times what Python lets a function call itself. Whether time grows as it should up to 100,000
is what the benchmarks say."""
FEW = MANY // 2
"""For what takes longer a node."""
