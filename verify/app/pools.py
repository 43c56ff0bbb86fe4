"""Pools as options give them (specs/verify.md, "Command line")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from assay.lower.memory.csv import MOST, short
from assay.semantics.compilation import read_device
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.memory import Pool

POOL = re.compile(r"\s*([^=@\s]+)\s*(?:@\s*([^=@\s]+)\s*)?(?:=\s*([0-9]+)\s*)?")


def parse_pools(text: str) -> tuple[Pool, ...]:
    """`name@memory=limit,...`, the most wanted first; a memory is a device, and its scope behind a slash. Without a
    limit, a pool has none."""
    wanted = (
        "--pools takes name@memory=limit,... in bytes, such as fast=65536,slow or near@cuda:0/shared=4096,far@cuda:0"
    )
    return tuple(Pool(name, device=_memory(where), limit=limit) for name, where, limit in _pools(text, wanted))


def parse_constant_pools(text: str) -> tuple[Pool, ...]:
    """`name@where=limit,...`, the most wanted first: read-only memories for constants. Where is a section of the object
    file if it begins with a dot or an underscore, else a memory as for `parse_pools`."""
    wanted = "--constant-pools takes name@where=limit,... such as tcm@.tcm=4096,flash or weights@cuda:0"
    found: list[Pool] = []
    for name, where, limit in _pools(text, wanted):
        section = where if where.startswith((".", "_")) else ""
        device = ANYWHERE if section else _memory(where)
        found.append(Pool(name, "constant", device=device, limit=limit, read_only=True, section=section))
    return tuple(found)


def _pools(text: str, wanted: str) -> Iterator[tuple[str, str, int | None]]:
    for part in text.split(","):
        match = POOL.fullmatch(part)
        if match is None:
            raise Invalid(f"{wanted}, not {short(part)!r}", label="cli.C5")
        name, where, limit = match.groups()
        if limit is not None and (len(limit.lstrip("0")) > 19 or int(limit) > MOST):
            raise Invalid(
                f"the limit of pool {name} is {short(limit)}, and must be in int64: no more than {MOST}", label="cli.C5"
            )
        yield name, where or "", None if limit is None else int(limit)


def _memory(text: str) -> VirtualDevice:
    """A device, and the scope behind a slash, the main memory if there is none; any if nothing is said."""
    if not text:
        return ANYWHERE
    device, _, scope = text.partition("/")
    return replace(read_device(device), scope=scope or GLOBAL)
