"""Random programs of the whole language: their A-normal form is proved, runs alike, and damage to it is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.lower.anf import to_anf
from assay.lower.anf.bbnf import to_bbnf
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.verify.anf import check_anf
from assay.verify.anf.bbnf import why_not_bbnf
from assay.verify.strategies.graphs import Maker
from tests.inputs import small_inputs
from tests.museum.mutations import mutated
from tests.observation import observe

Pick = Callable[[int], int]


def picker(random: Random) -> Pick:
    return lambda n: random.randrange(n)


def made(pick: Pick, size: int) -> Module:
    return Maker(pick, size).module()


def proved_and_alike(module: Module, given: list[dict[str, Any]]) -> Counter[str]:
    """The source is well-formed; its A-normal form is proved, well-formed, and cannot be told from it by running."""
    check(module)
    target = to_anf(module)
    evidence = check_anf(module, target)
    assert evidence.holds, evidence.detail
    check(target)
    seen: Counter[str] = Counter()
    for values in given:
        wanted = observe(module, values)
        assert wanted.difference(observe(target, values)) is None
        seen.update({"trap": wanted.trap is not None, "value": wanted.trap is None, "trace": bool(wanted.trace)})
    return seen


@st.composite
def modules(draw: st.DrawFn, size: int = 14) -> tuple[Module, list[dict[str, Any]]]:
    def pick(n: int) -> int:
        return draw(st.integers(0, n - 1))

    module = made(pick, size)
    return module, [small_inputs(pick, module) for _ in range(2)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules())
def test_normal_form_is_proved_and_runs_alike(case: tuple[Module, list[dict[str, Any]]]) -> None:
    proved_and_alike(*case)


@pytest.mark.parametrize("size", [8, 20, 40])
def test_bulk(size: int) -> None:
    """The same maker under plain random numbers. What it makes prints, fails, and gives values."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        pick = picker(Random(seed * 1000 + size))
        module = made(pick, size)
        seen += proved_and_alike(module, [small_inputs(pick, module) for _ in range(3)])
    assert seen["trap"] > 10 and seen["value"] > 10 and seen["trace"] > 5


def test_basic_block_form_runs_alike() -> None:
    """The other form of the same programs: no value in two blocks, and the same values, traps and trace."""
    changed = 0
    for seed in range(60):
        pick = picker(Random(seed))
        module = made(pick, (12, 20, 30)[seed % 3])
        target = to_bbnf(module)
        check(target)
        assert all(not why_not_bbnf(d) for d in target.definitions.values() if isinstance(d, Function))
        for values in [small_inputs(pick, module) for _ in range(3)]:
            assert observe(module, values).difference(observe(target, values)) is None, seed
        changed += target.main is not module.main
    assert changed > 20, "some must have values that cross blocks"


def damage(seeds: range, tries: int) -> Counter[str]:
    """Damage to right forms: what is accepted must run as the source does."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        pick = picker(Random(seed))
        module = made(pick, (8, 15, 25)[seed % 3])
        target = to_anf(module)
        values = [small_inputs(pick, module) for _ in range(4)]
        for i in range(tries):
            found = mutated(target, picker(Random(seed * 1000 + i)))
            if found is None:
                continue
            what, damaged = found
            evidence = check_anf(module, damaged)
            assert evidence.detail
            seen[f"{what} {'accepted' if evidence.holds else 'refused'}"] += 1
            if evidence.holds:
                check(damaged)
                for v in values:
                    assert observe(module, v).difference(observe(damaged, v)) is None, (seed, i, what)
    return seen


def test_damage_is_refused_or_harmless() -> None:
    seen = damage(range(60), 8)
    kinds = {what.split()[0] for what in seen}
    assert len(kinds) == 10
    for kind in kinds:  # two equal branches may change places, a total binding nobody needs may go
        assert 2 * seen[f"{kind} refused"] > seen[f"{kind} accepted"], kind


@pytest.mark.campaign
@settings(settings.get_profile("campaign"), suppress_health_check=list(HealthCheck))
@given(modules(size=30))
def test_campaign(case: tuple[Module, list[dict[str, Any]]]) -> None:
    proved_and_alike(*case)


@pytest.mark.campaign
def test_damage_campaign() -> None:
    seen = damage(range(1000, 3000), 20)
    assert sum(seen.values()) > 10_000
