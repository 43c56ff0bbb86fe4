"""How the C entry and its kernels may be called (specs/lower.md, "c")."""

from __future__ import annotations

from enum import StrEnum


class Interface(StrEnum):
    """The calling convention."""

    UNPACKED = "unpacked"
    """One typed pointer for each tensor."""
    C_PACKED = "c-packed"
    """An array of tagged values and a slot for the result; kernels by symbol."""
    PACKED = "packed"
    """The same; kernels by name, from a table that is handed in."""
