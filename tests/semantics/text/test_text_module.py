"""Modules as text: constants to the bit, data types, names, what stands around a module, and `assay run FILE.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from assay.interp.graph import run
from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import DTYPES, FLOAT32, INT64, dtype
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import GlobalVar, call, call_tir, constant, constructor, function, tuple_of, var
from assay.semantics.module import Module, Program
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.text import constants_text
from assay.semantics.text.module_text import entry_name, parse, show
from assay.semantics.types import DataDef, DataType, TensorType, TypeVar
from assay.verify.app.cli import main as command
from assay.verify.app.text_run import run_inputs
from tests.inputs import read_npz
from tests.models import small_cnn

pytestmark = [pytest.mark.row("R4"), pytest.mark.row("R5"), pytest.mark.row("R30"), pytest.mark.row("C10")]
FOLDER = Path(__file__).parent
FILES = ["fact", "match_cast", "call_tir", "constants", "list_of_a", "composite"]
V = TensorType((2,), FLOAT32)


def identity(module: Module) -> str:
    text = show(module)
    back = parse(text, "printed.py")
    assert first_difference(module, back) is None
    assert list(back.definitions) == list(module.definitions)
    assert show(back) == text
    return text


# --- constants ----------------------------------------------------------------------------------------------------


def bits(of: str, count: int) -> np.ndarray[Any, Any]:
    """Every kind of number of a dtype: all bits there are, NaNs of all payloads among them."""
    kind = dtype(of)
    raw = np.random.default_rng(7).integers(0, 256, count * kind.itemsize, np.uint8)
    if kind.kind == "bool":
        return np.asarray(raw[:count] % 2 == 1)
    if kind.bits < 8:
        return (raw[:count] % 2**kind.bits).view(kind.numpy)
    array = raw.view(kind.numpy).copy()
    if kind.is_float:
        special = np.array([np.nan, -0.0, 0.0, 1.0], np.float64).astype(kind.numpy)
        array[: len(special)] = special[: len(array)]
    return array


@pytest.mark.parametrize("of", DTYPES)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0, 3), (5, 8)])
def test_constants_of_every_dtype_keep_their_bits(of: str, shape: tuple[int, ...]) -> None:
    data = bits(of, max(4, int(np.prod(shape))))[: int(np.prod(shape))].reshape(shape)
    module = Module({"main": function([], constant(data))})
    identity(module)
    back = parse(show(module)).main.body
    assert back.data.dtype == data.dtype and back.data.tobytes() == data.tobytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    [
        np.float32(-0.0),
        np.float32(np.inf),
        np.float32(np.nan),
        np.float64(-np.nan),
        np.float32(1e-45),
        np.float32(0.1),
        np.int64(2**63 - 1),
        np.uint64(2**64 - 1),
    ],
)
def test_scalars_keep_their_bits(value: Any) -> None:
    made = parse(show(Module({"main": function([], constant(value))}))).main.body.data  # type: ignore[attr-defined]
    assert made.dtype == value.dtype and made.tobytes() == value.tobytes()


def test_small_constants_are_readable_and_large_ones_stand_once() -> None:
    big = constant(np.arange(1000, dtype=np.float32))
    x = var("x", TensorType((1000,), FLOAT32))
    body = call("add", call("add", x, big), big)
    text = identity(Module({"main": function([x], tuple_of(body, constant(np.array([1.5, np.inf], np.float32))))}))
    assert text.count("ffi.Tensor") == 1 and text.count('metadata["ir.GenericConst"][0]') == 2
    assert 'R.const([1.5, float("inf")], "float32")' in text


def test_the_table_of_constants_is_kept() -> None:
    w = np.arange(3, dtype=np.float32)
    ref = GlobalVar(TensorType((3,), FLOAT32), "conv1.weight")
    module = Module(
        {"main": function([], call("exp", ref))}, {"conv1.weight": w, "plain": w.astype(np.int8)}, {"conv1.weight": 64}
    )
    text = identity(module)
    assert 'A.names({"conv1_weight": "conv1.weight"})' in text and "A.offsets" in text
    assert np.allclose(run(parse(text), {})["output_0"], np.exp(w))


@pytest.mark.parametrize(
    ("change", "label"),
    [
        (lambda t: t.replace("P6G0", "AAAA", 1), "text.C6"),
        (lambda t: re.sub(r'(P6G0[^"]{80})[^"]{8}', r"\1", t), "text.C6"),
        (lambda t: t.replace('"ffi.Tensor"', '"ffi.Other"'), "text.C7"),
        (lambda t: t.replace('"nodes"', '"knots"'), "text.C7"),
    ],
)
def test_a_damaged_section_is_refused(change: Any, label: str) -> None:
    text = constants_text.section([np.arange(20, dtype=np.float32)])
    good = parse(f'{text}\n@R.function\ndef main():\n    return metadata["ir.GenericConst"][0]\n')
    assert good.main.body.data.shape == (20,)  # type: ignore[attr-defined]
    with pytest.raises(Invalid) as wrong:
        parse(f'{change(text)}\n@R.function\ndef main():\n    return metadata["ir.GenericConst"][0]\n')
    assert wrong.value.label == label


# --- modules ------------------------------------------------------------------------------------------------------


def test_definitions_of_every_kind() -> None:
    n = Symbol("n")
    of = TensorType((n,), FLOAT32)
    a, b = Buffer("a", (n,), FLOAT32), Buffer("b", (n,), FLOAT32)
    kernel = PrimFunc("twice", (a, b), 1, loops("i", (n,), lambda i: store(b, (i,), a[i] + a[i])))
    t = TypeVar("T")
    option = DataDef("Option", (t,), {"none": (), "some": (t,)})
    x = var("x", of)
    some = call(constructor(option, "some"), call_tir("twice", [x], of))
    module = Module({"Option": option, "twice": kernel, "main": function([x], some), "def": function([x], x)})
    check(module)
    text = identity(module)
    assert "T_1 = A.typevar" in text and 'A.names({"v_def": "def"})' not in text
    assert entry_name(module) == "main" and entry_name(module, "def") == "def"


def test_a_data_type_that_refers_to_another() -> None:
    t = TypeVar("t")
    rose = DataDef("Rose", (t,), {"rose": (t, DataType("Forest", (t,)))})
    forest = DataDef("Forest", (t,), {"none": (), "more": (DataType("Rose", (t,)), DataType("Forest", (t,)))})
    identity(Module({"Rose": rose, "Forest": forest}))


def test_planned_programs_are_refused() -> None:
    with pytest.raises(Unsupported, match="planned program") as wrong:
        show(Module({"main": Program({}, (), (), ())}))
    assert wrong.value.label == "text.C18"


def test_an_empty_module() -> None:
    identity(Module({}))


def test_functions_without_a_class() -> None:
    module = parse('@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    return R.exp(x)\n')
    assert list(module.definitions) == ["f"] and entry_name(module) == "f"


def test_results_that_nobody_declared() -> None:
    text = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return M.second(x)
    @R.function
    def second(x: R.Tensor((2,), "float32")):
        return R.astype(M.third(x), "int64")
    @R.function
    def third(x: R.Tensor((2,), "float32")):
        return R.exp(x)
"""
    module = parse(text)
    check(module)
    assert str(module.main.result_type) == "Tensor((2), int64)" and list(module.definitions) == [
        "main",
        "second",
        "third",
    ]
    with pytest.raises(Invalid, match="need result types"):
        parse(text.replace("R.exp(x)", "M.main(x)"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "no module"),
        ("@I.ir_module\nclass A1:\n    pass\n@I.ir_module\nclass B1:\n    pass\n", "several modules, A1, B1"),
        ("@I.ir_module\nclass M:\n    def f(x):\n        pass\n", "@R.function or @T.prim_func is missing"),
        ("@I.ir_module\nclass M:\n    x = 3\n", "a module holds functions"),
        ("@I.ir_module\nclass M:\n    A.frob()\n", "has no place in a module"),
        ("@I.ir_module\nclass M:\n    @A.data(t)\n    class D:\n        pass\n", "a type parameter is expected"),
        ("@I.ir_module\nclass M:\n    @A.data\n    class D:\n        C = 3\n", "a constructor is a name"),
        ("@I.ir_module\nclass M:\n    class D:\n        pass\n", "@A.data is missing"),
        ("class\n", "syntax"),
        ("metadata = 3\nmetadata = tvm.ir.load_json(3)\n@I.ir_module\nclass M:\n    pass\n", "load_json"),
    ],
)
def test_what_is_no_module(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        parse(text)


def test_one_of_several_modules() -> None:
    text = (
        "@I.ir_module\nclass Before:\n    pass\n@I.ir_module\nclass After:\n    @R.function\n    def f(x:"
        " R.Tensor((2,), 'int8')):\n        return x\n"
    )
    assert list(parse(text, name="After").definitions) == ["f"] and not parse(text, name="Before").definitions
    with pytest.raises(Invalid, match="there is no module Other"):
        parse(text, name="Other")


# --- as it stands in bug reports ----------------------------------------------------------------------------------


def inputs_of(text: str) -> dict[str, Any]:
    """The line `# inputs: x=ones((2, 4), float32) n=3` of a file."""
    found = re.search(r"^# inputs: (.*)$", text, re.MULTILINE)
    assert found
    made: dict[str, Any] = {}
    for name, value in re.findall(r"(\w+)=(\w+\(.*?\), \w+\)|\d+)", found[1]):
        if value.isdigit():
            made[name] = np.int64(int(value))
            continue
        kind, shape, of = re.findall(r"(\w+)\((\(.*?\)), (\w+)\)", value)[0]
        made[name] = np.full(tuple(map(int, re.findall(r"\d+", shape))), kind == "ones", of)
    return made


@pytest.mark.parametrize("name", FILES)
def test_a_module_out_of_a_report(name: str) -> None:
    text = (FOLDER / f"{name}.py.txt").read_text(encoding="utf-8")
    module = parse(text, f"{name}.py")
    check(module)
    identity(module)
    results = run(module, inputs_of(text))
    wanted = re.findall(r"^# expected: (\w+) (\w+) (\(.*?\)) (.*)$", text, re.MULTILINE)
    assert [w[0] for w in wanted] == list(results)
    for output, of, shape, values in wanted:
        value = np.asarray(results[output])
        assert str(value.dtype) == of and str(value.shape) == shape and str(value.tolist()) == values


# --- assay run FILE.py --------------------------------------------------------------------------------------------


def assay(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as done:
        command()
    return int(done.value.code or 0)


PRINTS = """
from tvm.script import relax as R
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", 2), "float32"):
        R.print(x, format="x is {}")
        R.assert_op(c, x, format="c is false")
        return R.nn.relu(x)
"""


@pytest.fixture
def prints(tmp_path: Path) -> Path:
    path = tmp_path / "prints.py"
    path.write_text(PRINTS)
    return path


def test_a_run_shows_inputs_effects_and_results(
    prints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for seed in range(12):
        code = assay(monkeypatch, "run", prints, "--seed", seed, "--dim", "n=1")
        out = capsys.readouterr()
        assert re.match(r"x = Tensor\(\(1, 2\), float32\) [0-9a-f]{16}\nc = .*\nprint: x is \[\[.*\]\]\n", out.out)
        said[code] = out
    assert set(said) == {0, 1}  # c is true, or false
    assert re.search(r"output_0: Tensor\(\(1, 2\), float32\) [0-9a-f]{16}\n    \[\[", said[0].out)
    assert "trap (assertion)" in said[1].err and "prints.py:8:9" in said[1].err and "output_0" not in said[1].out


def test_a_run_is_fixed_by_its_seed(
    prints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outs = []
    for seed in (3, 3, 4):
        assay(monkeypatch, "run", prints, "--seed", seed, "--dim", "n=2")
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] != outs[2]


def test_a_tensor_function_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text((FOLDER / "call_tir.py.txt").read_text(encoding="utf-8"))
    assert assay(monkeypatch, "run", path, "--function", "both", "--dim", "n=2", "-o", tmp_path / "out.npz") == 0
    out = capsys.readouterr().out
    assert "y: Tensor((2, 4), float32)" in out and "z: Tensor((2, 4), float32)" in out
    saved = read_npz(tmp_path / "out.npz")
    assert sorted(saved) == ["y", "z"] and np.allclose(saved["z"], saved["y"] * 1.5)
    np.savez(tmp_path / "in.npz", x=np.ones((3, 4), np.float32))
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz") == 0
    assert "output_1: Tensor((3, 4), float32)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--function", "nothing"], "the module has no function nothing; it has main [text.C16]"),
        (["--dim", "k=2"], "main has no symbolic dim k; it has n [check.C1]"),
        (["--module", "Other"], "there is no module Other"),
    ],
)
def test_a_run_that_cannot_be(
    args: list[str], message: str, prints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "run", prints, *args) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_file_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(PRINTS.replace("R.nn.relu(x)", "R.nn.relu(y)"))
    assert assay(monkeypatch, "run", path) == 2
    err = capsys.readouterr().err
    assert f"{path}:9:26: nothing is called y here" in err and "return R.nn.relu(y)\n" in err and " ^" in err
    path.write_text(PRINTS.replace("pure=False", "pure=True"))
    assert assay(monkeypatch, "run", path) == 2
    assert "declared pure acts" in capsys.readouterr().err
    assert assay(monkeypatch, "run", tmp_path / "missing.py") == 2


