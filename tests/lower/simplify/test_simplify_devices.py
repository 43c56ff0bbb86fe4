"""No pass of "simplify" changes what a program does or where a value is; names stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from assay.interp.graph import evaluate
from assay.lower.anf import to_anf
from assay.lower.devices import plan_devices
from assay.lower.simplify.canonical import canonical_bindings
from assay.lower.simplify.common_subexpressions import common_subexpressions
from assay.lower.simplify.dead_code import dead_code, remove_dead_bindings
from assay.lower.simplify.fold import fold_constants
from assay.lower.simplify.inline import inline
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference
from assay.semantics.analyses.variables import bound_variables
from assay.semantics.builder import tensor
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function
from assay.semantics.graph.effects import is_copy
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.walk import post_order
from assay.verify.devices.places import misplaced_values
from assay.verify.simplify import check_simplified
from tests.lower.simplify.simplify_programs import crossings, placed
from tests.lower.small_programs import program
from tests.observation import observe
from tests.scale import MANY
from tests.verify.devices import device_programs

PASSES: dict[str, Callable[[Module], Module]] = {
    "dead code": remove_dead_bindings,
    "canonical": canonical_bindings,
    "fold": lambda m: fold_constants(m, evaluate),
    "common": common_subexpressions,
    "inline": inline,
}


def size(module: Module) -> int:
    return sum(1 for d in module.definitions.values() if isinstance(d, Function) for _ in post_order(d))


def names(module: Module) -> set[str]:
    """The names of variables, without the numbers that tell copies apart."""
    functions = [d for d in module.definitions.values() if isinstance(d, Function)]
    return {re.sub(r"_\d+$", "", v.name) for f in functions for v in bound_variables(f)}


@pytest.mark.row("V17", "V18")
@pytest.mark.parametrize("name", PASSES)
def test_nothing_moves(name: str) -> None:
    changed = traps = 0
    for seed in range(12):
        source, inputs = placed(seed)
        assert not crossings(source)
        for module in (source, to_anf(source)):
            result = PASSES[name](module)
            check(result)
            assert not crossings(result), seed
            evidence = check_simplified(module, result)
            assert evidence.holds, f"{seed}: {evidence.detail}"
            seen = observe(module, inputs)
            assert seen.difference(observe(result, inputs)) is None, seed
            assert names(result) <= names(module)
            assert first_difference(result, PASSES[name](module)) is None
            changed += size(result) != size(module)
            traps += seen.trap is not None
    assert changed > 8 and traps > 1


@pytest.mark.row("V17", "V18")
@pytest.mark.parametrize("name", PASSES)
def test_effects_and_failures_stay(name: str) -> None:
    for seed in range(25):
        module, inputs = program(seed)
        result = PASSES[name](module)
        check(result)
        evidence = check_simplified(module, result)
        assert evidence.holds, f"{seed}: {evidence.detail}"
        assert observe(module, inputs).difference(observe(result, inputs)) is None
        assert names(result) <= names(module)


@pytest.mark.row("V9", "V17")
def test_copies_that_become_copies_of_one_variable_are_one() -> None:
    cpu, gpu = (VirtualDevice(*d, "global") for d in (("cpu", 0, "c"), ("cuda", 0, "cuda")))
    x, v, p, q = (replace(graph.var(n, tensor(3)), device=d) for n, d in zip("xvpq", (cpu, cpu, gpu, gpu), strict=True))
    alias = replace(graph.let(v, x, v), device=cpu)
    one, other = graph.device_copy(x, gpu), graph.device_copy(alias, gpu)

    def copies(module: Module) -> int:
        return sum(is_copy(n, module) for n in post_order(module.main))

    plain = Module({"main": graph.function([x], graph.call("add", one, other))})
    assert (copies(plain), copies(canonical_bindings(plain))) == (2, 1)
    named = Module({"main": graph.function([x], graph.let(p, one, graph.let(q, other, graph.call("add", p, q))))})
    assert copies(canonical_bindings(named)) == 2  # each let keeps its own


def test_one_after_another() -> None:
    for seed in range(10):
        module, inputs = placed(seed)
        result = to_anf(module)
        for step in (inline, PASSES["fold"], to_anf, canonical_bindings, common_subexpressions, dead_code):
            before, result = result, step(result)
            assert step is to_anf or check_simplified(before, result).holds
        assert not crossings(result) and size(result) < size(to_anf(inline(module)))
        assert observe(module, inputs).difference(observe(result, inputs)) is None


@pytest.mark.row("V20")
@pytest.mark.slow
def test_deep_programs() -> None:
    deep = MANY
    x = graph.var("x", tensor(3))
    value: Expr = x
    for i in range(deep):
        value = graph.call("nn.relu", value) if i % 2 else graph.call("add", value, x)
    v = graph.var("v", tensor(3))
    module = result = Module({"main": graph.function([x], graph.let(v, value, v))})
    for name in ("fold", "common", "inline"):
        result = PASSES[name](result)
    assert first_difference(result, module) is None


@pytest.mark.row("V17", "V18")
def test_annotated_and_planned_programs() -> None:
    """Programs with annotations, and what planning makes of them, some lowered and in several scopes: what is planned
    breaks no rule of plans afterwards."""
    planned = 0
    for seed in range(35):
        source, config = device_programs.program(seed)
        modules = [source]
        try:
            modules.append(plan_devices(source, config))
        except Invalid:  # two things are said of one value
            continue
        planned += 1
        for name, step in PASSES.items():
            for module in modules:
                result = step(module)
                check(result)
                evidence = check_simplified(module, result)
                assert evidence.holds, f"{name} of {seed}: {evidence.detail}"
            assert [str(b) for b in misplaced_values(result, config)] == [], f"{name} of {seed}"
    assert planned > 20
