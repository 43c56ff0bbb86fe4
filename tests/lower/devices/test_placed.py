"""Programs on several devices: where liveness, pools and C put each slot (specs/lower.md, "liveness", "pool", "c")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp import machine
from assay.interp.graph import run as run_graph
from assay.lower.anf import to_anf
from assay.lower.c import emit
from assay.lower.c.convention import find_devices
from assay.lower.devices import plan_devices
from assay.lower.devices.scopes import with_scopes
from assay.lower.fuse import fuse, fuse_calls
from assay.lower.interfaces import Interface
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory, plan_pools, pools_of
from assay.semantics.alias import bindings
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, Function, GlobalVar, Var, call, function, if_, tuple_of, var
from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.ops import operator
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.legalize import check_legalize
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_pool
from tests.lower.devices.memory_access import check_memory_access
from tests.lower.devices.placed_programs import CONFIG, CPU, CUDA, F4, TEXTURE, X, living, on, planned, planned_source
from tests.lower.memory.planned import same_bits


@pytest.fixture(scope="module")
def made() -> Module:
    return planned()


def devices(program: Program) -> dict[str, VirtualDevice]:
    return {n: s.device for n, s in program.slots.items()}


@pytest.mark.row("V12", "V17")
def test_every_slot_is_where_its_value_lives(made: Module) -> None:
    program = made.program
    assert ANYWHERE not in devices(program).values()
    for step in program.calls:
        kernel = made.kernel(step.kernel)
        assert all(program.slots[n].device == step.device for n in step.writes)
        for name, buffer in zip(step.scratch, kernel.allocations, strict=True):
            assert program.slots[name].device == replace(step.device, scope=buffer.scope)
        scopes = [program.slots[n].device.scope for n in (*step.reads, *step.writes)]
        assert [b.scope for b in kernel.params] == scopes
    assert {p.name: p.device for p in program.pools} == {
        "workspace_cpu_0": CPU, "workspace_cuda_0": CUDA, "workspace_cuda_0_texture": TEXTURE
    }  # fmt: skip
    assert all(program.pool_of(s).device == s.device for s in program.placed("workspace"))
    assert program.host == CPU and {
        program.slots[s.condition].device for s in program.steps if not isinstance(s, Step)
    } == {CPU}
    # one constant on two devices is two slots
    assert sorted(str(s.device) for s in program.placed("constant")) == sorted(map(str, (CPU, CUDA)))


@pytest.mark.row("V12", "V14")
def test_all_stages_hold_and_forgetting_a_device_is_seen() -> None:
    source = living(planned_source())
    made = find_lives(source, host=CPU)
    assert check_program(source, made).holds and check_memory_access(made.program, made.kernels).holds
    program = made.program
    for name, slot in program.slots.items():
        for wrong in (ANYWHERE, TEXTURE):
            if wrong == slot.device:
                continue
            slots = {**program.slots, name: replace(slot, device=wrong)}
            other = made.with_(main=replace(program, slots=slots))
            seen = not check_program(source, other).holds or not check_memory_access(other.program, other.kernels).holds
            assert seen, (name, wrong)


@pytest.mark.row("V12", "V14")
def test_kernels_have_the_scopes_of_what_they_are_given() -> None:
    x = replace(var("x", F4), device=TEXTURE)
    twice = on(CUDA, "add", on(TEXTURE, "exp", x), on(CUDA, "exp", x))
    source = to_anf(Module({"main": function([x], on(CUDA, "exp", twice))}))
    made = legalize(source)
    assert {n: [b.scope for b in k.params] for n, k in made.kernels.items()} == {
        "exp": ["global.texture", "global.texture"],
        "exp1": ["global.texture", "global"],
        "add": ["global.texture", "global", "global"],
        "exp2": ["global", "global"],
    }
    assert check_legalize(source, made).holds
    for name in ("exp", "exp1", "add"):  # another of the same operator, in the main memory
        kernel = made.kernel(name)
        plain = with_scopes(kernel, name, dict.fromkeys(range(len(kernel.params)), "global"))
        assert not check_legalize(source, made.with_(**{name: plain})).holds
    assert all(v.device == value.device for v, value in bindings(made.main))


@pytest.mark.row("V11", "V15")
def test_planning_again_after_lowering_changes_nothing() -> None:
    """Kernels with scopes, and primitive functions with their own devices, are what a plan would have."""
    kernels = legalize(to_anf(planned_source()))
    for module in (kernels, fuse_calls(kernels), fuse(kernels)):
        assert plan_devices(module, CONFIG) is module
    group = next(d for n, d in fuse_calls(kernels).definitions.items() if n.startswith("group"))
    assert isinstance(group, Function) and {p.device for p in group.params} == {CUDA, TEXTURE} and group.device == CUDA


@pytest.mark.row("V17")
def test_calls_on_other_devices_or_scopes_are_not_fused() -> None:
    def calls(*places: VirtualDevice, copies: bool = False) -> int:
        value: Expr = replace(var("x", F4), device=CPU)
        x = value
        for p in places:
            value = on(p, "device_copy" if copies else "exp", value)
        assert isinstance(x, Var)
        done = fuse(legalize(to_anf(Module({"main": function([x], value)}))))
        return sum(isinstance(value, CallTIR) for _, value in bindings(done.main))

    assert calls(CPU, CPU, CPU) == 1 and calls(CUDA, CUDA, CUDA) == 1
    assert calls(CPU, CPU, CUDA, CUDA) == 2 and calls(CUDA, TEXTURE, CUDA) == 3
    assert calls(CUDA, CPU, CUDA, copies=True) == 3 and calls(CUDA, CUDA, copies=True) == 2


@pytest.mark.row("V17")
def test_a_fused_kernel_has_the_scopes_of_its_calls() -> None:
    x = replace(var("x", F4), device=TEXTURE)
    done = fuse(legalize(to_anf(Module({"main": function([x], on(CUDA, "exp", on(CUDA, "negative", x)))}))))
    (kernel,) = [k for n, k in done.kernels.items() if n.startswith("fused")]
    assert [b.scope for b in kernel.params] == ["global.texture", "global"]
    group = done.group(kernel)
    assert group is not None and [p.device for p in group.params] == [TEXTURE]


def test_in_place_only_within_one_memory() -> None:
    def pairs(place: VirtualDevice) -> list[tuple[tuple[int, int], ...]]:
        x = replace(var("x", F4), device=CUDA)
        value = on(CUDA, "exp", on(place, "exp", on(CUDA, "exp", x)))
        program = plan_pools(find_lives(legalize(to_anf(Module({"main": function([x], value)}))))).program
        return [s.in_place for s in program.calls]

    assert pairs(CUDA) == [(), ((0, 0),), ()] and pairs(TEXTURE) == [(), (), ()]


# --- names of one memory ---------------------------------------------------------------------------------------------


def test_views_functions_and_choices_keep_their_memory() -> None:
    """A view is its operand's slot; what a function of the module makes is where its body says; so is a choice."""
    p, x = replace(var("p", F4), device=CUDA), replace(var("x", F4), device=CUDA)
    flat = call(operator("reshape"), on(CUDA, "exp", p), shape=(8,))
    inner = function([p], replace(flat, device=CUDA))
    back = replace(call(GlobalVar(inner.type, "f"), x), device=CUDA)
    flag = replace(var("flag", TensorType((), BOOL)), device=CPU)
    picked = replace(if_(flag, on(CUDA, "negative", back), back), device=CUDA)
    main = function([x, flag], tuple_of(on(CUDA, "exp", picked)))
    source = legalize(to_anf(Module({"main": main, "f": inner})))
    done = find_lives(source, host=CPU)
    assert {n: d for n, d in devices(done.program).items() if n != "flag"} == dict.fromkeys(
        (n for n in done.program.slots if n != "flag"), CUDA
    )
    assert check_program(source, done).holds and check_memory_access(done.program, done.kernels).holds


