"""Random functions and mutants of them: what is said to be equal runs the same, and what differs is shown."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from assay.lower.loops.rewriting import changed, plain_function
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Apply, Const, Expr, apply, const
from assay.semantics.tensor import PrimFunc, Stmt, program_order
from assay.semantics.walk import post_order, rewrite
from assay.verify.equivalence import BIT_EXACT, REAL, equivalent
from assay.verify.equivalence.witness import find_witness
from assay.verify.strategies.nests import Nests

OTHER = {"add": "sub", "sub": "add", "mul": "add", "max": "min", "min": "max", "lt": "le"}


def mutant(func: PrimFunc, rng: random.Random) -> PrimFunc | None:
    """`func` with one literal moved by one, or one operation another one."""
    func = plain_function(func)
    places = [
        n
        for s in program_order(func.body)
        for e in s.expressions
        for n in post_order(e)
        if (isinstance(n, Const) and n.dtype.is_integer) or (isinstance(n, Apply) and n.op in OTHER)
    ]
    if not places:
        return None
    target = rng.choice(places)

    def change(n: Expr) -> Expr:
        if n is not target:
            return n
        if isinstance(n, Const):
            return const(int(n.value) + rng.choice((-1, 1)), n.dtype)
        assert isinstance(n, Apply)
        return apply(OTHER[n.op], *n.args)

    def statement(s: Stmt) -> Stmt:
        return changed(s, s.children, lambda e: rewrite(e, change))

    return PrimFunc(func.name, func.params, func.num_outputs, rewrite(func.body, statement))


def mutants(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        source = Nests(rng.randrange).make()
        try:
            target = mutant(source, rng)
        except Invalid:
            target = None
        if target is None:
            continue
        verdict = equivalent(source, target)
        if "itself traps" in verdict.reason:
            continue
        if verdict.holds(BIT_EXACT):
            assert find_witness(source, target, {}, seed) is None, f"{source}\n{target}"
            seen["equal"] += 1
        elif verdict.notion:
            assert verdict.holds(REAL)
            seen["weaker"] += 1
        else:
            seen["shown" if verdict.witness is not None else "not shown"] += 1
            assert verdict.witness is None or verdict.witness.replayed
    return seen


def test_mutants() -> None:
    seen = mutants(range(35))
    assert seen["equal"] > 1 and seen["shown"] > 8, seen
    assert seen["not shown"] <= 0.1 * seen["shown"], seen


@pytest.mark.campaign
def test_many_mutants() -> None:
    mutants(range(10_000, 14_000))
