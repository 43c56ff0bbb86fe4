"""Checks of sizes on constants: folded away where they hold, and missed where another one went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.interp import vector
from assay.semantics import graph
from assay.semantics.builder import Builder, tensor
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.app.passes import with_passes
from assay.verify.app.stages import lowering_passes
from assay.verify.constants import check_constants


def before_constants(passes: str) -> Module:
    """exp(x) with its checks of sizes as statements, up to the stage constants."""
    b = Builder()
    with b.function("main", x=tensor(4, 3), y=tensor(2, 5)) as f:
        b.result((b.exp(f.x), b.exp(f.y)))
    module = b.module()
    for name, step in lowering_passes(vector.run, stages=with_passes(passes)).items():
        if name == "constants":
            break
        module = step(module)
    return module


@pytest.mark.parametrize("passes", ["shapes", "shapes,fold"])
def test_a_check_that_holds_may_go_and_no_other(passes: str) -> None:
    before = before_constants(passes)
    after = lowering_passes(vector.run)["constants"](before)
    assert check_constants(before, after)[0].holds
    checks = [n for n in post_order(after.main.body) if isinstance(n, graph.CallTIR) and "shapes" in n.func]
    assert bool(checks) == (passes == "shapes")

    def dropped(node: graph.Expr) -> graph.Expr:
        gone = isinstance(node, graph.Let) and node.value is checks[0]
        return node.body if gone and isinstance(node, graph.Let) else node

    if checks:  # the other check is none for it
        wrong = replace(after, definitions={**after.definitions, "main": rewrite_function(after.main, dropped)})
        assert not check_constants(before, wrong)[0].holds
