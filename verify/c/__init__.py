"""The C text compiles, and is read back (specs/verify.md, "c")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.lower.c import CSource
from assay.semantics.errors import Crash
from assay.semantics.module import Module
from assay.verify.c.compiled import Compiled, begin_c
from assay.verify.evidence import Evidence, checked, listed, plural, proved, refuted, size

if TYPE_CHECKING:
    from assay.verify.c.reading import ReadBack

COMPILES = "compiles as strict C99 without a warning"


def check_c(
    source: CSource, planned: Module | None = None, texts: dict[str, str] | None = None
) -> tuple[str, Evidence, Compiled | None]:
    """Whether the C text compiles without a warning, and whether it is what `planned` says, if that is given; and what
    it compiles to. What z3 was asked goes to `texts`."""
    lines = source.source.count("\n") + source.header.count("\n")
    begun = begin_c(source, reproducible=False)  # the text is read while the compiler runs
    try:
        try:
            evidence = checked(COMPILES) if planned is None else _read_back(source, planned, texts)
        except Exception:
            begun.result()  # that it does not compile comes first
            raise
        compiled = begun.result()
    except Crash as wrong:
        if wrong is not begun.failed:
            raise
        return "", refuted("checked", str(wrong)), None
    finally:
        begun.abandon()
    weights = f", {size(source.weights.nbytes)} of weights beside it" if source.weights is not None else ""
    return f"{lines} lines{weights}", evidence, compiled


def _read_back(source: CSource, planned: Module, texts: dict[str, str] | None) -> Evidence:
    """What reading the text shows beside that it compiles."""
    from assay.verify.c.reading import read_back  # with z3 and a parser of C

    found = read_back(source, planned, texts)
    count, calls = len(found.kernels), len(planned.program.calls)
    data = {"kernels": count, "kernels_read": found.read, "calls": calls, "calls_read": found.calls}
    told = f"read back: {found.read} of {plural(count, 'kernel')}, {found.calls} of {plural(calls, 'call')}"
    if found.holds:
        return proved(f"{told} and the entry are those of the plan for every input; {COMPILES}", **data)
    if found.differs:
        return refuted("proved", f"the entry is not the plan: {found.entry}")
    return checked(f"{COMPILES}; {told}; {_left(found)}", **data)


def _left(found: ReadBack) -> str:
    """What was not read, and the first reason of each kind."""
    reasons: dict[str, list[str]] = {}
    for name, reason in found.kernels.items():
        if reason != "":
            reason = reason or "nothing got so far"
            reasons.setdefault(reason, []).append(name)
    told = [f"not {listed(names)}: {reason}" for reason, names in list(reasons.items())[:2]]
    return "; ".join([*([f"not the entry: {found.entry}"] if found.entry else []), *told])
