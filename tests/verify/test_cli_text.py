"""`assay run` on texts: extern functions from Python, and sizes that no machine has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from assay.interp.graph import run
from assay.interp.graph.room import ROOM, memory, too_large
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, call, call_tir, function, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import TensorType
from tests.verify.test_cli import assay

CALLS = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = A.extern("mine.twice", R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32"), purity=False))(x)
        return y
"""
MINE = """
def twice(x): return x * 2
def half(x): return x[:1]
def broken(x): raise KeyError("no such thing")
class Deep:
    twice = staticmethod(twice)
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a text and a Python module, as the working directory."""
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "my_externs.py").write_text(MINE)
    (tmp_path / "not_python.py").write_text("def f(:\n")
    np.savez(tmp_path / "in.npz", x=np.array([1, 2, 3], np.float32))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("my_externs", "not_python"):
        sys.modules.pop(name, None)


def test_an_extern_is_given_by_name(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("mine.twice=my_externs:twice", "mine.twice=my_externs:Deep.twice"):
        code = assay(monkeypatch, "run", "calls.py", "--inputs", "in.npz", "-o", "out.npz", "--extern", place)
        shown = capsys.readouterr()
        assert code == 0 and "call mine.twice" in shown.out, shown.err
        (made,) = np.load("out.npz").values()
        assert made.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "no function was given for the extern mine.twice"),
        (["--extern", "my_externs:twice"], 2, "no function was given for the extern mine.twice"),
        (["--extern", "my_externs"], 2, "NAME=MODULE:FUNCTION, not 'my_externs'"),
        (["--extern", "=my_externs:twice"], 2, "cli.C4"),
        (["--extern", "mine.twice=nowhere_at_all:f"], 2, "No module named 'nowhere_at_all'"),
        (["--extern", "mine.twice=my_externs:thrice"], 2, "has no attribute 'thrice'"),
        (["--extern", "mine.twice=my_externs:number"], 2, "number is int, no function"),
        (["--extern", "mine.twice=not_python:f"], 2, "cli.C4"),
        (["--extern", "mine.twice=my_externs:half"], 1, "axis 0 of the value is 1, expected 3"),
        (["--extern", "mine.twice=my_externs:broken"], 1, "mine.twice raised KeyError: 'no such thing' [extern.T1]"),
    ],
)
def test_what_is_wrong_with_an_extern_is_one_line(
    options: list[str], code: int, said: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "run", "calls.py", *options) == code
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


# --- sizes that no machine has -----------------------------------------------------------------------------------

HUGE = """
@R.function
def main(x: R.Tensor(({}), "float32")) -> R.Tensor(({}), "float32"):
    y = {}
    return y
"""
FILLS = """
@T.prim_func
def main(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    z = T.alloc_buffer((T.int64({}),), "float32")
    for i in range(4):
        z[i] = x[i]
        y[i] = z[i]
"""


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (HUGE.format("3,", f"{2**62},", f'R.full(R.shape([{2**62}]), R.const(1.0, "float32"), dtype="float32")'), "memory.T1"),
        (HUGE.format("3,", f"{2**60}, 3", f"R.broadcast_to(x, R.shape([{2**60}, 3]))"), "memory.T1"),
        (HUGE.format("3,", f"{2**61 + 3},", f"R.nn.pad(x, pad_width=[0, {2**61}])"), "memory.T1"),
        (HUGE.format("3,", f"{3 * 2**60},", f"R.tile(x, [{2**60}])"), "memory.T1"),
        (HUGE.format("3,", f"{3 * 2**60},", f"R.repeat(x, {2**60}, axis=0)"), "memory.T1"),
        (HUGE.format(f"{2**62},", f"{2**62},", "R.add(x, x)"), "input.C11"),
        (HUGE.format(f"{2**40}, {2**40}", f"{2**40}, {2**40}", "R.add(x, x)"), "input.C11"),
        (HUGE.format(f"{2**63},", f"{2**63},", "R.add(x, x)"), ""),
        (FILLS.format(2**62), "memory.T1"),
        (FILLS.format(2**45), "memory.T1"),
    ],
)
def test_absurd_sizes_are_exit_2(
    text: str, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "huge.py"
    path.write_text(text)
    assert assay(monkeypatch, "run", path) == 2
    shown = capsys.readouterr().err
    assert label in shown and "Traceback" not in shown


def test_a_size_that_no_64_bits_hold_is_invalid() -> None:
    x = var("x", TensorType((2**40,), FLOAT32))
    y = call("broadcast_to", x, shape=(2**63, 2**40))
    with pytest.raises(Invalid) as caught:
        check(Module({"main": function([x], y)}))
    assert caught.value.label == "graph.C13"


@pytest.mark.parametrize("bounds", [False, True])
def test_sizes_of_the_run_may_be_too_large(bounds: bool) -> None:
    n = Symbol("n")
    x = var("x", TensorType((n,), FLOAT32))
    square: Expr = call("full", shape=(n * n, n * n), fill_value=1, dtype="float32")
    module = Module({"main": function([x], call("sum", square, axis=(0, 1), keepdims=False))})
    check(module)
    assert run(module, {"x": np.ones(2, np.float32)}, bounds=bounds)
    with pytest.raises(Trap) as caught:
        run(module, {"x": np.ones(1 << 12, np.float32)}, bounds=bounds)
    assert caught.value.kind == "memory" and str(1 << 50) in caught.value.message


def test_tensor_functions_of_too_large_results_trap() -> None:
    out = Buffer("out", (2**62,), INT32)
    kernel = PrimFunc("k", (out,), 1, loops("i", (2,), lambda i: store(out, i, 0)))
    module = Module({"main": function([], call_tir("k", [], TensorType((2**62,), INT32))), "k": kernel})
    with pytest.raises(Trap) as caught:
        run(module, {})
    assert caught.value.kind == "memory"


def test_what_is_too_large() -> None:
    assert too_large((0, 2**62), FLOAT32) is None
    assert too_large((ROOM // 4,), FLOAT32) is None and too_large((ROOM // 4 + 1,), FLOAT32) is not None
    assert "65 axes" in str(too_large((1,) * 65, FLOAT32))
    with pytest.raises(ValueError), memory():
        raise ValueError("something else")
    with pytest.raises(Trap), memory():
        np.empty(2**62)
    with pytest.raises(Trap), memory():
        np.empty((1,) * 65)


# --- bounds that do not decide -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_comparison_that_nobody_can_make_is_waived_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index is a sum that is 2 or just below, by the order of its additions."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("x", [4]), ("y", [])))
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Mul", ["s", "k"], ["t"]),
        helper.make_node("Cast", ["t"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["x", "i"], ["y"]),
    ]
    k = onnx.numpy_helper.from_array(np.array(2 / 1.3, np.float32), "k")
    made = helper.make_graph(nodes, "g", [x], [y], [k])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.array([0.1, 0.2, 0.3, 0.7], np.float32))
    np.savez(tmp_path / "out.npz", y=np.float32(0.3))
    given = ["check", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz"]
    assert assay(monkeypatch, *given) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the graph's bounds are waived" in shown and "bounds.C4" in shown
    assert assay(monkeypatch, *given, "--expected", tmp_path / "out.npz") == 2
    assert "outputs cannot be judged on these inputs" in capsys.readouterr().err
