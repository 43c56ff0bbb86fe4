"""The phases of a tensor function: when it uses which memory (specs/semantics.md, "Memory planning").

The places of a function are its statements as `program_order` gives them; a statement's own expressions are read, and
its store made, at its place. Places next to one another are one phase, unless that would have a buffer live beside
another with which it never is. A kernel that is one nest of loops has one phase.

    for i: t[i] = x[i]        phase 0: x and t
    for i: y[i] = t[i]        phase 1: t and y; x is no longer needed, and y may lie where x was
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from assay.semantics import tensor
from assay.semantics.live_positions import TOP, BranchRange, Intervals, LivePositions, UseRange, union
from assay.semantics.tensor import INDEPENDENT
from assay.semantics.walk import Worklist


@dataclass(frozen=True)
class Phases:
    """How many phases there are, and for each parameter and allocation those in which it is live within one run.

    `uses`: some use may have come and one may be to come, or is right here. `before`: one may be to come; `after`: one
    may have come (both for whoever knows of uses outside). `starts` are the first places of the phases.
    """

    count: int
    uses: Mapping[tensor.Buffer, Intervals]
    before: Mapping[tensor.Buffer, Intervals]
    after: Mapping[tensor.Buffer, Intervals]
    starts: tuple[int, ...]

    def at(self, place: int) -> int:
        """The phase of the statement that is number `place` of `program_order`."""
        return bisect_right(self.starts, place) - 1


_known: WeakKeyDictionary[tensor.PrimFunc, Phases] = WeakKeyDictionary()


def phases(func: tensor.PrimFunc) -> Phases:
    """The phases of a function, whose calls and blocks may be left in.

    - A use inside a loop of what exists outside of it is a use all over the loop.
    - What begins inside a serial loop is new in every iteration. What is touched inside a parallel or vectorized loop
      is live all over the outermost such loop: iterations may run in any order, side by side.
    - The arms of an `If` exclude each other.
    - A use of a view is a use of the memory that it is a view of; a call uses all that it is given.
    - An allocation that is not used is live where it begins, a parameter that is not used at the start: they are handed
      over. `AllocateConst` is not memory that is planned.
    """
    found = _known.get(func)
    if found is None:
        found = _known[func] = _Reading(func).run()
    return found


@dataclass
class _Loop:
    """A loop around what is being read; its range, whose end is known when it has been read, and the arm around it."""

    start: int
    arm: int
    stop: int = 0


@dataclass
class _Touch:
    """A use of a buffer: in a loop, if there is one within the buffer's scope, else at a place."""

    place: int
    arm: int
    loop: _Loop | None


