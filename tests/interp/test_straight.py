"""Straight-line Python against the definition, bit for bit and trap for trap (specs/interp.md, "Vector").

Random programs of all generators run this way in `test_vector`, `test_blocks_random` and `test_valid_programs` too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.vector import straight, straight_value
from assay.interp.vector.straight import _Emitter
from assay.interp.vector.straight_value import StraightValues
from assay.semantics.dtypes import DTYPES, FLOAT32, FLOAT64, INT64, DType
from assay.semantics.scalar import DERIVED, OPERATIONS, Apply, Expr, Var, apply, cast, choice, const
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.tensor import Allocate, Buffer, For, LetStmt, PrimFunc, Stmt, While, loops, seq, store, when
from assay.verify.strategies.kernels import Kernels as Maker
from assay.verify.strategies.tensors import a_tensor_function as valid_program
from tests.interp.block_programs import random_blocks
from tests.interp.programs import Array, agree, alone, outcome, random_case, same_bits, values
from tests.interp.test_vector import specials
from tests.interp.valid_programs import inputs_for

N = 12
X, Y = Buffer("x", (N,), FLOAT32), Buffer("y", (N,), INT64)
OUT = Buffer("out", (N,), FLOAT32)
DATA = [np.arange(1, N + 1, dtype=np.float32) / 3, np.arange(N)[::-1].copy()]


def function(*body: Stmt) -> PrimFunc:
    return PrimFunc("f", (X, Y, OUT), 1, seq(*body))


def fill() -> Stmt:
    return loops("z", (N,), lambda z: store(OUT, z, const(0, FLOAT32)))


def random_kernel(seed: int) -> tuple[PrimFunc, list[Array]]:
    func = Maker(Random(seed).randrange, "kernel").make()
    rng = np.random.default_rng(seed)
    return func, [values(rng, b.static_shape, b.dtype) for b in func.inputs]


def valid(seed: int) -> tuple[PrimFunc, list[Array]]:
    func = valid_program(Random(seed).randrange)
    return func, inputs_for(func, seed)


# --- equal -------------------------------------------------------------------------------------------------------


def test_random_kernels_of_all_dtypes() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        func, inputs = random_kernel(seed)
        expected = outcome(lambda f=func, x=inputs: tensor.run(f, x))  # type: ignore[misc]
        for way in vector.WAYS:
            assert alone(func, inputs, way, expected) is None
        seen[expected[0] if isinstance(expected[0], str) else "value"] += 1
    assert seen["value"] > 100 and len(seen) > 4, seen


@pytest.mark.campaign
def test_very_many_random_programs() -> None:
    for seed in range(10_000, 15_000):
        for make in (random_kernel, valid, lambda s: random_blocks(Random(s)), lambda s: random_case(Random(s))):
            func, inputs = make(seed)  # type: ignore[no-untyped-call]
            expected = outcome(lambda f=func, x=inputs: tensor.run(f, x))  # type: ignore[misc]
            alone(func, inputs, "straight", expected)


OTHERS = [
    n for n in (*OPERATIONS, *DERIVED) if n in DERIVED or "div" in n or "mod" in n or n.startswith("sh") or "of" in n
]


@pytest.mark.parametrize("name", OTHERS)
def test_operations_that_may_trap_or_have_no_ufunc(name: str) -> None:
    """On special values of every dtype, each pair in a run of its own, so that each trap is seen."""
    row = {**OPERATIONS, **DERIVED}[name]
    for of in DTYPES.values():
        if of.kind not in row.kinds or (name in FLOAT_OF and of.bits != FLOAT_OF[name].bits):
            continue
        data = specials(of)
        ins = [Buffer(f"x{k}", (), of) for k in range(row.arity)]
        out = Buffer("out", (), apply(name, *(b[()] for b in ins)).dtype)
        func = PrimFunc(name, (*ins, out), 1, store(out, (), apply(name, *(b[()] for b in ins))))
        for a in data[:: 1 if len(data) < 9 else 2]:
            for b in data if row.arity == 2 else data[:1]:
                inputs = [np.asarray(a), np.asarray(b)][: row.arity]
                alone(func, inputs, "straight", outcome(lambda f=func, x=inputs: tensor.run(f, x)))  # type: ignore[misc]


# --- what it is for ----------------------------------------------------------------------------------------------


def newton() -> PrimFunc:
    """A square root for each element, as many steps as it takes."""
    old, new = Buffer("old", (), FLOAT32), Buffer("new", (), FLOAT32)

    def element(i: Expr) -> Stmt:
        step = store(new, (), (old[()] + X[i] / old[()]) * 0.5)
        body = While(apply("ne", old[()], new[()]), seq(store(old, (), new[()]), step))
        start = seq(store(old, (), 0.0), store(new, (), X[i]))
        guarded = seq(start, While(new[()] < old[()], store(old, (), new[()])), store(old, (), X[i] + 1.0), step)
        limited = seq(guarded, when(new[()] < old[()], body))
        return Allocate(old, Allocate(new, seq(limited, store(OUT, i, new[()]))))

    return function(loops("i", (N,), element))


def scan() -> PrimFunc:
    first = store(OUT, 0, X[0])
    return function(first, loops("i", (N - 1,), lambda i: store(OUT, i + 1, OUT[i] * 0.5 + X[i + 1])))


def watched(kind: Any) -> PrimFunc:
    """A permutation: free of races, which only the run shows."""
    return function(loops("i", (N,), lambda i: store(OUT, Y[i], X[i]), kind=kind))


CARRIED: list[Callable[[], PrimFunc]] = [scan, lambda: watched("parallel"), lambda: watched("vectorized")]


@pytest.mark.parametrize("make", CARRIED)
def test_what_carries_a_value_runs_straight(make: Callable[[], PrimFunc]) -> None:
    func = make()
    compiled = vector.compile_function(func, DATA)
    assert compiled.way == "straight" and compiled.reason
    assert not isinstance(agree(func, DATA)[0], str)


def test_a_while_loop_runs_until_its_data_say_so() -> None:
    (got,) = agree(newton(), DATA)
    np.testing.assert_allclose(got, np.sqrt(DATA[0]), rtol=1e-6)


def test_what_nothing_can_say_is_left_to_the_definition() -> None:
    """The reason names every way that was tried."""
    size = Var("size")
    tmp = Buffer("tmp", (size + 1,), FLOAT32)
    func = function(fill(), For(size, const(3), Allocate(tmp, store(tmp, 0, X[0]))))
    compiled = vector.compile_function(func, DATA)
    assert (
        compiled.kernel is None
        and compiled.way is None
        and "the shape of buffer tmp is not constant" in compiled.reason
    )
    assert same_bits(vector.run(func, DATA)[0], tensor.run(func, DATA)[0])
    assert vector.compile_function(scan(), DATA, (), ()).kernel is None


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_watched_loops_trap_as_the_definition_does(kind: Any) -> None:
    same = [DATA[0], np.zeros(N, np.int64)]
    wanted = "race" if kind == "parallel" else "carried dependence"
    assert agree(watched(kind), same)[0] == wanted
    got = agree(function(fill(), loops("i", (N - 1,), lambda i: store(OUT, i + 1, OUT[i]), kind=kind)), DATA)
    assert got[0] == wanted


def test_lanes_step_side_by_side() -> None:
    """What a later lane reads before an earlier one writes is no carried dependence; the other way round it is one."""

    def shifted(by: int) -> PrimFunc:
        tmp = Buffer("tmp", (N + 1,), FLOAT32)
        body = loops(
            "i", (N,), lambda i: seq(store(OUT, Y[i], tmp[Y[i] + by]), store(tmp, Y[i], X[i])), kind="vectorized"
        )
        return function(Allocate(tmp, seq(loops("k", (N + 1,), lambda k: store(tmp, k, const(0, FLOAT32))), body)))

    up = [DATA[0], np.arange(N)]
    assert not isinstance(agree(shifted(1), up)[0], str)
    assert agree(shifted(1), DATA)[0] == "carried dependence"


def test_large_tables_stay_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight, "LISTED", 4)
    agree(function(loops("i", (N,), lambda i: store(OUT, Y[i], X[i] + cast(Y[i], FLOAT32)))), DATA)


def test_long_chains_are_no_recursion() -> None:
    """Of operations, of lets, and of choices, which were made branches before."""
    i = Var("i")
    value: Expr = X[i]
    for _ in range(2000):
        value = value + 1.0
    lazy: Expr = X[i]
    for k in range(60):
        lazy = choice(Y[i] < k, lazy, X[i] + float(k))
    for whole in (value, lazy):
        func = function(For(i, const(N), store(OUT, i, whole)))
        assert alone(func, DATA, "straight", vector.run(func, DATA, ways=("lanes",))) is None
    body: Stmt = store(OUT, i, X[i])
    for k in range(1500):
        t = Var(f"t{k}")
        body = LetStmt(t, cast(X[i], INT64) + k, body)
    agree(function(For(i, const(N), body)), DATA)


def test_names_may_be_any_text() -> None:
    """Also of loops that a message names."""
    odd = Buffer('a"{b}\n', (N,), FLOAT32)
    i = Var('i"{x}\\')
    func = PrimFunc("f\"'", (X, Y, odd), 1, For(i, const(N + 1), store(odd, Y[i // 2] + i, X[i // 2])))
    assert agree(func, DATA)[0] == "out of bounds"


def test_too_many_steps_are_left_to_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight_value, "MOST_STEPS", 10)
    func = function(For(Var("i"), const(1), seq(*(store(OUT, k, X[k] + 1.0) for k in range(N)))))
    assert "more than 10 steps" in (alone(func, DATA, "straight", tensor.run(func, DATA)) or "")


# --- planted faults ----------------------------------------------------------------------------------------------


def _wide_products(self: StraightValues, node: Apply, of: DType, args: Sequence[str]) -> str:
    if node.op != "mul" or of is not FLOAT32:
        return on_floats(self, node, of, args)
    return self.step(" * ".join(self.packed_as(a, FLOAT64) for a in args))


on_floats = StraightValues.on_floats

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "integers do not wrap": (StraightValues, "wrapped", lambda self, value, of: value),
    "wrapped as if unsigned": (
        StraightValues,
        "wrapped",
        lambda self, value, of: self.step(f"{value} & {(1 << of.bits) - 1}"),
    ),
    "bounds unchecked": (_Emitter, "check_inside", lambda self, access, index: None),
    "a product is not rounded": (StraightValues, "on_floats", _wide_products),
    "casts do not round": (StraightValues, "rounded", lambda self, value, of, to: value),
    "races unwatched": (_Emitter, "touch", lambda self, buffer, index, write: None),
    "divisors unchecked": (StraightValues, "check_divisor", lambda self, node, divisor: None),
    "unwritten outputs are delivered": (straight, "deliver", lambda b, found, to: straight.fill(found, to)),
    "division rounds down": (StraightValues, "divided", lambda self, op, a, b: self.step(f"{a} // {b}")),
    "parts forgotten": (StraightValues, "multiple", lambda self, atom, factor: self.names.get(atom, "0")),
}


def cases() -> Iterator[tuple[PrimFunc, list[Array]]]:
    yield function(loops("i", (N,), lambda i: store(OUT, i, X[i] * X[i] + X[N - 1 - i]))), DATA
    for seed in range(400):
        yield random_kernel(seed)
        yield random_case(Random(seed))


def differs(func: PrimFunc, inputs: list[Array]) -> bool:
    """Whether the generated kernel does what the definition does not."""
    expected = outcome(lambda: tensor.run(func, inputs))
    try:
        alone(func, inputs, "straight", expected)
    except (AssertionError, ArithmeticError, TypeError, ValueError, IndexError, AttributeError):
        return True
    return False


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_kernel_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = FAULTS[fault]
    monkeypatch.setattr(owner, name, wrong)
    assert any(differs(*case) for case in cases()), f"{fault}: no difference seen"


def test_a_missing_unwritten_check_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody wrote is None, which a select hands on unseen."""
    monkeypatch.setattr(_Emitter, "check_written", lambda self, value, access, index: None)
    tmp = Buffer("tmp", (N,), FLOAT32)
    body = Allocate(
        tmp, seq(fill(), when(Y[0] > 99, store(tmp, 0, X[0])), loops("i", (N,), lambda i: store(OUT, i, tmp[i])))
    )
    assert differs(function(body), DATA)


def test_a_wrong_routine_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight_value, "routine", lambda op: lambda *args: np.float64(np.exp(args[0])))
    a, b = Buffer("a", (400,), FLOAT64), Buffer("b", (400,), FLOAT64)
    func = PrimFunc("f", (a, b), 1, loops("i", (400,), lambda i: store(b, i, apply("exp", a[i]))))
    assert differs(func, [np.linspace(-3, 3, 400)])
