"""Properties of device plans: random programs, deep programs, the map of devices, the configuration (specs/lower.md,
"devices")."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assay.lower.devices import default_config, device_map, plan_devices
from assay.lower.devices.domains import Domains
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.types import FuncType, TensorType
from tests.lower.devices.planning import (
    CONFIG,
    CPU,
    GPU,
    ON_CPU,
    ON_GPU,
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
from tests.scale import MANY
from tests.verify.devices.device_programs import program


@pytest.mark.row("V11")
def test_plans_of_random_programs() -> None:
    """A plan is well-formed, its own plan, and does not depend on the order of definitions."""
    count = 0
    for seed in range(60):
        of, config = program(seed)
        try:
            plan = plan_devices(of, config)
        except Invalid:
            continue
        check(plan)
        assert first_difference(plan, plan_devices(plan, config)) is None, seed
        names = [*of.definitions]
        random.Random(seed).shuffle(names)
        shuffled = replace(of, definitions={n: of.definitions[n] for n in names})
        assert first_difference(plan, plan_devices(shuffled, config)) is None, seed
        count += 1
    assert count > 40


@pytest.mark.row("V20")
def test_a_long_chain_and_a_deep_nest() -> None:
    """Annotations here and there, and tuples as deep as the program is long: no recursion, and near linear time."""
    a = x("a")
    value: Expr = a
    for i in range(MANY):
        value = neg(value)
        if i % 200 == 0:
            value = on(value, CPU if i % 400 else GPU)
    plan = plan_devices(module(value, a), CONFIG)
    assert len(copies(plan)) == MANY // 200  # behind each annotation, for each is followed by another device
    nest: Expr = a
    for _ in range(MANY // 10):
        nest = g.tuple_of(nest)
    for _ in range(MANY // 10):
        nest = g.get(nest, 0)
    assert params(plan_devices(module(on(nest, CPU), a), CONFIG)) == {"a": "cpu"}


@pytest.mark.row("V20")
def test_branches_and_closures_that_are_deep() -> None:
    c, a = Var(TensorType((), BOOL), "c", device=GPU), x("a")
    value: Expr = a
    for _ in range(5_000):
        value = g.if_(c, value, a)
    assert len(copies(plan_devices(module(add(value, on(a, GPU)), c, a), CONFIG))) == 1
    closure: Expr = on(a, CPU)
    for i in range(2_000):
        closure = g.function((x(f"p{i}"),), closure)
    assert params(plan_devices(module(closure, a), CONFIG)) == {"a": "cpu"}


@pytest.mark.row("V5")
def test_domains_never_contain_themselves() -> None:
    """The occurs check: what a generic function was given, and what that gives, become one."""
    domains, node = Domains(), x("a")
    curried = FuncType((T,), FuncType((T,), T))
    f = domains.of_type(curried)
    domains.tie(domains.result(f), f, "for a test", node)
    assert domains.find(domains.home(f)) == domains.find(domains.home(domains.result(f)))
    g_, first = domains.of_type(curried), domains.new()
    domains.tie(g_, first, "for a test", node)  # a function that meets what is first-order collapses
    assert domains.find(domains.param(g_, 0)) == domains.find(domains.result(g_)) == domains.find(first)


@pytest.mark.row("V5")
def test_a_new_domain_is_one_with_no_other() -> None:
    domains, node = Domains(), x("a")
    a, b = domains.new(), domains.new()
    domains.tie(a, b, "for a test", node)
    other = domains.new()
    assert domains.find(a) == domains.find(b) != domains.find(other)


@pytest.mark.row("V19")
def test_the_map_of_devices_by_node_and_by_number() -> None:
    a, b, c, d = map(x, "abcd")
    plan = planned(module(g.call("subtract", on(add(a, b), CPU), add(c, d)), a, b, c, d))
    found = device_map(plan)
    order = nodes(plan)
    assert len(found) == len(order) == 9
    assert found.of("main") == [ON_CPU, ON_CPU, ON_CPU, *[ON_GPU] * 6] == [found[n] for n in order]
    assert a not in found
    with pytest.raises(Invalid) as caught:
        found.of("other")
    assert caught.value.label == "devices.C2"


@pytest.mark.row("V8")
def test_a_module_that_names_no_device_is_left_alone() -> None:
    of = module(neg(a := x("a")), a)
    assert default_config(of) is None and plan_devices(of) is of


@pytest.mark.row("V4", "V8")
def test_the_configuration_that_a_module_asks_for() -> None:
    a = x("a")
    of = module(g.tuple_of(on(a, VirtualDevice("cuda")), on(neg(a), VirtualDevice("cuda", 1, "cuda -arch=sm_80"))), a)
    config = default_config(of)
    assert config is not None
    assert set(map(str, config.devices)) == {"cuda:1 (cuda -arch=sm_80)", "cpu:0 (c)"}
    assert config.host == config.default == CPU
    empty = default_config(module(on(a, VirtualDevice(), constrain_body=False), a))
    assert empty is not None and empty.devices == (CPU,)
    plan = planned(Module(of.definitions), None)
    assert params(plan) == {"a": "cuda"}
