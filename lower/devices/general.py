"""What the calls of general functions want, each looked at as if the function were its own (specs/lower.md, "devices").

A call of a general function has fresh domains for the parameters and the result, with what the body demands between
them: those that are one are tied, and those that it pulls together are used in one another, so that the solver counts a
copy where they are apart. That is short for a copy of the body at each call, of which there may be exponentially many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from assay.lower.devices.capture import crossing
from assay.lower.devices.constraints import Constraints, DevicePart, DomainUse
from assay.lower.devices.solve import solve_domains
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.module import Module
from assay.semantics.sets import DisjointSets
from assay.semantics.types import FuncType

Signature: TypeAlias = tuple[VirtualDevice, ...]
"""Where a call wants its operands, and its result."""


class Link(NamedTuple):
    """Two of the parameters and the result, by number; whether they are one, or pull one another."""

    one: int
    other: int
    firm: bool


class Inside(NamedTuple):
    """What a body demands between parameters and result, and the numbers of those with which something is computed, and
    of those at which the host looks."""

    links: list[Link]
    busy: list[int]
    looked: list[int]


Links: TypeAlias = Mapping[tuple[str, DevicePart], Inside]
"""By function, what its body demands."""


@dataclass(eq=False)
class _Fresh(Constraints):
    """The constraints of a module in which the calls `fresh`, by identity, of general functions are each its own."""

    fresh: Mapping[int, str] = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    """The domain of the function for each of these calls."""

    def _call(self, node: Call, here: int) -> None:
        of = self.fresh.get(id(node))
        if of is None:
            super()._call(node, here)
            return
        assert isinstance(node.op, Expr)
        callee = self.made[id(node)] = self.domains.of_type(node.op.type)
        for i in range(len(node.args)):
            self._use(node, i + 1, self.domains.param(callee, i), "an argument and its parameter")
        self._tie(here, self.domains.result(callee), "a call and the function's result", node)
        types = [*(a.type for a in node.args), node.type]
        self.busy.append(self.domains.home(here))
        inside = self.links.get((of, self.part), Inside([], [], []))
        for a, b, firm in inside.links:
            one, other = (_part(self, callee, k, len(node.args)) for k in (a, b))
            if firm:
                self._tie(one, other, "what a function takes and gives", node)
                continue
            self.uses.append(DomainUse(self._value("inside", id(node), a), self.tensors(types[a]) or 0, one, other))
            self.pulls.append((one, other))
        self.busy += (_part(self, callee, k, len(node.args)) for k in inside.busy)
        for k in inside.looked:
            value = self._value("looked at", id(node), k)
            self.uses.append(
                DomainUse(value, self.tensors(types[k]) or 0, _part(self, callee, k, len(node.args)), self.looks)
            )


def _part(of: Constraints, function: int, number: int, params: int) -> int:
    """The domain of a parameter, or of the result behind them, in that of a function."""
    return of.domains.param(function, number) if number < params else of.domains.result(function)


def links_of(
    module: Module, config: CompilationConfig, units: Sequence[Sequence[str]], calls: Mapping[int, tuple[str, str]]
) -> Links:
    """What the bodies of general functions demand between parameters and result. `units` are these, callees first;
    `calls` are the calls of them by others, by identity: caller and called."""
    found: dict[tuple[str, DevicePart], Inside] = {}
    inside: dict[str, list[int]] = {}
    for call, (caller, _) in calls.items():
        inside.setdefault(caller, []).append(call)
    for part in DevicePart:
        of = _Fresh(module, config, part, fresh={c: n for c, (_, n) in calls.items()})
        sets = _Sets()
        for a, b in of.pulls:
            sets.join(of.domains.find(a), of.domains.find(b))
        for d in of.busy:
            sets.mark(of.domains.find(d), "busy")
        for u in of.uses:
            at, wanted = (sets.find(of.domains.find(d)) for d in (u.at, u.wanted))
            if u.wanted == of.looks or at != wanted:
                sets.mark(at, "looked" if u.wanted == of.looks else "busy")
        for unit in units:
            for call in (c for name in unit for c in inside.get(name, ())):
                callee, name = of.made[call], calls[call][1]
                params = len(_type(module, name).params)
                for a, b, _ in found[name, part].links:
                    sets.join(*(of.domains.find(_part(of, callee, k, params)) for k in (a, b)))
                for k in found[name, part].busy:
                    sets.mark(of.domains.find(_part(of, callee, k, params)), "busy")
                for k in found[name, part].looked:
                    sets.mark(of.domains.find(_part(of, callee, k, params)), "looked")
            for name in unit:
                params = len(_type(module, name).params)
                order = [params, *range(params)]
                home = {k: of.domains.find(of.domains.home(_part(of, of.globals[name], k, params))) for k in order}
                links: list[Link] = []
                marks = {k: sets.marks(home[k]) for k in order}
                found[name, part] = Inside(links, *([k for k in order if m in marks[k]] for m in ("busy", "looked")))
                for at, k in enumerate(order):
                    one = next((j for j in order[:at] if home[j] == home[k]), None)
                    near = next((j for j in order[:at] if sets.find(home[j]) == sets.find(home[k])), None)
                    if one is not None:
                        links.append(Link(k, one, True))
                    elif near is not None:
                        links.append(Link(k, near, False))
    return found


def signatures(
    module: Module, config: CompilationConfig, calls: Mapping[int, str], links: Links
) -> dict[int, Signature]:
    """Where those of the calls, by identity, of general functions that stand in the module want their operands and
    their result."""
    place = _Fresh(module, config, DevicePart.PLACE, fresh=calls, links=links)
    places = solve_domains(place)
    scope = _Fresh(module, config, DevicePart.SCOPE, crossing(place, places), fresh=calls, links=links)
    scopes = solve_domains(scope)
    found: dict[int, Signature] = {}
    for call in place.made:
        params = len(_type(module, calls[call]).params)
        each: list[VirtualDevice] = []
        for k in range(params + 1):
            there = places.at(_part(place, place.made[call], k, params))
            each.append(replace(there, scope=scopes.at(_part(scope, scope.made[call], k, params)).scope))
        found[call] = tuple(each)
    return found


def _type(module: Module, name: str) -> FuncType:
    function = module.definitions[name]
    assert isinstance(function, Function)
    return function.func_type


class _Sets(DisjointSets[int]):
    """Disjoint sets of numbers, with marks."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[int, set[str]] = {}

    def join(self, a: int, b: int) -> bool:
        a, b = self.find(a), self.find(b)
        marks = self._marks.pop(a, set()) | self._marks.pop(b, set())
        joined = super().join(a, b)
        if marks:
            self._marks[self.find(a)] = marks
        return joined

    def mark(self, x: int, mark: str) -> None:
        self._marks.setdefault(self.find(x), set()).add(mark)

    def marks(self, x: int) -> set[str]:
        return self._marks.get(self.find(x), set())
