"""Random programs with symbolic sizes: proved, run at several sizes, and with their plans broken at random."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assay.interp import machine
from assay.lower.pool import Memory
from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Trap
from assay.semantics.graph import Var
from assay.semantics.memory import Place, Pool
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.pool import check_pool
from tests.lower.memory.dynamic_programs import inputs, lowered, planned, proof, runs_alike

pytestmark = pytest.mark.row("U21")

MEMORIES = (
    Memory(),
    Memory(by_bound=False),
    Memory(io=True, by_bound=False),
    Memory((Pool("fast", limit=2048), Pool("slow")), planner="greedy-size", in_place=False),
)


def program(rng: random.Random) -> Module:
    """Calls on tensors of n by m, n by 4 and so on, views of them, and choices."""
    b = Builder()
    bounds = {
        name: {s: k for s in "nm" if rng.random() < 0.5}
        for name, k in (("tir_var_upper_bound", 30), ("tir_var_lower_bound", 1))
    }
    with b.function(
        "main", x=tensor("n", "m"), y=tensor("n", 4), c=tensor(of="bool"), attrs={k: v for k, v in bounds.items() if v}
    ) as f:
        known: list[Var] = [f.x, f.y]

        def step() -> Var:
            v = rng.choice(known)
            assert isinstance(v.type, TensorType)
            shape = v.type.shape
            match rng.randrange(6):
                case 0:
                    return b.permute_dims(v, axes=tuple(reversed(range(len(shape)))))
                case 1 if len(shape) == 2:
                    return b.reshape(v, shape=(shape[1], shape[0]))
                case 2:
                    return b.add(v, b.nn.relu(v))
                case 3:
                    return b.nn.softmax(v)
                case 4:
                    return b.concat(v, v, axis=0)
                case _:
                    return b.exp(b.negative(v))

        for _ in range(rng.randint(2, 7)):
            if rng.random() < 0.2:
                v = rng.choice(known)
                with b.if_(f.c) as branch:
                    with branch.then():
                        b.result(b.negative(b.exp(v)))
                    with branch.otherwise():
                        b.result(v)
                assert isinstance(branch.value, Var)
                known.append(branch.value)
            else:
                known.append(step())
        b.result(b.tuple(*rng.sample(known[2:], min(2, len(known) - 2))))
    return b.module()


def broken(made: Module, rng: random.Random) -> Module:
    """With a buffer where another one begins, or a little below its own place."""
    plan = made.program.plan
    assert plan is not None
    name, other = rng.choice(list(plan.places)), rng.choice(list(plan.places))
    place = plan.places[other] if rng.random() < 0.7 else Place(plan.places[name].pool, plan.places[name].offset - 64)
    return made.with_(main=replace(made.program, plan=replace(plan, places={**plan.places, name: place})))


def campaign(count: int, seed: int) -> tuple[int, int]:
    """How many broken plans were refuted, and how many a run was enough to find."""
    rng = random.Random(seed)
    refuted = trapped = 0
    for _ in range(count):
        source = program(rng)
        calls = lowered(source)
        made = planned(source, rng.choice(MEMORIES))
        proof(made)
        sizes = [{"n": rng.randint(1, 9), "m": rng.randint(1, 9)}, {"n": 1, "m": 1}]
        runs_alike(calls, made, sizes[0])
        if made.program.plan is None or not made.program.plan.places:
            continue
        wrong = broken(made, rng)
        holds = check_pool(wrong)[0].holds
        refuted += not holds
        for at in sizes:
            try:
                machine.run(wrong, inputs(calls, at))
            except Trap:
                assert not holds, (at, wrong.program)
                trapped += 1
                break
    return refuted, trapped


def test_random_programs() -> None:
    refuted, trapped = campaign(12, 1)
    assert refuted >= trapped >= 1


@pytest.mark.campaign
def test_many_random_programs() -> None:
    refuted, trapped = campaign(400, 2)
    assert refuted >= trapped >= 100
