"""How many bytes the constants of a module take (row C13; specs/semantics.md, "Constants").

The one place where they are summed. A constant takes its size rounded up to its alignment (`ConstantInfo`): laid out
in the order of decreasing alignment, as `laid_out` gives it, constants take no more than that together.

    account(module).total                      # bytes of all constants
    account(module).pools["flash"]             # of those in one pool of the planned program; "" is the table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program

TABLE = Pool("", "constant")
"""Stands for the one table, in which constants are that have no pool."""


def aligned(nbytes: int, alignment: int) -> int:
    """The least multiple of `alignment` that is `nbytes` or more."""
    return -(-nbytes // alignment) * alignment


def laid_out(rows: Iterable[tuple[str, int, int]]) -> tuple[dict[str, int], int]:
    """Offsets for (name, bytes, alignment) rows one after another, and the bytes of all: the sum of the aligned sizes.
    The most aligned come first, then in their order. Alignments are powers of two."""
    offsets: dict[str, int] = {}
    end = 0
    for name, nbytes, alignment in sorted(rows, key=lambda row: -row[2]):
        offsets[name] = end
        end += aligned(nbytes, alignment)
    return offsets, end


@dataclass(frozen=True)
class Account:
    """Bytes of constants, each with its alignment. `payload` is without. The rest are sums by pool of the planned
    program ("" for the table), by section of the object file ("" for the usual one) and by device (its text)."""

    count: int
    total: int
    payload: int
    pools: Mapping[str, int]
    sections: Mapping[str, int]
    devices: Mapping[str, int]


def account(module: Module) -> Account:
    """The bytes of the constants in a module's table."""
    entry = module.definitions.get("main")
    pool_of: dict[str, Pool] = {}
    if isinstance(entry, Program):
        pool_of = {s.name: entry.pool_of(s) for s in entry.placed("constant") if s.is_pooled}
    pools: dict[str, int] = {}
    sections: dict[str, int] = {}
    devices: dict[str, int] = {}
    total = 0
    for name, array in module.constants.items():
        info = module.info(name)
        nbytes = aligned(array.nbytes, info.alignment)
        total += nbytes
        pool = pool_of.get(name, TABLE)
        for sums, key in ((pools, pool.name), (sections, info.section or pool.section), (devices, str(info.device))):
            sums[key] = sums.get(key, 0) + nbytes
    payload = sum(a.nbytes for a in module.constants.values())
    return Account(len(module.constants), total, payload, pools, sections, devices)
