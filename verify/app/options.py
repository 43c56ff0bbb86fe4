"""What options of the command line mean (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.lower.c import Interface
from assay.lower.instrument import Dump, Instruments, Leaving
from assay.lower.liveness import ALIGNMENT, BY_ELEMENT
from assay.lower.memory import called
from assay.lower.pool import Memory
from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import Invalid
from assay.verify.app.passes import with_passes
from assay.verify.app.pools import parse_constant_pools, parse_pools
from assay.verify.app.stages import RUN_LINES, SKIPPABLE

MOST_ALIGNMENT = 1 << 16
"""A page of the largest usual size: nobody needs a buffer at a rounder address."""


def memory_of(pools: str, planner: str, io: bool, constants: str = "", alignment: int = ALIGNMENT) -> Memory:
    """The pools and the planner that the options ask for."""
    called(planner)  # before anything long begins
    work = [replace(p, alignment=max(p.alignment, alignment)) for p in parse_pools(pools)] if pools else []
    memories = (*work, *(parse_constant_pools(constants) if constants else ()))
    return Memory(memories, planner, io, alignment=alignment)


def alignment_of(given: int | None, interface: Interface = Interface.UNPACKED) -> int:
    """Bytes to which buffers are aligned. Kernels of a packed interface may be another compiler's: they expect a cache
    line."""
    if given is None:
        return BY_ELEMENT if interface is Interface.UNPACKED else ALIGNMENT
    if not 1 <= given <= MOST_ALIGNMENT or given & (given - 1):
        raise Invalid(f"--alignment is {given}, and must be a power of two from 1 to {MOST_ALIGNMENT}", label="cli.C5")
    return given


def devices_of(on: Sequence[str], host: str) -> CompilationConfig | None:
    """The devices to compile for; None where nothing is said."""
    if not on and host:
        raise Invalid("--host goes with --on: name the devices, the first as --on", label="cli.C3")
    return CompilationConfig.read(list(on), host or None, on[0]) if on else None


def instruments_of(dump: Path | None, skip: Sequence[str]) -> Instruments:
    """What looks on while the stages run."""
    wrong = next((name for name in skip if name not in SKIPPABLE), None)
    if wrong is not None:
        raise Invalid(
            f"--skip takes {' or '.join(SKIPPABLE)}, not {wrong!r}: the other stages must run", label="cli.C3"
        )
    return Instruments(Leaving(*skip), *([Dump(dump)] if dump is not None else []))


def stage_of(name: str, passes: str = "", vm: bool = False) -> str:
    """The name of a line of `assay check` with these passes, or none."""
    known = (*(s.name for s in with_passes(passes, vm)), *RUN_LINES[vm:])
    if name and name not in known:
        raise Invalid(f"--stop-after takes one of {', '.join(known)}, not {name!r}", label="cli.C3")
    return name


def c_name(model: Path) -> str:
    """The prefix of the C symbols: the model's file name as an identifier."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in model.stem).strip("_")
    return name if name and not name[0].isdigit() else f"model_{name}"
