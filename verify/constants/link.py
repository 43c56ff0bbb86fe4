"""Whether linking constants into tensor functions, or taking them out, changed anything (specs/verify.md, "constants").

Both modules are numbered with a call of a linked function as the call of what it says that it was, its constants among
the arguments. Equal results mean equal programs, if each linked function is what it says: its text with the constants
as parameters is that of the function of the other module.
"""

from __future__ import annotations

from assay.semantics.analyses.equality import first_difference
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.linked import in_numbers, linked, unlinked
from assay.semantics.module import Module
from assay.semantics.rules import check as check_rules
from assay.semantics.tensor import PrimFunc
from assay.verify.evidence import Context, Evidence, proved, refuted
from assay.verify.value_numbering import number_function
from assay.verify.value_numbering.terms import Table


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether constants were linked or unlinked, and nothing else has changed."""
    return check_link(before, after)


def check_link(source: Module, target: Module) -> Evidence:
    """Whether `target` is `source` with constants linked, or unlinked: the same value for every input."""
    try:
        source, target = source.resolved(), target.resolved()
        check_rules(target)
        plain = {**{unlinked(k).name: unlinked(k) for k in source.kernels.values()}, **source.kernels}
        for name, kernel in target.kernels.items():
            old = plain.get(_origin(kernel))
            if old is None:
                return refuted("proved", f"tensor function {name} comes from nowhere: there is no {_origin(kernel)}")
            difference = first_difference(unlinked(in_numbers(old, kernel)), unlinked(kernel))
            if difference is not None:
                return refuted("proved", f"{name} is not {_origin(kernel)} with constants: {difference}")
        table = Table()
        for name, before in source.definitions.items():
            if not isinstance(before, Function):
                continue
            after = target.definitions.get(name)
            if not isinstance(after, Function):
                return refuted("proved", f"function {name} is gone")
            one, two = number_function(before, source, table), number_function(after, target, table)
            if one.result != two.result:
                return refuted("proved", f"{name} has another result")
            if one.events != two.events:
                return refuted("proved", f"in {name} a call that can trap is dropped, added or moved")
    except Invalid as wrong:
        return refuted("proved", str(wrong))
    held = sum(len(found.places) for k in target.kernels.values() if (found := linked(k)) is not None)
    return proved(f"same value for every input; {held} constants are linked")


def _origin(kernel: PrimFunc) -> str:
    return unlinked(kernel).name
