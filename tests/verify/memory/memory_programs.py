"""Random programs for the campaign of memory plans.

Graphs are those of `tests.lower.liveness.liveness_programs`, with calls of valid tensor functions
(`tests.interp.valid_programs`) that have loops, workspace, views and several results, on two sizes of tensors and on
devices.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from assay.lower.devices import plan_devices
from assay.lower.liveness import find_lives
from assay.lower.memory import PLANNERS, plan as place
from assay.lower.pool import Memory, pools_of
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Call, CallTIR, Expr, call_tir
from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program
from assay.semantics.operator import Operator
from assay.semantics.scalar import Expr as Scalar, const
from assay.semantics.tensor import Buffer, PrimFunc, seq
from assay.semantics.types import TensorType, TupleType
from assay.verify.strategies.tensors import ValidMaker
from tests.lower.liveness.liveness_programs import F4, Random, lowered

F8 = TensorType((8,), FLOAT32)
KERNELS = 200
"""How many tensor functions there are: few enough that what is known of one is used again."""
DEVICES = (ANYWHERE, VirtualDevice("cpu"), VirtualDevice("npu"))


class _Kernel(ValidMaker):
    """A valid tensor function on vectors of 4 and of 8 floats."""

    def __init__(self, number: int) -> None:
        super().__init__(random.Random(number).randrange, f"k{number}")
        self.n = 4
        self.inputs = [Buffer(f"x{k}", (self.size(),), FLOAT32) for k in range(1 + self.choose(3))]
        self.readable = list(self.inputs)

    def size(self) -> int:
        return self.pick((4, 4, 4, 8))

    def gathered(self) -> Scalar:
        return const(self.choose(7))

    def make(self) -> PrimFunc:
        outputs = [Buffer(f"y{k}", (self.size(),), FLOAT32) for k in range(self.pick((1, 1, 2)))]
        body = []
        for out in outputs:
            body.append(self.fill(out, 2))
            self.readable.append(out)
        return PrimFunc(self.name, (*self.inputs, *outputs), len(outputs), seq(*body))


@cache
def tensor_function(number: int) -> PrimFunc:
    return _Kernel(number).make()


class Whole(Random):
    """Modules of the base class, and calls of tensor functions in them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kernels: dict[str, PrimFunc] = {}
        self.devices = DEVICES if self.rng.random() < 0.3 else DEVICES[:1]

    def module(self, size: int = 9) -> Module:
        return super().module(size).with_(**self.kernels)

    def value(self, values: list[Expr], depth: int) -> Expr:
        made = self.kernel(values) if self.rng.random() < 0.4 else None
        made = super().value(values, depth) if made is None else made
        if not isinstance(made, Call | CallTIR):
            return made
        device = self.rng.choice(self.devices)
        # a call of a function is where the function's result is
        return replace(made, device=device) if isinstance(made, CallTIR) or isinstance(made.op, Operator) else made

    def kernel(self, values: Sequence[Expr]) -> Expr | None:
        """A call of a tensor function; None if there is nothing to give it."""
        func = tensor_function(self.rng.randrange(KERNELS))
        args = []
        for b in func.inputs:
            known = [
                v
                for v in values
                if isinstance(v.type, TensorType) and v.type.dtype is FLOAT32 and v.type.shape == b.shape
            ]
            if not known:
                return None
            args.append(self.rng.choice(known[-3:] if self.rng.random() < 0.7 else known))
        self.kernels[func.name] = func
        types = [F4 if b.shape == (4,) else F8 for b in func.outputs]
        return call_tir(func.name, args, types[0] if len(types) == 1 else TupleType(tuple(types)))


def source(seed: int) -> Module:
    """A random module, ready for liveness; with devices, planned."""
    return lowered(plan_devices(Whole(seed).module()))


def living(rng: random.Random, module: Module) -> Module:
    """The module with lives, aligned as somebody else might want it."""
    made = find_lives(module, whole=rng.random() < 0.2)
    slots = {
        n: replace(s, alignment=rng.choice([8, 8, 16, 64])) if s.place != "constant" else s
        for n, s in made.program.slots.items()
    }
    return made.with_(main=replace(made.program, slots=slots))


def some_memory(rng: random.Random, program: Program) -> Memory:
    """One pool or several, with limits and devices, and any planner, with little effort. The last one of each device
    has room for all."""
    least = rng.choice([16, 32, 64, 96])
    host, far = (VirtualDevice(n) for n in ("cpu", "npu"))
    each = pools_of(program, io=True)
    near = tuple(replace(p, name=f"near {p.name}", limit=least) for p in each)
    for_devices: list[tuple[Pool, ...]] = [(), each[::-1], (*near, *each)]
    pools = rng.choice(for_devices if any(s.device != ANYWHERE for s in program.slots.values()) else [
        (Pool("workspace"),),
        (Pool("workspace"),),
        (Pool("sram", limit=least), Pool("dram")),
        (Pool("a", limit=least), Pool("b", limit=2 * least), Pool("c")),
        (Pool("host", device=host, limit=least), Pool("far", device=far), Pool("rest")),
    ])  # fmt: skip
    planner = partial(place, planner=rng.choice(list(PLANNERS)), effort=50)
    return Memory(pools, planner, io=rng.random() < 0.4, in_place=rng.random() < 0.7)


def some_inputs(program: Program, seed: int) -> list[dict[str, Any]]:
    """Every combination of the conditions that are inputs, each with numbers of its own."""
    rng = np.random.default_rng(seed)
    types = {n: program.slots[n].type for n in program.inputs}
    flags = [n for n, t in types.items() if t.dtype is BOOL]
    found = []
    for chosen in product([False, True], repeat=len(flags)):
        numbers = {
            n: rng.standard_normal(t.static_shape).astype(np.float32) for n, t in types.items() if n not in flags
        }
        found.append({**numbers, **{n: np.bool_(v) for n, v in zip(flags, chosen, strict=True)}})
    return found
