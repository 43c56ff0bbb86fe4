"""Schedules of tensor functions with constants: each stays one constant, in its place; another layout lays its data
anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from assay.lower.legalize.kernels import build
from assay.lower.loops import Schedule, schedule
from assay.lower.loops.layout import Layout, relayout
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.tensor import (
    AllocateConst,
    Buffer,
    PrimFunc,
    Stmt,
    loops,
    seq,
    store,
)
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.loops import check_loop_schedule
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.loop_constant_faults import BLOCKED, TRANSPOSED, constants, data, matmul
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("C11")
F = FLOAT32


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


Step = Callable[[Schedule], Schedule]


@dataclass(frozen=True)
class Case:
    source: Callable[[], PrimFunc]
    steps: Step
    layouts: Mapping[str, Layout] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "cache_read": Case(matmul, lambda s: s.split("j0#1", 4).cache_read("b", "k")),
    "cache_read twice": Case(matmul, lambda s: s.cache_read("b", "i0").cache_read("b_tile", "k")),
    "tiled": Case(
        matmul, lambda s: s.fission("i0").split("i0#1", 4).split("j0#1", 4).split("k", 3).reorder("i0_o", "j0_o",
        "k_o", "i0_i", "k_i", "j0_i").cache_read("b", "k_o").cache_write("out", "j0_o")),
    "unrolled": Case(matmul, lambda s: s.unroll("k")),
    "peeled": Case(matmul, lambda s: s.peel("k", 3)),
    "parallel": Case(matmul, lambda s: s.parallelize("i0")),
    "transposed": Case(matmul, lambda s: s.layout("b", TRANSPOSED), {"b": TRANSPOSED}),
    "blocked": Case(matmul, lambda s: s.layout("b", BLOCKED), {"b": BLOCKED}),
    "blocked, then tiled": Case(matmul, lambda s: s.layout("b", BLOCKED).fission("i0").split("j0#1", 4),
        {"b": BLOCKED}),
    "tiled, then blocked": Case(
        matmul, lambda s: s.fission("i0").split("j0#1", 4, ("jo", "ji")).reorder("jo", "k", "ji").cache_read("b",
        "jo").layout("b", BLOCKED), {"b": BLOCKED}),
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
    evidence = check_loop_schedule(source, result, case.layouts)
    assert evidence.holds, f"{evidence.detail}\n{result}"
    names = {s.buffer.name: s.index for s in constants(result)}
    assert all(names[n] == "" for n in case.layouts)
    if case.source is matmul and not case.layouts:
        assert names == {"b": "weight"}


def test_a_parameter_can_be_laid_out_too() -> None:
    of = build("matmul", {}, (TensorType((6, 7), F), TensorType((7, 9), F)), TensorType((6, 9), F), "plain")
    result = schedule(of).layout("b", BLOCKED).func
    assert [b.shape for b in result.params] == [(6, 7), (3, 7, 4), (6, 9)]


@pytest.mark.parametrize(
    ("buffer", "layout", "label"),
    [("out", (1, 0), "loops.C12"), ("nothing", (1, 0), "loops.C2"), ("b", (0,), "layout.C1")],
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


# --- faults ---


@planted("loop_constant_faults")
def test_faults_are_caught(fault: PlantedFault) -> None:
    is_caught(fault)


def test_a_layout_that_nobody_asked_for() -> None:
    source = matmul()
    result = schedule(source).layout("b", TRANSPOSED).func
    assert (
        check_loop_schedule(source, result, {"b": TRANSPOSED}).holds and not check_loop_schedule(source, result).holds
    )


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
        found = check_loop_schedule(func, made, blocks)
        assert found.holds, found.detail
    assert check_loop_schedule(func, schedule(func).cache_read("w", "i").func).holds
    wrong = rewrite(
        relaid.body, lambda s: replace(s, data=s.contents[::-1].copy()) if isinstance(s, AllocateConst) else s
    )
    assert not check_loop_schedule(func, replace(relaid, body=wrong), blocks).holds
