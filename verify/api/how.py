"""How a program is lowered: the options that `assay.check`, `assay.build` and their commands share (specs/verify.md,
"From Python")."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict


class How(TypedDict, total=False):
    """How a program is lowered: the options of `assay check` and `assay build`, by the same names."""

    pools: str
    constant_pools: str
    planner: str
    io_in_pools: bool
    alignment: int | None
    on: str | Sequence[str]
    host: str
    dump: str | Path | None
    skip: str | Sequence[str]
    passes: str | Sequence[str]
    vm: bool


DEFAULTS: How = {
    "pools": "", "constant_pools": "", "planner": "exact", "io_in_pools": False, "alignment": None, "on": (),
    "host": "", "dump": None, "skip": (), "passes": "", "vm": False,
}  # fmt: skip
