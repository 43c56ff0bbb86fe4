"""The definition of the tensor IR (specs/interp.md, "Tensor" and "Memory"): values by hand, and each trap with its
words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor
from assay.interp.memory import Memory
from assay.semantics.dtypes import BOOL, FLOAT16, FLOAT32, INT64, UINT8, DType
from assay.semantics.errors import Invalid, Span, Trap
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    While,
    loops,
    seq,
    store,
    when,
)
from tests.interp import kernels
from tests.places import ROOT

Array = np.ndarray[Any, Any]
X, OUT = Buffer("x", (4,), FLOAT32), Buffer("out", (4,), FLOAT32)
DATA = np.array([1.5, -2.0, 3.25, 4.0], np.float32)
COPY = loops("i", (4,), lambda i: store(OUT, i, X[i]))


def run(body: Stmt, inputs: list[Array] | None = None, params: tuple[Buffer, ...] = (X, OUT)) -> Array:
    return tensor.run(PrimFunc("f", params, 1, body), [DATA] if inputs is None else inputs)[0]


def trap(body: Stmt, inputs: list[Array] | None = None, params: tuple[Buffer, ...] = (X, OUT)) -> Trap:
    with pytest.raises(Trap) as caught:
        run(body, inputs, params)
    return caught.value


# --- values ------------------------------------------------------------------------------------------------------


def test_matmul_in_its_own_order() -> None:
    """Products and sums one at a time, each rounded to float16."""
    func = kernels.matmul(2, 3, 4, FLOAT16)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4)).astype(np.float16), rng.standard_normal((4, 3)).astype(np.float16)
    expected = np.zeros((2, 3), np.float16)
    for i in range(2):
        for k in range(4):
            for j in range(3):
                expected[i, j] = np.float16(expected[i, j] + np.float16(a[i, k] * b[k, j]))
    assert tensor.run(func, [a, b])[0].tobytes() == expected.tobytes()


def test_convolution_against_a_plain_sum() -> None:
    func = kernels.conv2d()
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, b.static_shape).astype(np.float32) for b in func.inputs)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    (got,) = tensor.run(func, [x, w])
    expected = np.zeros_like(got)
    for n, o, y, z in np.ndindex(got.shape):
        group = slice(0, 2) if o < 3 else slice(2, 4)
        expected[n, o, y, z] = (padded[n, group, 2 * y : 2 * y + 3, 2 * z : 2 * z + 3] * w[o]).sum()
    assert (got == expected).all()


def test_statements() -> None:
    n = Buffer("n", (), INT64)
    i, t = Var("i"), Var("t", FLOAT32)
    table = Buffer("table", (2,), FLOAT32)
    body = Allocate(
        n,
        seq(
            store(n, (), const(0)),
            AllocateConst(
                table,
                np.array([10, 20], np.float32),
                While(
                    n[()] < 4,
                    seq(
                        LetStmt(
                            t,
                            X[n[()]] * 2.0,
                            If(t > 0.0, store(OUT, n[()], t + table[0]), store(OUT, n[()], t + table[1])),
                        ),
                        store(n, (), n[()] + 1),
                    ),
                ),
            ),
            Evaluate(n[()]),
            Assert(apply("eq", n[()], 4), "four"),
            For(i, const(0), store(OUT, 0, const(99, FLOAT32))),
            when(n[()] > 9, store(OUT, 0, const(99, FLOAT32))),
        ),
    )
    assert run(body).tolist() == [13.0, 16.0, 16.5, 18.0]


def test_a_let_names_the_value_of_its_moment() -> None:
    t = Var("t", FLOAT32)
    body = seq(COPY, LetStmt(t, OUT[0], seq(store(OUT, 0, OUT[1]), store(OUT, 1, t))))
    assert run(body).tolist() == [-2.0, 1.5, 3.25, 4.0]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 3)])
def test_small_and_empty_shapes(shape: tuple[int, ...]) -> None:
    x, out = Buffer("x", shape, FLOAT32), Buffer("out", shape, FLOAT32)
    body = loops(" ".join(f"i{k}" for k in range(len(shape))), shape, lambda *i: store(out, i, -x[i]))
    data = np.arange(int(np.prod(shape))).astype(np.float32).reshape(shape)
    assert (run(body, [data], (x, out)) == -data).all()


def test_integers_wrap_and_floats_round_in_their_dtype() -> None:
    x, out = Buffer("x", (2,), UINT8), Buffer("out", (2,), UINT8)
    body = loops("i", (2,), lambda i: store(out, i, x[i] + 200))
    assert run(body, [np.array([100, 50], np.uint8)], (x, out)).tolist() == [44, 250]
    assert run(loops("i", (4,), lambda i: store(OUT, i, X[i] * 3e38 * 10.0))).tolist() == [
        np.inf,
        -np.inf,
        np.inf,
        np.inf,
    ]


def test_a_loop_variable_wraps() -> None:
    i, out = Var("i", UINT8), Buffer("out", (256,), UINT8)
    body = seq(
        loops("p", (256,), lambda p: store(out, p, const(0, UINT8))),
        For(i, const(300), store(out, i, out[i] + const(1, UINT8))),
    )
    (result,) = tensor.run(PrimFunc("f", (out,), 1, body), [])
    assert result.tolist() == [2] * 44 + [1] * 212


def test_symbolic_dims() -> None:
    n, m = Var("n"), Var("m")
    x, y, out = Buffer("x", (n, m), FLOAT32), Buffer("y", (m,), FLOAT32), Buffer("out", (n + m,), FLOAT32)
    body = seq(loops("i", (n,), lambda i: store(out, i, x[i, 0])), loops("j", (m,), lambda j: store(out, n + j, y[j])))
    a, b = np.ones((2, 3), np.float32), np.zeros(3, np.float32)
    assert run(body, [a, b], (x, y, out)).tolist() == [1, 1, 0, 0, 0]
    with pytest.raises(Invalid) as wrong:
        run(body, [a, np.zeros(4, np.float32)], (x, y, out))
    assert wrong.value.label == "argument.C3" and "m = 3" in str(wrong.value)


def test_thousands_of_nested_loops_and_operands() -> None:
    deep: Stmt = COPY
    total: Expr = const(0.0, FLOAT32)
    for k in range(5000):
        deep = For(Var(f"v{k}"), const(1), deep)
        total = total + 1.0
    assert (run(deep) == DATA).all()
    assert run(seq(COPY, store(OUT, 0, total)))[0] == 5000


# --- inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "label"),
    [
        ([], "argument.C1"),
        ([DATA, DATA], "argument.C1"),
        ([DATA.astype(np.float64)], "argument.C2"),
        ([DATA.reshape(2, 2)], "argument.C2"),
        ([DATA[:3]], "argument.C3"),
    ],
)
def test_inputs_must_fit(inputs: list[Array], label: str) -> None:
    with pytest.raises(Invalid) as wrong:
        run(COPY, inputs)
    assert wrong.value.label == label


def test_dims_must_be_bound_and_not_negative() -> None:
    n = Var("n")
    for shape, label in (((n,), "argument.C4"), ((-3,), "argument.C5")):
        with pytest.raises(Invalid) as wrong:
            run(COPY, params=(X, Buffer("out", shape, FLOAT32)))
        assert wrong.value.label == label


# --- traps -------------------------------------------------------------------------------------------------------

ZERO = const(0, FLOAT32)
V = Var("v")


def loop(kind: Any, body: Stmt, extent: int = 4) -> Stmt:
    return For(V, const(extent), body, kind)


@pytest.mark.parametrize(
    ("body", "kind", "label", "words"),
    [
        (loop("serial", store(OUT, V + 1, X[V])), "out of bounds", "tensor.T2",
            "out[4]: index 4 is outside [0, 4) in dimension 0, in iteration v=3"),
        (loop("serial", store(OUT, V, X[V - 1])), "out of bounds", "tensor.T2",
            "x[-1]: index -1 is outside [0, 4) in dimension 0, in iteration v=0"),
        (loop("serial", store(OUT, V, OUT[V])), "unwritten read", "tensor.T3",
            "out[0] is read before it is written, in iteration v=0"),
        (loop("serial", store(OUT, V, ZERO), 3), "unwritten output", "tensor.T5",
            "1 of 4 elements of output out were never written; the first is out[3]"),
        (loop("serial", store(X, V, ZERO)), "store to constant", "tensor.T4",
            "store to x[0]: x is read-only (an input or a constant), in iteration v=0"),
        (store(Buffer("gone", (1,), FLOAT32), 0, ZERO), "use outside lifetime", "tensor.T1",
            "buffer gone does not exist here"),
        (loop("serial", Assert(V < 2, "less than two")), "assertion", "tensor.T7", "less than two, in iteration v=2"),
        (Evaluate(const(1) // cast(X[0] * 0.0, INT64)), "division by zero", "scalar.T1", "integer division by zero"),
        (Evaluate(cast(X[0] / 0.0, INT64)), "cast", "scalar.T3", "out of the range of int64"),
        (Evaluate(apply("shl", const(1), cast(X[3] * 16.0, INT64))), "shift", "scalar.T2",
            "shift by less than 0 or by 64"),
        (loop("parallel", store(OUT, 0, X[V])), "race", "tensor.T6",
            "iterations 0 and 1 of the loop over v both touch out[0], and one writes it, in iteration v=1"),
    ],
)  # fmt: skip
def test_traps(body: Stmt, kind: str, label: str, words: str) -> None:
    got = trap(body)
    assert (got.kind, got.label) == (kind, label)
    assert words in got.message


def test_each_dimension_has_its_own_bound() -> None:
    """[0, 5] in a 4 by 4 grid is not [1, 1]."""
    grid = Buffer("grid", (4, 4), FLOAT32)
    got = trap(Evaluate(grid[0, 5]), [np.zeros((4, 4), np.float32)], (grid, OUT))
    assert got.kind == "out of bounds" and "grid[0, 5]: index 5 is outside [0, 4) in dimension 1" in got.message


def test_a_trap_has_a_place_in_the_source() -> None:
    place = Span("model.onnx", "node 7")
    assert trap(Store(OUT, (const(4),), ZERO, span=place)).where == place
    assert trap(Store(OUT, (const(4),), ZERO)).where == "f"


def test_a_workspace_begins_unwritten_each_time() -> None:
    tmp = Buffer("tmp", (), FLOAT32)
    body = loop("serial", Allocate(tmp, seq(when(V < 1, store(tmp, (), ZERO)), store(OUT, V, tmp[()]))))
    got = trap(body)
    assert got.kind == "unwritten read" and "in iteration v=1" in got.message


def test_a_constant_of_the_function_is_read_only() -> None:
    table = Buffer("table", (2,), FLOAT32)
    body = AllocateConst(table, np.zeros(2, np.float32), store(table, 1, ZERO))
    assert trap(body).kind == "store to constant"


U = Var("u")
T = Buffer("t", (), FLOAT32)
SHIFTED = loop("parallel", store(OUT, V, OUT[apply("min", V + 1, const(3))]))


LEFT = apply("max", V - 1, const(0))
RIGHT = apply("min", V + 1, const(3))


@pytest.mark.parametrize(
    ("name", "body", "races", "carries"),
    [
        ("each its own", store(OUT, V, X[V]), False, False),
        ("read and write its own", seq(store(OUT, V, X[V]), store(OUT, V, OUT[V] + 1.0)), False, False),
        ("all read one", store(OUT, V, X[0]), False, False),
        ("own workspace", Allocate(T, seq(store(T, (), X[V]), store(OUT, V, T[()]))), False, False),
        ("write and write", store(OUT, V // 2, X[V]), True, True),
        ("write, then read the left", seq(store(OUT, V, X[V]), Evaluate(OUT[LEFT])), True, False),
        ("read the left, then write", store(OUT, V, OUT[LEFT] + X[V]), True, True),
        ("read the right, then write", store(OUT, V, OUT[RIGHT] + X[V]), True, False),
        ("write, then read the right", seq(store(OUT, V, X[V]), Evaluate(OUT[RIGHT])), True, True),
        ("read the right twice", For(U, const(2), store(OUT, V, OUT[RIGHT] + X[V])), True, True),
        ("one half reads what the other writes", If(V < 2, Evaluate(OUT[V + 2]), store(OUT, V, X[V])), True, False),
        ("one half writes what the other reads", If(V < 2, store(OUT, V + 2, X[V]), Evaluate(OUT[V])), True, False),
        ("the later half is read first", If(V >= 2, store(OUT, V, X[V]), Evaluate(OUT[V + 2])), True, True),
        ("a loop inside", For(U, const(2), store(OUT, V, X[U])), False, False),
        ("a loop inside that leaves its part", For(U, const(2), store(OUT, apply("min", V + U, const(3)), X[U])), True,
            True),
        ("a loop inside that goes back", For(U, const(2), store(OUT, apply("max", V - U, const(0)), X[U])), True, True),
    ],
)  # fmt: skip
def test_races(name: str, body: Stmt, races: bool, carries: bool) -> None:
    for kind, wrong, words in (("parallel", races, "race"), ("vectorized", carries, "carried dependence")):
        whole = seq(COPY, loop(kind, body), COPY)
        if wrong:
            assert trap(whole).kind == words
        else:
            run(whole)


def test_a_read_before_another_iterations_write_is_a_race() -> None:
    got = trap(seq(COPY, SHIFTED))
    assert got.kind == "race" and "iterations 0 and 1 of the loop over v both touch out[1]" in got.message


def test_iterations_of_different_runs_of_a_loop_do_not_race() -> None:
    """Each run of the inner loop asserts for itself; the serial loop around it may carry values."""
    inner = For(V, const(4), store(OUT, V, OUT[V] + 1.0), "parallel")
    assert run(seq(COPY, For(U, const(3), inner))).tolist() == (DATA + 3).tolist()


def test_a_run_may_be_given_up() -> None:
    func = PrimFunc("f", (X, OUT), 1, COPY)
    tensor.run(func, [DATA], limit=4)
    with pytest.raises(tensor.Unfinished):
        tensor.run(func, [DATA], limit=3)


def test_memory_sees_every_access() -> None:
    """A caller may put memory of its own behind the accesses."""
    seen: list[str] = []

    class Watched(Memory):
        def load(self, buffer: Buffer, index: Any) -> Any:
            seen.append(f"{buffer.name}{int(index[0])}")
            return super().load(buffer, index)

        def store(self, buffer: Buffer, index: Any, value: Any) -> None:
            seen.append(f"{buffer.name}{int(index[0])}={value}")
            super().store(buffer, index, value)

    tensor.run(PrimFunc("f", (X, OUT), 1, COPY), [DATA], memory=Watched())
    assert seen[:4] == ["x0", "out0=1.5", "x1", "out1=-2.0"]


@pytest.mark.parametrize("of", [BOOL, FLOAT16, INT64], ids=str)
def test_results_have_the_buffers_dtype(of: DType) -> None:
    x, out = Buffer("x", (2,), of), Buffer("out", (2,), of)
    got = run(loops("i", (2,), lambda i: store(out, i, x[i])), [np.array([1, 0]).astype(of.numpy)], (x, out))
    assert got.dtype == of.numpy and got.astype(int).tolist() == [1, 0]


def test_an_empty_program_has_unwritten_outputs() -> None:
    assert trap(Seq(())).kind == "unwritten output"


# --- the rules ---------------------------------------------------------------------------------------------------


def numbered(text: str) -> dict[int, str]:
    """The rules of the chapter, by number."""
    section = text[text.index("\n## Tensor\n") : text.index("\n## Memory\n")]
    found = re.findall(r'^- <a id="e\d+"></a>E(\d+) (.*(?:\n  .*)*)', section, re.MULTILINE)
    return {int(n): words for n, words in found}


def test_the_definition_says_each_rule_of_its_chapter() -> None:
    rules = numbered((ROOT / "specs" / "interp.md").read_text(encoding="utf-8"))
    source = (ROOT / "interp" / "tensor.py").read_text(encoding="utf-8")
    said = {
        int(n) for line in source.splitlines() if "#" in line for n in re.findall(r"\bE(\d+)", line.split("#", 1)[1])
    }
    assert list(rules) == list(range(len(rules)))
    assert said == set(rules), (
        f"without a case: {sorted(set(rules) - said)}; without a rule: {sorted(said - set(rules))}"
    )
    cases = {name: int(n) for name, n in re.findall(r"case (\w+)\(.*\):  # E(\d+)", source)}
    assert all(f"`{name}`" in rules[n] for name, n in cases.items()), cases


def test_every_node_has_a_rule() -> None:
    words = " ".join(numbered((ROOT / "specs" / "interp.md").read_text(encoding="utf-8")).values())
    source = (ROOT / "interp" / "tensor.py").read_text(encoding="utf-8")
    nodes = {c.__name__ for base in (Stmt, Expr) for c in leaves(base)}
    assert {"For", "Call", "Block", "Choice"} <= nodes
    for name in nodes:
        assert f"`{name}`" in words, f"{name} has no rule"
        assert re.search(rf"case (tensor\.)?{name}\(|isinstance\(n, (tensor\.)?{name}\)", source), f"{name} has no case"


def leaves(base: type) -> list[type]:
    """The classes without subclasses that a tensor function is made of: index notation has more."""
    rooms = ("assay.semantics.scalar", "assay.semantics.tensor")
    below = [c for c in base.__subclasses__() if c.__module__.startswith(rooms)]
    return [leaf for c in below for leaf in leaves(c)] if below else [base]
