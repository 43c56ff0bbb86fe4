"""What a report says, as plain data (specs/verify.md).

Nothing here knows about HTML. `as_data` gives it as JSON has it: what a report shows can be read by a program too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from assay.semantics.memory import Interval
from assay.verify.app.judgement.judge_json import backend_data
from assay.verify.judge.outcome import BackendVerdict
from assay.verify.judge.pieces import Dataflow

Kind = Literal["input", "output", "constant", "tensor", "scratch"]
"""What a buffer is for. Scratch: an allocation of a tensor function, used by its step only."""


@dataclass(frozen=True)
class StageLine:
    """A line of the table of `assay check`: `how` is the word it says, `holds` None where nothing was shown either
    way."""

    name: str
    did: str
    how: str
    holds: bool | None
    detail: str
    seconds: float
    asked: tuple[tuple[str, str], ...] = ()
    """What a solver was asked for it: what about, and the text, as SMT-LIB. The middle of a very long one is left
    out."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The numbers of the line, as `--json` has them."""
    outcome: str = ""
    """Of one who was judged: the verdict."""


@dataclass(frozen=True)
class GraphNode:
    """A value of the program: its variable, what makes it (a kernel, an operator, a choice), its type, where it comes
    from; and of a kernel whether it is "proved" or "tested", with how, or why it is not proved."""

    name: str
    what: str
    type: str
    span: str
    known: str
    why: str


@dataclass(frozen=True)
class ProgramGraph:
    """The values of `main` in order, after a stage; edges lead from a value to one that is made of it."""

    stage: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class JudgedLine:
    """One who was judged: all that is said of it, and the nodes of the model, where it is one."""

    verdict: BackendVerdict
    flow: Dataflow | None


@dataclass(frozen=True)
class StepLine:
    """A step in execution order: its first position, what it calls, where it runs, the numbers of its buffers, the
    most bytes that are in use during it.

    Of a choice, `arms` are its two runs of steps: those if its condition is true, those if it is not.
    """

    number: int
    position: int
    kernel: str
    span: str
    device: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: tuple[int, ...]
    used: int
    arms: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """A buffer. `pool` is empty where it lies in none: memory of the caller, or the table of constants.

    `live` are positions. `producer` says what fills it; `writers` are the steps that write it, `reader` the last step
    that reads it, `readers` how many do.
    """

    number: int
    name: str
    kind: Kind
    type: str
    nbytes: int
    alignment: int
    pool: str
    offset: int | None
    live: tuple[Interval, ...]
    producer: str
    writers: tuple[int, ...]
    reader: int | None
    readers: int


@dataclass(frozen=True)
class PoolLine:
    """A pool: its bytes (None before a plan), the most bytes live at one position, and the bytes live from each
    position at which they change."""

    name: str
    nbytes: int | None
    limit: int | None
    bound: int
    pressure: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Refutation:
    """What is wrong with a plan: the claim that it breaks, one sentence, and where it does: one buffer or two, bytes of
    a pool, positions. Claims are those of `assay.verify.memory.definition`, and "life": touched while not live."""

    claim: str
    sentence: str
    pool: str
    buffers: tuple[int, ...]
    low: int
    high: int
    positions: Interval


@dataclass(frozen=True)
class CheckReport:
    """One run of `assay check`. Without a program (a stage before it did not hold) the last four are empty."""

    model: str
    seed: int
    stages: tuple[StageLine, ...]
    positions: int = 0
    steps: tuple[StepLine, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    pools: tuple[PoolLine, ...] = ()
    io: int = 0
    """The bytes of the program's inputs and outputs."""
    kills: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    """The buffers that die between two positions, of which the second may come right after the first."""
    refutation: Refutation | None = None
    at: Mapping[str, int] = field(default_factory=dict)
    """Where sizes are symbols: the values of these at which the program is shown; offsets are those that are taken
    there."""
    graph: ProgramGraph | None = None
    judged: tuple[JudgedLine, ...] = ()

    def steps_at(self, positions: Interval) -> str:
        """The steps that have some of these positions, for people."""
        starts = [s.position for s in self.steps]
        first = max(bisect_right(starts, positions[0]) - 1, 0)
        last = max(bisect_left(starts, positions[1]) - 1, first)
        return f"step {first}" if first == last else f"steps {first} to {last}"

    @property
    def failed(self) -> StageLine | None:
        """The line that does not hold."""
        return next((s for s in self.stages if s.holds is False), None)

    def as_data(self) -> dict[str, Any]:
        """The report as plain data, with the name of its format."""
        judged = [backend_data(line.verdict) for line in self.judged]
        return {"format": "assay-report-1", **asdict(replace(self, judged=())), "judged": judged}
