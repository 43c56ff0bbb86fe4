"""An order of the calls that needs less memory (specs/lower.md, "schedule").

The peak is the most bytes of workspace live at once (`assay.lower.schedule.task_graph`). The calls become blocks that
may as well run in a row, and the blocks segments: a block that all others come before or after parts what is before it
from what is after. Each segment is searched on its own. A reordered `main` has a peak strictly below the given one; its
attribute "schedule" says the peak before and after and a bound that no order is below. Sizes that are symbols count as
the greatest that is declared, else as some number, which the attribute names. Nothing here is trusted: the
order and the peaks are checked afterwards (`assay.verify.schedule`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from assay.lower.passes import split_blocks
from assay.lower.schedule.blocks import Blocks
from assay.lower.schedule.bound import peak_bound
from assay.lower.schedule.improve import improve_order
from assay.lower.schedule.reduce import reduced_blocks
from assay.lower.schedule.search import Outcome, best_order
from assay.lower.schedule.task_graph import TaskGraph, nominal_sizes, peak, profile, task_graph_of
from assay.semantics.alias import bindings
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, Tuple, TupleGetItem, Var, let_chain
from assay.semantics.graph.effects import can_fail
from assay.semantics.module import Module

EFFORT = 6_000_000
"""Steps that the searches of one module may try: ten seconds at most. Half of it is for proving, half for improving."""

MOST_SEARCHED = 20_000
"""A segment that has more blocks keeps its order."""


@dataclass(frozen=True)
class FoundOrder:
    """An order of calls with its peak, and a bound: no order has a lower peak. It is exact if the two are equal."""

    order: list[int]
    before: int
    after: int
    bound: int


def schedule(module: Module, effort: int = EFFORT) -> Module:
    """The module with the calls of `main` in an order of lower peak, where one is found. Values and the order of the
    calls that may trap stay. A `main` that cannot be planned is left as it is, for liveness to refuse."""
    try:
        work = task_graph_of(module)
    except Invalid:
        return module
    found = find_order(work, effort)
    main = module.main
    if found.after < found.before:
        main = reordered(module, [work.vars[i] for i in found.order])
    numbers: dict[str, object] = {"before": found.before, "after": found.after, "bound": found.bound}
    if sizes := nominal_sizes(module.main):
        numbers["sizes"] = {s.name: n for s, n in sizes.items()}
    return module.with_(main=replace(main, attrs={**main.attrs, "schedule": numbers}))


def find_order(work: TaskGraph, effort: int = EFFORT) -> FoundOrder:
    """The best order that is found; the given one where none is better."""
    given = list(range(len(work.vars)))
    before = peak(work, given)
    bound = max((work.need[c] + sum(work.size[t] for t in work.reads[c]) for c in given), default=0)
    if bound >= before:
        return FoundOrder(given, before, before, before)
    segments = _segments(work)
    natural = [sorted(c for g in groups for c in g) for groups in segments]
    index = {c: i for i, calls in enumerate(natural) for c in calls}
    lives = profile(work, [c for calls in natural for c in calls])
    starts, peaks, at = [], [], 0
    for calls in natural:
        starts.append(lives[at][0])
        peaks.append(max(high for _, high in lives[at : at + len(calls)]))
        at += len(calls)
    reduced: dict[int, Blocks] = {}
    for i, groups in enumerate(segments):
        if peaks[i] > bound:

            def is_later(call: int, segment: int = i) -> bool:
                return index[call] > segment

            reduced[i] = reduced_blocks(work, groups, is_later)
            bound = max(bound, peak_bound(reduced[i], starts[i]))
    left, effort = effort // 2, effort - effort // 2
    hard = [i for i in reduced if peaks[i] > bound]
    order_of_work = sorted(hard, key=lambda i: (-peak_bound(reduced[i], starts[i]), i))
    for rest, i in zip(range(len(hard), 0, -1), order_of_work, strict=True):
        puzzle, groups = reduced[i].puzzle(starts[i], starts[i + 1] if i + 1 < len(starts) else 0)
        cap = min(peaks[i], before)
        found = (
            best_order(puzzle, bound, cap, left // min(rest, 2))
            if len(groups) <= MOST_SEARCHED
            else Outcome(None, cap, bound, 0)
        )
        left -= found.spent
        bound = max(bound, found.bound)
        if found.order is not None:
            natural[i] = [c for b in found.order for c in groups[b]]
    order = [c for calls in natural for c in calls]
    order = improve_order(work, min(order, given, key=lambda o: peak(work, o)), bound, effort)
    after = peak(work, order)
    return FoundOrder(order, before, after, bound) if after < before else FoundOrder(given, before, before, bound)


def _segments(work: TaskGraph) -> list[list[list[int]]]:
    """The calls in groups, the groups in segments: every call of a segment comes before every one of the next."""
    blocks = Blocks(work, [[c] for c in range(len(work.vars))])
    blocks.contract()
    order = blocks.sorted()
    place = {b: i for i, b in enumerate(order)}
    end = len(order)
    first = [min((place[s] for s in blocks.succs[b]), default=end) for b in order]
    last = [max((place[p] for p in blocks.preds[b]), default=-1) for b in order]
    open_until = [-1, *accumulate(first, max)]
    open_from = [*accumulate(reversed(last), min)][::-1] + [end]
    found: list[list[list[int]]] = [[]]
    for i, b in enumerate(order):
        found[-1].append(list(blocks.calls[b]))
        if open_until[i] <= i <= open_from[i + 1] and i + 1 < end:
            found.append([])
    return found


def projected(main: Function) -> dict[Var, Expr]:
    """The bindings of `main`. A projection of a tuple that is written out is the name of its field: a call that reads
    one field does not wait for the others."""
    found: dict[Var, Expr] = {}
    tuples: dict[Var, Tuple] = {}
    for v, value in bindings(main):
        if isinstance(value, TupleGetItem) and isinstance(value.value, Var) and value.value in tuples:
            value = tuples[value.value].fields[value.index]
        found[v] = value
        if isinstance(value, Var) and value in tuples:
            tuples[v] = tuples[value]
        elif isinstance(value, Tuple):
            tuples[v] = value
    return found


def reordered(module: Module, order: Sequence[Var]) -> Function:
    """`main` with its calls in another order. Each other binding stands as soon as what it reads is bound, and one that
    may fail behind those before it that may."""
    main = module.main
    values = projected(main)
    failing: tuple[Var, ...] = ()
    place = {v: i for i, v in enumerate(values)}
    waits: dict[Var, int] = {}
    users: dict[Var, list[Var]] = {v: [] for v in values}
    chain: list[tuple[Var, Expr]] = []
    ready: deque[Var] = deque()
    for v, value in values.items():
        fails = can_fail(value, module)
        if not isinstance(value, CallTIR):
            reads = dict.fromkeys(c for c in value.children or (value,) if isinstance(c, Var) and c in values)
            if fails:
                reads |= dict.fromkeys(failing)
            waits[v] = len(reads)
            for r in reads:
                users[r].append(v)
            if not reads:
                ready.append(v)
        failing = (v,) if fails else failing
    for call in (None, *order):
        if call is not None:
            ready.append(call)
        while ready:
            v = ready.popleft()
            chain.append((v, values[v]))
            for user in sorted(users[v], key=place.__getitem__):
                waits[user] -= 1
                if not waits[user]:
                    ready.append(user)
    chained, node = let_chain(main.body)
    lets = {let.var: let for let in chained}
    for v, value in reversed(chain):
        node = lets[v].with_children([value, node])
    return split_blocks(replace(main, body=node))
