"""What `main` is read as: calls, choices and loops over origins, in their order (specs/lower.md, "liveness")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics.alias import Origin
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.scalar import Dim, Var
from assay.semantics.types import TensorType

Arm: TypeAlias = "tuple[Choose, int] | None"


@dataclass(frozen=True, eq=False)
class Run:
    """A call of a tensor function. `types` are those of what it reads and makes, as the call names them: what it reads
    may be a view."""

    kernel: str
    reads: tuple[Origin, ...]
    makes: tuple[Origin, ...]
    types: tuple[TensorType, ...]
    scalars: tuple[Dim, ...]
    span: Span | None
    device: VirtualDevice


@dataclass(eq=False)
class Choose:
    """A choice by a boolean. `results` are its origins, `arms` those that its branches give for them. `told` are the
    sizes of the results, as far as they are told where a branch begins."""

    condition: Origin
    span: Span | None
    results: tuple[Origin, ...] = ()
    arms: tuple[tuple[Origin, ...], tuple[Origin, ...]] = ((), ())
    told: tuple[dict[Var, Dim], dict[Var, Dim]] = field(default_factory=lambda: ({}, {}))


@dataclass(frozen=True)
class Close:
    """The end of what is done in one branch of a choice: its results are there."""

    of: Choose
    side: int


@dataclass(frozen=True)
class Otherwise:
    """Here the first branch of a choice ends, and the second begins."""

    of: Choose


@dataclass(frozen=True)
class End:
    """The end of a choice in the text."""

    of: Choose


@dataclass(frozen=True, eq=False)
class Assert:
    """Sizes that have to be equal here, by pairs: found, and wanted."""

    sizes: tuple[tuple[Dim, Dim], ...]
    span: Span | None


@dataclass(frozen=True, eq=False)
class Measured:
    """Here symbols become the elements of a vector of int64."""

    vector: Origin
    symbols: tuple[Var, ...]
    span: Span | None


@dataclass(frozen=True, eq=False)
class Resized:
    """Here symbols become dims, all at once: what the size of a choice is in one of its arms, or that of a variable of
    a loop in its next iteration. `among` is the choice."""

    symbols: tuple[Var, ...]
    values: tuple[Dim, ...]
    among: Choose | None
    span: Span | None


@dataclass(frozen=True, eq=False)
class Effect:
    """Origins that are printed here by a format; with a `condition` that has to hold, if it does not."""

    condition: Origin | None
    shown: tuple[Origin, ...]
    format: str
    span: Span | None

    @property
    def reads(self) -> tuple[Origin, ...]:
        """What it looks at."""
        return self.shown if self.condition is None else (self.condition, *self.shown)


@dataclass(eq=False)
class Begin:
    """Here a loop begins: a function that calls itself, written out where it is called. `carried` are the origins in
    which its variables are handed over, None for one that every call of itself hands on as it is; `initial` are the
    origins that the call hands over, of all variables.

    A variable whose size an iteration changes is handed over in memory of its next size. Each iteration takes its size
    from there, and begins with a copy to what the variable then names, `taken`.
    """

    carried: tuple[Origin | None, ...]
    initial: tuple[Origin, ...]
    span: Span | None
    sizes: tuple[tuple[Var, Var, Var], ...] = ()
    """Of each symbol of the function that its calls of itself change: it, the size that is handed over, and what it is
    in an iteration."""
    taken: tuple[tuple[Origin, Origin], ...] = ()
    """Pairs: in what a variable is handed over, and what it names."""


@dataclass(frozen=True)
class Again:
    """Here a loop begins anew, with these origins for its variables."""

    of: Begin
    values: tuple[Origin, ...]
    span: Span | None


@dataclass(frozen=True)
class Leave:
    """The end of a loop in the text."""

    of: Begin


Item: TypeAlias = Assert | Measured | Resized | Effect | Run | Choose | Close | Otherwise | End | Begin | Again | Leave

Value: TypeAlias = "tuple[Origin, ...] | None"
"""The origins of a value; None where none comes, for a loop begins anew instead."""
Typed: TypeAlias = "tuple[tuple[Origin, ...], tuple[TensorType, ...]] | None"
"""The same with the type of each tensor where it is used: that of its origin is how it was made."""


@dataclass(eq=False)
class Text:
    """The items in order, the origins of the result, and for each origin that an item makes the arm that it is made
    in."""

    items: list[Item] = field(default_factory=list)
    result: tuple[Origin, ...] = ()
    types: tuple[TensorType, ...] = ()
    """What the results are."""
    names: dict[Var, Var] = field(default_factory=dict)
    """What sizes that a run tells are called in the type of the result."""
    arm_of: dict[Origin, Arm] = field(default_factory=dict)
