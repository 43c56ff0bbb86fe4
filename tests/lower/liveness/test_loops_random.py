"""Random programs of loops inside one another: lowered they run as the graph does; and a changed one that the checks
let pass runs so too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Var, call, constant, function, get, if_, let, tuple_of, var
from assay.semantics.module import Item, Loop, Module, Step
from assay.semantics.rules import check_program as check_rules
from assay.semantics.types import FuncType, TupleType
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_places
from tests.lower.liveness.test_loops import ONE, ZERO, N, V, inputs, made, pool, with_steps

COUNTS = (0, 1, 3)
TWO = constant(np.int32(2))


class Programs:
    """Loops of up to four variables, in which one goes round in one or more places."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.n, self.x, self.y = var("n", N), var("x", V), var("y", V)

    def module(self) -> Module:
        return Module({"main": function([self.n, self.x, self.y], self.loop(0, [self.x, self.y]))})

    def value(self, depth: int, i: Var, known: Sequence[Expr]) -> Expr:
        """Something of what is known; perhaps a loop."""
        a, b = self.rng.choice(known), self.rng.choice(known)
        match self.rng.randrange(8):
            case 0 | 1:
                return call("tanh", a)
            case 2 | 3:
                return call("add", a, b)
            case 4:
                return call("multiply", a, b)
            case 5 if depth < 2:
                return get(self.loop(depth + 1, known), 0)
            case 6:
                return call("reshape", call("reshape", a, shape=(2, 2)), shape=(4,))
            case _:
                return if_(call("greater", i, ONE), a, call("negative", b))

    def more(self, count: int, depth: int, i: Var, known: Sequence[Expr]) -> list[Expr]:
        found = list(known)
        for _ in range(self.rng.randint(0, count)):
            found.append(self.value(depth, i, found))
        return found

    def loop(self, depth: int, outer: Sequence[Expr]) -> Expr:
        """A call of a new loop that starts from values of outside."""
        rng, count = self.rng, self.rng.randint(1, 4)
        i, own = var(f"i{depth}", N), [var(f"p{depth}_{k}", V) for k in range(count)]
        types = TupleType((V,) * count)
        f = var(f"loop{depth}", FuncType((N, *types.fields), types))
        known = self.more(2, depth, i, [*own, *outer])

        def again() -> Expr:
            some = self.more(3, depth, i, known)
            return call(f, call("subtract", i, ONE), *(p if rng.random() < 0.2 else rng.choice(some) for p in own))

        def leave() -> Expr:
            some = self.more(2, depth, i, known)
            return tuple_of(*(rng.choice(some) for _ in own))

        body = [
            lambda: if_(call("less_equal", i, ZERO), leave(), again()),
            lambda: if_(call("greater", i, ZERO), again(), leave()),
            lambda: if_(call("equal", i, ZERO), leave(), if_(call("equal", i, TWO), again(), again())),
            lambda: if_(call("greater", i, ZERO), if_(call("equal", i, TWO), leave(), again()), leave()),
        ][rng.randrange(4)]()
        first = [rng.choice(outer) for _ in own]
        return let(f, function([i, *own], body, types), call(f, self.n, *first))

    def changed(self, live: Module) -> Module:
        """Another source or target of a step, two steps in the other order, or another variable that is carried."""
        rng, slots, steps = self.rng, live.program.slots, list[Item](live.program.steps)
        i = rng.choice([k for k, s in enumerate(steps) if isinstance(s, Step | Loop)])
        step = steps[i]

        def alike(name: str) -> str:
            return rng.choice([n for n, s in slots.items() if s.type == slots[name].type])

        if isinstance(step, Loop):
            k = rng.randrange(len(step.carried))
            other = alike(step.carried[k]) if step.carried[k] and rng.random() < 0.7 else ""
            steps[i] = replace(step, carried=(*step.carried[:k], other, *step.carried[k + 1 :]))
        elif isinstance(step, Step):
            kind = rng.randrange(3)
            if kind == 0 and step.reads:
                k = rng.randrange(len(step.reads))
                steps[i] = replace(step, reads=(*step.reads[:k], alike(step.reads[k]), *step.reads[k + 1 :]))
            elif kind == 1:
                to = alike(step.writes[0])
                steps[i] = replace(step, writes=(to if slots[to].place == "workspace" else step.writes[0],))
            elif isinstance(steps[i + 1], Step) if i + 1 < len(steps) else False:
                steps[i : i + 2] = [steps[i + 1], step]
        return with_steps(live, steps)


def require_same(before: Module, live: Module) -> None:
    planned = pool(live)
    evidence, _ = check_places(planned)
    assert evidence.holds, evidence
    for count in COUNTS:
        given = inputs(before, (count,))
        wanted, found = graph.run(before, given), machine.run(planned, given)
        assert all(np.array_equal(found[k], w) for k, w in zip(found, wanted.values(), strict=True))


def tried(seed: int) -> tuple[int, int]:
    """How many changed programs were refused, and how many passed, of one random program."""
    some = Programs(seed)
    before, live = made(some.module())
    check_rules(live.program, live)
    assert check_program(before, live).holds and check_lives(live.program, live.kernels).holds
    require_same(before, live)
    refused = passed = 0
    for _ in range(3):
        other = some.changed(live)
        if other.program.steps == live.program.steps:
            continue
        try:
            check_rules(other.program, other)
        except Invalid:
            refused += 1
            continue
        if not check_program(before, other).holds:
            refused += 1
            continue
        if not check_lives(other.program, other.kernels).holds:  # then values alone are looked at
            whole = ((0, other.program.positions[-1]),)
            slots = {n: replace(s, live=whole) for n, s in other.program.slots.items()}
            other = other.with_(main=replace(other.program, slots=slots))
        require_same(before, other)
        passed += 1
    return refused, passed


@pytest.mark.row("R16")
def test_random_loops_run_as_the_graph_does() -> None:
    found = [tried(seed) for seed in range(12)]
    assert sum(r for r, _ in found) > sum(p for _, p in found)


@pytest.mark.campaign
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_random_loops_run_as_the_graph_does(start: int) -> None:
    found = [tried(seed) for seed in range(start, start + 100)]
    assert sum(r for r, _ in found) > sum(p for _, p in found) > 0
