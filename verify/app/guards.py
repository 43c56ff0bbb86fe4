"""What is common to the checks of all stages (specs/verify.md, "Stages").

The static rules come first, for a stage's own check may rely on them; then what the stages around it rely on: the
interface of main, for later stages the tensor functions, and then the table of constants.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.module import GROUP, Module, Program
from assay.semantics.rules import check as check_rules
from assay.semantics.tensor import AllocateConst, PrimFunc
from assay.semantics.walk import rewrite
from assay.verify.evidence import Evidence, refuted
from assay.verify.kept import interface, stored
from assay.verify.legalize import check_claim
from assay.verify.value_numbering.terms import constant_key

Kept = Literal["interface", "kernels", "constants"]
"""What a stage keeps: each of these with all before it in this list."""


def broken(kept: Kept, before: Module, after: Module, seed: int = 0) -> Evidence | None:
    """Why `after` breaks a static rule, or changes what a stage that keeps `kept` leaves as it is; None if it does
    not."""
    try:
        check_rules(after)
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    old, new = before.definitions["main"], after.definitions["main"]
    if isinstance(old, Function) and isinstance(new, Function) and interface(old) != interface(new):
        return refuted("checked", "the parameters, results or attributes of main have changed")
    found = None if kept == "interface" else _changed_kernel(before, after, seed)
    return found if found is not None or kept != "constants" else _changed_table(before, after)


def _changed_kernel(before: Module, after: Module, seed: int) -> Evidence | None:
    """The first tensor function that has changed, or that is new and does not do what it claims."""
    old = before.resolved().kernels
    for name, kernel in after.resolved().kernels.items():
        if name not in old:
            if GROUP in kernel.attrs:
                return refuted("checked", f"tensor function {name} is a group that is not fuse's")
            wrong = check_claim(kernel, seed)
            if not wrong.holds:
                return wrong
        elif kernel is not old[name] and stored(_nameless(kernel)) != stored(_nameless(old[name])):
            return refuted("checked", f"tensor function {name} has changed")
    return None


def _changed_table(before: Module, after: Module) -> Evidence | None:
    """How the table of constants has changed."""
    old, new = before.constants, after.constants
    same = list(old) == list(new) and before.offsets == after.offsets
    if not same or any(old[n] is not new[n] and constant_key(old[n]) != constant_key(new[n]) for n in old):
        return refuted("checked", "the table of constants has changed")
    entry = after.definitions["main"]
    for slot in entry.placed("constant") if isinstance(entry, Program) else ():
        if not slot.is_pooled and slot.offset != after.offsets.get(slot.name):
            return refuted("checked", f"constant {slot.name} is sought at another offset")
    return None


def _nameless(kernel: PrimFunc) -> PrimFunc:
    """A tensor function whose constants do not say what they are called in the table; that it has what they name there
    is a static rule."""
    body = rewrite(
        kernel.body, lambda s: replace(s, index="") if isinstance(s, AllocateConst) and s.data is not None else s
    )
    return kernel if body is kernel.body else replace(kernel, body=body)
