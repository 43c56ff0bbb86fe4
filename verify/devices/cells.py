"""Where values are, by cells that are united (specs/verify.md, "devices").

A value has one cell; a function has a domain for each parameter and, last, one for its result. What is inside a tuple,
a reference or a data value has the cell of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.types import FuncType, Type

Domain: TypeAlias = "int | Sequence[Domain]"


class Cells:
    """Cells by number. Each holds what is said of it: those that are united hold what is said of any."""

    def __init__(self) -> None:
        self.above: list[int] = []
        self.said: list[VirtualDevice] = []

    def cell(self, said: VirtualDevice = ANYWHERE) -> int:
        self.above.append(len(self.above))
        self.said.append(said)
        return len(self.above) - 1

    def find(self, cell: int) -> int:
        while (up := self.above[cell]) != cell:
            self.above[cell] = self.above[up]
            cell = up
        return cell

    def at(self, cell: int) -> VirtualDevice:
        return self.said[self.find(cell)]

    def fresh(self, of: Type, said: VirtualDevice = ANYWHERE) -> Domain:
        """A new domain for a value of a type. `said` is where it is; of a function, where its result is."""
        done: list[Domain] = []
        work: list[tuple[Type, bool, VirtualDevice]] = [(of, False, said)]
        while work:
            t, ready, here = work.pop()
            if not isinstance(t, FuncType):
                done.append(self.cell(here))
            elif ready:
                count = len(t.params) + 1
                done[-count:] = [tuple(done[-count:])]
            else:
                work += [(t, True, here), (t.result, False, here)]
                work += [(p, False, ANYWHERE) for p in reversed(t.params)]
        return done[0]

    def unite(self, a: Domain, b: Domain) -> tuple[VirtualDevice, VirtualDevice] | None:
        """Make two domains one; what is said of two cells that do not go together, at the first such place. Where only
        one is a structure, all of it is one with the other."""
        work = [(a, b)]
        while work:
            x, y = work.pop()
            if isinstance(x, int) and isinstance(y, int):
                x, y = self.find(x), self.find(y)
                both = self.said[x].join(self.said[y])
                if both is None:
                    return self.said[x], self.said[y]
                self.above[y] = x
                self.said[x] = both
            elif isinstance(x, int):
                work += [(x, p) for p in leaves(y)]
            elif isinstance(y, int):
                work += [(p, y) for p in leaves(x)]
            else:
                work += zip(x, y, strict=True)
        return None


def leaves(of: Domain) -> Iterator[int]:
    work = [of]
    while work:
        d = work.pop()
        if isinstance(d, int):
            yield d
        else:
            work += reversed(d)


def result(of: Domain) -> int:
    """The cell of what a function gives in the end; of another value its own."""
    while not isinstance(of, int):
        of = of[-1]
    return of
