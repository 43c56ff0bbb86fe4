"""Which function of the source an inner function of the target is (specs/verify.md, "anf").

A step that has succeeded before a function is made cannot fail in its body, so the body of the target's function may
name its value where the source's demands it again. What has succeeded is read off the let chains around the function:
every binding in front of it; and where a branch was decided in front of it, every binding of the branch taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.semantics.graph import Expr, Function, If, Let, Match, let_chain
from assay.semantics.graph.effects import can_fail
from assay.semantics.module import Module
from assay.semantics.tasks import Task, run_task
from assay.semantics.walk import post_order
from assay.verify.value_numbering import Numbering
from assay.verify.value_numbering.events import BodyEvents, cover, scrutiny
from assay.verify.value_numbering.nesting import is_atom
from assay.verify.value_numbering.terms import Key, Table


@dataclass(eq=False)
class Past:
    """What the bindings of one chain have done: the steps that can fail, and the branches by what decided them."""

    steps: dict[int, list[Expr]] = field(default_factory=dict)
    decided: dict[int, list[If | Match]] = field(default_factory=dict)


class Inner:
    """Gives an inner function of the target the key of the source's function that it is.

    That is the one of the same parameters and result whose events are the same, or more by what has succeeded before.
    Where there is none the key is the function's own, and will match nothing.
    """

    def __init__(self, after: Function, target: Module, table: Table, known: Mapping[Key, list[int]]) -> None:
        self.after, self.target, self.table, self.known = after, target, table, known
        self.start: dict[int, int] = {}
        self.stop: dict[int, int] = {}
        self.values: list[Let] = []
        self.partial: list[Match] = []
        self.read = 0
        self.succeeded: dict[int, list[Let]] = {}
        """For the number of a step that can fail: the lets in whose body it has succeeded."""
        self.decided: dict[int, list[Let]] = {}
        """For what decides a branch: the lets in whose body one has been taken."""
        self.pasts: dict[int, Past] = {}

    def _survey(self) -> None:
        """Where everything is; done when it is first asked."""

        def parts(node: Expr) -> Sequence[Expr]:
            self.start[id(node)] = len(self.start)
            return node.children

        lets: dict[int, Let] = {}
        order: list[Expr] = []
        root: Expr = self.after
        for node in post_order(root, parts):
            self.stop[id(node)] = len(self.start)
            order.append(node)
            if isinstance(node, Let) and not is_atom(node.value):
                lets[id(node.value)] = node
        self.values = [lets[id(n)] for n in order if id(n) in lets]
        self.partial = [n for n in order if isinstance(n, Match) and n.partial]

    def __call__(self, function: Function, key: Key, walk: BodyEvents, numbering: Numbering) -> Key:
        """The key of an inner function: `key` with the events of the source's function that it is, or its own."""
        known = self.known.get(key, [])
        if walk.events in known:
            return (*key, walk.events)
        if not self.start:
            self._survey()
        while self.read < len(self.values) and id(self.values[self.read].value) in numbering.of:
            let = self.values[self.read]
            self.read += 1
            step, branch = self._does(let.value, numbering)
            if step is not None:
                self.succeeded.setdefault(step, []).append(let)
            if branch is not None:
                self.decided.setdefault(branch, []).append(let)
        left = self._reduced(walk.events, function, numbering) if known else None
        for events in known:
            if self._reduced(events, function, numbering) == left:
                return (*key, events)
        return (*key, walk.events)

    def _does(self, value: Expr, numbering: Numbering) -> tuple[int | None, int | None]:
        """The step of a value that can fail, and what decides its branches."""
        step = branch = None
        if isinstance(value, (If, Match)):
            branch = scrutiny(value, numbering.at(value.children[0]), self.table)
        if can_fail(value, self.target):
            step = numbering.of[id(value)]
            if isinstance(value, Match):
                step = cover(value, numbering.at(value.value), self.table)
        return step, branch

    def _past(self, body: Expr, numbering: Numbering) -> Past:
        """What a chain has done once it has given its result."""
        found = self.pasts.get(id(body))
        if found is None:
            found = self.pasts[id(body)] = Past()
            for value in (let.value for let in let_chain(body)[0] if not is_atom(let.value)):
                step, branch = self._does(value, numbering)
                if step is not None:
                    found.steps.setdefault(step, []).append(value)
                if isinstance(value, (If, Match)):
                    assert branch is not None
                    found.decided.setdefault(branch, []).append(value)
        return found

    def _within(self, node: Expr, around: Expr) -> bool:
        return self.start[id(around)] <= self.start[id(node)] < self.stop[id(around)]

    def _has_succeeded(self, step: int, past: Sequence[Past], function: Function, numbering: Numbering) -> bool:
        done = [n for p in past for n in p.steps.get(step, ())]
        done += [let.value for let in self.succeeded.get(step, ()) if self._within(function, let.body)]
        around = (m for m in self.partial if self._within(function, m))
        done += [m for m in around if cover(m, numbering.at(m.value), self.table) == step]
        return any(self._named(n, function, numbering) for n in done)

    def _named(self, node: Expr, function: Function, numbering: Numbering) -> bool:
        """Whether a number made of a node means the same inside the function.

        It does where all functions from there outwards are lower than each that the node names something of: another
        name of theirs cannot have the same number.
        """
        nest = numbering.nest
        rest = nest.free_in(node) - nest.free_in(function)
        if not rest:
            return True
        low = min(nest.height[f] for f in rest)
        at: Expr = function
        while rest:
            if nest.height[id(at)] >= low:
                return False
            region = nest.region[id(at)]
            while not isinstance(nest.owner[region][0], Function):
                region = nest.regions.parent[region]
            at = nest.owner[region][0]
            if at is nest.root:
                return False
            if id(at) in rest:
                rest = rest - {id(at)}
                low = min((nest.height[f] for f in rest), default=low)
        return True

    def _taken(
        self, branch: int, part: int, past: Sequence[Past], function: Function, numbering: Numbering
    ) -> list[Past]:
        """What has been done where this part of a branch was taken before."""
        nodes = [n for p in past for n in p.decided.get(branch, ())]
        nodes += [
            let.value
            for let in self.decided.get(branch, ())
            if self._within(function, let.body) and isinstance(let.value, (If, Match))
        ]
        taken = [n for n in nodes if self._named(n.children[0], function, numbering)]
        return [*past, *(self._past(n.children[part], numbering) for n in taken)]

    def _reduced(self, events: int, function: Function, numbering: Numbering) -> int:
        """Events without the steps that have succeeded before the function is made."""
        keys, table = self.table.keys, self.table
        nothing = table.number("events")

        def reduced(of: int, past: Sequence[Past]) -> Task[int]:
            out: list[int] = []
            for e in keys[of][1:]:
                if self._old(e, past, function, numbering):
                    continue
                if keys[e][0] != "branch":
                    out.append(e)
                    continue
                _, which, inside, _ = keys[e]
                parts: list[int] = []
                for i, part in enumerate(inside, 1):
                    parts.append((yield reduced(part, self._taken(which, i, past, function, numbering))))
                if any(p != nothing for p in parts):
                    out.append(table.number("branch", which, tuple(parts), None))
            return table.number("events", *out)

        return run_task(reduced(events, ()))

    def _old(self, event: int, past: Sequence[Past], function: Function, numbering: Numbering) -> bool:
        what, of, *_ = self.table.keys[event]
        return what == "fail" and self._has_succeeded(of, past, function, numbering)
