"""The check of device plans: erasure, what the source says, fewest copies, and the shared programs of specs/devices."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Constant, Expr, Function, OnDevice, call, constant, function, on_device, var
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.devices import broken_plans, check_devices, copies, erase, fewest, names_devices
from tests.lower.devices.device_cases import names, read
from tests.museum.faults import device_faults as programs
from tests.museum.faults.device_faults import CONFIG, CPU, GPU, program
from tests.scale import MANY


@pytest.mark.row("V9", "V11")
@pytest.mark.parametrize("name", names())
def test_the_plans_of_the_shared_programs_break_no_rule(name: str) -> None:
    case = read(name)
    planned = plan_devices(case.source, case.config)
    assert [str(b) for b in broken_plans(case.source, planned, case.config, plan_devices)] == []


def test_erasure_leaves_nothing_of_devices() -> None:
    bare = erase(plan_devices(parse(programs.INSTANCES), CONFIG))
    graphs = [d for d in bare.definitions.values() if isinstance(d, Function)]
    assert list(bare.definitions) == ["f", "main"] and copies(bare) == 0 and not names_devices(bare)
    for node in (n for d in graphs for n in post_order(d)):
        assert not isinstance(node, OnDevice) and all(n.device == ANYWHERE for n in (node, *bound_by(node)))
    assert first_difference(bare, erase(parse(programs.INSTANCES))) is None
    assert first_difference(erase(bare), bare) is None


def test_erasure_tells_programs_apart() -> None:
    """A tuple of the fields of another is that one, but only of all of them, in their order."""
    whole = parse(program("t: R.Tuple(T, T)", "return (t[0], t[1])"))
    assert first_difference(erase(whole), erase(parse(program("t: R.Tuple(T, T)", "return t")))) is None
    for body in ("return (t[1], t[0])", "return (t[0], t[0])"):
        assert first_difference(erase(whole), erase(parse(program("t: R.Tuple(T, T)", body)))) is not None
    assert first_difference(erase(parse(programs.BORDER)), erase(parse(programs.SHARED))) is not None


def test_without_a_configuration_nothing_changes() -> None:
    module = parse(program("x: T", "return R.exp(x)"))
    assert not names_devices(module)
    assert check_devices(module, module, None).how == "proved"
    assert not check_devices(module, parse(program("x: T", "return R.tanh(x)")), None).holds
    named = parse(programs.BORDER)
    assert names_devices(named) and not check_devices(named, named, None).holds


@pytest.mark.row("V21")
def test_one_copy_serves_all_users() -> None:
    module = parse(programs.SHARED)
    planned = plan_devices(module, CONFIG)
    assert copies(planned) == 1 and check_devices(module, planned, CONFIG, plan_devices).holds
    assert copies(programs.copied_for_each(module, CONFIG)) == 2


def test_copies_that_can_be_saved_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small plan with too many copies is refuted; in a large one they are counted; what z3 cannot say is said so."""
    module = parse(programs.FEW)
    wasteful, _ = next(f for f in programs.FAULTS if f.layer == "devices: copies").wrong(module)
    assert "2 are enough" in check_devices(module, wasteful, CONFIG).detail
    monkeypatch.setattr(fewest, "SMALL", 0)
    counted = check_devices(module, wasteful, CONFIG)
    assert counted.holds and counted.data["avoidable"] == 1 and "1 copy avoidable" in counted.detail
    monkeypatch.setattr(fewest, "STEPS", 1)
    unknown = check_devices(module, plan_devices(module, CONFIG), CONFIG)
    assert unknown.data["unknown"] > 0 and "no choice of devices needs fewer" not in unknown.detail


def test_the_fewest_copies_are_those_of_trying_all() -> None:
    rng = random.Random(5)
    labels = [CPU, GPU, replace(GPU, id=1)]
    for _ in range(60):
        count = rng.randrange(2, 6)
        may = {c: sorted(rng.sample(labels, rng.choice((1, 2, 3))), key=repr) for c in range(count)}
        pairs = {
            ((rng.randrange(3),), *rng.sample(range(count), 2)): rng.randrange(1, 3) for _ in range(rng.randrange(1, 7))
        }
        pairs = {(v, a, w): v[0] + 1 for (v, a, w) in pairs}  # a value has so many tensors at all its uses
        tried = []
        for chosen in itertools.product(*may.values()):
            made = {(v, chosen[w]): n for (v, a, w), n in pairs.items() if chosen[a] != chosen[w]}
            tried.append(sum(made.values()))
        found = fewest.fewest_copies(pairs, may, None)
        assert found is not None and found.sure and found.copies == min(tried)


THREE = CompilationConfig.read(["cuda:0", "cuda:1", "cpu"], default="cuda:0")


