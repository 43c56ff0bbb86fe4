"""Random programs with devices: the plan is checked, runs as the program does, and depends on no order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from assay.interp.graph import run
from assay.interp.values import Value
from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, Let, call, constant, function, let
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.walk import post_order
from assay.verify.devices import broken_plans, copies
from assay.verify.strategies.graphs import Maker
from tests.inputs import small_inputs
from tests.observation import observe
from tests.verify.devices.device_programs import program

pytestmark = pytest.mark.row("V5", "V7", "V8", "V9", "V11")


def planned_and_alike(seed: int, size: int) -> Counter[str]:
    """The plan of a program breaks no rule, cannot be told from the program by running, and is its own plan."""
    module, config = program(seed, size)
    check(module)
    try:
        planned = plan_devices(module, config)
    except Invalid as wrong:
        assert wrong.label == "devices.C1", seed  # two things are said of one value
        with pytest.raises(Invalid, match="devices.C1"):
            plan_devices(shuffled(module, seed), config)
        return Counter(refused=1)
    check(planned)
    assert [str(b) for b in broken_plans(module, planned, config, plan_devices)] == [], seed
    assert first_difference(planned, plan_devices(shuffled(module, seed), config)) is None, seed
    seen: Counter[str] = Counter(planned=1, copies=copies(planned), places=len(places(planned)) > 1)
    seen["scopes"] = any(d.scope != "global" for d in places(planned))
    seen["instances"] = len(planned.definitions) > len(module.definitions)
    random = Random(seed)
    for _ in range(2):
        values = small_inputs(random.randrange, module)
        wanted = observe(module, values)
        got = observe(planned, values)
        if wanted.trap is not None and got.trap is not None:  # an instance has a name of its own
            got = replace(got, trap=wanted.trap) if got.trap.kind == wanted.trap.kind else got
        assert wanted.difference(got) is None, seed
        seen.update(trap=wanted.trap is not None, value=wanted.trap is None)
    return seen


def shuffled(module: Module, seed: int) -> Module:
    """A module with its definitions in another order."""
    names = list(module.definitions)
    Random(seed).shuffle(names)
    return replace(module, definitions={n: module.definitions[n] for n in names})


def places(module: Module) -> set[VirtualDevice]:
    graphs = [d for d in module.definitions.values() if isinstance(d, Function)]
    return {n.device for d in graphs for n in post_order(d)}


def test_plans_of_random_programs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        seen += planned_and_alike(seed, 40)
    assert seen["planned"] > 4 * seen["refused"] and seen["places"] > 15 and seen["scopes"] > 5
    assert seen["copies"] > 50 and seen["instances"] > 0 and seen["trap"] > 2 and seen["value"] > 25


@pytest.mark.campaign
def test_campaign() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10_000, 20_000):
        seen += planned_and_alike(seed, 60)
    assert seen["planned"] > 7_500


def test_a_random_program_counts_down_from_few() -> None:
    """Its local functions are values, too, that others may call with any number; one that did took all memory."""
    seen: list[Expr] = []

    def count(node: Expr, value: Value) -> None:
        seen.append(node)
        assert len(seen) < 100

    for seed in range(3):
        made = Maker(Random(seed).randrange, 5).loop()
        assert isinstance(made, Let)
        used = let(made.var, made.value, call(made.var, constant(np.int32(2**30))))
        run(Module({"main": function([], used)}), {}, observe=count)
    assert len(seen) > 10


def test_one_device_needs_no_copy() -> None:
    """Without a word on devices the module stays as it is; with one device for all there is nothing to copy."""
    module = Maker(Random(3).randrange, 40).module()
    assert plan_devices(module) is module
    for config in (CompilationConfig.read(["cpu"]), CompilationConfig.read(["cuda"], host="cuda")):
        planned = plan_devices(module, config)
        assert copies(planned) == 0 and len(places(planned)) == 1
        assert broken_plans(module, planned, config, plan_devices) == []
