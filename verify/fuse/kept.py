"""What a pass over graph functions must leave as it is (specs/verify.md, "Stages")."""

from __future__ import annotations

from assay.semantics.analyses.equality import first_difference
from assay.semantics.graph import Function
from assay.semantics.module import Module


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