@pytest.mark.parametrize("order", [(CPU, CUDA), (CUDA, CPU), (CPU, replace(CPU, scope="global.l2"))])
def test_a_choice_between_devices_wants_a_copy(order: tuple[VirtualDevice, VirtualDevice]) -> None:
    x, flag = var("x", F4), var("flag", TensorType((), BOOL))
    picked = if_(flag, on(order[0], "exp", x), on(order[1], "negative", x))
    source = legalize(to_anf(Module({"main": function([x, flag], call(operator("tanh"), picked))})))
    with pytest.raises(Invalid, match=r"only a device_copy crosses.*assay\.lower\.devices") as wrong:
        find_lives(source)
    assert wrong.value.label == "liveness.C8"


# --- pools -----------------------------------------------------------------------------------------------------------


def on_slots(*places: VirtualDevice) -> Module:
    """Slots of the workspace, one for each place."""
    of = TensorType((4,), FLOAT32)
    slots = {f"s{i}": Slot(f"s{i}", of, "workspace", ((0, 1),), 64, device=d) for i, d in enumerate(places)}
    return Module({"main": Program(slots, (), (), ())})


def test_names_of_pools() -> None:
    def names(*places: VirtualDevice) -> list[str]:
        return [p.name for p in pools_of(on_slots(*places).program)]

    assert names() == names(CUDA) == names(TEXTURE) == names(ANYWHERE) == ["workspace"]
    assert names(CPU, CUDA, CPU, TEXTURE) == ["workspace_cpu_0", "workspace_cuda_0", "workspace_cuda_0_texture"]
    assert names(CUDA, ANYWHERE) == ["workspace_cuda_0", "workspace"]
    l2, odd = VirtualDevice("npu", 1, scope="shared"), VirtualDevice(target="my dsp", id=2)
    assert names(l2, odd, VirtualDevice("npu")) == ["workspace_npu_1_shared", "workspace_my_2", "workspace_npu"]
    # a target is in no name, but two memories are two pools
    assert names(CPU, replace(CPU, target="llvm")) == ["workspace_cpu_0", "workspace_cpu_0_1"]
    # what names no scope is in the main memory
    assert names(replace(CUDA, scope=""), CUDA) == ["workspace"]


