"""The vector interpreter against the definition, bit for bit (specs/interp.md, "Vector")."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.interp import tensor, vector
from assay.interp.vector import emit_value, lanes, plan
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.scalar import OPERATIONS, TRANSCENDENTAL, Expr, Var, apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    Assert,
    Buffer,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    While,
    loops,
    seq,
    store,
    when,
)
from tests.interp import kernels
from tests.interp.programs import Array, agree, outcome, random_case, same_bits, values

SPECIAL = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, -6e-8, 65504.0, 3e38, 1e-310, 0.1)
WHOLE = (0, 1, -1, 2, 3, 5, 7, 127, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


@pytest.fixture(params=[(1 << 18, 1 << 18), (16, 4), (1 << 18, 4)], ids=["whole", "cut", "cut when scattered"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes as they are, and cut into tiny blocks."""
    monkeypatch.setattr(plan, "LANE_BYTES", request.param[0])
    monkeypatch.setattr(lanes, "MOST_LANES", request.param[1])


def specials(of: DType) -> Array:
    """Numbers at the edges of a dtype."""
    with np.errstate(all="ignore"):
        if of is BOOL:
            return np.array([False, True])
        if of.is_float:
            return np.array(SPECIAL).astype(of.numpy)
        return np.array(sorted({min(max(n, int(of.min)), int(of.max)) for n in WHOLE}), np.object_).astype(of.numpy)


def inputs_of(func: PrimFunc, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [values(rng, b.static_shape, b.dtype) for b in func.inputs]


# --- programs ----------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.sampled_from([1 << 18, 16]), st.sampled_from([1 << 18, 5]))
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_agrees_with_the_definition_on_random_programs(random: Random, lane_bytes: int, most_lanes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LANE_BYTES", lane_bytes)
        patch.setattr(lanes, "MOST_LANES", most_lanes)
        agree(*random_case(random))


@pytest.mark.parametrize("make", kernels.LOOPS_LEFT, ids=lambda f: f.__name__)
def test_agrees_on_kernels(make: Callable[[], PrimFunc], small_blocks: None) -> None:
    func = make()
    for seed in range(3):
        given_values = inputs_of(func, seed)
        if func.name == "take":
            given_values[1] = np.array([5, -6, 0, -1])
        result = agree(func, given_values, planned=True)
        assert not isinstance(result[0], str), result


@pytest.mark.parametrize("make", kernels.LOOPS_LEFT, ids=lambda f: f.__name__)
def test_only_loops_that_carry_a_value_are_left(make: Callable[[], PrimFunc]) -> None:
    func = make()
    source = vector.compile_function(func, inputs_of(func), (), ("lanes",)).source
    assert source.count("for ") == kernels.LOOPS_LEFT[make], source


def test_an_operand_that_is_used_often_is_packed() -> None:
    """The strided window on the image is copied together once for all output channels."""
    func = kernels.conv2d(c=3, o=8, groups=1)
    source = vector.compile_function(func, inputs_of(func), (), ("lanes",)).source
    packed = [line.split()[0] for line in source.splitlines() if line.strip().startswith("copyto(t")]
    assert len(packed) >= 1, source


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "uint8", "int64", "float8_e4m3fn", "int4"])
def test_agrees_on_dtypes(name: str) -> None:
    of = DTYPES[name]
    for func in (kernels.matmul(of=of), kernels.conv2d(of=of), kernels.max_pool(of=of)):
        agree(func, inputs_of(func), planned=True)


def test_a_reduction_keeps_its_order() -> None:
    """Additions one after another round otherwise than NumPy's pairwise ones."""
    n = 1000
    x, out = Buffer("x", (3, n), FLOAT16), Buffer("out", (3,), FLOAT16)
    body = seq(
        loops("i", (3,), lambda i: store(out, i, const(0, FLOAT16))),
        loops("i j", (3, n), lambda i, j: store(out, i, out[i] + x[i, j])),
    )
    data = np.random.default_rng(0).random((3, n)).astype(np.float16)
    (got,) = agree(PrimFunc("sums", (x, out), 1, body), [data], planned=True)
    assert not same_bits(got, data.sum(axis=1))


