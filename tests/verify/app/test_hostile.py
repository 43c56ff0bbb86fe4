"""What strangers feed to the command line: it is refused at once, with the code 2 or 6, and with words that are
true."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table
from rich.text import Text

from assay.lower.frontends.onnx.functions import nodes_made
from assay.lower.frontends.onnx.reading import read_model
from assay.lower.memory.problem import Conflicts, IndexedProblem, check_rules
from assay.semantics.deadline import Deadline, Late
from assay.semantics.memory import BufferInfo, Pool, Problem
from assay.verify.app.terminal import Screen
from tests.inputs import read_npz
from tests.verify.app.test_budgets import calling_twice, info, program
from tests.verify.app.test_cli import assay


def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *command: object, code: int = 2
) -> str:
    """The one line with which a command is refused."""
    assert assay(monkeypatch, *command) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", ["٤", "+4", " 4", "4_0", "-1", "4\n", "", "9" * 5000])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_digits_of_external_data(
    key: str, digits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = numpy_helper.from_array(np.ones(4, np.float32), "w")
    onnx.external_data_helper.set_external_data(stored, "w.bin")
    stored.external_data.add(key=key, value=digits)
    stored.ClearField("raw_data")
    (tmp_path / "w.bin").write_bytes(bytes(64))
    model = program([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", [4])], [info("y", [4])], [stored])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    said = refused(monkeypatch, capsys, "run", tmp_path / "m.onnx", "-o", tmp_path / "o.npz")
    assert f"the data {key}" in said and "the digits 0 to 9" in said and "onnx.C10" in said


@pytest.mark.parametrize("option", [("--dim", "n=٤"), ("--memory", "٤G"), ("--timeout", "٤")], ids=" ".join)
@pytest.mark.usefixtures("places")
def test_digits_of_options(
    option: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "٤" in refused(monkeypatch, capsys, "check", "m.onnx", *option)


def test_digits_of_relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(٤), float32]) { %x }\n')
    assert assay(monkeypatch, "run", tmp_path / "m.relay") == 2
    assert "relay" in capsys.readouterr().err


GRAPH = """from tvm.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({size},), "float32")) -> R.Tensor(({size},), "float32"):
        return x
