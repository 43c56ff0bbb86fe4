"""Structural equality and hash on random and on large programs, and in several processes."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_equal, structural_hash
from assay.semantics.builder.prelude import prelude
from assay.semantics.errors import Span
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.scalar import Var as Symbol
from assay.semantics.walk import post_order
from tests.lower.small_programs import program
from tests.places import ROOT
from tests.semantics.test_equality import DEEP, OPTIONS, chain, same

pytestmark = pytest.mark.row("R38")


def renamed_copy(function: Function) -> Function:
    """The same function with all variables new: made by the text of its nodes, not by equality's own means."""
    new: dict[int, Any] = {}

    vars: dict[graph.Var, graph.Var] = {}

    def var(v: graph.Var) -> graph.Var:
        return vars.setdefault(v, graph.var(f"{v.name}_copy", v.type))

    for node in post_order(function):
        made = node.with_children([new[id(c)] for c in node.children])
        match made:
            case graph.Var():
                made = var(made)
            case graph.Let():
                made = replace(made, var=var(made.var))
            case Function():
                made = replace(made, params=tuple(map(var, made.params)))
        new[id(node)] = made
    result = new[id(function)]
    assert isinstance(result, Function)
    return result


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_programs(options: dict[str, bool]) -> None:
    rng = random.Random(5)
    modules = [program(seed, 8)[0].main for seed in range(25)]
    hashes = [structural_hash(m, **options) for m in modules]
    for m in modules:
        assert same(m, renamed_copy(m), **options)
    for _ in range(60):
        i, j = rng.randrange(25), rng.randrange(25)
        assert same(modules[i], modules[j], **options) == (i == j)
        assert (hashes[i] == hashes[j]) == (i == j)


def mutated(function: Function, rng: random.Random) -> Function | None:
    """The function with one call or constant changed, or None where there is none that can be."""
    root: Expr = function
    order = [n for n in post_order(root) if isinstance(n, (Call, graph.Constant)) and n.children[:1] != n.children[1:2]]
    if not order:
        return None
    chosen = rng.choice(order)

    def change(node: Expr) -> Expr:
        if node.span is not mark:
            return node
        if isinstance(node, graph.Constant):
            return graph.constant(node.data + node.data.dtype.type(1))
        assert isinstance(node, Call)
        if len(node.args) == 2:
            return replace(node, args=node.args[::-1], span=None)
        return replace(node, attrs={"changed": True}, span=None)

    mark = Span("here")
    marked = replace(chosen, span=mark)  # found again when its parts are rewritten
    new: dict[int, Expr] = {}
    for node in post_order(root):
        made = (marked if node is chosen else node).with_children([new[id(c)] for c in node.children])
        new[id(node)] = change(made)
    result = new[id(root)]
    assert isinstance(result, Function)
    return result


@pytest.mark.parametrize("sharing", [True, False])
def test_every_change_is_seen(sharing: bool) -> None:
    rng = random.Random(11)
    seen = 0
    for seed in range(60):
        function = program(seed, 8)[0].main
        other = mutated(function, rng)
        if other is None:
            continue
        seen += 1
        assert not same(function, renamed_copy(other), sharing=sharing), seed
        if sharing:
            assert structural_hash(function) != structural_hash(other), seed
    assert seen > 40


@pytest.mark.slow
def test_large_programs() -> None:
    a, b = chain(DEEP, 4), chain(DEEP, 4)
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    found = first_difference(chain(DEEP, Symbol("n")), chain(DEEP, Symbol("m"), last="abs"), sharing=False)
    assert found is not None and len(found) < 500


SCRIPT = """
from assay.semantics.analyses.equality import structural_hash
from assay.semantics.builder.prelude import prelude
from assay.semantics.walk import post_order, rewrite
from tests.lower.small_programs import program
print(structural_hash(prelude()), structural_hash(program(3)[0]), structural_hash(program(3)[0], sharing=False))
"""


def test_every_process_has_the_same_hash() -> None:
    root = ROOT
    outputs = set()
    for seed in ("0", "1"):
        path = f"{root / '.src'}{':' if sys.platform != 'win32' else ';'}{root}"
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, cwd=root)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert structural_hash(prelude()) in outputs.pop()
