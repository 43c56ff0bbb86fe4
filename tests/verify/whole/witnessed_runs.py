"""Runs of lowered programs under the eyes of a witness, who counts what is touched apart from what the machine checks.

Nothing is taken for granted that a run can show: each access of each element is counted, and the bytes of all constants
are looked at before and after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp import graph, machine, tensor, vector
from assay.interp.memory import Memory as Elements
from assay.lower.c import emit
from assay.lower.constants import extract_constants, link_params
from assay.lower.pool import plan_pools
from assay.semantics.devices import VirtualDevice
from assay.semantics.module import Branch, Module, Program, Step
from assay.semantics.rules import check
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, program_order
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.constants.constant_table import wrong_table
from assay.verify.constants.link import check_link
from assay.verify.evidence import Context
from tests.lower.c.sanitized import run_sanitized
from tests.verify.whole.whole_programs import Case, memory

Array = np.ndarray[Any, Any]
Damage = Callable[[str, Module], Module]
CHECKS = {s.name: s.check for s in STAGES}

# --- lowering ----------------------------------------------------------------------------------------------------


def lowered(one: Case, damage: Damage = lambda stage, module: module, *, checked: bool = True) -> Module:
    """A program through every stage, each checked; what a graph can say of it runs as the program does."""
    context = Context(config=one.config)
    module, wanted = one.module, graph.run(one.module, one.inputs)
    check(module)
    for name, stage in lowering_passes(vector.run, config=one.config).items():
        after = plan_pools(module, memory(module, one.memory)) if name == "pool" else stage(module)
        after = damage(name, after)
        if checked:
            evidence = CHECKS[name](module, after, context)
            assert evidence.holds, f"{name}: {evidence.detail}"
        if name == "constants" and one.linked:
            linked = link_params(after)
            assert check_link(after, linked).holds, f"link: {check_link(after, linked).detail}"
            after = extract_constants(linked)
            assert wrong_table(linked, after) is None, f"link: {wrong_table(linked, after)}"
        if name in ("devices", "legalize", "constants"):
            assert_same(wanted, graph.run(after, one.inputs), name)
        module = after
    return module


def assert_same(wanted: Mapping[str, Any], got: Mapping[str, Any], what: str) -> None:
    """Every bit of every output."""
    assert bits_of(wanted) == bits_of(got), what


def leaves(value: Any) -> list[Array]:
    """The tensors of a value."""
    return [a for v in value for a in leaves(v)] if isinstance(value, tuple) else [value]


def bits_of(value: Any) -> Any:
    """What is the same for the same bits."""
    match value:
        case Mapping():
            return {k: bits_of(v) for k, v in value.items()}
        case tuple():
            return tuple(map(bits_of, value))
        case _:
            array = np.asarray(value)
            return str(array.dtype), array.shape, array.tobytes()


# --- the witness -------------------------------------------------------------------------------------------------


class Counting(Elements):
    """Memory that counts the loads and stores of each buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: Counter[Buffer] = Counter()
        self.stores: Counter[Buffer] = Counter()

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        self.loads[buffer] += 1
        return super().load(buffer, index)

    def store(self, buffer: Buffer, index: Sequence[Any], value: Any) -> None:
        self.stores[buffer] += 1
        super().store(buffer, index, value)


