"""What the C function takes and where everything lies, as a value (specs/lower.md, "c")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.lower.c.constants import Constants
from assay.lower.c.convention import Device, Devices
from assay.lower.c.externs import Externs
from assay.lower.c.names import ScopeNames
from assay.lower.c.packed_abi import PACKED_PARAMETERS, SpecNames
from assay.lower.c.sizes import EntrySizes
from assay.lower.c.tables import Blob
from assay.lower.interfaces import Interface
from assay.lower.liveness.problem import bytes_of
from assay.lower.memory.sums import Sums
from assay.semantics.instance import place_of
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType


@dataclass(frozen=True)
class Argument:
    """An input or output of the C function: its slot, its names as a parameter and in macros, its types."""

    slot: str
    name: str
    macro: str
    type: TensorType
    ctype: str
    workspace: str = ""
    """The workspace in which it lies, by its C name; empty: the caller gives a pointer to it."""
    offset: int = 0
    """Its place there."""
    room: Dim | None = None
    """The bytes that it has to have, where its type has sizes that a run measures."""

    @property
    def kept(self) -> Dim:
        """The bytes that it has to have."""
        return bytes_of(self.type) if self.room is None else self.room

    @property
    def handed(self) -> TensorType:
        """What a packed entry is handed for it: of an output whose sizes a run measures a vector that has the room."""
        if self.room is None:
            return self.type
        sums = Sums({})
        return TensorType((sums.dim(sums.of(self.room // self.type.dtype.itemsize)),), self.type.dtype)

    @property
    def nbytes(self) -> int:
        """The same, where that is a number."""
        return self.room if isinstance(self.room, int) else self.type.nbytes


def by_pointer(arguments: Iterable[Argument]) -> list[Argument]:
    """Those that are handed over by pointer; the others lie in a workspace."""
    return [a for a in arguments if not a.workspace]


@dataclass(frozen=True)
class Workspace:
    """A pool as a parameter of the C function: its name in the program, its names as a parameter and in macros."""

    pool: str
    name: str
    macro: str
    nbytes: Dim
    alignment: int

    @property
    def base(self) -> str:
        """The same as bytes, inside the function."""
        return self.name.replace("workspace", "base", 1)


def workspace_names(pools: Sequence[str]) -> list[tuple[str, str]]:
    """The names of the pools as parameters and in macros. One is `workspace`, whatever its pool is called."""
    if len(pools) == 1:
        return [("workspace", "WORKSPACE")]
    names, macros = ScopeNames(), ScopeNames()
    words = [p if re.match(r"workspace(_|$)", p) else f"workspace_{p}" for p in pools]
    return [(names.fresh(w), macros.fresh(w, upper=True)) for w in words]


@dataclass(frozen=True, eq=False)
class EntryLayout:
    """Where the arguments and slots of an entry function lie, and the C names of it and its hooks."""

    name: str
    macro: str
    program: Program
    module: Module
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    offsets: Mapping[str, str]
    """Workspace slot to the last part of the macro that holds its offset."""
    blob: Blob | None
    constants: Constants
    """Where each constant stands."""
    workspaces: tuple[Workspace, ...]
    interface: Interface
    default_device: str
    """The device of steps that name none; empty if they have no hooks."""
    devices: Devices
    external: Mapping[str, str]
    """Kernel to the macro that says that its code is elsewhere."""
    packed: Mapping[str, str]
    """Kernel to its packed function."""
    specs: Mapping[str, SpecNames]
    """Kernel to the table of its parameters."""
    entry_specs: SpecNames
    externs: Externs
    sizes: EntrySizes
    """The sizes that the entry takes, if any, and what depends on them."""

    @property
    def has_handle(self) -> bool:
        """Whether the entry takes a resource handle, which hooks and kernels get."""
        return self.interface is not Interface.UNPACKED or bool(self.devices.all)

    def offset(self, slot: str) -> str:
        """The macro of a slot's place in its workspace, or the field of the plan."""
        if self.program.plan is not None and slot in self.program.plan.places:
            return self.sizes.text(self.program.plan.places[slot].offset, f"offset_{self.offsets[slot].lower()}")
        return f"{self.macro}_OFFSET_{self.offsets[slot]}"

    def workspace(self, slot: Slot) -> Workspace:
        """Where a slot lies."""
        place = place_of(self.program, slot)
        assert place is not None, f"{slot.name} lies in a pool"
        pool = place.pool or self.program.pools[0].name
        return next(w for w in self.workspaces if w.pool == pool)

    def signature(self) -> str:
        """The entry without its semicolon."""
        if self.interface is not Interface.UNPACKED:
            return f"int {self.name}_run({PACKED_PARAMETERS})"
        words = self.sizes.parameters()
        words += [f"const {a.ctype} *{a.name}" for a in by_pointer(self.inputs)]
        words += [f"{a.ctype} *{a.name}" for a in by_pointer(self.outputs)]
        words += [f"int64_t *{s.name}" for s in self.sizes.returned]
        words += [f"void *{w.name}" for w in self.workspaces]
        if self.blob is not None:
            words.append("const void *weights")
        if self.has_handle:
            words.append("void *handle")
        inner = ", ".join(words)
        if len(inner) > 90:
            inner = "\n    " + ",\n    ".join(words)
        return f"int {self.name}_run({inner})"

    def hook(self, device: Device, verb: str) -> str:
        """The name of the user's C function that does `verb`, such as "open", on a device."""
        return f"{self.name}_device_{device.c}_{verb}"
