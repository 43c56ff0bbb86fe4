"""Wrong schedules of tensor functions with constants, each as a wrong pass over one product.

Numbers are those of apache/tvm: 10998, 12489, 13605, 13792, 16660 (duplicated, misplaced, unvisited), 12991, 13851
(layout).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.legalize.kernels import build
from assay.lower.loops import schedule
from assay.lower.loops.layout import Layout
from assay.lower.loops.rewriting import loop_named, put
from assay.semantics.dtypes import FLOAT32
from assay.semantics.scalar import Load, const
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    For,
    PrimFunc,
    Stmt,
    Store,
    program_order,
    seq,
)
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.loops import check_loop_schedule
from tests.museum.judges import of_evidence
from tests.museum.planted import PlantedFault

F = FLOAT32
RNG = np.random.default_rng(11)
TRANSPOSED, BLOCKED = Layout((1, 0)), Layout((1, 0), ((1, 4),))


def data(*shape: int) -> np.ndarray[Any, Any]:
    made = RNG.standard_normal(shape).astype("float32")
    made.flags.writeable = False
    return made


def matmul() -> PrimFunc:
    """A product whose second operand is a constant."""
    of = build("matmul", {}, (TensorType((6, 7), F), TensorType((7, 9), F)), TensorType((6, 9), F), "linked")
    a, b, out = of.params
    return replace(of, params=(a, out), body=AllocateConst(b, data(7, 9), of.body, "weight"))


def constants(func: PrimFunc) -> list[AllocateConst]:
    return [s for s in program_order(func.body) if isinstance(s, AllocateConst)]


def replaced(func: PrimFunc, change: Callable[[AllocateConst], Stmt]) -> PrimFunc:
    return replace(func, body=rewrite(func.body, lambda s: change(s) if isinstance(s, AllocateConst) else s))


def loads(func: PrimFunc, name: str, change: Callable[[Load], Load]) -> PrimFunc:
    def statement(s: Stmt) -> Stmt:
        if not isinstance(s, Store):
            return s
        return replace(
            s, value=rewrite(s.value, lambda n: change(n) if isinstance(n, Load) and n.buffer.name == name else n)
        )

    return replace(func, body=rewrite(func.body, statement))


def duplicated(func: PrimFunc) -> PrimFunc:
    """cache_read allocates the constant once more, for the tile's own copy."""
    cached = schedule(func).cache_read("b", "k").func
    (old,) = constants(cached)
    again = replace(old.buffer, name="b_again")
    inside = loop_named(cached, "k")

    def fill(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer.name == "b_tile":
            return replace(
                s,
                value=rewrite(
                    s.value,
                    lambda n: Load(n.dtype, again, n.indices) if isinstance(n, Load) and n.buffer is old.buffer else n,
                ),
            )
        return s

    return put(cached, inside, AllocateConst(again, old.contents, rewrite(inside, fill)))


def misplaced(func: PrimFunc) -> PrimFunc:
    """The constant begins inside the loop that was made around it: each iteration begins it again."""
    made = schedule(func).split("i0", 2).func
    (old,) = constants(made)
    outer = loop_named(made, "i0_o")
    func = replaced(made, lambda s: s.body)
    return put(func, outer, replace(outer, body=AllocateConst(old.buffer, old.contents, outer.body)))


def out_of_scope(func: PrimFunc) -> PrimFunc:
    """The copy into the tile stands before the constant begins."""
    cached = schedule(func).cache_read("b", "i0").func
    (old,) = constants(cached)
    tile = next(s for s in program_order(cached.body) if isinstance(s, Allocate))
    fill, work = tile.body.body[0], tile.body.body[1:]  # type: ignore[attr-defined]
    inner = AllocateConst(old.buffer, old.contents, seq(*work))
    func = replaced(cached, lambda s: s.body)
    return put(func, tile, replace(tile, body=seq(fill, inner)))


def unvisited(func: PrimFunc) -> PrimFunc:
    """The uses get a new buffer, the constant keeps the old one."""
    (old,) = constants(func)
    new = replace(old.buffer)
    return loads(func, "b", lambda n: Load(n.dtype, new, n.indices))


def lost(func: PrimFunc) -> PrimFunc:
    """A rebuild of the tree drops the node: an ordinary allocation, which nobody fills, is in its place."""
    return replaced(func, lambda s: Allocate(s.buffer, s.body))


def data_not_laid(func: PrimFunc) -> PrimFunc:
    """The loads follow the layout, the data do not (the shape allows it)."""
    made = schedule(func).layout("b", TRANSPOSED).func
    (old,) = constants(func)
    return replaced(made, lambda s: replace(s, data=old.contents.reshape(s.contents.shape)))


def loads_not_changed(func: PrimFunc) -> PrimFunc:
    made = schedule(func).layout("b", TRANSPOSED).func
    return loads(made, "b", lambda n: Load(n.dtype, n.buffer, n.indices[::-1]))


def stale_name(func: PrimFunc) -> PrimFunc:
    """The name in the module's table stays, for other contents: a fetch brings the old ones back."""
    return replaced(schedule(func).layout("b", TRANSPOSED).func, lambda s: replace(s, index="weight"))


def wrong_block(func: PrimFunc) -> PrimFunc:
    made = schedule(func).layout("b", BLOCKED).func
    return loads(made, "b", lambda n: Load(n.dtype, n.buffer, (*n.indices[:2], (n.indices[2] + 1) % const(4))))


def shared_tile(func: PrimFunc) -> PrimFunc:
    """The copy into the tile is made in the first iteration only."""
    cached = schedule(func).cache_read("b", "k").func

    def first(s: Stmt) -> Stmt:
        return replace(s, extent=const(1)) if isinstance(s, For) and s.var.name == "b_1" else s

    return replace(cached, body=rewrite(cached.body, first))


def fault(
    name: str, change: Callable[[PrimFunc], PrimFunc], layouts: Mapping[str, Layout] | None = None
) -> PlantedFault:
    """A wrong schedule of `matmul`, and the layouts that were asked for."""

    def judge(source: PrimFunc, made: PrimFunc) -> str | None:
        return of_evidence(check_loop_schedule(source, made, layouts or {}))

    return PlantedFault(name, "loops", (judge,), matmul, change)


FAULTS: tuple[PlantedFault, ...] = (
    fault("the constant is there twice", duplicated),
    fault("it begins again in each iteration", misplaced),
    fault("it is read before it begins", out_of_scope),
    fault("its uses have another buffer", unvisited),
    fault("its node is gone", lost),
    fault("loads in another layout, data as they were", data_not_laid, {"b": TRANSPOSED}),
    fault("data in another layout, loads as they were", loads_not_changed, {"b": TRANSPOSED}),
    fault("other contents under the old name", stale_name, {"b": TRANSPOSED}),
    fault("blocks read in another order", wrong_block, {"b": BLOCKED}),
    fault("a tile copied in part", shared_tile),
)
