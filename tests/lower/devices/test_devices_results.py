"""Where functions give their results, and what is there for the host alone to look at (rules D2 and D7 of
specs/lower.md, "devices"). Each plan is checked against its source, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.lower.anf import to_anf
from assay.lower.devices import plan_devices
from assay.lower.legalize import legalize
from assay.lower.simplify.common_subexpressions import common_subexpressions
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Function, GlobalVar, OnDevice, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import UNIT, RefType, ShapeType, TensorType
from assay.verify.anf import check_anf
from assay.verify.devices import broken_plans
from tests.lower.devices.planning import (
    CONFIG,
    CPU,
    GPU,
    ON_CPU,
    ON_GPU,
    TEXTURE,
    T,
    add,
    copies,
    module,
    neg,
    on,
    params,
    planned,
    x,
)
from tests.lower.devices.test_devices_rules import kernel
from tests.verify.devices.device_programs import program

BIT = TensorType((), BOOL)


def sound(of: Module) -> Module:
    """The plan of a module, which breaks no rule."""
    plan = planned(of)
    assert [str(b) for b in broken_plans(of, plan, CONFIG, plan_devices)] == []
    return plan


def given(function: Function, device: VirtualDevice) -> Function:
    """A function that gives its result there."""
    return replace(function, device=device)


def bit(name: str) -> Var:
    return Var(BIT, name)


# --- D2: the body of a function is used in its result ---


@pytest.mark.row("V14")
def test_a_result_is_copied_to_where_it_is_declared() -> None:
    a = x("a", CPU)
    plan = sound(Module({"main": given(g.function((a,), replace(neg(a), device=CPU)), GPU)}))
    assert copies(plan) == [("negative", str(ON_CPU), str(ON_GPU))] and plan.main.device == ON_GPU


@pytest.mark.row("V14")
def test_a_declared_result_draws_its_body() -> None:
    a = x("a")
    plan = sound(Module({"main": given(g.function((a,), neg(a)), CPU)}))
    assert params(plan) == {"a": "cpu"} and not copies(plan)


@pytest.mark.row("V14")
def test_the_result_of_a_tensor_function_is_copied_to_the_scope_that_is_declared() -> None:
    a, v = x("a"), x("v")
    k = kernel("global", "global.texture")
    call = g.call_tir("k", [a], T)
    for body in (call, g.let(v, call, v)):
        plan = sound(Module({"main": given(g.function((a,), body), replace(GPU, scope="global")), "k": k}))
        assert [c[1:] for c in copies(plan)] == [(str(TEXTURE), str(ON_GPU))]


@pytest.mark.row("V14", "V5")
def test_results_of_closures_and_of_global_functions_are_copied_inside() -> None:
    """One copy where the function gives its result, not one at each call."""
    p, a = x("p"), x("a")
    f = given(g.function((p,), replace(neg(p), device=CPU)), GPU)
    named = GlobalVar(f.type, "f")
    plan = sound(module(add(g.call(named, a), g.call(named, neg(a))), a, f=f))
    assert [c[0] for c in copies(plan, "f")] == ["negative"]
    local = Var(f.type, "h")
    plan = sound(module(g.let(local, f, g.call(local, a)), a))
    assert [c[0] for c in copies(plan)] == ["negative"]


@pytest.mark.row("V14", "V3")
def test_an_annotation_of_what_a_function_gives_is_its_result() -> None:
    a, v = x("a"), x("v")
    for body in (on(neg(a), CPU), g.let(v, neg(a), on(neg(v), CPU)), on(neg(a), CPU, constrain_result=True)):
        with pytest.raises(Invalid, match=r"devices\.C1"):
            plan_devices(Module({"main": given(g.function((a,), body), GPU)}), CONFIG)
        assert planned(module(body, a)).main.device == ON_CPU


@pytest.mark.row("V14", "V7")
def test_what_cannot_be_copied_is_where_the_function_gives_it() -> None:
    r = Var(RefType(T), "r", device=CPU)
    with pytest.raises(Invalid, match="a function's result and its body"):
        plan_devices(Module({"main": given(g.function((r,), r), GPU)}), CONFIG)


# --- D7: what is there for the host alone to look at ---


@pytest.mark.row("V6", "V8")
def test_what_the_host_alone_looks_at_is_on_it() -> None:
    a, c, n, u = x("a"), bit("c"), Symbol("n"), Var(UNIT, "u")
    s = Var(ShapeType((n, n)), "s")
    sizes = Var(TensorType((2,), INT64), "sizes")
    plan = sound(module(g.if_(c, neg(a), a), c, a))
    assert params(plan) == {"c": "cpu", "a": "cuda"} and not copies(plan)
    plan = sound(module(g.let(s, g.match_cast(sizes, ShapeType((n, n))), neg(a)), sizes, a))
    assert params(plan) == {"sizes": "cpu", "a": "cuda"} and not copies(plan)
    v, shown = x("v"), g.constant([1.0, 2.0], "float32")
    plan = sound(module(g.let(v, neg(a), g.let(u, g.print_(shown), v)), a))
    assert not copies(plan)


@pytest.mark.row("V6", "V8")
def test_what_is_computed_given_or_used_elsewhere_too_stays() -> None:
    a, c, d = x("a"), bit("c"), bit("d")
    assert params(sound(module(g.if_(c, neg(a), g.call("where", c, a, a)), c, a)))["c"] == "cuda"  # used on the gpu
    assert params(sound(module(g.if_(g.call("logical_and", c, d), neg(a), a), c, d, a)))["c"] == "cuda"  # computed with
    assert params(sound(module(g.tuple_of(g.if_(c, neg(a), a), c), c, a)))["c"] == "cuda"  # given


@pytest.mark.row("V6", "V8", "V5")
def test_a_condition_that_is_handed_on_is_on_the_host() -> None:
    """Through branches, lets and calls, recursive ones too: nothing is computed with it."""
    a, b, c, d, e, p = x("a"), x("b"), bit("c"), bit("d"), bit("e"), x("p")
    name = GlobalVar(g.function((c, p), p).type, "f")
    f = g.function((c, p), g.if_(c, neg(p), g.call(name, c, p)), T)
    body = g.let(e2 := bit("e2"), g.if_(d, e, d), add(g.call(name, e2, a), b))
    plan = sound(module(body, d, e, a, b, f=f))
    assert params(plan) == {"d": "cpu", "e": "cpu", "a": "cuda", "b": "cuda"} and params(plan, "f") == {
        "c": "cpu",
        "p": "cuda",
    }
    assert not copies(plan) and not copies(plan, "f")


@pytest.mark.row("V6", "V21")
def test_instances_look_at_their_conditions_on_the_host() -> None:
    """Calls on two devices: an instance for each, both of which take the condition on the host."""
    c, p, d, a, b = bit("c"), x("p"), bit("d"), x("a", CPU), x("b", GPU)
    f = g.function((c, p), g.if_(c, add(neg(p), p), p))
    name = GlobalVar(f.type, "f")
    here, there = replace(neg(g.call(name, d, a)), device=CPU), replace(neg(g.call(name, d, b)), device=GPU)
    plan = sound(module(g.tuple_of(here, there), d, a, b, f=f))
    made = sorted(n for n in plan.definitions if n.startswith("f_"))
    assert len(made) == 2 and all(params(plan, n)["c"] == "cpu" for n in made) and params(plan)["d"] == "cpu"


# --- programs of the random campaign, cut down ---


@pytest.mark.row("V9")
def test_annotations_of_annotations() -> None:
    """A constant that is on one device by an annotation, and used on another by the next."""
    one = g.constant([[1.0] * 3] * 2, "float32")
    a = x("a")
    plan = sound(module(g.tuple_of(a, on(on(one, GPU), CPU)), a))
    assert [c[1:] for c in copies(plan)] == [(str(ON_GPU), str(ON_CPU)), (str(ON_CPU), str(ON_GPU))]


@pytest.mark.row("V9")
def test_a_field_of_what_is_annotated_says_itself_where_it_is() -> None:
    pair, a = on(g.tuple_of(neg(a0 := x("a")), neg(a0)), GPU), a0
    assert len(copies(sound(module(add(replace(g.get(pair, 1), device=CPU), a), a)))) > 0
    drawn = OnDevice(pair.type, g.tuple_of(neg(a), neg(a)), VirtualDevice(scope="global"), False, True)
    plan = sound(module(g.tuple_of(replace(neg(a), device=CPU), on(g.get(drawn, 1), GPU)), a))
    assert ("tuplegetitem", str(ON_CPU), str(ON_GPU)) in copies(plan)


@pytest.mark.row("V9", "V12")
def test_a_constant_that_is_annotated_in_one_part_is_copied_in_both() -> None:
    one = g.constant([[1.0] * 3] * 2, "float32")
    a, u = x("a"), x("u")
    there = VirtualDevice("cpu", scope="global.texture")
    plan = sound(module(g.tuple_of(replace(g.let(u, neg(a), on(one, GPU)), device=there)), a))
    assert [c[0] for c in copies(plan)] == ["constant"] and "texture" in copies(plan)[0][2]


# --- after A-normal form ---


@pytest.mark.row("V9", "V11")
def test_two_lets_do_not_share_a_copy() -> None:
    """They would be one after another pass; a copy that nobody names is one of theirs."""
    a, v, w = x("a", CPU), x("v"), x("w")
    body = g.let(v, g.device_copy(a, GPU), g.let(w, g.device_copy(a, GPU), add(add(v, w), neg(g.device_copy(a, GPU)))))
    plan = sound(module(body, a))
    assert len(copies(plan)) == 2
    assert len(copies(common_subexpressions(plan))) == 1


@pytest.mark.row("V11")
def test_a_plan_in_anf_and_lowered_is_its_own_plan() -> None:
    """A new let is where its body is, and so is one that got another body."""
    count = 0
    for seed in range(40):
        of, config = program(seed)
        try:
            plan = plan_devices(of, config)
            normal = to_anf(plan)
        except (Invalid, Unsupported):
            continue
        count += 1
        assert check_anf(plan, normal).holds, seed
        assert first_difference(normal, plan_devices(normal, config)) is None, seed
        lowered = legalize(normal)
        assert first_difference(lowered, plan_devices(lowered, config)) is None, seed
    assert count > 25
