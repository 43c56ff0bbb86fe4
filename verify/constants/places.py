"""Whether each constant of a planned program lies where it asks to lie (specs/verify.md, "pool").

That no two share a byte, that pools keep their limits and offsets their alignment is z3's to show; here it is that a
pool for constants is the memory and the section that each of its constants asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.devices import GLOBAL
from assay.semantics.module import Module
from assay.verify.evidence import Evidence, checked, refuted


def check_constant_places(module: Module) -> Evidence:
    """Refuted at the first constant that lies in a pool in which it must not, or less aligned than it asks, or
    nowhere."""
    for wrong in _misplaced(module):
        return refuted("checked", wrong)
    count = sum(slot.is_pooled for slot in module.program.placed("constant"))
    return checked(f"{count} constants lie in pools that suit them")


def _misplaced(module: Module) -> Iterator[str]:
    """What is wrong with where constants lie."""
    program = module.program
    for slot in program.placed("constant"):
        name, info = slot.name, module.info(slot.name)
        if name not in module.constants:
            yield f"slot {name} is a constant, and the module's table has none of that name"
        if slot.alignment % info.alignment:
            yield f"constant {name} asks for the alignment {info.alignment}, its slot has {slot.alignment}"
        if not slot.is_pooled:
            if slot.offset != module.offsets.get(name):
                yield f"constant {name} is sought at another offset"
            continue
        pool = program.pool_of(slot)
        if pool.kind != "constant":
            yield f"constant {name} lies in the pool {pool.name}, which is no pool for constants"
        said = info.device.join(slot.device)
        if said is None or not said.agrees(pool.device):
            yield f"constant {name} is on {info.device}, the pool {pool.name} on {pool.device}"
        elif pool.device.scope not in ("", GLOBAL, said.scope):
            yield f"constant {name} asks for no scope, the pool {pool.name} is in {pool.device.scope}"
        if info.section and info.section != pool.section:
            where = pool.section or "the usual one"
            yield f"constant {name} asks for the section {info.section}, the pool {pool.name} becomes {where}"
