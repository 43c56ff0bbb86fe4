"""When a tensor function uses which memory (specs/semantics.md, "Memory planning")."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.live_positions import BranchRange, LivePositions, UseRange, meet, minus, union
from assay.semantics.memory import overlap
from assay.semantics.scalar import Var, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    AllocateConst,
    Block,
    Buffer,
    Call,
    Evaluate,
    For,
    If,
    LoopKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    View,
    While,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.tensor.phases import Phases, phases
from tests.scale import MANY

N = 4


def buf(name: str, size: int = N) -> Buffer:
    return Buffer(name, (size,), FLOAT32)


def cell(name: str) -> Buffer:
    return Buffer(name, (), FLOAT32)


def copy(to: Buffer, of: Buffer) -> Stmt:
    """A nest that fills one buffer from another."""
    return loops("i", (N,), lambda i: store(to, i, of[i]))


def move(to: Buffer, of: Buffer) -> Store:
    """One store, of a cell."""
    return store(to, (), of[()])


def within(*buffers: Buffer, body: Stmt) -> Stmt:
    for b in reversed(buffers):
        body = Allocate(b, body)
    return body


def loop(body: Stmt, kind: LoopKind = "serial") -> For:
    return For(Var("n"), const(3), body, kind)


def func(body: Stmt, inputs: tuple[Buffer, ...] = (), outputs: tuple[Buffer, ...] = ()) -> PrimFunc:
    return PrimFunc("f", (*inputs, *outputs), len(outputs), body)


def sharing(found: Phases, a: Buffer, b: Buffer) -> bool:
    """Whether two buffers may share their bytes."""
    return not overlap(found.uses[a], found.uses[b])


x, y, t, u, v = (cell(n) for n in "xytuv")
test = Buffer("test", (), BOOL)
HOLDS = test[()]


def test_one_nest_is_one_phase() -> None:
    a, b = buf("a"), buf("b")
    found = phases(func(copy(b, a), (a,), (b,)))
    assert found.count == 1
    assert found.uses == {a: ((0, 1),), b: ((0, 1),)}


def test_a_nest_without_inputs_is_one_phase() -> None:
    b = buf("b")
    found = phases(func(loops("i", (N,), lambda i: store(b, i, 1.0)), (), (b,)))
    assert found.count == 1 and found.uses == {b: ((0, 1),)}


def test_a_phase_begins_only_where_something_has_ended() -> None:
    """`x` ends, then `u`, `v` and `y` begin one after another: nothing ends between them."""
    last = store(y, (), t[()] + u[()] + v[()])
    found = phases(func(within(t, u, v, body=seq(move(t, x), store(u, (), 1.0), store(v, (), 1.0), last)), (x,), (y,)))
    assert found.count == 2 and not sharing(found, u, v)


def test_many_uses_in_one_loop_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[UseRange]()

    def counted(*args: Any) -> UseRange:
        made.append(UseRange(*args))
        return made[-1]

    monkeypatch.setattr(sys.modules["assay.semantics.tensor.phases"], "UseRange", counted)
    many = seq(*(move(y, x) for _ in range(50)))
    assert phases(func(loop(many), (x,), (y,))).count == 1 and len(made) == 2
    made.clear()
    assert phases(func(store(y, (), x[()] + x[()] + x[()]), (x,), (y,))).count == 1 and len(made) == 2


def test_phases_are_read_once() -> None:
    """A function may be called thousands of times."""
    f = func(move(y, x), (x,), (y,))
    assert phases(f) is phases(f)


@pytest.mark.row("U14", "U15")
def test_one_nest_after_another() -> None:
    a, b, c, d = (buf(n) for n in "abcd")
    found = phases(func(within(c, d, body=seq(copy(c, a), copy(d, c), copy(b, d))), (a,), (b,)))
    assert found.count == 3
    assert found.uses == {a: ((0, 1),), c: ((0, 2),), d: ((1, 3),), b: ((2, 3),)}
    assert found.before[a] == ((0, 1),) and found.before[b] == ((0, 3),)
    assert found.after[a] == ((0, 3),) and found.after[b] == ((2, 3),)


@pytest.mark.row("U15")
def test_lives_are_by_use_and_not_by_where_the_allocation_stands() -> None:
    # both exist from the start, nested; the one is used up before the other is begun
    found = phases(
        func(within(t, u, body=seq(store(t, (), 1.0), move(v, t), store(u, (), 2.0), move(y, u))), (), (v, y))
    )
    assert sharing(found, t, u)


def test_an_initial_value_and_a_sum_are_one_phase() -> None:
    a, b = buf("a"), buf("b")
    fill = loops("i", (N,), lambda i: store(b, i, 0.0))
    add = loops("i j", (N, N), lambda i, j: store(b, i, b[i] + a[j]))
    assert phases(func(seq(fill, add), (a,), (b,))).count == 1


@pytest.mark.row("U9")
def test_what_exists_outside_of_a_loop_lives_all_over_it() -> None:
    body = loop(within(u, v, body=seq(move(u, t), move(v, u), move(t, v))))
    found = phases(func(within(t, body=seq(store(t, (), 0.0), body, move(y, t))), (), (y,)))
    assert not sharing(found, t, u) and not sharing(found, t, v)
    assert not sharing(found, u, v)  # both in one statement
    body = loop(within(u, v, body=seq(store(u, (), 0.0), move(t, u), store(v, (), 0.0), move(t, v))))
    found = phases(func(within(t, body=seq(store(t, (), 0.0), body, move(y, t))), (), (y,)))
    assert sharing(found, u, v)  # each is new in every iteration
    assert not sharing(found, t, u) and not sharing(found, t, v)


@pytest.mark.row("U9")
def test_uses_in_an_inner_loop_reach_to_the_end_of_the_outer_one() -> None:
    """The fault of the museum: `t` is used in the inner loop only, but is carried around the outer one."""
    inner = loop(move(t, t))
    outer = loop(seq(inner, within(u, body=seq(store(u, (), 1.0), move(y, u)))))
    found = phases(func(within(t, body=outer), (), (y,)))
    assert not sharing(found, t, u)
    # not so where `t` begins in the outer loop
    outer = loop(
        seq(
            within(t, body=seq(store(t, (), 0.0), loop(move(t, t)))), within(u, body=seq(store(u, (), 1.0), move(y, u)))
        )
    )
    assert sharing(phases(func(outer, (), (y,))), t, u)


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
@pytest.mark.row("U9")
def test_iterations_side_by_side_share_nothing(kind: LoopKind) -> None:
    def body() -> Stmt:
        return seq(store(t, (), 1.0), move(u, t), store(v, (), 1.0), move(u, v))

    a = cell("a")
    assert sharing(phases(func(loop(within(t, v, body=body())), (), (u,))), t, v)
    side_by_side = loop(within(t, v, body=body()), kind)
    found = phases(func(within(a, body=seq(move(a, x), move(y, a), side_by_side)), (x,), (y, u)))
    assert not sharing(found, t, v)
    assert sharing(found, a, t)
    # a serial loop inside: what begins there lives all over the parallel one too, in which other iterations run on
    inside = loop(
        seq(
            loop(within(t, body=seq(store(t, (), 1.0), move(u, t)))), within(v, body=seq(store(v, (), 1.0), move(u, v)))
        ),
        kind,
    )
    assert not sharing(phases(func(inside, (), (u,))), t, v)
    # a serial loop outside: it ends with the parallel one
    outside = loop(
        seq(
            loop(within(t, body=seq(store(t, (), 1.0), move(u, t))), kind),
            within(v, body=seq(store(v, (), 1.0), move(u, v))),
        )
    )
    assert sharing(phases(func(outside, (), (u,))), t, v)


@pytest.mark.row("U9")
def test_while() -> None:
    go = Buffer("go", (), BOOL)
    body = seq(within(u, body=seq(store(u, (), 1.0), move(y, u))), store(go, (), False))
    found = phases(func(within(go, body=seq(store(go, (), True), While(go[()], body))), (), (y,)))
    assert not sharing(found, go, u)  # the condition is read after every iteration


@pytest.mark.row("U18")
def test_the_arms_of_a_choice_exclude_each_other() -> None:
    one, other = seq(store(t, (), 1.0), move(y, t)), seq(store(u, (), 2.0), move(y, u))
    found = phases(func(within(t, u, body=If(HOLDS, one, other)), (test,), (y,)))
    assert sharing(found, t, u)
    # written in the one, read in the other: never both, so nothing lives in between
    found = phases(
        func(within(t, v, body=If(HOLDS, seq(store(t, (), 1.0), store(v, (), 1.0)), move(y, t))), (test,), (y,))
    )
    assert sharing(found, t, v)
    body = If(HOLDS, store(t, (), 1.0), seq(store(u, (), 2.0), move(y, u), move(y, t)))
    assert sharing(phases(func(within(t, u, body=body), (test,), (y,))), t, u)


@pytest.mark.row("U18")
def test_an_arm_inside_a_loop_comes_after_the_other_in_the_next_iteration() -> None:
    choice = If(HOLDS, store(t, (), 1.0), seq(move(y, t), store(u, (), 1.0), move(y, u)))
    found = phases(func(within(t, u, body=loop(choice)), (test,), (y,)))
    assert not sharing(found, t, u)


def test_a_loop_in_an_arm_keeps_to_it_and_what_is_in_an_arm_of_a_loop_is_all_over_the_loop() -> None:
    def one(b: Buffer) -> Stmt:
        return seq(store(b, (), 1.0), move(y, b))

    whole = within(t, u, body=If(HOLDS, loop(one(t)), loop(one(u))))
    assert sharing(phases(func(whole, (test,), (y,))), t, u)
    whole = within(t, u, body=loop(If(HOLDS, one(t), one(u))))
    assert not sharing(phases(func(whole, (test,), (y,))), t, u)
    whole = within(t, u, v, body=seq(store(v, (), 1.0), If(HOLDS, loop(If(HOLDS, one(t), move(y, v))), one(u))))
    found = phases(func(whole, (test,), (y,)))
    assert sharing(found, t, u) and not sharing(found, t, v) and sharing(found, u, v)


def test_a_choice_without_a_second_arm() -> None:
    found = phases(func(within(t, body=seq(If(HOLDS, store(t, (), 1.0)), move(y, x), move(y, t))), (test, x), (y,)))
    assert not sharing(found, t, x)


@pytest.mark.row("U8")
def test_a_use_of_a_view_is_a_use_of_its_memory() -> None:
    row, again = buf("row"), buf("again")
    big, other = buf("big", 2 * N), buf("other")

    def view(made: Buffer, of: Buffer, body: Stmt) -> Stmt:
        return Alias(View(made, of, const(0), (const(1),)), body)

    body = view(row, big, view(again, row, seq(copy(again, x4), copy(other, x4), copy(y4, other), copy(y4, again))))
    found = phases(func(within(big, other, body=body), (x4,), (y4,)))
    assert set(found.uses) == {big, other, x4, y4}
    assert not sharing(found, big, other)
    viewed = Block(
        "b",
        (),
        seq(copy(again, x4), copy(other, x4), copy(y4, other), copy(y4, again)),
        views=(View(again, big, const(0), (const(1),)),),
    )
    assert not sharing(phases(func(within(big, other, body=viewed), (x4,), (y4,))), big, other)


x4, y4 = buf("x4"), buf("y4")


def test_blocks_and_calls() -> None:
    a, b = buf("a"), buf("b")
    block = Block("b", (), seq(copy(a, x4), copy(y4, a)), init=store(b, 0, 0.0), allocated=(a, b))
    found = phases(func(block, (x4,), (y4,)))
    assert sharing(found, a, b)
    calls = seq(Call("g", (x4, a)), Call("g", (a, b)), Call("g", (b, y4)))
    found = phases(func(within(a, b, body=calls), (x4,), (y4,)))
    assert found.count == 3 and not sharing(found, a, b) and sharing(found, a, y4) and sharing(found, x4, b)


def test_constants_are_nobodys_to_plan() -> None:
    import numpy as np

    table = buf("table")
    found = phases(func(AllocateConst(table, np.zeros(N, np.float32), copy(y4, table)), (), (y4,)))
    assert set(found.uses) == {y4}


def test_what_is_not_used_takes_a_phase() -> None:
    found = phases(func(seq(copy(y4, x4), within(t, body=copy(y4, x4))), (x4, x), (y4, v)))
    assert t in found.uses and all(found.uses[b] for b in (t, x, v))
    assert found.before[x] == ((0, 1),) and found.after[v] == ((0, found.count),)
    chosen = phases(func(If(HOLDS, move(y, x)), (test, x), (y, v)))  # the test is read before all else
    assert chosen.count == 2 and chosen.uses[v] == ((0, 1),)


def test_the_place_of_a_phase() -> None:
    a = buf("a")
    f = func(within(a, body=seq(copy(a, x4), copy(y4, a))), (x4,), (y4,))
    at = {id(s): phases(f).at(k) for k, s in enumerate(program_order(f.body))}
    first, second = (s for s in program_order(f.body) if isinstance(s, Store))
    assert at[id(first)] == 0 and at[id(second)] == 1


def test_an_extent_is_read_before_the_loop() -> None:
    size, length = Buffer("size", (), FLOAT32), cell("length")
    body = seq(move(length, size), For(Var("i"), length[()], within(t, body=seq(store(t, (), 1.0), move(y, t)))))
    found = phases(func(within(length, body=body), (size,), (y,)))
    assert sharing(found, length, t)


def test_a_long_and_a_deep_function() -> None:
    many = [cell(f"c{k}") for k in range(MANY)]
    chain = Seq(tuple(move(b, a) for a, b in zip([x, *many], [*many, y], strict=True)))
    found = phases(func(within(*many, body=chain), (x,), (y,)))
    assert found.count == MANY + 1 and all(len(found.uses[b]) == 1 for b in many)
    deep: Stmt = Evaluate(HOLDS)
    for b in many:
        deep = If(HOLDS, deep, within(b, body=move(y, b)))
    found = phases(func(loop(deep), (test,), (y,)))
    assert found.uses[y] == ((0, found.count),)


def test_sets_of_positions() -> None:
    assert minus((0, 10), [(2, 4), (3, 5), (9, 12)]) == ((0, 2), (5, 9))
    assert meet(((0, 4), (6, 9)), ((3, 7),)) == ((3, 4), (6, 7))
    assert union([(4, 5), (0, 2), (2, 3), (7, 7)]) == ((0, 3), (4, 5))


def test_paths_of_a_choice() -> None:
    paths = LivePositions(9, (BranchRange(1, 4, 7),))
    assert paths.after([UseRange(2, 3, 0)]) == ((2, 4), (7, 9))
    assert paths.before([UseRange(5, 6, 1)]) == ((0, 1), (4, 6))
    assert paths.live([UseRange(0, 1), UseRange(2, 3, 0), UseRange(5, 6, 1), UseRange(8, 9)]) == ((0, 9),)
    assert paths.live([UseRange(2, 3, 0), UseRange(5, 6, 1)]) == ((2, 3), (5, 6))
    assert paths.live([UseRange(0, 1), UseRange(5, 6, 1)]) == ((0, 1), (4, 6))
    assert paths.live([UseRange(2, 3, 0), UseRange(8, 9)]) == ((2, 4), (7, 9))
