"""Terms that are equal in every case are so on special values (specs/verify.md, "legalize")."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import numpy as np

from assay.interp.graph import run
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.verify.equivalence import BIT_EXACT, UNKNOWN
from assay.verify.operator_terms.graphs import prove_functions

HEAD = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((10,), dtype="float32")):
        return {body}
"""
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 1e-45, -1e-45, 3.4e38], np.float32)
VALUES = (
    "x", "R.multiply(x, {c})", "{c}", "R.negative(x)", "R.exp(x)", "R.maximum(x, {c})", "R.add(x, {c})",
)  # fmt: skip
COMPARED = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def program(rng: Random) -> Module:
    """A choice, perhaps of a choice, by comparing x with a number."""

    def number() -> str:
        return f"R.const({rng.choice(('0.0', '-0.0', '1.0', '0.5', '2.0'))}, 'float32')"

    def value() -> str:
        return rng.choice(VALUES).format(c=number())

    def choice(inner: str) -> str:
        sides = [f"x, {number()}", f"{number()}, x"]
        condition = f"R.{rng.choice(COMPARED)}({rng.choice(sides)})"
        arms = [inner, value()]
        rng.shuffle(arms)
        return f"R.where({condition}, {arms[0]}, {arms[1]})"

    body = choice(value())
    return parse(HEAD.format(body=choice(body) if rng.random() < 0.3 else body))


def bits(found: np.ndarray[Any, Any]) -> bytes:
    """The bits, all NaNs being one."""
    return np.where(np.isnan(found), np.float32(np.nan), found).astype(np.float32).tobytes()


def test_what_is_equal_in_all_cases_is_equal_on_special_values() -> None:
    rng = Random(7)
    programs = [program(rng) for _ in range(56)]
    with np.errstate(all="ignore"):
        results = [bits(next(iter(run(p, {"x": SPECIAL}).values()))) for p in programs]
    pairs = list(combinations(range(len(programs)), 2))
    unlike = rng.sample([p for p in pairs if results[p[0]] != results[p[1]]], 40)
    for i, k in unlike:
        assert prove_functions(programs[i].main, programs[k].main).notion is UNKNOWN
    alike = [p for p in pairs if results[p[0]] == results[p[1]]]
    shown = [prove_functions(programs[i].main, programs[k].main).notion is BIT_EXACT for i, k in alike]
    assert sum(shown) > 10
