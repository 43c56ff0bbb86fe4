"""Lanes that go different ways: each statement for all lanes that run it, by index (specs/interp.md, "Vector").

Here lanes are one flat axis. A variable is a vector with a number for each lane (or one number for all); an access
gathers or scatters; a condition keeps the lanes for which it holds; an independent inner loop multiplies the lanes by
its iterations. It is slower than strided views, and takes every program whose lanes were shown independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.interp.binding import Array
from assay.interp.vector.blocks import Bind, Block, Branch, Check, Drop, Fresh, Item, Loop, Repeat, Write
from assay.interp.vector.runtime import At, Site, failing, gather, scatter
from assay.semantics.scalar import Expr, Var, evaluate
from assay.semantics.tensor import Buffer, loads

MOST_LANES = 1 << 18
"""Lanes multiplied by an inner loop, or by the elements of a buffer of their own, run this many at a time."""

NOWHERE: At = ((), ())
Located: TypeAlias = Write | Loop | Branch | Repeat | Bind | Drop | Check
Env: TypeAlias = dict[Var, Any]
"""Values of variables: a vector over the lanes, or a number that all lanes share."""


@dataclass(frozen=True, eq=False)
class Storage:
    """A buffer's elements and which were written; `lead` are hidden variables that say which lane's buffer it is."""

    array: Array
    written: Array | None
    lead: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False)
class Scattered:
    """An item of a planned function that runs here, and the names of what is in force around it."""

    item: Item
    lanes: tuple[Var, ...]
    serial: tuple[Var, ...]
    bound: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    private: Mapping[Buffer, tuple[Var, ...]]

    def __call__(
        self, at: At, sizes: tuple[int, ...], values: Sequence[Any], arrays: Sequence[tuple[Array, Array | None]]
    ) -> None:
        """Runs the item for all lanes: `at` and `sizes` say which these are, `arrays` has each buffer's elements and
        written bits."""
        env: Env = {v: v.dtype.numpy.type(n) for v, n in zip(self.serial, at[0], strict=True)}
        places = [p.reshape(-1) for p in np.indices(sizes)]
        for var, first, place in zip(self.lanes, at[1], places, strict=True):
            env[var] = (place + first).astype(var.dtype.numpy)
        for var, value in zip(self.bound, values, strict=True):
            many = np.size(value) > 1
            env[var] = np.broadcast_to(value, (1, *sizes)).reshape(-1) if many else np.asarray(value).reshape(-1)[0]
        hidden = {v: Var(f"lane of {v.name}") for v in self.lanes}
        env.update((hidden[v], place) for v, place in zip(self.lanes, places, strict=True))
        storages = {
            b: Storage(array, written, tuple(hidden[v] for v in self.private[b]))
            for b, (array, written) in zip(self.buffers, arrays, strict=True)
        }
        run_lanes([self.item], Lanes(env, prod(sizes), (*self.serial, *self.lanes)), storages)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Lanes in force: how many, and what the variables are in each."""

    env: Env
    count: int
    loops: tuple[Var, ...] = ()
    """The loop variables among them, outermost first, for messages."""

    def keep(self, which: Array) -> Lanes:
        """The lanes at places `which`, a lane again for each time that it is named."""
        env = {v: x[which] if isinstance(x, np.ndarray) else x for v, x in self.env.items()}
        return Lanes(env, len(which), self.loops)

    def bind(self, var: Var, value: Any) -> Lanes:
        """These lanes, in which `var` has a value: a number for each lane, or one for all."""
        return Lanes({**self.env, var: value}, self.count, self.loops)

    def enter(self, var: Var, value: Any) -> Lanes:
        """These lanes in an iteration of a loop, or each in one."""
        return Lanes({**self.env, var: value}, self.count, (*self.loops, var))