@dataclass
class Witness:
    """What a run touches, counted apart from what the machine checks."""

    module: Module
    memory: Counting = field(default_factory=Counting)
    ran: list[PrimFunc] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    crossed: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.module.program

    def execute(
        self,
        func: PrimFunc,
        inputs: Sequence[Array],
        outputs: Sequence[Array] = (),
        scratch: Sequence[Array] = (),
        scalars: Any = (),
    ) -> Sequence[Array]:
        """Runs a kernel by its definition, one element at a time."""
        self.memory = Counting()
        self.ran.append(func)
        found = tensor.run(func, inputs, scalars=scalars, memory=self.memory)
        for given_, made in zip(outputs, found, strict=True):
            if any(np.may_share_memory(given_, a) for a in self.module.constants.values()):
                self.stored.append(func.name)
            else:
                given_[...] = made
        return found

    def step(self, number: int, step: Step, arrays: Mapping[str, Array]) -> None:
        """What the kernel that has just run has touched."""
        func = self.ran[-1]
        slots = self.program.slots
        known: dict[Buffer, str] = dict(
            zip((*func.params, *func.allocations), (*step.reads, *step.writes, *step.scratch), strict=True)
        )
        copy = func.attrs.get("operator") == "device_copy"
        if copy and arrays[step.reads[0]].tobytes() != arrays[step.writes[0]].tobytes():
            self.crossed.append(f"step {number} is no copy")
        inner = {s.buffer: s for s in program_order(func.body) if isinstance(s, AllocateConst)}
        for buffer in {*self.memory.loads, *self.memory.stores}:
            loads, stores = self.memory.loads[buffer], self.memory.stores[buffer]
            self.counts["loads"] += loads
            self.counts["stores"] += stores
            where = f"step {number}, {func.name}, {buffer.name}"
            if buffer in inner:
                self.counts["constants inside"] += loads
                there = self.module.info(inner[buffer].index).device
                if stores:
                    self.stored.append(where)
                if apart(there, step.device):
                    self.crossed.append(f"{where}, the constant {inner[buffer].index}: {there}, not {step.device}")
                continue
            slot = slots[known[buffer]]
            if slot.place == "constant" and stores:
                self.stored.append(where)
            self.counts["constants"] += loads if slot.place == "constant" else 0
            across = apart(slot.device, step.device)
            other = buffer.scope != "" and slot.device.scope not in ("", buffer.scope)
            if copy and not stores:
                self.counts["copied"] += loads if across or other else 0
            elif across or other:
                self.crossed.append(f"{where}: {slot.device}, not {step.device} {buffer.scope}")
        for name in step.reads:
            if slots[name].place == "constant" and arrays[name].tobytes() != self.module.constants[name].tobytes():
                self.stored.append(f"step {number}: constant {name} is another")


def apart(a: VirtualDevice, b: VirtualDevice) -> bool:
    """Whether something on the one device is out of reach of the other."""
    pairs = ((a.type, b.type), (a.id, b.id), (a.target, b.target))
    return any(x not in ("", -1) and y not in ("", -1) and x != y for x, y in pairs)


def constant_bytes(module: Module) -> dict[Any, bytes]:
    """All constants of a module, inside of tensor functions too."""
    found: dict[Any, bytes] = {n: a.tobytes() for n, a in module.constants.items()}
    for k, f in module.kernels.items():
        held = [s for s in program_order(f.body) if isinstance(s, AllocateConst)]
        found |= {(k, i): s.data.tobytes() for i, s in enumerate(held) if s.data is not None}
    return found


def witnessed(module: Module, inputs: Mapping[str, Array], wanted: Mapping[str, Any]) -> Counter[str]:
    """Run a program under the eyes of a witness; what it counted. Nothing is touched across, no constant written."""
    before, witness = constant_bytes(module), Witness(module)
    got = machine.run(module, inputs, execute=witness.execute, observe=witness.step)
    assert_same(wanted, got, "the machine")
    assert witness.crossed == [] and witness.stored == []
    assert constant_bytes(module) == before
    for step in module.program.steps:
        if isinstance(step, Branch):
            assert not apart(module.program.slots[step.condition].device, module.program.host)
    return witness.counts


def held(
    one: Case, damage: Damage = lambda stage, module: module, *, checked: bool = True, sanitized: bool = False
) -> Counter[str]:
    """A case holds in every way; what was seen in it."""
    wanted, module = graph.run(one.module, one.inputs), lowered(one, damage, checked=checked)
    wanted = dict(zip(module.program.outputs, leaves(tuple(wanted.values())), strict=True))
    seen = witnessed(module, one.inputs, wanted)
    for execute in (vector.run, "definition"):
        assert_same(wanted, machine.run(module, one.inputs, execute=execute), f"the machine, {execute}")  # type: ignore[arg-type]
    if sanitized:
        source = emit(module, "m")
        assert_same(wanted, compile_c(source, reproducible=True).run(one.inputs), "C")
        assert_same(wanted, run_sanitized(source, one.inputs), "C under the sanitizers")
    program = module.program
    memories = {s.device for s in program.slots.values()}
    seen["programs"] = 1
    seen["programs on devices"] = len({d.place for d in memories}) > 1
    seen["programs with scopes"] = len({d.scope for d in memories}) > 1
    seen["branches"] = any(isinstance(s, Branch) for s in program.steps)
    seen["several pools"] = len(program.pools) > 1
    seen["constant pools"] = any(p.kind == "constant" for p in program.pools)
    seen["one constant in two memories"] = len(module.constants) > len({bits_of(a) for a in module.constants.values()})
    seen["linked"] = any("linked" in k.attrs for k in module.kernels.values())
    return seen
