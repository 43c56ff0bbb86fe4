"""Random programs with devices, scopes and constants: planned and unplanned run the same, on memories of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.interp import machine
from assay.interp.device_access import NOTHING
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import AssayError
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.graph.effects import is_copy
from assay.semantics.module import Definition, Module, Step
from assay.semantics.tensor import AllocateConst, PrimFunc, Stmt, program_order
from assay.semantics.text.module_text import parse
from assay.semantics.walk import post_order, rewrite
from tests.verify.whole.whole_programs import TEXTURE, Case, case
from tests.verify.whole.witnessed_runs import Damage, Witness, bits_of, held, lowered

pytestmark = pytest.mark.row("V9", "V12", "V13", "V14", "V17", "V21", "C2", "C4", "C5", "C7")

# --- random programs ---------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn, size: int = 12) -> Case:
    return case(lambda n: draw(st.integers(0, n - 1)), size)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_planned_and_unplanned_run_the_same(one: Case) -> None:
    held(one)


@pytest.mark.campaign
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases(20))
def test_campaign(one: Case) -> None:
    held(one)


def test_what_is_made_has_everything() -> None:
    seen: Counter[str] = Counter()
    for seed in range(12):
        seen += held(case(Random(seed).randrange))
    assert min(seen[k] for k in ("programs on devices", "programs with scopes", "several pools")) > 5, seen
    assert min(seen[k] for k in ("constant pools", "one constant in two memories", "linked", "branches")) > 0, seen
    assert min(seen[k] for k in ("loads", "stores", "constants", "constants inside", "copied")) > 8, seen


@pytest.mark.parametrize("seed", [3, 105])  # the second has NaN with payloads in tables
def test_the_c_gives_the_same_bits(seed: int) -> None:
    held(case(Random(seed).randrange, 24), sanitized=True)


@pytest.mark.campaign
def test_the_c_gives_the_same_bits_often() -> None:
    for seed in range(100, 400):
        held(case(Random(seed).randrange, 24), sanitized=True)


# --- what was found ----------------------------------------------------------------------------------------------

NAME_OF_A_NAME = """
@R.function
def main(x: R.Tensor((4,), "int32")):
    a = R.add(x, x)
    b = R.add(x, a)
    c = a
    return (b, c)
"""
"""A value whose other name is used later was fused away."""

NAME_OF_A_CONSTANT = """
@R.function
def main(x: R.Tensor((4,), "int32")):
    a = R.const([1, 2, 3, 4], "int32")
    b = a
    c = b
    return (R.add(x, a), R.add(a, c))
"""
"""Folding lost a constant that has another name."""

UNUSED_NAME = """
@R.function
def main(x: R.Tensor((4,), "int32")):
    a = R.const([1, 2, 3, 4], "int32")
    b = a
    return x
