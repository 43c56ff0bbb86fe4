"""Faults of planned programs on several devices: who touches which memory (rule M8).

Each is a planned program with one thing wrong, or a pass with one thing missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from assay.interp import machine, vector
from assay.lower import in_place, legalize, pool
from assay.lower.devices.scopes import with_scopes
from assay.lower.fuse import groups
from assay.lower.liveness import find_lives, slots
from assay.lower.pool import Memory, plan_pools
from assay.semantics.alias import bindings
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Trap
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Expr as Scalar, cast
from assay.semantics.tensor import PrimFunc, loops, store
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import rewrite
from tests.lower.devices.memory_access import check_memory_access
from tests.lower.devices.placed_programs import CPU, CUDA, TEXTURE, X, living, planned, planned_source
from tests.museum.judges import of_evidence, pool as pool_check
from tests.museum.planted import Judge, Patch, PlantedFault, size_of_made, size_of_source

WAYS: tuple[Any, ...] = ("definition", vector.run)


def trapped(module: Module, execute: Any) -> list[Trap]:
    """The trap of each run, one for each way to go, that has one."""
    found = []
    for flag in (True, False):
        try:
            machine.run(module, {"x": X, "flag": np.bool_(flag)}, execute=execute)
        except Trap as trap:
            found.append(trap)
    return found


def is_complete(trap: Trap) -> None:
    """A report names slot and step with their devices, and what would be right; of an access the element and
    iteration."""
    assert trap.kind == "wrong device" and trap.right and trap.message.endswith(f"; {trap.right}"), trap
    if trap.label == "machine.T11":
        assert re.match(r"slot \S+ is on \w.*, but lies in the pool \S+, and .* on \w", trap.what), trap
        return
    assert trap.label == "machine.T10" and re.match(r"step \d+ \(.*\).*: slot \S+ is (on|in scope) \w", trap.what), trap
    assert " is read " in trap.what or " is written " in trap.what, trap
    if trap.index is not None:
        element = f"{trap.buffer}[{', '.join(map(str, trap.index))}]"
        assert trap.buffer and f"touched as {element}" in trap.message and trap.iteration, trap


def runs(said: str, at: bool = True) -> Judge:
    """The machine, by the definition and by vectors: every trap is complete and says `said`. `at`: it has an index just
    where the definition is inside a kernel."""

    def judge(source: Module, made: Module) -> str | None:
        traps = [(execute, trapped(made, execute)) for execute in WAYS]
        if not any(found for _, found in traps):
            return None
        for execute, found in traps:
            assert found, "one way to run sees it, and the other does not"
            for trap in found if at else found[:1]:
                is_complete(trap)
                assert said in trap.message, trap
                within = trap.label == "machine.T10" and trap.buffer and execute == "definition"
                assert not at or (trap.index is not None) == bool(within), trap
        return f"the machine: {said}"

    return judge


def checked(said: str) -> Judge:
    """The check of the devices of steps."""

    def judge(source: Module, made: Module) -> str | None:
        evidence = check_memory_access(made.program, made.kernels)
        assert evidence.holds or said in evidence.detail, evidence.detail
        return of_evidence(evidence)

    return judge


@cache
def planned_once() -> Module:
    return planned()


def fault(name: str, wrong: Callable[[Module], Module], trap: str, said: str) -> PlantedFault:
    """`wrong` changes a planned module; `trap` is what the machine says then, `said` what the check says."""
    judges = runs(trap), checked(said)
    return PlantedFault(name, "trap: wrong device; devices of steps", judges, planned_once, wrong, size=size_of_source)


def of_a_pass(name: str, wrong: Callable[[Patch], Module], trap: str) -> PlantedFault:
    """A pass with one thing missing, and what the machine says of what it makes."""
    made: list[Module] = []
    return PlantedFault(
        name,
        "trap: wrong device",
        (runs(trap, at=False), pool_check),
        planned_once,
        lambda _: made.pop(),
        plant=lambda patch: made.append(wrong(patch)),
        size=size_of_made,
    )


def step_of(program: Program, kernel: str) -> int:
    """The number of the first step of a kernel."""
    return next(i for i, s in enumerate(program.steps) if isinstance(s, Step) and s.kernel.startswith(kernel))


def with_step(kernel: str, change: Callable[[Program, Step], Step]) -> Callable[[Module], Module]:
    def wrong(module: Module) -> Module:
        program = module.program
        k = step_of(program, kernel)
        step = program.steps[k]
        assert isinstance(step, Step)
        steps = (*program.steps[:k], change(program, step), *program.steps[k + 1 :])
        return module.with_(main=replace(program, steps=steps))

    return wrong


def with_slot(of: Callable[[Program], str], **changes: Any) -> Callable[[Module], Module]:
    def wrong(module: Module) -> Module:
        program = module.program
        name = of(program)
        return module.with_(
            main=replace(program, slots={**program.slots, name: replace(program.slots[name], **changes)})
        )

    return wrong


def made_by(kernel: str) -> Callable[[Program], str]:
    """The slot that the first step of a kernel writes."""

    def name(program: Program) -> str:
        step = program.steps[step_of(program, kernel)]
        return step.writes[0]

    return name


def scratch_of(kernel: str) -> Callable[[Program], str]:
    def name(program: Program) -> str:
        return program.steps[step_of(program, kernel)].scratch[0]

    return name


def with_pools(**changes: Any) -> Callable[[Module], Module]:
    """Fields of the first pool."""

    def wrong(module: Module) -> Module:
        program = module.program
        first, *others = program.pools
        return module.with_(main=replace(program, pools=(replace(first, **changes), *others)))

    return wrong


def with_kernel(name: str, change: Callable[[PrimFunc], PrimFunc]) -> Callable[[Module], Module]:
    def wrong(module: Module) -> Module:
        kernel = next(k for n, k in module.kernels.items() if n.startswith(name))
        return module.with_(**{kernel.name: change(kernel)})

    return wrong


def in_scope(func: PrimFunc, number: int, scope: str) -> PrimFunc:
    """A kernel with a parameter in another scope."""
    return with_scopes(func, func.name, {number: scope})


def stored(change: Callable[..., Scalar]) -> Callable[[PrimFunc], PrimFunc]:
    """What says that it is a device_copy stores something else."""

    def wrong(func: PrimFunc) -> PrimFunc:
        x, y = func.params
        return replace(func, body=loops("i j", x.shape, lambda i, j: store(y, (i, j), change(x, i, j))))

    return wrong


def without_copy(module: Module) -> Module:
    """A call reads what the copy would have read; planned anew."""
    source = living(planned_source())
    copied = {
        v: value.args[0]
        for v, value in bindings(source.main)
        if isinstance(value, CallTIR) and value.func == "device_copy"
    }

    def change(node: Expr) -> Expr:
        if not isinstance(node, CallTIR) or node.func != "exp":
            return node
        return replace(node, args=tuple(copied.get(a, a) for a in node.args))

    root: Expr = source.main
    main = rewrite(root, change)
    assert isinstance(main, Function)
    return plan_pools(find_lives(source.with_(main=main), host=CPU))


def one_memory(module: Module) -> Module:
    """All slots in one pool, each at bytes of its own."""
    program, end = module.program, 0
    slots: dict[str, Slot] = {}
    for n, s in program.slots.items():
        slots[n] = s
        if s.place == "workspace":
            slots[n] = replace(s, pool="all", offset=end)
            end += -(-s.nbytes // 64) * 64
    steps = tuple(replace(s, in_place=()) if isinstance(s, Step) else s for s in program.steps)
    return module.with_(main=replace(program, slots=slots, steps=steps, pools=(Pool("all"),), sizes={"all": end}))


def to_cpu(program: Program, step: Step) -> Step:
    return replace(step, device=CPU)


def of_constant(device: VirtualDevice) -> Callable[[Program], str]:
    return lambda program: next(s.name for s in program.placed("constant") if s.device == device)


READS, LIES = "is on cuda:0, and is read on cpu:0", "but lies in the pool"
# --- passes ----------------------------------------------------------------------------------------------------------


def lives(module: Module) -> Module:
    return find_lives(module, host=CPU)


def copies_fused(patch: Patch) -> Module:
    """Fusion takes a copy for a call like any other, on any device."""
    patch.setattr(groups, "claims_copy", lambda func: False)
    patch.setattr(groups, "device_of", lambda var, value: ANYWHERE)
    return plan_pools(lives(living(planned_source())))


def in_place_across(patch: Patch) -> Module:
    """A copy's result takes the bytes of what it copies, on the other device."""
    right = in_place._fits

    def fits(made: Slot, operand: Slot, first: int, phases: int) -> bool:
        return right(replace(made, device=ANYWHERE), replace(operand, device=ANYWHERE), first, phases)

    patch.setattr(in_place, "_fits", fits)
    return plan_pools(lives(living(planned_source())))


