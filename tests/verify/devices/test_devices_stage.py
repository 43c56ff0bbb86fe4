"""The stage `devices`: a line of the table, the stages behind it on planned modules, the certificate, the options."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from assay.interp import vector
from assay.semantics.text.module_text import parse
from assay.verify.app.check import CheckRun, Lowering
from assay.verify.app.cli import main
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.evidence import Context, Evidence
from tests.models import small_cnn
from tests.museum.faults import device_faults as programs
from tests.museum.faults.device_faults import CONFIG


def assay(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


@pytest.mark.row("V11")
@pytest.mark.parametrize("name", ["SHARED", "FEW", "BRANCH", "TUPLE", "INSTANCES", "KERNEL"])
def test_every_stage_holds_on_a_planned_module(name: str) -> None:
    module = parse(getattr(programs, name), f"{name}.py")
    stages = {s.name: s for s in STAGES}
    for stage, run in lowering_passes(vector.run, config=CONFIG).items():
        after = run(module)
        evidence: Evidence = stages[stage].check(module, after, Context(config=CONFIG))
        assert evidence.holds, f"{stage}: {evidence.detail}"
        if stage == "devices":
            did, numbers = stages[stage].describe(module, after)
            assert did.startswith("2 devices, ") and numbers["copies"] > 0
            assert evidence.how == "checked" and "no choice of devices needs fewer" in evidence.detail
        module = after


def test_one_device_is_proved_without_work() -> None:
    lines = [line for line, _ in zip(CheckRun(Lowering(small_cnn(), "cnn")).lines(), range(2), strict=False)]
    assert (lines[1].stage, lines[1].did, lines[1].evidence.how) == ("devices", "one device", "proved")


def test_a_wrong_plan_stops_the_table() -> None:
    lowering = Lowering(small_cnn(), "cnn", config=CONFIG, changed={"devices": lambda module: module})
    lines = list(CheckRun(lowering).lines())
    assert lines[-1].stage == "devices" and not lines[-1].evidence.holds and "open" in lines[-1].evidence.detail


def test_devices_in_the_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "cnn.onnx", tmp_path / "built"
    onnx.save(small_cnn(), model)
    assert assay(monkeypatch, "build", model, "-o", out, "--on", "cuda", "--on", "cpu") == 0
    assert "1 device, 0 copies" in capsys.readouterr().out
    assert assay(monkeypatch, "verify", out) == 0
    manifest = out / "certificate" / "manifest.json"
    listed = json.loads(manifest.read_text())
    assert listed["devices"] == {"there": [["cuda", 0, "cuda"], ["cpu", 0, "c"]], "host": 1, "default": 0}
    manifest.write_text(json.dumps({**listed, "devices": {**listed["devices"], "default": 1}}, indent=1) + "\n")
    capsys.readouterr()
    assert assay(monkeypatch, "verify", out) == 1
    assert "devices" in capsys.readouterr().out
    for wrong in (7, {**listed["devices"], "host": 5}, {**listed["devices"], "there": [["cuda", -2, ""]]}):
        manifest.write_text(json.dumps({**listed, "devices": wrong}, indent=1) + "\n")
        assert assay(monkeypatch, "verify", out) == 2
        assert "not a certificate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on", "cuda:x"], "device.C2"),
        (["--host", "cpu"], "cli.C3"),
        (["--on", "cuda", "--on", "cuda"], "config.C3"),
        (["--on", "cuda", "--device", "npu"], "cli.C3"),
    ],
)
def test_wrong_options(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "cnn.onnx"
    onnx.save(small_cnn(), model)
    assert assay(monkeypatch, "build", model, "-o", tmp_path / "out", *options) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "out").exists()
