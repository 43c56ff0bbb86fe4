"""What says where something is, and what is made for it: tables, primitive functions, kernels, names (specs/lower.md,
"devices")."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.lower.devices import device_map, plan_devices
from assay.lower.devices.configure import default_config
from assay.lower.devices.scopes import specialise
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, GlobalVar
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import Buffer, Call, PrimFunc, loops, program_order, seq, store
from tests.lower.devices.planning import CPU, GPU, T, add, copies, module, neg, nodes, params, planned, x


def kernel(name: str, *scopes: str, **attrs: object) -> PrimFunc:
    p, out = (Buffer(n, (2, 3), T.dtype, s) for n, s in zip(("p", "out"), scopes, strict=True))
    return PrimFunc(name, (p, out), 1, loops("i j", (2, 3), lambda i, j: store(out, (i, j), p[i, j])), dict(attrs))


def at(scope: str, name: str) -> Function:
    """A function that calls k in a scope; nothing else says where."""
    where = VirtualDevice(scope=scope)
    p = x(f"p_{name}", where)
    return g.function((p,), replace(g.call_tir("k", [p], T), device=where))


def called(of: Module, name: str) -> str:
    (found,) = (n.func for n in nodes(of, name) if isinstance(n, CallTIR))
    return found


@pytest.mark.row("V8")
def test_the_map_of_devices_has_every_node_of_graph_functions() -> None:
    a = x("a")
    plan = planned(module(neg(add(a, a)), a, f=g.function((b := x("b"),), b), k=kernel("k", "", "")))
    found = device_map(plan)
    main: list[Expr] = nodes(plan)
    assert found.of() == [n.device for n in main] and len(found.of("f")) == len(nodes(plan, "f"))
    assert len(found) == len(list(found)) == len({id(n) for name in ("main", "f") for n in nodes(plan, name)})
    assert found[main[0]] == main[0].device and a not in found
    with pytest.raises(Invalid, match=r"no graph function k.*devices\.C2"):
        found.of("k")


def test_a_module_that_names_no_device_has_no_configuration() -> None:
    a = x("a")
    assert default_config(module(neg(a), a)) is None
    assert default_config(module(neg(b := x("b", VirtualDevice("cuda", 1))), b)) == CompilationConfig.make(
        [VirtualDevice("cuda", 1, "cuda")], VirtualDevice("cpu", 0, "c"), VirtualDevice("cpu", 0, "c")
    )


@pytest.mark.row("V14")
def test_a_constant_is_where_the_table_says() -> None:
    a, w = x("a"), GlobalVar(T, "w")
    source = replace(
        module(add(a, w), a), constants={"w": np.zeros((2, 3), np.float32)}, infos={"w": ConstantInfo(device=CPU)}
    )
    plan = planned(source)
    assert {n.device.type for n in nodes(plan) if isinstance(n, GlobalVar)} == {"cpu"}
    assert params(plan) == {"a": "cpu"} and not copies(plan)


@pytest.mark.row("V15")
def test_a_primitive_function_runs_at_one_place() -> None:
    """Its second parameter and its result are where its first one is said to be."""
    p, q, a, b = x("p", VirtualDevice("cpu")), x("q"), x("a"), x("b")
    f = g.function((p, q), add(p, q), primitive=1)
    plan = planned(module(g.call(GlobalVar(f.type, "f"), a, b), a, b, f=f))
    kept = plan.definitions["f"]
    assert (
        isinstance(kept, Function)
        and [v.device.type for v in kept.params] == ["cpu", "cpu"]
        and kept.device.type == "cpu"
    )
    assert params(plan) == {"a": "cpu", "b": "cpu"} and not copies(plan)


@pytest.mark.row("V21")
@pytest.mark.parametrize(("scope", "instances"), [("", 2), ("global", 2), ("global.texture", 0)])
def test_a_function_whose_kernels_name_no_special_memory_is_made_for_each_place(scope: str, instances: int) -> None:
    p, a, b = x("p"), x("a", CPU), x("b", GPU)
    f = g.function((p,), g.call_tir("k", [neg(p)], T))
    name = GlobalVar(f.type, "f")
    results = [replace(neg(g.call(name, v)), device=d) for v, d in ((a, CPU), (b, GPU))]
    plan = plan_devices(
        module(g.tuple_of(*results), a, b, f=f, k=kernel("k", scope, scope)),
        CompilationConfig.make([CPU, GPU], default=GPU),
    )
    assert sum("instance_of" in d.attrs for d in plan.definitions.values() if isinstance(d, Function)) == instances


@pytest.mark.row("V13")
def test_instances_have_names_of_their_own_in_any_order_of_definitions() -> None:
    """Two scopes that are spelled alike in a name, and a name that is taken."""
    functions = {"first": at("a.b", "f"), "second": at("a_b", "s"), "k": kernel("k", "", "")}
    one, two = (specialise(Module(d)) for d in (functions, dict(reversed(functions.items()))))
    assert first_difference(one, two) is None
    assert (called(one, "first"), called(one, "second")) == ("k_a_b", "k_a_b_1")
    for name in ("first", "second"):
        made = one.kernel(called(one, name))
        assert {b.scope for b in made.params} == {"a.b" if name == "first" else "a_b"} and made.attrs[
            "instance_of"
        ] == "k"
    taken = specialise(Module({**functions, "k_a_b": kernel("k_a_b", "global", "global")}))
    assert (called(taken, "first"), called(taken, "second")) == ("k_a_b_1", "k_a_b_2")
    assert taken.kernel("k_a_b").attrs == {}


@pytest.mark.row("V13")
def test_an_instance_has_its_own_symbol_and_what_else_was_said() -> None:
    for symbol, own in (("k", "k_shared"), ("other", "other")):
        made = specialise(
            Module({"f": at("shared", "f"), "k": kernel("k", "", "", global_symbol=symbol, noalias=1, note="k")})
        )
        assert made.kernel("k_shared").attrs == {"global_symbol": own, "noalias": 1, "note": "k", "instance_of": "k"}


def test_an_instance_calls_externs_as_they_are_and_instances_of_what_it_calls() -> None:
    p, out = (Buffer(n, (2, 3), T.dtype, "") for n in ("p", "out"))
    outer = PrimFunc("k", (p, out), 1, seq(Call("seen", (p,), extern=True), Call("inner", (p, out))))
    made = specialise(Module({"f": at("shared", "f"), "k": outer, "inner": kernel("inner", "", "")}))
    assert [s.function for s in program_order(made.kernel("k_shared").body) if isinstance(s, Call)] == [
        "seen",
        "inner_shared",
    ]
