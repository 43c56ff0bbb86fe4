"""Where values are, by cells that are united (specs/verify.md, "devices").

A value has one cell; a function has a domain for each parameter and, last, one for its result. What is inside a tuple,
a reference or a data value has the cell of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.types import FuncType, Type
from assay.semantics.walk import Worklist, fold_scoped, occurrences

Domain: TypeAlias = "int | Sequence[Domain]"


class DeviceCells:
    """Cells by number. Each holds what is said of it: those that are united hold what is said of any."""

    def __init__(self) -> None:
        self.above: list[int] = []
        self.said: list[VirtualDevice] = []

    def cell(self, said: VirtualDevice = ANYWHERE) -> int:
        """Make a new cell, of which `said` is said."""
        self.above.append(len(self.above))
        self.said.append(said)
        return len(self.above) - 1

    def find(self, cell: int) -> int:
        """The cell that stands for all that are united with this one."""
        while (up := self.above[cell]) != cell:
            self.above[cell] = self.above[up]
            cell = up
        return cell

    def at(self, cell: int) -> VirtualDevice:
        """What is said of a cell and of those united with it."""
        return self.said[self.find(cell)]

    def fresh(self, of: Type, said: VirtualDevice = ANYWHERE) -> Domain:
        """A new domain for a value of a type. `said` is where it is; of a function, where its result is."""

        def inside(at: tuple[Type, VirtualDevice]) -> list[tuple[Type, VirtualDevice]]:
            t, here = at
            return [*((p, ANYWHERE) for p in t.params), (t.result, here)] if isinstance(t, FuncType) else []

        def made(at: tuple[Type, VirtualDevice], parts: list[Domain]) -> Domain:
            t, here = at
            return tuple(parts) if isinstance(t, FuncType) else self.cell(here)

        return fold_scoped((of, said), inside, made)

    def unite(self, a: Domain, b: Domain) -> tuple[VirtualDevice, VirtualDevice] | None:
        """Make two domains one; what is said of two cells that do not go together, at the first such place. Where only
        one is a structure, all of it is one with the other."""
        work = Worklist([(a, b)])
        for x, y in work:
            if isinstance(x, int) and isinstance(y, int):
                x, y = self.find(x), self.find(y)
                both = self.said[x].join(self.said[y])
                if both is None:
                    return self.said[x], self.said[y]
                self.above[y] = x
                self.said[x] = both
            elif isinstance(x, int):
                work.add((x, p) for p in leaves(y))
            elif isinstance(y, int):
                work.add((p, y) for p in leaves(x))
            else:
                work.add(zip(x, y, strict=True))
        return None


def leaves(of: Domain) -> Iterator[int]:
    """The cells of a domain, in order."""
    return (d for d in occurrences(of, lambda d: () if isinstance(d, int) else d) if isinstance(d, int))


def result(of: Domain) -> int:
    """The cell of what a function gives in the end; of another value its own."""
    while not isinstance(of, int):
        of = of[-1]
    return of