def open_pool(patch: Patch) -> Module:
    """A pool of which nothing is said takes slots of all devices."""
    patch.setattr(pool, "_pools", lambda usable, buffer, device, held: ())
    return plan_pools(lives(living(planned_source())), Memory((Pool("workspace"),)))


def scopes_forgotten(patch: Patch) -> Module:
    """Kernels have all parameters in the main memory."""
    patch.setattr(legalize, "_scopes", lambda node: ())
    return plan_pools(lives(living(planned_source())))


def scratch_anywhere(patch: Patch) -> Module:
    """What a kernel allocates is in the main memory, whatever it says."""
    patch.setattr(slots, "_memory", lambda device, scope: CUDA)
    source = living(planned_source())
    kernel = next(k for n, k in source.kernels.items() if n.startswith("fused"))
    shared = {b: replace(b, scope="shared") for b in kernel.allocations}
    return plan_pools(
        lives(source.with_(**{kernel.name: replace(kernel, body=Mapper(buffers=shared).run(kernel.body))}))
    )


PASSES: tuple[PlantedFault, ...] = (
    of_a_pass("a copy is fused with what reads it", copies_fused, "is read on cuda:0"),
    of_a_pass("in place across devices", in_place_across, LIES),
    of_a_pass("one open pool for two devices", open_pool, LIES),
    of_a_pass("kernels forget scopes", scopes_forgotten, "in scope global.texture"),
    of_a_pass("scratch in another scope", scratch_anywhere, "in scope global, and is written as"),
)
"""Passes with one thing missing."""

