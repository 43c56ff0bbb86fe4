"""Every pass leaves each dataflow block in one piece (graph.C10; specs/lower.md, "Passes")."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.anf.bbnf import to_bbnf
from assay.lower.passes import split_blocks
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.app.stages import PASSES, STAGES, Stage, lowering_passes
from assay.verify.evidence import Context
from assay.verify.strategies.features import LANGUAGE, Features
from assay.verify.strategies.graphs import a_module


def with_blocks(function: graph.Function, chance: random.Random) -> graph.Function:
    """A function some of whose runs of lets that do not act are dataflow blocks."""
    active: set[int] = set()
    marks: dict[graph.Var, graph.Dataflow] = {}
    above: dict[int, graph.Dataflow] = {}
    root: graph.Expr = function
    order = list(post_order(root))
    uses = Counter(id(c) for n in order for c in n.children)
    for node in order:
        inside = not isinstance(node, graph.Function) and any(id(c) in active for c in node.children)
        if graph.acts(node) or inside:
            active.add(id(node))
    for node in reversed(order):
        if isinstance(node, graph.Let) and id(node.value) not in active and chance.random() < 0.9:
            mark = above.get(id(node)) if uses[id(node)] == 1 and chance.random() < 0.8 else None
            marks[node.var] = above[id(node.body)] = mark or graph.Dataflow()
    return rewrite_function(
        function, lambda n: replace(n, dataflow=marks.get(n.var)) if isinstance(n, graph.Let) else n
    )


def programs(count: int, features: Features, size: int) -> Iterator[Module]:
    """Well-formed random programs with dataflow blocks, every other one in A-normal form."""
    for seed in range(count):
        chance = random.Random(seed)
        module = a_module(chance.randrange, size, features)
        module = to_anf(module) if seed % 2 else module
        module = module.with_(**{n: with_blocks(d, chance) for n, d in module.graphs.items()})
        check(module)
        yield module


GRAPHS = Features(operators=("matmul", "exp", "sum", "add", "concat"), dtypes=("float32",), names=True)
SIMPLE = ("inline", "lift", "fold", "common", "dead", "canonical", "plain", "bbnf")


def lowered(module: Module, stages: Sequence[Stage]) -> Module:
    """The module after these stages, well-formed after each."""
    for step in lowering_passes(vector.run, stages=stages).values():
        module = step(module)
        check(module)
    return module


@pytest.mark.parametrize("name", SIMPLE)
def test_passes_before_anf_leave_blocks_whole(name: str) -> None:
    stages = [p for p in PASSES if p.name == name] + [s for s in STAGES if s.name == "anf"]
    for module in programs(24, LANGUAGE, 30):
        lowered(module, stages)


@pytest.mark.parametrize("without", [(), ("fuse",)])
def test_every_stage_leaves_blocks_whole(without: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [s for s in STAGES if s.name not in without]
    for module in programs(32, GRAPHS, 25):
        lowered(module, stages)
    monkeypatch.setattr("assay.lower.schedule.split_blocks", lambda f: f)
    with pytest.raises(Invalid, match="is not next to the rest of its dataflow block"):
        for module in programs(32, GRAPHS, 25):
            lowered(module, stages)


def test_a_value_that_gets_a_name_in_bbnf_stays_the_same() -> None:
    """Constants and what has no call around it too, where a branch and its surroundings use them."""
    f, c = graph.var("x", TensorType((2,), FLOAT32)), graph.var("c", TensorType((), BOOL))
    w = graph.constant(np.array([1, 2], np.float32))
    a = graph.call("add", f, w)
    y = graph.call("add", graph.if_(c, graph.call("exp", a), graph.call("tanh", a)), w)
    before = Module({"main": graph.function([f, c], y)})
    checked = next(p for p in PASSES if p.name == "bbnf").check
    after = to_bbnf(before)
    assert checked(before, after, Context()).holds
    wrong = after.with_(main=rewrite_function(after.main, other_operator))
    assert not checked(before, wrong, Context()).holds
    branches = Features(names=True, branches=True, traps=True)
    for module in programs(24, branches, 30):
        assert checked(module, to_bbnf(module), Context()).holds


def other_operator(node: graph.Expr) -> graph.Expr:
    """Exp becomes Tanh."""
    named = isinstance(node, graph.Call) and getattr(node.op, "name", "") == "exp"
    return graph.call("tanh", *node.children[-1:]) if named else node


def test_what_is_whole_or_opaque_stays() -> None:
    x = graph.var("x", TensorType((2,), FLOAT32))
    one, two = graph.Dataflow(), graph.Dataflow()

    def lets(*marks: graph.Dataflow | None, **attrs: int) -> graph.Function:
        names = [graph.var(f"v{i}", x.type) for i in range(len(marks))]
        body: graph.Expr = names[-1]
        for v, mark in reversed(list(zip(names, marks, strict=True))):
            body = graph.let(v, graph.call("exp", x), body, dataflow=mark)
        return graph.function([x], body, **attrs)

    for whole in (lets(one, one, None, two), lets(None), lets(one, None, one, primitive=1)):
        assert split_blocks(whole) is whole
    after, _ = graph.let_chain(split_blocks(lets(one, None, one, one, two, one)).body)
    marks = [let.dataflow for let in after]
    assert marks[:2] == [one, None] and marks[2] is marks[3] and marks[4] is two
    assert len({*marks}) == 5
