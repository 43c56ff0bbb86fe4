"""Sizes that only a run decides: a cast in main becomes an assertion of the planned program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph as graph_interp, machine
from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics import graph
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Trap
from assay.semantics.module import Assertion, Item, Module
from assay.semantics.scalar import Var, apply
from assay.semantics.types import TensorType
from assay.verify.liveness.program import check_program

N = Var("n")


def source() -> Module:
    """tanh of what has min(n, 3) elements, taken as n."""
    x = graph.var("x", TensorType((N,), FLOAT32))
    y = graph.var("y", TensorType((apply("min", N, 3),), FLOAT32))
    cast = graph.match_cast(graph.call("negative", y), TensorType((N,), FLOAT32))
    return legalize(to_anf(Module({"main": graph.function([x, y], graph.call("add", x, cast))})))


def test_machine_traps_where_the_definition_does() -> None:
    before = source()
    planned = plan_pools(find_lives(before))
    for n in (0, 2, 3):
        given = {"x": np.ones(n, np.float32), "y": np.arange(n, dtype=np.float32)}
        (found,) = machine.run(planned, given).values()
        assert np.array_equal(found, 1 - given["y"])
    given = {"x": np.ones(5, np.float32), "y": np.ones(3, np.float32)}
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        graph_interp.run(before, given)
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        machine.run(planned, given)


@pytest.mark.parametrize("fault", ["dropped", "weakened", "added"])
def test_check_finds_what_is_wrong(fault: str) -> None:
    before = source()
    after = find_lives(before)
    assert check_program(before, after).holds
    program = after.program
    steps: list[Item] = []
    for s in program.steps:
        if not isinstance(s, Assertion):
            steps.append(s)
        elif fault == "weakened":
            ((a, b),) = s.sizes
            steps.append(replace(s, sizes=((apply("min", a, b), apply("min", b, a)),)))
        elif fault == "added":
            steps += [s, replace(s, sizes=((N, 3),))]
    found = check_program(before, after.with_(main=replace(program, steps=tuple(steps))))
    assert not found.holds
