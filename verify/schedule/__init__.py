"""The proof that a reordered `main` is its source, and the peaks that it claims (specs/verify.md, "schedule").

The bindings are the source's, each once, under the same names and with the same numbers; each reads only what is bound
before it; the calls that may trap come in the source's order. The peaks are found again from first and last uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.lower.schedule.task_graph import nominal_sizes
from assay.semantics.alias import bindings
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function, Var, free_variables
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.verify.evidence import Context, Did, Evidence, proved, refuted, size
from assay.verify.kept import CLAIMS, stored
from assay.verify.schedule.live import least_peak, never_more, peak, sizes_by_name
from assay.verify.trials.sizes import told_point
from assay.verify.value_numbering import number_function
from assay.verify.value_numbering.terms import Table


@dataclass(frozen=True)
class Claim:
    """The most bytes of workspace live at once before and after, and a bound that no order is below: where there are
    symbols, at these `sizes`, by name."""

    before: int
    after: int
    bound: int
    sizes: Mapping[str, int] = field(default_factory=dict)

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
    said: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    sizes = said.get("sizes", {})
    right = isinstance(sizes, Mapping) and set(said) - {"sizes"} == set(names)
    if not right or any(type(n) is not int for n in (*(said[n] for n in names), *sizes.values())):
        raise Invalid(
            "the attribute schedule holds the bytes before, after and bound, and the sizes at which these are so",
            label="schedule.C1",
        )
    return Claim(said["before"], said["after"], said["bound"], sizes)


def told_claimed(claim: Claim) -> str:
    """The sizes of a claim: "batch = 128, seq = 64"."""
    return ", ".join(f"{name} = {n}" for name, n in claim.sizes.items())


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
    data: dict[str, Any] = {"peak_before": claim.before, "peak": claim.after, "peak_bound": claim.bound}
    peak = f"peak {size(claim.before)}" + (f" to {size(claim.after)}" if claim.after < claim.before else "")
    peak += ", optimal" if claim.optimal else f", at least {size(claim.bound)}"
    if claim.sizes:
        peak += f" at {told_claimed(claim)}"
        data["sizes"] = dict(claim.sizes)
    return peak, data


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
    return (
        refuted("checked", wrong)
        if wrong
        else proved(f"same bindings, dependences and traps; {_shown(source, target)}")
    )


def check_repeated(before: Module, after: Module, context: Context) -> Evidence:
    """Whether main, which may repeat calls, has the same value and needs no more memory."""
    same = check_same_values(before, after)
    at = nominal_sizes(before.main)
    old, new = peak(before, at), peak(after, at)
    if not same.holds or new > old:
        return same if not same.holds else refuted("checked", f"the peak is {new} bytes, and was {old}")
    where = f" at {told_point(at)}" if at else ""
    return proved(f"{same.detail}; peak {size(old)}" + (f" to {size(new)}" if new < old else "") + where)


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
        at = sizes_by_name(target, claim.sizes)
        for what, said, module in (("before", claim.before, source), ("after", claim.after, target)):
            if (got := peak(module, at)) != said:
                return f"the peak {what} is said to be {said} bytes, and is {got}"
        if not least_peak(target, at) <= claim.bound <= claim.after <= claim.before:
            return f"a bound of {claim.bound} and a peak of {claim.after} after {claim.before} bytes cannot be"
    except Invalid as wrong:
        return str(wrong)
    return None


def _shown(source: Module, target: Module) -> str:
    claim = claim_of(target.main)
    if claim is None:
        return "not planned"
    said = "peaks found again"
    if claim.sizes:
        never = never_more(source, target)
        said += f" at {told_claimed(claim)}, " + ("at no sizes more than before" if never else "at other sizes unknown")
    if not claim.optimal:
        return said
    least = least_peak(target, sizes_by_name(target, claim.sizes))
    return said + ("; one call needs it all" if least == claim.after else "; optimal by its search")
