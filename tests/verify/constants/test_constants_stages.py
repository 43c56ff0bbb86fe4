"""Linked constants and weights of eight bits through the later stages, each checked (specs/verify.md, "constants")."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from assay.interp.graph import evaluate
from assay.interp.vector import run as kernel
from assay.lower.constants import extract_constants, link_params
from assay.lower.constants.made import make_constants
from assay.semantics.analyses.equality import first_difference
from assay.semantics.graph import call
from assay.semantics.module import Module
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.constants.link import check_link
from assay.verify.evidence import Context
from tests.lower.constants.test_constants_link import network
from tests.lower.constants.test_made_constants import module as with_weight, rounded_weight, weight


@pytest.mark.row("C5")
def test_extraction_depends_on_no_order_and_no_other_extraction() -> None:
    whole = link_params(network())
    back = replace(whole, definitions=dict(reversed(whole.definitions.items())))
    one, two = extract_constants(whole), extract_constants(back)
    assert one.constants.keys() == two.constants.keys() and len(one.constants) > 1
    assert all(first_difference(one.definitions[n], two.definitions[n]) is None for n in one.definitions)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(extract_constants, [whole, whole]))
    assert all(first_difference(one, made) is None for made in both)


def large() -> Module:
    """A weight of more bytes than may be made of less, rounded to eight bits."""
    return with_weight(lambda x, w: call("matmul", x, rounded_weight(w, 1)), (5, 32), weight(32, 48))


@pytest.mark.row("C4", "C6")
@pytest.mark.parametrize("way", ["linked", "quantised", "quantised, not fused"])
def test_every_stage_holds_after(way: str) -> None:
    """Linked constants, and weights of eight bits, through all later stages with their checks."""
    fused = ["fuse"] if way == "quantised" else []
    if way == "linked":
        module, todo = link_params(network()), ["constants", "schedule", "liveness", "pool"]
        assert check_link(network(), module).holds
    else:
        module, _ = make_constants(large(), evaluate)
        todo = ["devices", "anf", "legalize", *fused, "constants", "schedule", "liveness", "pool"]
    steps, checks = lowering_passes(kernel), {s.name: s.check for s in STAGES}
    for name in todo:
        before, module = module, steps[name](module)
        evidence = checks[name](before, module, Context())
        assert evidence.holds, f"{name}: {evidence.detail}"
    if way != "linked":
        assert sorted((a.dtype.name, a.nbytes) for a in module.constants.values()) == [
            ("float32", 4 * 48),
            ("int8", 32 * 48),
        ]
