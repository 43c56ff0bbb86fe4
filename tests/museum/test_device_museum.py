"""Every wrong plan of devices is caught by the rule that it breaks; the right one breaks none."""

from __future__ import annotations

import pytest

from assay.lower.devices import plan_devices
from assay.semantics.rules import check
from assay.verify.devices import broken_plans, check_devices
from tests.museum.device_faults import CONFIG, FAULTS, Fault

pytestmark = pytest.mark.row("V9", "V11", "V17")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_wrong_plan_is_caught(fault: Fault) -> None:
    source = fault.module
    check(source)
    right = plan_devices(source, CONFIG)
    check(right)
    assert [str(b) for b in broken_plans(source, right, CONFIG, plan_devices)] == []
    wrong = fault.wrong(source, CONFIG)
    broken = broken_plans(source, wrong, CONFIG, fault.again)
    assert fault.verdict in {b.verdict for b in broken}, [str(b) for b in broken]
    evidence = check_devices(source, wrong, CONFIG, fault.again)
    assert not evidence.holds and evidence.data["verdict"] == broken[0].verdict
