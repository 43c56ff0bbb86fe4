"""Lives of slots on calls, choices and functions (specs/lower.md, "liveness"): each exactly as long as it has to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine, vector
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives, kills, problem, reading
from assay.lower.liveness.kills import edges
from assay.lower.liveness.used_memory import used_memory
from assay.lower.memory import plan
from assay.lower.pool import plan_pools
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Unsupported
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    call,
    call_tir,
    constant,
    extern,
    function,
    get,
    if_,
    let,
    match_cast,
    print_,
    read,
    ref,
    tuple_of,
    var,
)
from assay.semantics.module import Branch, Module, Program, Step
from assay.semantics.scalar import Var as Symbol, const
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    LetStmt,
    PrimFunc,
    loops,
    store,
)
from assay.semantics.types import TensorType, TupleType
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from tests.lower.liveness.liveness_programs import (
    F4,
    B,
    Random,
    as_pairs,
    call_function,
    lets,
    live,
    lowered,
    pairs,
)

X, Y, C, D = var("x", F4), var("y", F4), var("c", B), var("d", B)
SAME = function([Y], Y)


def exact(module: Module, whole: bool = False) -> Module:
    """The module with lives, which the checker finds neither too short nor too long."""
    made = find_lives(module, whole=whole)
    evidence = check_lives(made.program, made.kernels)
    assert evidence.holds and evidence.data["spare"] == 0, evidence.detail
    return made


def program(body: Expr, *params: Expr, **functions: Function) -> Program:
    return exact(lowered(Module({"main": function(params, body), **functions})), whole=True).program


def kernels(of: Program) -> list[str]:
    return [s.kernel if isinstance(s, Step) else f"if {s.condition}" for s in of.steps]


def lives(of: Program) -> dict[str, tuple[tuple[int, int], ...]]:
    return {s.name: s.live for s in of.slots.values()}


# --- random programs -------------------------------------------------------------------------------------------------


@pytest.mark.row("U1", "U7", "U10", "U15", "U18")
def test_random_programs_have_just_the_lives_that_a_walk_over_their_paths_finds() -> None:
    branches = gaps = 0
    for seed in range(150):
        module = lowered(Random(seed).module())
        for whole in (True, False):
            made = exact(module, whole).program
            branches += len(made.steps) - len(made.calls)
            gaps += sum(len(s.live) > 1 for s in made.slots.values())
            assert used_memory(made).steps == by_definition(made)
            assert kills(made) == killed(made)
    assert branches > 100 and gaps > 50


def by_definition(of: Program) -> tuple[int, ...]:
    """The bytes at each step: every slot by itself, an input only up to its last use."""
    found = []
    positions = of.positions
    for i in range(len(of.steps)):
        most = 0
        for p in range(positions[i], positions[i + 1]):
            used = {n for s in of.steps[i:] for n in s.reads}
            most = max(most, sum(s.nbytes for s in of.slots.values() if s.is_live(p) and s.place != "constant"
                                 and (s.place != "input" or s.name in used)))  # fmt: skip
        found.append(most)
    return tuple(found)


def killed(of: Program) -> dict[tuple[int, int], tuple[str, ...]]:
    """What dies on each edge, by looking at every slot at every edge."""
    found = {}
    for p, q in edges(of):
        at_exit = q == of.positions[-1]
        dead = [s.name for s in of.slots.values() if s.is_live(p)
                and not (s.place != "workspace" if at_exit else s.is_live(q))]  # fmt: skip
        if dead:
            found[p, q] = tuple(dead)
    return found


@pytest.mark.row("U1", "U14", "U18")
def test_random_programs_run_in_the_memory_that_their_lives_allow() -> None:
    rng = np.random.default_rng(0)
    for seed in range(25):
        source = lowered(Random(seed).module())
        made = exact(source)
        found = plan(problem(made.program), "greedy-size")
        slots = {
            n: replace(s, offset=found.places[n].offset) if n in found.places else s
            for n, s in made.program.slots.items()
        }  # type: ignore[arg-type]
        sizes = {n: s for n, s in found.sizes.items() if isinstance(s, int)}
        planned = made.with_(main=replace(made.program, slots=slots, sizes=sizes))
        for turn in range(2):
            inputs = {p.name: np.array(bool(turn ^ i % 2)) if p.type == B else rng.standard_normal(4).astype(np.float32)
                      for i, p in enumerate(source.main.params)}  # fmt: skip
            want = [a.tobytes() for a in graph.run(source, inputs).values()]
            for by in (vector.run, "definition"):
                assert [a.tobytes() for a in machine.run(planned, inputs, execute=by).values()] == want


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.row("U8")
@pytest.mark.parametrize(
    "alias",
    [
        lambda v: call("reshape", call("reshape", v, shape=(2, 2)), shape=(4,)),
        lambda v: match_cast(v, F4),
        lambda v: get(get(tuple_of(X, tuple_of(v, X)), 1), 0),
        lambda v: if_(C, v, v),
        lambda v: call_function("same", SAME, v),
    ],
    ids=["views", "match_cast", "tuple", "choice", "function"],
)
def test_a_use_under_any_name_is_a_use(alias: Callable[[Expr], Expr]) -> None:
    a, n, t = var("a", F4), var("n", F4), var("t", F4)
    body = lets(a, call("exp", X), n, alias(a), t, call("tanh", call("tanh", X)))(call("add", n, t))
    found = program(body, C, X, same=SAME)
    assert kernels(found) == ["exp", "tanh", "tanh", "add"]
    assert lives(found)[found.calls[0].writes[0]] == ((0, 4),)


@pytest.mark.row("U8", "A13")
def test_inputs_constants_and_values_that_are_returned_twice_are_copied() -> None:
    a = var("a", F4)
    one = constant(np.ones(4, np.float32))
    found = program(lets(a, call("tanh", X))(tuple_of(X, a, a, one)), X)
    assert kernels(found) == ["tanh", "copy0", "copy0", "copy0"]
    assert found.slots[found.outputs[1]].live == ((0, 4),)
    assert [found.slots[o].live for o in (found.outputs[0], *found.outputs[2:])] == [((1, 4),), ((2, 4),), ((3, 4),)]
    assert not found.placed("workspace")


def test_a_result_that_nobody_reads_lives_at_its_step() -> None:
    a, t = var("a", F4), var("t", TupleType((F4, F4)))
    assert program(lets(a, call("tanh", X))(call("exp", X)), X).placed("workspace")[0].live == ((0, 1),)
    z = var("z", TensorType((8,), FLOAT32))
    found = program(lets(t, call("split", z, sections=(4, 4), axis=0))(call("exp", get(t, 1))), z)
    assert sorted(s.live for s in found.placed("workspace")) == [((0, 1),), ((0, 2),)]


# --- choices ---------------------------------------------------------------------------------------------------------


@pytest.mark.row("U18")
def test_each_branch_makes_the_result_where_it_is_wanted() -> None:
    found = program(if_(C, call("tanh", X), call("exp", call("exp", X))), C, X)
    assert kernels(found) == ["if c", "tanh", "exp", "exp"]
    assert found.steps[0] == Branch("c", 2, 4)
    made = lives(found)
    assert made[found.outputs[0]] == ((1, 2), (3, 4))
    assert [s.live for s in found.placed("workspace")] == [((2, 4),)]


@pytest.mark.row("U18")
def test_a_branch_that_gives_what_was_there_copies_it() -> None:
    found = program(if_(C, X, call("exp", X)), C, X)
    assert kernels(found) == ["if c", "copy0", "exp"]
    a = var("a", F4)
    both = program(lets(a, call("tanh", X))(call("add", if_(C, a, a), a)), C, X)
    assert kernels(both) == ["tanh", "add"]  # the branches give one thing, so there is nothing to choose


@pytest.mark.row("U18")
def test_a_value_that_one_branch_reads_dies_on_the_way_into_the_other() -> None:
    a = var("a", F4)
    found = program(lets(a, call("tanh", X))(if_(C, call("exp", a), call("exp", X))), C, X)
    assert kernels(found) == ["tanh", "if c", "exp", "exp"]
    assert found.placed("workspace")[0].live == ((0, 3),)
    name = found.placed("workspace")[0].name
    assert kills(found) == {(1, 3): (name,), (2, 4): (name,)}


@pytest.mark.row("U18")
def test_a_value_lives_through_a_choice_that_does_not_read_it() -> None:
    a, b = var("a", F4), var("b", F4)
    body = lets(a, call("tanh", X), b, if_(C, call("exp", X), call("exp", call("exp", X))))(call("add", a, b))
    found = program(body, C, X)
    by_live = {s.live: s.name for s in found.placed("workspace")}
    assert set(by_live) == {((0, 6),), ((3, 5),), ((2, 3), (4, 6))}
    assert pairs(found) == as_pairs(" ".join(by_live.values()))


@pytest.mark.row("U18")
def test_choices_in_choices() -> None:
    inner = if_(D, call("exp", X), call("tanh", call("tanh", X)))
    found = program(if_(C, call("add", inner, X), if_(D, X, call("exp", Y))), C, D, X, Y)
    assert kernels(found) == ["if c", "if d", "exp", "tanh", "tanh", "add", "if d", "copy0", "exp"]
    # no conflict between what one arm needs and what the other needs
    assert pairs(found) == as_pairs(" ".join(s.name for s in found.placed("workspace")))
    assert list(edges(found)) == [
        (0, 1),
        (0, 6),
        (1, 2),
        (1, 3),
        (2, 5),
        (3, 4),
        (4, 5),
        (5, 9),
        (6, 7),
        (6, 8),
        (7, 9),
        (8, 9),
    ]


def test_a_result_of_a_choice_that_nobody_reads_is_not_made() -> None:
    p = var("p", TupleType((F4, F4)))
    made = if_(C, tuple_of(X, call("tanh", X)), tuple_of(Y, call("exp", X)))
    found = program(lets(p, made)(get(p, 1)), C, X, Y)
    assert kernels(found) == ["if c", "tanh", "exp"]
    empty = program(lets(p, if_(C, tuple_of(X, Y), tuple_of(Y, X)))(call("exp", X)), C, X, Y)
    assert kernels(empty) == ["exp"]


def test_both_results_may_be_one() -> None:
    p, a = var("p", TupleType((F4, F4))), var("a", F4)
    found = program(
        lets(p, if_(C, lets(a, call("tanh", X))(tuple_of(a, a)), tuple_of(X, Y)))(call("add", get(p, 0), get(p, 1))),
        C,
        X,
        Y,
    )
    assert kernels(found) == ["if c", "tanh", "copy0", "copy0", "copy0", "add"]


# --- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.row("U7", "U8")
def test_a_function_has_lives_of_its_own_at_each_call() -> None:
    p, q = var("p", F4), var("q", F4)
    twice = function([p, q], call("add", call("exp", call("exp", p)), q))
    a, b = var("a", F4), var("b", F4)
    body = lets(a, call_function("twice", twice, X, X), b, call_function("twice", twice, a, X))(call("tanh", b))
    found = program(body, X, twice=twice)
    assert kernels(found) == ["exp", "exp", "add"] * 2 + ["tanh"]
    work = found.placed("workspace")
    assert [s.live for s in work] == [((k, k + 2),) for k in range(6)]
    assert len({s.name for s in work}) == 6


@pytest.mark.row("U7")
def test_functions_in_functions_and_in_branches() -> None:
    p, q = var("p", F4), var("q", TupleType((F4, F4)))
    inner = function([p], tuple_of(call("exp", p), p))
    outer = function([q], call("add", get(q, 0), get(call_function("inner", inner, get(q, 1)), 0)))
    body = if_(C, call_function("outer", outer, tuple_of(X, Y)), get(call_function("inner", inner, X), 1))
    found = program(body, C, X, Y, inner=inner, outer=outer)
    assert kernels(found) == ["if c", "exp", "add", "exp", "copy0"]


def test_a_function_that_returns_its_argument_is_a_name() -> None:
    found = program(call("exp", call_function("same", SAME, call("tanh", X))), X, same=SAME)
    assert kernels(found) == ["tanh", "exp"]


# --- what has no plan ------------------------------------------------------------------------------------------------


def refused(body: Expr, *params: Expr, **functions: Function) -> Unsupported:
    with pytest.raises(Unsupported) as found:
        live(Module({"main": function(params, body), **functions}))
    return found.value


def test_what_has_no_plan_is_named() -> None:
    pair = var("pair", TupleType((F4, F4)))
    assert refused(get(pair, 0), pair).label == "liveness.C1"
    cases = {
        "print": lets(var("n", TupleType(())), print_(tuple_of(X, X)))(X),
        "a reference": read(ref(X)),
        "test.f": Call(F4, extern("test.f", (F4,), F4), (X,)),
    }
    for what, body in cases.items():
        error = refused(body, X)
        assert error.label == "liveness.C2" and what in error.message, error
    p = var("p", F4)
    itself = function([p], call_function("itself", SAME, p))
    assert refused(call_function("itself", itself, X), X, itself=itself).label == "liveness.C3"
    other = replace(function([p], call("exp", p)), attrs={"compiler": "npu"})
    assert refused(call_function("other", other, X), X, other=other).label == "liveness.C4"
    with pytest.raises(Unsupported, match="has no name") as found:
        find_lives(legalize(Module({"main": function([X], call("exp", X))})))
    assert found.value.label == "liveness.C7"


def test_functions_that_double_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 100)
    p = var("p", F4)
    functions = {"f0": function([p], call("exp", p))}
    for k in range(1, 10):
        before = functions[f"f{k - 1}"]
        functions[f"f{k}"] = function([p], call_function(f"f{k - 1}", before, call_function(f"f{k - 1}", before, p)))
    assert refused(call_function("f9", functions["f9"], X), X, **functions).label == "liveness.C5"


def test_a_cast_to_a_size_that_has_no_value_yet_gives_it_one() -> None:
    """Another name for the size that is there; nothing is asserted."""
    x = var("x", TensorType((Symbol("n"),), FLOAT32))
    before = lowered(Module({"main": function([x], call("exp", match_cast(x, TensorType((Symbol("m"),), FLOAT32))))}))
    live = find_lives(before)
    assert len(live.program.steps) == 1 and check_program(before, live).holds
    given = {"x": np.ones(3, np.float32)}
    (got,) = machine.run(plan_pools(live), given).values()
    assert got.shape == (3,)


def test_a_size_that_a_call_computes_has_no_plan() -> None:
    n = Symbol("n")
    inside, out = Buffer("inside", (n,), FLOAT32), Buffer("out", (4,), FLOAT32)
    kernel = PrimFunc(
        "k", (out,), 1, LetStmt(n, const(4), Allocate(inside, loops("i", (4,), lambda i: store(out, i, 0.0))))
    )
    a = var("a", F4)
    with pytest.raises(Unsupported, match="such as n") as found:
        find_lives(Module({"main": function([], let(a, call_tir("k", (), F4), a)), "k": kernel}))
    assert found.value.label == "liveness.C6"
