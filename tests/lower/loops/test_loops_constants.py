"""Schedules of tensor functions with constants: each stays one constant, in its place; another layout lays its data
anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from assay.lower.legalize.kernels import build
from assay.lower.loops import Schedule, schedule
from assay.lower.loops.layout import Layout, relayout
from assay.lower.loops.rewriting import loop, put
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Load, const
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Buffer,
    For,
    PrimFunc,
    Stmt,
    Store,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.loops import check_schedule

pytestmark = pytest.mark.row("C11")
F = FLOAT32
RNG = np.random.default_rng(11)


def data(*shape: int) -> np.ndarray[Any, Any]:
    made = RNG.standard_normal(shape).astype("float32")
    made.flags.writeable = False
    return made


def matmul() -> PrimFunc:
    """A product whose second operand is a constant."""
    of = build("matmul", {}, (TensorType((6, 7), F), TensorType((7, 9), F)), TensorType((6, 9), F), "linked")
    a, b, out = of.params
    return replace(of, params=(a, out), body=AllocateConst(b, data(7, 9), of.body, "weight"))


def deep() -> PrimFunc:
    """Constants that begin inside loops: a table that each iteration looks into."""
    x, out = Buffer("x", (8, 5), F), Buffer("out", (8, 5), F)
    t, u = Buffer("t", (5, 8), F), Buffer("u", (5,), F)
    table, other = data(5, 8), data(5)

    def row(i: Any) -> Stmt:
        inner = loops("j", (5,), lambda j: store(out, (i, j), x[i, j] * t[j, i]))
        more = loops("k", (5,), lambda k: store(out, (i, k), out[i, k] + u[k]))
        return AllocateConst(t, table, seq(inner, AllocateConst(u, other, more)))

    return PrimFunc("deep", (x, out), 1, loops("i", (8,), row))


def sum_of_row() -> PrimFunc:
    """What is read in a branch of a sequence, after the constant has begun in the middle of it."""
    x, out = Buffer("x", (10,), F), Buffer("out", (10,), F)
    c = Buffer("c", (10,), F)
    first = loops("i", (10,), lambda i: store(out, i, x[i] + 1.0))
    second = loops("i", (10,), lambda i: store(out, i, out[i] * c[i]))
    return PrimFunc("late", (x, out), 1, seq(first, AllocateConst(c, data(10), second)))


TRANSPOSED, BLOCKED = Layout((1, 0)), Layout((1, 0), ((1, 4),))
Step = Callable[[Schedule], Schedule]


@dataclass(frozen=True)
class Case:
    source: Callable[[], PrimFunc]
    steps: Step
    layouts: Mapping[str, Layout] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "cache_read": Case(matmul, lambda s: s.split("j0#1", 4).cache_read("b", "k")),
    "cache_read twice": Case(matmul, lambda s: s.cache_read("b", "i0").cache_read("b_tile", "k")),
    "tiled": Case(matmul, lambda s: s.fission("i0").split("i0#1", 4).split("j0#1", 4).split("k", 3).reorder("i0_o", "j0_o", "k_o", "i0_i", "k_i", "j0_i").cache_read("b", "k_o").cache_write("out", "j0_o")),
    "unrolled": Case(matmul, lambda s: s.unroll("k")),
    "peeled": Case(matmul, lambda s: s.peel("k", 3)),
    "parallel": Case(matmul, lambda s: s.parallelize("i0")),
    "transposed": Case(matmul, lambda s: s.layout("b", TRANSPOSED), {"b": TRANSPOSED}),
    "blocked": Case(matmul, lambda s: s.layout("b", BLOCKED), {"b": BLOCKED}),
    "blocked, then tiled": Case(matmul, lambda s: s.layout("b", BLOCKED).fission("i0").split("j0#1", 4), {"b": BLOCKED}),
    "tiled, then blocked": Case(matmul, lambda s: s.fission("i0").split("j0#1", 4, ("jo", "ji")).reorder("jo", "k", "ji").cache_read("b", "jo").layout("b", BLOCKED), {"b": BLOCKED}),
    "inside a loop, unrolled": Case(deep, lambda s: s.unroll("i")),
    "inside a loop, peeled and split": Case(deep, lambda s: s.peel("i", 2).split("i", 4)),
    "inside a loop, cached": Case(deep, lambda s: s.cache_read("t", "i").cache_read("u", "i")),
    "inside a loop, in turn": Case(deep, lambda s: s.fission("i").reorder("j", "i")),
    "inside a loop, laid out": Case(deep, lambda s: s.layout("t", TRANSPOSED).unroll("j"), {"t": TRANSPOSED}),
    "merged": Case(sum_of_row, lambda s: s.merge("i", "i#1").vectorize("i")),
    "in the middle, cached": Case(sum_of_row, lambda s: s.split("i#1", 4).cache_read("c", "i_o")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_constants_stay(name: str) -> None:
    case = CASES[name]
    source = case.source()
    result = case.steps(schedule(source)).func
    evidence = check_schedule(source, result, case.layouts)
    assert evidence.holds, f"{evidence.detail}\n{result}"
    names = {s.buffer.name: s.index for s in constants(result)}
    assert all(names[n] == "" for n in case.layouts)
    if case.source is matmul and not case.layouts:
        assert names == {"b": "weight"}


def constants(func: PrimFunc) -> list[AllocateConst]:
    return [s for s in program_order(func.body) if isinstance(s, AllocateConst)]


def test_a_parameter_can_be_laid_out_too() -> None:
    of = build("matmul", {}, (TensorType((6, 7), F), TensorType((7, 9), F)), TensorType((6, 9), F), "plain")
    result = schedule(of).layout("b", BLOCKED).func
    assert [b.shape for b in result.params] == [(6, 7), (3, 7, 4), (6, 9)]


@pytest.mark.parametrize(
    ("buffer", "layout", "label"),
    [("out", (1, 0), "C12"), ("nothing", (1, 0), "C2"), ("b", (0,), "layout.C1")],
)
def test_refusals(buffer: str, layout: tuple[int, ...], label: str) -> None:
    with pytest.raises(Invalid, match=label):
        schedule(matmul()).layout(buffer, Layout(layout))


@pytest.mark.parametrize("wrong", [((0, 0), ()), ((0, 1), ((2, 4),)), ((0, 1), ((1, 0),)), ((1, 0), ((0, 2), (0, 3)))])
def test_layouts_that_are_none(wrong: Any) -> None:
    with pytest.raises(Invalid, match=r"layout\.C1"):
        Layout(*wrong)


def test_contents_that_are_not_there() -> None:
    func = matmul()
    assert isinstance(func.body, AllocateConst)
    without = replace(func, body=replace(func.body, data=None))
    assert constants(schedule(without).split("k", 2).func)[0].data is None
    with pytest.raises(Invalid, match=r"tensor\.C22"):
        schedule(without).layout("b", TRANSPOSED)


# --- faults: apache/tvm#10998, 12489, 13605, 13792, 16660 (duplicated, misplaced, unvisited), 12991, 13851 (layout)
# -------


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
    inside = loop(cached, "k")

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
    outer = loop(made, "i0_o")
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


WRONG: dict[str, tuple[Callable[[PrimFunc], PrimFunc], Mapping[str, Layout]]] = {
    "the constant is there twice": (duplicated, {}),
    "it begins again in each iteration": (misplaced, {}),
    "it is read before it begins": (out_of_scope, {}),
    "its uses have another buffer": (unvisited, {}),
    "its node is gone": (lost, {}),
    "loads in another layout, data as they were": (data_not_laid, {"b": TRANSPOSED}),
    "data in another layout, loads as they were": (loads_not_changed, {"b": TRANSPOSED}),
    "other contents under the old name": (stale_name, {"b": TRANSPOSED}),
    "blocks read in another order": (wrong_block, {"b": BLOCKED}),
    "a tile copied in part": (shared_tile, {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_caught(name: str) -> None:
    change, layouts = WRONG[name]
    source = matmul()
    assert not check_schedule(source, change(source), layouts).holds


def test_a_layout_that_nobody_asked_for() -> None:
    source = matmul()
    result = schedule(source).layout("b", TRANSPOSED).func
    assert check_schedule(source, result, {"b": TRANSPOSED}).holds and not check_schedule(source, result).holds


VIEWED = """
@T.prim_func(private=True)
def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    T.func_attr({"num_outputs": 1})
    w = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    w_1 = T.decl_buffer((4,), data=w)
    w_2 = T.decl_buffer((2, 2), "float32", data=w_1.data)
    for i in range(4):
        y[i] = x[i] * w_1[i] + w_2[i // 2, i % 2]
"""


def test_a_constant_that_is_seen_through_views() -> None:
    """As TVM spells it: a buffer is declared over the constant's data. Layouts and caches follow it."""
    func = parse(VIEWED).kernels["scale"]
    blocks = {"w": Layout((0,), ((0, 2),))}
    relaid = relayout(func, "w", blocks["w"])
    for made in (relaid, schedule(func).layout("w", blocks["w"]).func):
        found = check_schedule(func, made, blocks)
        assert found.holds, found.detail
    assert check_schedule(func, schedule(func).cache_read("w", "i").func).holds
    wrong = rewrite(
        relaid.body, lambda s: replace(s, data=s.contents[::-1].copy()) if isinstance(s, AllocateConst) else s
    )
    assert not check_schedule(func, replace(relaid, body=wrong), blocks).holds
