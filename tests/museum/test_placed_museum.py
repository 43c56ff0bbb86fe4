"""Every fault of programs on several devices is caught: by the machine, access by access too, and by the check."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from assay.interp import machine, vector
from assay.semantics.errors import Trap
from assay.semantics.module import Module
from assay.verify.liveness.devices import check_devices
from assay.verify.pool import check_pool
from tests.lower.devices.placed_programs import X, planned
from tests.museum.placed_faults import FAULTS, PASSES

WAYS: tuple[Any, ...] = ("definition", vector.run)


@pytest.fixture(scope="module")
def right() -> Module:
    return planned()


def trapped(module: Module, execute: Any) -> list[Trap]:
    """The trap of each run, one for each way to go, that has one."""
    found = []
    for flag in (True, False):
        try:
            machine.run(module, {"x": X, "flag": np.bool_(flag)}, execute=execute)
        except Trap as trap:
            found.append(trap)
    return found


@pytest.mark.row("V12")
def test_the_right_program_passes(right: Module) -> None:
    assert not any(trapped(right, execute) for execute in WAYS)
    assert check_devices(right.program, right.kernels).holds and check_pool(right)[0].holds


@pytest.mark.row("V9", "V12")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name: str, right: Module) -> None:
    fault = FAULTS[name]
    wrong = fault.wrong(right)
    for execute in WAYS:
        traps = trapped(wrong, execute)
        assert traps, name
        for trap in traps:
            is_complete(trap)
            assert fault.trap in trap.message, trap
            within = trap.label == "machine.T10" and trap.buffer and execute == "definition"
            assert (trap.index is not None) == bool(within), trap
    evidence = check_devices(wrong.program, wrong.kernels)
    assert not evidence.holds and fault.said in evidence.detail, evidence.detail


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


@pytest.mark.row("V9", "V12", "V17")
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_with_a_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, said = PASSES[name]
    made = wrong(monkeypatch)
    for execute in WAYS:
        trap, *_ = trapped(made, execute)
        is_complete(trap)
        assert said in trap.message, trap
    assert not check_pool(made)[0].holds
