"""Programs with symbolic sizes from operators to a plan, and runs of them beside the graph interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from assay.interp import machine
from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory, plan_pools
from assay.semantics.module import Module, Program
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var, evaluate_dim
from assay.semantics.types import TensorType, symbols
from assay.verify.evidence import Evidence
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_pool


def lowered(source: Module) -> Module:
    return legalize(to_anf(source))


def planned(source: Module, memory: Memory | None = None, *, ready: bool = False) -> Module:
    """The plan of a module of operators, or of tensor functions that are `ready`; the program is proved."""
    calls = source if ready else lowered(source)
    check(calls)
    lives = find_lives(calls)
    check(lives)
    same = check_program(calls, lives)
    assert same.holds, same.detail
    made = plan_pools(lives, memory)
    check(made)
    return made


def proof(made: Module) -> Evidence:
    evidence, _ = check_pool(made)
    assert evidence.holds, evidence.detail
    return evidence


def places(program: Program) -> dict[str, Dim]:
    assert program.plan is not None
    return {n: p.offset for n, p in program.plan.places.items()}


def pool(program: Program, name: str = "workspace") -> Dim:
    assert program.plan is not None
    return program.plan.sizes[name]


def inputs(source: Module, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Inputs at these values of the symbols by name."""
    rng = np.random.default_rng(seed)
    values: dict[Var, int] = {s: sizes[s.name] for p in source.main.params for s in symbols(p.type)}
    made: dict[str, Any] = {}
    for p in source.main.params:
        assert isinstance(p.type, TensorType)
        shape = tuple(evaluate_dim(d, values) for d in p.type.shape)
        of = p.type.dtype
        made[p.name] = (
            rng.uniform(0.5, 2, shape).astype(of.numpy) if of.is_float else rng.integers(0, 2, shape).astype(of.numpy)
        )
    return made


def runs_alike(source: Module, made: Module, *sizes: Mapping[str, int]) -> None:
    """The machine, in both of its ways, gives the graph interpreter's bits at all of these sizes. Memory is checked."""
    for at in sizes:
        given = inputs(source, at)
        wanted = run(source, given)
        for got in (machine.run(made, given), machine.run(made, given, execute="definition")):
            assert got.keys() == wanted.keys()
            for name, array in got.items():
                assert array.shape == wanted[name].shape and np.array_equal(array, wanted[name]), (at, name)


def holding(source: Module, memories: Iterable[Memory | None], *sizes: Mapping[str, int]) -> None:
    """Planned with each memory, proved, and run."""
    calls = lowered(source)
    for memory in memories:
        made = planned(source, memory)
        proof(made)
        runs_alike(calls, made, *sizes)
