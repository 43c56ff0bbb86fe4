"""Which elements an access touches: bounds, definite initialisation, independence (specs/interp.md, "Vector").

All three are shown from the affine forms of indices and the ranges of loop variables, before anything runs. What is
not shown is checked on the run, or not vectorised: nothing is believed because a loop calls itself parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.interp.vector.blocks import Bind, Block, Blocks, Fresh, Item, Loop, Write, expressions, inner, walk
from assay.semantics.integers.affine import Affine, Ranges, affine
from assay.semantics.scalar import Load, Var
from assay.semantics.tensor import Buffer, loads

MOST_PAIRS = 40_000
MOST_BOXES = 64
MOST_OPEN = 16
"""So many pairs of accesses in one loop are asked about at most."""


@dataclass(eq=False)
class VectorAccess:
    """A load or a write: its index forms, one for each dimension (None where not affine), and what was shown of it."""

    node: Load | Write
    buffer: Buffer
    forms: tuple[Affine | None, ...]
    write: bool
    inside: bool
    """Whether it is shown to stay within bounds."""
    ready: bool = False
    """Whether what it reads is shown to have been written."""


@dataclass(frozen=True)
class IndexBox:
    """Consecutive elements in each dimension: the first one's index, and how many."""

    starts: tuple[Affine, ...]
    lengths: tuple[int, ...]

    def contains(self, forms: Sequence[Affine | None], ranges: Ranges) -> bool:
        """Whether indices of these forms lie in the box for all values of the loop variables; False where that is
        not shown."""
        for form, start, length in zip(forms, self.starts, self.lengths, strict=True):
            inside = None if form is None else form.plus(start, -1).interval(ranges)
            if inside is None or inside[0] < 0 or inside[1] >= length:
                return False
        return True

    def over(self, var: Var, trip: int) -> IndexBox | None:
        """What is touched when `var` runs from 0 below `trip`: a box again, or None where that is not shown."""
        using = [d for d, s in enumerate(self.starts) if var in s.variables]
        if not using:
            return self
        factor = self.starts[using[0]].terms.get(var, 0)
        rest = self.starts[using[0]].without(var)
        if len(using) > 1 or var in rest.variables or not 0 < abs(factor) <= self.lengths[using[0]]:
            return None
        first = rest.plus(Affine({}, min(0, factor * (trip - 1))))
        return self.replaced(using[0], first, abs(factor) * (trip - 1) + self.lengths[using[0]])

    def joined(self, other: IndexBox) -> IndexBox | None:
        """One box for both, where they differ in one dimension and touch or overlap in it."""
        apart = [
            d
            for d in range(len(self.starts))
            if self.lengths[d] != other.lengths[d] or self.starts[d] != other.starts[d]
        ]
        if not apart:
            return self
        if len(apart) > 1:
            return None
        d = apart[0]
        gap = other.starts[d].plus(self.starts[d], -1)
        if gap.terms or not -other.lengths[d] <= gap.constant <= self.lengths[d]:
            return None
        low, high = min(0, gap.constant), max(self.lengths[d], gap.constant + other.lengths[d])
        return self.replaced(d, self.starts[d].plus(Affine({}, low)), high - low)

    def replaced(self, axis: int, start: Affine, length: int) -> IndexBox:
        """The same box with another start and length in dimension `axis`."""
        starts, lengths = list(self.starts), list(self.lengths)
        starts[axis], lengths[axis] = start, length
        return IndexBox(tuple(starts), tuple(lengths))

    def is_whole(self, shape: Sequence[int]) -> bool:
        """Whether it is all of a buffer of that shape."""
        return all(
            not s.terms and s.constant <= 0 and n <= s.constant + m
            for n, m, s in zip(shape, self.lengths, self.starts, strict=True)
        )


State: TypeAlias = dict[Buffer, tuple[IndexBox, ...]]


@dataclass(eq=False)
class Regions:
    """What is shown about the accesses of a function. `accesses` is by identity of the load or write."""

    accesses: dict[int, VectorAccess] = field(default_factory=dict)
    shadowed: set[Buffer] = field(default_factory=set)
    """Buffers of which the run must remember what was written."""


Decider: TypeAlias = Callable[[VectorAccess, VectorAccess, Loop], bool]
"""Whether two accesses, one of them a write, are shown not to touch one element in different iterations of a loop."""


def analyse(blocks: Blocks, ask: Decider | None = None) -> Regions:
    """The accesses of a function, what is shown to be in bounds, to have been written, and to be independent.

    `ask` decides about two accesses in a loop where their affine forms do not; without it they are taken to meet.
    """
    found = Regions()
    read_only = {*blocks.inputs, *blocks.constants}
    for item in walk(blocks.body):
        for access in _accesses(item, blocks.ranges):
            access.ready = access.buffer in read_only
            found.accesses[id(access.node)] = access
    state: State = {b: () for b in blocks.outputs}
    _cover(blocks.body, state, found, blocks.ranges)
    for access in found.accesses.values():
        if not access.write and not access.ready:
            found.shadowed.add(access.buffer)
    for b in blocks.outputs:
        if 0 not in b.static_shape and not any(box.is_whole(b.static_shape) for box in state[b]):
            found.shadowed.add(b)
    for item in walk(blocks.body):
        if isinstance(item, Loop):
            item.independent = independent(item, found, blocks.ranges, ask)
    return found


