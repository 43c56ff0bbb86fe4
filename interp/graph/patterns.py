"""Which clause of a match a value meets (rule M2; specs/interp.md, "Graph")."""

from __future__ import annotations

from assay.interp.values import Data, Value
from assay.semantics.errors import Crash
from assay.semantics.graph import Bind, Clause, Fields, Made, Match, Pattern, Var, Wildcard
from assay.semantics.walk import Worklist


def matching_clause(node: Match, value: Value) -> tuple[Clause, dict[Var, Value]] | None:
    """The first clause whose pattern matches, and what its variables stand for."""
    for clause in node.clauses:
        bound = matched(clause.pattern, value)
        if bound is not None:
            return clause, bound
    return None


def matched(pattern: Pattern, value: Value) -> dict[Var, Value] | None:
    """What the pattern's variables stand for; None where it does not match."""
    bound: dict[Var, Value] = {}
    work = Worklist[tuple[Pattern, Value]]([(pattern, value)])
    for p, v in work:
        match p:
            case Wildcard():
                continue
            case Bind():
                bound[p.var] = v
                continue
            case Fields():
                fields = v
            case Made():
                if not isinstance(v, Data):
                    raise Crash(f"{type(v).__name__} is matched with constructor {p.constructor.name}")
                if v.constructor != p.constructor.name:
                    return None
                fields = v.fields
        work.add(zip(p.fields, fields, strict=True))
    return bound