"""

BY_NAME = """
@I.ir_module
class Module:
    w = A.tensor("int32", (4,), "AQAAAAIAAAADAAAABAAAAA==")
    @T.prim_func(private=True)
    def inner(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        for i in range(4):
            c = T.allocate_const(None, "int32", (4,), index="w")
            y[i] = x[i] + c[i]
    @T.prim_func(private=True)
    def outer(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        T.func_attr({"num_outputs": 1})
        t = T.alloc_buffer((4,), "int32")
        Module.inner(x.data, t.data)
        for i in range(4):
            c = T.allocate_const(None, "int32", (4,), index="w")
            y[i] = t[i] * c[3 - i]
    @R.function
    def main(x: R.Tensor((4,), "int32")):
        cls = Module
        a = R.call_tir(cls.inner, (R.const([4, 3, 2, 1], "int32"),), out_ty=R.Tensor((4,), "int32"))
        b = R.call_tir(cls.outer, (R.add(x, a),), out_ty=R.Tensor((4,), "int32"))
        return b
"""
"""Checks ran tensor functions of which the table has the constants, and did not fetch them."""


CONSTANT_TWICE = """
@I.ir_module
class Module:
    A.infos({"w": [64, "", ["", -1, "", "global.texture"]]})
    w = A.tensor("int32", (4,), "AQAAAAIAAAADAAAABAAAAA==")
    @T.prim_func(private=True)
    def f(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        for i in range(4):
            y[i] = x[i] + 1
    @R.function
    def main(x: R.Tensor((4,), "int32")):
        cls = Module
        a = R.call_tir(cls.f, (cls.w,), out_ty=R.Tensor((4,), "int32"))
        b = R.call_tir(cls.f, (cls.w,), out_ty=R.Tensor((4,), "int32"))
        return (a, R.add(b, x))
"""
"""A constant that is named twice was copied twice."""

CONSTANT_IN_TUPLE = """
@I.ir_module
class Module:
    w = A.tensor("int32", (4,), "AQAAAAIAAAADAAAABAAAAA==")
    @R.function
    def main(x: R.Tensor((4,), "int32")):
        a = (R.const([4, 3, 2, 1], "int32"), Module.w)
        b = a[1]
        return (x, b)
"""
"""The check of constants did not know by its name what had been in a tuple."""

EQUAL_TUPLES = """
@R.function
def main(x: R.Tensor((4,), "int32"), b: R.Tensor((), "bool")):
    with A.graph():
        c = A.on(R.const([4, 3, 2, 1], "int32"), "cpu")
        one = A.on_device((c, c), scope="global.texture")
        r = A.if_(b, one, (x, x))
        s = A.if_(b, (c, c), (x, x))
    return (r, s)
"""
"""Two tuples of one constant were one without devices in the source, and two in the plan, for there the constant has
two scopes."""

PROJECTED = """
@R.function
def main(x: R.Tensor((4,), "int32"), b: R.Tensor((), "bool")):
    with A.graph():
        y = A.on_device(R.add(x, x), "cuda")
        t = (y, R.const([4, 3, 2, 1], "int32"))
        h = t[0]
        r = A.if_(b, R.multiply(h, R.const([4, 3, 2, 1], "int32")), A.on_device(h, "cpu"))
    return (r, A.on_device(x, "cuda"), x)
"""
"""The check of copies counted a projection twice: by itself, and, where it is annotated, as a part of its tuple."""

IN_TWO_PLACES = """
@I.ir_module
class Module:
    w = A.tensor("int32", (4,), "AQAAAAIAAAADAAAABAAAAA==")
    @T.prim_func(private=True)
    def inner(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        for i in range(4):
            c = T.allocate_const(None, "int32", (4,), index="w")
            y[i] = x[i] + c[i]
    @T.prim_func(private=True)
    def outer(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        T.func_attr({"num_outputs": 1})
        Module.inner(x.data, y.data)
    @R.function
    def main(x: R.Tensor((4,), "int32")):
        cls = Module
        a = A.on(R.call_tir(cls.outer, (R.add(x, cls.w),), out_ty=R.Tensor((4,), "int32")), "cpu")
        b = A.on(R.call_tir(cls.outer, (a,), out_ty=R.Tensor((4,), "int32")), "cuda")
        return (a, b)
"""
"""A tensor function that runs in two places named a constant that is in one of them."""

FOUND = [
    NAME_OF_A_NAME, NAME_OF_A_CONSTANT, UNUSED_NAME, BY_NAME, CONSTANT_TWICE, CONSTANT_IN_TUPLE, EQUAL_TUPLES,
        PROJECTED,
    IN_TWO_PLACES,
]  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_what_was_found_stays_mended(text: str) -> None:
    module, values = parse(text), {"x": np.array([7, -1, 0, 2], np.int32), "b": np.array(True)}
    inputs = {p.name: values[p.name] for p in module.main.params}
    for linked in (False, True):
        held(Case(module, CompilationConfig.read(["cpu", "cuda"], default="cuda"), inputs, linked, 0))


# --- faults ------------------------------------------------------------------------------------------------------


def first(module: Module, meant: Callable[[Expr], bool], change: Callable[[Expr], Expr]) -> Module:
    """The module with another node in place of the first that is meant."""
    for name, d in module.definitions.items():
        nodes = list(post_order(d)) if isinstance(d, Function) else []
        found = next(filter(meant, nodes), None)
        if found is None:
            continue
        new: dict[int, Any] = {}
        for n in nodes:
            made = n.with_children([new[id(c)] for c in n.children])
            new[id(n)] = change(made) if n is found else made
        return module.with_(**{name: new[id(d)]})
    return module


def without_copy(module: Module) -> Module:
    return first(module, lambda n: is_copy(n, module), lambda n: n.children[0])


def elsewhere(module: Module) -> Module:
    def other(node: Expr) -> Expr:
        return replace(node, device=VirtualDevice("npu", 0, "npu", node.device.scope))

    return first(module, lambda n: isinstance(n, CallTIR), other)


def without_scope(module: Module) -> Module:
    def main_memory(node: Expr) -> Expr:
        return replace(node, device=replace(node.device, scope="global"))

    return first(module, lambda n: bool(n.children) and n.device.scope == TEXTURE, main_memory)


def zeros_merged(module: Module) -> Module:
    """Each constant with zeros of one sign."""
    arrays = {n: np.where(a == 0, a.dtype.type(0), a) for n, a in module.constants.items()}
    if all(bits_of(a) == bits_of(module.constants[n]) for n, a in arrays.items()):
        return module
    definitions: dict[str, Definition] = dict(module.definitions)
    for name, k in module.kernels.items():
        definitions[name] = with_held(k, lambda s: replace(s, data=arrays[s.index]))
    return replace(module, definitions=definitions, constants=arrays)


def another_constant(module: Module) -> Module:
    """A constant in a tensor function is another of its type."""
    for name, k in module.kernels.items():
        for s in program_order(k.body):
            if isinstance(s, AllocateConst):
                own = bits_of(s.contents)
                others = (n for n, a in module.constants.items() if bits_of(a)[:2] == own[:2] and bits_of(a) != own)
                wrong = replace(s, index=next(others, s.index), data=None)
                if wrong.index != s.index:
                    return module.with_(
                        **{name: with_held(k, lambda t, s=s, wrong=wrong: wrong if t.buffer is s.buffer else t)}
                    )
    return module


def with_held(kernel: PrimFunc, other: Callable[[AllocateConst], AllocateConst]) -> PrimFunc:
    """A tensor function with other constants."""

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, AllocateConst):
            return stmt
        wanted = other(stmt)
        return replace(stmt, index=wanted.index, data=wanted.data)

    return replace(kernel, body=rewrite(kernel.body, change))


def moved(module: Module) -> Module:
    """A constant of a tensor function is on another device than that runs on."""
    calls = {
        n.func: n.device
        for d in module.definitions.values()
        if isinstance(d, Function)
        for n in post_order(d)
        if isinstance(n, CallTIR)
    }
    held_ = (
        (s.index, d)
        for n, d in calls.items()
        for s in program_order(module.kernel(n).body)
        if isinstance(s, AllocateConst)
    )
    name, device = next(held_, ("", ANYWHERE))
    other = replace(device, id=device.id + 7)
    return replace(module, infos={**module.infos, name: replace(module.info(name), device=other)}) if name else module


def shifted(module: Module) -> Module:
    """A constant lies two bytes further."""
    program = module.program
    found = next((s for s in program.placed("constant") if s.offset is not None), None)
    if found is None or found.offset is None:
        return module
    return module.with_(
        main=replace(program, slots={**program.slots, found.name: replace(found, offset=found.offset + 2)})
    )


def stored_to(module: Module) -> Module:
    """A step writes a constant."""
    program = module.program
    for i, step in enumerate(program.steps):
        for name in step.writes:
            to = next((s for s in program.placed("constant") if str(s.type) == str(program.slots[name].type)), None)
            if to is not None and isinstance(step, Step):
                made = replace(step, writes=tuple(to.name if n == name else n for n in step.writes), in_place=())
                return module.with_(main=replace(program, steps=(*program.steps[:i], made, *program.steps[i + 1 :])))
    return module


FAULTS: dict[str, tuple[str, Callable[[Module], Module]]] = {
    "a copy is dropped": ("devices", without_copy),
    "a device is another": ("legalize", elsewhere),
    "a scope is dropped": ("devices", without_scope),
    "zeros are merged": ("constants", zeros_merged),
    "an index names another constant": ("constants", another_constant),
    "a constant is elsewhere": ("constants", moved),
    "a constant is shifted": ("pool", shifted),
    "a constant is written": ("pool", stored_to),
}


def planted(fault: str) -> tuple[Damage, list[bool]]:
    """A fault at its stage, and whether it was done."""
    at, change = FAULTS[fault]
    done: list[bool] = []

    def damage(stage: str, module: Module) -> Module:
        made = change(module) if stage == at else module
        done.append(made is not module)
        return made

    return damage, done


def is_found(one: Case, damage: Damage, *, checked: bool) -> bool:
    try:
        held(one, damage, checked=checked)
    except (AssertionError, AssayError):
        return True
    return False


@cache
def stages_of(seed: int) -> list[tuple[str, Module]]:
    """What the stages make of a random program without a fault; a fault that changes none of it is not there."""
    seen: list[tuple[str, Module]] = []

    def record(stage: str, module: Module) -> Module:
        seen.append((stage, module))
        return module

    held(case(Random(seed).randrange), record, checked=False)
    return seen


def modules_at(at: str, seed: int) -> list[Module]:
    return [module for stage, module in stages_of(seed) if stage == at]


@pytest.mark.parametrize("often", [1, pytest.param(2, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, often: int) -> None:
    """By a check, always; and by the run alone, with all checks asleep."""
    tries = by_run = 0
    at, change = FAULTS[fault]
    for seed in range(200):
        if not any(change(module) is not module for module in modules_at(at, seed)):
            continue
        one = case(Random(seed).randrange)
        damage, done = planted(fault)
        assert is_found(one, damage, checked=True) and any(done), f"seed {seed}"
        tries += 1
        by_run += is_found(one, planted(fault)[0], checked=False)
        if tries >= 2 * often and by_run >= often:
            return
    raise AssertionError((tries, by_run))


def test_the_witness_needs_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees what is touched across where the machine looks away, and what would be stored to a constant."""
    monkeypatch.setattr(machine.Across, "of_step", lambda *args: NOTHING)
    moved = 0
    for seed in range(20):
        one = case(Random(seed).randrange)
        module = lowered(one, checked=False)
        step, *rest = module.program.steps or [None]
        if isinstance(step, Step):
            steps = (replace(step, device=VirtualDevice("npu", 0, "npu")), *rest)
            witness = Witness(module.with_(main=replace(module.program, steps=steps)))
            machine.run(witness.module, one.inputs, execute=witness.execute, observe=witness.step)
            assert witness.crossed
            moved += 1
    assert moved > 10
    module = parse(BY_NAME)
    witness, x = Witness(module), np.zeros(4, np.int32)
    witness.execute(module.resolved().kernel("inner"), [x], [x])
    assert not witness.stored
    witness.execute(module.resolved().kernel("inner"), [x], [module.constants["w"]])
    assert witness.stored == ["inner"]
