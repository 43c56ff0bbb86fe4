"""When z3 is asked whether the iterations of a loop are independent, and what about (specs/interp.md, "Vector").

z3 is loaded when it is first asked: most functions never need it.
"""

from __future__ import annotations

from functools import cached_property

from assay.interp.vector.blocks import Bind, Block, Blocks, Branch, Loop, Place, Repeat, Step, Write, expressions
from assay.interp.vector.regions import VectorAccess
from assay.semantics.scalar import variables
from assay.semantics.tensor import INDEPENDENT, loads
from assay.semantics.walk import Worklist, post_order

WORTH = 4_096
"""A loop whose body runs fewer steps than this is not worth a question, unless the definition would watch it."""
MOST_QUESTIONS = 24
"""For one function."""
MOST_NODES = 2_000
"""Larger indices and guards are not asked about."""
UNKNOWN = 16
"""How often a loop is taken to run whose trip count is not known."""


class Asking:
    """Answers for one function. Called with two accesses, one of which writes, and a loop around both."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.asked = 0

    def __call__(self, a: VectorAccess, b: VectorAccess, loop: Loop) -> bool:
        """Whether it is shown that they never touch one element in different iterations of one run of the loop."""
        if loop.kind not in INDEPENDENT and (loop.most is None or self.work[loop] < WORTH):
            return False
        if self.is_same(a, b, loop) or self.asked >= MOST_QUESTIONS:
            return False
        place, other = self.places[id(a.node)], self.places[id(b.node)]
        roots = [*place[1], *other[1], *(e for s in (*place[0], *other[0]) for e in expressions(s.item))]
        if sum(1 for e in roots for _ in post_order(e)) > MOST_NODES:
            return False
        from assay.interp.vector.disjointness import never_meet

        self.asked += 1
        return never_meet(self.blocks, place, other, loop)

    def is_same(self, a: VectorAccess, b: VectorAccess, loop: Loop) -> bool:
        """Whether every iteration plainly touches the same elements, as a reduction does."""
        around, _ = self.places[id(a.node)]
        inside = around[[s.item for s in around].index(loop) :]
        bound = {s.item.var for s in inside if isinstance(s.item, (Loop, Bind))}
        changing = bound - {s.item.var for s in inside[1:] if isinstance(s.item, Loop) and s.item.trip is not None}
        guards = [s.item.condition for s in inside if isinstance(s.item, Branch)]
        if a.forms != b.forms or any(f is None or f.variables & changing for f in a.forms):
            return False
        return not any(bound.intersection(variables(g)) for g in guards)

    @cached_property
    def found(self) -> tuple[dict[int, Place], dict[Loop, float]]:
        """What is around each access, and how many steps the body of each loop runs, about."""
        places: dict[int, Place] = {}
        work: dict[Loop, float] = {}
        rest = Worklist[tuple[Block, tuple[Step, ...], float]]([(self.blocks.body, (), 1.0)])
        for block, around, times in rest:
            for item in block:
                for e in expressions(item):
                    for load in loads(e):
                        places[id(load)] = around, load.indices
                match item:
                    case Write():
                        places[id(item)] = around, item.indices
                        for s in around:
                            if isinstance(s.item, Loop):
                                work[s.item] = work.get(s.item, 0.0) + times
                    case Bind():
                        around = (*around, Step(item))
                    case Branch():
                        then = item.then, (*around, Step(item)), times
                        rest.add([then, (item.otherwise, (*around, Step(item, False)), times)])
                    case Loop():
                        most = UNKNOWN if item.most is None else item.most
                        rest.add([(item.body, (*around, Step(item)), times * most)])
                    case Repeat():
                        rest.add([(item.body, around, times * UNKNOWN)])
                    case _:
                        pass
        return places, work

    @property
    def places(self) -> dict[int, Place]:
        """For each access, by identity, the place that it stands at."""
        return self.found[0]

    @property
    def work(self) -> dict[Loop, float]:
        """For each loop, how much work it is estimated to do."""
        return self.found[1]
