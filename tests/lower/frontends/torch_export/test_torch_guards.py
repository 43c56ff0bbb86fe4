"""Guards: what a program of torch.export was exported for is asserted, and sizes that are chosen fit it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export import parse_torch_export
from assay.lower.frontends.torch_export.guards import guarded
from assay.lower.frontends.torch_export.node import AtenNode
from assay.semantics.dtypes import INT64, dtype
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import function, let, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, symbols
from assay.verify.trials.fitting import fitting_sizes

PROGRAM = Path(__file__).parent / "programs" / "guards.pt2"
HOLD = (
    "(torch.sym_max(1, L['x'].size()[0] // 2)*torch.sym_min(3, L['y'].size()[0])) != 1",
    "math.trunc(1.5*torch.sym_float(L['x'].size()[0])) < 5",
    "L['x'].size()[0] > L['y'].size()[0]",
    "(L['x'].size()[0] % 2) == 1 and L['y'].shape[0] != 3",
    "not L['x'].size()[1] <= 2 or L['n'] >= 4",
    "((-3) + L['x'].size()[0]) // 2 < L['n']",
    "((-1) * L['x'].size()[0]) % 3 == 2",
    "2 <= L['y'].size()[0] < L['x'].size()[0]*L['x'].size()[1] - 1",
    "max(L['x'].size()[0], L['n'], 3) == Min(7, L['y'].size()[0] + 2)",
    "PythonMod(L['x'].size()[0], 3) == FloorDiv(L['n'], 2)",
)
REFUSED = (
    "L['x'].stride()[0] == 1", "L['z'].size()[0] == 2", "L['x'].size()[2] == 2", "__import__('os') == 1",
    "L['x'].size()[0] / 2 == 1", "L['x'].size()[0] in (1, 2)", "L['x'] == 3", "len(L['x']) == 1", "f(1, 2) == 1",
)  # fmt: skip
BROKEN = ("L['x'].size()[0] +", "3", "(" * 5000, "L['x'].size()[0]")


def condition(text: str) -> Module:
    """A program that gives whether a guard holds."""
    x = var("x", TensorType((Symbol("a"), Symbol("b")), dtype(np.float32)))
    y, n = var("y", TensorType((Symbol("c"),), dtype(np.int8))), var("n", TensorType((), INT64))
    builder = HloBuilder()
    body = guarded(AtenNode(builder, "guard", "", {}), text, {"x": x, "y": y, "n": n})
    for known, value in reversed(builder.scope.bindings):
        body = let(known, value, body)
    return Module({"main": replace(function([x, y, n], body), attrs={"outputs": ("holds",)})})


@pytest.mark.parametrize("text", HOLD)
def test_a_guard_means_what_python_means(text: str) -> None:
    module, told = condition(text), set()
    for a, b, c, n in itertools.product(range(6), (0, 3), range(5), (0, 2, 5)):
        given = {"x": np.zeros((a, b), np.float32), "y": np.zeros(c, np.int8), "n": np.array(n)}
        python = {k: SimpleNamespace(size=lambda v=v: v.shape, shape=v.shape) for k, v in given.items()}
        torch = SimpleNamespace(sym_max=max, sym_min=min, sym_float=float)
        words = {
            "L": {**python, "n": n},
            "torch": torch,
            "math": math,
            "Min": min,
            "PythonMod": lambda p, q: p % q,
            "FloorDiv": lambda p, q: p // q,
        }
        right = bool(eval(text, words))
        told.add(right)
        assert run(module, given)["holds"] == right, (a, b, c, n)
    assert told == {True, False}


@pytest.mark.parametrize("text", REFUSED)
def test_another_word_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="the guard .* is not handled"):
        condition(text)


def test_a_factor_of_which_a_product_may_be_rounded_is_refused() -> None:
    """0.3 * 10 is 3 as PyTorch computes it, and a little less by the bits of 0.3."""
    with pytest.raises(Unsupported, match="a size times 0.3 is not handled"):
        condition("math.trunc(0.3*torch.sym_float(L['x'].size()[0])) < 2")


@pytest.mark.parametrize("text", BROKEN, ids=lambda t: t[:20])
def test_what_is_no_condition_is_broken(text: str) -> None:
    with pytest.raises(Invalid, match="a guard is"):
        condition(text)


@pytest.mark.parametrize(
    ("sizes", "broken"),
    [
        ((5, 3, 6), ""), ((3, 2, 4), ""), ((7, 6, 8), ""), ((4, 11, 6), "L['x'].size()[0] > L['y'].size()[0]"),
        ((4, 3, 6), "(L['x'].size()[0] % 2) == 1"), ((5, 3, 3), "L['z'].size()[0] >= 4"),
        ((5, 3, 9), "L['z'].size()[0] <= 8"),
    ],
)  # fmt: skip
def test_a_run_with_other_sizes_traps(sizes: tuple[int, int, int], broken: str) -> None:
    module = parse_torch_export(PROGRAM.read_bytes(), "guards.pt2")
    x, y, z = sizes
    inputs = {"x": np.ones((x, 2), np.float32), "y": np.ones(y, np.float32), "z": np.ones(z, np.float32)}
    if not broken:
        assert next(iter(run(module, inputs).values())).tolist() == [[2, 2]] * x
        return
    with pytest.raises(Trap) as trap:
        run(module, inputs)
    assert f"the program was exported for {broken}" in str(trap.value)


def test_sizes_that_are_chosen_fit() -> None:
    module = parse_torch_export(PROGRAM.read_bytes(), "guards.pt2")
    about = list(dict.fromkeys(s for p in module.main.params for s in symbols(p.type)))
    chosen = [[at[s] for s in about] for at in fitting_sizes(module, about, 12)]
    assert len(chosen) == 12
    assert all(x > y and x % 2 == 1 and 4 <= z <= 8 for x, y, z in chosen)
    assert not [at for at in fitting_sizes(module, about, 12, {about[0]: 4})]
