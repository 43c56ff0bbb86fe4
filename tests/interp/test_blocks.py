"""Blocks, views, lazy choices and scalar parameters: what they mean, and that the lowered form means the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, INT64, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Choice, Expr, Var, apply, both, cast, choice, const, either, evaluate, select
from assay.semantics.scalar.derived import DEFINITIONS
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Block,
    Buffer,
    For,
    If,
    IterKind,
    IterVar,
    LetStmt,
    Pragma,
    PrimFunc,
    Region,
    Stmt,
    View,
    While,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.rules import check_prim_func
from tests.interp.programs import Array, outcome, same_bits
from tests.scale import MANY

F32 = FLOAT32


def matmul(n: int, m: int, k: int) -> PrimFunc:
    a, b, c = Buffer("A", (n, k), F32), Buffer("B", (k, m), F32), Buffer("C", (n, m), F32)
    v = [Var(x) for x in ("vi", "vj", "vk")]
    kinds: tuple[IterKind, ...] = ("spatial", "spatial", "reduce")

    def block(*outer: Expr) -> Stmt:
        axes = tuple(IterVar(x, kind, const(e), o) for x, kind, e, o in zip(v, kinds, (n, m, k), outer, strict=True))
        update = store(c, (v[0], v[1]), c[v[0], v[1]] + a[v[0], v[2]] * b[v[2], v[1]])
        return Block("C", axes, update, init=store(c, (v[0], v[1]), 0.0))

    return PrimFunc("matmul", (a, b, c), 1, loops("i j k", (n, m, k), block))


def both_ways(func: PrimFunc, inputs: list[Array], **scalars: Any) -> Any:
    """The outcome by the definition, which is that of the lowered form and of the vector interpreter."""
    check_prim_func(func)
    plain = without_blocks(func)
    check_prim_func(plain)
    assert not any(
        isinstance(s, (Block, Alias, Pragma)) or getattr(s, "start", None) for s in program_order(plain.body)
    )
    expected = outcome(lambda: tensor.run(func, inputs, **scalars))
    assert equal(outcome(lambda: vector.run(func, inputs, **scalars)), expected)
    lowered = outcome(lambda: tensor.run(plain, inputs, **scalars))
    assert lowered[0] == expected[0] if trapped(expected) else equal(lowered, expected)
    return expected


def trapped(result: Any) -> bool:
    return bool(result) and isinstance(result[0], str)


def equal(a: Any, b: Any) -> bool:
    if trapped(a) or trapped(b):
        return bool(a == b)
    return all(map(same_bits, a, b))


def one_output(body: Callable[[Buffer], Stmt], shape: tuple[int, ...] = (4,), *inputs: Buffer) -> PrimFunc:
    out = Buffer("out", shape, F32)
    return PrimFunc("f", (*inputs, out), 1, body(out))


def axis(var: Var, extent: int, value: Expr, kind: IterKind = "spatial", start: int | None = None) -> IterVar:
    return IterVar(var, kind, const(extent), value, None if start is None else const(start))


# --- blocks ------------------------------------------------------------------------------------------------------


def test_init_runs_at_the_start_of_each_reduction() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 5)).astype("f4"), rng.standard_normal((5, 2)).astype("f4")
    (c,) = both_ways(matmul(3, 2, 5), [a, b])
    want = np.zeros((3, 2), "f4")
    for k in range(5):
        want = want + a[:, k : k + 1] * b[k : k + 1]
    assert same_bits(c, want)


def test_a_reduction_over_nothing_never_initialises() -> None:
    """TVM issue 19578: the result would be whatever the memory held."""
    result = both_ways(matmul(2, 2, 0), [np.zeros((2, 0), "f4"), np.zeros((0, 2), "f4")])
    assert result[0] == "unwritten output"


def test_init_waits_for_all_reductions_and_their_starts() -> None:
    x = Buffer("x", (6, 4), F32)
    vi, vk, vl = Var("vi"), Var("vk"), Var("vl")

    def body(out: Buffer) -> Stmt:
        def block(i: Expr, k: Expr, m: Expr) -> Stmt:
            axes = (axis(vi, 1, i), axis(vk, 4, k + 2, "reduce", 2), axis(vl, 4, const(3) - m, "reduce"))
            return Block("sum", axes, store(out, vi, out[vi] + x[vk, vl]), init=store(out, vi, 0.0))

        return loops("i k l", (1, 4, 4), block)

    func = one_output(body, (1,), x)
    # l runs from 3 down to 0: the first element reached with k at its start is the last of its row
    assert both_ways(func, [np.ones((6, 4), "f4")])[0] == "unwritten read"
    forward = replace(func, body=_with_value(func.body, 2, lambda loop: loop))
    (total,) = both_ways(forward, [np.ones((6, 4), "f4")])
    assert total[0] == 16


def _with_value(body: Stmt, k: int, value: Callable[[Expr], Expr]) -> Stmt:
    """The nest of three loops around a block whose iterator `k` has another value."""
    nest = [s for s in program_order(body) if isinstance(s, For)]
    (block,) = (s for s in program_order(body) if isinstance(s, Block))
    axes = list(block.iterators)
    axes[k] = replace(axes[k], value=value(nest[k].var))
    stmt: Stmt = replace(block, iterators=tuple(axes))
    for loop in reversed(nest):
        stmt = replace(loop, body=stmt)
    return stmt


def test_where_the_predicate_fails_nothing_runs_and_no_domain_is_looked_at() -> None:
    v = Var("v")

    def make(predicate: Expr | None, loop: Var) -> PrimFunc:
        return one_output(
            lambda out: For(loop, const(6), Block("b", (axis(v, 4, loop),), store(out, v, 1.0), predicate=predicate))
        )

    i = Var("i")
    (out,) = both_ways(make(i < 4, i), [])
    assert out.tolist() == [1] * 4
    j = Var("j")
    kind, message = both_ways(make(None, j), [])
    assert kind == "assertion" and "block b: v = 4 is outside [0, 4), in iteration j=4" in message


@pytest.mark.parametrize("value", [-1, 6])
def test_a_value_outside_the_domain_traps(value: int) -> None:
    v = Var("v")
    func = one_output(lambda out: Block("b", (axis(v, 4, const(value), start=2),), store(out, 0, 1.0)))
    with pytest.raises(Trap, match=r"v = -?\d is outside \[2, 6\)") as caught:
        tensor.run(func, [])
    assert caught.value.label == "tensor.T8"
    assert both_ways(func, [])[0] == "assertion"


def test_a_block_has_its_buffers_to_itself_at_every_run() -> None:
    v, own = Var("v"), Buffer("own", (1,), F32)

    def body(out: Buffer) -> Stmt:
        i = Var("i")
        inside = seq(store(own, 0, 2.0), store(out, v, own[0]))
        return For(i, const(4), Block("b", (axis(v, 4, i),), inside, allocated=(own,)), "parallel")

    func = one_output(body)
    assert func.allocations == (own,) == without_blocks(func).allocations
    assert both_ways(func, [])[0].tolist() == [2] * 4
    stale = one_output(
        lambda out: loops(
            "i", (4,), lambda i: Block("b", (), seq(store(out, i, own[0]), store(own, 0, 1.0)), allocated=(own,))
        )
    )
    assert both_ways(stale, [])[0] == "unwritten read"


def test_scratch_memory_is_that_of_the_function_itself() -> None:
    """The cells that a choice needs are no part of what the caller provides."""
    x, y, own = Buffer("x", (4,), F32), Buffer("y", (1,), INT64), Buffer("own", (4,), F32)
    product = choice(x[0] < 1.0, x[y[0]], const(1, F32)) * choice(x[1] < 1.0, x[y[0]], const(2, F32))
    body = seq(store(own, 0, product), store(own, 1, product))
    func = one_output(
        lambda out: Block("b", (), seq(body, store(out, 0, own[0] + own[1])), allocated=(own,)), (1,), x, y
    )
    memory = np.zeros(4, "f4")
    inputs: list[Array] = [np.array([3, 0, 5, 7], "f4"), np.array([3])]
    assert func.allocations == (own,) and len(without_blocks(func).allocations) == 5
    (out,) = vector.run(func, inputs, scratch=[memory])
    assert same_bits(out, tensor.run(func, inputs)[0]) and out[0] == 14 and memory[0] == 7


# --- views -------------------------------------------------------------------------------------------------------


def view(buffer: Buffer, source: Buffer, offset: Expr | int, *strides: int) -> View:
    return View(buffer, source, offset if isinstance(offset, Expr) else const(offset), tuple(const(s) for s in strides))


def test_a_view_is_the_same_memory() -> None:
    out = Buffer("out", (2, 3), F32)
    flat, turned = Buffer("flat", (6,), F32), Buffer("turned", (3, 2), F32)
    fill = loops("i", (6,), lambda i: store(flat, i, cast(i, F32)))
    double = loops("i j", (3, 2), lambda i, j: store(turned, (i, j), turned[i, j] * 2.0))
    body = Alias(view(flat, out, 0, 1), seq(fill, Alias(view(turned, flat, 0, 1, 3), double)))
    (got,) = both_ways(PrimFunc("f", (out,), 1, body), [])
    assert got.tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize(
    ("size", "offset", "last", "wanted"),
    [(4, 2, 3, None), (4, 2, 4, "tail["), (4, 3, 3, "is element 6 of out, which has 6")],
)
def test_a_view_has_bounds_and_so_has_its_source(size: int, offset: int, last: int, wanted: str | None) -> None:
    out, tail = Buffer("out", (2, 3), F32), Buffer("tail", (size,), F32)
    fill = loops("i j", (2, 3), lambda i, j: store(out, (i, j), 0.0))
    at = Var("at")
    body = seq(fill, For(at, const(1), Alias(view(tail, out, offset, 1), store(tail, at + last, 1.0))))
    result = both_ways(PrimFunc("f", (out,), 1, body), [])
    if wanted is None:
        assert result[0].reshape(-1)[offset + last] == 1
    else:
        assert result[0] == "out of bounds" and wanted in result[1]


def test_a_matched_region_moves_with_the_block() -> None:
    x, part = Buffer("x", (6, 4), F32), Buffer("part", (2, 4), F32)
    v = Var("v")

    def body(out: Buffer) -> Stmt:
        region = Region(x, (v * 2, const(0)), (v * 2 + 2, const(4)))
        match = View(part, x, v * 2 * 4, (const(4), const(1)), region)
        inside = loops("i j", (2, 4), lambda i, j: store(out, (v * 2 + i, j), part[i, j] + 1.0))
        return loops("b", (3,), lambda b: Block("copy", (axis(v, 3, b),), inside, views=(match,), reads=(region,)))

    data = np.arange(24, dtype="f4").reshape(6, 4)
    (out,) = both_ways(one_output(body, (6, 4), x), [data])
    assert same_bits(out, data + 1)


def test_where_a_view_lies_is_decided_as_it_begins() -> None:
    at, out, part = Buffer("at", (1,), INT64), Buffer("out", (3,), F32), Buffer("part", (1,), F32)
    fill = loops("i", (3,), lambda i: store(out, i, 0.0))
    moved = Alias(view(part, out, at[0], 1), seq(store(at, 0, 2), store(part, 0, 5.0)))
    func = PrimFunc("f", (out,), 1, seq(fill, Allocate(at, seq(store(at, 0, 1), moved))))
    assert both_ways(func, [])[0].tolist() == [0, 5, 0]


def test_iterations_race_through_views() -> None:
    out, other = Buffer("out", (4,), F32), Buffer("other", (4,), F32)
    i = Var("i")
    touch = For(i, const(4), seq(store(out, i, 0.0), store(other, (i + 1) % 4, 1.0)), "parallel")
    assert both_ways(PrimFunc("f", (out,), 1, Alias(view(other, out, 0, 1), touch)), [])[0] == "race"


# --- choices and derived operations ------------------------------------------------------------------------------


def test_only_the_chosen_side_is_evaluated() -> None:
    x = Buffer("x", (4,), F32)

    def padded(pick: Callable[[Expr, Expr, Expr], Expr]) -> PrimFunc:
        def at(i: Expr) -> Expr:
            return pick(apply("and", i >= 1, i < 5), x[i - 1], const(0, F32))

        return one_output(lambda out: loops("i", (6,), lambda i: store(out, i, at(i))), (6,), x)

    data = np.arange(1, 5, dtype="f4")
    assert both_ways(padded(choice), [data])[0].tolist() == [0, 1, 2, 3, 4, 0]
    assert both_ways(padded(select), [data])[0] == "out of bounds"


def test_and_and_or_of_tvm_stop_early() -> None:
    x = Buffer("x", (2,), INT32)
    d = x[0]
    cases: dict[int, Callable[[], Expr]] = {
        0: lambda: both(apply("ne", d, 0), apply("eq", const(6, INT32) // d, 3)),
        1: lambda: either(apply("eq", d, 0), apply("eq", const(6, INT32) // d, 3)),
    }
    for stops, make in cases.items():
        func = one_output(lambda out, make=make: store(out, 0, choice(make(), const(1, F32), const(0, F32))), (1,), x)  # type: ignore[misc]
        assert [both_ways(func, [np.array([n, 0], "i4")])[0][0] for n in (0, 2, 3)] == [stops, 1, 0]


def test_choices_of_indices_conditions_and_choices() -> None:
    x, i = Buffer("x", (3,), INT64), Var("i")
    a, b = x[i + 1], x[i - 1]  # each lies outside for some i
    inner = choice(i < 1, a, b)
    outer = choice(choice(i < 2, a > 0, b > 0), inner + choice(i < 1, a, b), x[inner])
    y = Buffer("y", (3,), INT64)
    body = seq(
        loops("z", (3,), lambda z: store(y, z, 0)),
        For(i, const(3), seq(store(y, choice(i < 1, a, b), outer), If(both(i < 2, a > 0), store(y, i, y[i] + 1)))),
    )
    for data in ([0, 1, 2], [2, 2, 2], [1, 0, 1], [1, 5, 1]):
        both_ways(PrimFunc("f", (x, y), 1, body), [np.array(data)])
    assert both_ways(PrimFunc("f", (x, y), 1, body), [np.array([1, 5, 1])])[0] == "out of bounds"


def test_a_lazy_condition_of_a_while_is_looked_at_each_time() -> None:
    n = Buffer("n", (1,), INT64)
    x = Buffer("x", (3,), INT64)
    total = Buffer("total", (1,), INT64)
    step = seq(store(total, 0, total[0] + x[n[0]]), store(n, 0, n[0] + 1))
    body = Allocate(n, seq(store(n, 0, 0), store(total, 0, 0), While(both(n[0] < 3, x[n[0]] > 0), step)))
    func = PrimFunc("f", (x, total), 1, body)
    assert [int(both_ways(func, [np.array(d)])[0][0]) for d in ([1, 2, 3], [4, 0, 9], [0, 1, 1])] == [6, 4, 0]


def test_a_chain_of_choices_may_be_long() -> None:
    x, i = Buffer("x", (3,), F32), Var("i")
    value: Expr = const(0, F32)
    for k in range(150):
        value = choice(apply("eq", i, k), x[i - k], value)
    func = one_output(lambda out: For(i, const(4), store(out, i, value)), (4,), x)
    assert both_ways(func, [np.array([7, 8, 9], "f4")])[0].tolist() == [7] * 4
    deep: Expr = const(0, F32)
    for _ in range(MANY):
        deep = choice(i < 2, deep, const(1, F32))
    assert evaluate(deep, {i: np.int64(1)}) == 0
    assert not any(
        isinstance(e, Choice)
        for s in program_order(without_blocks(one_output(lambda out: For(i, const(2), store(out, i, deep)), (2,))).body)
        for e in s.expressions
    )


def test_nests_of_blocks_may_be_deep() -> None:
    out, view_ = Buffer("out", (1,), F32), Buffer("w", (1,), F32)
    body: Stmt = store(out, 0, 1.0)
    for k in range(MANY):
        v = Var(f"v{k}")
        inner = Alias(view(view_, out, 0, 1), body) if k == 0 else body
        body = Block("b", (axis(v, 1, const(0)),), inner, predicate=const(True, BOOL))
    func = PrimFunc("deep", (out,), 1, body)
    assert both_ways(func, [])[0][0] == 1


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
def test_derived_operations(of: str) -> None:
    d = dtype(of)
    data = np.array([0.0, -0.0, 1.5, -1.5, 2.0, -0.5, 9.0, np.inf, -np.inf, np.nan], d.numpy)
    with np.errstate(all="ignore"):
        one = d.numpy.type(1)
        want: dict[str, Array] = {
            "rsqrt": one / np.sqrt(data),
            "isnan": np.isnan(data),
            "isinf": np.isinf(data),
            "isfinite": np.isfinite(data),
            "trunc": np.trunc(data),
            "round": np.rint(data),
        }
        x = Var("x", d)
        exp = np.array([evaluate(apply("exp", -x), {x: v}) for v in data])
        want["sigmoid"] = one / (one + exp)
    assert set(want) == set(DEFINITIONS)
    for name, wanted in want.items():
        a, out = Buffer("a", (10,), d), Buffer("out", (10,), BOOL if wanted.dtype == bool else d)
        body = loops("i", (10,), lambda i, a=a, out=out, name=name: store(out, i, apply(name, a[i])))  # type: ignore[misc]
        assert same_bits(both_ways(PrimFunc("f", (a, out), 1, body), [data])[0], wanted), name


# --- loops, pragmas, scalars -------------------------------------------------------------------------------------


def test_loops_may_start_anywhere() -> None:
    i, j = Var("i"), Var("j")
    loop = For(
        i,
        const(3),
        Pragma("pragma_x", 1, For(j, i - 1, store(Buffer("none", (), F32), (), 0.0), start=i)),
        "parallel",
        const(1),
    )
    seen: list[tuple[int, int]] = []
    out = Buffer("out", (4, 6), F32)
    inner = For(j, i, store(out, (i, j), 1.0), start=i - 1)
    body = seq(
        loops("a b", (4, 6), lambda a, b: store(out, (a, b), 0.0)), replace(loop, body=Pragma("pragma_x", 1, inner))
    )
    (got,) = both_ways(PrimFunc("f", (out,), 1, body), [])
    for a in range(1, 4):
        seen += [(a, b) for b in range(a - 1, a - 1 + a)]
    assert [tuple(p) for p in np.argwhere(got)] == seen


def scaled() -> PrimFunc:
    n, k, s = Var("n"), Var("k", INT32), Var("s", F32)
    x, out = Buffer("x", (n,), F32), Buffer("out", (n,), F32)
    body = loops("i", (n,), lambda i: store(out, i, choice(i < cast(k, INT64), x[i] * s, x[i])))
    return PrimFunc("scaled", (x, out), 1, body, scalars=(k, s))


def test_scalar_parameters_come_by_value() -> None:
    x = np.arange(1, 6, dtype="f4")
    func = scaled()
    for k, s in ((2, 0.5), (0, 2.0), (2, 0.25), (5, np.float32(np.nan))):
        (out,) = both_ways(func, [x], scalars=[k, s])
        assert same_bits(out, np.where(np.arange(5) < k, x * np.float32(s), x))
    assert "scaled(x: Buffer((n), float32), out: Buffer((n), float32), k: T.int32, s: T.float32)" in repr(func)


@pytest.mark.parametrize(
    ("scalars", "label"),
    [([1], "argument.C9"), ([], "argument.C9"), ([2**40, 0.5], "scalar.C2"), ([1.5, 1.0], "scalar.C2")],
)
def test_scalars_must_fit(scalars: list[Any], label: str) -> None:
    for run in (tensor.run, vector.run):
        with pytest.raises(Invalid) as caught:
            run(scaled(), [np.zeros(2, "f4")], scalars=scalars)
        assert caught.value.label == label


def test_a_scalar_that_is_a_dim_must_agree_with_the_shape() -> None:
    n = Var("n")
    x, out = Buffer("x", (n,), F32), Buffer("out", (n,), F32)
    func = PrimFunc("f", (x, out), 1, loops("i", (n,), lambda i: store(out, i, x[i])), scalars=(n,))
    assert both_ways(func, [np.ones(3, "f4")], scalars=[3])[0].tolist() == [1] * 3
    with pytest.raises(Invalid, match="with n = 4 .by x. expected") as caught:
        tensor.run(func, [np.ones(3, "f4")], scalars=[4])
    assert caught.value.label == "argument.C3"


# --- rules -------------------------------------------------------------------------------------------------------

V, W = Var("v"), Var("w", INT32)
A1, A2 = Buffer("a", (4,), F32), Buffer("b", (4,), INT32)
ILL_FORMED: list[tuple[str, Stmt]] = [
    ("tensor.C8", Block("b", (axis(V, 4, V),), store(A1, 0, 1.0))),
    ("tensor.C8", seq(Block("b", (axis(V, 4, const(0)),), store(A1, 0, 1.0)), store(A1, V, 1.0))),
    ("tensor.C8", Block("b", (), store(A1, 0, 1.0), reads=(Region(A1, (V,), (None,)),))),
    ("tensor.C12", Block("b", (IterVar(W, "spatial", const(4), cast(const(0), INT32)),), store(A1, 0, 1.0))),
    ("tensor.C5", Block("b", (), store(A1, 0, 1.0), predicate=const(1))),
    ("tensor.C10", Block("b", (), store(A1, 0, 1.0), writes=(Region(A2, (const(0),), (None,)),))),
    ("tensor.C2", Block("b", (), store(A1, 0, 1.0), writes=(Region(A1, (), ()),))),
    ("tensor.C10", Alias(view(Buffer("c", (2,), INT32), A2, 0, 1), store(A1, 0, 1.0))),
    ("tensor.C14", Alias(view(Buffer("c", (2,), dtype("int4")), A1, 0, 1), store(A1, 0, 1.0))),
    (
        "tensor.C14",
        Block(
            "b",
            (),
            store(A1, 0, 1.0),
            views=(replace(view(Buffer("c", (2,), INT64), A1, 0, 1), region=Region(A1, (const(0),), (const(2),))),),
        ),
    ),
    ("tensor.C14", Block("b", (), store(A1, 0, 1.0), views=(view(Buffer("c", (2,), F32), A1, 0, 1, 1),))),
    ("tensor.C11", For(V, const(4), store(A1, 0, 1.0), start=const(0, INT32))),
    ("tensor.C19", For(V, const(4), For(V, const(4), store(A1, V, 1.0)))),
    ("tensor.C19", For(V, const(4), LetStmt(V, const(1), store(A1, V, 1.0)))),
    ("tensor.C19", For(V, const(4), seq(store(A1, V, 1.0), Block("b", (axis(V, 4, const(0)),), store(A1, V, 1.0))))),
    ("tensor.C19", Block("b", (axis(V, 4, const(0)), axis(V, 4, const(0))), store(A1, V, 1.0))),
    ("tensor.C19", Allocate(A2, If(A1[0] > 1.0, Allocate(A2, store(A1, 0, 1.0))))),
    ("tensor.C19", Allocate(A1, store(A1, 0, 1.0))),
    ("tensor.C13", store(A1, 0, A1[0]).__class__(A1, (const(0, F32),), const(0, F32))),
]


@pytest.mark.parametrize(("label", "body"), ILL_FORMED)
def test_what_is_ill_formed_is_refused(label: str, body: Stmt) -> None:
    with pytest.raises(Invalid) as caught:
        check_prim_func(PrimFunc("f", (A1,), 1, body))
    assert caught.value.label == label


@pytest.mark.parametrize("through_view", [False, True])
def test_a_blocks_own_buffer_in_one_threads_memory_may_be_shared_by_its_loop(through_view: bool) -> None:
    """Where such a buffer begins is open (rule M6.15), without blocks too. A plain allocation says where it begins."""
    x, out, own = Buffer("x", (4,), F32), Buffer("out", (4,), F32), Buffer("own", (4,), F32, "local")
    seen = Buffer("seen", (4,), F32, "local") if through_view else own
    views = (view(seen, own, 0, 1),) if through_view else ()
    i, j = Var("i"), Var("j")
    body = seq(For(i, const(4), store(seen, i, x[i]), "parallel"), For(j, const(4), store(out, j, own[3 - j])))
    block = PrimFunc("f", (x, out), 1, Block("root", (), body, allocated=(own,), views=views))
    assert both_ways(block, [np.arange(4, dtype="f4")])[0].tolist() == [3, 2, 1, 0]
    if not through_view:
        assert both_ways(replace(block, body=Allocate(own, body)), [np.arange(4, dtype="f4")])[0] == "wrong scope"


def test_one_variable_may_be_bound_by_statements_beside_one_another() -> None:
    again = For(V, const(4), store(A1, V, 1.0))
    check_prim_func(PrimFunc("f", (A1,), 1, seq(again, again, LetStmt(V, const(1), store(A1, V, 1.0)))))
