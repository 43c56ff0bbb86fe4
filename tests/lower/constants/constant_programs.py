"""Programs with constants for tests: hand-made, so that every step and every constant is in sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.pool import Memory, plan_pools
from assay.semantics.dtypes import FLOAT32
from assay.semantics.memory import Pool
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.types import TensorType
from tests.lower.memory.planned import lanes, planned

Array = np.ndarray[Any, Any]
LANES = 8
X: Array = np.arange(LANES, dtype=np.float32)


def constants(count: int, lanes_each: int = LANES) -> dict[str, Array]:
    """Arrays of distinct contents: `c0`, `c1`, ..."""
    return {f"c{i}": (np.arange(lanes_each) + 100 * i).astype(np.float32) for i in range(count)}


def adding(arrays: Mapping[str, Array], infos: Mapping[str, ConstantInfo] | None = None) -> Module:
    """y = x + c0 + c1 + ..., a step for each, all of LANES elements; alignments of slots as `infos` say."""
    add = lanes("add", (FLOAT32, FLOAT32), FLOAT32, LANES, lambda a, b: a + b)
    steps, last = [], "x"
    for i, name in enumerate(arrays):
        made = "y" if i == len(arrays) - 1 else f"t{i}"
        steps.append((add, [last, name], [made]))
        last = made
    module = planned(steps, {"x": TensorType((LANES,), FLOAT32)}, ["y"], arrays)
    module = replace(module, infos=dict(infos or {}))
    slots, end = {}, 0
    for n, s in module.program.slots.items():
        if s.place == "constant":
            info = module.info(n)
            end += -end % info.alignment
            slots[n] = replace(s, alignment=info.alignment, offset=end, device=info.device)
            end += s.nbytes
        else:
            slots[n] = s
    offsets = {n: s.offset for n, s in slots.items() if s.place == "constant" and s.offset is not None}
    return replace(module.with_(main=replace(module.program, slots=slots)), offsets=offsets)


def in_pools(module: Module, *pools: Pool) -> Module:
    """The module with its constants in these pools."""
    return plan_pools(module, Memory(pools, in_place=False))


def total(arrays: Sequence[Array]) -> Array:
    """What `adding` computes of X."""
    found = X
    for a in arrays:
        found = found + a
    return found
