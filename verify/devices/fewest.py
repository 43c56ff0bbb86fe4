"""No assignment needs fewer copies: what z3 says (specs/verify.md, "devices").

The rules fix where a value is, wherever the source does not contradict itself. Only inside a component that does is
there something to choose. There a planned module is compared with all choices that keep what the source says: z3 looks
for one with fewer copies, which are counted as pairs of a value and where it is copied to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import z3

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Expr, show_head
from assay.verify.devices.annotations import Broken
from assay.verify.devices.demands import Demands

SMALL = 12
"""Up to so many values to choose for, a plan that needs more copies than it must is refused. Beyond, what is avoidable
is reported."""
STEPS = 2_000_000
"""z3's limit for one question, in its own unit of work, so that an answer does not depend on the machine."""


@dataclass
class Count:
    """Copies between devices, or between scopes, in components that the source contradicts."""

    copies: int = 0
    avoidable: int = 0
    unknown: int = 0
    """Components in which z3 could not say whether there are fewer."""
    broken: list[Broken] = field(default_factory=list)
    place: dict[int, VirtualDevice] = field(default_factory=dict)
    """Where each class of values is in the planned module, as far as it or the source shows."""


def count_copies(demands: Demands, chosen: Mapping[int, VirtualDevice], shown: Mapping[int, Expr]) -> Count:
    """`chosen` is where the planned module has each class of values, by its cell, and `shown` a value of each."""
    total = Count()
    torn: list[list[int]] = []
    place = total.place = dict(chosen)
    components = demands.components()
    shown_only = demands.shown_only(components)
    for i, component in enumerate(components):
        said = demands.settled(component)
        if said is None:
            torn.append(component)
            continue
        wanted = demands.host if said == ANYWHERE and i in shown_only else demands.whole(said)
        for c in component:
            if place.setdefault(c, wanted) != wanted:
                what = (
                    f"{show_head(shown[c])} is on {place[c]}; by what is said of it and of what it is used with it is"
                    f" on {wanted}"
                )
                total.broken.append(Broken("default", what, shown[c].span))
    for component in torn:
        _weigh(demands, component, place, shown, total)
    return total


def _weigh(
    demands: Demands, component: list[int], chosen: Mapping[int, VirtualDevice], shown: Mapping[int, Expr], total: Count
) -> None:
    find, at = demands.cells.find, demands.cells.at
    inside = {*component}
    said = {c: at(c) for c in component if at(c) != ANYWHERE}
    labels = sorted({*map(demands.whole, said.values()), demands.default}, key=repr)
    may = {c: [d for d in labels if d.covers(at(c))] for c in component}
    strange = [c for c in component if c in chosen and chosen[c] not in may[c]]
    if strange:
        node, wanted = shown[strange[0]], " or ".join(map(str, may[strange[0]]))
        what = f"{show_head(node)} is on {chosen[strange[0]]}; by what is said it may be on {wanted}"
        total.broken.append(Broken("annotation", what, node.span))
        return
    pairs: dict[tuple[tuple[int, ...], int, int], int] = {}
    ends = [(u, find(u.at), find(u.wanted)) for u in demands.uses]
    touched = {u.key for u, a, w in ends if a in inside or w in inside}
    for u, a, w in ends:  # one copy of a value may serve a user in another component too
        if u.key in touched and a != w:
            for c in (a, w):
                may.setdefault(c, [chosen.get(c, demands.whole(at(c)))])
            pairs[u.key, a, w] = u.tensors
    planned = fewest_copies(pairs, {c: [chosen[c]] if c in chosen else may[c] for c in may}, None)
    if planned is None:
        total.unknown += 1
        return
    best = fewest_copies(pairs, may, planned.copies)
    free = sum(len(places) > 1 for places in may.values())
    total.copies += planned.copies
    total.avoidable += planned.copies - best.copies if best else 0
    total.unknown += not (planned.sure and best is not None and best.sure)
    if best and best.copies < planned.copies and planned.sure and free <= SMALL:
        total.broken.append(
            Broken("copies", f"{planned.copies} copies between {demands.part}s where {best.copies} are enough")
        )


@dataclass(frozen=True)
class Least:
    """The fewest copies found, and whether it is proved."""

    copies: int
    sure: bool
    """Whether z3 has shown that there are no fewer."""


def fewest_copies(
    pairs: Mapping[tuple[tuple[int, ...], int, int], int], may: Mapping[int, list[VirtualDevice]], known: int | None
) -> Least | None:
    """The fewest copies when each class is in one of the places where it may be; None where z3 finds nothing. Where so
    many are `known` to do, only fewer are looked for."""
    labels = sorted({d for places in may.values() for d in places}, key=repr)
    if all(len(places) == 1 for places in may.values()):
        all_ = {(v, may[w][0]): n for (v, a, w), n in pairs.items() if may[a] != may[w]}
        return Least(sum(all_.values()), True)
    solver = z3.Solver()
    solver.set("rlimit", STEPS)
    at: dict[tuple[int, int], z3.BoolRef] = {}
    for i, (c, places) in enumerate(may.items()):
        for k, d in enumerate(labels):
            at[c, k] = z3.BoolVal(d in places) if len(places) == 1 or d not in places else z3.Bool(f"class_{i}_at_{k}")
        if len(places) > 1:
            solver.add(z3.PbEq([(at[c, k], 1) for k, d in enumerate(labels) if d in places], 1))
    copies: dict[tuple[tuple[int, ...], int], z3.BoolRef] = {}
    weight: dict[tuple[tuple[int, ...], int], int] = {}
    for (v, a, w), n in pairs.items():
        for k in range(len(labels)):
            made = copies.setdefault((v, k), z3.Bool(f"copy_{len(copies)}"))
            weight[v, k] = n
            solver.add(z3.Implies(z3.And(at[w, k], z3.Not(at[a, k])), made))
    best = known
    while best != 0:
        solver.push()
        if best is not None:
            solver.add(z3.PbLe([(c, weight[k]) for k, c in copies.items() if weight[k]], best - 1))
        answer = solver.check()
        if answer == z3.sat:
            model = solver.model()
            best = sum(weight[k] for k, c in copies.items() if z3.is_true(model.eval(c)))
        solver.pop()
        if answer != z3.sat:
            return None if best is None else Least(best, answer == z3.unsat)
    return Least(0, True)
