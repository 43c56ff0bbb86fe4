"""Constants, liveness and the planned program: the stage checks hold on what the passes make, and refuse faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.legalize import Strategy, legalize
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, call, constant, function, get, tuple_of, var
from assay.semantics.module import GROUP, Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import apply
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import TensorType
from assay.verify.app.stages import lowering_passes
from assay.verify.constants import check_constants
from assay.verify.legalize import check_legalize
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_pool

F = TensorType((2, 3), FLOAT32)


def sample() -> Module:
    """exp and relu of a sum with a folded constant; the input itself, and one value twice, among the outputs."""
    x = var("x", F)
    c = call("add", constant(np.full((2, 3), 2.0, np.float32)), constant(np.full((2, 3), 3.0, np.float32)))
    s = call("add", x, call("reshape", call("reshape", c, shape=(6,)), shape=(2, 3)))
    t = call("reshape", call("exp", s), shape=(3, 2))
    parts = call("split", t, sections=(1, 2), axis=0)
    body = tuple_of(t, call("nn.relu", get(parts, 1)), x, t, c, get(parts, 0))
    return Module({"main": function([x], body, outputs=("t", "r", "x", "again", "c", "p"))})


def stages(module: Module) -> dict[str, Module]:
    made = {"import": module}
    for name, run in lowering_passes(vector.run).items():
        made[name] = module = run(module)
    return made


def test_every_stage_is_well_formed() -> None:
    for module in stages(sample()).values():
        check_rules(module)


def test_every_check_holds() -> None:
    made = stages(sample())
    assert check_legalize(made["anf"], made["legalize"]).holds
    assert check_constants(made["legalize"], made["constants"])[0].holds
    evidence = check_program(made["constants"], made["liveness"])
    assert evidence.holds, evidence.detail
    assert check_lives(made["liveness"].program, made["liveness"].kernels).holds
    assert check_pool(made["pool"])[0].holds


@pytest.mark.row("C5")
def test_constants_are_folded_and_merged() -> None:
    made = stages(sample())
    values = [a.tolist() for a in made["constants"].constants.values()]
    assert values == [[[5.0] * 3] * 2]


def test_wrong_constant_is_named() -> None:
    made = stages(sample())
    (name,) = made["constants"].constants
    bad = replace(made["constants"], constants={name: np.full((2, 3), 5.5, np.float32)})
    evidence, _ = check_constants(made["legalize"], bad)
    assert not evidence.holds and name in evidence.detail and "add" in evidence.detail


def test_sign_of_zero_is_content() -> None:
    x = var("x", F)
    plus, minus = constant(np.zeros((2, 3), np.float32)), constant(np.full((2, 3), -0.0, np.float32))
    module = Module({"main": function([x], call("add", call("add", x, plus), minus))})
    assert len(stages(module)["constants"].constants) == 2


@pytest.mark.row("C7")
def test_overlapping_constants_are_refused() -> None:
    made = stages(sample())
    x = var("x", F)
    two = [constant(np.full((2, 3), v, np.float32)) for v in (1.0, 2.0)]
    made = stages(Module({"main": function([x], call("add", call("add", x, two[0]), two[1]))}))
    bad = replace(made["constants"], offsets=dict.fromkeys(made["constants"].offsets, 0))
    evidence, _ = check_constants(made["legalize"], bad)
    assert not evidence.holds and all(name in evidence.detail for name in bad.constants)


def test_dropped_step_is_refused() -> None:
    made = stages(sample())
    live = made["liveness"]
    for i in range(len(live.program.steps)):
        steps = live.program.steps[:i] + live.program.steps[i + 1 :]
        assert not check_program(made["constants"], live.with_(main=replace(live.program, steps=steps))).holds


def test_swapped_steps_are_refused() -> None:
    made = stages(sample())
    live = made["liveness"]
    a, b, *rest = live.program.steps
    assert not check_program(made["constants"], live.with_(main=replace(live.program, steps=(b, a, *rest)))).holds


def test_wrong_kernel_is_refused() -> None:
    made = stages(sample())
    module = made["legalize"]
    wrong = replace(build("nn.relu", {}, (F,), F, "exp"), attrs=module.kernel("exp").attrs)
    evidence = check_legalize(made["anf"], module.with_(exp=wrong))
    assert not evidence.holds and "exp" in evidence.detail


def test_legalize_leaves_the_rest_as_it_is() -> None:
    made = stages(sample())
    source, target = made["anf"], made["legalize"]
    grouped = replace(target.kernel("exp"), attrs={**target.kernel("exp").attrs, GROUP: "main"})
    assert "no tensor function for an operator" in check_legalize(source, target.with_(exp=grouped)).detail
    one, two = ({"c": np.full(3, k, np.float32)} for k in (1, 2))
    evidence = check_legalize(replace(source, constants=one), replace(target, constants=two))
    assert not evidence.holds and "table of constants" in evidence.detail


def test_a_claim_that_the_source_brought_along_is_tested() -> None:
    target = stages(sample())["legalize"]
    assert check_legalize(target, target).holds
    wrong = replace(build("nn.relu", {}, (F,), F, "exp"), attrs=target.kernel("exp").attrs)
    evidence = check_legalize(target.with_(exp=wrong), target.with_(exp=wrong))
    assert not evidence.holds and evidence.detail.startswith("exp: ")


@pytest.mark.row("A13")
def test_machine_and_graph_agree() -> None:
    from assay.interp import graph, machine

    made = stages(sample())
    x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 5}
    program = made["pool"].program
    got = machine.run(made["pool"], x)
    want = graph.run(replace(made["legalize"]), x)
    named = dict(zip(sample().main.attrs["outputs"], (got[s] for s in program.outputs), strict=True))
    assert {n: v.tobytes() for n, v in named.items()} == {n: v.tobytes() for n, v in want.items()}


@pytest.mark.row("R39")
def test_the_lowering_of_an_operator_can_be_chosen_and_is_held_to_the_operator() -> None:
    """A strategy gives `exp` a kernel of its own: the right one holds, one that forgets an element is refused."""
    of = TensorType((4,), FLOAT32)
    x = var("x", of)
    source = Module({"main": function([x], call("negative", call("exp", x)))})

    def strategy(extent: int) -> Strategy:
        def chosen(node: Call, name: str) -> PrimFunc | None:
            if not isinstance(node.op, Operator) or node.op.name != "exp":
                return None
            a, b = Buffer("a", (4,), FLOAT32), Buffer("b", (4,), FLOAT32)
            backwards = loops("i", (extent,), lambda i: store(b, 3 - i, apply("exp", a[3 - i])))
            return PrimFunc(name, (a, b), 1, backwards)

        return chosen

    right, wrong = (legalize(source, strategy(extent)) for extent in (4, 3))
    assert right.kernel("exp").params[0].name == "a" and check_legalize(source, right).holds
    evidence = check_legalize(source, wrong)
    assert not evidence.holds and "exp" in evidence.detail
