"""Proofs for all sizes come in pairs: a function of which everything is proved, and a fault in it that is refuted."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import z3
from onnx import TensorProto, helper

from assay.interp import tensor
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Expr, Var, apply, const
from assay.semantics.tensor import Alias, Allocate, Buffer, Call, Evaluate, For, Stmt, View, While, loops, seq, store
from assay.semantics.tensor.rules import check_prim_func
from assay.verify.app.cli import main
from assay.verify.symbolic import ProofReport, command, prove_accesses
from tests.museum import symbolic_functions as museum
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.symbolic_faults import LASTING, MAKERS
from tests.museum.planted import PlantedFault
from tests.museum.symbolic_functions import F, K, M, N
from tests.scale import MANY

PRODUCTS = ("flatten", "fused", "row_view")
"""Products of sizes: a counterexample takes z3 a second or more."""
SLOWEST = ("flatten: wrong step", "fused: one less")
"""Of two faults of one kernel the one that takes longer, for the campaign."""


def open_goals(report: ProofReport) -> str:
    return "\n".join(f"{g.verdict} {g.kind}: {g.claim}: {g.detail}" for g in report.goals if g.verdict != "proved")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in PRODUCTS[1:] else ()) for n in MAKERS])
def test_what_is_right_is_proved(name: str) -> None:
    make, bounds = MAKERS[name]
    func = make()
    check_prim_func(func)
    report = prove_accesses(func, bounds)
    assert report.verdict == "proved", open_goals(report)
    assert {"in bounds", "output written"} <= {g.kind for g in report.goals}
    assert all(g.query for g in report.goals)


@planted("symbolic_faults")
def test_what_is_wrong_by_one_is_refuted(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f.name, marks=pytest.mark.campaign if f.name in SLOWEST else ()) for f in LASTING],
)
def test_what_is_wrong_by_one_is_refuted_in_long_proofs(fault: PlantedFault) -> None:
    assert fault.refused().layer == fault.layer


# --- what depends on sizes ------------------------------------------------------------------------------------------


def kinds(report: ProofReport, verdict: str) -> set[str]:
    return {g.kind for g in report.goals if g.verdict == verdict}


def test_an_index_of_32_bits_overflows_for_large_sizes_only() -> None:
    func = museum.narrow()
    report = prove_accesses(func)
    assert report.verdict == "refuted"
    (goal,) = report.of("refuted")
    assert goal.kind == "no overflow" and "int32 takes for -" in goal.detail
    n, m, i, j = (goal.sizes["n"], goal.sizes["m"], goal.iteration["i"], goal.iteration["j"])
    assert i < n and j < m and max(i * m, i * m + j) > 2**31 - 1
    assert prove_accesses(func, {"n": (0, 1000), "m": (0, 2_000_000)}).verdict == "proved"


def test_a_tile_of_symbolic_size_may_be_empty() -> None:
    func = museum.symbolic_tile()
    report = prove_accesses(func)
    (goal,) = report.of("refuted")
    assert goal.kind == "no division by zero" and goal.sizes == {"n": 0, "k": 0}
    assert prove_accesses(func, {"k": (1, None)}).verdict == "proved"


def test_a_store_to_an_input_is_refuted_unless_it_is_never_reached() -> None:
    func = museum.read_only()
    report = prove_accesses(func)
    assert [(g.kind, g.sizes) for g in report.of("refuted")] == [("writable", {"n": 1})]
    assert prove_accesses(func, {"n": (0, 0)}).verdict == "proved"


def test_sizes_given_as_numbers_are_proved_too() -> None:
    x, out = Buffer("x", (5, 4), F), Buffer("out", (4, 5), F)
    right = loops("i j", (5, 4), lambda i, j: store(out, (j, i), x[i, j]), "parallel")
    assert prove_accesses(museum.func("turned", right, x, out)).verdict == "proved"
    wrong = loops("i j", (5, 4), lambda i, j: store(out, (i, j), x[i, j]), "parallel")
    report = prove_accesses(museum.func("turned", wrong, x, out))
    assert kinds(report, "refuted") == {"in bounds"} and report.of("refuted")[0].iteration == {"i": 4, "j": 0}


def test_a_bound_names_a_size() -> None:
    with pytest.raises(Invalid, match="no size of matmul is called h; there are: k, m, n"):
        prove_accesses(museum.matmul(), {"h": (1, 2)})


# --- what is not decided ---------------------------------------------------------------------------------------------


def test_what_depends_on_memory_is_unknown_and_never_proved() -> None:
    x, out, count = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("count", (), INT64)
    step = seq(store(out, count[()], x[count[()]]), store(count, (), count[()] + 1))
    body = Allocate(count, seq(store(count, (), 0), While(count[()] < N, step)))
    func = museum.func("while_loop", body, x, out)
    tensor.run(func, [np.ones(3, np.float32)])
    report = prove_accesses(func)
    assert report.verdict == "unknown" and kinds(report, "unknown") == {"in bounds", "output written"}
    assert all("checked on the run" in g.detail for g in report.of("unknown"))


def test_a_while_loop_around_what_does_not_depend_on_it_is_no_obstacle() -> None:
    x, out, more = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("more", (), BOOL)
    again = loops("i", (N,), lambda i: store(out, i, out[i] * 0.5), "parallel")
    first = loops("i", (N,), lambda i: store(out, i, x[i]), "parallel")
    turn = While(more[()], seq(again, store(more, (), const(False, BOOL))))
    func = museum.func("halved", Allocate(more, seq(first, store(more, (), const(True, BOOL)), turn)), x, out)
    report = prove_accesses(func)
    assert report.verdict == "proved", open_goals(report)


def test_what_a_while_loop_writes_may_not_be_written() -> None:
    x, out, more = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("more", (), BOOL)
    turn = While(more[()], seq(loops("i", (N,), lambda i: store(out, i, x[i])), store(more, (), const(False, BOOL))))
    func = museum.func("perhaps", Allocate(more, seq(store(more, (), const(False, BOOL)), turn)), x, out)
    goal = next(g for g in prove_accesses(func).goals if g.kind == "output written")
    assert goal.verdict == "refuted" and goal.sizes == {"n": 1}


def test_a_statement_that_is_not_known_is_reported() -> None:
    class Strange(Stmt):
        pass

    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    body = seq(loops("i", (N,), lambda i: store(out, i, x[i])), Strange())
    report = prove_accesses(museum.func("strange", body, x, out))
    assert report.verdict == "unknown" and "Strange is not understood" in open_goals(report)


def test_a_call_is_looked_into_where_the_function_is_given() -> None:
    x, out = Buffer("x", (K, M), F), Buffer("out", (K, M), F)
    a, b = Buffer("a", (N,), F), Buffer("b", (N,), F)
    inner = museum.func("inner", loops("i", (N,), lambda i: store(b, i, a[i]), "parallel"), a, b)
    row = Buffer("row", (M,), F), Buffer("to", (M,), F)

    def one(i: Expr) -> Stmt:
        at = apply("mul", i, M)
        call = Call("inner", row)
        return Alias(View(row[0], x, at, (const(1),)), Alias(View(row[1], out, at, (const(1),)), call))

    func = museum.func("outer", loops("i", (K,), one, "parallel"), x, out)
    assert "inner is not known here" in open_goals(prove_accesses(func))
    report = prove_accesses(func, functions={"inner": inner})
    assert report.verdict == "proved", open_goals(report)
    beyond = museum.func("inner", loops("i", (N,), lambda i: store(b, i + 1, a[i]), "parallel"), a, b)
    assert prove_accesses(func, functions={"inner": beyond}).verdict == "refuted"


@pytest.mark.parametrize("wide", [False, True])
def test_a_program_of_any_size_gets_an_answer(wide: bool) -> None:
    out = Buffer("out", (N,), F)
    body: Stmt = store(out, 0, const(0, F))
    if wide:
        value: Expr = const(0, F)
        for _ in range(MANY):
            value = value + 1.0
        body = store(out, 0, value)
    else:
        for _ in range(MANY):
            body = For(Var("i"), const(1), body)
    report = prove_accesses(museum.func("large", body, out))
    assert report.verdict == "unknown" and "understood" in kinds(report, "unknown")


def test_many_statements_get_an_answer() -> None:
    out = Buffer("out", (N,), F)
    report = prove_accesses(museum.func("long", seq(*(Evaluate(const(1, F)) for _ in range(3000))), out))
    assert report.verdict != "proved" and "understood" in kinds(report, "unknown")


# --- evidence --------------------------------------------------------------------------------------------------------


def test_queries_are_kept_and_checked_again(tmp_path: Path) -> None:
    reports = [prove_accesses(museum.conv()), prove_accesses(museum.conv(fill=False))]
    command.write_queries(tmp_path, reports)
    assert len(list(tmp_path.glob("*.smt2"))) == sum(len(r.goals) for r in reports)
    assert command.recheck_queries(tmp_path) == []
    text = next(p for p in sorted(tmp_path.glob("*in-bounds*")))
    weaker = text.read_text("utf-8").split("(assert", 1)[0] + "(check-sat)\n"
    text.write_text(weaker, "utf-8")
    assert len(command.recheck_queries(tmp_path)) == 1


@pytest.mark.parametrize(("longer", "count"), [(0, 1), (1, 0)])
def test_what_later_queries_rest_on_is_a_goal_with_a_text(longer: int, count: int) -> None:
    """That a view lies in its source index by index: where it does not, nothing may rest on it."""
    x, out = Buffer("x", (N,), F), Buffer("out", (N,), F)
    part = Buffer("part", (N + longer,), F)
    body = Alias(View(part, x, const(0), (const(1),)), loops("i", (N,), lambda i: store(out, i, part[i])))
    func = museum.func("through", body, x, out)
    found = [
        g for g in prove_accesses(func).goals if g.claim == "each index of part is one of x, moved by where it begins"
    ]
    assert [g.verdict for g in found] == ["proved"] * count
    for goal in found:
        solver = z3.Solver()
        solver.from_string(goal.query)
        assert solver.check() == z3.unsat


@pytest.mark.peer
@pytest.mark.parametrize("name", ["matmul", "conv", "fused"])
def test_another_solver_agrees(name: str) -> None:
    cvc5 = pytest.importorskip("cvc5", reason="cvc5 is not installed")
    make, bounds = MAKERS[name]
    for goal in prove_accesses(make(), bounds).goals:
        solver = cvc5.Solver(cvc5.TermManager())
        solver.setOption("rlimit-per", "300000")
        solver.setOption("nl-ext-tplanes", "true")
        parser = cvc5.InputParser(solver)
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, goal.query, goal.kind)
        said = ""
        while not (step := parser.nextCommand()).isNull():
            said += step.invoke(solver, parser.getSymbolManager())
        assert said.strip() == "unsat", goal.claim


SOURCE = """
from tvm.script import tir as T

