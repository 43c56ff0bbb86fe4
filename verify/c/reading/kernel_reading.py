"""What is known of a kernel that was read, and of a block while it is read (specs/verify.md, "c")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.semantics.scalar import Var
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.values import CValue, Memory

Event: TypeAlias = tuple[str, Any]
"""What both sides have to do alike: for, if, while, store, else, close, end."""


@dataclass(frozen=True)
class KernelReading:
    """A kernel that was read: which buffer each parameter is, by role and number, and which are restrict."""

    buffers: tuple[tuple[str, int], ...]
    restrict: tuple[bool, ...]
    stores: tuple[bool, ...]
    asked: int
    sizes: tuple[Var, ...] = ()
    """The symbols that it is handed behind the pointers."""
    types: tuple[str, ...] = ()
    """The types of its parameters."""


@dataclass
class BlockFrame:
    """What holds around a block: facts of both sides, and what names mean in C."""

    ours: Facts
    theirs: Facts
    values: dict[str, CValue]
    arrays: dict[str, Memory]