def test_products_and_sums_round_twice() -> None:
    """1 + e squared, minus what it rounds to: zero unless the product is kept unrounded."""
    e = np.float32(2.0**-13)
    x, out = Buffer("x", (4,), FLOAT32), Buffer("out", (4,), FLOAT32)
    rounded = const((1 + e) * (1 + e), FLOAT32)
    body = loops("i", (4,), lambda i: store(out, i, x[i] * x[i] - rounded))
    (got,) = agree(PrimFunc("fma", (x, out), 1, body), [np.full(4, 1 + e, np.float32)])
    assert not got.any()


# --- operations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*emit_value.UFUNCS, *emit_value.EXTREMES])
def test_ufuncs_are_the_tables_operations(name: str) -> None:
    """Every operation that has a shortcut, on all pairs of special values of all dtypes it takes."""
    row = OPERATIONS[name]
    for of in DTYPES.values():
        if of.kind not in row.kinds:
            continue
        data = specials(of)
        n = len(data)
        ins = [Buffer(f"x{k}", (n,), of) for k in range(row.arity)]

        result = apply(name, *(b[0] for b in ins)).dtype
        out = Buffer("out", (n,) * row.arity, result)
        i = [Var(f"i{k}") for k in range(row.arity)]
        nest: Stmt = store(out, tuple(i), apply(name, *(b[k] for b, k in zip(ins, i, strict=True))))
        for k in reversed(i):
            nest = For(k, const(n), nest)
        got = agree(PrimFunc(name, (*ins, out), 1, nest), [data] * row.arity, planned=True)
        assert not isinstance(got[0], str)


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("of", [d for d in DTYPES.values() if d.is_float], ids=str)
def test_extremes_with_a_literal(name: str, of: DType) -> None:
    data = specials(of)
    x, out = Buffer("x", data.shape, of), Buffer("out", data.shape, of)
    for literal in (0.0, -0.0, 1.0, -1.0, np.inf, np.nan):
        for swap in (False, True):
            pair = (x, const(literal, of))

            def element(i: Expr, pair: Any = pair, swap: bool = swap) -> Stmt:
                a, b = pair[0][i], pair[1]
                return store(out, i, apply(name, b, a) if swap else apply(name, a, b))

            agree(PrimFunc(name, (x, out), 1, loops("i", data.shape, element)), [data], planned=True)


@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_casts(source: DType) -> None:
    for to in DTYPES.values():
        for data in (specials(source), np.array([1, 0, 1]).astype(source.numpy)):
            x, out = Buffer("x", data.shape, source), Buffer("out", data.shape, to)
            body = loops("i", data.shape, lambda i: store(out, i, cast(x[i], to)))  # noqa: B023
            agree(PrimFunc("cast", (x, out), 1, body), [data], planned=True)


@pytest.mark.parametrize("name", TRANSCENDENTAL)
@pytest.mark.parametrize("of", [FLOAT16, FLOAT32, FLOAT64], ids=str)
def test_transcendental_lanes_are_the_scalars(name: str, of: DType) -> None:
    data = np.concatenate([specials(of), values(np.random.default_rng(1), (40,), of)])
    x, out = Buffer("x", data.shape, of), Buffer("out", data.shape, of)
    arity = TRANSCENDENTAL[name].arity
    body = loops("i", data.shape, lambda i: store(out, i, apply(name, *[x[i], x[0]][:arity])))
    agree(PrimFunc(name, (x, out), 1, body), [data], planned=True)


# --- shapes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 5), (7,)])
def test_small_and_empty_shapes(shape: tuple[int, ...]) -> None:
    x, out = Buffer("x", shape, FLOAT32), Buffer("out", shape, FLOAT32)
    names = " ".join(f"i{k}" for k in range(len(shape)))
    body = loops(names, shape, lambda *i: store(out, i, x[i] + 1.0), kind="parallel")
    agree(PrimFunc("f", (x, out), 1, body), [np.ones(shape, np.float32)], planned=True)