def test_sizes_that_nobody_gives_differ() -> None:
    n, m = Symbol("n"), Symbol("m")
    made = run_inputs({"x": TensorType((n, m), FLOAT32), "y": TensorType((m + n,), INT64)}, {}, 0, {"m": 6})
    assert made["x"].shape[1] == 6 and made["y"].shape == (made["x"].shape[0] + 6,) and made["x"].shape[0] != 6


def test_a_span_is_where_the_text_says() -> None:
    with pytest.raises(Invalid) as wrong:
        parse("@I.ir_module\nclass M:\n    @R.function\n    def f(x):\n        return x\n", "here.py")
    assert wrong.value.where == Span("here.py", "", 4, 11)


def test_scalars_of_a_tensor_function() -> None:
    text = """
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def shifted(x: T.Buffer((n,), "int64"), y: T.Buffer((n,), "int64"), k: T.int64):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                y[v] = x[v] + k
    @R.function
    def main(x: R.Tensor((n,), "int64")) -> R.Tensor((n,), "int64"):
        lv = R.call_tir(shifted, (x,), R.Tensor((n,), "int64"), tir_vars=R.shape([n * 2]))
        return lv
"""
    module = parse(text)
    check(module)
    assert "tir_vars=R.shape([n * 2])" in identity(module)
    assert run(module, {"x": np.zeros(3, np.int64)})["output_0"].tolist() == [6, 6, 6]


def test_what_is_asked_of_a_model_that_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(small_cnn(), tmp_path / "cnn.onnx")
    assert assay(monkeypatch, "run", tmp_path / "cnn.onnx", "--function", "main") == 2
    assert "are for a module as text" in capsys.readouterr().err
