"""The planning problem of a program: which slots want bytes, and when (specs/lower.md, "liveness")."""

from __future__ import annotations

from collections.abc import Collection

from assay.semantics.errors import Invalid
from assay.semantics.memory import Bounds, BufferInfo, Problem
from assay.semantics.module import Program, Slot
from assay.semantics.scalar import Dim
from assay.semantics.tensor.calls import size_of
from assay.semantics.types import TensorType


def bytes_of(of: TensorType) -> Dim:
    """The bytes of a tensor: a number, or an expression over the symbols in its shape."""
    return size_of(of.shape) * of.dtype.itemsize


def bytes_kept(slot: Slot) -> Dim:
    """The bytes that are kept for a slot."""
    return bytes_of(slot.type) if slot.room is None else slot.room


def problem(program: Program, placed: Collection[str] = (), bounds: Bounds | None = None) -> Problem:
    """The slots of the workspace, and those inputs and outputs that are named in `placed`, in the order of the table.

    Two slots that share a position are in conflict, and no others (`assay.semantics.memory.conflicts`). A slot that
    names a pool goes there. `bounds` are what is known of the symbols in sizes. Invalid: a name of no input or output.
    """
    io = {*program.inputs, *program.outputs}
    wrong = [n for n in placed if n not in io]
    if wrong:
        raise Invalid(
            f"{wrong[0]} is no input or output: what can be placed in the workspace are"
            f" {', '.join(sorted(io)) or 'none'}",
            label="problem.C1",
        )
    wanted = [s for s in program.slots.values() if s.place == "workspace" or s.is_pooled or s.name in placed]
    buffers = tuple(
        BufferInfo(
            s.name,
            bytes_kept(s),
            s.live,
            s.alignment,
            pools=(s.pool,) if s.pool else (),
            offset=None if s.place == "workspace" else s.offset,
            producer=s.producer,
        )
        for s in wanted
        if s.place != "constant"
    )
    return Problem(buffers, program.pools, dict(bounds or {}))
