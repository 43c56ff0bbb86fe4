"""Values of all instances of a trace, wave after wave (specs/verify.md, "equivalence").

A wave is all instances whose operands are there. What a value is, is up to the domain: terms (`Symbols`), or whatever
has its methods, such as the numbers themselves (`tests/verify/oracle/numbers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.errors import Crash, Trap
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var
from assay.semantics.tensor import Assert
from assay.semantics.walk import post_order
from assay.verify.equivalence.events import Known, TraceEvent, TraceRead
from assay.verify.equivalence.symbols import Symbols
from assay.verify.equivalence.terms import MOST_TERMS, Terms
from assay.verify.equivalence.trace import Trace

Array: TypeAlias = np.ndarray[Any, Any]
Words: TypeAlias = Any


@dataclass(eq=False)
class OutputTerms:
    """The terms of each output, in row-major order, and the terms of everything that may trap."""

    outputs: list[Array]
    traps: Array


def outcome(trace: Trace, terms: Terms, first: Sequence[int], scalars: Sequence[int]) -> OutputTerms:
    """Run a trace over terms: `first` are the numbers of the inputs' first elements, `scalars` those of scalar
    parameters."""
    domain = Symbols(terms, first, scalars)
    if terms.count < trace.instances:  # room at once for what the first of two functions needs
        operations = sum(e.count * max(1, len(e.reads)) for e in trace.events)
        terms.reserve(min(operations, MOST_TERMS // 2))
    outputs = evaluate_trace(trace, link(trace), domain)
    for words in outputs:
        domain.memory(words, domain.always)
    return OutputTerms(outputs, np.unique(np.concatenate([np.zeros(0, np.int64), *domain.traps])))


@dataclass(eq=False)
class Links:
    """For each load of memory: the instance that stored what it reads, or -1."""

    producers: dict[tuple[int, int], Array]
    """By event and by identity of the load; the key (event, -1) is what a guarded store overwrites."""
    results: list[Array]
    """For each output: the instance that stored each element last."""


def link(trace: Trace) -> Links:
    """The producer of each load. Traps where what surely is read was not written before."""
    span = trace.clock.run()
    if span != sum(e.count for e in trace.events):
        raise Crash("the clock counts other instances than there are")
    stores = [(e, e.address) for e in trace.events if e.address is not None]
    times = [np.broadcast_to(np.asarray(trace.clock.groups[e.leaf].start, np.int64), e.count) for e, _ in stores]
    keys = np.concatenate([at * span + t for (_, at), t in zip(stores, times, strict=True)] or [np.zeros(0, np.int64)])
    who = np.concatenate([e.first + np.arange(e.count) for e, _ in stores] or [np.zeros(0, np.int64)])
    order = np.argsort(keys)
    keys, who = keys[order], who[order]
    trace.races.check(trace.events, order, keys // max(span, 1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))

    def last(address: Any, time: Any) -> Array:
        """The last store to an address before a time."""
        return own(np.searchsorted(keys, np.asarray(address * span + time).reshape(-1)), address)

    def own(place: Array, address: Any) -> Array:
        before = place - 1
        found = np.where(before >= 0, who[np.maximum(before, 0)], -1) if len(who) else np.full(len(place), -1)
        right = (before >= 0) & (keys[np.maximum(before, 0)] // max(span, 1) == address) if len(keys) else found >= 0
        return np.where(right, found, -1)

    links = Links({}, [])
    done = 0
    for k, e in enumerate(trace.events):
        start = np.asarray(trace.clock.groups[e.leaf].start, np.int64)
        mine: Array | None = None
        if e.address is not None:
            place = rank[done : done + e.count]
            done += e.count
            if e.guards or any(r.own for r in e.reads.values()):
                mine = own(place, e.address)
        if mine is not None and e.guards:
            links.producers[k, -1] = mine
        for key, r in e.reads.items():
            if r.number >= 0 or r.data is not None:
                continue
            found = mine if r.own and mine is not None else last(np.broadcast_to(r.places, e.count), start)
            if not e.guards and (found < 0).any():
                raise Trap(
                    "unwritten read", f"{r.buffer.name} is read before it is written: {e.stmt}", label="tensor.T3"
                )
            links.producers[k, key] = found
    for b, c in zip(trace.func.outputs, trace.outputs, strict=True):
        size = int(np.prod(c.shape, dtype=np.int64))
        final = last(c.first + np.arange(size), span)
        if (final < 0).any():
            raise Trap("unwritten output", f"{b.name} is not written everywhere", label="tensor.T5")
        links.results.append(final)
    return links


def evaluate_trace(trace: Trace, links: Links, domain: Symbols) -> list[Words]:
    """The words of each output, in row-major order."""
    words = np.zeros(trace.instances, np.int64)
    firsts = np.array([e.first for e in trace.events], np.int64)
    steps = [_Steps(k, e, links, domain) for k, e in enumerate(trace.events)]
    for wave in _waves(trace, links):
        bounds = np.searchsorted(firsts, wave, side="right") - 1
        cuts = np.flatnonzero(np.diff(bounds, prepend=-1))
        for start, stop in zip(cuts, [*cuts[1:], len(wave)], strict=True):
            part = wave[start:stop]
            event = trace.events[int(bounds[start])]
            words[part] = steps[int(bounds[start])].run(part - event.first, words)
    return [words[r] for r in links.results]


def _waves(trace: Trace, links: Links) -> Iterator[Array]:
    """All instances, each after those that make what it needs."""
    made: list[Array] = []
    used: list[Array] = []

    def edge(producer: Array, consumer: Array) -> None:
        some = producer >= 0
        if not some.all():
            producer, consumer = producer[some], consumer[some]
        made.append(producer)
        used.append(consumer)

    def known(k: Known, e: TraceEvent) -> None:
        lane = np.arange(e.count) if k.lane is None else k.lane
        edge(k.event.first + lane, e.first + np.arange(e.count))

    for (k, _), producer in links.producers.items():
        e = trace.events[k]
        edge(producer, e.first + np.arange(e.count))
    for e in trace.events:
        for held, _ in e.guards:
            known(held, e)
        for var in {n for n in post_order(e.value) if isinstance(n, Var)}:
            of = e.data.get(var)
            if isinstance(of, Known):
                known(of, e)
    producer = np.concatenate(made or [np.zeros(0, np.int64)])
    consumer = np.concatenate(used or [np.zeros(0, np.int64)])
    waiting = np.bincount(consumer, minlength=trace.instances)
    order = np.argsort(producer)
    consumer = consumer[order]
    begin = np.searchsorted(producer[order], np.arange(trace.instances + 1))
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        yield ready
        start, count = begin[ready], begin[ready + 1] - begin[ready]
        total = int(count.sum())
        place = np.repeat(start - np.cumsum(count) + count, count) + np.arange(total)
        reached = consumer[place]
        np.subtract.at(waiting, reached, 1)
        ready = np.sort(reached[waiting[reached] == 0])
        if len(ready):  # what waited for several of this wave is there several times
            ready = ready[np.append(True, np.diff(ready) > 0)]


class _Steps:
    """One event's value, computed for any of its lanes."""

    def __init__(self, number: int, event: TraceEvent, links: Links, domain: Symbols) -> None:
        self.event, self.domain = event, domain
        self.old = links.producers.get((number, -1))
        self.steps: list[Callable[[list[Words], Array, Array, Words], Words]] = []
        place: dict[int, int] = {}
        inner = set(event.concrete)
        for node in post_order(event.value, lambda n: () if id(n) in inner else n.children):
            args = [place[id(c)] for c in node.children] if id(node) not in inner else []
            place[id(node)] = len(self.steps)
            self.steps.append(self.step(node, args, links.producers.get((number, id(node)))))

    def step(self, node: Expr, args: list[int], producer: Array | None) -> Callable[..., Words]:
        domain, event = self.domain, self.event
        if id(node) in event.concrete:
            value = event.concrete[id(node)]
            if isinstance(node, Const) or np.ndim(value) == 0:
                word = domain.constant(value, node.dtype)
                return lambda values, lanes, words, guards: word
            many = domain.constant(value, node.dtype)
            return lambda values, lanes, words, guards: many[lanes]
        match node:
            case Var():
                of = event.data[node]
                if isinstance(of, int):
                    scalar = domain.scalar(of)
                    return lambda values, lanes, words, guards: scalar
                return lambda values, lanes, words, guards: words[_instance(of, lanes)]
            case Load():
                return self.load(node, args, event.reads[id(node)], producer)
            case Cast():
                source, to = node.arg.dtype, node.dtype
                return lambda values, lanes, words, guards: domain.cast(source, to, values[args[0]], guards)
            case Apply():
                op, of_, result = node.op, node.args[-1].dtype, node.dtype
                return lambda values, lanes, words, guards: domain.apply(
                    op, of_, result, [values[a] for a in args], guards
                )
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")

    def load(self, node: Load, args: list[int], read: TraceRead, producer: Array | None) -> Callable[..., Words]:
        domain = self.domain
        if read.places is None:
            return lambda values, lanes, words, guards: domain.gather(
                read, node.dtype, [values[a] for a in args], guards
            )
        if read.number >= 0:
            places = read.places
            if np.ndim(places) == 0:
                word = domain.element(read.number, places)
                return lambda values, lanes, words, guards: word
            return lambda values, lanes, words, guards: domain.element(read.number, places[lanes])
        assert producer is not None

        def stored(values: list[Words], lanes: Array, words: Array, guards: Words) -> Words:
            made = producer[lanes]
            found = words[np.maximum(made, 0)]
            if self.event.guards:
                found = np.where(made < 0, domain.unwritten, found)
            return domain.memory(found, guards)

        return stored

    def run(self, lanes: Array, words: Array) -> Words:
        domain, event = self.domain, self.event
        guards = domain.always
        for held, holds in event.guards:
            guards = domain.guard(guards, words[_instance(held, lanes)], holds)
        values: list[Words] = []
        for step in self.steps:
            values.append(step(values, lanes, words, guards))
        value = values[-1]
        if isinstance(event.stmt, Assert):
            domain.asserted(value, guards)
        if self.old is not None:
            made = self.old[lanes]
            value = domain.stored(
                guards, value, np.where(made < 0, domain.unwritten, words[np.maximum(made, 0)]), event.value.dtype
            )
        return value


def _instance(of: Known, lanes: Array) -> Array:
    return of.event.first + (lanes if of.lane is None else of.lane[lanes])
