"""How many of the faults `assay.judge` finds on backends that show outputs only, and whether it says where.

for score in scores(read()): print(score)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assay.verify.api.judge import DEFAULT_KINDS, judge
from assay.verify.exits import Exit
from tests.zoo import effects, models
from tests.zoo.faults import Fault, facts
from tests.zoo.faulty import FaultyBackend


@dataclass(frozen=True)
class Score:
    """What was said of one fault: the verdict; of how many nodes the smallest piece is that was called wrong and holds
    the fault's node, 0 where there is none; and how many pieces were called wrong that do not hold it."""

    id: str
    outcome: str
    caught: bool
    nodes: int
    elsewhere: int
    inside: bool
    seconds: float

    @property
    def named(self) -> bool:
        """Whether it was found, and its place too."""
        return self.caught and self.nodes > 0

    def __str__(self) -> str:
        place = f"in {self.nodes} nodes" if self.nodes else "nowhere"
        other = f", {self.elsewhere} other pieces" if self.elsewhere else ""
        inside = ", inside the spread" if self.inside else ""
        return f"{self.id} {self.outcome:12} {place}{other}{inside} ({self.seconds:.1f} s)"


def scores(faults: Iterable[Fault], kinds: Sequence[str] = DEFAULT_KINDS, runs: int = 1) -> Iterator[Score]:
    """Judge a backend with each of the faults, on `runs` sets of inputs of each kind. CPU seconds are those of this
    process."""
    inside = {e.id: e.inside for e in effects.read()}
    for fault in faults:
        began = time.process_time()
        backend = FaultyBackend(effects.BASE, fault)
        verdict = judge(models.model(fault.model), [backend], kinds=kinds, runs=runs).verdicts[0]
        wrong = {p.nodes for s in verdict.samples for p in s.pieces if p.verdict.outcome == "wrong"}
        site = facts(fault.model).named[fault.node]
        holding = [len(p) for p in wrong if f"{site.op_type} {site.name}" in p]
        yield Score(
            fault.id, verdict.outcome, verdict.exit == Exit.WRONG, min(holding, default=0), len(wrong) - len(holding),
            inside[fault.id], time.process_time() - began,
        )  # fmt: skip


def summary(found: Sequence[Score]) -> str:
    """The scores in a line; faults inside the spread of correct runs are counted apart."""
    outside, inside = [s for s in found if not s.inside], [s for s in found if s.inside]
    caught, named = sum(s.caught for s in outside), sum(s.named for s in outside)
    return (
        f"of {len(outside)} faults {caught} were caught, {named} of them with their place; of {len(inside)} inside the "
        f"spread of correct runs {sum(s.caught for s in inside)} and {sum(s.named for s in inside)}; "
        f"{sum(s.elsewhere for s in found)} pieces were called wrong that do not hold the fault; "
        f"{sum(s.seconds for s in found):.0f} CPU seconds"
    )