class _Reading:
    """One pass over the text."""

    def __init__(self, func: tensor.PrimFunc) -> None:
        self.func = func
        self.place = 0
        self.arm = TOP
        self.loops: list[_Loop] = []
        self.parallel: int | None = None
        """How many loops are around the outermost parallel one."""
        self.choices: list[BranchRange] = []
        self.touches: dict[tensor.Buffer, list[list[_Touch]]] = {b: [[]] for b in func.params}
        """Of each buffer, for each place where it begins."""
        self.depth: dict[tensor.Buffer, int] = dict.fromkeys(func.params, 0)
        """How many loops each use of it is inside of that make a new one in each iteration."""
        self.memory: dict[tensor.Buffer, tensor.Buffer] = {}
        """What a view is a view of."""

    def run(self) -> Phases:
        work = Worklist[tensor.Stmt | Callable[[], None]]([self.func.body])
        for item in work:
            if isinstance(item, tensor.Stmt):
                work.add(self.enter(item))
            else:
                item()
        for b in self.func.params:
            if not self.touches[b][0]:
                self.touches[b][0].append(_Touch(0, TOP, None))
        paths = LivePositions(self.place, self.choices)
        uses = {b: [[_use(t) for t in one] for one in parts] for b, parts in self.touches.items()}
        live = {b: union(i for one in parts for i in paths.live(one)) for b, parts in uses.items()}
        before = {b: paths.before(uses[b][0]) for b in self.func.params}
        after = {b: paths.after(uses[b][0]) for b in self.func.params}
        # an input holds something before: when it is first read here does not matter
        seen = [*before.values(), *(after[b] for b in self.func.outputs), *(live[b] for b in uses if b not in before)]
        starts = _cuts(seen)

        def merged(lives: Mapping[tensor.Buffer, Intervals]) -> dict[tensor.Buffer, Intervals]:
            return {
                b: union((bisect_right(starts, i) - 1, bisect_right(starts, j - 1)) for i, j in life)
                for b, life in lives.items()
            }

        return Phases(len(starts), merged(live), merged(before), merged(after), starts)

    def enter(self, stmt: tensor.Stmt) -> Iterator[tensor.Stmt | Callable[[], None]]:
        """What is to be done, in order, after the statement itself has its place: its parts, and what ends them."""
        match stmt:
            case tensor.While():
                self.open_loop(self.place, False)
            case tensor.Alias():
                self.memory[stmt.view.buffer] = stmt.view.source
            case tensor.Block():
                self.memory.update((v.buffer, v.source) for v in stmt.views)
        own = tensor.allocated(stmt)
        for b in own:
            self.touches.setdefault(b, []).append([])
            self.depth[b] = len(self.loops) if self.parallel is None else self.parallel
        for b in _touched(stmt):
            self.touch(b)
        place = self.place
        self.place += 1
        match stmt:
            case tensor.For():
                self.open_loop(self.place, stmt.kind in INDEPENDENT)
                yield stmt.body
                yield self.close_loop
            case tensor.While():
                yield stmt.body
                yield self.close_loop
            case tensor.If():
                yield from self.arms(stmt)
            case _:
                yield from stmt.children
        if own:
            yield lambda: self.end(own, place)

    def open_loop(self, start: int, parallel: bool) -> None:
        if parallel and self.parallel is None:
            self.parallel = len(self.loops)
        self.loops.append(_Loop(start, self.arm))

    def close_loop(self) -> None:
        self.loops.pop().stop = self.place
        if self.parallel == len(self.loops):
            self.parallel = None

    def arms(self, stmt: tensor.If) -> Iterator[tensor.Stmt | Callable[[], None]]:
        number, start, outer = len(self.choices), self.place, self.arm
        self.choices.append(BranchRange(start, start, start, outer))
        middle = start
        self.arm = 2 * number

        def second() -> None:
            nonlocal middle
            middle = self.place
            self.arm = 2 * number + 1

        def done() -> None:
            self.choices[number] = BranchRange(start, middle, self.place, outer)
            self.arm = outer

        yield stmt.then
        yield second
        if stmt.otherwise is not None:
            yield stmt.otherwise
        yield done

    def touch(self, buffer: tensor.Buffer) -> None:
        while buffer in self.memory:
            buffer = self.memory[buffer]
        if buffer not in self.touches:
            return
        depth, found = self.depth[buffer], self.touches[buffer][-1]
        loop = self.loops[depth] if depth < len(self.loops) else None
        if found and (found[-1].loop is loop if loop is not None else found[-1].place == self.place):
            return
        found.append(_Touch(self.place, self.arm, loop))

    def end(self, buffers: tuple[tensor.Buffer, ...], place: int) -> None:
        for b in buffers:
            if not self.touches[b][-1]:
                here, self.place = self.place, place
                self.touch(b)
                self.place = here


def _touched(stmt: tensor.Stmt) -> Iterator[tensor.Buffer]:
    """The buffers of which a statement itself uses an element or, as a call, who knows what."""
    for e in stmt.expressions:
        yield from (n.buffer for n in tensor.loads(e))
    match stmt:
        case tensor.Store():
            yield stmt.buffer
        case tensor.Block():
            for e in stmt.inner_expressions:
                yield from (n.buffer for n in tensor.loads(e))
        case tensor.Call():
            yield from stmt.buffers
            if stmt.result is not None:
                yield from (n.buffer for n in tensor.loads(stmt.result))


def _use(touch: _Touch) -> UseRange:
    if touch.loop is None:
        return UseRange(touch.place, touch.place + 1, touch.arm)
    return UseRange(touch.loop.start, touch.loop.stop, touch.loop.arm)


def _cuts(lives: list[Intervals]) -> tuple[int, ...]:
    """The first places of the phases. Somewhere in each phase all is live that is live anywhere in it: in a phase,
    nothing begins after something has ended."""
    starts: set[int] = {start for life in lives for start, _ in life}
    ends: set[int] = {stop for life in lives for _, stop in life}
    cuts, ended = [0], False
    for place in sorted(starts | ends):
        ended = ended or place in ends
        if place in starts and ended:
            cuts.append(place)
            ended = False
    return tuple(cuts)
