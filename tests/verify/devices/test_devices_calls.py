"""Functions that are called on several devices: their instances need no copy too many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from assay.lower.devices import instances, plan_devices
from assay.semantics.compilation import CompilationConfig
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.verify.devices import broken_plans, copies
from tests.verify.app.test_cli import assay
from tests.verify.whole.calling_programs import T, calling

pytestmark = pytest.mark.row("V21")

TWICE = """
@I.ir_module
class Module:
    @R.function
    def h(x: R.Tensor((5,), "float32"), y: R.Tensor((5,), "float32")):
        return R.multiply(x, y)
    @R.function
    def main(a: R.Tensor((5,), "float32")):
        p = A.on_device(R.exp(a), "cpu", constrain_body=True, constrain_result=True)
        q = A.on_device(Module.h(p, a), "cuda", constrain_body=True, constrain_result=True)
        r = A.on_device(Module.h(q, q), "cpu", constrain_body=True, constrain_result=True)
        return (p, q, r)
"""
"""The product that `q` names is best made on the cpu, where both factors are, and copied."""


@pytest.mark.parametrize("devices", [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_body_may_be_elsewhere_than_its_result(
    devices: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.py"
    path.write_text(TWICE)
    on = [w for d in devices for w in ("--on", d)]
    assert assay(monkeypatch, "check", path, *on, "--stop-after", "devices") == 0
    assert "2 devices, 2 copies" in capsys.readouterr().out


def test_instances_that_stay_fixed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.py"
    path.write_text(TWICE)
    monkeypatch.setattr(instances, "_opened", lambda function: function)
    assert assay(monkeypatch, "check", path, "--on", "cuda", "--on", "cpu", "--stop-after", "devices") == 1
    assert "copies: 3 copies between places where 2 are enough" in capsys.readouterr().out


def test_a_local_function_on_two_devices_is_told_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["h(a)", "h(p)"]
    calls = [
        f'A.on_device({c}, "{d}", constrain_body=True, constrain_result=True)'
        for c, d in zip(lines, ("cpu", "cuda"), strict=True)
    ]
    function = f"def h(x: {T}):\n{{0}}    return R.tanh(x)\n"
    text = (
        f"@R.function\ndef main(a: {T}):\n    @R.function\n    {function.format('    ')}    p = {calls[0]}\n    q ="
        f" {calls[1]}\n    return (p, q)\n"
    )
    path = tmp_path / "p.py"
    path.write_text(text)
    assert assay(monkeypatch, "check", path, "--on", "cpu", "--on", "cuda", "--stop-after", "devices") == 2
    assert "local function, where one of the module would get an instance for each device" in capsys.readouterr().err


def planned(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        text, devices = calling(seed)
        source, config = parse(text), CompilationConfig.read(devices, host="cpu")
        check(source)
        made = plan_devices(source, config)
        check(made)
        assert [str(b) for b in broken_plans(source, made, config, plan_devices)] == [], seed
        seen.update(planned=1, copies=copies(made), instances=len(made.definitions) > len(source.definitions))
    return seen


def test_random_programs() -> None:
    seen = planned(range(8))
    assert seen["copies"] > 4 and seen["instances"] > 0


@pytest.mark.campaign
def test_campaign() -> None:
    seen = planned(range(1000, 4000))
    assert seen["instances"] > 500
