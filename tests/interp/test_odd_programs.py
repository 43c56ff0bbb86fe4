"""Programs that once ran differently one way than another, each as small as it could be made (specs/interp.md,
"Vector")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.semantics.dtypes import DTYPES, FLOAT32, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Choice, Expr, Load, Var, cast, choice, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Block,
    Buffer,
    For,
    IterVar,
    LetStmt,
    PrimFunc,
    Region,
    Stmt,
    Store,
    View,
    blocks,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.tensor.blocks import without_blocks
from tests.interp.programs import Array, agree

N = 8
X, P, OUT = Buffer("x", (N,), FLOAT32), Buffer("p", (N,), INT64), Buffer("out", (N,), FLOAT32)
DATA: list[Array] = [np.arange(N, dtype=np.float32), np.arange(N)]
COUNT = Buffer("count", (), INT64)


def function(*body: Stmt) -> PrimFunc:
    return PrimFunc("f", (X, P, OUT), 1, seq(*body))


def filled(buffer: Buffer) -> Stmt:
    names = " ".join(f"z{k}" for k in range(len(buffer.shape)))
    return loops(names, buffer.shape, lambda *at: store(buffer, at, const(1, buffer.dtype)))


def counted(kind: str, of: str) -> PrimFunc:
    """As many iterations as the data say, more than the loop's variable has values."""
    out, i = Buffer("out", (300,), FLOAT32), Var("i", DTYPES[of])
    return PrimFunc(
        "f", (COUNT, out), 1, seq(filled(out), For(i, COUNT[()], Store(out, (i,), const(2, FLOAT32)), kind))
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [5, 127, 128, 129, 260])
@pytest.mark.parametrize("of", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_a_narrow_loop_variable_wraps(kind: str, of: str, count: int) -> None:
    got = agree(counted(kind, of), [np.array(count)])
    if count == 260 and (kind, of) == ("parallel", "uint8"):
        assert got[0] == "race"
    elif count > 128 and of == "int8":
        assert got[0] == "out of bounds"
    else:
        assert len(got) == 1


def test_a_narrow_loop_variable_wraps_in_each_lane() -> None:
    count, out, i = Buffer("count", (4,), INT64), Buffer("out", (4,), INT64), Var("i", DTYPES["int8"])
    body = loops("j", (4,), lambda j: seq(store(out, j, 0), For(i, count[j], store(out, j, out[j] + cast(i, INT64)))))
    (got,) = agree(PrimFunc("f", (count, out), 1, body), [np.array([3, 300, 130, 0])])
    assert got[2] == sum(range(128)) - 128 - 127


@pytest.mark.parametrize("of", ["int4", "uint4", "int8", "uint32", "uint64"])
def test_an_index_may_have_any_width(of: str) -> None:
    at, table, out = (
        Buffer("at", (4096,), DTYPES[of]),
        Buffer("table", (N, 2), FLOAT32),
        Buffer("out", (4096,), FLOAT32),
    )
    body = loops("i", (4096,), lambda i: Store(out, (i,), Load(FLOAT32, table, (at[i], const(1)))))
    index = (np.arange(4096) % N).astype(np.int8).astype(DTYPES[of].numpy)
    agree(
        PrimFunc("f", (at, table, out), 1, body),
        [index, np.arange(2 * N, dtype=np.float32).reshape(N, 2)],
        planned=True,
    )


@pytest.mark.parametrize("written", [0, 1])
def test_lanes_that_choose_differently_are_in_one_step(written: int) -> None:
    """Each lane reads before any writes, whichever side it takes: the next element is still there, the last one no
    more."""
    other = 1 - written
    body = loops(
        "i",
        (N - 1,),
        lambda i: store(OUT, i + written, choice(P[i] % 2 > 0, OUT[i + written] * 2.0, OUT[i + other])),
        "vectorized",
    )
    for data in (P_EVEN_FIRST, P_ODD_FIRST):
        got = agree(function(filled(OUT), body), [DATA[0], data])
        assert (got[0] == "carried dependence") if written else len(got) == 1


P_EVEN_FIRST, P_ODD_FIRST = np.arange(N), np.arange(N) + 1


def test_what_a_choice_does_not_take_need_not_be_declared() -> None:
    v, i = Var("v"), Var("i")
    body = store(OUT, v, choice(v < N, X[v], X[N - 1 - v]))
    block = Block("b", (IterVar(v, "spatial", const(N), i),), body, reads=(Region(X, (v,), (None,)),))
    assert len(agree(function(For(i, const(N), block)), DATA)) == 1


def rebound() -> Stmt:
    """The loop's extent is a name that means something else where the view is made."""
    m, i = Var("m"), Var("i")
    view = Buffer("view", (m,), FLOAT32)
    access = Alias(View(view, X, const(0), (const(1),)), store(OUT, i, view[i]))
    return LetStmt(m, const(5), For(i, m, LetStmt(m, const(3), access)))


def narrow() -> Stmt:
    n, i = Var("n"), Var("i", DTYPES["int8"])
    own, view = Buffer("own", (1000,), FLOAT32), Buffer("view", (n,), FLOAT32)
    body = For(i, n, store(OUT, cast(i, INT64) % N, Load(FLOAT32, view, (i,))))
    return LetStmt(
        n, P[1] * 300, Allocate(own, seq(filled(own), Alias(View(view, own, const(500), (const(1),)), body)))
    )


def changed() -> Stmt:
    """The extent is a number in memory that the block changes: then the domain is another one."""
    size, v, i = Buffer("size", (), INT64), Var("v"), Var("i")
    block = Block("b", (IterVar(v, "spatial", size[()], i),), seq(store(size, (), 2), store(OUT, v, 1.0)))
    return Allocate(size, seq(store(size, (), 5), For(i, size[()], block)))


@pytest.mark.parametrize(
    ("make", "kind"), [(rebound, "out of bounds"), (narrow, "out of bounds"), (changed, "assertion")]
)
def test_a_name_is_no_bound_where_it_has_another_value(make: Callable[[], Stmt], kind: str) -> None:
    assert agree(function(make()), DATA)[0] == kind


def test_a_let_may_have_the_name_of_a_size() -> None:
    n, i = Var("n"), Var("i")
    x, view = Buffer("x", (n,), FLOAT32), Buffer("view", (n,), FLOAT32)
    access = Alias(View(view, x, const(0), (const(1),)), store(OUT, i % N, view[i]))
    func = PrimFunc("f", (x, OUT), 1, For(i, n, LetStmt(n, const(3), access)))
    assert agree(func, [DATA[0]])[0] == "out of bounds"


ZERO: Sequence[tuple[Expr, str]] = [(X[N], "out of bounds"), (cast(X[0] / X[0], FLOAT32), "cast")]


@pytest.mark.parametrize(("value", "kind"), ZERO)
def test_nothing_times_what_traps_is_a_trap(value: Expr, kind: str) -> None:
    """A loop that runs once has 0 for its variable; what is multiplied by it is still evaluated."""
    whole = cast(value, INT64)
    body = loops("i", (1,), lambda i: store(OUT, i, cast(whole * i + whole % (i + 1), FLOAT32)))
    assert agree(function(filled(OUT), body), DATA)[0] == kind


def shared(depth: int, at: Callable[[Expr, Expr], tuple[Expr, Expr]]) -> PrimFunc:
    own, i = Buffer("own", (N,), FLOAT32), Var("i")
    a: Expr = own[i] * 2.0
    b: Expr = own[i]
    for k in range(depth):
        a, b = b, choice(P[i] > k % N, *at(a, b))
    return function(Allocate(own, seq(filled(own), For(i, const(N), store(OUT, i, b)))))


def test_a_choice_on_both_sides_is_made_once() -> None:
    func = shared(40, lambda a, b: (b + 1.0, b * 0.5))
    assert sum(1 for _ in program_order(without_blocks(func).body)) < 400
    assert len(agree(func, DATA)) == 1


def test_choices_that_would_be_too_many_are_left_to_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_WAYS", 0)
    func = shared(20, lambda a, b: (b + 1.0, a * 0.5))
    assert any(isinstance(e, Choice) for s in program_order(func.body) for e in s.expressions)
    with pytest.raises(Unsupported, match=r"choices inside choices.*\[tensor\.C21\]"):
        without_blocks(func)
    assert vector.run(func, DATA)[0].tobytes() == tensor.run(func, DATA)[0].tobytes()
