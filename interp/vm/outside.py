"""Values that cross the border of a run: arrays outside, tensors in storages inside (specs/interp.md;
specs/vm.md, "Calls").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.interp.values import Cell, Closure, Data, Value, parts
from assay.interp.vm.storage import Tensor, VMStorage
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.walk import fold, pre_order


class Border:
    """Brings values in and out. Cells that come in are the ones that a run writes, and have arrays again at its end."""

    def __init__(self) -> None:
        self.cells: dict[int, Cell] = {}

    def inward(self, value: Value, name: str, device: VirtualDevice = ANYWHERE) -> Value:
        """A value from outside, as a run has it."""

        def taken(value: Value, inside: Sequence[Value]) -> Value:
            match value:
                case tuple():
                    return tuple(inside)
                case Data():
                    return Data(value.type, value.constructor, tuple(inside))
                case np.ndarray() | np.generic():
                    return VMStorage.holding(name, np.asarray(value), device)
                case Closure():
                    raise Invalid(f"{name} holds a function of a graph run, which bytecode cannot call", label="vm.C6")
                case _:
                    return value

        met = [c for c in pre_order(value, _inside) if isinstance(c, Cell) and id(c) not in self.cells]
        for cell in met:
            self.cells[id(cell)] = cell
        for cell in met:
            cell.value = fold(cell.value, taken, parts)
        return fold(value, taken, parts)

    def outward(self, value: Value, what: str) -> Value:
        """A value of a run, with arrays for tensors; traps where one is not whole. Cells are those of the run."""

        def given(value: Value, inside: Sequence[Value]) -> Value:
            match value:
                case tuple():
                    return tuple(inside)
                case Data():
                    return Data(value.type, value.constructor, tuple(inside))
                case Tensor():
                    return value.copy(what)
                case _:
                    return value

        return fold(value, given, parts)

    def shown(self, value: Value, what: str) -> Value:
        """A value of a run as it is now, with cells of its own."""
        cells = {id(c): (c, Cell(None)) for c in pre_order(value, _inside) if isinstance(c, Cell)}

        def swapped(value: Value, inside: Sequence[Value]) -> Value:
            match value:
                case tuple():
                    return tuple(inside)
                case Data():
                    return Data(value.type, value.constructor, tuple(inside))
                case Cell():
                    return cells[id(value)][1]
                case Tensor():
                    return value.copy(what)
                case _:
                    return value

        for old, new in cells.values():
            new.value = fold(old.value, swapped, parts)
        return fold(value, swapped, parts)

    def close(self, results: Value) -> Value:
        """The results of a run as they are outside, and so the cells that are reached from them or came in."""
        met = {id(c): c for c in pre_order(results, _inside) if isinstance(c, Cell)}
        for cell in self.cells.values():
            met.update((id(c), c) for c in pre_order(cell, _inside) if isinstance(c, Cell))
        for cell in met.values():
            cell.value = self.outward(cell.value, "held by a reference at the end")
        return self.outward(results, "returned")


def _inside(value: Value) -> Sequence[Value]:
    return (value.value,) if isinstance(value, Cell) else parts(value)
