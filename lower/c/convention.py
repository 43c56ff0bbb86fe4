"""How kernels are called, and the devices that they run on (specs/lower.md, "c", I1 to I12).

A convention is one way to hand arguments over, for the entry and for every kernel. A device is what some step names,
or what the caller of `emit` names for all the others; around its steps stand hooks that the user writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.lower.c.names import ScopeNames
from assay.semantics.devices import VirtualDevice, kind_of
from assay.semantics.module import Branch, Item, Loop, Program, Step

VERBS = ("activate", "open", "close", "deactivate")
"""The hooks of a device, in the order of their calls."""


@dataclass(frozen=True)
class Device:
    """A device that has hooks: its name in the program, its number among those of that name, its name in C."""

    name: str
    id: int
    c: str


@dataclass(frozen=True)
class Devices:
    """The devices of a program in the order of their first use, and the one of each step (None: no hooks there).

    `edges` are the steps at which an arm of a branch begins or ends.
    """

    all: tuple[Device, ...]
    of_step: tuple[Device | None, ...]
    edges: frozenset[int] = frozenset()

    def regions(self) -> list[tuple[Device | None, range]]:
        """The longest runs of steps on one device, in order. Each arm of a branch has its own: what is opened in an arm
        is closed there."""
        found: list[tuple[Device | None, range]] = []
        for i, device in enumerate(self.of_step):
            if found and found[-1][0] == device and i not in self.edges:
                found[-1] = device, range(found[-1][1].start, i + 1)
            else:
                found.append((device, range(i, i + 1)))
        return found


def device_name(device: VirtualDevice) -> str:
    """Its type, or where none is said the kind of its target, such as dsp of "dsp -v2"; "" if both are open."""
    return device.type or kind_of(device.target)


def device_names(given: Sequence[str]) -> Mapping[str, str]:
    """Names of devices in C, each once: that of the type, or of the target where no type is said."""
    names = ScopeNames()
    return {name: names.fresh(name) for name in dict.fromkeys(given)}


def find_devices(program: Program, default: str) -> Devices:
    """The devices that the steps name, but for the program's host, where the entry itself runs. A step that names none
    runs on `default`; empty: on none that has hooks."""

    def place(step: Item) -> tuple[str, int] | None:
        if not isinstance(step, Step):
            return None
        said = device_name(step.device)
        if said and device_name(program.host) and program.host.place.agrees(step.device.place):
            return None  # the entry runs there
        name = said or default
        return (name, max(step.device.id, 0)) if name else None

    places = [place(step) for step in program.steps]
    words = device_names([p[0] for p in places if p is not None])
    made = {p: Device(p[0], p[1], words[p[0]]) for p in places if p is not None}
    edges = {e for i, s in enumerate(program.steps) if not isinstance(s, Step) for e in (i, i + 1)}
    edges |= {e for s in program.steps if isinstance(s, Branch) for e in (s.then, s.end)}
    edges |= {s.end for s in program.steps if isinstance(s, Loop)}
    return Devices(tuple(made.values()), tuple(None if p is None else made[p] for p in places), frozenset(edges))
