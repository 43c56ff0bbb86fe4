"""Damaged files of bytecode: bits, bytes and spans, with the digests made again so that the damage is reached, and
instructions that are changed one at a time."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from assay.interp import vm
from assay.semantics import budget
from assay.semantics.errors import BudgetSpent, Crash, Invalid, Trap
from assay.semantics.module import Module
from assay.verify.api.check import verify
from assay.verify.app import executable
from assay.verify.app.packed import HEAD, MAGIC, Packed
from tests.verify.vm.bytecode_mutants import mutant

MEMBERS = (executable.CODE, executable.BESIDE, executable.TENSORS)
"""What a run reads of the file."""
MOST = 4_000_000_000


def resealed(data: bytes) -> bytes:
    """The file with the digest that it has now."""
    return data[: HEAD - 32] + hashlib.sha256(data[HEAD:]).digest() + data[HEAD:]


def damaged(data: bytes, begin: int, end: int, random: Random) -> bytes:
    """The bytes with one change between two places: a bit, a byte, a span that is gone, comes twice, or is of noise."""
    at = random.randrange(begin, end)
    size = min(random.choice([1, 2, 4, 9, 40]), end - at)
    match random.randrange(6):
        case 0 | 1:
            return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        case 2:
            return data[:at] + bytes([random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])]) + data[at + 1 :]
        case 3:
            return data[:at] + random.randbytes(size) + data[at + size :]
        case 4:
            return data[:at] + data[at + size :]
        case _:
            return data[: at + size] + data[at:]


@dataclass
class Seed:
    """A file that assay build --vm made, inputs for it, and what it gives."""

    path: Path
    inputs: dict[str, Any]

    @cached_property
    def data(self) -> bytes:
        """Its bytes."""
        return self.path.read_bytes()

    @cached_property
    def module(self) -> Module:
        """Its executable."""
        return executable.load(self.path)

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Where its members lie."""
        return Packed(self.path).places

    @cached_property
    def wanted(self) -> Any:
        """What it gives."""
        return outcome(self.module, self.inputs)

    def mutant(self, random: Random, to: Path) -> str:
        """Write a damaged file; what was done."""
        what = random.choice(["raw", "whole", "member", "member", "instruction"])
        if what == "instruction":
            while True:
                found = mutant(self.module.bytecode, random)
                with suppress(Invalid):  # numbers below 0 cannot be written
                    if found is not None:
                        executable.save_executable(self.module.with_(main=found[0]), to)
                        return f"instruction {found[1]}"
        begin, end = len(MAGIC), len(self.data)
        if what == "member":
            name = random.choice(MEMBERS)
            first, length = self.places[name]
            begin, end = first, first + max(length, 1)
        data = damaged(self.data, begin, min(end, len(self.data)), random)
        to.write_bytes(data if what == "raw" else resealed(data))
        return f"{what} {'' if what != 'member' else name}"


def outcome(module: Module, inputs: dict[str, Any]) -> Any:
    """What a run gives, or how it ends."""
    try:
        with budget.of(budget.Budget(MOST, 20.0)):
            return {n: np.asarray(v).tolist() for n, v in vm.run(module, inputs).items()}
    except Trap as trap:
        return f"trap {trap.kind}"
    except BudgetSpent:
        return "budget"
    except Invalid as wrong:
        return f"invalid {wrong.label}"


def trial(seed: Seed, random: Random, place: Path) -> tuple[str, str]:
    """How a damaged file ends, and what is wrong with that, "" if nothing."""
    to = place / "m.assay"
    what = seed.mutant(random, to)
    if to.read_bytes() == seed.data:
        return "same file", ""
    try:
        module = executable.load(to)
        found = outcome(module, seed.inputs)
    except Invalid as wrong:
        return f"refused {wrong.label}", "" if wrong.label else f"{what}: without a label: {wrong}"
    except (Crash, Exception) as wrong:  # noqa: BLE001  whatever it is, it is a fault of ours
        return "fault", f"{what}: {type(wrong).__name__}: {wrong}"
    if isinstance(found, str) and found.startswith("invalid vm."):
        return found, f"{what}: nothing said it before a run: {found}"
    if found == seed.wanted or isinstance(found, str):
        return f"ran {found if isinstance(found, str) else 'alike'}", ""
    if not what.startswith("instruction"):  # these have no certificate, which is refused
        return "ran to another result", unnoticed(to, what)
    return "ran to another result, no certificate", ""


def unnoticed(path: Path, what: str) -> str:
    """What is wrong where a file gives another result: that verify does not refuse it."""
    try:
        held = verify(path).holds
    except Invalid:
        return ""
    return f"{what}: verify holds" if held else ""


def campaign(seeds: list[Seed], count: int, start: int, place: Path) -> tuple[Counter[str], list[str]]:
    """How so many damaged files end, and what is wrong."""
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(start, start + count):
        random = Random(number)
        end, odd = trial(seeds[number % len(seeds)], random, place)
        ends[end] += 1
        wrong += [f"{number}: {odd}"] if odd else []
    return ends, wrong