@T.prim_func
def copy(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for i in T.parallel(n):
        Y[i] = X[{index}]
"""


def prove(path: Path, monkeypatch: pytest.MonkeyPatch, *more: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", "prove", str(path), *map(str, more)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


@pytest.mark.parametrize(("index", "code"), [("i", 0), ("i + 1", 1)])
def test_the_command(
    index: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy.py"
    path.write_text(SOURCE.format(index=index), "utf-8")
    assert prove(path, monkeypatch, "--out", tmp_path / "evidence") == code
    out = capsys.readouterr().out
    assert re.search(r"copy +│ independent: 1 goal +│ proved", out)
    assert ("n = 1; i = 0; trap (out of bounds)" in out) == bool(code)
    assert command.recheck_queries(tmp_path / "evidence") == []
    assert prove(tmp_path / "evidence", monkeypatch) == 0 and "z3 says every verdict again" in capsys.readouterr().out
    assert prove(path, monkeypatch, "--out", tmp_path / "evidence", "--bound", "n=0..0") == 0


@pytest.mark.parametrize(
    ("file", "text"),
    [("goals.json", '{"goals": [1]}'), ("goals.json", "{"), ("0*-in-bounds.smt2", "(assert"), ("goals.json", None)],
)
def test_queries_that_nothing_has_written_are_refused(
    file: str, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command.write_queries(tmp_path, [prove_accesses(museum.conv())])
    path = min(tmp_path.glob(file))
    path.unlink() if text is None else path.write_text(text, "utf-8")
    assert prove(tmp_path, monkeypatch) == 2 and "[symbolic.C4]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--function", "f"], "the module has no tensor function f; it has copy"),
        (["--bound", "n"], "--bound takes NAME=LEAST..MOST"),
        (["--bound", "n=5..2"], "no sizes of copy are within these bounds"),
        (["--bound", "n=-5..-1"], "no sizes of copy are within these bounds"),
        (["--bound", "m=1.."], "copy has no symbolic dim m; it has n [check.C1]"),
        (["--out", "."], "is not empty, and not a directory that assay prove made"),
    ],
)
def test_a_wrong_command_gets_one_line(
    more: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy.py"
    path.write_text(SOURCE.format(index="i"), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert prove(path, monkeypatch, *more) == 2
    assert message in capsys.readouterr().err


def test_the_command_says_that_something_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.py"
    text = SOURCE.format(index='T.Cast("int64", T.max(T.min(X[i], T.float32(1.0)), T.float32(0.0)))')
    path.write_text(text, "utf-8")
    assert prove(path, monkeypatch) == 4
    assert "it depends on the values of floats; checked on the run" in capsys.readouterr().out


def test_the_command_proves_the_kernels_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in "xy")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Softmax", ["t"], ["y"])], "g", [x], [y]
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert prove(path, monkeypatch, "--dim", "N=3") == 0
    capsys.readouterr()
    assert prove(path, monkeypatch) == 0
    out = capsys.readouterr().out
    assert re.search(r"relu\S* +│ output written: 1 goal +│ proved", out) and re.search(
        r"softmax\S* +│ written before", out
    ), out


@pytest.mark.parametrize(("name", "message"), [("model.onnx", "model.onnx"), ("module.py", "not UTF-8")])
def test_what_is_neither_a_text_nor_a_model_is_refused(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xff\xfe\x00 garbage")
    assert prove(path, monkeypatch) == 2
    assert message in capsys.readouterr().err
