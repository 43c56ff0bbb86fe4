"""TVM's schedules of a matrix product: every access of each is proved, and a wrong predicate is refuted."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from assay.lower.frontends.tvm import from_tvm
from assay.semantics.tensor import Block, PrimFunc, Stmt, program_order
from assay.semantics.walk import rewrite
from assay.verify.symbolic import prove_accesses

pytest.importorskip("tvm", reason="apache-tvm is not installed")

from tests.semantics.tvm_modules import SCHEDULES, scheduled

pytestmark = pytest.mark.peer


def functions(name: str) -> dict[str, PrimFunc]:
    return {n: d for n, d in from_tvm(scheduled(name)).definitions.items() if isinstance(d, PrimFunc)}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_of_tvm_is_proved(name: str) -> None:
    found = functions(name)
    assert found
    for func in found.values():
        report = prove_accesses(func, functions=found)
        open_goals = [f"{g.verdict} {g.kind}: {g.claim}: {g.detail}" for g in report.goals if g.verdict != "proved"]
        assert report.verdict == "proved", "\n".join(open_goals)


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_its_initialisation_it_is_refuted(name: str) -> None:
    def change(stmt: Stmt) -> Stmt:
        return dataclasses.replace(stmt, init=None) if isinstance(stmt, Block) else stmt

    def bare(func: PrimFunc) -> PrimFunc:
        body: Any = rewrite(func.body, change)
        return dataclasses.replace(func, body=body)

    whole = functions(name)
    found = {n: bare(d) for n, d in whole.items()}
    initialised = any(isinstance(s, Block) and s.init for d in whole.values() for s in program_order(d.body))
    verdicts = {prove_accesses(d, functions=found).verdict for d in found.values()}
    assert ("refuted" in verdicts) == initialised, verdicts