def test_one_pool_holds_one_memory() -> None:
    both = on_slots(CPU, CUDA)
    with pytest.raises(
        Invalid, match="the pool workspace.* would hold buffer s0 on cpu:0 .* and buffer s1 on cuda:0"
    ) as wrong:
        plan_pools(both, Memory((Pool("workspace"),)))
    assert wrong.value.label == "pool.C2"
    with pytest.raises(Invalid, match="no pool is on cuda:0 global, where buffer s1") as wrong:
        plan_pools(both, Memory((Pool("host", device=CPU),)))
    assert wrong.value.label == "pool.C1"
    with pytest.raises(Invalid, match="no pool is on cuda:0 global.texture"):
        plan_pools(on_slots(TEXTURE), Memory((Pool("main", device=CUDA),)))
    done = plan_pools(both, Memory((Pool("far", device=CUDA), Pool("host", device=CPU.place)))).program
    assert {n: s.pool for n, s in done.slots.items()} == {"s0": "host", "s1": "far"}
    # a pool of which nothing is said is that of what lies there
    assert check_pool(plan_pools(on_slots(CUDA, CUDA), Memory((Pool("a", limit=64), Pool("b")))))[0].holds


# --- C ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", Interface)
def test_c_gives_the_bits_of_the_machine(made: Module, interface: Interface) -> None:
    source = emit(made, "placed", interface=interface)
    assert [w.name for w in source.workspaces] == ["workspace_cpu_0", "workspace_cuda_0", "workspace_cuda_0_texture"]
    assert [d.name for d in source.devices] == ["cuda"]  # the host has no hooks
    compiled = compile_c(source, reproducible=True)
    for flag in (True, False):
        inputs = {"x": X, "flag": np.bool_(flag)}
        want = machine.run(made, inputs)
        got = compiled.run({n: np.asarray(a) for n, a in inputs.items()})
        assert all(same_bits(want[n], got[n]) for n in want)
        close = run_graph(planned_source(), inputs)
        assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(close.values(), want.values(), strict=True))


def test_a_copy_runs_in_the_stretch_of_its_destination(made: Module) -> None:
    program = made.program
    at = [i for i, s in enumerate(program.steps) if isinstance(s, Step) and s.kernel.startswith("device_copy")]
    where = {i: None if d is None else d.name for d, r in find_devices(program, "").regions() for i in r}
    assert [where[i] for i in at] == ["cuda", None]  # to the device, and back to the host


def test_a_placed_module_is_stored(made: Module, tmp_path: Path) -> None:
    with (tmp_path / "arrays").open("wb") as data:
        text = encode(made, ArrayWriter(data))
    again = decode(text, ArrayReader(tmp_path / "arrays"))
    assert devices(again.program) == devices(made.program) and again.program.host == made.program.host
    assert machine.run(again, {"x": X, "flag": np.bool_(True)}).keys() == set(made.program.outputs)
