"""What moves constants is right, and each planted fault is refuted (specs/verify.md, "constants")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import evaluate
from assay.interp.vector import run as kernel
from assay.lower.constants import bind_constants, extract_constants, extract_params, link_params, merge_modules
from assay.lower.constants.made import make_constants, quantise_weights
from assay.lower.pipeline import passes
from assay.semantics.analyses.equality import first_difference
from assay.semantics.graph import call
from assay.semantics.module import ConstantInfo, Module
from assay.verify.constants.link import check_link
from assay.verify.constants.moving import check_bound, check_extracted, check_moved
from assay.verify.stages import STAGES, Context
from tests.lower.test_constants_link import B, network, user
from tests.lower.test_made_constants import module as with_weight, weight

Array = np.ndarray[Any, Any]
SHARED = B[2:5].copy()
FIRST, SECOND = user(B[:3].copy(), SHARED), user(B[1:4].copy(), SHARED)
NEW = np.array([7, 8, 9], np.float32)


def other(module: Module, name: str) -> Module:
    """Other contents for one constant, wherever it is."""
    return bind_constants(module, {name: NEW})


def swapped(module: Module, called: Mapping[str, str]) -> Module:
    """The second main is that of the first module."""
    return module.with_(**{called["main"]: module.definitions["main"]})


MOVES: dict[str, tuple[Callable[[Module, Mapping[str, str]], Module], str]] = {
    "other contents": (lambda m, c: other(m, "w_1"), "is another thing"),
    "contents of the other module": (lambda m, c: other(m, "w"), "which was there, has changed"),
    "another function": (swapped, "is another thing"),
    "stored otherwise": (lambda m, c: replace(m, infos={"w_1": ConstantInfo(128)}), "is stored otherwise"),
    "left behind": (lambda m, c: replace(m, definitions={n: d for n, d in m.definitions.items() if n != c["main"]}), "is not there"),
}


@pytest.mark.row("C5", "C14")
@pytest.mark.parametrize("name", MOVES)
def test_a_fault_of_moving_is_refuted(name: str) -> None:
    whole, called = merge_modules(FIRST, SECOND)
    right = check_moved(SECOND.definitions, SECOND, FIRST, whole, called)
    assert right.holds, right.detail
    damage, said = MOVES[name]
    wrong = check_moved(SECOND.definitions, SECOND, FIRST, damage(whole, called), called)
    assert not wrong.holds and said in wrong.detail, wrong.detail


@pytest.mark.row("C4", "C14")
def test_binding() -> None:
    bound = bind_constants(FIRST, {"w": NEW})
    assert check_bound(FIRST, bound, {"w": NEW}).holds
    assert "other contents" in check_bound(FIRST, FIRST, {"w": NEW}).detail
    half = replace(bound, definitions=FIRST.definitions)  # the table alone: what is held is as it was
    assert "module.C9" in check_bound(FIRST, half, {"w": NEW}).detail
    assert "has changed" in check_bound(FIRST, bound.with_(main=SECOND.main.with_children([*SECOND.main.params, SECOND.main.params[0]])), {"w": NEW}).detail


@pytest.mark.row("C4")
def test_extracting() -> None:
    inputs = {"x": B[:3].copy()}
    open_, arrays = extract_params(FIRST)
    right = check_extracted(FIRST, open_, arrays, inputs)
    assert right.holds, right.detail
    first = next(iter(arrays))
    assert "another result" in check_extracted(FIRST, open_, {**arrays, first: NEW}, inputs).detail
    assert "parameters" in check_extracted(FIRST, open_, dict(reversed(arrays.items())), inputs).detail
    assert "still constants" in check_extracted(FIRST, FIRST, {}, inputs).detail


@pytest.mark.row("C5")
def test_extraction_depends_on_no_order_and_no_other_extraction() -> None:
    whole, _ = merge_modules(FIRST, SECOND)
    back = replace(whole, definitions=dict(reversed(whole.definitions.items())))
    one, two = extract_constants(whole), extract_constants(back)
    assert one.constants.keys() == two.constants.keys()
    assert all(first_difference(one.definitions[n], two.definitions[n]) is None for n in one.definitions)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(extract_constants, [whole, whole]))
    assert all(first_difference(one, made) is None for made in both)


def large() -> Module:
    """A weight of more bytes than may be made of less."""
    return with_weight(lambda x, w: call("matmul", x, w), (5, 32), weight(32, 48))


@pytest.mark.row("C4", "C6")
@pytest.mark.parametrize("way", ["linked", "quantised", "quantised, not fused"])
def test_every_stage_holds_after(way: str) -> None:
    """Linked constants, and weights of eight bits, through all later stages with their checks."""
    fused = ["fuse"] if way == "quantised" else []
    if way == "linked":
        module, todo = link_params(network()), ["constants", "schedule", "liveness", "pool"]
        assert check_link(network(), module).holds
    else:
        module, _ = make_constants(quantise_weights(large(), {"w": 1}), evaluate)
        todo = ["devices", "anf", "legalize", *fused, "constants", "schedule", "liveness", "pool"]
    steps, checks = passes(kernel), {s.name: s.check for s in STAGES}
    for name in todo:
        before, module = module, steps[name](module)
        evidence = checks[name](before, module, Context())
        assert evidence.holds, f"{name}: {evidence.detail}"
    if way != "linked":
        assert sorted((a.dtype.name, a.nbytes) for a in module.constants.values()) == [("float32", 4 * 48), ("int8", 32 * 48)]
