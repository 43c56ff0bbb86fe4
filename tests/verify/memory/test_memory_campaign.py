"""No plan of a random program survives the machine with a clobbered byte while a check says that it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pytest

from assay.interp import graph, machine, vector
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Branch
from assay.semantics.rules import check_program as check_rules
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.memory import prove_plan
from assay.verify.pool import as_problem, check_in_place, sweep
from tests.interp.programs import same_bits
from tests.lower.devices.memory_access import check_memory_access
from tests.verify.memory.memory_damage import Case, case
from tests.verify.memory.memory_programs import some_inputs


def verdicts(case: Case) -> dict[str, bool]:
    """What each check by itself says of a plan; only of a well-formed one is more than that known."""
    made, program = case.made, case.made.program
    try:
        check_rules(program, made)
    except Invalid:
        return {"rules": False}
    return {
        "rules": True,
        "values": check_program(case.source, made).holds,
        "lives": check_lives(program, made.kernels).holds,
        "sweep": sweep(program, made.kernels).holds,
        "in place": check_in_place(made).holds,
        "devices": check_memory_access(program, made.kernels).holds,
        "z3": prove_plan(*as_problem(program)).evidence.holds,
    }


def faults(case: Case, seed: int) -> list[str]:
    """What the machine finds on all combinations of conditions: kinds of traps, or other values than the graph's."""
    found = []
    for k, one in enumerate(some_inputs(case.made.program, seed)):
        want = list(graph.run(case.source, one).values())
        for execute in ("definition", vector.run) if k == seed % 4 else ("definition",):
            try:
                got = list(machine.run(case.made, one, execute=execute).values())
            except Trap as trap:
                found.append(f"{trap.kind} {trap.label}")
                continue
            if not all(same_bits(a, b) for a, b in zip(want, got, strict=True)):
                found.append("other values")
    return found


PROOF = frozenset({"rules", "values", "lives", "in place", "devices", "z3"})
SWEEP = frozenset({"rules", "values", "sweep", "in place", "devices"})
ALLOWED = {
    PROOF: set[str](),
    SWEEP: {"use outside lifetime machine.T3", "misaligned machine.T5", "out of bounds machine.T9"},
}
"""The checks that a plan without faults has to pass, in two ways that know nothing of each other, and the faults that
each leaves to the other: the sweep reads no lives, and neither limits nor alignments of pools."""


def campaign(seeds: range, asleep: Collection[str] = ()) -> Counter[str]:
    """How many plans held, and what was refused with or without need. Checks that are asleep say that all is well."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        one = case(seed)
        said = verdicts(one)
        refused = {name for name, holds in said.items() if not holds} - set(asleep)
        ill_formed = not said["rules"]
        found = set() if ill_formed else set(faults(one, seed))
        for checks, allowed in ALLOWED.items():
            if not refused & checks and found - allowed:
                assert asleep, f"seed {seed}, {one.damage}: {sorted(checks)} hold, the machine finds {found}"
                seen["survived"] += 1
        assert one.damage or not refused, f"seed {seed}: {refused} refuse a plan that is right"
        seen["damaged" if one.damage else "right"] += 1
        seen["choices"] += any(isinstance(s, Branch) for s in one.made.program.steps)
        seen["pools"] += len({one.made.program.pool_of(s).name for s in one.made.program.pooled}) > 1
        seen["phases"] += any(s.phases > 1 for s in one.made.program.steps)
        seen["in place"] += any(s.in_place for s in one.made.program.calls)
        if one.damage:
            how = (
                "ill-formed"
                if ill_formed
                else "refused with need"
                if found
                else "refused without need"
                if refused
                else "harmless"
            )
            seen[how] += 1
            seen[f"{one.damage}: {how}"] += 1
            seen.update(f"refused by {name}" for name in refused)
            seen.update(found)
    return seen


@pytest.mark.row("U1", "U2", "U7", "U9", "U14", "U15", "U18")
def test_no_clobbered_byte_survives_while_a_check_holds() -> None:
    seen = campaign(range(80))
    assert seen["right"] >= 40 and seen["refused with need"] > 10 and seen["harmless"] > 1, seen
    assert min(seen[what] for what in ("choices", "pools", "phases", "in place")) > 5, seen


@pytest.mark.parametrize("seed", [5530, 6276])
def test_what_was_found_stays_mended(seed: int) -> None:
    """What the machine took for a clobbered byte: in which order the results and buffers of a step fill their bytes."""
    assert campaign(range(seed, seed + 1))["right"]


@pytest.mark.campaign
def test_no_clobbered_byte_survives_in_ten_thousand() -> None:
    seen = campaign(range(1000, 11_000))
    assert seen["right"] >= 5000 and seen["refused with need"] > 1000, seen


@pytest.mark.parametrize("check", ["values", "lives", "in place", "z3"])
def test_the_campaign_wakes_a_check_that_is_asleep(check: str) -> None:
    assert any(campaign(range(s, s + 1), {check, "sweep"})["survived"] for s in range(1, 400, 2))
