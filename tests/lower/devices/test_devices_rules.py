"""Rules D1 to D9 of the device planner, one by one (specs/lower.md, "devices")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.lower.anf import to_anf
from assay.lower.devices import plan_devices
from assay.lower.legalize import legalize
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Constant, Function, GlobalVar, Let, RefWrite, Tuple, TupleGetItem, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.types import UNIT, DataDef, DataType, RefType, ShapeType, TensorType, TupleType
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
    nodes,
    on,
    params,
    planned,
    x,
)

BIT = TensorType((), BOOL)


@pytest.mark.row("V8")
def test_what_nobody_says_is_on_the_default_device() -> None:
    plan = planned(module(neg(a := x("a")), a))
    assert params(plan) == {"a": "cuda"} and not copies(plan)


@pytest.mark.row("V9")
def test_an_operand_on_another_device_is_copied_once() -> None:
    a, b, c, d = map(x, "abcd")
    plan = planned(module(g.call("subtract", on(add(a, b), CPU), add(c, d)), a, b, c, d))
    assert params(plan) == {"a": "cpu", "b": "cpu", "c": "cuda", "d": "cuda"}
    assert copies(plan) == [("add", str(ON_CPU), str(ON_GPU))]


@pytest.mark.row("V9", "V21")
def test_one_copy_serves_all_users() -> None:
    a, b = x("a"), x("b")
    shared = add(a, b)
    plan = planned(module(g.call("subtract", on(shared, CPU), neg(on(shared, CPU))), a, b))
    assert copies(plan) == [("add", str(ON_CPU), str(ON_GPU))]


@pytest.mark.row("V3", "V9")
def test_a_copy_that_changes_nothing_is_removed_and_one_that_does_stays() -> None:
    a = x("a", CPU)
    plan = planned(module(neg(g.device_copy(neg(g.device_copy(a, CPU)), GPU)), a))
    assert copies(plan) == [("negative", str(ON_CPU), str(ON_GPU))]


@pytest.mark.row("V9")
def test_a_written_copy_serves_other_users_too() -> None:
    a = x("a", CPU)
    plan = planned(module(add(g.device_copy(a, GPU), on(neg(a), GPU)), a))
    assert len(copies(plan)) == 1


@pytest.mark.row("V10")
def test_an_annotation_flows_back_to_what_a_let_names() -> None:
    a, b, c, d = map(x, "abcd")
    left, right = x("left"), x("right")
    body = g.let(left, add(a, b), g.let(right, add(c, d), g.call("subtract", on(left, CPU), right)))
    plan = planned(module(body, a, b, c, d))
    assert params(plan) == {"a": "cpu", "b": "cpu", "c": "cuda", "d": "cuda"}
    assert {n.var.name: n.var.device.type for n in nodes(plan) if isinstance(n, Let)} == {
        "left": "cpu",
        "right": "cuda",
    }


@pytest.mark.row("V3", "V8")
def test_an_annotation_of_a_lets_value_holds_for_its_variable() -> None:
    a, v = x("a"), x("v")
    plan = planned(module(g.let(v, on(neg(a), CPU), neg(v)), a))
    assert not copies(plan) and params(plan) == {"a": "cpu"}  # but an operand may leave
    assert len(copies(planned(module(neg(on(neg(a), CPU)), a)))) == 1


@pytest.mark.row("V5")
def test_a_function_has_one_domain_for_its_parameter_and_all_arguments() -> None:
    p, q, a, b, c = map(x, "pqabc")
    f = g.function((p, q), on(add(p, q), CPU))
    plan = planned(module(g.call("subtract", g.call(GlobalVar(f.type, "f"), a, b), c), a, b, c, f=f))
    assert set(params(plan).values()) == {"cpu"} and not copies(plan)


@pytest.mark.row("V5")
def test_closures_that_give_closures() -> None:
    """y is reached through two calls."""
    y, z, a, b = map(x, "yzab")
    inner = g.function((z,), add(on(neg(y), CPU), neg(z)))
    outer = g.function((y,), inner)
    f = Var(outer.type, "f")
    plan = planned(module(g.let(f, outer, g.call(g.call(f, a), b)), a, b))
    assert params(plan) == {"a": "cpu", "b": "cuda"} and len(copies(plan)) == 1
    assert {n.device for n in nodes(plan) if isinstance(n, Function)} == {ON_GPU}


@pytest.mark.row("V5")
def test_recursive_functions_have_finite_domains() -> None:
    c, p = Var(BIT, "c"), x("p")
    call_ = GlobalVar(g.function((c, p), p).type, "f")
    f = g.function((c, p), g.if_(c, on(neg(p), CPU), g.call(call_, c, p)), T)
    plan = planned(module(g.call(call_, c2 := Var(BIT, "c"), a := x("a")), c2, a, f=f))
    assert params(plan, "f")["p"] == "cpu"


@pytest.mark.row("V7")
def test_a_function_in_a_tuple_collapses() -> None:
    p, q, a, b = map(x, "pqab")
    f = g.function((p, q), on(add(p, q), CPU))
    named, pair = Var(f.type, "f"), Var(TupleType((f.type, T)), "t")
    body = g.let(named, f, g.let(pair, g.tuple_of(named, b), g.call(g.get(pair, 0), a, g.get(pair, 1))))
    plan = planned(module(body, a, b))
    assert set(params(plan).values()) == {"cpu"} and not copies(plan)


@pytest.mark.row("V7")
def test_the_branches_of_an_if_over_functions_are_one() -> None:
    c, a, b, y, z = Var(BIT, "c"), *map(x, "abyz")
    f, h = g.function((y,), add(on(a, CPU), y)), g.function((z,), g.call("subtract", z, a))
    plan = planned(module(g.call(g.if_(c, f, h), b), c, a, b))
    assert params(plan) == {"c": "cpu", "a": "cpu", "b": "cpu"} and not copies(plan)


@pytest.mark.row("V7")
def test_what_is_written_to_a_reference_is_copied_to_it() -> None:
    a, b, r, done = x("a"), x("b"), Var(RefType(T), "r"), Var(UNIT, "done")
    body = g.let(r, g.ref(a), g.let(done, g.write(r, on(neg(b), CPU)), add(on(a, GPU), g.read(r))))
    plan = planned(module(body, a, b))
    assert params(plan) == {"a": "cuda", "b": "cpu"}
    (write,) = (n for n in nodes(plan) if isinstance(n, RefWrite))
    assert write.value.device == ON_GPU and len(copies(plan)) == 1


@pytest.mark.row("V7")
def test_data_values_and_what_is_matched_are_one() -> None:
    data = DataDef("Box", (), {"box": (T,)})
    made = g.constructor(data, "box")
    a, v = x("a", CPU), x("v")
    box = Var(DataType("Box"), "box")
    body = g.let(box, g.call(made, a), g.match(box, (g.Made(made, (g.Bind(v),)), neg(v))))
    plan = planned(module(body, a, Box=data))
    assert not copies(plan) and params(plan) == {"a": "cpu"}


@pytest.mark.row("V9")
def test_a_projection_comes_before_its_copy() -> None:
    a = Var(TensorType((6,), FLOAT32), "a")
    split = g.call("split", a, sections=(2, 2, 2))
    plan = planned(module(add(g.get(on(split, CPU), 0), neg(g.get(on(split, CPU), 1))), a))
    assert [c[0] for c in copies(plan)] == ["tuplegetitem", "tuplegetitem"]


@pytest.mark.row("V9")
def test_a_tuple_is_copied_field_by_field() -> None:
    pair = Var(TupleType((T, TupleType((T, T)))), "pair", device=CPU)
    plan = planned(module(on(pair, GPU, constrain_body=False, constrain_result=True), pair))
    assert len(copies(plan)) == 3
    result = plan.main.body
    assert isinstance(result, Tuple) and result.device == ON_GPU


@pytest.mark.row("V9")
def test_a_tuple_that_acts_is_evaluated_once_and_its_name_is_new() -> None:
    extern = g.extern("pair", (), TupleType((T, T)))
    copied = x("copied")
    value = on(g.call(extern), CPU)
    body = g.let(
        copied,
        neg(copied0 := x("copied0", GPU)),
        g.tuple_of(copied, on(value, GPU, constrain_body=False, constrain_result=True)),
    )
    flat = g.function((copied0,), g.get(body, 1))
    plan = planned(Module({"main": flat}))
    assert len(copies(plan)) == 2
    assert "copied_1" in {n.var.name for n in nodes(plan) if isinstance(n, Let)}


@pytest.mark.row("V6")
def test_shapes_and_what_the_host_looks_at_are_on_the_host() -> None:
    n = Symbol("n")
    a, s = Var(TensorType((2,), INT64), "a"), Var(ShapeType((2, 3)), "s")
    plan = planned(module(g.let(s, g.shape_of(v := x("v")), g.tuple_of(g.match_cast(a, ShapeType((n, n))), s)), a, v))
    assert params(plan) == {"a": "cpu", "v": "cuda"} and not copies(plan)  # a is there for its sizes alone
    shapes = [e for e in nodes(plan) if isinstance(e.type, ShapeType)]
    assert shapes and {e.device for e in shapes} == {ON_CPU}


@pytest.mark.row("V6", "V8")
def test_what_the_host_looks_at_does_not_pull_the_program_there() -> None:
    a = x("a")
    positive = g.call("greater", g.call("sum", a), g.constant(0.0, "float32"))
    plan = planned(module(g.if_(positive, neg(a), a), a))
    assert params(plan) == {"a": "cuda"} and [c[0] for c in copies(plan)] == ["greater"]


@pytest.mark.row("V9")
def test_a_constant_is_one_wherever_it_is_used() -> None:
    one = g.constant([[1.0] * 3] * 2, "float32")
    a, b = x("a", CPU), x("b", GPU)
    plan = planned(module(g.tuple_of(add(a, one), g.device_copy(add(b, one), CPU)), a, b))
    assert {n.device for n in nodes(plan) if isinstance(n, Constant)} == {ON_CPU, ON_GPU}
    assert [c[0] for c in copies(plan)] == ["add"]
    fixed = replace(one, device=CPU)
    assert [c[0] for c in copies(planned(module(neg(on(add(b, fixed), GPU)), b)))] == ["constant"]


def kernel(*scopes: str) -> PrimFunc:
    """A tensor function of as many parameters, the last one written; its text does not matter here."""
    made = legalize(module(neg(a := x("a")), a)).kernels["negative"]
    old = made.params
    own = [Buffer(f"p{i}", old[0].shape, old[0].dtype, s) for i, s in enumerate(scopes)]
    body = Mapper(buffers={old[0]: own[0], old[1]: own[-1]}).run(made.body)
    return PrimFunc("k", tuple(own), 1, body)


@pytest.mark.row("V12", "V14")
def test_scopes_flow_out_of_tensor_functions() -> None:
    a, b = x("a"), x("b")
    plan = planned(module(g.call_tir("k", [a, neg(b)], T), a, b, k=kernel("global.texture", "", "global.texture")))
    assert params(plan) == {"a": "cuda global.texture", "b": "cuda"} and not copies(plan)
    assert plan.main.body.device == TEXTURE


@pytest.mark.row("V12", "V14")
def test_an_operand_in_another_scope_is_copied() -> None:
    a = x("a", replace(GPU, scope="global"))
    plan = planned(module(neg(g.call_tir("k", [a], T)), a, k=kernel("global.texture", "global.texture")))
    assert copies(plan) == [("a", str(ON_GPU), str(TEXTURE))]  # and negative reads any scope of its device


@pytest.mark.row("V15")
def test_a_primitive_function_says_where_its_parameters_are() -> None:
    p, a = x("p", VirtualDevice("cpu", scope="global.texture")), x("a")
    f = g.function((p,), neg(p), primitive=1)
    plan = planned(module(g.call(GlobalVar(f.type, "f"), a), a, f=f))
    assert params(plan) == {"a": "cpu global.texture"}
    kept = plan.definitions["f"]
    assert isinstance(kept, Function) and kept.params[0].device.is_full and kept.body.device == neg(p).device


@pytest.mark.row("V5")
def test_a_contradiction_names_both_devices_both_places_and_what_ties_them() -> None:
    f = g.function((p := x("p"),), neg(p))
    name = GlobalVar(f.type, "f")
    here, there = Span("model", line=3, column=1), Span("model", line=9, column=5)
    a = x("a")
    one = g.on_device(f, CPU, span=here)
    other = g.on_device(name, GPU, span=there)
    with pytest.raises(Invalid, match=r"cpu:0.*model:3:1|model:3:1.*cpu:0") as caught:
        plan_devices(module(g.tuple_of(g.call(g.if_(c := Var(BIT, "c"), one, other), a)), c, a, f=f), CONFIG)
    assert caught.value.label == "devices.C1"
    assert "model:9:5" in str(caught.value) and "cuda:0" in str(caught.value) and "branches" in str(caught.value)


@pytest.mark.row("V4")
def test_a_device_that_is_not_there() -> None:
    a = x("a", VirtualDevice("opencl"))
    with pytest.raises(Invalid, match="opencl") as caught:
        plan_devices(module(neg(a), a), CONFIG)
    assert caught.value.label == "config.C6"


@pytest.mark.row("V11")
def test_planned_again_in_anf_and_lowered_changes_nothing() -> None:
    a, b, c = x("a"), x("b"), x("c", GPU)
    shared = add(a, b)
    plan = planned(module(add(neg(on(neg(shared), CPU)), g.call("reshape", add(shared, c), shape=(2, 3))), a, b, c))
    normal = planned(to_anf(plan))  # the lets of A-normal form get devices too
    assert len(copies(plan)) == len(copies(normal)) > 0
    lowered = legalize(normal)
    assert first_difference(planned(lowered), lowered) is None


@pytest.mark.row("V18")
def test_names_stay() -> None:
    a, v = x("a"), x("a_1")
    plan = planned(module(g.let(v, neg(a), on(add(v, a), CPU)), a))
    assert [p.name for p in plan.main.params] == ["a"]
    assert [n.var.name for n in nodes(plan) if isinstance(n, Let)] == ["a_1"]


@pytest.mark.row("V8")
def test_conflicting_users_of_a_free_value() -> None:
    """(a + b) on the cpu, minus (b + c) on the gpu: one copy of b."""
    a, b, c = map(x, "abc")
    plan = planned(module(g.call("subtract", on(add(a, b), CPU), on(add(b, c), GPU)), a, b, c))
    assert len(copies(plan)) == 2 and params(plan)["b"] == "cuda"  # the result and b; of two equal choices the default


@pytest.mark.row("V8")
def test_more_than_two_devices() -> None:
    third = VirtualDevice("cuda", 1, "cuda")
    config = CompilationConfig.make([CPU, GPU, third], default=GPU)
    a = x("a")
    body = add(neg(neg(replace(neg(a), device=CPU))), replace(neg(a), device=third))
    plan = planned(module(replace(body, device=third), a), config)
    assert len(copies(plan)) == 2 and not any(n.device.place == GPU for n in nodes(plan))


@pytest.mark.row("V9")
def test_projections_stay_where_they_are_said_to_be() -> None:
    a = Var(TensorType((4,), FLOAT32), "a", device=CPU)
    field = replace(g.get(on(g.call("split", a, sections=(2, 2)), CPU), 0), device=GPU)
    plan = planned(module(neg(field), a))
    assert [c[0] for c in copies(plan)] == ["tuplegetitem"]
    assert any(isinstance(n, TupleGetItem) for n in nodes(plan))
