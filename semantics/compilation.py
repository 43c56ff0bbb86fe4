"""What a program is compiled for: the devices that there are (row V4; specs/semantics.md, "M8 Devices")."""

from __future__ import annotations

from dataclasses import dataclass

from assay.semantics.devices import GLOBAL, VirtualDevice


@dataclass(frozen=True)
class CompilationConfig:
    """`devices` are what there is, all fields said but for the scope; `host` is the one on which shapes, sizes and
    decisions live; `default` the one for what nothing constrains."""

    devices: tuple[VirtualDevice, ...]
    host: VirtualDevice
    default: VirtualDevice

    def canonical(self, device: VirtualDevice) -> VirtualDevice:
        """`device` with what it leaves open filled in: all of the default device's where it leaves its type open, else
        the first device that there is of its type; the main memory where the scope is open."""
        same = next((d for d in self.devices if d.type == device.type), self.default)
        return device.default(same).default(VirtualDevice(scope=GLOBAL))
