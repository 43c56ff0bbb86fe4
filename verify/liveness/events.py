"""What may trap in a text, in its order, and what stands for a choice and for a size (specs/verify.md, "liveness").

The numbers are the same for a graph function and for a program of steps that does what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics.scalar import Dim, Var as Symbol, provably_equal
from assay.verify.value_numbering.terms import Table, dim_text

Numbers: TypeAlias = tuple[int, ...]
"""One for each tensor of a value, left to right."""


def chosen_size(table: Table, condition: int, then: Dim, otherwise: Dim) -> Dim:
    """What stands for a size that is one in one arm, and another in the other."""
    if provably_equal(then, otherwise):
        return then
    arms = tuple(dim_text(d, lambda s: f"@{table.symbol(s)}") for d in (then, otherwise))
    return table.sizes.setdefault((table.number("size", condition, *arms), 0), Symbol(f"size_{len(table.sizes)}"))


def carried_size(table: Table, loop: int, variable: int, axis: int) -> Symbol:
    """What stands for a dim of a variable of a loop where an iteration begins."""
    return table.sizes.setdefault((table.number("carried", loop, variable), axis), Symbol(f"size_{len(table.sizes)}"))


def choice(table: Table, condition: int, then: int, otherwise: int) -> int:
    """The number of what a choice gives: the one value where both arms give it."""
    return then if then == otherwise else table.number("if", condition, then, otherwise)


@dataclass
class Block:
    """What may trap in a stretch of a text, in order; and of a choice at its end of which one arm ends in a loop that
    begins anew: the condition, the events of that arm, whether it is the first, and what is in the other arm, with all
    that follows."""

    events: list[int] = field(default_factory=list)
    rest: tuple[int, Numbers, bool, Block] | None = None


@dataclass
class TrapEvents:
    """What may trap, in order: the numbers of results, and of choices the events of both arms."""

    table: Table
    open: list[Block] = field(default_factory=lambda: [Block()])

    def add(self, number: int) -> None:
        """Note an event in the innermost block."""
        _last(self.open[-1])[-1].events.append(number)

    def assert_sizes(self, sizes: Sequence[tuple[Dim, Dim]]) -> None:
        """Note that dims have to be equal here, in pairs; nothing where there are none."""

        if sizes:
            self.add(self.table.number("sizes", *(" = ".join(self.texts(pair)) for pair in sizes)))

    def measure(self, vector: int, count: int) -> list[Symbol]:
        """Note that the elements of a vector become sizes here, or the run traps; the symbols that stand for them: the
        same for the same vector."""
        self.add(self.table.number("measure", vector, count))
        return [self.table.sizes.setdefault((vector, i), Symbol(f"size_{len(self.table.sizes)}")) for i in range(count)]

    def effect(self, condition: int | None, shown: Numbers, format: str) -> None:
        """Note that values are printed here by a format; with a condition that has to hold, if it does not."""
        what = ("print",) if condition is None else ("require", condition)
        self.add(self.table.number(*what, shown, format))

    def enter(self) -> None:
        """Begin a block."""
        self.open.append(Block())

    def leave(self) -> Numbers:
        """End the innermost block and give its events."""
        return self.closed(self.open.pop())

    def closed(self, block: Block) -> Numbers:
        """The events of a block that has ended."""
        events: Numbers = ()
        for one in reversed(_last(block)):
            if one.rest is not None:
                condition, ended, first, _ = one.rest
                arms = (ended, events) if first else (events, ended)
                events = (self.table.number("choice", condition, *arms),)
            events = (*one.events, *events)
        return events

    def go_on(self, condition: int, ended: Numbers, first: bool, other: Block) -> None:
        """One arm has ended in a loop that begins anew: what follows is in the other, up to the end of the block."""
        _last(self.open[-1])[-1].rest = condition, ended, first, other

    def again(self, loop: int, carried: Numbers, sizes: Sequence[Dim]) -> None:
        """A loop begins anew with these values of its variables, and these of the sizes that change."""
        self.add(self.table.number("again", loop, carried, *self.texts(sizes)))

    def loop(self, loop: int, initial: Numbers, sizes: Sequence[Dim]) -> None:
        """The innermost block was the body of a loop that began with these values of its variables, and these of the
        sizes that change. It is an event whatever is in it: that it ends is not known."""
        events = self.leave()
        self.add(self.table.number("loop", loop, initial, events, *self.texts(sizes)))

    def texts(self, dims: Iterable[Dim]) -> list[str]:
        """Dims as texts, the same for the same."""
        return [dim_text(d, lambda s: f"@{self.table.symbol(s)}") for d in dims]

    def choose(self, condition: int, then: Numbers, otherwise: Numbers) -> None:
        """Both arms have ended; nothing if nothing in them can trap."""
        if then or otherwise:
            self.add(self.table.number("choice", condition, then, otherwise))


def _last(block: Block) -> list[Block]:
    """A block, and those in which it goes on: the last is the one that is being filled."""
    found = [block]
    while found[-1].rest is not None:
        found.append(found[-1].rest[3])
    return found
