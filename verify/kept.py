"""What stages must leave as it is, as their checks compare it (specs/verify.md, "Stages")."""

from __future__ import annotations

import io

from assay.semantics.analyses.equality import first_difference
from assay.semantics.graph import CallTIR, Function
from assay.semantics.module import Definition, Module
from assay.semantics.store import ArrayWriter, encode
from assay.semantics.walk import post_order
from assay.verify.evidence import Did, plural
from assay.verify.value_numbering.terms import attrs_key

CLAIMS = "schedule"
"""The attribute of `main` with what the schedule claims."""


def interface(main: Function) -> tuple[str, ...]:
    """What a caller relies on: names and types of parameters, the type of the result, attributes. What the schedule
    claims is none of that."""
    attrs = {k: v for k, v in main.attrs.items() if k != CLAIMS}
    return (*(f"{p.name}: {p.type}" for p in main.params), str(main.result_type), attrs_key(attrs))


def stored(definition: Definition) -> tuple[str, bytes]:
    """A definition as it would be stored: all of it, data and attributes too."""
    data = io.BytesIO()
    return encode(Module({"it": definition}), ArrayWriter(data)), data.getvalue()


def count_calls(module: Module) -> int:
    """How many calls of tensor functions main has."""
    return sum(isinstance(n, CallTIR) for n in post_order(module.main))


def describe(before: Module, after: Module) -> Did:
    """What an optional pass has changed, in numbers: nodes of graph functions, definitions, constants of the table."""
    told = []
    data: dict[str, int] = {}
    for noun, count in (("node", _nodes), ("definition", _definitions), ("constant", _constants)):
        old, new = count(before), count(after)
        data |= {f"{noun}s_before": old, f"{noun}s": new}
        told += [f"{old} to {plural(new, noun)}"] if old != new else []
    same = all(is_same(d, after.definitions.get(n)) for n, d in before.definitions.items())
    return "; ".join(told) or ("nothing changed" if same else "as many parts as before"), data


def _nodes(module: Module) -> int:
    return sum(1 for d in module.definitions.values() if isinstance(d, Function) for _ in post_order(d))


def _definitions(module: Module) -> int:
    return len(module.definitions)


def _constants(module: Module) -> int:
    return len(module.constants)


def is_same(before: Definition | None, after: Definition | None) -> bool:
    """Whether a definition is as it was: the very same, or equal to it, as one that was stored and read again is."""
    if before is after or before is None or after is None:
        return before is after
    return first_difference(before, after) is None


def changed_beside(source: Module, target: Module) -> str | None:
    """What `target` lost or changed of `source` beside the bodies of graph functions, in a sentence; None if
    nothing."""
    for name, before in source.definitions.items():
        after = target.definitions.get(name)
        if after is None:
            return f"definition {name} is gone"
        both = isinstance(before, Function) and isinstance(after, Function)
        if not both and not is_same(before, after):
            return f"definition {name} has changed"
    old, new = (Module({}, m.constants, m.offsets) for m in (source, target))
    return "the table of constants has changed" if first_difference(old, new) is not None else None
