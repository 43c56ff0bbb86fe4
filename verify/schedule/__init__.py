"""The proof that a reordered `main` is its source, and the peaks that it claims (specs/verify.md, "schedule").

The bindings are the source's, each once, under the same names and with the same numbers; each reads only what is bound
before it; the calls that may trap come in the source's order. The peaks are found again from first and last uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from assay.semantics.alias import Origin, bindings, origins, result
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Function, Var, free_variables
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.verify.evidence import Context, Did, Evidence, proved, refuted, size
from assay.verify.kept import CLAIMS, stored
from assay.verify.value_numbering import number_function
from assay.verify.value_numbering.terms import Table


@dataclass(frozen=True)
class Claim:
    """The most bytes of workspace live at once before and after, and a bound that no order is below."""

    before: int
    after: int
    bound: int

    @property
    def optimal(self) -> bool:
        """Whether the new peak equals the bound, so that no order is better."""
        return self.bound == self.after


def claim_of(main: Function) -> Claim | None:
    """What `main` claims; None if nothing, Invalid if it cannot be read."""
    found = main.attrs.get(CLAIMS)
    if found is None:
        return None
    names = ("before", "after", "bound")
    if not isinstance(found, Mapping) or set(found) != set(names) or any(type(found[n]) is not int for n in names):
        raise Invalid("the attribute schedule holds the bytes before, after and bound", label="schedule.C1")
    return Claim(*(found[n] for n in names))


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether `main` is reordered as it claims, and nothing else has changed."""
    old, new = before.definitions, after.definitions
    others = [n for n, d in old.items() if n != "main" and not isinstance(d, PrimFunc)]
    if list(old) != list(new) or any(old[n] is not new[n] and stored(old[n]) != stored(new[n]) for n in others):
        return refuted("checked", "a definition other than main has changed")
    return check_call_order(before, after)


def describe(before: Module, after: Module) -> Did:
    """The peak of memory before and after, and how far from the least it is."""
    claim = claim_of(after.main)
    if claim is None:
        return "not planned", {}
    data = {"peak_before": claim.before, "peak": claim.after, "peak_bound": claim.bound}
    peak = f"peak {size(claim.before)}" + (f" to {size(claim.after)}" if claim.after < claim.before else "")
    return peak + (", optimal" if claim.optimal else f", at least {size(claim.bound)}"), data


def check_call_order(source: Module, target: Module) -> Evidence:
    """Whether `target` has the calls of `source` in an order that is as good, and needs the bytes that it says."""
    before, after = source.main, target.main
    names = Counter(v.name for v, _ in bindings(before))
    found = Counter(v.name for v, _ in bindings(after))
    if names != found:
        odd = min((names - found) + (found - names))
        return refuted("proved", f"{odd} is bound {found[odd]} times, {names[odd]} in the source")
    bound: set[Var] = set(after.params)
    for var, value in bindings(after):
        own = var if isinstance(value, Function) else None  # a function may call itself
        for read in free_variables(value):
            if read not in bound and read is not own:
                return refuted("proved", f"{var.name} reads {read.name}, which is not bound yet")
        bound.add(var)
    table = Table()
    one, two = number_function(before, source, table), number_function(after, target, table)
    numbers = {v.name: one.of[id(value)] for v, value in bindings(before)}
    for var, value in bindings(after):
        if two.of[id(value)] != numbers[var.name]:
            return refuted("proved", f"{var.name} has another value than in the source")
    if one.result != two.result:
        return refuted("proved", "the result has another value than in the source")
    if one.events != two.events:
        return refuted("proved", "a call that may trap has moved before or after another")
    wrong = _peaks(source, target)
    return refuted("checked", wrong) if wrong else proved(f"same bindings, dependences and traps; {_shown(target)}")


def check_repeated(before: Module, after: Module, context: Context) -> Evidence:
    """Whether main, which may repeat calls, has the same value and needs no more memory."""
    same = check_same_values(before, after)
    old, new = peak(before), peak(after)
    if not same.holds or new > old:
        return same if not same.holds else refuted("checked", f"the peak is {new} bytes, and was {old}")
    return proved(f"{same.detail}; peak {size(old)}" + (f" to {size(new)}" if new < old else ""))


def check_same_values(source: Module, target: Module) -> Evidence:
    """Whether `main` of `target` gives what that of `source` gives, and traps as it does, whatever else it computes."""
    table = Table()
    one, two = number_function(source.main, source, table), number_function(target.main, target, table)
    if one.result != two.result:
        return refuted("proved", "the result has another value than in the source")
    if one.events != two.events:
        return refuted("proved", "a call that may trap is added, dropped or moved")
    return proved("same values and traps")


def _peaks(source: Module, target: Module) -> str | None:
    """What is wrong with the claims about memory, if anything."""
    try:
        claim = claim_of(target.main)
        if claim is None:
            same = [v.name for v, _ in bindings(source.main)] == [v.name for v, _ in bindings(target.main)]
            return None if same else "the order has changed, but no peak is claimed"
        for what, said, module in (("before", claim.before, source), ("after", claim.after, target)):
            if (got := peak(module)) != said:
                return f"the peak {what} is said to be {said} bytes, and is {got}"
        if not least_peak(target) <= claim.bound <= claim.after <= claim.before:
            return f"a bound of {claim.bound} and a peak of {claim.after} after {claim.before} bytes cannot be"
    except Invalid as wrong:
        return str(wrong)
    return None


def _shown(target: Module) -> str:
    claim = claim_of(target.main)
    if claim is None:
        return "not planned"
    if not claim.optimal:
        return "peaks found again"
    return "peaks found again" + (
        "; one call needs it all" if least_peak(target) == claim.after else "; optimal by its search"
    )


def peak(module: Module) -> int:
    """The most bytes of workspace live at once, from the first and last use of every tensor."""
    change = Counter[int]()
    made, last, steps, size = _uses(module)
    for origin, start in made.items():
        change[start] += origin.type.nbytes
        change[last.get(origin, start) + 1] -= origin.type.nbytes
    for i in range(steps):
        change[i] += size[i]
        change[i + 1] -= size[i]
    return max(accumulate(change[i] for i in range(steps)), default=0)


def least_peak(module: Module) -> int:
    """The most bytes that one call needs by itself: what it reads, makes and allocates. No order needs fewer."""
    made, last, steps, need = _uses(module)
    look = origins(module.main)
    for origin, start in made.items():
        need[start] += origin.type.nbytes
    i = 0
    for _, value in bindings(module.main):
        if isinstance(value, CallTIR):
            need[i] += sum(o.type.nbytes for o in {o for a in value.args for o in look(a)} if o in made)
            i += 1
    return max(need, default=0)


def _uses(module: Module) -> tuple[dict[Origin, int], dict[Origin, int], int, list[int]]:
    """Of each tensor of the workspace the call that makes it and the last that reads it; calls; bytes allocated
    inside."""
    main = module.main
    look = origins(main)
    given = set(look(result(main)))
    made: dict[Origin, int] = {}
    last: dict[Origin, int] = {}
    inside: list[int] = []
    for var, value in bindings(main):
        if isinstance(value, CallTIR):
            made.update((o, len(inside)) for o in look(var) if o not in given)
            last.update((o, len(inside)) for a in value.args for o in look(a))
            inside.append(sum(b.nbytes for b in module.kernel(value.func).allocations))
    return made, last, len(inside), inside
