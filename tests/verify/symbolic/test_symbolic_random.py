"""Proofs against runs: what is proved never traps, at any sizes tried, and what is refuted does."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Var
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.rules import check_prim_func
from assay.verify.strategies.kernels import Kernels as Maker
from assay.verify.symbolic import ProofReport, prove_accesses
from assay.verify.symbolic.goals import TRAPS
from tests.interp.block_programs import random_blocks
from tests.interp.programs import writes_constant
from tests.verify.symbolic.symbolic_programs import symbolic

Array = np.ndarray[Any, Any]
OWN_CHECKS = ("tensor.T7", "tensor.T11")
"""An assert is the function's own check, and where memory lies is not asked."""

KINDS = {**TRAPS, "dims not negative": "negative dim", "no overflow": "nothing"}


def inputs_at(func: PrimFunc, sizes: dict[Var, int], rng: np.random.Generator) -> list[Array]:
    made = []
    for b in func.inputs:
        shape = tuple(n if isinstance(n, int) else sizes[n] for n in b.shape)  # type: ignore[index]
        if b.dtype.is_float:
            made.append(rng.standard_normal(shape).astype(b.dtype.numpy))
        else:
            low, high = (0, 2) if b.dtype.name == "bool" else (max(int(b.dtype.min), -3), 7)
            made.append(rng.integers(low, high, shape).astype(b.dtype.numpy))
    return made


def trap_of(func: PrimFunc, inputs: list[Array]) -> Trap | None:
    try:
        tensor.run(func, inputs, limit=30_000)
    except Trap as trap:
        return trap
    except Invalid as wrong:
        assert wrong.label == "argument.C5", wrong
        return Trap("negative dim", wrong.message)
    except tensor.Unfinished:
        return None
    return None


def contradicted(func: PrimFunc, report: ProofReport, seed: int, runs: int, least: int = 0) -> str:
    """What a run shows against a report: a trap though all that could give it is proved. Empty if nothing."""
    rng = np.random.default_rng(seed)
    symbols = list(dict.fromkeys(d for b in func.inputs for d in b.shape if isinstance(d, Var)))
    open_kinds = {KINDS.get(g.kind, "any") for g in report.goals if g.verdict != "proved"}
    for _ in range(runs):
        sizes = {v: int(rng.integers(least, 6)) for v in symbols}
        trap = trap_of(func, inputs_at(func, sizes, rng))
        if (
            trap is not None
            and trap.label not in OWN_CHECKS
            and trap.kind not in open_kinds
            and "any" not in open_kinds
        ):
            return f"{trap} at {sizes}, though it was proved:\n{func}"
    return ""


def campaign(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        func = symbolic(Random(seed).randrange)
        check_prim_func(func)
        least = seed % 2
        report = prove_accesses(func, {"n": (least, None), "m": (least, None)})
        seen[report.verdict] += 1
        wrong = contradicted(func, report, seed, 6, least)
        assert not wrong, f"seed {seed}: {wrong}"
        for goal in report.of("refuted"):
            seen[goal.kind] += 1
            assert TRAPS.get(goal.kind, "") in goal.detail, f"seed {seed}: {goal}"
    return seen


def test_what_is_proved_never_traps() -> None:
    seen = campaign(range(6))
    assert seen["proved"] and seen["refuted"], seen


@pytest.mark.campaign
def test_what_is_proved_never_traps_in_many_functions() -> None:
    campaign(range(1000, 4000))


def others(seeds: range) -> Counter[str]:
    """Functions of other generators, at the sizes that they have."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        blocks, _ = random_blocks(Random(seed))
        for func in (Maker(Random(seed).randrange, f"k{seed}").make(), blocks):
            if writes_constant(func):
                seen["ill-formed"] += 1
                continue
            report = prove_accesses(func)
            seen[report.verdict] += 1
            wrong = contradicted(func, report, seed, 4)
            assert not wrong, f"seed {seed}: {wrong}"
    return seen


def test_what_is_proved_of_static_functions_never_traps() -> None:
    seen = others(range(5))
    assert seen["proved"] and seen["refuted"], seen


@pytest.mark.campaign
def test_what_is_proved_of_static_functions_never_traps_in_many() -> None:
    others(range(500, 1500))
