"""Where each domain is: ties joined, then what is pulled together, then the fewest copies (specs/lower.md,
"devices")."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.lower.devices.constraints import Constraints, DevicePart, Said
from assay.lower.devices.cut import Problem, Wanted
from assay.lower.devices.domains import Domains
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, OnDevice, show_head
from assay.semantics.sets import DisjointSets


@dataclass(eq=False)
class Solution:
    """One part of a device for each class of domains."""

    domains: Domains
    devices: dict[int, VirtualDevice] = field(default_factory=dict)

    def at(self, domain: int) -> VirtualDevice:
        """Where a value of a domain lives; of a function, what it gives in the end."""
        return self.devices[self.domains.find(self.domains.home(domain))]


def solve_domains(constraints: Constraints) -> Solution:
    """Invalid: what must be in one place is said to be in two (devices.C1); there is no such device (config.C6)."""
    return _Solver(constraints).run()


class _Solver:
    def __init__(self, constraints: Constraints) -> None:
        self.all = constraints
        self.domains = constraints.domains
        self.said: dict[int, VirtualDevice] = {}
        self.found: dict[int, VirtualDevice] = {}
        self.sayer: dict[int, Expr] = {}

    def run(self) -> Solution:
        find = self.domains.find
        self.said = self.joined()
        roots = [d for d in range(len(self.domains)) if find(d) == d]
        components = self.components(roots)
        torn: list[list[int]] = []
        watched = self.watched(components)
        for i, members in enumerate(components):
            device: VirtualDevice | None = ANYWHERE
            for m in members:
                device = None if device is None else device.join(self.said.get(m, ANYWHERE))
            if device == ANYWHERE and i in watched:
                device = self.all.host
            if device is None:
                torn.append(members)
            else:
                self.found.update(dict.fromkeys(members, self.full(device, members)))
        if torn:
            self.choose(torn)
        return Solution(self.domains, self.found)

    def joined(self) -> dict[int, VirtualDevice]:
        """What is said of each class of domains."""
        by: dict[int, list[Said]] = {}
        for s in self.all.said:
            by.setdefault(self.domains.find(s.domain), []).append(s)
        found: dict[int, VirtualDevice] = {}
        for root, those in by.items():
            found[root] = ANYWHERE
            self.sayer[root] = those[0].node
            for s in those:
                both = found[root].join(s.device)
                if both is None:
                    raise self.contradiction(those, s)
                found[root] = both
        return found

    def contradiction(self, those: list[Said], last: Said) -> Invalid:
        first = next((s for s in those if not s.device.agrees(last.device)), those[0])
        steps: list[str] = []
        for t in self.domains.between(first.domain, last.domain):
            step = f"{t.why} ({_named(t.node).rstrip(',')})"
            if step not in steps:
                steps.append(step)
        if len(steps) > 4:
            steps = [*steps[:2], f"{len(steps) - 4} more", *steps[-2:]]
        tied = (
            f"They are one, because nothing can be copied between {'; between '.join(steps)}"
            if steps
            else "They are one value"
        )
        if first.why or last.why:  # a rule of the language says one of them
            rule, written = (first, last) if first.why else (last, first)
            return Invalid(
                f"{_named(written.node)} is said to be on {written.device}; but {rule.why}, {rule.device}. {tied}. "
                f"Say {rule.device}, or nothing",
                where=written.node.span or rule.node.span,
                label="devices.C1",
            )
        return Invalid(
            f"{_named(first.node)} is said to be on {first.device}, and {_named(last.node)} on {last.device}. {tied}. "
            "Say the same of both, or put a device_copy between",
            where=last.node.span or first.node.span,
            label="devices.C1",
        )

    def components(self, roots: list[int]) -> list[list[int]]:
        """Classes that pull each other, in the order of their first member."""
        sets = DisjointSets[int]()
        for a, b in self.all.pulls:
            sets.join(self.domains.find(a), self.domains.find(b))
        return sets.classes(roots)

    def watched(self, components: list[list[int]]) -> set[int]:
        """The components in which nothing is computed, and at whose values only the host looks."""
        find = self.domains.find
        of = {m: i for i, members in enumerate(components) for m in members}
        busy = {of[find(d)] for d in self.all.busy}
        looked: set[int] = set()
        for u in self.all.uses:
            at = of[find(u.at)]
            if u.wanted == self.all.looks:
                looked.add(at)
            elif of[find(u.wanted)] != at:
                busy.add(at)
        return looked - busy

    def full(self, device: VirtualDevice, members: list[int]) -> VirtualDevice:
        if self.all.part is DevicePart.SCOPE:
            return device if device.scope else VirtualDevice(scope=GLOBAL)
        try:
            return self.all.config.canonical(device).place
        except Invalid as wrong:
            sayer = next((self.sayer[m] for m in members if m in self.sayer), None)
            raise wrong.at(sayer.span if sayer else None) from None

    def choose(self, torn: list[list[int]]) -> None:
        """Labels for components in which different things are said: the fewest copies. What one of them chooses may be
        looked at by another, so they are chosen for again until none does better while the others stay."""
        find = self.domains.find
        component = {m: i for i, members in enumerate(torn) for m in members}
        values: dict[int, tuple[int, int, dict[int, None]]] = {}
        for u in self.all.uses:
            values.setdefault(u.value, (u.tensors, find(u.at), {}))[2][find(u.wanted)] = None
        copied: list[list[Wanted]] = [[] for _ in torn]
        for tensors, at, those in values.values():
            for i in sorted({component.get(d, -1) for d in (at, *those)} - {-1}):
                copied[i].append(Wanted(tensors, at, tuple(those)))
        ends = [
            sorted({d for v in of for d in (v.at, *v.wanted) if component.get(d) != i}) for i, of in enumerate(copied)
        ]
        seen: list[dict[int, VirtualDevice] | None] = [None] * len(torn)
        waiting = True
        while waiting:  # each change saves a copy
            waiting = False
            for i, members in enumerate(torn):
                outside = {d: self.outside(d) for d in ends[i]}
                if outside != seen[i]:
                    seen[i], waiting = outside, True
                    self.found.update(self.label(members, copied[i], outside))

    def outside(self, domain: int) -> VirtualDevice:
        """Where a class of another component is, or will be as far as is known."""
        known = self.found.get(domain)
        return self.full(self.said.get(domain, ANYWHERE), [domain]) if known is None else known

    def label(
        self, members: list[int], wanted: list[Wanted], outside: dict[int, VirtualDevice]
    ) -> dict[int, VirtualDevice]:
        """A device for each class of a component: one that is named in it, or the default, which is the first
        choice."""
        default = self.full(ANYWHERE, members)
        said = {m: self.full(self.said[m], [m]) for m in members if self.said.get(m, ANYWHERE) != ANYWHERE}
        labels = sorted({*said.values()} - {default}, key=_key)
        if len(labels) != 2 or default in (*said.values(), *outside.values()):
            labels.insert(0, default)  # else nothing is gained by it, and of two labels the cut is exact
        number = {d: n for n, d in enumerate(labels)}
        allowed = {m: range(len(labels)) for m in members if m not in said}
        chosen = {
            m: [number[d], *(n for n, e in enumerate(labels) if e != d and e.covers(self.said[m]))]
            for m, d in said.items()
        }
        known = {m: number.setdefault(d, len(number)) for m, d in outside.items()}
        problem = Problem({**allowed, **chosen}, wanted, known)
        found = problem.solve(len(labels))
        now = {m: number.setdefault(self.found[m], len(number)) for m in members if m in self.found}
        if now and problem.cost(now) <= problem.cost(found):
            return {}
        return {m: labels[n] for m, n in found.items()}


def _key(device: VirtualDevice) -> tuple[str, int, str, str]:
    return device.type, device.id, device.target, device.scope


def _named(node: Expr) -> str:
    if isinstance(node, OnDevice):
        return f"what is annotated{f' at {node.span}' if node.span else ''}, {show_head(node.value)},"
    return f"{show_head(node)}, at {node.span}" if node.span else show_head(node)