def test_symbolic_dims_are_bound_from_the_inputs() -> None:
    n, m = Var("n"), Var("m")
    x, out = Buffer("x", (n, m), FLOAT32), Buffer("out", (m + n, n), FLOAT32)
    body = loops("i j", (m + n, n), lambda i, j: store(out, (i, j), x[j, i % m]))
    func = PrimFunc("f", (x, out), 1, body)
    for shape in ((2, 3), (4, 5)):
        data = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        (got,) = vector.run(func, [data])
        assert same_bits(got, tensor.run(func, [data])[0])
        assert vector.compile_function(func, [data]).kernel is not None
    assert len(vector._compiled[func]) == 2


def test_inputs_of_any_layout() -> None:
    func = kernels.matmul()
    a, b = inputs_of(func)
    plain = vector.run(func, [a, b])
    odd = [np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]]
    assert same_bits(vector.run(func, odd)[0], plain[0])


def test_a_function_is_compiled_once_and_forgotten_with_it() -> None:
    func = kernels.matmul()
    data = inputs_of(func)
    assert vector.compile_function(func, data) is vector.compile_function(func, data)
    gone = weakref.ref(func)
    del func
    gc.collect()
    assert gone() is None


def test_outputs_and_scratch_are_filled_in_place() -> None:
    func = kernels.conv2d()
    data = inputs_of(func)
    out = np.full(func.outputs[0].static_shape, np.nan, np.float32)
    padded = np.full(func.allocations[0].static_shape, np.nan, np.float32)
    (result,) = vector.run(func, data, outputs=[out], scratch=[padded])
    assert result is out
    assert same_bits(out, tensor.run(func, data)[0])
    assert same_bits(padded[:, :, 1:-1, 1:-1], data[0])


@pytest.mark.parametrize(
    ("outputs", "scratch", "label"),
    [
        ([], None, "argument.C6"),
        ([np.zeros((2, 6, 4, 4), np.float32)], [], "argument.C7"),
        ([np.zeros((2, 6, 4, 5), np.float32)], None, "argument.C3"),
        ([np.zeros((2, 6, 4, 4), np.float64)], None, "argument.C3"),
        ([np.zeros((2, 6, 4, 8), np.float32)[..., ::2]], None, "argument.C8"),
        ([np.zeros((2, 6, 4, 4), np.float32)], [np.zeros((2, 4, 9, 11), np.float32)], "argument.C3"),
    ],
)
def test_given_arrays_must_fit(outputs: list[Array], scratch: list[Array] | None, label: str) -> None:
    func = kernels.conv2d()
    with pytest.raises(Invalid) as wrong:
        vector.run(func, inputs_of(func), outputs=outputs, scratch=scratch)
    assert wrong.value.label == label


# --- traps -------------------------------------------------------------------------------------------------------

X, OUT = Buffer("x", (6,), FLOAT32), Buffer("out", (6,), FLOAT32)
N, TMP = Buffer("n", (6,), INT64), Buffer("tmp", (6,), FLOAT32)
NUMBERS = np.array([3, 1, 0, 2, 5, 4])


def each(body: Callable[[Expr], Stmt], count: int = 6) -> Stmt:
    return loops("i", (count,), body, kind="parallel")


def integers(value: Callable[[Expr], Expr]) -> Stmt:
    """Out of a trapping integer expression of each number."""
    return each(lambda i: store(OUT, i, cast(value(i), FLOAT32)))


