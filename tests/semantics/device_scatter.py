"""Programs with devices strewn over them: what text, storage and rewriting must keep."""

from __future__ import annotations

import random
from collections.abc import Sequence

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Function
from assay.semantics.module import Definition, Module
from assay.semantics.text.graph.default_device import parts_of, with_devices

CPU = VirtualDevice("cpu", 0, "llvm -mcpu=native", "global")
GPU = VirtualDevice("cuda", 0, "cuda -arch=sm_80", "global")
TEXTURE = VirtualDevice("cuda", 0, "cuda -arch=sm_80", "global.texture")
OTHER = VirtualDevice("cuda", 0, "cuda -arch=sm_70", "global")
FULL = (CPU, GPU, TEXTURE, OTHER)
PARTIAL = (
    VirtualDevice("cuda"), VirtualDevice("cuda", 3), VirtualDevice(id=1), VirtualDevice(scope="shared"),
    VirtualDevice(target="own -fast"), VirtualDevice("npu", target="npu", scope="tiles"),
)  # fmt: skip


def scattered(module: Module, rng: random.Random, devices: Sequence[VirtualDevice], often: float = 1.0) -> Module:
    """The module with one of `devices` on everything, or on a part of it; the first one more often than the others."""

    def device() -> VirtualDevice:
        if rng.random() >= often:
            return ANYWHERE
        return devices[0] if rng.random() < 0.5 else rng.choice(devices)

    definitions: dict[str, Definition] = {}
    for name, d in module.definitions.items():
        definitions[name] = d
        if isinstance(d, Function):
            definitions[name] = with_devices(d, {id(n): device() for n in parts_of(d)})
    return Module(definitions, module.constants, module.offsets, module.infos)
