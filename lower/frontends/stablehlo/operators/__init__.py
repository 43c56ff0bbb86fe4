"""What each operation of StableHLO means (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from assay.lower.frontends.stablehlo.node import HloRule
from assay.lower.frontends.stablehlo.operators import (
    calls,
    checks,
    chlo,
    contraction,
    control,
    elementwise,
    indexing,
    movement,
    quantized,
    reduction,
    solving,
    sorting,
    windows,
)
from assay.lower.frontends.stablehlo.syntax import Operation
from assay.semantics.errors import Unsupported

RULES: dict[str, HloRule] = {
    **elementwise.ELEMENTWISE,
    **chlo.ELEMENTWISE,
    **chlo.OTHERS,
    **calls.TABLE,
    **checks.CHECKS,
    **contraction.TABLE,
    **control.TABLE,
    **indexing.TABLE,
    **movement.TABLE,
    **quantized.TABLE,
    **reduction.TABLE,
    **solving.TABLE,
    **sorting.TABLE,
    **windows.TABLE,
}

PROCESSES = ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "partition_id",
             "recv", "reduce_scatter", "replica_id", "send", "infeed", "outfeed")  # fmt: skip
"""Operations that several processes do together, or that talk to a host."""

RANDOM = ("rng", "rng_bit_generator")


def rule_of(op: Operation, lifted: bool) -> HloRule:
    """The rule of an operation. Unsupported (`stablehlo.C3`) where there is none; (`stablehlo.C7`) where it may not
    stand in a region that is done on whole tensors."""
    dialect, _, name = op.name.partition(".")
    if name in PROCESSES or op.name == "interpreter.run_parallel":
        raise Unsupported(f"{op.name}: several processes are not handled", label="stablehlo.C3")
    if name in RANDOM:
        raise Unsupported(f"{op.name}: random numbers are left open and not handled", label="stablehlo.C3")
    rule = RULES.get(op.name)
    if rule is None:
        known = "" if dialect in ("stablehlo", "chlo", "func", "check") else "; those of stablehlo, chlo and func are"
        raise Unsupported(f"the operation {op.name} is not handled{known}", label="stablehlo.C3")
    if lifted and op.name not in LIFTED:
        raise Unsupported(f"{op.name} in a region of scalars is not handled", label="stablehlo.C7")
    return rule


LIFTED = {
    *elementwise.ELEMENTWISE,
    *chlo.ELEMENTWISE,
    "stablehlo.constant",
    "stablehlo.reshape",
    "stablehlo.broadcast_in_dim",
    "stablehlo.reduce",
}
