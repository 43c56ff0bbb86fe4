"""Names that are not taken (specs/semantics.md, "Modules")."""

from __future__ import annotations

from collections.abc import Container


def unused(name: str, *taken: Container[str], sign: str = "_") -> str:
    """The name itself, or the first of `name_1`, `name_2`, ..., with that sign, that is in none of `taken`."""
    found, count = name, 0
    while any(found in t for t in taken):
        count += 1
        found = f"{name}{sign}{count}"
    return found
