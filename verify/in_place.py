"""Outputs that take the bytes of an input (specs/verify.md, "in_place").

The claim is about one tensor function: no load of the input comes after a store to the same element of the output. The
run itself, every load and store of the two at the given shapes, in order, decides it for all data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.semantics.tensor import Buffer, PrimFunc, Seq, Stmt, Store, loads
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import rewrite
from assay.verify.equivalence.events import Array, TraceEvent
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.trace import Trace, trace_of
from assay.verify.evidence import Evidence, proved, refuted


def check_in_place_kernel(func: PrimFunc, output: int, operand: int) -> Evidence:
    """Whether a run is the same when output number `output` lies in the bytes of input number `operand`.

    Refuted, with the element, where a load may find what a store has left; an index that depends on data may be any. So
    it is, with the reason, where the order of loads and stores depends on data.
    """
    y, x = func.outputs[output], func.inputs[operand]
    what = f"output {y.name} of {func.name} in place of {x.name}"
    if x.dtype is not y.dtype or x.static_shape != y.static_shape and x.nbytes != y.nbytes:
        return refuted("proved", f"{what}: they have other elements")
    try:
        trace = trace_of(_about(without_blocks(func), (x, y)), {}, anywhere=True)
        trace.clock.run()
    except UndecidedTrace as why:
        return refuted("proved", f"{what}: not known, {why}")
    first = np.full(max(1, x.nbytes // max(1, x.dtype.itemsize)), np.iinfo(np.int64).max, np.int64)
    stores = [e for e in trace.events if e.buffer is y]
    elements = [slice(None) if e.address is None else e.address - trace.outputs[output].first for e in stores]
    for s, at in zip(stores, elements, strict=True):
        if isinstance(at, slice):
            first = np.minimum(first, _times(trace, s).min())
        else:
            np.minimum.at(first, at, _times(trace, s))
    reads = [(e, r) for e in trace.events for r in e.reads.values() if r.number == operand]
    for e, read in reads:
        anywhere = read.places is None  # which element depends on data: it may be the one that is stored to first
        places = np.broadcast_to(np.argmin(first) if anywhere else read.places, e.count)
        if (late := _times(trace, e) > first[places]).any():
            which = (
                f"which element {e.stmt} loads depends on data, and one"
                if anywhere
                else f"element {int(places[late][0])}"
            )
            return refuted("proved", f"{what}: {which} is loaded after it has been stored to")
        for number, lanes in e.races:
            for s, at in zip(stores, elements, strict=True):
                for n, of in s.races:
                    if n == number and _meet(lanes, places, of, at, len(first), anywhere or s.address is None):
                        return refuted(
                            "proved", f"{what}: an iteration of a parallel loop loads what another one stores"
                        )
    return proved(f"{what}: {sum(e.count for e, _ in reads)} loads, none after a store to its element")


def _meet(lanes: Array, places: Array, writers: Array, elements: Array | slice, size: int, anywhere: bool) -> bool:
    """Whether one of the lanes loads what another one stores; `anywhere`: each may load, or store, any element."""
    if anywhere:
        return any(bool((lanes != w).any()) for w in np.unique(writers))
    writer = np.full(size, -1, np.int64)
    writer[elements] = writers
    return bool(((writer[places] >= 0) & (writer[places] != lanes)).any())


def _about(func: PrimFunc, buffers: tuple[Buffer, ...]) -> PrimFunc:
    """The function without the statements in which these buffers are not touched: nothing that is left needs them."""
    kept: set[int] = set()
    built: list[Stmt] = []  # so that no identity is used twice

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Seq):
            stmt = replace(stmt, body=tuple(c for c in stmt.body if id(c) in kept))
        touched = [n.buffer for e in stmt.expressions for n in loads(e)]
        touched += [stmt.buffer] if isinstance(stmt, Store) else []
        if any(b in buffers for b in touched) or any(id(c) in kept for c in stmt.children):
            kept.add(id(stmt))
            built.append(stmt)
        return stmt

    body = rewrite(func.body, change)
    return replace(func, body=body if id(body) in kept else Seq(()))


def _times(trace: Trace, event: TraceEvent) -> Array:
    """When each instance of an event runs."""
    return np.broadcast_to(np.asarray(trace.clock.groups[event.leaf].start, np.int64), event.count)