def _accesses(item: Item, ranges: Ranges) -> Iterable[VectorAccess]:
    nodes: list[Load | Write] = [n for e in expressions(item) for n in loads(e)]
    if isinstance(item, Write):
        nodes.append(item)
    for node in nodes:
        forms = tuple(affine(i, ranges) for i in node.indices)
        within = [f.interval(ranges) if f is not None else None for f in forms]
        shape = node.buffer.static_shape
        inside = all(w is not None and 0 <= w[0] and w[1] < n for w, n in zip(within, shape, strict=True))
        yield VectorAccess(node, node.buffer, forms, isinstance(node, Write), inside)


# --- definite initialisation -------------------------------------------------------------------------------------


def _cover(block: Block, state: State, found: Regions, ranges: Ranges) -> None:
    """Follow `block` in its order: mark the loads of what was written for sure, and add to `state` what it writes."""
    for item in block:
        for expr in expressions(item):
            for load in loads(expr):
                access = found.accesses[id(load)]
                if not access.ready:
                    access.ready = any(b.contains(access.forms, ranges) for b in state.get(load.buffer, ()))
        match item:
            case Fresh():
                state[item.buffer] = ()
            case Write():
                forms = [f for f in found.accesses[id(item)].forms if f is not None]
                if len(forms) == len(item.indices):
                    box = IndexBox(tuple(forms), (1,) * len(forms))
                    state[item.buffer] = _with(state.get(item.buffer, ()), box)
            case _:
                after = []
                for part in inner(item):
                    within = dict(state)
                    _cover(part, within, found, ranges)
                    after.append(within)
                if isinstance(item, Loop) and item.trip:
                    _leave(item, item.trip, after[0], state)
                elif len(after) == 2:
                    for b in state:
                        for box in after[0].get(b, ()):
                            if box in after[1].get(b, ()) and box not in state[b]:
                                state[b] = _with(state[b], box)


def _leave(loop: Loop, trip: int, after: State, state: State) -> None:
    """Add what all iterations together write, where that is boxes again."""
    for b in state:
        before = set(state[b])
        for box in after.get(b, ()):
            if box not in before:
                whole = box.over(loop.var, trip)
                if whole is not None:
                    state[b] = _with(state[b], whole)


def _with(boxes: tuple[IndexBox, ...], new: IndexBox) -> tuple[IndexBox, ...]:
    """The boxes and another one, joined where they touch."""
    left = list(boxes)
    k = 0
    while k < len(left):
        whole = left[k].joined(new)
        if whole is None:
            k += 1
        else:
            del left[k]
            new, k = whole, 0
    return (*left[-MOST_BOXES:], new)


# --- independence ------------------------------------------------------------------------------------------------


def independent(loop: Loop, found: Regions, ranges: Ranges, ask: Decider | None = None) -> bool:
    """Whether no two iterations of the loop touch a common element that one of them writes.

    Buffers that begin inside the loop are each iteration's own.
    """
    items = list(walk(loop.body))
    own = {i.buffer for i in items if isinstance(i, Fresh)}
    bound = {i.var for i in items if isinstance(i, (Loop, Bind))} | {loop.var}
    nodes: list[Load | Write] = [n for i in items for e in expressions(i) for n in loads(e)]
    nodes += [i for i in items if isinstance(i, Write)]
    by_buffer: dict[Buffer, dict[tuple[object, ...], list[VectorAccess]]] = {}
    for node in nodes:
        a = found.accesses[id(node)]
        if a.buffer not in own:
            by_buffer.setdefault(a.buffer, {}).setdefault((a.forms, a.write), []).append(a)
    open_pairs: list[tuple[VectorAccess, VectorAccess]] = []
    for group in by_buffer.values():
        writes = [same for same in group.values() if same[0].write]
        if len(writes) * len(group) > MOST_PAIRS:
            return False
        for w in writes:
            for others in group.values():
                if not _apart(w[0], others[0], loop.var, bound, ranges):
                    # what guards them may differ, so each is a question of its own
                    open_pairs += [(x, y) for x in w for y in others if not (y.write and _before(y, x, w, others))]
                    if ask is None or len(open_pairs) > MOST_OPEN:
                        return False
    return all(ask is not None and ask(x, y, loop) for x, y in open_pairs)


def _before(y: VectorAccess, x: VectorAccess, w: list[VectorAccess], others: list[VectorAccess]) -> bool:
    """Whether the pair of two writes was taken in the other order already."""
    return w is others and others.index(y) < w.index(x)


def _apart(a: VectorAccess, b: VectorAccess, var: Var, bound: set[Var], ranges: Ranges) -> bool:
    """Whether `a` in one iteration and `b` in another never touch one element: some dimension tells them apart."""
    return any(
        f is not None and g is not None and _differ(f, g, var, bound, ranges)
        for f, g in zip(a.forms, b.forms, strict=True)
    )


def _differ(f: Affine, g: Affine, var: Var, bound: set[Var], ranges: Ranges) -> bool:
    """Whether two indices differ whenever `var` does; variables bound in the loop differ between iterations."""
    outer_f = {a: k for a, k in f.terms.items() if not Affine({a: 1}).variables & bound}
    outer_g = {a: k for a, k in g.terms.items() if not Affine({a: 1}).variables & bound}
    if outer_f != outer_g:
        return False
    f = Affine({a: k for a, k in f.terms.items() if a not in outer_f}, f.constant)
    g = Affine({a: k for a, k in g.terms.items() if a not in outer_g}, g.constant)
    x, y = f.interval(ranges), g.interval(ranges)
    if x is not None and y is not None and (x[1] < y[0] or y[1] < x[0]):
        return True
    factor = f.terms.get(var, 0)
    if factor == 0 or factor != g.terms.get(var, 0):
        return False
    x, y = f.without(var).interval(ranges), g.without(var).interval(ranges)
    return x is not None and y is not None and max(x[1] - y[0], y[1] - x[0]) < abs(factor)
