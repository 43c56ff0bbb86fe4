"""Every store of a tensor function at given sizes, in order, and which store each load reads (specs/verify.md,
"equivalence").

Where control and indices do not depend on data they are numbers, so the whole run is known but for the data: which
statement writes which element when. An *event* is a statement that makes a value; its *instances* are the times that
it runs, one lane of NumPy arrays each. Nothing here looks at loops for independence: the order is that of the
definition, one iteration after another, and the producer of a load is the last store before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.semantics import tensor
from assay.semantics.errors import Trap
from assay.semantics.scalar import Expr, Interner, Load, Var, const, evaluate, evaluate_dim
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist, depending, post_order
from assay.verify.equivalence.events import Known, TraceEvent, TraceRead
from assay.verify.equivalence.frames import BufferCells, FrameNumbers, LaneFrame
from assay.verify.equivalence.order import Clock, Races, UndecidedTrace

MOST_INSTANCES = 1 << 22
MOST_CELLS = 1 << 27


@dataclass(eq=False)
class Trace:
    """A run but for the data."""

    func: tensor.PrimFunc
    events: list[TraceEvent]
    outputs: tuple[BufferCells, ...]
    instances: int
    clock: Clock
    races: Races


def trace_of(func: tensor.PrimFunc, sizes: Mapping[Var, Any], anywhere: bool = False) -> Trace:
    """The events of `func` at `sizes`, which give its symbolic dims and those scalar parameters that are to be numbers.

    Raises `UndecidedTrace` where control or an index depends on data, or there are too many instances; Trap where the
    function traps for all data. With `anywhere`, a load or a store at an index that depends on data has no places and
    no address: it may be any element, and its value is not known.
    """
    with np.errstate(all="ignore"):
        return _Tracer(func, sizes, anywhere).run()


class _Tracer:
    def __init__(self, func: tensor.PrimFunc, sizes: Mapping[Var, Any], anywhere: bool) -> None:
        self.func = without_blocks(func)
        self.sizes = sizes
        self.anywhere = anywhere
        self.events: list[TraceEvent] = []
        self.used = 0
        self.instances = 0
        self.clock = Clock()
        self.races = Races()
        self.leaves: dict[int, tuple[Expr, list[Expr]]] = {}
        self.known: dict[tuple[int, tuple[bool, ...]], set[int]] = {}

    def run(self) -> Trace:
        dims = {v: int(n) for v, n in self.sizes.items() if v.dtype.is_integer}
        cells: dict[tensor.Buffer, BufferCells] = {}
        for k, b in enumerate(self.func.inputs):
            cells[b] = BufferCells(tuple(evaluate_dim(d, dims) for d in b.shape), number=k)
        for b in self.func.outputs:
            cells[b] = self.begin(b, tuple(evaluate_dim(d, dims) for d in b.shape), 1)
        data = {v: k for k, v in enumerate(self.func.scalars) if v not in self.sizes}
        env = {v: v.dtype.numpy.type(n) for v, n in self.sizes.items()}
        work = Worklist([(self.func.body, LaneFrame(1, env=env, cells=cells, data=data), self.clock.root)])
        for stmt, lanes, group in work:
            if lanes.count:
                work.add(self.statement(stmt, lanes, group))
        outputs = tuple(cells[b] for b in self.func.outputs)
        return Trace(self.func, self.events, outputs, self.instances, self.clock, self.races)

    def begin(self, buffer: tensor.Buffer, shape: tuple[int, ...], lanes: int) -> BufferCells:
        """Fresh memory for each lane."""
        size = int(np.prod(shape, dtype=np.int64))
        first = self.used + (np.arange(lanes, dtype=np.int64) * size if lanes > 1 else 0)
        self.used += size * lanes
        if self.used > MOST_CELLS:
            raise UndecidedTrace(f"more than {MOST_CELLS} elements of memory")
        return BufferCells(shape, first)

    # --- statements ----------------------------------------------------------------------------------------------

    def statement(self, stmt: tensor.Stmt, lanes: LaneFrame, group: int) -> list[tuple[tensor.Stmt, LaneFrame, int]]:
        """What runs inside `stmt`, in order; the events of `stmt` itself are entered."""
        match stmt:
            case tensor.Seq():
                return [(s, lanes, group) for s in stmt.body]
            case tensor.For() if stmt.start is None:
                return self.loop(stmt, lanes, group)
            case tensor.If():
                return self.branch(stmt, lanes, group)
            case tensor.LetStmt():
                if self.is_data(stmt.value, lanes):
                    event = self.event(stmt, stmt.value, lanes, group)
                    lanes = lanes.inside(data={stmt.var: Known(event)})
                else:
                    lanes = lanes.inside(env={stmt.var: self.number(stmt.value, lanes)})
                return [(stmt.body, lanes, group)]
            case tensor.Allocate():
                shape = self.shape(stmt.buffer, lanes)
                cells = {stmt.buffer: self.begin(stmt.buffer, shape, lanes.count)}
                return [(stmt.body, lanes.inside(cells=cells), group)]
            case tensor.AllocateConst():
                cells = {stmt.buffer: BufferCells(stmt.contents.shape, data=stmt.contents)}
                return [(stmt.body, lanes.inside(cells=cells), group)]
            case tensor.Store():
                self.store(stmt, lanes, group)
                return []
            case tensor.Assert():
                if self.is_data(stmt.condition, lanes):
                    self.event(stmt, stmt.condition, lanes, group)
                elif not np.all(self.number(stmt.condition, lanes)):
                    raise self.trap(lanes, Trap(stmt.kind, stmt.message, where=stmt.span, label="tensor.T7"))
                return []
            case tensor.Evaluate():
                if self.is_data(stmt.value, lanes):
                    self.event(stmt, stmt.value, lanes, group)
                else:
                    self.number(stmt.value, lanes)
                return []
            case tensor.While():
                raise UndecidedTrace(f"the loop `while {stmt.condition}` depends on data")
            case _:
                raise UndecidedTrace(f"the statement {type(stmt).__name__} is not evaluated over symbols")

    def loop(self, stmt: tensor.For, lanes: LaneFrame, group: int) -> list[tuple[tensor.Stmt, LaneFrame, int]]:
        if self.is_data(stmt.extent, lanes):
            raise UndecidedTrace(f"the extent {stmt.extent} of the loop over {stmt.var.name} depends on data")
        extent = np.maximum(np.broadcast_to(self.number(stmt.extent, lanes), lanes.count).astype(np.int64), 0)
        total = int(extent.sum())
        if total > MOST_INSTANCES:
            raise UndecidedTrace(f"more than {MOST_INSTANCES} iterations of the loop over {stmt.var.name}")
        parent = np.repeat(np.arange(lanes.count), extent)
        if np.all(extent == extent[0]):
            iteration = np.tile(np.arange(extent[0]), lanes.count)
        else:
            iteration = np.arange(total) - np.repeat(np.cumsum(extent) - extent, extent)
        holds: dict[str, Any] = {"env": {stmt.var: iteration.astype(stmt.var.dtype.numpy)}}
        if stmt.kind in tensor.INDEPENDENT:
            holds["race"] = self.races.enter(stmt, self.used, parent)
        inside = lanes.inside(total, parent, **holds)
        return [(stmt.body, inside, self.clock.loop(group, parent, iteration))]

    def branch(self, stmt: tensor.If, lanes: LaneFrame, group: int) -> list[tuple[tensor.Stmt, LaneFrame, int]]:
        otherwise = [stmt.otherwise] if stmt.otherwise is not None else []
        if self.is_data(stmt.condition, lanes):
            event = self.event(stmt, stmt.condition, lanes, group)
            return [
                (part, lanes.inside(guard=(event, holds)), group)
                for part, holds in zip([stmt.then, *otherwise], (True, False), strict=False)
            ]
        condition = np.broadcast_to(self.number(stmt.condition, lanes), lanes.count)
        out: list[tuple[tensor.Stmt, LaneFrame, int]] = []
        for part, holds in zip([stmt.then, *otherwise], (True, False), strict=False):
            which = np.flatnonzero(condition == holds)
            if len(which) == lanes.count:
                out.append((part, lanes, group))
            elif len(which):
                out.append((part, lanes.inside(len(which), which), self.clock.some(group, which)))
        return out

    # --- events --------------------------------------------------------------------------------------------------

    def store(self, stmt: tensor.Store, lanes: LaneFrame, group: int) -> None:
        cells = lanes.place(stmt.buffer)
        if cells.number >= 0 or cells.data is not None:
            raise self.trap(lanes, Trap("store to constant", f"store to {stmt.buffer.name}", label="tensor.T4"))
        unknown = next((i for i in stmt.indices if self.is_data(i, lanes)), None)
        if unknown is not None and not self.anywhere:
            raise UndecidedTrace(f"a store to {stmt.buffer.name}: the index {unknown} depends on data")
        address = None if unknown is not None else self.address(stmt.buffer, cells, stmt.indices, lanes)
        event = self.event(stmt, stmt.value, lanes, group)
        event.buffer = stmt.buffer
        if address is None:
            loaded = ((n, self.data_nodes(i, lanes)) for i in stmt.indices for n in tensor.loads(i))
            event.reads |= {id(n): self.read(n, data, lanes) for n, data in loaded}
            return
        event.address = np.broadcast_to(address, lanes.count)
        number = Interner()
        own = [number(i) for i in stmt.indices]
        for key, read in event.reads.items():
            if read.buffer is stmt.buffer and read.number < 0 and [number(i) for i in read.indices] == own:
                event.reads[key] = replace(read, own=True)

    def event(self, stmt: tensor.Stmt, value: Expr, lanes: LaneFrame, group: int) -> TraceEvent:
        event = TraceEvent(
            stmt, value, lanes.count, self.instances, self.clock.leaf(group), lanes.guards(), lanes.races()
        )
        self.instances += lanes.count
        if self.instances > MOST_INSTANCES:
            raise UndecidedTrace(f"more than {MOST_INSTANCES} statements are run")
        data = self.data_nodes(value, lanes)
        for node in post_order(value, lambda n: n.children if id(n) in data else ()):
            if id(node) not in data:
                event.concrete[id(node)] = self.number(node, lanes)
            elif isinstance(node, Load):
                event.reads[id(node)] = self.read(node, data, lanes)
            elif isinstance(node, Var):
                known = lanes.known(node)
                assert known is not None
                event.data[node] = known
        self.events.append(event)
        return event

    def read(self, node: Load, data: set[int], lanes: LaneFrame) -> TraceRead:
        cells = lanes.place(node.buffer)
        if any(id(i) in data for i in node.indices):
            if cells.number < 0 and cells.data is None and not self.anywhere:
                raise UndecidedTrace(f"a load of {node.buffer.name}: an index of {node} depends on data")
            return TraceRead(node.buffer, cells.number, None, cells.data, node.indices)
        places = self.address(node.buffer, cells, node.indices, lanes)
        return TraceRead(node.buffer, cells.number, places, cells.data, node.indices)

    def address(self, buffer: tensor.Buffer, cells: BufferCells, indices: Sequence[Expr], lanes: LaneFrame) -> Any:
        """Each lane's address of an element. Traps where it is out of bounds."""
        place: Any = np.int64(0)
        for axis, (i, n) in enumerate(zip(indices, cells.shape, strict=True)):
            at = np.asarray(self.number(i, lanes)).astype(np.int64)
            if at.size and (int(at.min()) < 0 or int(at.max()) >= n):
                bad = int(at.reshape(-1)[np.argmax((at.reshape(-1) < 0) | (at.reshape(-1) >= n))])
                what = f"index {bad} of {buffer.name} is outside [0, {n}) in dimension {axis}"
                raise self.trap(lanes, Trap("out of bounds", what, label="tensor.T2"))
            place = place * n + at
        return cells.first + place if cells.number < 0 and cells.data is None else place

    def trap(self, lanes: LaneFrame, trap: Trap) -> Exception:
        return trap if not lanes.guards() else UndecidedTrace(f"under a condition on data: {trap.message}")

    def shape(self, buffer: tensor.Buffer, lanes: LaneFrame) -> tuple[int, ...]:
        shape = []
        for d in buffer.shape:
            n = np.unique(self.number(d if isinstance(d, Expr) else const(d), lanes))
            if len(n) != 1:
                raise UndecidedTrace(f"the shape of buffer {buffer.name} differs between iterations")
            shape.append(int(n[0]))
        return tuple(shape)

    # --- numbers and data ----------------------------------------------------------------------------------------

    def is_data(self, expr: Expr, lanes: LaneFrame) -> bool:
        return id(expr) in self.data_nodes(expr, lanes)

    def data_nodes(self, expr: Expr, lanes: LaneFrame) -> set[int]:
        """The parts of an expression that depend on data, by identity."""
        if id(expr) not in self.leaves:
            self.leaves[id(expr)] = (expr, [n for n in post_order(expr) if isinstance(n, (Load, Var))])
        leaves = self.leaves[id(expr)][1]
        which = tuple(
            (
                lanes.known(n) is not None
                if isinstance(n, Var)
                else isinstance(n, Load) and lanes.place(n.buffer).data is None
            )
            for n in leaves
        )
        found = self.known.get((id(expr), which))
        if found is None:
            data = {id(n) for n, holds in zip(leaves, which, strict=True) if holds}
            found = self.known[id(expr), which] = depending(expr, lambda n: id(n) in data)
        return found

    def number(self, expr: Expr, lanes: LaneFrame) -> Any:
        """The value of an expression without data in each lane, or one for all."""

        def load(buffer: tensor.Buffer, index: tuple[Any, ...]) -> Any:
            cells = lanes.place(buffer)
            assert cells.data is not None
            for i, n in zip(index, cells.shape, strict=True):
                if np.any((i < 0) | (i >= n)):
                    raise Trap("out of bounds", f"an index of {buffer.name} is outside [0, {n})", label="tensor.T2")
            return cells.data[tuple(index)]

        try:
            return evaluate(expr, FrameNumbers(lanes), load)
        except Trap as trap:
            raise self.trap(lanes, trap) from None
