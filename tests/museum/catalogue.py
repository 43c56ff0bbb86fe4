"""Every planted fault of the museum, by family, and the test that each family's own test file makes of it.

A family is run by exactly one test: `@planted("memory_faults")` on a test that calls `is_caught`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from types import ModuleType

import pytest

from tests.museum.faults import (
    anf_faults,
    aot_faults,
    constant_faults,
    dce_faults,
    device_faults,
    dynamic_faults,
    fuse_faults,
    kernel_faults,
    liveness_faults,
    loop_constant_faults,
    made_constant_faults,
    measured_faults,
    memory_faults,
    numeric_faults,
    pass_faults,
    placed_faults,
    planner_faults,
    sanitizer_faults,
    schedule_primitive_faults,
    scope_faults,
    shape_faults,
    symbolic_faults,
    vm_faults,
)
from tests.museum.planted import NOTHING, Found, PlantedFault
from tests.places import ROOT

PAGE = ROOT / "specs" / "museum.md"
FAMILIES: Mapping[str, tuple[ModuleType, str]] = {
    module.__name__.rpartition(".")[2]: (module, title)
    for module, title in (
        (anf_faults, "A-normal form"),
        (aot_faults, "Storage and calls of a chain of bindings"),
        (liveness_faults, "Lives"),
        (measured_faults, "Loops, and sizes that a run measures"),
        (memory_faults, "Memory: bytes in place, sizes, names, kinds of pools"),
        (planner_faults, "Memory: offsets"),
        (device_faults, "Plans of devices"),
        (scope_faults, "Memory scopes of tensor functions"),
        (placed_faults, "The machine on several devices"),
        (pass_faults, "Passes that move values"),
        (dce_faults, "Dead code"),
        (constant_faults, "Constants"),
        (loop_constant_faults, "Schedules of constants"),
        (made_constant_faults, "Made constants"),
        (numeric_faults, "Folding, tables, numbers"),
        (dynamic_faults, "Types of open sizes, and padding"),
        (shape_faults, "Sizes made explicit"),
        (kernel_faults, "Inside tensor functions: simplifiers, storage, schedules, sizes"),
        (symbolic_faults, "Tensor functions for all sizes"),
        (fuse_faults, "Fusion"),
        (schedule_primitive_faults, "Schedules"),
        (sanitizer_faults, "What a run traps on"),
        (vm_faults, "Bytecode"),
    )
}
"""The families in the order of the page, each with its title."""


def exhibits() -> Mapping[str, PlantedFault]:
    """All planted faults, by family and name: `memory_faults: a bool counts as a bit`."""
    return {f"{file}: {fault.name}": fault for file, (module, _) in FAMILIES.items() for fault in module.FAULTS}


def planted(file: str) -> pytest.MarkDecorator:
    """A test for each fault of a family."""
    return pytest.mark.parametrize("fault", FAMILIES[file][0].FAULTS, ids=lambda f: f.name)


def is_caught(fault: PlantedFault) -> None:
    """The fault is caught by its layer, as the page says; what is right is accepted."""
    assert fault.accepted() == []
    found = fault.refused()
    assert found.layer != NOTHING and found.size, fault.note
    (said,) = [seen for key, seen in recorded().items() if exhibits()[key] is fault]
    assert found == said, "run: python -m tests.museum --write"


@cache
def recorded() -> Mapping[str, Found]:
    """What the page says of each fault that it lists."""
    found: dict[str, Found] = {}
    files = {title: file for file, (_, title) in FAMILIES.items()}
    file = None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            file = files.get(line[3:])
        elif file and line.startswith("| "):
            name, _, layer, size = next(csv.reader([line[2:-2].replace(" | ", "|")], delimiter="|"))
            found[f"{file}: {name}"] = Found(layer, size)
    return {key: seen for key, seen in found.items() if key in exhibits()}