def run_lanes(block: Block, lanes: Lanes, storages: dict[Buffer, Storage]) -> None:
    """Run a block for all lanes. Blocks are nested no deeper than `assay.interp.vector.blocks` allows."""
    for k, item in enumerate(block):
        match item:
            case Write():
                _write(item, lanes, storages)
            case Loop() if item.independent:
                _multiply(item, lanes, storages)
            case Loop():
                _iterate(item, lanes, storages)
            case Branch():
                _branch(item, lanes, storages)
            case Repeat():
                going = lanes
                while going.count:
                    going = _choose(going, _value(item, item.condition, going, storages), True)
                    if going.count:
                        run_lanes(item.body, going, storages)
            case Bind():
                lanes = lanes.bind(item.var, _value(item, item.value, lanes, storages))
            case Drop():
                _value(item, item.value, lanes, storages)
            case Check():
                holds = _value(item, item.condition, lanes, storages)
                if not np.all(holds):
                    site = LaneSite(None, (), (), (), item.span, lanes)
                    raise failing(site, item.kind, item.message, item.condition, holds, NOWHERE)
            case Fresh():
                storages = dict(storages)
                if item.data is not None:
                    storages[item.buffer] = Storage(np.array(item.data, order="C"), None)
                    continue
                size = item.buffer.nbytes // item.buffer.dtype.itemsize
                part = max(1, MOST_LANES // max(1, size))
                for start in range(0, lanes.count, part):
                    some = (
                        lanes if lanes.count <= part else lanes.keep(np.arange(start, min(lanes.count, start + part)))
                    )
                    _with_buffer(item.buffer, block[k + 1 :], some, storages)
                return


def _with_buffer(buffer: Buffer, rest: Block, lanes: Lanes, storages: dict[Buffer, Storage]) -> None:
    """The rest of a block with a buffer for each lane."""
    shape = (lanes.count, *buffer.static_shape)
    lane = Var("lane")
    own = Storage(np.empty(shape, buffer.dtype.numpy), np.zeros(shape, bool), (lane,))
    run_lanes(rest, lanes.bind(lane, np.arange(lanes.count)), {**storages, buffer: own})


@dataclass(eq=False)
class LaneSite(Site):
    """A place for messages, where lanes are one flat axis."""

    where: Lanes

    def iteration(self, bad: Array, at: At) -> dict[Var, int]:
        """The loop variables' values in the first lane for which `bad` holds."""
        lane = int(np.argmax(bad)) if bad.ndim else 0
        values = ((v, self.where.env[v]) for v in self.where.loops)
        return {v: int(x[lane] if isinstance(x, np.ndarray) else x) for v, x in values}


def _value(item: Located, expr: Expr, lanes: Lanes, storages: Mapping[Buffer, Storage]) -> Any:
    """An expression's value: a vector, or a number that all lanes share. What it means stands in the scalar table."""
    indices = {n.buffer: n.indices for n in loads(expr)}

    def load(buffer: Buffer, index: tuple[Any, ...]) -> Any:
        s = storages[buffer]
        site = LaneSite(buffer, indices[buffer], (), (), item.span, lanes)
        return gather(site, s.array, s.written, NOWHERE, *(lanes.env[v] for v in s.lead), *index)

    return evaluate(expr, lanes.env, load)


def _write(item: Write, lanes: Lanes, storages: Mapping[Buffer, Storage]) -> None:
    s = storages[item.buffer]
    index = [_value(item, i, lanes, storages) for i in item.indices]
    value = _value(item, item.value, lanes, storages)
    site = LaneSite(item.buffer, item.indices, (), (), item.span, lanes)
    scatter(site, s.array, s.written, NOWHERE, value, *(lanes.env[v] for v in s.lead), *index)


def _choose(lanes: Lanes, condition: Any, holds: bool) -> Lanes:
    """The lanes in which the condition is as given."""
    if not isinstance(condition, np.ndarray) or condition.ndim == 0:
        return lanes if bool(condition) == holds else Lanes({}, 0)
    if condition.all() if holds else not condition.any():
        return lanes
    return lanes.keep(np.flatnonzero(condition == holds))


def _branch(item: Branch, lanes: Lanes, storages: dict[Buffer, Storage]) -> None:
    condition = _value(item, item.condition, lanes, storages)
    for part, holds in ((item.then, True), (item.otherwise, False)):
        some = _choose(lanes, condition, holds)
        if part and some.count:
            run_lanes(part, some, storages)


def _extents(item: Loop, lanes: Lanes, storages: Mapping[Buffer, Storage]) -> Array:
    """Each lane's trip count."""
    extent = np.maximum(_value(item, item.extent, lanes, storages), 0)
    return np.broadcast_to(extent, (lanes.count,)).astype(np.int64)


def _iterate(item: Loop, lanes: Lanes, storages: dict[Buffer, Storage]) -> None:
    """A loop whose iterations come one after another; lanes drop out when they are through."""
    extents = _extents(item, lanes, storages)
    for i in range(int(extents.max(initial=0))):
        going = _choose(lanes, extents > i, True)
        run_lanes(item.body, going.enter(item.var, item.var.dtype.numpy.type(i)), storages)


def _multiply(item: Loop, lanes: Lanes, storages: dict[Buffer, Storage]) -> None:
    """An independent loop: a lane for each iteration of each lane, in parts that fit memory."""
    extents = _extents(item, lanes, storages)
    part = max(1, MOST_LANES // max(1, int(extents.max(initial=0))))
    for start in range(0, lanes.count, part):
        counts = extents[start : start + part]
        total = int(counts.sum())
        if total:
            which = np.repeat(np.arange(start, start + len(counts)), counts)
            first = np.repeat(np.cumsum(counts) - counts, counts)
            var = (np.arange(total) - first).astype(item.var.dtype.numpy)
            run_lanes(item.body, lanes.keep(which).enter(item.var, var), storages)
