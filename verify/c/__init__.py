"""The C text compiles; its runs (specs/verify.md, "c")."""

from __future__ import annotations

from assay.lower.c import CSource
from assay.semantics.errors import Crash
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.evidence import Evidence, checked, refuted, size


def check_c(source: CSource) -> tuple[str, Evidence, Compiled | None]:
    """Whether the C text compiles without a warning, and what it compiles to."""
    lines = source.source.count("\n") + source.header.count("\n")
    try:
        compiled = compile_c(source, reproducible=False)
    except Crash as wrong:
        return "", refuted("checked", str(wrong)), None
    weights = f", {size(source.weights.nbytes)} of weights beside it" if source.weights is not None else ""
    return f"{lines} lines{weights}", checked("compiles as strict C99 without a warning"), compiled
