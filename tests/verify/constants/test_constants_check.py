"""Every claim that is checked of the stage constants is refuted where it does not hold (specs/verify.md,
"constants")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants, link_params
from assay.lower.legalize import legalize
from assay.semantics.bits import digest
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.graph import CallTIR, Constant, Expr, Function, GlobalVar, call, call_tir, constant, function, var
from assay.semantics.linked import LINKED
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, Stmt, loops, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.constants import check_constants
from assay.verify.constants.link import check_link

V = TensorType((3,), FLOAT32)
A = np.array([1, 2, 3], np.float32)
B = np.array([1, 2, 4], np.float32)
GPU = VirtualDevice("cuda", 0, "cuda", "global")


@cache
def source() -> Module:
    """x + A + w + f(), where f holds B and w is a user's."""
    out, c, x = Buffer("out", (3,), FLOAT32), Buffer("c", (3,), FLOAT32), var("x", V)
    f = PrimFunc("f", (out,), 1, AllocateConst(c, B, loops("i", (3,), lambda i: store(out, i, c[i]))))
    p, q = Buffer("p", (3,), FLOAT32), Buffer("q", (3,), FLOAT32)
    g_out = Buffer("out", (3,), FLOAT32)
    g = PrimFunc("g", (p, q, g_out), 1, loops("i", (3,), lambda i: store(g_out, i, p[i] * q[i])))
    h = PrimFunc("h", (p, g_out), 1, AllocateConst(c, B, loops("i", (3,), lambda i: store(g_out, i, p[i] + c[i]))))
    inner = call("add", call("add", x, constant(A)), GlobalVar(V, "w"))
    main = function([x], call_tir("h", [call_tir("g", [inner, constant(A)], V)], V))
    return legalize(to_anf(Module({"main": main, "f": f, "g": g, "h": h}, {"w": A})))


@cache
def made() -> Module:
    return lift_constants(source(), vector.run)


def graph_changed(module: Module, change: Callable[[Expr], Expr]) -> Module:
    root: Expr = module.main
    main = rewrite(root, change)
    assert isinstance(main, Function)
    return module.with_(main=main)


def names(module: Module) -> list[str]:
    return [n.name for n in post_order(module.main) if isinstance(n, GlobalVar)]


def renamed(module: Module, old: str, new: str, change: Callable[[Expr], Expr] = lambda e: e) -> Module:
    """A constant of graph functions under another name."""

    def one(node: Expr) -> Expr:
        return change(replace(node, name=new)) if isinstance(node, GlobalVar) and node.name == old else node

    return graph_changed(module, one)


def held(module: Module, **fields: Any) -> Module:
    def change(s: Stmt) -> Stmt:
        return replace(s, **fields) if isinstance(s, AllocateConst) else s

    h = module.kernel("h")
    return module.with_(h=replace(h, body=rewrite(h.body, change)))


def table(module: Module, **more: np.ndarray[Any, Any]) -> Module:
    for a in more.values():
        a.flags.writeable = False
    constants = {**module.constants, **more}
    return replace(module, constants=constants, offsets={n: 64 * k for k, n in enumerate(constants)})


def anonymous() -> str:
    return next(n for n in names(made()) if n != "w")


def of_f() -> str:
    return next(s.index for s in [made().kernel("h").body] if isinstance(s, AllocateConst))


def on_gpu(node: Expr) -> Expr:
    return replace(node, device=GPU)


def other() -> np.ndarray[Any, Any]:
    return np.array([1, 2, 5], np.float32)


def twice() -> Module:
    """The first of two uses of a constant has one of its own, with more digits in its name."""
    longer = f"constant_{digest(A)[:12]}"
    done: list[str] = []

    def change(node: Expr) -> Expr:
        if not (isinstance(node, GlobalVar) and node.name == anonymous()) or done:
            return node
        done.append(longer)
        return replace(node, name=longer)

    return graph_changed(table(made(), **{longer: A.copy()}), change)


FAULTS: dict[str, tuple[Callable[[], Module], str]] = {
    "another value": (lambda: table(made(), **{anonymous(): other()}), "value that the source does not have"),
    "a constant in a graph function": (
        lambda: graph_changed(made(), lambda n: Constant(V, A) if isinstance(n, GlobalVar) and n.name != "w" else n),
        "not in the table",
    ),
    "an index of nothing": (lambda: held(made(), index="gone"), "whose index 'gone' is not in the table"),
    "an index of something else": (lambda: held(made(), index="w"), "other contents than the constant w"),
    "other contents": (lambda: table(held(made(), data=other()), **{of_f(): other()}), "tensor function h has changed"),
    "left over": (lambda: table(made(), more=other()), "nothing names it"),
    "not merged": (lambda: twice(), "are one"),
    "a counter for a name": (
        lambda: renamed(table(made(), constant_0=A.copy()), anonymous(), "constant_0"),
        "constant_0",
    ),
    "merged with a user's": (lambda: renamed(made(), anonymous(), "w"),
        "is used where the constant without a name was"),
    "a user's name lost": (lambda: renamed(made(), "w", anonymous()), "is used where the constant w was"),
    "on another device": (lambda: renamed(made(), anonymous(), anonymous(), on_gpu), "and is on anywhere"),
    "a function gone": (
        lambda: replace(made(), definitions={n: d for n, d in made().definitions.items() if n != "h"}),
        "which is gone",
    ),
    "can be written": (
        lambda: replace(made(), constants={n: a.copy() for n, a in made().constants.items()}), "can be written",
    ),
    "no offset": (lambda: replace(made(), offsets={}), "has no offset"),
    "misaligned": (
        lambda: replace(made(), offsets={n: 3 + 64 * k for k, n in enumerate(made().constants)}), "asks for 64 bytes",
    ),
    "spoken of, and not there": (lambda: replace(made(), infos={"v": ConstantInfo()}), "v is no constant of the table"),
}  # fmt: skip


