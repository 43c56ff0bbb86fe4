"""Where a value lives (rule M8; specs/lower.md, "simplify")."""

from __future__ import annotations

from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Expr, let_chain


def device_of_value(node: Expr) -> VirtualDevice:
    """The device of a value: of a let that of its body, whatever the let says."""
    return let_chain(node)[1].device
