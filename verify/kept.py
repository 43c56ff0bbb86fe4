"""What stages must leave as it is, as their checks compare it (specs/verify.md, "Stages")."""

from __future__ import annotations

import io

from assay.semantics.analyses.equality import first_difference
from assay.semantics.graph import CallTIR, Function
from assay.semantics.module import Definition, Module
from assay.semantics.store import ArrayWriter, encode
from assay.semantics.walk import post_order
from assay.verify.value_numbering import attrs_key

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


def changed_beside(source: Module, target: Module) -> str | None:
    """What `target` lost or changed of `source` beside the bodies of graph functions, in a sentence; None if
    nothing."""
    for name, before in source.definitions.items():
        after = target.definitions.get(name)
        if after is None:
            return f"definition {name} is gone"
        both = isinstance(before, Function) and isinstance(after, Function)
        if not both and before is not after and first_difference(before, after) is not None:
            return f"definition {name} has changed"
    old, new = (Module({}, m.constants, m.offsets) for m in (source, target))
    return "the table of constants has changed" if first_difference(old, new) is not None else None