FAULTS: tuple[PlantedFault, ...] = (
    fault("a step on another device", with_step("exp", to_cpu), READS, "runs on cpu:0 (c) and reads buffer"),
    fault("a step with memory of its own on another device", with_step("fused", to_cpu), "is on cuda:0, and is",
        "runs on cpu:0 (c)"),
    fault("a slot on another device", with_slot(made_by("exp"), device=CPU), LIES, "is on cpu:0 (c) global, the pool"),
    fault("a slot in another scope", with_slot(made_by("nn_relu"), device=CUDA), LIES,
        "the pool workspace_cuda_0_texture is on"),
    fault("a slot without a scope in a scope's pool, and one with another",
        with_slot(made_by("nn_relu"), device=TEXTURE, pool="workspace_cuda_0", offset=0), LIES,
            "the pool workspace_cuda_0 is on"
    ),
    fault("what a kernel allocates, on another device",
        with_slot(scratch_of("fused"), device=CPU), LIES, "is on cpu:0 (c) global, the pool"
    ),
    fault("a pool on another device", with_pools(device=TEXTURE), LIES, "is on cuda:0 global.texture"),
    fault("one pool for all", one_memory, LIES, "lie in the pool all, the one is on"),
    fault("a kernel that reads in another scope",
        with_kernel("fused", lambda k: in_scope(k, 1, "global")), "in scope global.texture, and is read as",
            "in scope global.texture as"
    ),
    fault("a kernel that writes in another scope",
        with_kernel("nn_relu", lambda k: in_scope(k, 1, "global")), "in scope global.texture, and is written as",
            "as out in global"
    ),
    fault("no copy", without_copy, "is on cpu:0 (c), and is read on cuda:0", "runs on cuda:0 and reads buffer"),
    fault("a copy that says nothing of it",
        with_kernel("device_copy", lambda k: replace(k, attrs={})), "to cuda:0 must come before",
            "runs on cuda:0 and reads buffer"
    ),
    fault("a copy that adds",
        with_kernel("device_copy", stored(lambda x, i, j: x[i, j] + 1.0)),
            "says that it is a device_copy, but it stores", "is called a device_copy"
    ),
    fault("a copy of a row",
        with_kernel("device_copy", stored(lambda x, i, j: x[0, j])), "says that it is a device_copy, but it stores",
            "is called a device_copy"
    ),
    fault("a copy by what the data say",
        with_kernel("device_copy", stored(lambda x, i, j: x[i, cast(x[i, j], INT64) * 0 + j])),
        "says that it is a device_copy, but", "is called a device_copy",
    ),
    fault("a copy to where it does not run",
        with_step("device_copy", to_cpu), "is on cuda:0, and is written on cpu:0", "writes buffer"
    ),
    fault("a condition that the host does not see",
        with_slot(lambda p: "flag", device=CUDA), "a condition is read by the host, which is cpu:0",
            "is decided by the host"
    ),
    fault("a host that does not see the condition",
        lambda m: m.with_(main=replace(m.program, host=CUDA)), "a condition is read by the host, which is cuda:0",
            "is decided by the host"
    ),
    fault("an input on another device",
        with_slot(lambda p: "x", device=CUDA), "is on cuda:0, and is read on cpu:0", "which is on cuda:0"
    ),
    fault("an output on another device",
        with_slot(lambda p: p.outputs[0], device=CUDA), "is on cuda:0, and is written on cpu:0", "which is on cuda:0"
    ),
    fault("a constant on another device", with_slot(of_constant(CUDA), device=CPU),
        "is on cpu:0 (c), and is read on cuda:0", "which is on cpu:0"),
    *PASSES,
)  # fmt: skip
