"""Whether a program's lives are long enough (specs/verify.md, "liveness").

The control flow of the program is built as a graph, in which every statement of a tensor function with phases is a
node. A slot has to be live at a node where a use of it may have come and one may be to come: that one can walk to from
a use, and from which one can walk to a use. Shares no code with the pass. Longer lives are no fault; how much longer
they are is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.semantics.errors import Invalid
from assay.semantics.module import Branch, Continue, Loop, Program, Step
from assay.semantics.scalar import Load
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import Alias, Block, Buffer, Call, For, If, PrimFunc, Stmt, Store, While, allocated
from assay.semantics.tensor.phases import phases
from assay.semantics.walk import post_order, reached
from assay.verify.evidence import Evidence, checked, refuted
from assay.verify.liveness.program import describe_step


@dataclass
class Graph:
    """Nodes by number, in the order of the text: where one goes from each, where one comes from, and its position, if
    it has one."""

    after: list[list[int]] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    position: list[int | None] = field(default_factory=list)

    def node(self, behind: Iterable[int], position: int | None = None) -> int:
        """Add a node after those of `behind`, at a position or at none; gives its number."""
        new = len(self.after)
        self.after.append([])
        self.before.append([])
        self.position.append(position)
        for b in behind:
            self.edge(b, new)
        return new

    def edge(self, a: int, b: int) -> None:
        """Add an edge from a to b."""
        self.after[a].append(b)
        self.before[b].append(a)

    def joined(self, ends: Sequence[int]) -> list[int]:
        """The ends, or one node behind them if they are many."""
        ends = list(dict.fromkeys(ends))
        return ends if len(ends) <= 2 else [self.node(ends)]

    def between(self, uses: Iterable[int], low: int, high: int, begins: Collection[int]) -> set[int]:
        """The nodes from `low` up to `high` on walks among these from a use to a use. A walk that comes to a node of
        `begins` again is about something new."""
        uses = list(uses)
        return _walk(uses, self.after, low, high, begins, ()) & _walk(uses, self.before, low, high, (), begins)


def _walk(
    starts: Iterable[int],
    ways: Sequence[Sequence[int]],
    low: int,
    high: int,
    closed: Collection[int],
    ends: Collection[int],
) -> set[int]:
    """Where one comes to from the starts, between `low` and `high`: not into closed nodes, and on from `ends` no
    more."""
    return {
        *reached(
            starts,
            lambda here: [n for n in ways[here] if low <= n < high and n not in closed] if here not in ends else (),
        )
    }


class ProgramFlow:
    """The graph of a program, and which nodes use which slot."""

    def __init__(self, program: Program, kernels: Mapping[str, PrimFunc]) -> None:
        self.program = program
        self.kernels = kernels
        self.graph = Graph()
        self.uses: dict[str, set[int]] = {name: set() for name in program.slots}
        self.own: dict[str, list[tuple[set[int], int, int]]] = {}
        """Of what a tensor function allocates inside: uses, and the nodes from which and up to which it exists."""
        self.begins: dict[str, set[int]] = {name: set() for name in program.slots}
        """The nodes with which the steps begin that write a slot anew."""
        self.spans: dict[int, tuple[int, int]] = {}
        """Of each node that uses something: the nodes of its step, of which a loop may be a part; of one in a loop of
        the program, those of the outermost loop around."""
        self.loops: list[int] = []
        """The nodes at which the loops around begin."""
        self.count = 0
        entry = self.graph.node(())
        ends = run_task(self.steps(0, len(program.steps), [entry]))
        self.exit = self.graph.node(ends)
        self.spans[self.exit] = self.exit, self.exit + 1
        for name in program.outputs:
            self.use(name, [self.exit], -1)

    def steps(self, low: int, high: int, ends: list[int]) -> Task[list[int]]:
        """Add the steps from `low` to before `high` behind the nodes `ends`; gives the last nodes."""
        i = low
        while i < high:
            step = self.program.steps[i]
            if isinstance(step, Step) and step.phases > 1:
                ends = self.inside(step, i, ends)
                i += 1
                continue
            here = self.graph.node(ends, self.count)
            self.spans[here] = here, here + 1
            self.count += 1
            ends = [here]
            for name in (*step.reads, *step.writes, *step.scratch):
                self.use(name, [here], i)
            for name in (*step.writes, *step.scratch):
                self.begins[name].add(here)
            if isinstance(step, Loop):
                ends = yield self.loop(i, step, here, high)
                i = step.end
            elif isinstance(step, Continue):
                if not self.loops:
                    raise Invalid(f"{describe_step(step, i)} stands in no loop", label="lives.C4")
                self.graph.edge(here, self.loops[-1])
                ends = []
                i += 1
            elif isinstance(step, Branch):
                if not i < step.then <= step.end <= high:
                    raise Invalid(
                        f"{describe_step(step, i)} has arms that reach out of what it stands in", label="lives.C1"
                    )
                then = yield self.steps(i + 1, step.then, [here])
                otherwise = yield self.steps(step.then, step.end, [here])
                ends = self.graph.joined([*then, *otherwise])
                i = step.end
            else:
                i += 1
        return ends

    def loop(self, i: int, step: Loop, here: int, high: int) -> Task[list[int]]:
        """Add the steps of a loop behind the node with which it begins; gives the last nodes."""
        if not i < step.end <= high:
            raise Invalid(f"{describe_step(step, i)} reaches out of what it stands in", label="lives.C1")
        self.loops.append(here)
        ends: list[int] = yield self.steps(i + 1, step.end, [here])
        self.loops.pop()
        if not self.loops:
            span = here, len(self.graph.after)
            self.spans.update((n, span) for n in range(*span))
        return ends

    def inside(self, step: Step, index: int, ends: list[int]) -> list[int]:
        """The nodes of a step with phases: the statements of its tensor function, each in its phase."""
        kernel = self.kernels.get(step.kernel)
        if kernel is None or phases(kernel).count != step.phases:
            raise Invalid(
                f"{describe_step(step, index)} has {step.phases} phases, but its tensor function does not",
                label="lives.C2",
            )
        handed = self.graph.node(ends, self.count)
        text = _Text(kernel, self.graph, self.count)
        ends = run_task(text.wire(kernel.body, [handed]))
        span = handed, len(self.graph.after)
        self.count += step.phases
        names = (*step.reads, *step.writes, *step.scratch)
        for k, (buffer, name) in enumerate(zip((*kernel.params, *kernel.allocations), names, strict=True)):
            used = text.uses.get(buffer, set())
            if k < len(kernel.params):
                used = used or {handed}  # handed over for nothing
                self.use(name, used, index)
                if name in step.writes:
                    self.begins[name].add(handed)
                self.spans.update((n, span) for n in used)
            else:
                self.use(name, (), index)
                low, high = text.scopes[buffer]
                self.own.setdefault(name, []).append((used, low, high))
        return ends

    def use(self, name: str, nodes: Iterable[int], index: int) -> None:
        """Note that nodes use a slot; Invalid (`lives.C3`) if there is no slot of this name."""
        if name not in self.uses:
            where = describe_step(self.program.steps[index], index) if index >= 0 else "the exit"
            raise Invalid(f"{where} uses {name}, which is no slot", label="lives.C3")
        self.uses[name].update(nodes)

    def needed(self, name: str) -> set[int]:
        """The positions at which a slot has to be live."""
        if self.program.slots[name].place in ("input", "constant"):
            return set(range(self.count))  # the next run finds it again
        return {p for n in self.nodes(name) if (p := self.graph.position[n]) is not None}

    def nodes(self, name: str) -> set[int]:
        """The nodes at which a slot has to be live."""
        found: set[int] = set()
        for uses, low, high in self.own.get(name, ()):
            found |= self.graph.between(uses, low, high, {low})
        if self.uses[name]:
            low, high = self.spans[min(self.uses[name])][0], self.spans[max(self.uses[name])][1]
            found |= self.graph.between(self.uses[name], low, high, self.begins[name])
        return found


class _Text:
    """A tensor function as nodes of a graph; `uses` are those that use each buffer."""

    def __init__(self, kernel: PrimFunc, graph: Graph, position: int) -> None:
        self.graph = graph
        self.position = position
        self.phases = phases(kernel)
        self.place = 0
        self.uses: dict[Buffer, set[int]] = {}
        self.scopes: dict[Buffer, tuple[int, int]] = {}
        self.source: dict[Buffer, Buffer] = {}
        self.together = 0
        """How many loops around have iterations side by side."""

    def wire(self, stmt: Stmt, ends: list[int]) -> Task[list[int]]:
        """The nodes of a statement behind `ends`; from which of them one goes on."""
        graph = self.graph
        here = graph.node(ends, self.position + self.phases.at(self.place))
        self.place += 1
        views = [stmt.view] if isinstance(stmt, Alias) else stmt.views if isinstance(stmt, Block) else ()
        self.source.update((v.buffer, v.source) for v in views)
        for b in _buffers(stmt):
            while b in self.source:
                b = self.source[b]
            self.uses.setdefault(b, set()).add(here)
        begun = allocated(stmt)
        side_by_side = isinstance(stmt, For) and stmt.kind in ("parallel", "vectorized")
        self.together += side_by_side
        outer = list(self.scopes) if side_by_side and self.together == 1 else []
        match stmt:
            case For():
                first = len(graph.after)
                ends = yield self.wire(stmt.body, [here])
                for e in ends:
                    graph.edge(e, first)
                ends = graph.joined([here, *ends])
            case While():
                ends = yield self.wire(stmt.body, [here])
                for e in ends:
                    graph.edge(e, here)
                ends = [here]
            case If():
                then = yield self.wire(stmt.then, [here])
                otherwise = [here] if stmt.otherwise is None else (yield self.wire(stmt.otherwise, [here]))
                ends = graph.joined([*then, *otherwise])
            case Block():
                ends = [here]
                if stmt.init is not None:
                    ends = graph.joined([here, *(yield self.wire(stmt.init, [here]))])
                ends = graph.joined([here, *(yield self.wire(stmt.body, ends))])
            case _:
                ends = [here]
                for part in stmt.children:
                    ends = yield self.wire(part, ends)
        self.together -= side_by_side
        for b in begun:
            self.scopes[b] = here, len(graph.after)
            self.uses.setdefault(b, {here})  # handed over for nothing
        if side_by_side and not self.together:  # what begins inside exists in all iterations at once
            known = set(outer)
            self.scopes.update((b, (here, len(graph.after))) for b in list(self.scopes) if b not in known)
        return ends


def _buffers(stmt: Stmt) -> set[Buffer]:
    """What a statement itself loads from or stores to; of a call, all that it is given."""
    values = list(stmt.expressions)
    found: set[Buffer] = set()
    match stmt:
        case Store():
            found.add(stmt.buffer)
        case Call():
            found.update(stmt.buffers)
            values += [] if stmt.result is None else [stmt.result]
        case Block():
            values += stmt.inner_expressions
    return found.union(n.buffer for v in values for n in post_order(v) if isinstance(n, Load))


def check_lives(program: Program, kernels: Mapping[str, PrimFunc]) -> Evidence:
    """Whether every slot is live wherever it has to be. `kernels` are asked for steps that have phases."""
    try:
        flow = ProgramFlow(program, kernels)
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    spare = 0
    for name, slot in program.slots.items():
        if slot.live == ((0, flow.count),) and slot.place in ("input", "constant"):
            continue  # just what is needed
        needed = flow.needed(name)
        declared = {p for start, stop in slot.live for p in range(start, stop)}
        missing = sorted(needed - declared)
        if missing:
            return refuted(
                "checked",
                f"buffer {name} ({slot.producer}) is live in {_shown(slot.live)}, but is between uses at position"
                f" {missing[0]}, {_where(program, missing[0])}",
                claim="life",
                buffers=(name,),
                positions=(missing[0], missing[0] + 1),
            )
        spare += len(declared) - len(needed)
    longer = f"; {spare} positions more than needed" if spare else ""
    return checked(f"every buffer is live wherever it is between its uses{longer}", spare=spare)


def _shown(live: Sequence[tuple[int, int]]) -> str:
    return " and ".join(f"[{start}, {stop})" for start, stop in live) or "nowhere"


def _where(program: Program, position: int) -> str:
    positions = program.positions
    index = next(i for i in range(len(program.steps)) if position < positions[i + 1])
    return f"in {describe_step(program.steps[index], index)}"
