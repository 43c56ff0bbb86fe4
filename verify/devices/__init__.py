"""Whether a planned module is what its source demands (rule M8; specs/verify.md, "devices").

The check shares no code with `assay.lower.devices`: it knows the rules as conditions on a module that is planned, and
derives once more what a source demands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from assay.lower.anf.copying import fresh_copy
from assay.lower.devices import default_config, plan_devices
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, GlobalVar, OnDevice, Tuple, show_head
from assay.semantics.graph.effects import is_copy
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Definition, Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import fold, post_order
from assay.verify.devices.annotations import Broken, Step, in_step, lost_annotations
from assay.verify.devices.demands import Demands, Part
from assay.verify.devices.erase import Eraser, erase, erased, instances, original_of, value_chain
from assay.verify.devices.fewest import Count, count_copies
from assay.verify.devices.places import misplaced_values
from assay.verify.devices.scopes_check import check_scopes
from assay.verify.evidence import Context, Did, Evidence, checked, plural, proved, refuted

__all__ = ["Broken", "broken_plans", "check_devices", "copies", "erase", "names_devices"]

Planner = Callable[[Module, CompilationConfig], Module]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the plan of devices is what the source demands; the planner must leave it as it is."""
    return check_devices(before, after, context.config or default_config(before), plan_devices)


def describe(before: Module, after: Module) -> Did:
    """How many devices there are, and how many copies between them."""
    graphs = [d for d in after.definitions.values() if isinstance(d, Function)]
    places = {n.device.place for d in graphs for n in post_order(d)} - {ANYWHERE}
    if not places:
        return "one device", {"devices": 1, "copies": 0}
    count = copies(after)
    said = f"{plural(len(places), 'device')}, {count} {'copy' if count == 1 else 'copies'}"
    return said, {"devices": len(places), "copies": count}


def check_devices(
    before: Module, after: Module, config: CompilationConfig | None, again: Planner | None = None
) -> Evidence:
    """Whether `after` is `before` planned for `config`: every value has a device and is where it is used, what `before`
    says holds, both are equal but for devices, no copy is there in vain, and no choice needs fewer.

    Without a configuration nothing is to be planned. `again` is the planner: it changes nothing that is planned.
    """
    if config is None:
        if names_devices(before):
            return refuted("checked", "changed: the module names devices, and nothing says which there are")
        if after is not before and (where := first_difference(before, after)) is not None:
            return refuted("checked", f"changed: there is one device, but {where}")
        return proved("the same module")
    found = _Check(before, after, config)
    for wrong in found.run(again):
        return refuted("checked", str(wrong), verdict=wrong.verdict)
    counts = found.counts
    avoidable, unknown = sum(c.avoidable for c in counts), sum(c.unknown for c in counts)
    few = "no choice of devices needs fewer, each name's copies its own"
    if avoidable:
        few = f"{avoidable} {'copy' if avoidable == 1 else 'copies'} avoidable"
    if unknown:
        few = (
            f"{f'{few}, ' if avoidable else ''}z3 does not know whether there are fewer in"
            f" {plural(unknown, 'component')}"
        )
    said = "operands where they are used; the source without devices"
    return checked(f"{said}{'; planned again the same' if again else ''}; {few}", avoidable=avoidable, unknown=unknown)


def broken_plans(
    before: Module, after: Module, config: CompilationConfig, again: Planner | None = None
) -> list[Broken]:
    """Every rule that a planned module breaks."""
    return list(_Check(before, after, config).run(again))


def names_devices(module: Module) -> bool:
    """Whether anything in the graph functions of a module says where it is: a field, an annotation, or a copy."""
    for d in module.definitions.values():
        if isinstance(d, Function):
            for node in post_order(d):
                if isinstance(node, OnDevice) or is_copy(node, module):
                    return True
                if any(n.device != ANYWHERE for n in (node, *bound_by(node))):
                    return True
    return any(i.device != ANYWHERE for i in module.infos.values())


def copies(module: Module) -> int:
    """The copies between devices and scopes in a module's graph functions."""
    graphs = [d for d in module.definitions.values() if isinstance(d, Function)]
    return sum(is_copy(n, module) for d in graphs for n in post_order(d))


def unshared(module: Module) -> Module:
    """The module, each graph function made of nodes of its own: a node that two of them share is two evaluations, and
    each may be somewhere else."""
    seen: set[int] = set()
    made: dict[str, Definition] = {}
    for name, d in module.definitions.items():
        if isinstance(d, Function):
            root: Expr = d
            nodes = {id(n) for n in post_order(root)}
            made[name] = d
            if not seen.isdisjoint(nodes):
                root = fresh_copy(d, {})
                assert isinstance(root, Function)
                made[name] = root
            seen |= nodes
    return replace(module, definitions={**module.definitions, **made})


