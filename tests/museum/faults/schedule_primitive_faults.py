"""Wrong schedule primitives, each with the smallest function that shows it.

Each is a primitive without its side condition, or with one of the mistakes that such passes are known for: in guards,
tiles, order, initial values, fused indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.loops import cache, nests, schedule
from assay.lower.loops.rewriting import loop_named, plain_function, put, renewed
from assay.semantics.dtypes import FLOAT32
from assay.semantics.scalar import Const, Expr, Var, const
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.walk import rewrite
from assay.verify.equivalence import BIT_EXACT, UNKNOWN, equivalent
from tests.museum.planted import PlantedFault

F = FLOAT32
Transform = Callable[[PrimFunc], PrimFunc]


def judge(source: PrimFunc, made: PrimFunc) -> str | None:
    """Equality bit for bit, or else an input that tells the two apart in a run."""
    verdict = equivalent(source, made, weakest=BIT_EXACT)
    if verdict.holds(BIT_EXACT):
        return None
    shown = verdict.notion is UNKNOWN and verdict.witness is not None and verdict.witness.replayed
    return f"shown: {verdict}" if shown else str(verdict)


def fault(
    name: str, note: str, wrong: Transform, program: Callable[[], PrimFunc], right: Transform | None
) -> PlantedFault:
    """What is wrong, the wrong primitive, a function that shows it, and the right primitive (None: it refuses)."""
    return PlantedFault(name, "equivalence", (judge,), program, wrong, right, "shown: ", note=note)


# --- programs ----------------------------------------------------------------------------------------------------


def scale() -> PrimFunc:
    x, out = Buffer("x", (10,), F), Buffer("out", (10,), F)
    return PrimFunc("scale", (x, out), 1, loops("i", (10,), lambda i: store(out, i, x[i] * 2.0)))


def grid() -> PrimFunc:
    x, out = Buffer("x", (3, 5), F), Buffer("out", (3, 5), F)
    return PrimFunc("grid", (x, out), 1, loops("i j", (3, 5), lambda i, j: store(out, (i, j), x[i, j] + 1.0)))


def total() -> PrimFunc:
    """Sums of rows."""
    x, out = Buffer("x", (6, 7), F), Buffer("out", (6,), F)
    start = loops("p", (6,), lambda p: store(out, p, const(0, F)))
    return PrimFunc(
        "total", (x, out), 1, seq(start, loops("i k", (6, 7), lambda i, k: store(out, i, out[i] + x[i, k])))
    )


def skewed() -> PrimFunc:
    """Each element needs the one above and to the right."""
    x, out = Buffer("x", (6, 7), F), Buffer("out", (6, 7), F)
    start = loops("p q", (6, 7), lambda i, j: store(out, (i, j), x[i, j]))
    step = loops("i j", (5, 6), lambda i, j: store(out, (i + 1, j), out[i, j + 1] + x[i, j]))
    return PrimFunc("skewed", (x, out), 1, seq(start, step))


def running() -> PrimFunc:
    x, out = Buffer("x", (7,), F), Buffer("out", (7,), F)
    start = loops("p", (7,), lambda i: store(out, i, x[i]))
    return PrimFunc(
        "running", (x, out), 1, seq(start, loops("i", (6,), lambda i: store(out, i + 1, out[i + 1] + out[i])))
    )


def blurred() -> PrimFunc:
    """A consumer that reads its producer's next element."""
    x, t, out = Buffer("x", (8,), F), Buffer("t", (9,), F), Buffer("out", (8,), F)
    body = seq(
        loops("p", (9,), lambda p: store(t, p, const(0, F))),
        loops("i", (8,), lambda i: store(t, i, x[i] * 2.0)),
        loops("j", (8,), lambda j: store(out, j, t[j] + t[j + 1])),
    )
    return PrimFunc("blurred", (x, out), 1, Allocate(t, body))


def alternating() -> PrimFunc:
    """Two statements, the second of which changes what the first reads in the next iteration."""
    x, t, out = Buffer("x", (8,), F), Buffer("t", (9,), F), Buffer("out", (8,), F)
    body = loops("i", (8,), lambda i: seq(store(out, i, t[i] + x[i]), store(t, i + 1, out[i])))
    return PrimFunc(
        "alternating", (x, out), 1, Allocate(t, seq(loops("p", (9,), lambda p: store(t, p, const(0, F))), body))
    )


