"""What an operator gives at one index: a rule for each operator (specs/semantics.md, "Index notation")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.operator import Attrs
from assay.semantics.scalar import Dim, Expr, apply, const, provably_equal, select
from assay.semantics.scalar.expression import Buffer


@dataclass(frozen=True)
class Use:
    """One use of an operator: attributes with defaults filled in, operands and results."""

    attrs: Attrs
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    result: int = 0
    """Which result is meant."""

    @property
    def x(self) -> Buffer:
        """The first operand."""
        return self.operands[0]

    @property
    def out(self) -> Buffer:
        """The result that is meant."""
        return self.results[self.result]


@dataclass(frozen=True)
class Asked:
    """What is asked of data: for each place of a box, `condition(*place)` holds, or the operator traps."""

    extents: Sequence[Dim]
    condition: Callable[..., Expr]


ElementRule: TypeAlias = Callable[..., Expr]
"""rule(use, *index): the element of the result."""


@dataclass(frozen=True)
class Meaning:
    """An operator in index notation. `needs(use)` are conditions on sizes without which it has no value, `asks(use)`
    those on data."""

    element: ElementRule
    needs: Callable[[Use], Sequence[Expr]] = lambda use: ()
    asks: Callable[[Use], Sequence[Asked]] = lambda use: ()


def stretched(buffer: Buffer, index: Sequence[Expr], to: Sequence[Dim]) -> Expr:
    """The element that a buffer has at the index of a result of shape `to`, to which it is broadcast."""
    return buffer[stretched_index(buffer.shape, index, to)]


def stretched_index(shape: Sequence[Dim], index: Sequence[Expr], to: Sequence[Dim]) -> tuple[Expr, ...]:
    """The index at which a shape is read for that of a result to which it is broadcast."""
    skipped = len(index) - len(shape)
    return tuple(_along(d, i, n) for d, i, n in zip(shape, index[skipped:], to[skipped:], strict=True))


def _along(size: Dim, index: Expr, whole: Dim) -> Expr:
    if isinstance(size, int) and size == 1:
        return const(0)
    if isinstance(size, int) or provably_equal(size, whole):
        return index
    return select(apply("eq", size, 1), 0, index)


def all_of(*parts: Expr) -> Expr:
    """That all hold."""
    made = parts[0]
    for p in parts[1:]:
        made = apply("and", made, p)
    return made
