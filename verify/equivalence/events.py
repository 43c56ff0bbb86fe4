"""Events: the statements of a run that make values, and what they load (specs/verify.md, "equivalence")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.scalar import Expr, Var
from assay.semantics.tensor import Buffer, Stmt

Array: TypeAlias = np.ndarray[Any, Any]
Lane: TypeAlias = Array | None
"""For each lane the one of another place that it refers to; None is the same lane."""


@dataclass(frozen=True, eq=False)
class Known:
    """A value that an event has made: of the same lane, or of lane `lane[i]` for lane i."""

    event: TraceEvent
    lane: Lane = None


@dataclass(frozen=True, eq=False)
class TraceRead:
    """A load: of an input (`number` and places), of memory (addresses), or of a read-only buffer at indices that are
    data."""

    buffer: Buffer
    number: int = -1
    places: Any = None
    data: Array | None = None
    indices: tuple[Expr, ...] = ()
    own: bool = False
    """Whether it is the very element that the store writes."""


@dataclass(eq=False)
class TraceEvent:
    """A statement that makes a value, in all lanes that reach it. A store writes it to `address`; others keep it."""

    stmt: Stmt
    value: Expr
    count: int
    first: int
    """The number of its first instance."""
    leaf: int
    """Its place in the clock."""
    guards: tuple[tuple[Known, bool], ...]
    races: tuple[tuple[int, Array], ...]
    """The parallel loops around: its number, and which of its iterations."""
    buffer: Buffer | None = None
    address: Array | None = None
    concrete: dict[int, Any] = field(default_factory=dict)
    """By identity of a part of the value: its numbers, where they do not depend on data."""
    reads: dict[int, TraceRead] = field(default_factory=dict)
    data: dict[Var, Known | int] = field(default_factory=dict)