"""
KERNEL = """from tvm.script import ir as I, tir as T
@I.ir_module
class M:
    @T.prim_func
    def f(a: T.Buffer(({size},), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i]
"""


@pytest.mark.parametrize("size", ["1 << (1 << 62)", "1 << -1", "1 // 0", "1 % 0", "2**(2**62)", "9**9**9**9"])
@pytest.mark.parametrize("text", [GRAPH, KERNEL], ids=["a graph", "a kernel"])
def test_sizes_that_there_are_not(
    text: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(text.format(size=size))
    assert assay(monkeypatch, "run", tmp_path / "m.py", "--memory", "200M", "--timeout", "20") == 2
    said = capsys.readouterr().err
    assert "m.py:5:" in said and ("no value" in said or "**" in size), said


@pytest.mark.parametrize(
    ("command", "why", "label"), [("run", "has no value", "input.C6"), ("check", "(8 // 0) is no size", "graph.C13")]
)
def test_sizes_that_there_are_not_with_these_dims(
    command: str,
    why: str,
    label: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "m.py").write_text(GRAPH.replace("({size},)", '("n", "8 // (n - 4)")'))
    said = refused(monkeypatch, capsys, command, tmp_path / "m.py", "--dim", "n=4")
    assert f"{why}: integer division by zero" in said and label in said and ": ," not in said


def test_functions_that_call_one_another_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(calling_twice(39), tmp_path / "m.onnx")
    for memory in ("4G", "none"):
        said = refused(monkeypatch, capsys, "check", tmp_path / "m.onnx", "--memory", memory, "--timeout", "30", code=6)
        assert f"the {2**40 - 2} nodes that the model's functions make" in said and "budget.C1" in said


def test_nodes_are_counted_as_they_are_made() -> None:
    """In branches too, and in circles, which the import refuses."""
    for levels in (1, 2, 5):
        source = read_model(calling_twice(levels))
        assert nodes_made(source.model.graph.node, source.functions) == 2 ** (levels + 1) - 2
    source = read_model(calling_twice(2))
    arm = helper.make_graph([helper.make_node("f0", ["x"], ["z"], domain="d")] * 3, "arm", [], [info("z", [4])])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=arm, else_branch=arm)
    assert nodes_made([branch], source.functions) == 6 * 6
    source.functions["", "", ""] = source.functions["d", "f0", ""]  # type: ignore[index]
    source.functions["d", "f1", ""].node.append(helper.make_node("f0", ["a"], ["q"], domain="d"))
    assert nodes_made(source.model.graph.node, source.functions) < 100


# --- advice ----------------------------------------------------------------------------------------------------------


def test_strings_that_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the advice says can be done."""
    path, out = tmp_path / "m.onnx", tmp_path / "o.npz"
    onnx.save(
        program(
            [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)],
            [info("x", [2])],
            [info("y", [2], TensorProto.STRING)],
        ),
        path,
    )
    for command in (("check",), ("run", "-o", out)):
        said = refused(monkeypatch, capsys, command[0], path, *command[1:])
        assert "operand input decides which strings there are" in said and "--inputs" in said
    np.savez(tmp_path / "x.npz", x=np.array([1.5, 2], np.float32))
    assert assay(monkeypatch, "run", path, "-o", out, "--inputs", tmp_path / "x.npz") == 0
    assert read_npz(out)["y"].tolist() == ["1.5", "2.0"]
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "x.npz") == 0


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_the_place_of_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(
        program(
            [helper.make_node(name, ["x"], ["y"], axis=0)], [info("x", [0, 2])], [info("y", None, TensorProto.INT64)]
        ),
        tmp_path / "m.onnx",
    )
    assert f"(y): {name}-13: " in refused(monkeypatch, capsys, "check", tmp_path / "m.onnx")


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("b.csv").write_text("id,lower,upper,size\na,0,2,8\n")
    onnx.save(program([helper.make_node("Neg", ["x"], ["y"])], [info("x", [2])], [info("y", [2])]), "m.onnx")
    Path("full").mkdir()
    for name in ("file", "full/file"):
        Path(name).write_text("mine")
    os.mkfifo("fifo")
    for name, to in {
        "to_file": "file",
        "to_nothing": "nothing",
        "to_full": "full",
        "to_itself": "to_itself",
        "to_fifo": "fifo",
    }.items():
        Path(name).symlink_to(to)
    return tmp_path


