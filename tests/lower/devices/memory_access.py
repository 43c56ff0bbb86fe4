"""Both checks of who touches which memory in a program, as one (specs/verify.md, "liveness")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.semantics.module import Program
from assay.semantics.tensor import PrimFunc
from assay.verify.evidence import Evidence
from assay.verify.liveness.devices import check_pools, check_steps


def check_memory_access(program: Program, kernels: Mapping[str, PrimFunc] | None = None) -> Evidence:
    """Whether every access stays in the memory of its step, and every pool in one memory.

    `kernels` are asked for the scopes of parameters, and for what a device_copy does.
    """
    pools = check_pools(program)
    return check_steps(program, kernels or {}) if pools.holds else pools
