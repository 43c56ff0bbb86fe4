"""The memory of bytecode: storages of shadowed bytes, and tensors that lie in them (rule M7; specs/interp.md;
specs/vm.md, "Memory").

A storage lives as long as something refers to it. Each of its bytes carries which of its tensors wrote it last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from assay.interp.binding import Array
from assay.interp.graph.memory_limits import require_budget, too_large
from assay.interp.shadow import ShadowRegion, Slots
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import UINT8, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Slot
from assay.semantics.names import unused
from assay.semantics.types import TensorType

LARGEST_ALIGNMENT = 1 << 16


@dataclass(eq=False)
class VMStorage:
    """A piece of memory of one device. What was handed in from outside is read-only."""

    region: ShadowRegion
    slots: Slots
    device: VirtualDevice

    @staticmethod
    def make(name: str, nbytes: int, alignment: int, device: VirtualDevice, garbage: Array) -> VMStorage:
        """Fresh memory, which holds garbage that nobody wrote. Traps where it is more than there is."""
        if not 0 < alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
            raise Invalid(f"{alignment} is no alignment: a power of two is, up to {LARGEST_ALIGNMENT}", label="vm.C5")
        wrong = too_large((nbytes,), UINT8)
        if wrong is not None:
            raise Trap("memory", f"{name} would take {wrong}", label="memory.T1")
        require_budget((nbytes,), UINT8, lambda: name)
        slots = Slots({}, alignment)
        return VMStorage(ShadowRegion.make(name, nbytes, slots, garbage, alignment), slots, device)

    @staticmethod
    def holding(name: str, contents: Array, device: VirtualDevice) -> Tensor:
        """A tensor with contents that nothing can change, in a storage of its own."""
        of = TensorType(tuple(contents.shape), dtype(contents.dtype))
        slot = Slot(name, of, "constant", (), dtype(contents.dtype).itemsize, 0, device=device)
        slots = Slots({name: slot}, 1)
        region = ShadowRegion.of_constants(f"memory of {name}", of.nbytes, slots)
        region.hold(slot, contents)
        return Tensor(VMStorage(region, slots, device), slot)

    def tensor(self, name: str, of: TensorType, offset: int) -> Tensor:
        """A tensor in these bytes, of which nothing is written."""
        if self.region.owner is None:
            raise Trap("store to constant", f"{self.region.name} is read-only", label="machine.T6")
        end = offset + of.nbytes
        if offset < 0 or end > len(self.region.data):
            what = f"{name} is bytes [{offset}, {end}) of the {self.region.name}, which has {len(self.region.data)}"
            raise Trap("out of bounds", what, label="machine.T4")
        if offset % max(of.dtype.itemsize, 1):
            what = f"{name} at byte {offset} of the {self.region.name} is not aligned to {of.dtype.itemsize} bytes"
            raise Trap("misaligned", what, label="machine.T5")
        slot = Slot(
            unused(name, self.slots.numbers), of, "workspace", (), of.dtype.itemsize, offset, device=self.device
        )
        self.slots.add(slot)
        if len(self.slots) > np.iinfo(self.region.owner.dtype).max:
            wider = np.min_scalar_type(2 * len(self.slots))
            self.region = replace(self.region, owner=self.region.owner.astype(wider))
        return Tensor(self, slot)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: a view of a storage. Views of one tensor share its name in the storage."""

    storage: VMStorage
    slot: Slot

    @property
    def type(self) -> TensorType:
        """Its type, in numbers."""
        return self.slot.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.slot.type.static_shape

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.slot.type.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Its element type, as NumPy has it."""
        found: np.dtype[np.generic] = np.dtype(self.slot.type.dtype.numpy)
        return found

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may write it."""
        return self.storage.region.owner is None

    def array(self) -> Array:
        """Its elements, as they are in memory."""
        return self.storage.region.view(self.slot)

    def read(self, what: str) -> Array:
        """Its elements; traps unless it wrote every byte of them last."""
        self.storage.region.check(self.slot, what)
        return self.array()

    def copy(self, what: str) -> Array:
        """A copy of its elements, checked."""
        found = self.read(what)
        return found if self.is_read_only else found.copy()

    def viewed(self, of: TensorType) -> Tensor:
        """The same bytes as a tensor of another shape; traps where it has other elements."""
        if of.dtype is not self.type.dtype or of.nbytes != self.type.nbytes:
            raise Trap("shape", f"{self.slot.name} is {self.type}, and is viewed as {of}", label="vm.T2")
        if self.is_read_only:
            return VMStorage.holding(self.slot.name, self.array().reshape(of.static_shape), self.storage.device)
        return Tensor(self.storage, replace(self.slot, type=of))
