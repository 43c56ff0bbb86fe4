"""The check of explicit sizes: right modules pass on random programs, and changes by hand are refused by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from assay.lower.anf import to_anf
from assay.lower.shapes import lower_shapes
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, GlobalVar, Let, MatchCast
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, const
from assay.semantics.tensor import Assert, PrimFunc, Seq, Stmt, Store
from assay.semantics.types import ShapeType, TensorType
from assay.semantics.walk import rewrite
from assay.verify.shapes import check_shapes
from tests.lower.shapes.shape_inputs import inputs
from tests.lower.shapes.shape_programs import PROGRAMS, program
from tests.lower.shapes.shape_random import EXTERNS, program as random_program
from tests.observation import told_apart

pytestmark = pytest.mark.row("R10", "U24")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_passes(name: str) -> None:
    source = program(name)
    verdict = check_shapes(source, lower_shapes(source))
    assert verdict.holds and verdict.how == "proved", verdict.detail
    assert "statements about sizes" in verdict.detail


def examined(rng: random.Random) -> None:
    """One random program: the check passes, and no inputs tell the two forms apart."""
    source, good = random_program(rng)
    try:
        check(source)
    except Invalid:  # a size that a branch or a call took along
        assume(False)
    target = lower_shapes(source)
    verdict = check_shapes(source, target)
    assert verdict.holds, verdict.detail
    for i in range(3):
        values = good if i == 0 else inputs(source.main, rng, 4)
        assert told_apart(source, target, values, EXTERNS) is None, {n: v.shape for n, v in values.items()}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.randoms(use_true_random=False))
def test_random_programs(rng: random.Random) -> None:
    examined(rng)


@pytest.mark.campaign
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48))
def test_many_random_programs(seed: int) -> None:
    examined(random.Random(seed))


# --- what is changed by hand is refused --------------------------------------------------------------------------


def body_of(module: Module, kernel: str) -> tuple[Stmt, ...]:
    body = module.kernel(kernel).body
    return body.body if isinstance(body, Seq) else (body,)


def with_body(module: Module, kernel: str, body: tuple[Stmt, ...]) -> Module:
    return module.with_(**{kernel: replace(module.kernel(kernel), body=Seq(body))})


def changed(module: Module, change: Callable[[Expr], Expr]) -> Module:
    root: Expr = module.main
    new = rewrite(root, change)
    assert isinstance(new, Function)
    return module.with_(main=new)


def lowered(name: str) -> tuple[Module, Module]:
    source = program(name)
    return source, lower_shapes(source)


@pytest.mark.parametrize("place", range(9))
def test_every_statement_of_a_host_function_is_needed(place: int) -> None:
    source, target = lowered("entry")
    body = body_of(target, "main_shapes")
    assert len(body) == 9
    for wrong in (body[:place] + body[place + 1 :], (*body[: place + 1], *body[place:])):
        verdict = check_shapes(source, with_body(target, "main_shapes", wrong))
        assert not verdict.holds
        if isinstance(body[place], Store) and len(wrong) < 9:
            assert "before it is written" in verdict.detail or "unwritten" in verdict.detail
        elif isinstance(body[place], Store):
            assert "twice" in verdict.detail
        else:
            words = ("is to be checked", "nothing asks for", "is not computed where it is needed")
            assert any(w in verdict.detail for w in words)


@pytest.mark.parametrize("slot", [-1, 99])
def test_a_slot_outside_of_the_heap_is_refused(slot: int) -> None:
    source, target = lowered("entry")
    body = body_of(target, "main_shapes")
    place = [i for i, s in enumerate(body) if isinstance(s, Store)][-1]
    stored = body[place]
    assert isinstance(stored, Store)
    wrong = (*body[:place], replace(stored, indices=(const(slot),)), *body[place + 1 :])
    verdict = check_shapes(source, with_body(target, "main_shapes", wrong))
    assert not verdict.holds and f"slot {slot} of" in verdict.detail


def test_the_order_of_the_statements_counts() -> None:
    source, target = lowered("entry")
    body = body_of(target, "main_shapes")
    asserts = [i for i, s in enumerate(body) if isinstance(s, Assert)]
    for a, b in zip(asserts, asserts[1:], strict=False):
        wrong = list(body)
        wrong[a], wrong[b] = body[b], body[a]
        assert not check_shapes(source, with_body(target, "main_shapes", tuple(wrong))).holds


def test_an_assertion_of_another_kind_is_no_check_of_sizes() -> None:
    source, target = lowered("composite before its symbol")
    body = tuple(replace(s, kind="assertion") if isinstance(s, Assert) else s for s in body_of(target, "main_shapes"))
    verdict = check_shapes(source, with_body(target, "main_shapes", body))
    assert not verdict.holds and "what no host function does" in verdict.detail


def test_names_of_slots_in_another_order_are_refused() -> None:
    source, target = lowered("composite before its symbol")

    def swap(node: Expr) -> Expr:
        return (
            replace(node, type=ShapeType(node.type.dims[::-1]))
            if isinstance(node, MatchCast) and isinstance(node.type, ShapeType)
            else node
        )

    def rename(node: Expr) -> Expr:
        new = swap(node)
        if isinstance(node, Let) and isinstance(node.value.type, ShapeType):
            return replace(node, var=replace(node.var, type=node.value.type))
        return new

    verdict = check_shapes(source, changed(target, rename))
    assert not verdict.holds and "the slot of" in verdict.detail


def test_a_heap_without_names_is_refused() -> None:
    source, target = lowered("entry")

    def drop(node: Expr) -> Expr:
        return node.body if isinstance(node, Let) and isinstance(node.value, MatchCast) else node

    verdict = check_shapes(source, changed(target, drop))
    assert not verdict.holds and "has no name" in verdict.detail


def test_a_host_function_left_out_is_refused() -> None:
    source, target = lowered("attributes")

    def last(node: Expr) -> Expr:
        return node.body if isinstance(node, Let) and node.var.name in ("heap1", "sizes2") else node

    verdict = check_shapes(source, changed(target, last))
    assert not verdict.holds


@pytest.mark.parametrize("name", ["data types", "branches", "local functions", "recursion", "effects"])
def test_every_host_function_is_looked_at(name: str) -> None:
    """Whatever stands in a branch, a clause or a local function: with its last statement left out it is refused."""
    source, target = lowered(name)
    hosts = [n for n, k in target.kernels.items() if k.attrs.get("host") is True]
    assert len(hosts) > 2
    for host in hosts:
        assert not check_shapes(source, with_body(target, host, body_of(target, host)[:-1])).holds, host


def test_a_constant_of_the_module_as_a_result() -> None:
    x = graph.var("x", TensorType((Symbol("n"),), dtype("float32")))
    of = TensorType((3,), dtype("float32"))
    main = graph.function([x], GlobalVar(of, "c"), x.type)
    source = Module({"main": main}, {"c": np.zeros(3, np.float32)})
    target = lower_shapes(source)
    verdict = check_shapes(source, target)
    assert verdict.holds, verdict.detail
    for size in (2, 3):
        assert told_apart(source, target, {"x": np.zeros(size, np.float32)}) is None


def test_another_program_is_refused() -> None:
    source, target = lowered("entry")
    other, _ = lowered("composite before its symbol")
    verdict = check_shapes(other, target)
    assert not verdict.holds and "another program" in verdict.detail
    unchanged = check_shapes(source, to_anf(source))
    assert not unchanged.holds and "no explicit shapes" in unchanged.detail


def test_what_is_explicit_already_stays() -> None:
    _, target = lowered("calls")
    again = lower_shapes(target)
    assert first_difference(target, again) is None
    assert check_shapes(target, again).holds


def test_definitions_that_nobody_needs_are_refused() -> None:
    source, target = lowered("entry")
    extra = PrimFunc("idle", (), 0, Seq(()), {"host": True})
    verdict = check_shapes(source, target.with_(idle=extra))
    assert not verdict.holds and "nothing needs idle" in verdict.detail


def test_runs_are_told_apart_by_the_words_of_a_trap() -> None:
    source, target = lowered("composite before its symbol")
    given_ = {"x": np.zeros(3, np.float32), "y": np.zeros(3, np.float32)}
    assert told_apart(source, target, given_) is None
    body = tuple(
        replace(s, message=s.message.replace("parameter 'x'", "parameter 'y'")) if isinstance(s, Assert) else s
        for s in body_of(target, "main_shapes")
    )
    assert told_apart(source, with_body(target, "main_shapes", body), given_) is not None