@pytest.mark.row("C5", "C14", "C2")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refuted(name: str) -> None:
    right, _ = check_constants(source(), made())
    assert right.holds, right.detail
    damage, said = FAULTS[name]
    wrong, _ = check_constants(source(), damage())
    assert not wrong.holds and said in wrong.detail, wrong.detail


def test_what_could_fail_and_is_a_constant_fails_no_more() -> None:
    """An index of constants is looked up once; one that is outside stays a step that fails."""
    index = TensorType((2,), INT64)

    def looked_up(at: list[int]) -> Module:
        x = var("x", TensorType((2,), FLOAT32))
        found = call("take", constant(A), constant(np.array(at, index.dtype.numpy)), axis=0)
        return legalize(to_anf(Module({"main": function([x], call("add", x, found))})))

    inside, outside = looked_up([2, 0]), looked_up([2, 3])
    folded = lift_constants(inside, vector.run)
    assert [a.tolist() for a in folded.constants.values()] == [[3.0, 1.0]]
    right, _ = check_constants(inside, folded)
    assert right.holds, right.detail
    wrong, _ = check_constants(outside, folded)
    assert not wrong.holds


def test_a_function_is_no_constant_wherever_it_is() -> None:
    """It is in no table, so no table says where it has to be."""
    x, y = replace(var("x", V), device=GPU), replace(var("y", V), device=GPU)
    f = replace(function([y], replace(call("exp", y), device=GPU)), device=GPU)
    called = replace(call(replace(GlobalVar(f.type, "f"), device=GPU), x), device=GPU)
    module = legalize(to_anf(Module({"main": replace(function([x], called), device=GPU), "f": f})))
    evidence, _ = check_constants(module, lift_constants(module, vector.run))
    assert evidence.holds, evidence.detail


# --- devices -----------------------------------------------------------------------------------------------------


def placed() -> Module:
    """x + A where all is said to be on the GPU."""
    x = replace(var("x", V), device=GPU)
    main = replace(function([x], replace(call("add", x, replace(constant(A), device=GPU)), device=GPU)), device=GPU)
    return legalize(to_anf(Module({"main": main})))


def test_a_constant_that_is_moved_is_refuted() -> None:
    right = lift_constants(placed(), vector.run)
    assert check_constants(placed(), right)[0].holds
    cpu = VirtualDevice("cpu", 0, "llvm", "global")
    moved = graph_changed(right, lambda n: replace(n, device=cpu) if isinstance(n, GlobalVar) else n)
    moved = replace(moved, infos={n: ConstantInfo(device=cpu) for n in moved.constants})
    evidence, _ = check_constants(placed(), moved)
    assert not evidence.holds and "is used on cpu" in evidence.detail


# --- linking -----------------------------------------------------------------------------------------------------


@cache
def linked() -> Module:
    return link_params(source())


def g_name() -> str:
    return next(n for n, k in linked().kernels.items() if k.attrs.get(LINKED, {}).get("function") == "g")


def g_changed(change: Callable[[PrimFunc], PrimFunc]) -> Module:
    return linked().with_(**{g_name(): change(linked().kernel(g_name()))})


def with_data(func: PrimFunc) -> PrimFunc:
    assert isinstance(func.body, AllocateConst)
    return replace(func, body=replace(func.body, data=other()))


def with_body(func: PrimFunc) -> PrimFunc:
    p, out = func.params
    assert isinstance(func.body, AllocateConst)
    c = func.body.buffer
    return replace(func, body=replace(func.body, body=loops("i", (3,), lambda i: store(out, i, p[i] + c[i]))))


LINK_FAULTS: dict[str, tuple[Callable[[], Module], str]] = {
    "other contents": (lambda: g_changed(with_data), "another result"),
    "another body": (lambda: g_changed(with_body), "is not g with constants"),
    "another place": (
        lambda: g_changed(lambda f: replace(f, attrs={**f.attrs, LINKED: {"function": "g", "places": (0,)}})),
        "is not g with constants",
    ),
    "no such place": (
        lambda: g_changed(lambda f: replace(f, attrs={**f.attrs, LINKED: {"function": "g", "places": (7,)}})),
            "link.C2",
    ),
    "of nothing": (
        lambda: g_changed(lambda f: replace(f, attrs={**f.attrs, LINKED: {"function": "e", "places": (1,)}})),
            "comes from nowhere",
    ),
    "a call dropped": (
        lambda: graph_changed(linked(), lambda n: n.args[0] if isinstance(n, CallTIR) and n.func == "h" else n),
            "another result",
    ),
}  # fmt: skip


@pytest.mark.row("C4", "C15")
@pytest.mark.parametrize("name", LINK_FAULTS)
def test_a_fault_of_linking_is_refuted(name: str) -> None:
    right = check_link(source(), linked())
    assert right.holds, right.detail
    damage, said = LINK_FAULTS[name]
    wrong = check_link(source(), damage())
    assert not wrong.holds and said in wrong.detail, wrong.detail