# --- wrong primitives --------------------------------------------------------------------------------------------


def guards(func: PrimFunc, change: Callable[[If], Stmt]) -> PrimFunc:
    return replace(func, body=rewrite(func.body, lambda s: change(s) if isinstance(s, If) else s))


def no_tail_guard(func: PrimFunc) -> PrimFunc:
    return guards(schedule(func).split("i", 4).func, lambda s: s.then)


def tail_guard(by: int) -> Transform:
    """The guard of a split, its limit moved."""

    def moved(s: If) -> Stmt:
        i, n = s.condition.children
        assert isinstance(n, Const)
        return replace(s, condition=i < const(int(n.value) + by))

    return lambda func: guards(schedule(func).split("i", 4).func, moved)


def strides_swapped(func: PrimFunc) -> PrimFunc:
    """The outer loop takes steps of one: some elements twice, others never."""
    func = plain_function(func)
    old = loop_named(func, "i")
    o, i = Var("i_o"), Var("i_i")
    return put(func, old, For(o, const(5), For(i, const(2), renewed(old.body, {old.var: o + i * 2}))))


def reorder_unchecked(*names: str) -> Transform:
    def transform(func: PrimFunc) -> PrimFunc:
        func = plain_function(func)
        chosen = [loop_named(func, n) for n in names]
        top = next(s for s in program_order(func.body) if s in chosen)
        assert isinstance(top, For)
        body = nests.perfect(top, set(chosen))[2]
        for s in reversed(chosen):
            body = replace(s, body=body)
        return put(func, top, body)

    return transform


def marked(name: str, kind: str) -> Transform:
    def transform(func: PrimFunc) -> PrimFunc:
        func = plain_function(func)
        old = loop_named(func, name)
        return put(func, old, replace(old, kind=kind))

    return transform


def merge_unchecked(func: PrimFunc) -> PrimFunc:
    func = plain_function(func)
    one, two = loop_named(func, "i"), loop_named(func, "j")
    outer = next(s for s in program_order(func.body) if isinstance(s, Seq) and one in s.body)
    joined = replace(one, body=seq(one.body, renewed(two.body, {two.var: one.var})))
    return put(func, outer, seq(*(joined if s is one else s for s in outer.body if s is not two)))


def fission_unchecked(func: PrimFunc) -> PrimFunc:
    func = plain_function(func)
    old = loop_named(func, "i")
    assert isinstance(old.body, Seq)
    return put(func, old, seq(*(renewed(replace(old, body=s), {}) for s in old.body.body)))