TRAPS: dict[str, tuple[Stmt, str, str]] = {
    "load above": (each(lambda i: store(OUT, i, X[i + 1])), "out of bounds", "x[6]: index 6 is outside [0, 6)"),
    "load below": (each(lambda i: store(OUT, i, X[i - 1])), "out of bounds", "x[-1]: index -1 is outside [0, 6)"),
    "store above": (each(lambda i: store(OUT, i * 2, X[i])), "out of bounds", "out[6]: index 6 is outside [0, 6)"),
    "gather": (each(lambda i: store(OUT, i, X[N[i] + 1])), "out of bounds", "x[6]: index 6"),
    "unwritten read": (
        Allocate(TMP, seq(each(lambda i: store(TMP, i, X[i]), 5), each(lambda i: store(OUT, i, TMP[i])))),
        "unwritten read",
        "is read before it is written",
    ),
    "unwritten gather": (
        Allocate(TMP, seq(each(lambda i: store(TMP, i, X[i]), 5), each(lambda i: store(OUT, i, TMP[N[i]])))),
        "unwritten read",
        "is read before it is written",
    ),
    "unwritten workspace of some lanes": (
        each(lambda i: seq(store(OUT, i, X[i]), when(N[i] > 3, Allocate(TMP, store(OUT, i, TMP[0]))))),
        "unwritten read",
        "is read before it is written",
    ),
    "unwritten output": (each(lambda i: store(OUT, i, X[i]), 5), "unwritten output", "1 of 6 elements of output out"),
    "scattered output": (
        each(lambda i: when(N[i] > 0, store(OUT, i, X[i]))),
        "unwritten output",
        "1 of 6 elements of output out",
    ),
    "assertion": (each(lambda i: seq(store(OUT, i, X[i]), Assert(N[i] > 0, "positive"))), "assertion", "positive"),
    "scattered assertion": (
        each(lambda i: seq(store(OUT, i, X[i]), when(N[i] < 3, Assert(N[i] > 0, "positive")))),
        "assertion",
        "positive",
    ),
    "division": (integers(lambda i: const(7) // N[i]), "division by zero", "integer division by zero"),
    "remainder": (integers(lambda i: apply("truncmod", const(7), N[i])), "division by zero", "integer division"),
    "shift": (integers(lambda i: apply("shl", N[i], N[i] - 1)), "shift", "shift by less than 0"),
    "cast": (integers(lambda i: cast(X[i], INT64)), "cast", "NaN or out of the range of int64"),
}
X_VALUES = np.array([1, 2, 3, np.nan, 5, 6], np.float32)


@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_the_definitions(name: str, small_blocks: None) -> None:
    body, kind, message = TRAPS[name]
    got = agree(PrimFunc("f", (X, N, OUT), 1, body), [X_VALUES, NUMBERS], planned=True)
    assert got[0] == kind and message in got[1]


@pytest.mark.parametrize("name", TRAPS)
def test_kernels_name_the_place_themselves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the definition would take too long, the trap that the kernel met is reported."""
    monkeypatch.setattr(vector, "RETRACE", 0)
    body, kind, message = TRAPS[name]
    for way in vector.WAYS:
        got = outcome(lambda w=way: vector.run(PrimFunc("f", (X, N, OUT), 1, body), [X_VALUES, NUMBERS], ways=(w,)))  # type: ignore[misc]
        assert got[0] == kind and message in got[1]
        if kind in ("out of bounds", "unwritten read", "assertion"):
            assert "in iteration i=" in got[1]


def test_a_trap_that_the_definition_does_not_have_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*args: Any) -> None:
        raise Trap("race", "there is none")

    monkeypatch.setattr(vector, "_version", lambda *args: vector.Compiled(faulty, ""))
    with pytest.raises(Crash, match="the kernel traps where the definition does not"):
        vector.run(kernels.split(), inputs_of(kernels.split()))


def test_lanes_that_do_not_run_do_not_trap() -> None:
    """A division and an access under a guard that keeps them from harm."""
    inner = seq(store(OUT, Var_i, cast(const(7) // N[Var_i], FLOAT32)), store(OUT, Var_i, X[N[Var_i] - 1]))
    body = For(Var_i, const(6), when(N[Var_i] > 0, inner, store(OUT, Var_i, X[Var_i])), "parallel")
    got = agree(PrimFunc("f", (X, N, OUT), 1, body), [X_VALUES, NUMBERS], planned=True)
    assert not isinstance(got[0], str)


Var_i = Var("i")


def test_a_loop_without_an_iteration_in_any_lane_does_not_trap() -> None:
    """What divides by 0 is the same in all lanes, so that it could be asked for once, without any lane."""
    count, by, out, j = Buffer("count", (4,), INT64), Buffer("by", (1,), INT64), Buffer("out", (4, 3), INT64), Var("j")
    inner = For(j, count[Var_i], store(out, (Var_i, j), const(7) // by[0]), "parallel")
    body = seq(loops("a b", (4, 3), lambda a, b: store(out, (a, b), 0)), For(Var_i, const(4), inner, "parallel"))
    func = PrimFunc("f", (count, by, out), 1, body)
    (got,) = agree(func, [np.zeros(4, np.int64), np.zeros(1, np.int64)], planned=True)
    assert not got.any()
    assert agree(func, [np.array([0, 0, 2, 0]), np.zeros(1, np.int64)], planned=True)[0] == "division by zero"


def test_what_is_not_shown_free_of_races_is_left_to_the_definition() -> None:
    scatter = PrimFunc("f", (X, N, OUT), 1, each(lambda i: store(OUT, N[i], X[i])))
    got = agree(scatter, [X_VALUES, NUMBERS], planned=False)
    assert same_bits(got[0][NUMBERS], X_VALUES)
    got = agree(scatter, [X_VALUES, NUMBERS // 2], planned=False)
    assert got[0] == "race" and "both touch out[0]" in got[1]


def test_stores_to_inputs_are_left_to_the_definition() -> None:
    got = agree(PrimFunc("f", (X, N, OUT), 1, each(lambda i: store(X, i, X[i]))), [X_VALUES, NUMBERS], planned=False)
    assert got[0] == "store to constant"


def test_what_is_used_out_of_its_scope_is_left_to_the_definition() -> None:
    tmp = Buffer("tmp", (6,), FLOAT32)
    life = Allocate(tmp, each(lambda i: store(tmp, i, X[i])))
    for use in (each(lambda i: store(OUT, i, tmp[i])), store(tmp, 0, X[0])):
        got = agree(PrimFunc("f", (X, N, OUT), 1, seq(life, use)), [X_VALUES, NUMBERS], planned=False)
        assert got[0] == "use outside lifetime"
    unbound = PrimFunc(
        "f", (X, N, OUT), 1, seq(For(Var_i, const(6), store(OUT, Var_i, X[Var_i])), store(OUT, Var_i, X[0]))
    )
    for run in (tensor.run, vector.run):
        with pytest.raises(Invalid, match="unbound scalar variable i"):
            run(unbound, [X_VALUES, NUMBERS])


def test_folding_after_a_let_is_put_in_place() -> None:
    """Zero plus an element is the element: found only once the let is gone."""
    out, t = Buffer("out", (6,), INT64), Var("t")
    body = LetStmt(t, const(0), each(lambda i: store(out, i, t + N[i])))
    (got,) = agree(PrimFunc("f", (N, out), 1, body), [NUMBERS], planned=True)
    assert (got == NUMBERS).all()


def test_scratch_is_counted_past_code_that_never_runs() -> None:
    """The second allocation gets the second array, though the first one's loop is empty."""
    never, live = Buffer("never", (2,), FLOAT32), Buffer("live", (6,), FLOAT32)
    dead = For(Var("d"), const(0), Allocate(never, store(never, 0, X[0])))
    decided = when(const(1) < 2, seq(), Allocate(never, store(never, 0, X[0])))
    used = Allocate(live, seq(each(lambda i: store(live, i, X[i])), each(lambda i: store(OUT, i, live[i]))))
    func = PrimFunc("f", (X, OUT), 1, seq(dead, decided, used))
    scratch = [np.full(2, 7, np.float32), np.full(2, 7, np.float32), np.full(6, 7, np.float32)]
    (got,) = vector.run(func, [X_VALUES], scratch=scratch)
    assert same_bits(got, X_VALUES) and same_bits(scratch[2], X_VALUES)
    assert (scratch[0] == 7).all() and (scratch[1] == 7).all()


# --- depth -------------------------------------------------------------------------------------------------------


def test_deep_programs() -> None:
    out = Buffer("out", (2, 2), INT64)
    deep: Stmt = store(out, (0, 0), const(1))
    count: Expr = const(0)
    for k in range(3000):
        v = Var(f"v{k}")
        deep = For(v, const(1 if k % 1500 else 2), deep)
        count = count + v
    everywhere = loops("i j", (2, 2), lambda i, j: store(out, (i, j), const(0)))
    func = PrimFunc("f", (out,), 1, seq(everywhere, deep))
    (got,) = agree(func, [], planned=True)
    assert got.tolist() == [[1, 0], [0, 0]]


def test_nests_too_deep_for_lanes_are_left_to_the_definition() -> None:
    out = Buffer("out", (), INT64)
    deep: Stmt = store(out, (), out[()] + 1)
    for k in range(45):
        deep = For(Var(f"v{k}"), const(2 if k in (3, 30) else 1), deep)
        deep = when(out[()] >= -k, deep)
    func = PrimFunc("f", (out,), 1, seq(store(out, (), const(0)), deep))
    (got,) = agree(func, [], planned=False)
    assert int(got) == 4


@pytest.mark.parametrize("depth", [17, 18, 19, 22])
def test_python_allows_so_many_loops(depth: int) -> None:
    """Loops that carry a value, and while loops, as deep as Python takes them and deeper."""
    out, n = Buffer("out", (), INT64), Buffer("n", (), INT64)
    once = While(n[()] > 0, store(n, (), n[()] - 1))
    for body in (store(out, (), out[()] + 1), seq(store(n, (), const(1)), once, store(out, (), out[()] + 1))):
        for k in range(depth - (not isinstance(body, Seq))):
            if k % 3 == 1:
                body = seq(store(n, (), const(1)), While(n[()] > 0, seq(body, store(n, (), const(0)))))
            else:
                body = For(Var(f"v{k}"), const(2 if k < 4 else 1) + out[()] * 0, body)
        func = PrimFunc("f", (out,), 1, Allocate(n, seq(store(n, (), const(0)), store(out, (), const(0)), body)))
        agree(func, [])


def test_long_chains() -> None:
    """Thousands of lets, statements and operands."""
    x, out = Buffer("x", (3,), FLOAT32), Buffer("out", (3,), FLOAT32)
    i = Var("i")
    names = [Var(f"t{k}", FLOAT32) for k in range(1500)]
    total: Expr = x[i]
    for t in names[:1200]:
        total = total + t
    body: Stmt = seq(*(store(out, i, total) for _ in range(3)))
    for t in reversed(names):
        body = LetStmt(t, x[i] * 0.5, Seq((body,)))
    agree(PrimFunc("f", (x, out), 1, For(i, const(3), body, "parallel")), [np.ones(3, np.float32)], planned=True)


def test_every_pair_of_loop_kinds() -> None:
    x, out = Buffer("x", (3, 4), FLOAT32), Buffer("out", (3, 4), FLOAT32)
    i, j = Var("i"), Var("j")
    data = inputs_of(PrimFunc("f", (x, out), 1, Seq(())))
    for a, b in itertools.product(("serial", "parallel", "vectorized", "unrolled"), repeat=2):
        inner = For(j, const(4), store(out, (i, j), x[i, j] * 3.0), b)  # type: ignore[arg-type]
        agree(PrimFunc("f", (x, out), 1, For(i, const(3), inner, a)), data, planned=True)  # type: ignore[arg-type]
