"""What `assay verify` says that its lines rest on (specs/verify.md, "Certificate")."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.verify import evidence
from assay.verify.app.assumed import ASSUMPTIONS, assumed
from assay.verify.app.check import Line
from assay.verify.app.cli import main
from assay.verify.app.stages import STAGES, VM
from tests.places import ROOT

MODEL = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        return R.nn.relu(x)
"""


def test_places_and_stages_are_there() -> None:
    stages = {s.name for s in (*STAGES, VM)} | {"c", "compare"}
    for a in ASSUMPTIONS:
        assert stages.issuperset(a.stages)
        for place in a.place.split("; "):
            where = place.split(",")[0].strip()
            assert where == "the header" or (ROOT / where).exists(), where


def test_lines_choose_what_is_assumed() -> None:
    lines = [Line("pool", "", evidence.proved("shown"), 0.0)]
    said = [a.sentence for a in assumed(lines)]
    assert any("z3 says unsat" in s for s in said)
    assert not any("tested" in s or "C compiler" in s for s in said)
    lines += [Line("c", "", evidence.tested("ran"), 0.0), Line("compare", "", evidence.tested("ran"), 0.0)]
    said = [a.sentence for a in assumed(lines)]
    assert said[-1] == "what was tested alone holds of inputs that were not run: c and compare"
    assert any("C compiler" in s for s in said)


def test_verify_says_what_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*args: str) -> str:
        monkeypatch.setattr("sys.argv", ["assay", *args])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert not stopped.value.code
        return capsys.readouterr().out

    (tmp_path / "m.py").write_text(MODEL, "utf-8")
    command("build", str(tmp_path / "m.py"), "--output", str(tmp_path / "out"))
    said = " ".join(command("verify", str(tmp_path / "out")).replace("│", "").split())
    assert "assumed" in said and "verify/memory/solve.py" in said
    found = json.loads(command("verify", str(tmp_path / "out"), "--json"))
    assert {"assumed", "place"} == set(found["assumed"][0])
    assert found["assumed"][-1]["assumed"].endswith("that were not run: compare")
