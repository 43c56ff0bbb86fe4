"""How large the large programs of the default suite are."""

from __future__ import annotations

MANY = 8_000
"""Nodes, or levels: eight times what Python lets a function call itself. Whether time grows as it should up to 100,000
is what the benchmarks say."""
FEW = MANY // 4
"""For what takes longer a node."""
