"""The devices of a lowering, as a certificate says them (specs/verify.md, "Certificate")."""

from __future__ import annotations

import json
from typing import Any

from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice


def devices_as_data(config: CompilationConfig) -> dict[str, Any]:
    """The devices that there are, and which of them, by number, are the host and the default."""
    devices = config.devices
    there = [[d.type, d.id, d.target] for d in devices]
    return {"there": there, "host": devices.index(config.host), "default": devices.index(config.default)}


def devices_from(data: Any) -> CompilationConfig:
    """The devices that a manifest says. ValueError: they are not written so."""
    if any([type(part) for part in row] != [str, int, str] for row in data["there"]):
        raise ValueError("a device is a type, an id and a target")
    there = tuple(VirtualDevice(kind, number, target) for kind, number, target in data["there"])
    config = CompilationConfig(there, there[data["host"]], there[data["default"]])
    known = CompilationConfig.make(there, config.host, config.default)
    if known != config or json.dumps(devices_as_data(config)) != json.dumps(data):
        raise ValueError("the devices are not written as they are")
    return config
