"""The passes in order (specs/lower.md, "Stages"). Each takes a module and returns a new one; none changes its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.anf import to_anf
from assay.lower.constants import Evaluate, lift_constants
from assay.lower.devices import default_config, plan_devices
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory, plan
from assay.lower.schedule import schedule
from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.module import Module

Pass = Callable[[Module], Module]


def passes(
    evaluate: Evaluate, memory: Memory | None = None, config: CompilationConfig | None = None
) -> dict[str, Pass]:
    """The passes by stage name, in order. `evaluate` runs a tensor function: constant folding is handed it. `memory` is
    what there is to plan with, by default one pool without a limit. `config` says which devices there are; without it,
    those that the module names, and one where it names none."""
    return {
        "devices": lambda module: plan_devices(module, config),
        "anf": to_anf,
        "legalize": lambda module: legalize(remove_unreachable(module)),
        "fuse": fuse,
        "constants": lambda module: lift_constants(module, evaluate),
        "schedule": schedule,
        "liveness": lambda module: find_lives(
            module, host=_host(module, config), alignment=(memory or Memory()).alignment
        ),
        "pool": lambda module: plan(module, memory),
    }


def _host(module: Module, config: CompilationConfig | None) -> VirtualDevice:
    """The device that decides, and its main memory; open where nothing names a device."""
    known = config or default_config(module)
    return ANYWHERE if known is None else replace(known.host, scope=GLOBAL)
