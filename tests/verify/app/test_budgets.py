"""Programs that ask for much are refused with exit code 6, in one line that says what, how much, and which option
raises it.

Each is tiny as a file. The system's memory is never really taken: the budget of each test is a few hundred megabytes.
"""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.interp.graph.counting import calls_made
from assay.semantics import budget
from assay.semantics.budget import Budget, claim
from assay.semantics.errors import BudgetSpent
from assay.semantics.text.module_text import parse
from assay.verify import children
from assay.verify.app import spending
from tests.models import mesh
from tests.verify.app.test_cli import assay

IN_A_DESTRUCTOR = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""An interrupt may fall into a destructor, such as that of a solver: it is lost there, and comes again."""

MUCH = 10**9


def info(name: str, shape: list[Any] | None, of: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, of, shape)


def stored(name: str, *values: Any, of: Any = np.int64, scalar: bool = False) -> Any:
    return numpy_helper.from_array(np.array(values[0] if scalar else values, of), name)


def program(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], init: Sequence[Any] = (), functions: Sequence[Any] = ()
) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, init)
    sets = [helper.make_opsetid("", 17), *([helper.make_opsetid("d", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=sets, ir_version=8, functions=functions)


IMAGE = [1, 1, 4, 4]
SIZES = stored("sizes", 10**5, 10**5)


def concatenations(count: int, stored_: bool) -> Any:
    nodes = [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(count)]
    nodes.append(helper.make_node("ReduceSum", [f"c{count}"], ["y"], keepdims=1))
    first = stored("c0", *range(16), of=np.float32)
    return program(
        nodes, [info("x", [1])] if stored_ else [info("c0", [16])], [info("y", [1])], [first] if stored_ else []
    )


def loop(doubling: bool, times: int) -> Any:
    work = helper.make_node("Concat", ["v", "v"], ["w"], axis=0) if doubling else helper.make_node("Neg", ["v"], ["w"])
    shapes = (["n"], ["m"]) if doubling else ([4], [4])
    inner = [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("v", shapes[0])]
    body = helper.make_graph(
        [work, helper.make_node("Identity", ["c"], ["d"])],
        "body",
        inner,
        [info("d", [], TensorProto.BOOL), info("w", shapes[1])],
    )
    nodes = [
        helper.make_node("Loop", ["times", "yes", "x"], ["z"], body=body),
        helper.make_node("ReduceSum", ["z"], ["y"]),
    ]
    return program(
        nodes,
        [info("x", [4])],
        [info("y", [1])],
        [stored("times", times, scalar=True), stored("yes", True, of=bool, scalar=True)],
    )


def calling_twice(levels: int) -> Any:
    made = []
    for i in range(levels):
        op, domain = (f"f{i + 1}", "d") if i + 1 < levels else ("Neg", "")
        body = [helper.make_node(op, [a], [b], domain=domain) for a, b in (("a", "b"), ("b", "c"))]
        made.append(
            helper.make_function(
                "d", f"f{i}", ["a"], ["c"], body, [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
            )
        )
    return program([helper.make_node("f0", ["x"], ["y"], domain="d")], [info("x", [4])], [info("y", [4])], [], made)


def pooling(kind: str, **attrs: Any) -> Any:
    node = helper.make_node(kind, ["x"], ["y"], **{"kernel_shape": [MUCH, 1], "pads": [MUCH - 1, 0, 0, 0], **attrs})
    return program([node], [info("x", IMAGE)], [info("y", IMAGE)])


def one(op: str, *inputs: str, init: tuple[Any, ...] = (SIZES,), of: Any = (1, 1)) -> Any:
    nodes = [helper.make_node(op, list(inputs), ["z"]), helper.make_node("ReduceMax", ["z"], ["y"])]
    return program(nodes, [info("x", list(of))], [info("y", None)], list(init))


MEMORY = {
    "a kernel of 10^9 in MaxPool": lambda: pooling("MaxPool"),
    "a kernel of 10^9 in AveragePool": lambda: pooling("AveragePool"),
    "a kernel of 10^9 in LpPool": lambda: pooling("LpPool"),
    "a kernel of 10^9 both ways": lambda: pooling("MaxPool", kernel_shape=[MUCH, MUCH],
        pads=[MUCH - 1, MUCH - 1, 0, 0]),
    "windows of 10^9, with gaps": lambda: pooling("MaxPool", kernel_shape=[2, 1], dilations=[MUCH, 1],
        pads=[MUCH, 0, MUCH, 0]),
    "Range": lambda: one("Range", "from", "to", "by",
        init=(stored("from", 0.0, of=np.float32, scalar=True), stored("to", 1e12, of=np.float32, scalar=True),
        stored("by", 1.0, of=np.float32, scalar=True))),
    "HannWindow": lambda: one("HannWindow", "size", init=(stored("size", 10**11, scalar=True),)),
    "a constant doubled": lambda: concatenations(40, True),
    "an input doubled": lambda: concatenations(40, False),
    "Expand": lambda: one("Expand", "x", "sizes"),
    "Tile": lambda: one("Tile", "x", "sizes"),
    "Pad": lambda: one("Pad", "x", "pads", init=(stored("pads", 10**5, 10**5, 10**5, 10**5),)),
    "ConstantOfShape": lambda: one("ConstantOfShape", "sizes"),
    "OneHot": lambda: one("OneHot", "at", "depth", "values",
        init=(stored("at", *range(1000)), stored("depth", 10**8, scalar=True), stored("values", 0, 1, of=np.float32))),
    "Resize": lambda: one("Resize", "x", "", "", "sizes", of=(4, 4)),
}  # fmt: skip


def spent(code: int, said: str) -> None:
    assert code == 6, said
    assert said.count("\n") == 1 and "--memory raises that [budget.C1]" in said and "may take 300 MB" in said, said
    assert "Unable to allocate" not in said, "it is counted before it is made"


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("name", MEMORY)
def test_memory(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(MEMORY[name](), tmp_path / "m.onnx")
    more = ["-o", tmp_path / "out.npz"] if command == "run" else []
    spent(assay(monkeypatch, command, tmp_path / "m.onnx", *more, "--memory", "300M"), capsys.readouterr().err)
    assert not (tmp_path / "out.npz").exists()


def test_a_loop_that_doubles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(loop(True, 100), tmp_path / "m.onnx")
    code = assay(monkeypatch, "run", tmp_path / "m.onnx", "-o", tmp_path / "out.npz", "--memory", "300M")
    said = capsys.readouterr().err
    spent(code, said)
    assert "concat" in said and "MB are in use" in said, "what wanted how much, of what is left"


TEXT = """from tvm.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main() -> R.Tensor((100000, 100000), "float32"):
        y = R.zeros((100000, 100000), "float32")
        return y