class _Check:
    def __init__(self, before: Module, after: Module, config: CompilationConfig) -> None:
        self.before, self.after, self.config = unshared(before), after, config
        self.old, self.new = erased(self.before), erased(after)
        self.counts: list[Count] = []

    def run(self, again: Planner | None) -> Iterator[Broken]:
        apart = list(self.erasure())
        yield from apart
        if apart:  # the rest looks at both in step
            return
        yield from misplaced_values(self.after, self.config)
        yield from lost_annotations(self.steps(self.before, self.old), self.old, self.new)
        scopes = check_scopes(self.before, self.after)
        if not scopes.holds:
            yield Broken("scope", scopes.detail)
        yield from self.fewest()
        if again is not None:
            try:
                where = first_difference(self.after, again(self.after, self.config))
            except Invalid as wrong:
                where = str(wrong)
            if where is not None:
                yield Broken("second run", where)

    def erasure(self) -> Iterator[Broken]:
        """Both modules are equal but for devices, and so are instances and what they are instances of."""
        where = first_difference(erase(self.before), erase(self.after))
        if where is not None:
            yield Broken("erasure", where)
            return
        if self.before.infos != self.after.infos:
            yield Broken("erasure", "how constants are stored has changed")
        for name, original in instances(self.after):
            made, of = self.after.definitions[name], self.after.definitions.get(original)
            match made, of:
                case Function(), Function():
                    where = first_difference(self.new.bare[id(made)], self.new.bare[id(of)])
                case PrimFunc(), PrimFunc():
                    where = None  # `check_scopes` looks at those
                case _:
                    where = "there is no such function"
            if where is not None:
                yield Broken("instance", f"{name} is not {original}: {where}")

    def steps(self, source: Module, old: Eraser) -> Iterator[Step]:
        """The uses of values, in a source that is equal to the planned module but for devices."""
        pairs: list[tuple[Function, Function]] = []
        for name, d in self.after.definitions.items():
            of = source.definitions.get(name, source.definitions.get(original_of(self.after, name)))
            if isinstance(d, Function) and isinstance(of, Function):
                pairs.append((of, d))
        yield from in_step(pairs, old, self.new)

    def fewest(self) -> Iterator[Broken]:
        source = self.doubled() if any(True for _ in instances(self.after)) else self.before
        steps = list(self.steps(source, self.old if source is self.before else erased(source)))
        places = list(self.places(steps))
        apart: set[tuple[int, int]] = set()
        parts: tuple[Part, Part] = ("place", "scope")
        for part in parts:
            demands = Demands(source, self.config, part, apart)
            yield from demands.broken
            chosen: dict[int, VirtualDevice] = {}
            shown: dict[int, Expr] = {}
            for a, b in places:
                cell = demands.cell_of(a)
                if cell is None or demands.is_anywhere(a):
                    continue
                here = demands.of(b.device)
                shown.setdefault(cell, a)
                if chosen.setdefault(cell, here) != here:
                    yield Broken(
                        "tied", f"{show_head(a)} is on {here}, a value that is one with it on {chosen[cell]}", a.span
                    )
            count = count_copies(demands, chosen, shown)
            self.counts.append(count)
            yield from count.broken
            find = demands.cells.find
            ends = {u.place: (count.place.get(find(u.at)), count.place.get(find(u.wanted))) for u in demands.uses}
            if any(None in e for e in ends.values()):  # what the plan does not show cannot be compared
                return
            apart = {p for p, (at, wanted) in ends.items() if at != wanted}

    def places(self, steps: list[Step]) -> Iterator[tuple[Expr, Expr]]:
        """Values of the source with what they are in the planned module. A tuple that is written out is copied by
        writing it out again: of those that are one, the one is meant of whose fields the others' are copies."""
        tuples: dict[int, list[tuple[Tuple, Tuple]]] = {}
        for wanted, got in steps:
            yield from zip(bound_by(wanted[0]), bound_by(got[0]), strict=True)
            match wanted[0], got[0]:
                case Tuple() as a, Tuple() as b:
                    tuples.setdefault(id(a), []).append((a, b))
                case a, b:
                    yield a, b
        for those in tuples.values():
            first = next((p for p in those if all(self.is_copied(p[1], o) for _, o in those)), None)
            if first is not None and not all(is_copy(f, self.after) for f in first[1].fields):
                yield first

    def is_copied(self, of: Tuple, other: Tuple) -> bool:
        """Whether a tuple is made of the fields of another, or of copies of them."""
        return all(f in value_chain(g, self.new) for f, g in zip(of.fields, other.fields, strict=True))

    def doubled(self) -> Module:
        """The source with a function for each instance of it, called where the planned module calls the instance."""
        made: dict[str, Definition] = dict(self.before.definitions)
        for name, d in self.after.definitions.items():
            of = self.before.definitions.get(name, self.before.definitions.get(original_of(self.after, name)))
            if isinstance(d, Function) and isinstance(of, Function):
                found = self.renamed(of, d)
                if (
                    name not in self.before.definitions
                ):  # nothing of it is a node of the function that it is an instance of
                    found = fresh_copy(found, {})
                assert isinstance(found, Function)
                made[name] = found
        return replace(self.before, definitions=made)

    def renamed(self, of: Function, by: Function) -> Expr:
        """A function of the source that calls what the planned one calls."""
        old, new = self.old, self.new
        names: dict[tuple[int, int], Expr] = {}
        for wanted, got in in_step([(of, by)], old, new):
            for i, (x, y) in enumerate(zip(wanted[0].children, got[0].children, strict=True)):
                inner = value_chain(y, new)[0]
                if isinstance(x, GlobalVar) and isinstance(inner, GlobalVar) and inner.name != x.name:
                    names[id(wanted[0]), i] = replace(x, name=inner.name)

        def made(node: Expr, parts: list[Expr]) -> Expr:
            return node.with_children([names.get((id(node), i), p) for i, p in enumerate(parts)])

        return fold(of, made)
