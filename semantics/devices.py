"""Virtual devices: where a value lives (rule M8; specs/semantics.md, "M8 Devices").

A virtual device has four fields, each of which may be open: a type, an id, a target and a memory scope. `join` is what
satisfies two of them at once, `default` fills what one leaves open from another. The first three fields say where
something runs, the scope in which memory of that device it is stored: `place` and `scope` take the two apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from assay.semantics.errors import Invalid

TYPES = {
    "c": "cpu", "llvm": "cpu", "cpu": "cpu", "cuda": "cuda", "nvptx": "cuda", "opencl": "opencl", "metal": "metal",
    "vulkan": "vulkan", "rocm": "rocm", "webgpu": "webgpu", "hexagon": "hexagon", "ext_dev": "ext_dev",
}  # fmt: skip
"""The device type of each kind of target that has only one (TVM include/tvm/target/target_kind.h)."""

DLPACK = {
    1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 12: "ext_dev", 15: "webgpu", 16: "hexagon",
}  # fmt: skip
"""DLPack's numbers of device types."""

LARGEST = 2**31 - 1
"""The largest id of a device: DLPack and C have 32 bits for it."""

GLOBAL = "global"
"""The scope of a device's main memory: what an open scope becomes."""


@dataclass(frozen=True)
class VirtualDevice:
    """A type such as "cuda", an id, a target such as "llvm -mcpu=native", a memory scope such as "global.texture". An
    unset field is open: -1 for the id, "" for the others. A target of a kind that is for one type of device says the
    type.

    Invalid (device.C1): an id below -1 or above LARGEST, or a target of another type of device (rule M8.1).
    """

    type: str = ""
    id: int = -1
    target: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        if not -1 <= self.id <= LARGEST:
            message = (
                f"a virtual device has the id {self.id}; 0 or more is wanted, at most {LARGEST}, or -1 where it is open"
            )
            raise Invalid(message, label="device.C1")
        of = TYPES.get(kind_of(self.target), "")
        if self.type and of and of != self.type:
            raise Invalid(
                f"a virtual device of type {self.type} has the target {self.target!r}, which is for {of}",
                label="device.C1",
            )
        if of and not self.type:  # so what means the same is equal
            object.__setattr__(self, "type", of)

    @property
    def place(self) -> VirtualDevice:
        """Where something runs that is here: the device without the scope."""
        return replace(self, scope="") if self.scope else self

    @property
    def is_full(self) -> bool:
        """Whether no field is open."""
        return "" not in (self.type, self.target, self.scope) and self.id >= 0

    def agrees(self, other: VirtualDevice) -> bool:
        """Whether the two may be one: what either leaves open agrees with anything."""
        return self.join(other) is not None

    def join(self, other: VirtualDevice) -> VirtualDevice | None:
        """What both say, each field from the one that says it; None where they say different things (rule M8.2)."""
        pairs = ((self.type, other.type), (self.id, other.id), (self.target, other.target), (self.scope, other.scope))
        if any(a != b and a not in ("", -1) and b not in ("", -1) for a, b in pairs):
            return None
        return VirtualDevice(
            self.type or other.type, max(self.id, other.id), self.target or other.target, self.scope or other.scope
        )

    def covers(self, other: VirtualDevice) -> bool:
        """Whether this one says all that the other says."""
        pairs = ((self.type, other.type), (self.id, other.id), (self.target, other.target), (self.scope, other.scope))
        return all(b in ("", -1) or a == b for a, b in pairs)

    def default(self, other: VirtualDevice) -> VirtualDevice:
        """This device with what it leaves open from `other`: its target only where that is for the same type
        (rule M8.2)."""
        of = self.type or other.type
        target = self.target or (other.target if other.type in ("", of) else "")
        return VirtualDevice(of, self.id if self.id >= 0 else other.id, target, self.scope or other.scope)

    def __str__(self) -> str:
        """For people: cuda:1 (sm_80) global.texture; "anywhere" if all is open."""
        words = [self.type or ("any" if self != ANYWHERE else "anywhere")]
        if self.id >= 0:
            words[0] += f":{self.id}"
        if self.target and self.target != self.type:
            words.append(f"({self.target})")
        return " ".join([*words, self.scope] if self.scope else words)


def kind_of(target: str) -> str:
    """The kind of a target: llvm of "llvm -mcpu=native" and of '{"kind": "llvm"}'; "" of none."""
    kind = re.match(r'\{.*?"kind"\s*:\s*"([^"]+)"|\s*(\S+)', target)
    return (kind[1] or kind[2]) if kind else ""


ANYWHERE = VirtualDevice()
