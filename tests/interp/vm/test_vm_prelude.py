"""The prelude as bytecode: the tests of lists, options and trees, on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from assay.interp import vm
from assay.lower.vm import to_bytecode
from assay.semantics.module import Module
from tests.interp.vm.vm_runs import front
from tests.semantics import test_prelude as prelude_tests

pytestmark = pytest.mark.row("J18")
RUN = {n: t for n, t in vars(prelude_tests).items() if n.startswith("test_") and "refused" not in n}


def on_the_machine(module: Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    counted.append(1)
    return vm.run(to_bytecode(front(module)), inputs)


counted: list[int] = []


NAMES = [n for n, t in RUN.items() if not getattr(t, "pytestmark", [])]
LONG = "test_long_lists"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.campaign] if n == LONG else []) for n in NAMES])
def test_prelude(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prelude_tests, "run", on_the_machine)
    RUN[name]()


def test_they_ran_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    counted.clear()
    monkeypatch.setattr(prelude_tests, "run", on_the_machine)
    prelude_tests.test_list_map_and_filter()
    for index in (0, 3):
        prelude_tests.test_list_nth_at_every_index(index)
    prelude_tests.test_concat_and_zip([1, 2, 3], [4, 5])
    assert len(counted) >= 5