def fused_by_the_wrong_width(func: PrimFunc) -> PrimFunc:
    func = plain_function(func)
    one = loop_named(func, "i")
    assert isinstance(one.body, For)
    f = Var("f")
    body = renewed(one.body.body, {one.var: f // 3, one.body.var: f % 3})
    return put(func, one, For(f, const(15), body))


def fused_with_swapped_indices(func: PrimFunc) -> PrimFunc:
    func = plain_function(func)
    one = loop_named(func, "i")
    assert isinstance(one.body, For)
    f = Var("f")
    return put(func, one, For(f, const(15), renewed(one.body.body, {one.var: f // 5, one.body.var: f // 3})))


def unrolled_one_short(func: PrimFunc) -> PrimFunc:
    made = schedule(func).unroll("i").func
    assert isinstance(made.body, Seq)
    return replace(made, body=seq(*made.body.body[:-1]))


def peeled_from_the_start(func: PrimFunc) -> PrimFunc:
    func = plain_function(func)
    old = loop_named(func, "i")
    first = replace(old, extent=const(3))
    return put(func, old, seq(renewed(first, {}), renewed(replace(old, extent=const(7)), {})))


def tile(change: Callable[[Stmt], Stmt], at: str = "i_o") -> Transform:
    """The tile of `cache_write`, and one of its parts changed."""

    def transform(func: PrimFunc) -> PrimFunc:
        made = cache.cache_write(schedule(func).split("i", 4).func, "out", at)
        return replace(made, body=rewrite(made.body, change))

    return transform


def parts(change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Callable[[Stmt], Stmt]:
    """The statements inside the tile's allocation changed: fill, work, copy back."""

    def node(s: Stmt) -> Stmt:
        return replace(s, body=seq(*change(s.body.body))) if isinstance(s, Allocate) and isinstance(s.body, Seq) else s

    return node


def smaller(s: Stmt) -> Stmt:
    """The loops over the tile one shorter."""
    return replace(s, extent=const(3)) if isinstance(s, For) and s.var.name == "out_0" else s


def tile_shape(func: PrimFunc) -> PrimFunc:
    made = cache.cache_read(schedule(func).split("i", 4).func, "x", "i_o")
    small: dict[Buffer, Buffer] = {}

    def change(e: Expr) -> Expr:
        return rewrite(e, lambda n: replace(n, buffer=small[n.buffer]) if getattr(n, "buffer", None) in small else n)

    def node(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            return replace(s, buffer=small.get(s.buffer, s.buffer), value=change(s.value))
        return replace(s, buffer=small[s.buffer]) if isinstance(s, Allocate) and s.buffer in small else s

    for s in program_order(made.body):
        if isinstance(s, Allocate) and s.buffer.name == "x_tile":
            small[s.buffer] = replace(s.buffer, shape=(3,))
    return replace(made, body=rewrite(made.body, node))


def partial_sums_from_one(func: PrimFunc) -> PrimFunc:
    made = schedule(func).rfactor("k", 2).func

    def node(s: Stmt) -> Stmt:
        first = isinstance(s, Store) and s.buffer.name == "out_part" and isinstance(s.value, Const)
        return replace(s, value=const(1, F)) if first and isinstance(s, Store) else s

    return replace(made, body=rewrite(made.body, node))


FAULTS = [
    fault("no tail guard", "a split whose factor does not divide the extent runs past the end", no_tail_guard,
        scale, lambda f: schedule(f).split("i", 4).func),
    fault("short tail guard", "the last element is left out", tail_guard(-1),
        scale, lambda f: schedule(f).split("i", 4).func),
    fault("long tail guard", "one element too many", tail_guard(1), scale, lambda f: schedule(f).split("i", 4).func),
    fault("strides of a split", "the outer loop has the inner one's step", strides_swapped,
        scale, lambda f: schedule(f).split("i", 2).func),
    fault("reorder", "loops change places across a dependence", reorder_unchecked("j", "i"), skewed, None),
    fault("vectorized recurrence", "each iteration needs the one before", marked("i", "vectorized"), running, None),
    fault("parallel reduction", "all iterations add to one element", marked("k", "parallel"), total, None),
    fault("fusion with a neighbour", "the consumer reads what is not yet written", merge_unchecked, blurred, None),
    fault("fission", "a statement runs before the one that it waits for", fission_unchecked, alternating, None),
    fault("fused by the wrong width", "division by the outer extent", fused_by_the_wrong_width,
        grid, lambda f: schedule(f).fuse("i", "j").func),
    fault("fused indices", "a quotient instead of the remainder", fused_with_swapped_indices,
        grid, lambda f: schedule(f).fuse("i", "j").func),
    fault("unrolled", "one copy short", unrolled_one_short, scale, lambda f: schedule(f).unroll("i").func),
    fault("peeled", "the rest starts at the start again", peeled_from_the_start,
        scale, lambda f: schedule(f).peel("i", 3).func),
    fault("tile not filled", "sums go on from a tile that has nothing in it", tile(parts(lambda s: s[1:])),
        total, lambda f: schedule(f).split("i", 4).cache_write("out", "i_o").func),
    fault("tile not copied back", "the result stays in the tile", tile(parts(lambda s: s[:-1])),
        total, lambda f: schedule(f).split("i", 4).cache_write("out", "i_o").func),
    fault("tile copied in part", "the last element of each tile is left out", tile(smaller),
        total, lambda f: schedule(f).split("i", 4).cache_write("out", "i_o").func),
    fault("tile too small", "a tile with room for less than what is read", tile_shape,
        scale, lambda f: schedule(f).split("i", 4).cache_read("x", "i_o").func),
    fault("partial sums", "each starts at one", partial_sums_from_one, total, lambda f: f),
    fault("reassociation as bit-exact",
        "partial sums side by side, claimed to give the same bits", lambda f: schedule(f).rfactor("k", 2).func,
        total, lambda f: f),
]  # fmt: skip
