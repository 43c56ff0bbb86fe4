"""Functions that call themselves are loops of the planned program (specs/lower.md, "liveness"), and what is wrong with
one is seen by the checks of lives, values and places, and by the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.liveness import find_lives
from assay.lower.liveness.kills import edges
from assay.lower.pool import plan_pools as pool
from assay.semantics.dtypes import BOOL, FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    GlobalVar,
    Var,
    call,
    constant,
    function,
    get,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Branch, Continue, Item, Loop, Module, Program, Step
from assay.semantics.rules import check_program as check_rules
from assay.semantics.types import FuncType, TensorType, TupleType
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_places, sweep
from tests.lower.liveness.liveness_programs import lowered

N, V = TensorType((), INT32), TensorType((4,), FLOAT32)
ONE, ZERO = constant(np.int32(1)), constant(np.int32(0))
PAIR = TupleType((V, V))


def fibonacci() -> Module:
    """n times: a, b = b, a + b + k. What is carried goes round; k is the same in each iteration."""
    n, x, y, k0 = var("n", N), var("x", V), var("y", V), var("k0", V)
    i, a, b, k = var("i", N), var("a", V), var("b", V), var("k", V)
    loop = var("loop", FuncType((N, V, V, V), PAIR))
    again = call(loop, call("subtract", i, ONE), b, call("add", call("add", a, b), k), k)
    body = if_(call("equal", i, ZERO), tuple_of(a, b), again)
    found = let(loop, function([i, a, b, k], body, PAIR), call(loop, n, x, y, call("exp", k0)))
    return Module({"main": function([n, x, y, k0], found)})


def swap() -> Module:
    """n times: a, b = b, a."""
    n, x, y = var("n", N), var("x", V), var("y", V)
    i, a, b = var("i", N), var("a", V), var("b", V)
    loop = var("loop", FuncType((N, V, V), PAIR))
    body = if_(call("greater", i, ZERO), call(loop, call("subtract", i, ONE), b, a), tuple_of(a, call("negative", b)))
    return Module({"main": function([n, x, y], let(loop, function([i, a, b], body, PAIR), call(loop, n, x, y)))})


def nested() -> Module:
    """n times: m times v = v / 2 + w; w = v + x."""
    n, m, x = var("n", N), var("m", N), var("x", V)
    i, w, j, v = var("i", N), var("w", V), var("j", N), var("v", V)
    outer, inner = var("outer", FuncType((N, V), V)), var("inner", FuncType((N, V), V))
    step = call("add", call("multiply", v, constant(np.float32(0.5))), w)
    deep = if_(call("equal", j, ZERO), v, call(inner, call("subtract", j, ONE), step))
    found = let(inner, function([j, v], deep, V), call(inner, m, w))
    again = call(outer, call("subtract", i, ONE), call("add", found, x))
    body = if_(call("equal", i, ZERO), w, again)
    return Module({"main": function([n, m, x], let(outer, function([i, w], body, V), call(outer, n, x)))})


def parity() -> Module:
    """Whether n is even, by two functions of the module that call each other as the last thing that they do."""
    of = FuncType((N,), TensorType((), BOOL))

    def one(other: str, at_zero: bool) -> Function:
        i = var("i", N)
        rest = call(GlobalVar(of, other), call("subtract", i, ONE))
        return function([i], if_(call("equal", i, ZERO), constant(np.array(at_zero)), rest), TensorType((), BOOL))

    n = var("n", N)
    main = function([n], call(GlobalVar(of, "even"), n))
    return Module({"main": main, "even": one("odd", True), "odd": one("even", False)})


def twice() -> Module:
    """A loop that is handed on as a function, called twice, one behind the other and inside of a branch."""
    n, x = var("n", N), var("x", V)
    i, a = var("i", N), var("a", V)
    loop, f, p = var("loop", FuncType((N, V), V)), var("f", FuncType((N, V), V)), var("p", V)
    body = if_(call("equal", i, ZERO), a, call(loop, call("subtract", i, ONE), call("tanh", a)))
    run = var("run", FuncType((f.type, V), V))
    runs = function([f, p], call(f, n, call("exp", p)), V)
    both = if_(call("greater", n, ONE), call(run, loop, call(run, loop, x)), call(loop, n, x))
    return Module({"main": function([n, x], let(loop, function([i, a], body, V), let(run, runs, both)))})


PROGRAMS = {"fibonacci": fibonacci, "swap": swap, "nested": nested, "parity": parity, "twice": twice}


def made(module: Module) -> tuple[Module, Module]:
    """The module before liveness, and with lives."""
    before = lowered(module)
    return before, find_lives(before)


def inputs(module: Module, numbers: Sequence[int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    left = list(numbers)
    given: dict[str, np.ndarray] = {}
    for p in module.main.params:
        given[p.name] = np.asarray(left.pop(0), np.int32) if p.type == N else rng.random(4).astype(np.float32)
    return given


@pytest.mark.row("R16", "R17")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_runs_as_often_as_the_graph_says(name: str) -> None:
    before, live = made(PROGRAMS[name]())
    assert check_program(before, live).holds and check_lives(live.program, live.kernels).holds
    check_rules(live.program, live)
    planned = pool(live)
    assert check_places(planned)[0].holds
    positions = planned.program.positions[-1]
    assert all(0 <= p < positions and 0 < q <= positions for p, q in edges(planned.program) if p != q - 1)
    for numbers in ((0, 0), (1, 0), (2, 1), (7, 3)):
        given = inputs(before, numbers)
        want = graph.run(before, given)
        for execute in ("definition", None):
            found = machine.run(planned, given, **({"execute": execute} if execute else {}))
            for a, b in zip(found.values(), want.values(), strict=True):
                assert np.array_equal(a, b)


def test_what_each_call_hands_on_as_it_is_is_not_carried() -> None:
    _, live = made(fibonacci())
    (loop,) = (s for s in live.program.steps if isinstance(s, Loop))
    assert [bool(name) for name in loop.carried] == [True, True, True, False]


# --- faults ----------------------------------------------------------------------------------------------------------


def with_steps(live: Module, steps: Sequence[Item]) -> Module:
    return live.with_(main=replace(live.program, steps=tuple(steps)))


def loop_of(program: Program) -> tuple[int, Loop]:
    return next((i, s) for i, s in enumerate(program.steps) if isinstance(s, Loop))


def copies(program: Program) -> list[int]:
    """The copies inside the loop, which fill what is carried."""
    at, loop = loop_of(program)
    return [
        i
        for i, s in enumerate(program.steps[: loop.end])
        if i > at and isinstance(s, Step) and s.kernel.startswith("copy")
    ]


def other_order(live: Module) -> Module:
    steps = list(live.program.steps)
    a, b = copies(live.program)[-2:]
    steps[a], steps[b] = steps[b], steps[a]
    return with_steps(live, steps)


def other_source(live: Module) -> Module:
    steps = list(live.program.steps)
    a, b = copies(live.program)[-2:]
    one, other = steps[a], steps[b]
    assert isinstance(one, Step) and isinstance(other, Step)
    steps[b] = replace(other, reads=one.reads)
    return with_steps(live, steps)


def other_initial(live: Module) -> Module:
    steps = list(live.program.steps)
    fills = [i for i in range(loop_of(live.program)[0]) if steps[i].writes and steps[i].kernel.startswith("copy")]  # type: ignore[union-attr]
    a, b = fills[-2:]
    one, other = steps[a], steps[b]
    assert isinstance(one, Step) and isinstance(other, Step)
    steps[b] = replace(other, reads=one.reads)
    return with_steps(live, steps)


def said_to_stay(live: Module) -> Module:
    steps = list(live.program.steps)
    at, loop = loop_of(live.program)
    steps[at] = replace(loop, carried=(*loop.carried[:1], "", *loop.carried[2:]))
    return with_steps(live, steps)


def other_arms(live: Module) -> Module:
    """The loop goes on where it was to be left."""
    steps = list(live.program.steps)
    at, branch = next((i, s) for i, s in enumerate(steps) if isinstance(s, Branch))
    first, second = steps[at + 1 : branch.then], steps[branch.then : branch.end]
    steps[at : branch.end] = [replace(branch, then=at + 1 + len(second)), *second, *first]
    return with_steps(live, steps)


def no_loop(live: Module) -> Module:
    """It runs once and goes on."""
    at, loop = loop_of(live.program)
    steps: list[Item] = []
    for i, s in enumerate(live.program.steps):
        if i == at or isinstance(s, Continue):
            continue
        if isinstance(s, Branch):
            s = replace(s, then=s.then - 1 - (s.then == loop.end), end=s.end - 2)
        steps.append(s)
    return with_steps(live, steps)


@pytest.mark.parametrize("fault", [other_order, other_source, other_initial, said_to_stay, other_arms, no_loop])
def test_a_loop_that_computes_something_else_is_refuted(fault: Callable[[Module], Module]) -> None:
    before, live = made(swap())
    evidence = check_program(before, fault(live))
    assert evidence.holds is False, evidence


def test_what_the_iteration_before_has_left_is_not_there() -> None:
    """A step that reads what only a later one of the loop writes."""
    before, live = made(fibonacci())
    program = live.program
    at, loop = loop_of(program)
    inner = [i for i in range(at + 1, loop.end) if isinstance(program.steps[i], Step)]
    last = next(i for i in reversed(inner) if i not in copies(program))
    first = inner[0]
    steps = list(program.steps)
    early, late = steps[first], steps[last]
    assert isinstance(early, Step) and isinstance(late, Step)
    steps[first] = replace(early, kernel=late.kernel, reads=(*late.writes, *late.reads[1:]))
    evidence = check_program(before, with_steps(live, steps))
    assert evidence.holds is False and "which nothing has written" in evidence.detail, evidence


def shortened(live: Module, name: str, position: int) -> Module:
    """The life of a slot without one position."""
    slot = live.program.slots[name]
    lives = [
        part
        for start, stop in slot.live
        for part in ([(start, stop)] if not start <= position < stop else [(start, position), (position + 1, stop)])
        if part[0] < part[1]
    ]
    slots = {**live.program.slots, name: replace(slot, live=tuple(lives))}
    return live.with_(main=replace(live.program, slots=slots))


def test_what_is_there_before_a_loop_lives_through_all_of_it() -> None:
    """The last position before the loop begins anew: only a walk round finds that it is needed there."""
    _, live = made(fibonacci())
    program = live.program
    kept = next(n for n, s in program.slots.items() if s.producer.startswith("exp"))
    back = program.positions[next(i for i, s in enumerate(program.steps) if isinstance(s, Continue))]
    assert program.slots[kept].is_live(back)
    evidence = check_lives(shortened(live, kept, back).program, live.kernels)
    assert not evidence.holds and kept in evidence.detail
    for carried in loop_of(program)[1].carried[:3]:
        at = program.positions[loop_of(program)[0]]
        assert not check_lives(shortened(live, carried, at).program, live.kernels).holds


def test_bytes_that_the_loop_needs_again_are_not_given_away() -> None:
    """A temporary of the loop in the bytes of what each iteration reads: the sweep and the machine see it."""
    before, live = made(fibonacci())
    planned = pool(live)
    program = planned.program
    kept = next(s for s in program.slots.values() if s.producer.startswith("exp"))
    at, loop = loop_of(program)
    behind = next(i for i in range(loop.end - 1, at, -1) if kept.name in program.steps[i].reads)
    victim = next(
        n for s in program.steps[behind + 1 : loop.end] for n in s.writes if program.slots[n].place == "workspace"
    )
    slots = {**program.slots, victim: replace(program.slots[victim], offset=kept.offset, pool=kept.pool)}
    broken = planned.with_(main=replace(program, slots=slots))
    assert sweep(program, planned.kernels).holds
    assert not sweep(broken.program, planned.kernels).holds
    assert not check_places(broken)[0].holds
    with pytest.raises(Trap) as found:
        machine.run(broken, inputs(before, (5,)))
    assert found.value.kind == "clobbered"


@pytest.mark.parametrize(
    ("steps", "label"),
    [
        ((Loop(9),), "program.C11"),
        ((Loop(1, ("nothing",)),), "program.C1"),
        ((Continue(),), "program.C12"),
        ((Loop(3), Continue(), Loop(3)), "program.C12"),
    ],
)
def test_loops_are_nested(steps: tuple[Item, ...], label: str) -> None:
    with pytest.raises(Invalid) as found:
        check_rules(Program({}, steps, (), ()), Module({}))
    assert found.value.label == label


# --- what is no loop -------------------------------------------------------------------------------------------------


def deep(make: Callable[[Var, Var, Var], Expr], result: TensorType = V) -> Module:
    n, x = var("n", N), var("x", V)
    i, a = var("i", N), var("a", V)
    loop = var("loop", FuncType((N, V), result))
    return Module({"main": function([n, x], let(loop, function([i, a], make(loop, i, a), result), call(loop, n, x)))})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            lambda f, i, a: if_(call("equal", i, ZERO), a, call("exp", call(f, call("subtract", i, ONE), a))),
            "more to do",
        ),
        (lambda f, i, a: if_(call("equal", i, ZERO), a, get(tuple_of(call(f, i, a), a), 1)), "more to do"),
        (lambda f, i, a: call(f, i, a), "no way to end"),
    ],
)
def test_other_recursion_is_refused_by_name(body: Callable[[Var, Var, Var], Expr], why: str) -> None:
    with pytest.raises(Unsupported, match=why) as found:
        made(deep(body))
    assert found.value.label == "liveness.C3"


def test_a_function_that_only_a_run_tells_is_refused() -> None:
    n, x = var("n", N), var("x", V)
    p, q = var("p", V), var("q", V)
    of = FuncType((V,), V)
    f = if_(call("equal", n, ZERO), function([p], call("exp", p), V), function([q], call("tanh", q), V))
    with pytest.raises(Unsupported) as found:
        made(Module({"main": function([n, x], Call(V, f, (x,)))}))
    assert found.value.label == "liveness.C2" and of
