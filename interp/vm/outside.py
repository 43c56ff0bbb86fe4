"""Values that cross the border of a run: arrays outside, tensors in storages inside (specs/interp.md;
specs/vm.md, "Calls").
"""

from __future__ import annotations

import numpy as np

from assay.interp.values import Cell, Closure, Value, contents, rebuilt, with_own_cells
from assay.interp.vm.storage import Tensor, VMStorage
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.walk import pre_order


class Border:
    """Brings values in and out. Cells that come in are the ones that a run writes, and have arrays again at its end."""

    def __init__(self) -> None:
        self.cells: dict[int, Cell] = {}

    def inward(self, value: Value, name: str, device: VirtualDevice = ANYWHERE) -> Value:
        """A value from outside, as a run has it."""

        def taken(value: Value) -> Value:
            if isinstance(value, Closure):
                raise Invalid(f"{name} holds a function of a graph run, which bytecode cannot call", label="vm.C6")
            if isinstance(value, np.ndarray | np.generic):
                return VMStorage.holding(name, np.asarray(value), device)
            return value

        met = [c for c in pre_order(value, contents) if isinstance(c, Cell) and id(c) not in self.cells]
        for cell in met:
            self.cells[id(cell)] = cell
        for cell in met:
            cell.value = rebuilt(cell.value, taken)
        return rebuilt(value, taken)

    def outward(self, value: Value, what: str) -> Value:
        """A value of a run, with arrays for tensors; traps where one is not whole. Cells are those of the run."""
        return rebuilt(value, lambda v: _array(v, what))

    def shown(self, value: Value, what: str) -> Value:
        """A value of a run as it is now, with cells of its own."""
        return with_own_cells(value, lambda v: _array(v, what))

    def close(self, results: Value) -> Value:
        """The results of a run as they are outside, and so the cells that are reached from them or came in."""
        met = {id(c): c for c in pre_order(results, contents) if isinstance(c, Cell)}
        for cell in self.cells.values():
            met.update((id(c), c) for c in pre_order(cell, contents) if isinstance(c, Cell))
        for cell in met.values():
            cell.value = self.outward(cell.value, "held by a reference at the end")
        return self.outward(results, "returned")


def _array(value: Value, what: str) -> Value:
    """A tensor as an array of its own; anything else as it is."""
    return value.copy(what) if isinstance(value, Tensor) else value
