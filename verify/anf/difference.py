"""Where two functions part that do not compute the same (specs/verify.md, "anf"): a sentence for a person."""

from __future__ import annotations

from assay.semantics.graph import Expr, Function, Let
from assay.semantics.graph.effects import acts
from assay.verify.anf.shape import node_title
from assay.verify.value_numbering import Numbered
from assay.verify.value_numbering.nesting import is_atom
from assay.verify.value_numbering.terms import Table


def difference(one: Numbered, two: Numbered, table: Table) -> str | None:
    """How the target's value, failures or actions differ from the source's, if they do."""
    if one.result == two.result and one.events == two.events:
        return None
    return _Difference(one, two, table).say(one.events, two.events)


class _Difference:
    def __init__(self, one: Numbered, two: Numbered, table: Table) -> None:
        self.one, self.two, self.table = one, two, table
        self.nodes = {e: n for f in (one, two) for w in f.walks.values() for e, n in w.nodes.items()}
        ours, theirs = set(one.of.values()), set(two.of.values())
        self.lost = [n for n in one.order if self._compound(n) and one.of[id(n)] not in theirs]
        self.odd = [n for n in two.order if self._compound(n) and two.of[id(n)] not in ours]

    def _compound(self, node: Expr) -> bool:
        return not isinstance(node, Let) and not is_atom(node) and node not in (self.one.function, self.two.function)

    def say(self, ours: int, theirs: int) -> str:
        step = self.step(ours, theirs)
        if step is not None and self.is_action(*step[:2]) and not self.other_operands(*step):
            return self.event(*step)
        lost = [n for n in self.lost if not acts(n)]
        known = set(self.two.of.values())
        # the cause, not its consequences: all that it is made of is there
        cause = next((n for n in lost if all(self.one.of[id(c)] in known for c in n.children)), None)
        function = next((n for n in lost if isinstance(n, Function)), None)
        if function is not None and (cause is None or cause is function or self.other_height(function)):
            return self.inner(function) or self.missing(function)
        if cause is not None or lost:
            return self.missing(cause or lost[0])
        if step is not None:
            return self.event(*step)
        if self.lost:
            return self.missing(self.lost[0])
        result = self.one.nest.resolve(self.one.function.body)
        while isinstance(result, Let):
            result = self.one.nest.resolve(result.body)
        return f"the result is not {node_title(result)}, but another value of the source"

    def missing(self, lost: Expr) -> str:
        keys, number = self.table.keys, self.one.of[id(lost)]
        if keys[number][0] == "on":
            number = keys[number][1]
        for node in self.odd:
            other = self.two.of[id(node)]
            if number == (keys[other][1] if keys[other][0] == "on" else other):
                return f"{node_title(node)} is on another device than in the source"
        return f"{node_title(lost)} of the source is not computed by the target"

    def inner(self, lost: Function) -> str | None:
        """What differs inside a function: the target's, of those that the source lacks, that is most like it."""
        for f in self.odd:
            if isinstance(f, Function) and self.alike(lost, f):
                step = self.step(self.one.walks[id(lost)].events, self.two.walks[id(f)].events)
                if step is not None:
                    return f"in {node_title(f)}: {self.event(*step)}"
        return None

    def other_height(self, lost: Function) -> bool:
        """Whether it needs other functions: then all names inside it have other numbers, and say nothing."""
        return self.one.nest.height[id(lost)] not in {self.two.nest.height.get(id(f)) for f in self.odd}

    def alike(self, a: Function, b: Function) -> bool:
        x, y = self.table.keys[self.one.of[id(a)]], self.table.keys[self.two.of[id(b)]]
        return bool(x[:2] == y[:2])

    # --- events ---------------------------------------------------------------------------------------------------

    def step(self, ours: int, theirs: int) -> tuple[int | None, int | None, list[int], list[int]] | None:
        """The first event of each that the other does not have in its place, and what follows; inside branches too."""
        keys = self.table.keys
        while ours != theirs:
            a, b = list(keys[ours][1:]), list(keys[theirs][1:])
            same = 0
            while same < min(len(a), len(b)) and a[same] == b[same]:
                same += 1
            a, b = a[same:], b[same:]
            if a and b and keys[a[0]][0] == keys[b[0]][0] == "branch" and keys[a[0]][1] == keys[b[0]][1]:
                parts = zip(keys[a[0]][2], keys[b[0]][2], strict=True)
                ours, theirs = next((p, q) for p, q in parts if p != q)
                continue
            return (a[0] if a else None), (b[0] if b else None), a, b
        return None

    def is_action(self, *events: int | None) -> bool:
        return any(e is not None and self.table.keys[e][0] == "act" for e in events)

    def other_operands(self, want: int | None, got: int | None, ours: list[int], theirs: list[int]) -> bool:
        """Whether two actions are one but for what they are given."""
        keys = self.table.keys
        if want is None or got is None or want in theirs or got in ours:
            return False
        return bool(keys[want][0] == keys[got][0] == "act" and keys[want][1][:-2] == keys[got][1][:-2])

    def event(self, want: int | None, got: int | None, ours: list[int], theirs: list[int]) -> str:
        keys = self.table.keys
        if want is None:
            assert got is not None
            return f"{self.name(got)} is {self.verb(got)} by the target, not by the source"
        first = self.name(want)
        if got is None:
            return f"{first} of the source is not {self.verb(want)} by the target"
        second = self.name(got)
        if keys[want][:2] == keys[got][:2]:
            return f"{second} has another place than in the source: {first}"
        if want in theirs:
            when = "later" if got in ours else "not at all there"
            return f"{second} is {self.verb(got)} before {first}; by the source {when}"
        if got in ours:
            return f"{first} of the source is not {self.verb(want)} by the target before {second}"
        if self.other_operands(want, got, ours, theirs):
            return f"{second} is given other operands than {first} of the source"
        return f"{second} is {self.verb(got)} by the target where the source has {first}"

    def name(self, event: int) -> str:
        can = ", which can fail," if self.table.keys[event][0] == "fail" else ""
        return node_title(self.nodes[event]) + can

    def verb(self, event: int) -> str:
        return {"fail": "demanded", "act": "done", "branch": "decided"}[self.table.keys[event][0]]
