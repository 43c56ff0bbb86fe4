"""Counters: elements that loops add at most 1 to in each iteration (specs/verify.md, "Proofs for all sizes").

A kernel that collects what it finds writes to the place that it has counted to. That a counter is no more than the
iterations before is known of every load of it in the nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import z3

from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, variables
from assay.semantics.scalar.smt import Term
from assay.semantics.tensor import Buffer
from assay.semantics.walk import post_order
from assay.verify.symbolic.events import (
    AccessEvent,
    Again,
    EventScope,
    FunctionEvents,
    Guard,
    Life,
    Loop,
    Site,
    scope_chain,
)


@dataclass(frozen=True)
class Counter:
    """An element of a buffer that is `initial`, and that a step, inside of serial loops and of nothing that repeats
    besides, adds 0 or 1 to; nothing else writes it."""

    indices: tuple[int, ...]
    initial: int
    step: AccessEvent
    loops: tuple[Loop, ...]

    def known(self, value: Term, node: Load, site: Site, at: Callable[[Loop], tuple[Term, Term, Term] | None]) -> Term:
        """What holds of a load of it at a site, `at` gives the start, the extent and the variable of a loop around;
        true where nothing does. It is satisfiable whatever these are."""
        places = [at(loop) for loop in self.loops]
        if element_named(node.indices) != self.indices or any(p is None for p in places):
            return z3.BoolVal(True)
        before = z3.IntVal(0)
        inside = []
        for start, extent, v in (p for p in places if p is not None):
            before = before * extent + (v - start)
            inside += [start <= v, v < start + extent]
        if self.step.order < 2 * site.number:  # this iteration's is done
            before = before + 1
        fits = self.initial + before <= int(node.dtype.max)
        return z3.Implies(z3.And(*inside, fits), z3.And(self.initial <= value, value <= self.initial + before))


def counters_of(events: FunctionEvents, sizes: Sequence[Var]) -> dict[Buffer, Counter]:
    """The counters of a function by their buffers; `sizes` are symbols that have one value in a run. None where
    something of the function is not understood."""
    if events.strange:
        return {}
    seen = {b for w in events.windows for b in (w.view.source, w.view.buffer)}
    stores: dict[Buffer, list[AccessEvent]] = {}
    for a in events.accesses:
        if a.write:
            stores.setdefault(a.buffer, []).append(a)
    found = {}
    for buffer, writes in stores.items():
        made = _counter(buffer, writes, set(sizes)) if buffer not in seen and len(writes) == 2 else None
        if made is not None and _begins_once(buffer, events.lives):
            found[buffer] = made
    return found


def _counter(buffer: Buffer, writes: Sequence[AccessEvent], sizes: set[Var]) -> Counter | None:
    first, step = sorted(writes, key=lambda a: a.order)
    indices, start = element_named(first.indices), _value(first)
    chain = scope_chain(step.site.frame)
    loops = tuple(f for f in chain if isinstance(f, Loop))
    if (
        indices is None
        or element_named(step.indices) != indices
        or not isinstance(start, Const)
        or not buffer.dtype.is_integer
        or _repeats_or_chooses(first.site.frame)
        or not loops
        or first.site.number > loops[0].site.number
        or any(isinstance(f, Again) for f in chain)
        or not all(_is_plain(loop, sizes) for loop in loops)
        or not _is_step(_value(step), buffer, indices)
    ):
        return None
    return Counter(indices, int(start.value), step, loops)


def _value(store: AccessEvent) -> Expr:
    """What a store writes: it is the last of its site's expressions."""
    return store.site.roots[-1]


def element_named(indices: Sequence[Expr]) -> tuple[int, ...] | None:
    """The element that indices name, if they are numbers."""
    found = [int(i.value) for i in indices if isinstance(i, Const)]
    return tuple(found) if len(found) == len(indices) else None


def _begins_once(buffer: Buffer, lives: Sequence[Life]) -> bool:
    """Whether a buffer is one memory in the whole run: a parameter, or begun at one place outside of loops."""
    begun = [life for life in lives if life.buffer is buffer]
    return not begun or (len(begun) == 1 and not _repeats_or_chooses(begun[0].parent))


def _repeats_or_chooses(frame: EventScope | None) -> bool:
    return any(isinstance(f, Loop | Again | Guard) for f in scope_chain(frame))


def _is_plain(loop: Loop, sizes: set[Var]) -> bool:
    """Whether a loop runs one iteration after another, as often whenever it runs."""
    ends = loop.stmt.expressions
    fixed = all(v in sizes for e in ends for v in variables(e))
    reads = any(isinstance(n, Load) for e in ends for n in post_order(e))
    return loop.stmt.kind in ("serial", "unrolled") and fixed and not reads


def _is_step(value: Expr, buffer: Buffer, indices: tuple[int, ...]) -> bool:
    """Whether a value is what the element holds and 0 or 1."""
    if not isinstance(value, Apply) or value.op != "add":
        return False
    a, b = value.args
    return any(
        isinstance(own, Load)
        and own.buffer is buffer
        and element_named(own.indices) == indices
        and _is_one_or_none(more)
        for own, more in ((a, b), (b, a))
    )


def _is_one_or_none(value: Expr) -> bool:
    match value:
        case Const():
            return not value.dtype.is_float and int(value.value) in (0, 1)
        case Cast(arg=of):
            return of.dtype is BOOL and value.dtype.is_integer
        case (
            Choice(then=Const() as a, otherwise=Const() as b) | Apply(op="select", args=(_, Const() as a, Const() as b))
        ):
            return _is_one_or_none(a) and _is_one_or_none(b)
        case _:
            return False