@pytest.mark.row("V9")
def test_two_components_that_contradict_themselves_and_share_a_value() -> None:
    """Where `a` had better be is known only when it is known where `c` is, which is in another component."""
    lines = (
        'p = A.on_device(R.exp(x), "cuda", 1)',
        'q = A.on_device(R.exp(y), "cuda", 1)',
        'r = A.on_device(R.exp(z), "cuda", 0)',
        "with A.graph():",
        "    a = R.add(R.add(p, r), q)",
        '    b = A.on_device(a, "cpu", constrain_body=False, constrain_result=True)',
        "    c = R.negative(b)",
        'e = A.on_device(R.multiply(c, b), "cpu")',
        'f = A.on_device(R.abs(c), "cuda", 1)',
        "return (e, f)",
    )
    module = parse(program("x: T, y: T, z: T", *lines))
    planned = plan_devices(module, THREE)
    assert broken_plans(module, planned, THREE, plan_devices) == [] and copies(planned) == 4


def test_a_node_of_two_functions_is_a_value_in_each() -> None:
    held = constant(np.ones(2, np.float32))
    held = replace(held, device=VirtualDevice("cuda"))
    x, y = var("x", TensorType((2,), FLOAT32)), var("y", TensorType((2,), FLOAT32))
    there = replace(call("add", x, held), device=THREE.devices[1])
    module = Module({"main": function([x], there), "other": function([y], call("add", y, held))})
    planned = plan_devices(module, THREE)
    found = [n.device.id for d in planned.definitions.values() if isinstance(d, Function) for n in constants_of(d)]
    assert found == [1, 0] and broken_plans(module, planned, THREE, plan_devices) == []


def constants_of(of: Expr) -> list[Expr]:
    return [n for n in post_order(of) if isinstance(n, Constant)]


PASSED_ON = {
    "named and given": "y = R.exp(a)\n        return y",
    "taken apart and put together": "t = (R.exp(a), a)\n        return (t[0], t[1])",
}


@pytest.mark.parametrize("how", PASSED_ON)
def test_a_function_with_two_instances_may_give_a_value_by_another_name(how: str) -> None:
    """In both instances that is the value itself, as it is in the function of the source."""
    field = "[0]" if "t[0]" in PASSED_ON[how] else ""
    text = program(
        'x: A.on(T, "cpu"), y: A.on(T, "cuda")',
        f"p = M.f(x){field}",
        f"q = M.f(y){field}",
        'return (A.on_device(R.exp(p), "cpu", constrain_result=True), A.on_device(R.exp(q), "cuda",'
        " constrain_result=True))",
        before=f"    @R.function\n    def f(a: {programs.T}):\n        {PASSED_ON[how]}\n",
    )
    module = parse(text)
    planned = plan_devices(module, CONFIG)
    assert set(planned.definitions) == {"f", "f_cpu", "f_cuda", "main"}
    assert broken_plans(module, planned, CONFIG, plan_devices) == []


def said_of(module: Module, by: Module) -> list[str]:
    """What is said of a plan of another module, which says more of devices."""
    return [str(b) for b in broken_plans(module, plan_devices(by, CONFIG), CONFIG)]


def test_a_tuple_is_where_what_it_is_made_of_wants_it() -> None:
    """A constant is wherever it is used, so a tuple with one may be elsewhere than the fields that are copied into
    it."""
    pair = '(R.const(1, "float32"), x)'
    module, other = (
        parse(program('x: A.on(T, "cuda")', f"return {value}")) for value in (pair, f'A.on_device({pair}, "cpu")')
    )
    assert said_of(module, module) == []
    (wrong,) = said_of(module, other)
    assert wrong.startswith("default: tuple:") and "is on cpu:0 (c); by what is said of it" in wrong


def test_a_copy_is_of_the_value_behind_an_annotation() -> None:
    """Where only the copy is said to be on a device, it counts unless the value is there."""
    value = "R.exp(x)"

    def fields(first: str) -> Module:
        drawn = f'A.on(R.exp(A.on_device({first}, "cpu", constrain_body=False, constrain_result=True)), "cpu")'
        return parse(program("x: T", f'return (A.on(R.negative(x), "cuda"), A.on(R.tanh(x), "cpu"), {drawn})'))

    assert said_of(fields(value), fields(value)) == []
    assert said_of(fields(value), fields(f'A.on({value}, "cuda")')) == [
        "copies: 3 copies between places where 2 are enough"
    ]


def test_a_result_may_be_elsewhere_than_what_draws_it() -> None:
    """The annotation says nothing of the value, and the function says where its result is."""
    module = parse(program("x: T", 'return A.on_device(R.exp(x), "cpu", constrain_body=False, constrain_result=True)'))
    for device, count in ((GPU, 0), (CPU, 1)):
        there = module.with_(main=replace(module.main, device=device))
        assert said_of(there, there) == [] and copies(plan_devices(there, CONFIG)) == count


@pytest.mark.row("V20")
def test_deep_plans() -> None:
    """A chain of calls with a border in the middle, checked without a deep stack."""
    x = var("x", TensorType((2,), FLOAT32))
    value: Expr = x
    for i in range(MANY):
        value = call("negative", value)
        if i == MANY // 2:
            value = on_device(value, CPU)
    module = Module({"main": function([x], value)})
    planned = plan_devices(module, CONFIG)
    assert copies(planned) == 1 and check_devices(module, planned, CONFIG).holds
