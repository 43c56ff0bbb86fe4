"""Random programs whose sizes arms and iterations tell: the checks hold, and machine and C give what the graph gives;
changed ones are refused, or give the same."""

from __future__ import annotations

import random
from dataclasses import replace
from textwrap import indent

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.c import emit
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools as pool
from assay.semantics.module import Item, Measure, Module
from assay.semantics.rules import check_program as check_rules
from assay.semantics.text.module_text import parse
from assay.verify.c.compiled import compile_c
from assay.verify.pool import check_places
from tests.lower.liveness.changing_programs import HEAD
from tests.lower.liveness.liveness_programs import lowered
from tests.lower.liveness.test_measured_sizes import refuted, with_steps

MANY = 300


class Drawn:
    """One random program: functions that call themselves over tables of two columns, and a main."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        self.functions: list[str] = []
        for k in range(self.rng.randint(1, 2)):
            self.functions.append(self.function(k))

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def value(self, known: list[str]) -> str:
        a, b = self.rng.choice(known), self.rng.choice(known)
        return self.rng.choice(
            [
                f"R.concat(({a}, {b}), axis=0)",
                f"R.strided_slice({a}, (0,), (1,), (9223372036854775807,), (1,), assume_inbound=False)",
                f"R.add({a}, R.sum({b}))",
                f"R.negative({a})",
                a,
            ]
        )

    def condition(self, known: list[str], counter: str) -> str:
        if counter and self.rng.random() < 0.5:
            return f"R.less({counter}, R.const({self.rng.randint(0, 3)}, 'int32'))"
        return f"R.less(R.sum({self.rng.choice(known)}), R.const({self.rng.randint(-4, 9)}, 'int32'))"

    def lines(self, known: list[str], counter: str, depth: int, calls: int) -> list[str]:
        """Statements; what they name comes to `known`."""
        made: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            name = self.fresh()
            kind = self.rng.random()
            if kind < 0.4 and depth:
                arms = []
                for _ in range(2):
                    own = list(known)
                    arm = self.lines(own, counter, depth - 1, calls) if self.rng.random() < 0.6 else []
                    arms.append(indent("\n".join([*arm, f"{name} = {self.value(own)}"]), "    "))
                made += [f"if {self.condition(known, counter)}:", arms[0], "else:", arms[1]]
            elif kind < 0.6 and calls:
                given = ", ".join(self.rng.choice(known) for _ in range(2))
                made.append(f"{name} = cls.f{self.rng.randrange(calls)}(R.const(0, 'int32'), {given})")
            else:
                made.append(f"{name} = {self.value(known)}")
            known.append(name)
        return made

    def function(self, k: int) -> str:
        """A loop of at most three iterations over two tables."""
        known = ["a", "b"]
        inner = self.lines(known, "i", 1, k)
        again = f"r = cls.f{k}(R.add(i, R.const(1, 'int32')), {self.rng.choice(known)}, {self.rng.choice(known)})"
        stop = f"R.less(i, R.const({self.rng.randint(1, 3)}, 'int32'))"
        body = [f"if {stop}:", indent("\n".join([*inner, again]), "    "), "else:", f"    r = {self.value(['a', 'b'])}"]
        table = [f'R.Tensor(({s}, 2), "int32")' for s in "nmk"]
        head = f'def f{k}(i: R.Tensor((), "int32"), a: {table[0]}, b: {table[1]}) -> {table[2]}:'
        return "\n".join(["@R.function", head, indent("\n".join([*body, "return r"]), "    ")])

    def text(self) -> str:
        known = ["x", "y"]
        body = self.lines(known, "", 2, len(self.functions))
        table = [f'R.Tensor(({s}, 2), "int32")' for s in "nmk"]
        head = f"def main(x: {table[0]}, y: {table[1]}) -> {table[2]}:"
        main = "\n".join(["@R.function", head, indent("\n".join([*body, f"return {known[-1]}"]), "    ")])
        return HEAD + indent("\n".join([*self.functions, main]), "    ") + "\n"


def changed(live: Module, rng: random.Random) -> Module | None:
    """The program with another value of a size; None where none is told."""
    at = [i for i, s in enumerate(live.program.steps) if isinstance(s, Measure) and s.values]
    if not at:
        return None
    steps: list[Item] = list(live.program.steps)
    one = steps[at[rng.randrange(len(at))]]
    i = steps.index(one)
    assert isinstance(one, Measure)
    known = [d for s in live.program.slots.values() for d in s.type.shape]
    k = rng.randrange(len(one.values))
    values = tuple(rng.choice(known) if j == k else d for j, d in enumerate(one.values))
    steps[i] = replace(one, values=values)
    return with_steps(live, steps)


def hold(seed: int, changes: int) -> tuple[int, int]:
    """Check one program, and so many changed ones: how many of these were refused, and how many gave the same."""
    before = lowered(parse(Drawn(seed).text()))
    live = find_lives(before)
    assert not refuted(before, live), seed
    check_rules(live.program, live)
    planned = pool(live)
    assert check_places(planned)[0].holds, seed
    rng = np.random.default_rng(seed)
    sizes = [(0, 0), (1, 0), (2, 3)]
    inputs = [{n: rng.integers(-3, 4, (d, 2)).astype(np.int32) for n, d in zip("xy", s, strict=True)} for s in sizes]
    wants = [graph.run(before, given) for given in inputs]
    compiled = compile_c(emit(planned, "changing"), reproducible=True)
    for given, want in zip(inputs, wants, strict=True):
        for found in (machine.run(planned, given), compiled.run(given)):
            assert_same(found, want, seed)
    refused = same = 0
    for k in range(changes):
        other = changed(live, random.Random(seed * 1000 + k))
        if other is None:
            break
        if refuted(before, other):
            refused += 1
            continue
        same += 1
        for given, want in zip(inputs, wants, strict=True):
            assert_same(machine.run(pool(other), given), want, seed)
    return refused, same


def assert_same(found: dict[str, np.ndarray], want: dict[str, np.ndarray], seed: int) -> None:
    for a, b in zip(found.values(), want.values(), strict=True):
        assert a.shape == b.shape and np.array_equal(a, b), seed


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_random_sizes(seed: int) -> None:
    hold(seed, 4)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(10))
def test_many_random_sizes(part: int) -> None:
    counts = [hold(seed, 8) for seed in range(100 + part * MANY, 100 + (part + 1) * MANY)]
    assert sum(refused for refused, _ in counts) > MANY
