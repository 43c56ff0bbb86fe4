"""Schedule primitives: what they make is bit-exact by `equivalent`, and what is not legal is refused with its
accesses."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.lower.legalize.kernels import build
from assay.lower.loops import Schedule, schedule
from assay.lower.loops.dependence import Nest
from assay.semantics.dtypes import DTYPES, FLOAT32
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Block,
    Buffer,
    Call,
    For,
    IterVar,
    PrimFunc,
    Stmt,
    Store,
    While,
    loops,
    program_order,
    seq,
    store,
    when,
)
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, REASSOCIATED, equivalent
from assay.verify.strategies.kernels import Kernels as Maker
from assay.verify.strategies.nests import Nests
from tests.lower.loops.random_nests import step
from tests.scale import MANY

F, INT8 = FLOAT32, DTYPES["int8"]


def kernel(op: str, *shapes: tuple[int, ...], out: tuple[int, ...], **attrs: object) -> PrimFunc:
    return build(op, attrs, tuple(TensorType(s, F) for s in shapes), TensorType(out, F), "kernel")


def matmul(n: int = 13, m: int = 18, k: int = 11) -> PrimFunc:
    return kernel("matmul", (n, k), (k, m), out=(n, m))


def tiled(n: int = 13, m: int = 18, k: int = 11) -> Schedule:
    s = schedule(matmul(n, m, k)).fission("i0").split("i0#1", 4).split("j0#1", 8).split("k", 5)
    return s.reorder("i0_o", "j0_o", "k_o", "i0_i", "k_i", "j0_i")


def conv(epilogue: bool = False) -> PrimFunc:
    shape = (1, 3, 7, 8), (4, 3, 3, 3)
    made = kernel(
        "nn.conv2d", *shape, out=(1, 4, 7, 8), strides=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1
    )
    if not epilogue:
        return made
    out = Buffer("relu", (1, 4, 7, 8), F)
    (t,) = made.outputs
    relu = loops("n o i0 i1", t.static_shape, lambda *i: store(out, i, apply("max", t[i], 0.0)), "parallel")
    return PrimFunc("conv_relu", (*made.inputs, out), 1, Allocate(t, seq(made.body, relu)))


def same(source: PrimFunc, s: Schedule) -> PrimFunc:
    verdict = equivalent(source, s.func)
    assert verdict.holds(BIT_EXACT) and verdict.how == "terms", f"{verdict}\n{s.func}"
    return s.func


def kinds(func: PrimFunc) -> dict[str, str]:
    return {x.var.name: x.kind for x in program_order(func.body) if isinstance(x, For)}


# --- each primitive ----------------------------------------------------------------------------------------------

CASES: dict[str, Callable[[], tuple[PrimFunc, Schedule]]] = {
    "split, ragged": lambda: (matmul(), schedule(matmul()).split("i0", 5).split("k", 4)),
    "split by more than there are": lambda: (matmul(), schedule(matmul()).split("i0", 50)),
    "split by one": lambda: (matmul(), schedule(matmul()).split("i0", 1)),
    "split twice": lambda: (matmul(), schedule(matmul()).split("i0", 6).split("i0_i", 4)),
    "tiled": lambda: (matmul(), tiled()),
    "tiled, vectorised, parallel": lambda: (matmul(), tiled().vectorize("j0_i").parallelize("i0_o")),
    "tiles in memory of their own": lambda: (matmul(),
        tiled().cache_write("out", "j0_o").cache_read("a", "k_o").cache_read("b", "k_o")),
    "fused": lambda: (matmul(), schedule(matmul()).fission("i0").fuse("i0", "j0").parallelize("i0_j0")),
    "fused and split": lambda: (matmul(), schedule(matmul()).fission("i0").fuse("k", "j0#1").split("k_j0", 7)),
    "unrolled": lambda: (matmul(), tiled().unroll("k_i")),
    "peeled": lambda: (matmul(), schedule(matmul()).peel("k", 1).peel("k", 20).peel("i0", 0)),
    "reduction outside": lambda: (matmul(), schedule(matmul()).fission("i0").reorder("k", "i0#1", "j0#1")),
    "convolution, tiled": lambda: (conv(),
        schedule(conv()).split("o", 3).reorder("o_o", "n").fission("o_i").reorder("c", "o_i#1")),
    "epilogue at its rows": lambda: (conv(True), schedule(conv(True)).merge("n", "n#1", 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bit_exact(name: str) -> None:
    source, s = CASES[name]()
    same(source, s)


def test_the_epilogue_is_where_the_value_is() -> None:
    """After the merge one nest over images and features computes and finishes each plane."""
    func = same(conv(True), schedule(conv(True)).merge("n", "n#1", 2))
    nests = [x for x in program_order(func.body) if isinstance(x, For) and x.var.name == "o"]
    assert len(nests) == 1 and nests[0].kind == "parallel"
    assert {x.buffer.name for x in program_order(nests[0].body) if isinstance(x, Store)} == {"out", "relu"}


def test_names_tell_loops_apart() -> None:
    s = schedule(matmul())
    assert s.loops == ("i0", "j0", "k", "j0#1")
    assert s.split("j0#1", 4, ("jo", "ji")).loops == ("i0", "j0", "k", "jo", "ji")
    with pytest.raises(Invalid, match=r"no loop q; it has i0, j0, k, j0#1 \[loops\.C2\]"):
        s.split("q", 2)


def test_kinds_follow() -> None:
    assert kinds(schedule(matmul()).split("i0", 4).func)["i0_o"] == "parallel"
    assert kinds(schedule(matmul()).fission("i0").reorder("j0#1", "k").func)["j0"] == "parallel"
    vectors = schedule(matmul()).vectorize("j0#1").split("j0#1", 4).func
    assert kinds(vectors)["j0_i"] == "vectorized" and kinds(vectors)["j0_o"] == "serial"


def test_a_moved_loop_that_is_no_longer_independent_is_serial() -> None:
    """In a wave, the inner loop is independent only for one step of the outer."""
    x, out = Buffer("x", (9,), F), Buffer("out", (6, 9), F)
    start = loops("t i", (6, 9), lambda t, i: store(out, (t, i), const(0, F)))
    row = Var("t")
    inner = loops("i", (5,), lambda i: store(out, (row + 1, i + 1), out[row, i] + x[i]), "parallel")
    func = PrimFunc("f", (x, out), 1, seq(start, For(row, const(4), inner)))
    assert kinds(schedule(func).func)["i"] == "parallel"
    s = schedule(func).reorder("i#1", "t#1")
    assert kinds(s.func)["i"] == "serial"
    same(func, s)


def test_symbolic_sizes() -> None:
    def func() -> PrimFunc:
        n = Var("n")
        x, out = Buffer("x", (n, 5), F), Buffer("out", (n, 5), F)
        body = loops("i j", (n, 5), lambda i, j: store(out, (i, j), x[i, j] * 2.0))
        return PrimFunc("f", (x, out), 1, body)

    made = schedule(func()).split("i", 4).peel("i_o", 1).func
    also = schedule(func()).split("i", 4).reorder("j", "i_o").parallelize("j").func
    for size in (1, 3, 4, 9):
        for f in (made, also):
            assert equivalent(func(), f, {"n": size}).holds(BIT_EXACT)
    fused = schedule(func()).fuse("i", "j").func
    assert equivalent(func(), fused, {"n": 3}).holds(BIT_EXACT)


def test_blocks_become_loops() -> None:
    x, out = Buffer("x", (6, 4), F), Buffer("out", (6,), F)
    i, k, vi, vk = Var("i"), Var("k"), Var("vi"), Var("vk")
    block = Block(
        "sum",
        (IterVar(vi, "spatial", const(6), i), IterVar(vk, "reduce", const(4), k)),
        store(out, vi, out[vi] + x[vi, vk]),
        init=store(out, vi, 0.0),
    )
    func = PrimFunc("f", (x, out), 1, For(i, const(6), For(k, const(4), block)))
    hoisted = schedule(func).fission("k")
    same(func, hoisted)
    same(func, hoisted.fission("i").reorder("k#1", "i#1").vectorize("i#1"))


def test_partial_sums_are_only_reassociated() -> None:
    for factor in (1, 3, 4, 20):
        s = schedule(matmul()).rfactor("k", factor)
        verdict = equivalent(matmul(), s.func)
        assert verdict.notion is REASSOCIATED, str(verdict)
    largest = kernel("max", (6, 10), out=(6,), axis=(1,), keepdims=False)
    reduction = next(x for x in schedule(largest).loops if x.startswith("k") or x.startswith("r"))
    assert equivalent(largest, schedule(largest).rfactor(reduction, 4).func).holds(BIT_EXACT)


def test_integer_partial_sums_are_bit_exact() -> None:
    x, out = Buffer("x", (10,), INT8), Buffer("out", (), INT8)
    body = seq(store(out, (), 0), loops("k", (10,), lambda k: store(out, (), x[k] + out[()])))
    func = PrimFunc("f", (x, out), 1, body)
    assert equivalent(func, schedule(func).rfactor("k", 4).func).holds(BIT_EXACT)


# --- refused -----------------------------------------------------------------------------------------------------


def recurrence(read: Callable[[Buffer, Expr, Expr], Expr], kind: str = "serial") -> PrimFunc:
    x, out = Buffer("x", (6, 7), F), Buffer("out", (6, 7), F)
    first = loops("p q", (6, 7), lambda i, j: store(out, (i, j), x[i, j]))
    return PrimFunc(
        "f", (x, out), 1, seq(first, loops("i j", (5, 6), lambda i, j: store(out, (i + 1, j), read(out, i, j))))
    )


def stencil(shift: int) -> PrimFunc:
    x, t, out = Buffer("x", (8,), F), Buffer("t", (9,), F), Buffer("out", (8,), F)
    fill = loops("p", (9,), lambda p: store(t, p, const(0, F)))
    produce = loops("i", (8,), lambda i: store(t, i, x[i] * 2.0))
    consume = loops("j", (8,), lambda j: store(out, j, t[j + shift] + 1.0))
    return PrimFunc("f", (x, out), 1, Allocate(t, seq(fill, produce, consume)))


REFUSED: dict[str, tuple[Callable[[], Schedule], str, str]] = {
    "reorder across a dependence": (lambda: schedule(recurrence(lambda o, i, j: o[i, j + 1])).reorder("j", "i"),
        "loops.C6", r"store to out\[\(i \+ 1\), j\]"),
    "vectorised recurrence": (lambda: schedule(recurrence(lambda o, i, j: o[i, j])).vectorize("i"), "loops.C9",
        r"load of out\[i, j\]"),
    "parallel reduction": (lambda: schedule(matmul()).parallelize("k"), "loops.C9", r"out\[i0, j0\]"),
    "fusion with a neighbour not yet written": (lambda: schedule(stencil(1)).merge("i", "j"), "loops.C8",
        r"t\[\(i \+ 1\)\]"),
    "fission of a recurrence through two statements": (lambda: schedule(twice()).fission("i"), "loops.C7", r"t\["),
    "loops of other lengths": (lambda: schedule(stencil(0)).merge("p", "i"), "loops.C4", "9 and 8"),
    "loops that do not meet": (lambda: schedule(stencil(0)).merge("p", "j"), "loops.C4", "right after"),
    "fuse of what is not nested": (lambda: schedule(matmul()).fuse("i0", "k"), "loops.C4", "directly inside"),
    "reorder of an imperfect nest": (lambda: schedule(matmul()).reorder("k", "i0"), "loops.C4", "one perfect nest"),
    "split by nothing": (lambda: schedule(matmul()).split("k", 0), "loops.C3", "at least 1"),
    "a loop too long for its variable": (lambda: schedule(narrow()).split("i", 100), "loops.C3", "int8"),
    "unroll of a symbolic loop": (lambda: schedule(symbolic()).unroll("i"), "loops.C5", "known"),
    "tile of what is written": (lambda: schedule(matmul()).cache_read("out", "i0"), "loops.C10", "stored to"),
    "tile of part of what is written": (lambda: schedule(partly()).cache_write("out", "i"), "loops.C10",
        "surely written"),
    "tile that is no box": (lambda: schedule(diagonal()).cache_read("x", "i"), "loops.C10", "no box"),
    "partial sums of no sum": (lambda: schedule(stencil(0)).rfactor("i", 2), "loops.C11", "c\\[i\\] mul e"),
    "no such buffer": (lambda: schedule(matmul()).cache_read("z", "k"), "loops.C2", "no buffer z"),
}  # fmt: skip


def twice() -> PrimFunc:
    x, t, out = Buffer("x", (8,), F), Buffer("t", (9,), F), Buffer("out", (8,), F)
    fill = loops("p", (9,), lambda p: store(t, p, const(0, F)))
    body = loops("i", (8,), lambda i: seq(store(out, i, t[i] + x[i]), store(t, i + 1, out[i])))
    return PrimFunc("f", (x, out), 1, Allocate(t, seq(fill, body)))


def narrow() -> PrimFunc:
    x, out = Buffer("x", (120,), F), Buffer("out", (120,), F)
    i = Var("i", INT8)
    return PrimFunc("f", (x, out), 1, For(i, const(120), store(out, cast(i, "int64"), x[cast(i, "int64")])))


def symbolic() -> PrimFunc:
    n = Var("n")
    x, out = Buffer("x", (n,), F), Buffer("out", (n,), F)
    return PrimFunc("f", (x, out), 1, loops("i", (n,), lambda i: store(out, i, x[i])))


def partly() -> PrimFunc:
    """Every other element of a row is written in one iteration, the rest in another."""
    x, out = Buffer("x", (6,), F), Buffer("out", (6,), F)
    return PrimFunc("f", (x, out), 1, loops("i j", (2, 3), lambda i, j: store(out, j * 2 + i, x[j])))


def diagonal() -> PrimFunc:
    x, out = Buffer("x", (6, 6), F), Buffer("out", (6,), F)
    return PrimFunc(
        "f", (x, out), 1, loops("i j", (6, 3), lambda i, j: store(out, i, x[i // 2 * 2, apply("max", j, i)]))
    )


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, label, words = REFUSED[name]
    with pytest.raises(Invalid, match=words) as refused:
        make()
    assert refused.value.label == label, refused.value


def test_merge_of_what_is_written_before() -> None:
    """The same element and an earlier one may be read; a later one may not."""
    for shift in (0,):
        same(stencil(shift), schedule(stencil(shift)).merge("i", "j"))
    x, t, out = Buffer("x", (8,), F), Buffer("t", (9,), F), Buffer("out", (8,), F)
    body = seq(
        loops("p", (9,), lambda p: store(t, p, const(0, F))),
        loops("i", (8,), lambda i: store(t, i + 1, x[i])),
        loops("j", (8,), lambda j: store(out, j, t[j])),
    )
    before = PrimFunc("f", (x, out), 1, Allocate(t, body))
    same(before, schedule(before).merge("i", "j"))


def test_calls_are_refused() -> None:
    """Nothing is known of what they touch."""
    x, out = Buffer("x", (6,), F), Buffer("out", (6,), F)
    body = loops("i", (6,), lambda i: seq(store(out, i, x[i]), Call("other", (x, out))))
    func = PrimFunc("f", (x, out), 1, body)
    with pytest.raises(Unsupported, match="calls other"):
        schedule(func)
    with pytest.raises(Unsupported, match=r"loops\.C1"):
        Nest(func, body)
    verdict = equivalent(func, func)
    assert not verdict.notion and "calls other" in verdict.reason


def test_loops_and_branches_on_data_stay() -> None:
    x, out = Buffer("x", (6,), F), Buffer("out", (6,), F)
    fill = loops("i", (6,), lambda i: when(x[i] > 0.0, store(out, i, x[i]), store(out, i, 1.0)))
    func = PrimFunc("f", (x, out), 1, seq(fill, While(out[0] > 9.0, store(out, 0, out[0] - 1.0))))
    s = schedule(func).split("i", 4).parallelize("i_o")
    assert s.loops == ("i_o", "i_i")
    plain, moved = (replace(f, body=f.body.children[0]) for f in (schedule(func).func, s.func))
    assert equivalent(plain, moved).holds(BIT_EXACT)


def test_a_constant_in_a_tile() -> None:
    x, table, out = Buffer("x", (12,), F), Buffer("table", (12,), F), Buffer("out", (12,), F)
    body = loops("i", (12,), lambda i: store(out, i, x[i] * table[11 - i]))
    func = PrimFunc("f", (x, out), 1, AllocateConst(table, np.arange(12, dtype=np.float32), body))
    same(func, schedule(func).split("i", 5).cache_read("table", "i_o"))


def test_any_depth() -> None:
    x, out = Buffer("x", (3,), F), Buffer("out", (3,), F)
    body: Stmt = loops("last", (3,), lambda i: store(out, i, x[i]))
    for k in range(MANY):
        body = when(const(True, "bool"), body) if k % 2 else For(Var(f"v{k}"), const(1), body)
    func = schedule(PrimFunc("f", (x, out), 1, body)).split("last", 2).func
    assert sum(isinstance(s, For) for s in program_order(func.body)) == MANY // 2 + 2


# --- random ------------------------------------------------------------------------------------------------------


def walk(choose: Callable[[int], int], steps: int) -> Counter[str]:
    """A random function and random steps; each that is accepted is bit-exact."""
    s = schedule(Nests(choose).make())
    seen: Counter[str] = Counter()
    for _ in range(steps):
        text, after = step(s, choose)
        if after is None:
            seen["refused"] += 1
            continue
        seen[text.split("(")[0]] += 1
        verdict = equivalent(s.func, after.func)
        assert verdict.holds(BIT_EXACT) or "itself traps" in verdict.reason, (
            f"{text}: {verdict}\n{s.func}\n{after.func}"
        )
        s = after
        if len(s.loops) > 30:
            break
    return seen


def test_random_schedules() -> None:
    seen: Counter[str] = Counter()
    for seed in range(70):
        seen += walk(random.Random(seed).randrange, 5)
    assert seen["refused"] > 50
    assert (
        min(seen[k] for k in ("split", "reorder", "fuse", "unroll", "peel", "merge", "cache_read", "cache_write")) > 1
    ), seen


@settings(max_examples=40)
@given(st.data())
def test_any_schedule(data: st.DataObject) -> None:
    walk(lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0, 4)


def test_kernels_of_every_kind_of_statement() -> None:
    """Kernels with data-dependent control: the steps keep what terms cannot decide, or are refused, and never break
    it."""
    decided = 0
    for seed in range(60):
        rng = random.Random(seed)
        source = Maker(rng.randrange, "kernel").make()
        s = schedule(source)
        for _ in range(3):
            _, after = step(s, rng.randrange)
            s = after or s
        verdict = equivalent(source, s.func, weakest=BIT_EXACT)
        assert verdict.witness is None and verdict.difference is None, f"{verdict}\n{source}\n{s.func}"
        decided += verdict.holds(BIT_EXACT)
    assert decided > 15


@pytest.mark.campaign
def test_many_random_schedules() -> None:
    for seed in range(1000, 4000):
        walk(random.Random(seed).randrange, 7)
