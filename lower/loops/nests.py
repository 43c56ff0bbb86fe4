"""Split, fuse, unroll, peel, reorder, fission, merge: loops in another form (specs/lower.md, "loops").

Each is bit-exact wherever the source does not trap, or is refused and says which accesses are in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.lower.loops.dependence import Nest, carried, conjuncts, reversed_pairs
from assay.lower.loops.rewriting import around, is_index, loop_named, put, renewed
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Const, Expr, Var, apply, cast, const, same, variables
from assay.semantics.tensor import INDEPENDENT, For, If, LoopKind, PrimFunc, Seq, Stmt, program_order, seq, when
from assay.semantics.tensor.places import is_private

MOST_COPIES = 1024


def split_loop(func: PrimFunc, name: str, factor: int, names: tuple[str, str] | None = None) -> PrimFunc:
    """The loop as two: `factor` iterations inside, and as many outside as it takes; a ragged end is guarded.

    The new loops are called `names`, else `i_o` and `i_i`. Invalid `loops.C3` where the factor is less than 1 or the
    loop's variable is too narrow for the last round.
    """
    old = loop_named(func, name)
    if factor < 1:
        raise Invalid(f"split of {name} by {factor}: at least 1 is right", label="loops.C3")
    words = names or (f"{old.var.name}_o", f"{old.var.name}_i")
    outer, inner = (Var(w, old.var.dtype) for w in words)
    count = constant_extent(old)
    if count is None and old.var.dtype.bits < 64:
        raise Unsupported(f"split of {name}: {old.var.dtype} may be too narrow for its last round", label="loops.C3")
    if max(factor, -(-(count or 0) // factor) * factor - 1) > old.var.dtype.max:
        raise Invalid(f"split of {name} by {factor}: {old.var.dtype} is too narrow for it", label="loops.C3")
    index = outer * const(factor, old.var.dtype) + inner
    body = renewed(old.body, {old.var: index})
    if count is None:
        rounds: Expr = (wide_extent(old.extent) + (factor - 1)) // factor
    else:
        rounds = extent_number(-(-max(count, 0) // factor), old.extent.dtype)
    if count is None or count % factor:
        body = when(index < cast(old.extent, index.dtype), body)
    kinds: dict[LoopKind, tuple[LoopKind, LoopKind]] = {
        "serial": ("serial", "serial"),
        "parallel": ("parallel", "serial"),
        "vectorized": ("serial", "vectorized"),
        "unrolled": ("serial", "unrolled"),
    }
    high, low = kinds[old.kind]
    inside = For(inner, extent_number(factor, old.extent.dtype), body, low, span=old.span)
    return put(func, old, For(outer, rounds, inside, high, span=old.span))


def fuse_loops(func: PrimFunc, outer: str, inner: str, name: str | None = None) -> PrimFunc:
    """Two loops, one directly inside the other, as one over all pairs of iterations, in the same order."""
    one, two = loop_named(func, outer), loop_named(func, inner)
    if one.body is not two:
        raise Invalid(f"fuse: {inner} does not stand directly inside {outer}", label="loops.C4")
    if one.var in variables(two.extent):
        raise Unsupported(f"fuse: the extent of {inner} depends on {outer}", label="loops.C4")
    n, m = constant_extent(one), constant_extent(two)
    of = one.var.dtype
    if (n is None or m is None) and of.bits < 64 or (n is not None and m is not None and n * m - 1 > of.max):
        raise Unsupported(f"fuse: {of} may be too narrow for both {outer} and {inner}", label="loops.C3")
    var = Var(name or f"{one.var.name}_{two.var.name}", of)
    width = cast(two.extent, of)
    if n is not None and m is not None:
        extent: Expr = extent_number(max(n, 0) * max(m, 0), one.extent.dtype)
    else:  # a negative extent is an empty loop
        extent = cast(apply("max", wide_extent(one.extent), 0), INT64) * cast(
            apply("max", wide_extent(two.extent), 0), INT64
        )
    body = renewed(two.body, {one.var: var // width, two.var: cast(var % width, two.var.dtype)})
    kind: LoopKind = one.kind if one.kind == two.kind else "serial"
    fused = For(var, extent, body, kind, span=one.span)
    return keep_promises(put(func, one, fused), [fused] if kind == "vectorized" else [])


def unroll(func: PrimFunc, name: str) -> PrimFunc:
    """A copy of the body for each iteration; the number of them must be known, and at most `MOST_COPIES`."""
    old = loop_named(func, name)
    count = constant_extent(old)
    if count is None or count > MOST_COPIES:
        raise Invalid(
            f"unroll of {name}: {old.extent} iterations; at most {MOST_COPIES}, known, are right", label="loops.C5"
        )
    copies = [renewed(old.body, {old.var: const(k, old.var.dtype)}) for k in range(count)]
    return put(func, old, seq(*copies) if copies else Seq(()))


def peel(func: PrimFunc, name: str, count: int) -> PrimFunc:
    """The first `count` iterations as a loop of their own, before the others."""
    old = loop_named(func, name)
    if count < 0:
        raise Invalid(f"peel of {name}: {count} iterations; 0 or more are right", label="loops.C3")
    n = constant_extent(old)
    if n is not None:
        count = min(count, max(n, 0))
    if count > old.var.dtype.max:
        raise Invalid(f"peel of {count} iterations of {name}: {old.var.dtype} is too narrow for it", label="loops.C3")
    first, rest = Var(f"{old.var.name}_first", old.var.dtype), Var(old.var.name, old.var.dtype)
    if n is None:
        head = apply("min", wide_extent(old.extent), count)
        tail = wide_extent(old.extent) - apply("max", head, 0)
    else:
        head, tail = const(count, old.extent.dtype), const(max(n, 0) - count, old.extent.dtype)
    moved = rest + const(count, old.var.dtype)
    return put(
        func,
        old,
        seq(
            For(first, head, renewed(old.body, {old.var: first}), old.kind, span=old.span),
            For(rest, tail, renewed(old.body, {old.var: moved}), old.kind, span=old.span),
        ),
    )


def reorder(func: PrimFunc, *names: str) -> PrimFunc:
    """The named loops of one perfect nest in the order given; loops between them that are not named stay where they
    are.

    Guards between the loops that read no memory go where their variables are known. Legal where no two accesses to
    one element, one of them a store, change their order (`loops.C6`).
    """
    chosen = [loop_named(func, n) for n in names]
    if len(set(chosen)) != len(chosen):
        raise Invalid("reorder: a loop is named twice", label="loops.C4")
    top = next((s for s in program_order(func.body) if s in chosen), None)
    if not isinstance(top, For):
        return func
    chain, guards, body = perfect(top, set(chosen))
    missing = next((n for n, s in zip(names, chosen, strict=True) if s not in chain), None)
    if missing is not None:
        raise Invalid(f"reorder: {missing} is not in one perfect nest with {top.var.name}", label="loops.C4")
    moved = iter(chosen)
    after = [next(moved) if s in chosen else s for s in chain]
    own = {s.var for s in chain}
    for s in chain:
        if own & set(variables(s.extent)):
            raise Unsupported(
                f"reorder: the extent of {s.var.name} depends on another loop of the nest", label="loops.C4"
            )
    nest = Nest(func, top)
    for a, b in reversed_pairs(nest, [s.var for s in chain], [s.var for s in after]):
        raise Invalid(f"reorder: {a} and {b} may touch one element, and would change their order", label="loops.C6")
    return keep_promises(put(func, top, _nested(after, guards, body)), [*after, *lanes_around(func, top)])


def perfect(top: For, ends: set[For]) -> tuple[list[For], list[Expr], Stmt]:
    """The loops from `top` down to the last of `ends`, the guards between and below them, and what is inside."""
    chain: list[For] = []
    guards: list[Expr] = []
    node: Stmt = top
    while True:
        if isinstance(node, For) and not ends <= set(chain):
            chain.append(node)
            node = node.body
        elif isinstance(node, If) and node.otherwise is None and is_index(node.condition):
            guards += conjuncts(node.condition)
            node = node.then
        else:
            return chain, guards, node


def _nested(loops: Sequence[For], guards: Sequence[Expr], body: Stmt) -> Stmt:
    """Loops with each guard right inside the last of those that it names."""
    own = {s.var for s in loops}
    left = list(guards)
    for k, s in reversed(list(enumerate(loops))):
        before = {o.var for o in loops[:k]}
        here = [g for g in left if not set(variables(g)) & own <= before]
        left = [g for g in left if g not in here]
        for g in reversed(here):
            body = when(g, body)
        body = replace(s, body=body)
    for g in reversed(left):
        body = when(g, body)
    return body


def fission(func: PrimFunc, name: str, at: int = 1) -> PrimFunc:
    """The loop as two, one after the other: the first `at` statements of its body, and the rest.

    Legal where no statement of the first part touches in one iteration what the second touches in an earlier one,
    one of them storing (`loops.C7`).
    """
    old = loop_named(func, name)
    _, guards, inside = perfect(old, {old})
    if not isinstance(inside, Seq) or not 0 < at < len(inside.body):
        raise Invalid(f"fission of {name} after {at} statements: its body has not as many", label="loops.C4")
    parts = seq(*inside.body[:at]), seq(*inside.body[at:])
    _in_turn(Nest(func, *parts), old.var, "fission", "loops.C7")
    first, second = (_nested([old], guards, p) for p in parts)
    return keep_promises(put(func, old, seq(renewed(first, {}), renewed(second, {}))), lanes_around(func, old))


def merge(func: PrimFunc, first: str, second: str, depth: int = 1) -> PrimFunc:
    """Two loops, one right after the other and of the same length, as one; with `depth`, loops inside them as well.

    So an elementwise producer or epilogue is computed where its value is used. Legal where no statement of the second
    needs, or overwrites, what the first does in a later iteration (`loops.C8`).
    """
    one, two = loop_named(func, first), loop_named(func, second)
    for k in range(depth):
        if k and one is two:
            raise Invalid(
                f"merge of {first} and {second}: no loop stands right inside each at depth {k + 1}", label="loops.C4"
            )
        func, one, two = _merged(func, one, two)
    return func


def _merged(func: PrimFunc, one: For, two: For) -> tuple[PrimFunc, For, For]:
    what = f"merge of {one.var.name} and {two.var.name}"
    around_two = around(func, two)
    outer = around_two[-2] if len(around_two) > 1 else None
    if not isinstance(outer, Seq) or one not in outer.body or outer.body.index(two) - outer.body.index(one) != 1:
        raise Invalid(f"{what}: the second does not come right after the first", label="loops.C4")
    if not same(one.extent, two.extent) or one.var.dtype is not two.var.dtype:
        raise Invalid(f"{what}: {one.extent} and {two.extent} iterations", label="loops.C4")
    tail = renewed(two.body, {two.var: one.var})
    kind: LoopKind = one.kind if one.kind == two.kind else "serial"
    joined = replace(one, body=seq(*_flat(one.body), *_flat(tail)), kind=kind)
    place = outer.body.index(one)
    rest = (*outer.body[:place], joined, *outer.body[place + 2 :])
    new = put(func, outer, seq(*rest))
    _in_turn(Nest(new, one.body, tail), one.var, what, "loops.C8")
    inner = [s for s in (one.body, tail) if isinstance(s, For)]
    new = keep_promises(new, [joined, *lanes_around(func, one)])
    return new, *(inner if len(inner) == 2 else (joined, joined))


def _flat(stmt: Stmt) -> Sequence[Stmt]:
    return stmt.body if isinstance(stmt, Seq) else (stmt,)


def _in_turn(nest: Nest, var: Var, what: str, label: str) -> None:
    """Refuse unless all iterations of part 0 may come before all of part 1, and each before the same one of it."""
    for a, b in nest.pairs():
        if a.part != b.part:
            first, second = (a, b) if a.part == 0 else (b, a)
            if not nest.apart(first, second, {var: ">"}):
                raise Invalid(
                    f"{what}: {first} in an iteration of {var.name} and {second} in an earlier one may touch one"
                    " element",
                    label=label,
                )


def mark(func: PrimFunc, name: str, kind: LoopKind) -> PrimFunc:
    """The loop with another kind. A parallel or vectorized one must have independent iterations (`loops.C9`)."""
    old = loop_named(func, name)
    if kind in INDEPENDENT:
        nest = Nest(func, old.body)
        for a in nest.accesses if kind == "parallel" else ():
            if a.write and is_private(a.buffer):
                raise Invalid(
                    f"{name} cannot be parallel: {a} is to memory in scope {a.buffer.scope}, that of one thread, which"
                    " begins outside of it",
                    label="loops.C9",
                )
        found = carried(nest, old.var)
        if found is not None:
            raise Invalid(
                f"{name} cannot be {kind}: {found[0]} and {found[1]} may touch one element in two iterations of it",
                label="loops.C9",
            )
    return put(func, old, replace(old, kind=kind))


def lanes_around(func: PrimFunc, stmt: Stmt) -> list[For]:
    """The vectorized loops around a statement: their lanes take its steps at once, so the order of steps concerns
    them."""
    return [s for s in around(func, stmt)[:-1] if isinstance(s, For) and s.kind == "vectorized"]


def keep_promises(func: PrimFunc, touched: Sequence[For]) -> PrimFunc:
    """Loops that were moved and are no longer shown to be independent become serial."""
    moved = {s.var for s in touched}
    for s in [s for s in program_order(func.body) if isinstance(s, For) and s.var in moved and s.kind in INDEPENDENT]:
        if carried(Nest(func, s.body), s.var) is not None:
            now = next(x for x in program_order(func.body) if isinstance(x, For) and x.var is s.var)
            func = put(func, now, replace(now, kind="serial"))
    return func


def wide_extent(extent: Expr) -> Expr:
    """An extent in 64 bits, in which sums with it do not wrap."""
    return extent if extent.dtype.bits == 64 else cast(extent, INT64)


def extent_number(value: int, of: DType) -> Const:
    """A number of iterations, in `of` where it fits."""
    return const(value, of if value <= of.max else INT64)


def constant_extent(of: For) -> int | None:
    """How many iterations a loop has, where that is a number."""
    return int(of.extent.value) if isinstance(of.extent, Const) else None
