"""The configuration that a module asks for itself (rule M8; specs/lower.md, "devices")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.compilation import CPU, CompilationConfig
from assay.semantics.devices import ANYWHERE, TYPES, VirtualDevice, kind_of
from assay.semantics.graph import Expr, OnDevice
from assay.semantics.graph.effects import is_copy
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Module
from assay.semantics.walk import post_order


def default_config(module: Module) -> CompilationConfig | None:
    """The devices that a module names, those that leave nothing open first; None where nothing names a device and
    nothing is annotated or copied.

    A device that is named in part is the first that there is with that part, else one with the id 0 and the target of
    its type. The host is the first cpu, `cpu:0` with the target "c" where none is named; it is the default too: what
    is left open runs where everything can. Invalid (config.C3): one device is named with two targets.
    """
    named = dict.fromkeys(_named(module))
    if not named:
        return None
    wanted = sorted({d.place for d in named} - {ANYWHERE}, key=_by_what_is_said)
    devices: list[VirtualDevice] = []
    for d in wanted:
        kind = kind_of(d.target)
        of = d.type or TYPES.get(kind, kind)
        if of and not any(known.covers(d) for known in devices):
            devices.append(VirtualDevice(of, max(d.id, 0), d.target or (CPU.target if of == CPU.type else of)))
    devices.sort(key=lambda d: (d.type, d.id, d.target))
    host = next((d for d in devices if d.type == CPU.type), CPU)
    return CompilationConfig.make(devices or [host], host, host)


def _by_what_is_said(d: VirtualDevice) -> tuple[bool, bool, bool, str, int, str]:
    return not d.target, not d.type, d.id < 0, d.type, d.id, d.target


def _named(module: Module) -> Iterator[VirtualDevice]:
    for info in module.infos.values():
        if info.device != ANYWHERE:
            yield info.device
    for d in module.graphs.values():
        root: Expr = d
        for node in post_order(root):
            if isinstance(node, OnDevice):
                yield node.wanted
            elif is_copy(node, module):
                yield node.device
            for n in (node, *bound_by(node)):
                if n.device != ANYWHERE:
                    yield n.device
