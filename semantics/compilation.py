"""What a program is compiled for: the devices that there are (row V4; specs/semantics.md, "M8 Devices").

config = CompilationConfig.read(["cuda:0=cuda -arch=sm_80", "cpu"], default="cuda")
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.devices import GLOBAL, TYPES, VirtualDevice, kind_of
from assay.semantics.digits import is_size
from assay.semantics.errors import Invalid

CPU = VirtualDevice("cpu", 0, "c")
"""The host where none is said: the C that is made here runs on it."""

EXAMPLES = '"cpu", "cuda:1", "llvm -mcpu=native" or "cuda:0=cuda -arch=sm_80"'


@dataclass(frozen=True)
class CompilationConfig:
    """`devices` are what there is, all fields said but for the scope; `host` is the one on which shapes, sizes and
    decisions live; `default` the one for what nothing constrains. Host and default are among the devices
    (rule M8.8)."""

    devices: tuple[VirtualDevice, ...]
    host: VirtualDevice
    default: VirtualDevice

    @staticmethod
    def make(
        devices: Sequence[VirtualDevice], host: VirtualDevice | None = None, default: VirtualDevice | None = None
    ) -> CompilationConfig:
        """A configuration of the devices that there are; of each the type or the target is said.

        An open id is 0, an open target the one that a type's name is ("c" of a cpu). The host is `host`, which may be
        one more device; else the only cpu; else `CPU`, as one more device. The default is `default`; else the only one
        of `devices`; else the host, if it is one of `devices`.

        Invalid: no device (config.C1); a device without a type, or with a scope (config.C2); one that is there twice
        (config.C3); several that may be the host (config.C4) or the default (config.C5), or none that it may be.
        """
        if not devices:
            raise Invalid(f"nothing says what to compile for; name a device, such as {EXAMPLES}", label="config.C1")
        known: dict[tuple[str, int], VirtualDevice] = {}
        for d in map(_whole, devices):
            twice = known.setdefault((d.type, d.id), d)
            if twice is not d:
                message = f"{d.type}:{d.id} is there twice, as {twice} and as {d}; give each device its own id"
                raise Invalid(message, label="config.C3")
        given = tuple(known.values())
        host = _host(given, host)
        if default is not None:
            default = _among(given if host in given else (*given, host), default, "the default device", "config.C5")
        elif len(given) == 1:
            (default,) = given
        elif host in given:
            default = host
        else:
            names = ", ".join(map(str, given))
            message = f"what nothing constrains may live on any of {names}; say which one is the default"
            raise Invalid(message, label="config.C5")
        return CompilationConfig(given if host in given else (*given, host), host, default)

    @staticmethod
    def read(devices: Sequence[str], host: str | None = None, default: str | None = None) -> CompilationConfig:
        """A configuration from words of a command line, one device each: a name such as "cuda:1", a target as TVM
        writes it, or both, as in "cuda:0=cuda -arch=sm_80". Invalid: what `make` says, and device.C2."""
        return CompilationConfig.make(
            [read_device(d) for d in devices],
            None if host is None else read_device(host),
            None if default is None else read_device(default),
        )

    def canonical(self, device: VirtualDevice) -> VirtualDevice:
        """`device` with what it leaves open filled in from a device that there is: the default one if it may be that,
        else the first that it may be. An open scope is the main memory.

        Invalid (config.C6): there is no such device.
        """
        found = next((d for d in (self.default, *self.devices) if d.agrees(device.place)), None)
        if found is None:
            names = ", ".join(map(str, self.devices))
            raise Invalid(f"there is no device {device.place}; there are {names}", label="config.C6")
        return device.default(found).default(VirtualDevice(scope=GLOBAL))


def read_device(text: str) -> VirtualDevice:
    """The device that a word of a command line names; see `CompilationConfig.read`. Invalid (device.C2)."""
    named = re.fullmatch(r"\s*([A-Za-z_]\w*)(?::(\w*))?(?:\s*=\s*(\S.*?))?\s*", text)
    if named is None:
        kind = kind_of(text)
        if not re.fullmatch(r"[A-Za-z_][\w-]*", kind):
            raise Invalid(f"{text!r} is no device, such as {EXAMPLES}", label="device.C2")
        return VirtualDevice(TYPES.get(kind, kind), target=text.strip())
    kind, number, target = named.groups()
    if number is not None and not is_size(number):
        raise Invalid(f"{text!r}: {number!r} is no id of a device; a number is, as in {kind}:0", label="device.C2")
    of, at = TYPES.get(kind, kind), -1 if number is None else int(number)
    if target is None and kind != of:  # the name of a target, such as llvm
        target = kind
    return VirtualDevice(of, at, target or "")


def _whole(device: VirtualDevice) -> VirtualDevice:
    """A device of a configuration with its id and its target."""
    if not device.type:
        message = f"nothing says of which type the device {device} is; say it, as in cuda:0={device.target or 'cuda'}"
        raise Invalid(message, label="config.C2")
    if device.scope:
        message = f"{device} has a scope; a device has all of its memories, so leave it out"
        raise Invalid(message, label="config.C2")
    return device.default(VirtualDevice(id=0)).default(
        VirtualDevice(device.type, 0, CPU.target if device.type == "cpu" else device.type)
    )


def _host(given: Sequence[VirtualDevice], host: VirtualDevice | None) -> VirtualDevice:
    cpus = [d for d in given if d.type == CPU.type]
    if host is None:
        if len(cpus) > 1:
            names = ", ".join(map(str, cpus))
            raise Invalid(f"the host may be any of {names}; say which one it is", label="config.C4")
        return cpus[0] if cpus else CPU
    if any(d.agrees(host) for d in given):
        return _among(given, host, "the host", "config.C4")
    whole = _whole(host)
    other = next((d for d in given if (d.type, d.id) == (whole.type, whole.id)), None)
    if other is not None:
        raise Invalid(f"the host is {whole}, but among the devices it is {other}", label="config.C4")
    return whole


def _among(given: Sequence[VirtualDevice], wanted: VirtualDevice, what: str, label: str) -> VirtualDevice:
    """The device of `given` that is meant: the first that agrees."""
    names = ", ".join(map(str, given))
    if wanted.scope or not (wanted.type or wanted.target or wanted.id >= 0):
        raise Invalid(f"{what} is {wanted}; one of {names} is wanted, without a scope", label=label)
    found = next((d for d in given if d.agrees(wanted)), None)
    if found is None:
        raise Invalid(f"{what} is {wanted}, which is not there; there are {names}", label=label)
    return found