COMMANDS: dict[str, tuple[Any, ...]] = {"plan": ("plan", "b.csv"), "run": ("run", "m.onnx")}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name, why",
    [
        ("full", "a directory"),
        ("to_full", "a link to a directory"),
        ("to_itself", "a link that leads to itself"),
        ("fifo", "a FIFO"),
        ("to_fifo", "a link to a FIFO"),
    ],
)
@pytest.mark.usefixtures("places")
def test_files_that_cannot_be(
    command: str, name: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would be lost stays as it was."""
    there = {p.name: p.lstat().st_ino for p in Path().iterdir()}
    assert f"{name}: cannot write: it is {why}" in refused(monkeypatch, capsys, *COMMANDS[command], "-o", name)
    assert {p.name: p.lstat().st_ino for p in Path().iterdir()} == there


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name, real", [("to_file", "file"), ("to_nothing", "nothing")])
@pytest.mark.usefixtures("places")
def test_files_behind_links(command: str, name: str, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert assay(monkeypatch, *COMMANDS[command], "-o", name) == 0
    assert Path(name).is_symlink() and Path(real).read_bytes() != b"mine"


@pytest.mark.parametrize(
    "name, why",
    [("to_file", "no directory"), ("to_full", "not empty"), ("to_itself", "leads to itself"), ("fifo", "no directory")],
)
@pytest.mark.usefixtures("places")
def test_directories_that_cannot_be(
    name: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in refused(monkeypatch, capsys, "build", "m.onnx", "-o", name)
    assert "leads to itself" in refused(
        monkeypatch, capsys, "fuzz", "--backend", "values", "--corpus", "to_itself", "--examples", 1
    )


@pytest.mark.usefixtures("places")
def test_directories_behind_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate goes where the link leads, and nothing is left beside it."""
    assert assay(monkeypatch, "build", "m.onnx", "-o", "to_nothing") == 0
    assert Path("to_nothing").is_symlink() and Path("nothing/certificate/manifest.json").is_file()
    assert not [p for p in Path().iterdir() if p.name.startswith(".")]


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["exact", "tokens"])
def test_a_plan_that_is_late_while_it_reads(
    planner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is read of a million rows in no time is a few of them."""
    read_ = []
    monkeypatch.setattr(
        "assay.lower.memory.csv._buffer", lambda *of: read_.append(of) or (BufferInfo(of[0]["id"], 1, ((0, 1),)), None)
    )
    (tmp_path / "b.csv").write_text("id,lower,upper,size\n" + "".join(f"b{i},0,1,1\n" for i in range(10_000)))
    said = refused(monkeypatch, capsys, "plan", tmp_path / "b.csv", "--planner", planner, "--time-limit", 0, code=6)
    assert "0 seconds of --time-limit were up before the buffers were read" in said and len(read_) < 100


def test_rules_and_layout_ask_for_the_time() -> None:
    """Each part of the work before a planner, with a clock that goes on by one each time that it is asked."""
    clock = iter(range(10**6))
    problem = Problem(tuple(BufferInfo(f"b{i}", 1, ((i, i + 1),)) for i in range(1000)), (Pool("p"),))
    for part in (check_rules, IndexedProblem, lambda p, d: Conflicts(p.buffers, d)):
        with pytest.raises(Late):
            part(problem, Deadline(3, clock=lambda: float(next(clock))))


# --- terminals -------------------------------------------------------------------------------------------------------

EVIL = "\x1b[2J\x1b]0;mine\x07\u202e[bold]:smile:"


def test_the_screen_shows_what_strangers_wrote() -> None:
    """In lines and in tables: no control character, no markup, no emoji; long lines are cut, colours of ours are
    not."""
    out = io.StringIO()
    screen = Screen(file=out, width=200, force_terminal=True, color_system="standard", legacy_windows=False)
    screen.print(EVIL + "x" * 5_000)
    table = Table(f"head {EVIL}")
    table.add_row(Text(EVIL, "red"))
    table.add_row(EVIL.replace("[bold]", ""))
    screen.print(table)
    said = out.getvalue()
    assert "characters more" in said and "\x1b[31m" in said
    left = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert all(c.isprintable() or c == "\n" for c in left), left
    assert left.count("\\x1b[2J") == 4 and "[bold]:smile:" in left


@pytest.mark.usefixtures("places")
def test_names_of_strangers_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.py").write_text(KERNEL.format(size=4), "utf-8")
    assert assay(monkeypatch, "plan", "b.csv", "--pools", EVIL.replace("\x1b[2J", "\x1b[3J").replace(" ", "")) == 0
    assert assay(monkeypatch, "plan", "b.csv", "-o", EVIL) == 0
    assert assay(monkeypatch, "plan", f"{EVIL}.csv") == 2
    assert assay(monkeypatch, "prove", "p.py", "--function", EVIL) == 2
    assert assay(monkeypatch, "fuzz", "--backend", EVIL) == 2
    said = "".join(capsys.readouterr())
    assert "[csv.C1]" in said and "[symbolic.C3]" in said
    assert "\\x1b]0;mine\\x07" in said and all(c.isprintable() or c == "\n" for c in said), said
