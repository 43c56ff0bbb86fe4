"""Random work and random modules for the tests of the schedule, and a brute force that shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

from assay.lower.schedule.task_graph import TaskGraph
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.graph import Expr, call, function, get, tuple_of, var
from assay.semantics.module import Module, Program
from assay.semantics.types import TensorType


@st.composite
def modules(draw: st.DrawFn, most: int = 8) -> Module:
    """A graph of small calls with sharing: views, tuples, allocations inside, calls that may trap, calls nobody
    reads."""
    x, index = var("x", TensorType((3,), FLOAT32)), var("i", TensorType((2,), INT64))
    values: list[Expr] = [x]
    for _ in range(draw(st.integers(1, most))):
        a = values[-1 - draw(st.integers(0, min(3, len(values) - 1)))]
        b = values[-1 - draw(st.integers(0, min(3, len(values) - 1)))]
        match draw(st.sampled_from(["exp", "join", "split", "view", "softmax", "take"])):
            case "exp":
                values.append(call("exp", a))
            case "join":
                values.append(call("concat", a, b, axis=0))
            case "split" if length(a) > 1:
                parts = call("split", a, sections=(1, length(a) - 1), axis=0)
                values += [get(parts, 0), get(parts, 1)]
            case "view":
                flat = call("reshape", a, shape=(1, length(a)))
                values.append(call("reshape", flat, shape=(length(a),)))
            case "take":
                values.append(call("take", a, index, axis=0))
            case _:
                values.append(call("nn.softmax", a, axis=0))
    results = [v for v in values if draw(st.integers(0, 3)) == 0] or values[-1:]
    return Module({"main": function([x, index], tuple_of(*results))})


def length(expr: Expr) -> int:
    assert isinstance(expr.type, TensorType)
    return expr.type.static_shape[0]


def work(need: list[int], size: list[int], makes: list[list[int]], reads: list[list[int]]) -> TaskGraph:
    """Work from who makes and who reads which tensors; `need` is what a call allocates inside."""
    readers = [[c for c, r in enumerate(reads) if t in r] for t in range(len(size))]
    maker = {t: c for c, made in enumerate(makes) for t in made}
    before = [sorted({maker[t] for t in r}) for r in reads]
    whole = [n + sum(size[t] for t in m) for n, m in zip(need, makes, strict=True)]
    kept = [[t for t in m if readers[t]] for m in makes]
    return TaskGraph(
        [var(f"v{i}", TensorType((), FLOAT32)) for i in range(len(need))], whole, kept, reads, size, readers, before
    )


def random_work(rng: random.Random, calls: int, near: int) -> TaskGraph:
    """Calls that read up to three of the last `near` tensors, and make one or two."""
    need: list[int] = []
    size: list[int] = []
    makes: list[list[int]] = []
    reads: list[list[int]] = []
    for _ in range(calls):
        pool = list(range(len(size)))[-near:]
        reads.append(sorted(rng.sample(pool, min(len(pool), rng.choice([0, 1, 1, 2, 3])))))
        makes.append(list(range(len(size), len(size) + rng.choice([1, 1, 1, 2]))))
        size += [rng.choice([0, 1, 2, 3, 5, 8, 13, 21]) for _ in makes[-1]]
        need.append(rng.choice([0, 0, 0, 4, 10]))
    return work(need, size, makes, reads)


def series_parallel(rng: random.Random, depth: int) -> TaskGraph:
    """A series-parallel graph with a tensor of its own on every edge."""
    need: list[int] = []
    size: list[int] = []
    makes: list[list[int]] = []
    reads: list[list[int]] = []

    def node(sources: list[int]) -> int:
        makes.append([])
        reads.append([])
        need.append(rng.choice([0, 0, 3, 9]))
        for s in sources:
            makes[s].append(len(size))
            reads[-1].append(len(size))
            size.append(rng.choice([0, 1, 2, 3, 5, 8, 13]))
        return len(need) - 1

    def part(source: int, depth: int) -> int:
        if depth == 0 or rng.random() < 0.2:
            return node([source])
        if rng.random() < 0.5:
            return part(part(source, depth - 1), depth - 1)
        return node([part(source, depth - 1) for _ in range(rng.choice([2, 2, 3]))])

    part(node([]), depth)
    return work(need, size, makes, reads)


# --- brute force --------------------------------------------------------------------------------------------------


def least_of_sets(work: TaskGraph) -> int:
    """The least peak over all orders, by the sets of calls that have run: no reduction, no bound, no pruning."""
    count = len(work.need)
    best = {frozenset[int](): 0}
    for _ in range(count):
        following: dict[frozenset[int], int] = {}
        for done, peak in best.items():
            live = sum(work.size[t] for c in done for t in work.makes[c] if not done.issuperset(work.readers[t]))
            for c in range(count):
                if c not in done and done.issuperset(work.before[c]):
                    high = max(peak, live + work.need[c])
                    reached = done | {c}
                    following[reached] = min(high, following.get(reached, high))
        best = following
    return best[frozenset(range(count))]


def least_of_orders(program: Program, ordered: set[str]) -> int:
    """The least peak over all orders of a program's steps, each order laid out in full. The steps of the kernels in
    `ordered` keep their order."""
    steps = program.steps
    work = {s.name for s in program.placed("workspace")}
    waits = [
        {j for j, other in enumerate(steps) if set(other.writes) & set(step.reads)}
        | {j for j in range(i) if steps[j].kernel in ordered and step.kernel in ordered}
        for i, step in enumerate(steps)
    ]

    def orders(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(steps):
            yield done
        for i in range(len(steps)):
            if i not in done and waits[i] <= set(done):
                yield from orders((*done, i))

    def peak(order: tuple[int, ...]) -> int:
        touched = [{*steps[i].reads, *steps[i].writes, *steps[i].scratch} & work for i in order]
        live = [
            {n for n in work if any(n in t for t in touched[: k + 1]) and any(n in t for t in touched[k:])}
            for k in range(len(order))
        ]
        return max((sum(program.slots[n].nbytes for n in names) for names in live), default=0)

    return min(map(peak, orders(())))
