"""Liveness: the problem that it states, its size, and random kernels."""

from __future__ import annotations

import random
from itertools import combinations, count

import pytest

from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.liveness import kills, problem
from assay.lower.liveness.kills import edges
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import (
    Expr,
    call,
    call_tir,
    function,
    if_,
    let,
    var,
)
from assay.semantics.memory import conflicts, pressure
from assay.semantics.module import Module
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, const, evaluate_dim
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Buffer,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    View,
    While,
    store,
)
from assay.semantics.types import TensorType
from assay.verify.liveness.lives import ProgramFlow
from tests.lower.liveness.liveness_programs import (
    F4,
    as_pairs,
    buffer,
    fill,
    pairs,
)
from tests.lower.liveness.test_liveness import C, X, Y, exact, lets, program

# --- the problem -----------------------------------------------------------------------------------------------------


@pytest.mark.row("U10", "U15", "U20")
def test_the_conflicts_are_all_and_only_those() -> None:
    a, b, c, d = (var(n, F4) for n in "abcd")
    body = lets(a, call("exp", X), b, call("tanh", a), c, call("tanh", b), d, call("add", c, a))(call("exp", d))
    found = program(body, X)
    one, two, three, four = (s.name for s in found.placed("workspace"))
    assert pairs(found) == as_pairs(f"{one} {two} {three}", f"{one} {three} {four}")
    assert pressure(problem(found).buffers) == [(0, 16), (1, 32), (2, 48), (4, 16), (5, 0)]
    assert kills(found) == {(2, 3): (two,), (3, 4): (one, three), (4, 5): (four,)}


@pytest.mark.row("U1")
def test_inputs_and_outputs_in_the_workspace_on_demand() -> None:
    found = program(call("tanh", call("exp", X)), X)
    assert {b.name for b in problem(found).buffers} == {s.name for s in found.placed("workspace")}
    (out,) = found.outputs
    whole = problem(found, ["x", out])
    by_name = {b.name: b for b in whole.buffers}
    assert by_name["x"].live == ((0, 2),) and by_name[out].live == ((1, 2),)
    with pytest.raises(Invalid, match="no input or output"):
        problem(found, ["nothing"])


@pytest.mark.row("U23")
def test_symbolic_sizes_stay_expressions() -> None:
    n = Symbol("n")
    x = var("x", TensorType((n, 3), FLOAT32))
    module = legalize(to_anf(Module({"main": function([x], call("nn.softmax", call("exp", x), axis=1))})))
    found = problem(exact(module).program, bounds={n: (1, 8)})
    assert found.bounds == {n: (1, 8)}
    sizes = [b.nbytes for b in found.buffers]
    assert sizes and all(isinstance(s, Scalar) for s in sizes)
    assert {int(evaluate_dim(s, {n: 5})) for s in sizes} <= {5 * 3 * 4, 5 * 4}


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.campaign)])
def test_a_long_chain(count: int) -> None:
    kernel = legalize(to_anf(Module({"main": function([X], call("tanh", X))}))).kernels["tanh"]
    names = [X, *(var(f"v{i}", F4) for i in range(count))]
    body: Expr = names[-1]
    for a, b in zip(reversed(names[:-1]), reversed(names[1:]), strict=True):
        body = let(b, call_tir("tanh", (a,), F4), body)
    made = exact(Module({"main": function([X], body), "tanh": kernel}))
    assert len(made.program.steps) == count and len(kills(made.program)) == count - 1
    assert len(problem(made.program).buffers) == count - 1


def test_a_deep_choice() -> None:
    count = 3_000
    body: Expr = Y
    for i in range(count):
        e, r = var(f"e{i}", F4), var(f"r{i}", F4)
        body = let(r, if_(C, let(e, call("exp", X), e), body), r)
    made = exact(legalize(Module({"main": function([C, X, Y], body)})), whole=True).program
    assert len(made.steps) == 2 * count + 1 and not made.placed("workspace")
    assert len(list(edges(made))) == 3 * count + 1


# --- random kernels --------------------------------------------------------------------------------------------------


@pytest.mark.row("U9", "U10", "U14")
def test_phases_of_random_kernels_keep_every_conflict_and_add_none() -> None:
    """Statement by statement, a walk over all paths says who is live beside whom; the phases say the same."""
    found = several = 0
    for seed in range(300):
        kernel = random_kernel(random.Random(seed))
        made = exact(one_call(kernel))
        flow = ProgramFlow(made.program, made.kernels)
        nodes = {s.name: flow.nodes(s.name) for s in made.program.slots.values() if s.place != "input"}
        together = {frozenset((a, b)) for a, b in combinations(nodes, 2) if nodes[a] & nodes[b]}
        buffers = problem(made.program, made.program.outputs).buffers
        assert together == {frozenset((a.name, b.name)) for a, b in conflicts(buffers)}
        found += len(together)
        several += made.program.positions[-1] > 1
    assert found > 500 and several > 100


def random_kernel(rng: random.Random) -> PrimFunc:
    """Nests of stores from one buffer into another, with allocations, loops of all kinds, choices and views."""
    x, out, test = buffer("x", 4), buffer("out", 4), Buffer("test", (), BOOL)
    names = count()

    def made(known: list[Buffer], depth: int) -> Stmt:
        match rng.randrange(9 if depth else 1):
            case 3 | 4:
                own = buffer(f"t{next(names)}", 4)
                return Allocate(own, made([*known, own, own], depth - 1))
            case 5:
                kind = rng.choice(["serial", "serial", "parallel", "vectorized"])
                return For(Symbol("n"), const(2), made(known, depth - 1), kind)  # type: ignore[arg-type]
            case 6:
                otherwise = made(known, depth - 1) if rng.random() < 0.7 else None
                return If(test[()], made(known, depth - 1), otherwise)
            case 7:
                view = buffer(f"v{next(names)}", 4)
                return Alias(View(view, rng.choice(known), const(0), (const(1),)), made([*known, view], depth - 1))
            case 8:
                return While(test[()], made(known, depth - 1))
            case 1 | 2:
                return Seq(tuple(made(known, depth - 1) for _ in range(rng.randrange(1, 4))))
            case _:
                return store(rng.choice([out, *known[1:]]), 0, rng.choice(known)[1])

    body = Seq((made([x], 5), made([x], 5), fill(out, x)))
    return PrimFunc("random", (test, x, out), 1, body)


def one_call(kernel: PrimFunc) -> Module:
    params = [var(b.name, TensorType(b.static_shape, b.dtype)) for b in kernel.inputs]
    a = var("a", TensorType(kernel.outputs[0].static_shape, kernel.outputs[0].dtype))
    return Module({"main": function(params, let(a, call_tir("random", params, a.type), a)), "random": kernel})