"""


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_text_that_asks_for_much(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(TEXT)
    code, said = assay(monkeypatch, command, tmp_path / "m.py", "--memory", "300M"), capsys.readouterr().err
    spent(code, said)
    assert "m.py:6:13" in said and "wants 40 GB of memory" in said


def texts_calling_twice(levels: int) -> str:
    """Functions that each call the next one twice."""
    tensor = 'R.Tensor((4,), "float32")'
    made = [
        f"    @R.function\n    def main(x: {tensor}) -> {tensor}:\n        a: {tensor} = M.f0(x)\n        return a\n"
    ]
    for i in range(levels):
        of = f"M.f{i + 1}" if i + 1 < levels else "R.negative"
        made.append(
            f"    @R.function\n    def f{i}(x: {tensor}) -> {tensor}:\n        a: {tensor} = {of}(x)\n        b:"
            f" {tensor} = {of}(a)\n        return b\n"
        )
    return "from tvm.script import ir as I, relax as R\n@I.ir_module\nclass M:\n" + "".join(made)


@pytest.mark.parametrize("command", ["check", "run"])
def test_calls_are_counted(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(texts_calling_twice(39))
    assert assay(monkeypatch, command, tmp_path / "m.py") == 6
    said = capsys.readouterr().err
    assert (
        f"{2**39 - 1} calls of functions take at least 549756 seconds" in said
        and "--timeout raises that [budget.C2]" in said
        and "m.py:5:5 (main)" in said
    )


def test_calls_that_may_not_be_made() -> None:
    """Calls in an arm, and a function that calls itself, count nothing: what is counted is made for certain."""
    module = parse(texts_calling_twice(5))
    assert calls_made(module.main, module) == 2**5 - 1
    inside = texts_calling_twice(5).replace(
        'a: R.Tensor((4,), "float32") = M.f0(x)\n',
        """if R.const(True):
            a: R.Tensor((4,), "float32") = M.f0(x)
        else:
            a: R.Tensor((4,), "float32") = M.f1(x)
