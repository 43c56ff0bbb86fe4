"""Patterns as tests and projections (specs/lower.md, "vm")."""

from __future__ import annotations

from assay.lower.vm.routine import Held, Routine
from assay.semantics.bytecode import JumpUnlessMade
from assay.semantics.errors import Span
from assay.semantics.graph import Bind, Fields, Made, Pattern, Var, Wildcard
from assay.semantics.walk import Worklist


def write_tests(
    at: Routine, pattern: Pattern, of: Held, otherwise: int, span: Span | None
) -> tuple[bool, dict[Var, Held]]:
    """Jumps to `otherwise` unless a value meets a pattern. Whether there are any, and where what it binds is. Fields
    are taken out when what they are in has passed its test."""
    tested = False
    bound: dict[Var, Held] = {}
    work = Worklist[tuple[Pattern, Held]]([(pattern, of)])
    for p, held in work:
        match p:
            case Wildcard():
                continue
            case Bind():
                bound[p.var] = held
                continue
            case Made():
                held = at.register(held, span)
                at.add(JumpUnlessMade(held, p.constructor.name, otherwise, span=span))
                tested = True
            case Fields():
                pass
        inside = [(q, i) for i, q in enumerate(p.fields) if not isinstance(q, Wildcard)]
        work.add([(q, at.part(held, i, span)) for q, i in inside])
    return tested, bound
