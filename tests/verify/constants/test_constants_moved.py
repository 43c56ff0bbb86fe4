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
from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, Function, GlobalVar, call, call_tir, function, var
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import AllocateConst, Buffer, Call as KernelCall, PrimFunc, Stmt, loops, store
from assay.semantics.types import DataDef, TensorType
from assay.semantics.walk import rewrite
from assay.verify.app.stages import STAGES, passes
from assay.verify.constants.link import check_link
from assay.verify.constants.moving import check_bound, check_extracted, check_moved
from assay.verify.evidence import Context
from tests.lower.constants.test_constants_link import B, network, user
from tests.lower.constants.test_made_constants import module as with_weight, weight

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
    "left behind": (
        lambda m, c: replace(m, definitions={n: d for n, d in m.definitions.items() if n != c["main"]}),
        "is not there",
    ),
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


@pytest.mark.row("C5", "C14")
def test_what_is_said_to_have_moved_is_all_that_the_names_reach() -> None:
    whole, called = merge_modules(FIRST, SECOND)
    some = {n: m for n, m in called.items() if n != "f"}
    for said in (some, dict.fromkeys(called, called["main"]), {**called, "more": "main"}):
        assert "is not what the names reach" in check_moved(SECOND.definitions, SECOND, FIRST, whole, said).detail
    assert check_moved(["f"], SECOND, FIRST, whole, {"f": called["f"]}).holds


def test_a_module_with_what_is_not_there_is_refused() -> None:
    whole, called = merge_modules(FIRST, SECOND)
    lost = replace(whole, definitions={n: d for n, d in whole.definitions.items() if n != called["f"]})
    assert "[module.C3]" in check_moved(SECOND.definitions, SECOND, FIRST, lost, called).detail
    open_, arrays = extract_params(FIRST)
    lost = replace(open_, definitions={"main": open_.main})
    assert "[module.C3]" in check_extracted(FIRST, lost, arrays, {"x": B[:3].copy()}).detail


@pytest.mark.row("C5")
def test_a_constant_stays_one() -> None:
    """The second w is in a tensor function and in main: a second copy in one of them is refused."""
    whole, called = merge_modules(FIRST, SECOND)
    main: Expr = whole.definitions[called["main"]]  # type: ignore[assignment]
    other_name = rewrite(main, lambda n: replace(n, name="w_2") if isinstance(n, GlobalVar) and n.name == "w_1" else n)
    assert isinstance(other_name, Function)
    two = replace(
        whole.with_(**{called["main"]: other_name}), constants={**whole.constants, "w_2": whole.constants["w_1"]}
    )
    assert "constant w has become two" in check_moved(SECOND.definitions, SECOND, FIRST, two, called).detail


@pytest.mark.row("C5", "C14")
@pytest.mark.parametrize("source", [lambda: link_params(network()), lambda: naming(NEW)])
def test_every_name_goes_along(source: Callable[[], Module]) -> None:
    """Of graph functions, of tensor functions that call others, of groups, of linked functions, and in attributes."""
    one, two = source(), other_w(source())
    whole, called = merge_modules(one, two)
    assert any(called[n] != n for n in two.kernels)
    right = check_moved(two.definitions, two, one, whole, called)
    assert right.holds, right.detail


def other_w(module: Module) -> Module:
    """The same with other contents in every tensor function and in the table, so that nothing of it is there
    already."""
    negated = {n: -a for n, a in module.constants.items()}

    def change(s: Stmt) -> Stmt:
        return replace(s, data=-s.contents) if isinstance(s, AllocateConst) and s.data is not None else s

    kernels = {n: replace(k, body=rewrite(k.body, change)) for n, k in module.kernels.items()}
    return replace(module.with_(**kernels), constants=negated)


def naming(w: Array) -> Module:
    """main calls a graph function, that a tensor function, and that another one, which holds a constant; a data
    type."""
    p, c, out, q, result = (Buffer(n, (3,), FLOAT32) for n in ("p", "c", "out", "q", "result"))
    inner = PrimFunc(
        "inner", (p, out), 1, AllocateConst(c, w, loops("i", (3,), lambda i: store(out, i, p[i] * c[i])), "w")
    )
    outer = PrimFunc("outer", (q, result), 1, KernelCall("inner", (q, result)))
    v = TensorType((3,), FLOAT32)
    x, y = var("x", v), var("y", v)
    helper = function([y], call_tir("outer", [y], v), attrs={"global_symbol": "helper"})
    main = function([x], call(GlobalVar(helper.type, "helper"), call("add", x, GlobalVar(v, "w"))))
    return Module(
        {"main": main, "helper": helper, "outer": outer, "inner": inner, "Pair": DataDef("Pair", (), {"Of": (v, v)})},
        {"w": w},
    )


@pytest.mark.row("C4", "C14")
def test_binding() -> None:
    bound = bind_constants(FIRST, {"w": NEW})
    assert check_bound(FIRST, bound, {"w": NEW}).holds
    assert "other contents" in check_bound(FIRST, FIRST, {"w": NEW}).detail
    assert (
        "are stored otherwise" in check_bound(FIRST, replace(bound, infos={"w": ConstantInfo(128)}), {"w": NEW}).detail
    )
    renamed = replace(bound, constants=dict(reversed(bound.constants.items())))
    assert "have other names" in check_bound(FIRST, renamed, {"w": NEW}).detail
    half = replace(bound, definitions=FIRST.definitions)  # the table alone: what is held is as it was
    assert "module.C9" in check_bound(FIRST, half, {"w": NEW}).detail
    assert (
        "has changed"
        in check_bound(
            FIRST, bound.with_(main=SECOND.main.with_children([*SECOND.main.params, SECOND.main.params[0]])), {"w": NEW}
        ).detail
    )


@pytest.mark.row("C4")
def test_what_is_held_and_not_in_the_table_is_not_bound() -> None:
    p, c, out = (Buffer(n, (3,), FLOAT32) for n in ("p", "c", "out"))
    body = loops("i", (3,), lambda i: store(out, i, p[i] * c[i]))
    held, other_ = (FIRST.with_(g=PrimFunc("g", (p, out), 1, AllocateConst(c, a, body))) for a in (NEW, B[:3].copy()))
    assert check_bound(held, bind_constants(held, {"w": NEW}), {"w": NEW}).holds
    assert "g has changed" in check_bound(held, bind_constants(other_, {"w": NEW}), {"w": NEW}).detail
    gone = bind_constants(FIRST, {"w": NEW})
    assert "g has changed: it is gone" in check_bound(held, gone, {"w": NEW}).detail


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
        assert sorted((a.dtype.name, a.nbytes) for a in module.constants.values()) == [
            ("float32", 4 * 48),
            ("int8", 32 * 48),
        ]
