"""What is equal without being computed is copied once, however often it is written; names are values of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from assay.lower.devices import plan_devices
from assay.lower.devices.capture import _Capture
from assay.semantics.compilation import CompilationConfig
from assay.semantics.text.module_text import parse
from assay.verify.devices import broken_plans, copies
from tests.verify.app.test_cli import assay

HEAD = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
"""
PAIR = 't = A.on_device((R.add(x, y), R.subtract(x, y)), "cpu")\n'
ONE = 'a = A.on_device(R.add(x, y), "cpu")\n'
CASES = {
    "a projection twice": (PAIR + "r = R.subtract(t[1], t[1])", 1),
    "two projections": (PAIR + "r = R.subtract(t[0], t[1])", 2),
    "nested": ('t = A.on_device(((R.add(x, y), x), y), "cpu")\nr = R.subtract(t[0][0], t[0][0])', 1),
    "a call's": ('t = A.on_device(R.split(R.concat((x, y)), 2), "cpu")\nr = R.subtract(t[1], t[1])', 1),
    "through annotations": (PAIR + 'r = R.subtract(A.on_device(t, "cpu")[1], A.on_device(t[1], "cpu"))', 1),
    "in both branches and behind": (
        PAIR
        + 'if R.greater(R.sum(x), R.const(0.0, "float32")):\n    u = R.exp(t[1])\nelse:\n    u = R.negative(t[1])\nr ='
        " R.add(u, t[1])",
        1,
    ),
    "a constant twice": (
        (
            'r = R.subtract(A.on_device(R.const([1.0, 2.0], "float32"), "cpu"), A.on_device(R.const([1.0, 2.0],'
            ' "float32"), "cpu"))'
        ),
        1,
    ),
    "another name": (ONE + "b = a\nr = R.subtract(a, b)", 2),
    "two names": (PAIR + "a = t[1]\nb = t[1]\nr = R.subtract(a, b)", 2),
    "a cast": (ONE + 'b = R.match_cast(a, R.Tensor((2,), "float32"))\nr = R.subtract(a, b)', 2),
    "taken apart and rebuilt": (PAIR + "u = (t[1], t[0])\nr = R.subtract(u[0], t[1])", 2),
}
"""Programs with `r` on cuda, and how many copies they need when each name's are its own."""
CONFIG = CompilationConfig.read(["cuda", "cpu"])


def text(body: str) -> str:
    lines = [*body.splitlines()[:-1], re.sub(r"r = (.*)", r'return A.on_device(\1, "cuda")', body.splitlines()[-1])]
    return HEAD + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize(("body", "count"), CASES.values(), ids=CASES)
def test_copies_of_what_is_equal(
    body: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.py"
    path.write_text(text(body))
    monkeypatch.setenv("COLUMNS", "300")
    assert assay(monkeypatch, "check", path, "--on", "cuda", "--on", "cpu", "--stop-after", "anf") == 0
    said = f"2 devices, {count} {'copy' if count == 1 else 'copies'};"
    table = capsys.readouterr().out
    assert said in table and "no choice of devices needs fewer, each name's copies its own" in table, table


@pytest.mark.parametrize(
    "name", ["a projection twice", "nested", "a call's", "in both branches and behind", "a constant twice"]
)
def test_a_planner_that_copies_each_as_it_is_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = parse(text(CASES[name][0]))
    monkeypatch.setattr(_Capture, "one", lambda self, node, made, value: made)
    monkeypatch.setattr(sys.modules[_Capture.__module__], "digest", id)
    planned = plan_devices(source, CONFIG)
    assert copies(planned) > CASES[name][1]
    assert "double copy" in {b.verdict for b in broken_plans(source, planned, CONFIG)}