""",
    )
    assert calls_made((module := parse(inside)).main, module) == 0
    again = texts_calling_twice(5).replace("R.negative(x)", "M.f0(x)")
    assert calls_made((module := parse(again)).main, module) == 2**5 - 1


@IN_A_DESTRUCTOR
def test_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(loop(False, 10**15), tmp_path / "m.onnx")
    assert assay(monkeypatch, "run", tmp_path / "m.onnx", "-o", tmp_path / "out.npz", "--timeout", "0.5") == 6
    said = capsys.readouterr().err
    assert said == "assay: the run has taken the 0.5 seconds that it may; --timeout raises that [budget.C2]\n"


@IN_A_DESTRUCTOR
@pytest.mark.parametrize("made", ["exec sleep 600", "sleep 600 & sleep 600"], ids=["a compiler", "and its children"])
def test_json_says_what_was_shown_before(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compiler that sleeps is ended with all that it started. The time is over once it runs, and not before."""
    onnx.save(mesh(4), tmp_path / "m.onnx")
    compiler, started = tmp_path / "compiler", tmp_path / "started"
    compiler.write_text(f"#!/bin/sh\ntouch {started}\n{made}\n")
    monkeypatch.setattr(Budget, "left", lambda of: 0.0 if started.exists() else of.seconds)
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--json", "--timeout", "60") == 6
    found = json.loads(capsys.readouterr().out)
    assert found["exit"] == 6 and found["holds"] is None and "[budget.C2]" in found["error"]
    assert found["lines"][0]["stage"] == "import"
    assert children.in_use() == 0 and not list(tmp_path.glob("assay-*"))


def test_the_memory_of_children_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(mesh(4), tmp_path / "m.onnx")
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\nulimit -S -d unlimited\nx=xxxxxxxxxxxxxxxx\nwhile true; do x=$x$x; done\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    spent(
        assay(monkeypatch, "check", tmp_path / "m.onnx", "--memory", "300M"),
        capsys.readouterr().err.replace("\n\n", "\n"),
    )


@pytest.mark.parametrize(
    "option", [("--memory", "many"), ("--memory", "0"), ("--timeout", "-1"), ("--timeout", "0"), ("--timeout", "nan")]
)
def test_options_that_are_none(
    option: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", *option) == 2
    assert "budget.C3" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "run", "build", "verify", "prove", "reduce", "plan", "fuzz"])
def test_every_command_has_both(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, command, "--help") == 0
    said = capsys.readouterr().out
    assert "--memory" in said and "--timeout" in said


# --- the limits themselves, one by one: each is shown to hold where the others are not there --------------------------


def test_what_is_counted_before_it_is_made() -> None:
    with budget.of(Budget(memory=100 << 20)):
        claim(99 << 20, "little")
        held = np.ones(60 << 20, np.uint8)
        with pytest.raises(
            BudgetSpent, match=r"much wants 52.4 MB of memory, 6.* MB are in use, and the whole run may take 105 MB"
        ):
            claim(50 << 20, "much")
        del held
        claim(50 << 20, "what fits again")
    claim(1 << 60, "nobody asks")


def test_the_system_refuses_what_nobody_counted() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(BudgetSpent, match="wants more memory than is left"), spending.spending(200 << 20, None):
        np.ones(1 << 30, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_what_grows_bit_by_bit_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "_SLACK", 1 << 40)  # the system refuses nothing
    held: list[bytes] = []
    with pytest.raises(BudgetSpent, match="in use, and may take 105 MB"), spending.spending(100 << 20, 60.0):
        while True:
            try:
                held.append(b"x" * (1 << 20))
                time.sleep(0.001)
            except Exception:  # noqa: BLE001  (nobody can take it for something else)
                pass


def test_what_does_not_heed_is_ended(tmp_path: Path) -> None:
    """In a process of its own: code in C that runs for ever, for which no signal is heard. Its folder goes too."""
    place = tmp_path / "told"
    pid = os.fork()
    if pid == 0:
        try:
            spending.GRACE = 0.2
            with spending.spending(None, 0.2, last_words=lambda wrong: print(place.write_text(str(wrong)))):
                folder = children.new_folder(parent=tmp_path)
                (tmp_path / "name").write_text(str(folder))
                while True:
                    try:
                        threading.Event().wait(100)
                    except spending.Stop:
                        pass
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 6
    assert "--timeout raises that" in place.read_text() and not Path((tmp_path / "name").read_text()).exists()
