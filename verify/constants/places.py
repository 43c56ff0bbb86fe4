"""Whether each constant of a planned program lies where it asks to lie (specs/verify.md, "pool").

That no two share a byte, that pools keep their limits and offsets their alignment is z3's to show; here it is that a
pool for constants is the memory and the section that each of its constants asks for.
"""

from __future__ import annotations

from assay.semantics.devices import GLOBAL
from assay.semantics.module import Module
from assay.verify.evidence import Evidence, checked, refuted


def check_constant_places(module: Module) -> Evidence:
    """Refuted at the first constant that lies in a pool in which it must not, or less aligned than it asks, or
    nowhere."""
    program = module.program
    count = 0
    for slot in program.placed("constant"):
        name, info = slot.name, module.info(slot.name)
        if name not in module.constants:
            return refuted("checked", f"slot {name} is a constant, and the module's table has none of that name")
        if slot.alignment % info.alignment:
            return refuted(
                "checked", f"constant {name} asks for the alignment {info.alignment}, its slot has {slot.alignment}"
            )
        if not slot.is_pooled:
            if slot.offset != module.offsets.get(name):
                return refuted("checked", f"constant {name} is sought at another offset")
            continue
        pool = program.pool_of(slot)
        count += 1
        if pool.kind != "constant":
            return refuted("checked", f"constant {name} lies in the pool {pool.name}, which is no pool for constants")
        said = info.device.join(slot.device)
        if said is None or not said.agrees(pool.device):
            return refuted("checked", f"constant {name} is on {info.device}, the pool {pool.name} on {pool.device}")
        if pool.device.scope not in ("", GLOBAL, said.scope):
            return refuted(
                "checked", f"constant {name} asks for no scope, the pool {pool.name} is in {pool.device.scope}"
            )
        if info.section and info.section != pool.section:
            where = pool.section or "the usual one"
            return refuted(
                "checked", f"constant {name} asks for the section {info.section}, the pool {pool.name} becomes {where}"
            )
    return checked(f"{count} constants lie in pools that suit them")
