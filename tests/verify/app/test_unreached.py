"""What main does not reach is named, and not lowered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.verify.app.check import CheckRun, Lowering
from tests.verify.app.test_cli import assay

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return Module.used(x)
    @R.function
    def used(x: R.Tensor((2,), "float32")):
        return R.negative(x)
    @R.function
    def other(x: R.Tensor(("n",), "float32")):
        return R.exp(x)
    @T.prim_func
    def kernel(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
        for i in range(3):
            y[i] = x[i]
"""


def test_a_function_for_all_sizes_beside_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(TEXT)
    monkeypatch.setenv("COLUMNS", "300")
    assert assay(monkeypatch, "check", path, "--stop-after", "pool") == 0
    table = capsys.readouterr().out
    assert "not lowered, for main does not reach it: other, kernel;" in table, table
    assert re.search(r"legalize +proved .* 0 calls of 1 kernel;", table), table  # the call is in the other function


def test_a_function_for_all_sizes_that_main_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(TEXT.replace("Module.used(x)", "Module.other(x)"))
    assert assay(monkeypatch, "check", path) == 0, "its kernels take sizes"


SAVED = """
@I.ir_module
class Module:
    @R.function
    def main(x: PARAMETER):
        return R.sum(VALUE, axis=1)
    @R.function
    def kept():
        return Module.main(ARGUMENT)
"""
ARGUMENT = 'R.const([[1.0, 2.0], [3.0, 4.0]], "float32")'


@pytest.mark.parametrize(
    ("param", "value", "argument", "dims"),
    [
        ('R.Tensor(("n", 2), "float32")', "x", ARGUMENT, ("--dim", "n=3")),
        ('R.Tuple(R.Tensor((2, 2), "float32"))', "x[0]", f"({ARGUMENT},)", ()),
    ],
    ids=["for all sizes", "of a tuple"],
)
def test_a_saved_call_of_a_main_of_another_type(
    param: str, value: str, argument: str, dims: tuple[str, ...],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "program.py"
    path.write_text(SAVED.replace("PARAMETER", param).replace("VALUE", value).replace("ARGUMENT", argument))
    assert assay(monkeypatch, "check", path, *dims, "--stop-after", "pool") == 0
    assert "not lowered, for main does not reach it: kept, main_as_written;" in capsys.readouterr().out


def test_a_certificate_of_a_program_with_a_function_for_all_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read from files, such a function has symbols of its own after each stage."""
    path = tmp_path / "program.py"
    path.write_text(TEXT)
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("lost", "why"), [("used", "no function or constant used"), ("nothing", "definition other is new")]
)
def test_what_is_left_out_is_what_main_does_not_reach(lost: str, why: str) -> None:
    def fault(module: Module) -> Module:
        return Module({n: d for n, d in module.definitions.items() if n != lost})

    lines = list(CheckRun(Lowering(parse(TEXT), "it", changed={"legalize": fault}), stop_after="legalize").lines())
    assert lines[-1].stage == "legalize" and lines[-1].evidence.holds is False
    assert why in lines[-1].evidence.detail, lines[-1].evidence.detail
