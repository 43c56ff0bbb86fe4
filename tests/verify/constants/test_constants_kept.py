"""What the stage constants must keep: calls that can trap, results, how and where constants are stored
(specs/verify.md, "constants")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.constants import lift_constants, link_params
from assay.lower.legalize import legalize
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT32
from assay.semantics.graph import CallTIR, Expr, Let, call, call_tir, constant, function, if_, let, var
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.tensor import AllocateConst, Buffer, Call, PrimFunc, loops, store
from assay.semantics.types import TensorType
from assay.verify.constants import check_constants
from assay.verify.constants.link import check_link
from tests.verify.constants.test_constants_check import A, B, V, graph_changed, held, made, of_f, source, table

GPU, CPU = VirtualDevice("cuda", 0, "cuda", "global"), VirtualDevice("cpu", 0, "c", "global")
K = TensorType((3,), INT32)


def without(module: Module, func: str) -> Module:
    """The bindings of calls of `func` left out."""
    return graph_changed(
        module, lambda n: n.body if isinstance(n, Let) and isinstance(n.value, CallTIR) and n.value.func == func else n
    )


def with_a_division(inside: bool) -> Module:
    """A division of which the result is not used, at the top or in a branch: it may trap."""
    x, z, flag = var("x", V), var("z", K), var("flag", TensorType((), BOOL))
    dead, out = var("dead", K), var("out", V)
    body: Expr = let(dead, call("floor_divide", z, z), let(out, call("add", x, constant(A)), out))
    if inside:
        body = if_(flag, body, x)
    return legalize(to_anf(Module({"main": function([x, z, flag], body)})))


@pytest.mark.row("C5")
@pytest.mark.parametrize("inside", [False, True])
def test_a_call_that_can_trap_stays(inside: bool) -> None:
    before = with_a_division(inside)
    (divides,) = [n for n in before.kernels if "divide" in n]
    lifted, linked = lift_constants(before, vector.run), link_params(before)
    assert check_constants(before, lifted)[0].holds and check_link(before, linked).holds
    for evidence in (
        check_constants(before, without(lifted, divides))[0],
        check_link(before, without(linked, divides)),
    ):
        assert not evidence.holds and "a call that can trap is dropped" in evidence.detail


def test_a_view_of_a_constant_is_folded_by_its_operator() -> None:
    """What the table has in its place must be the constant in the other shape, its elements in order."""
    x = var("x", TensorType((3, 1), FLOAT32))
    before = legalize(
        to_anf(Module({"main": function([x], call("add", x, call("reshape", constant(A), shape=(3, 1))))}))
    )
    right = lift_constants(before, vector.run)
    assert [a.shape for a in right.constants.values()] == [(3, 1)] and check_constants(before, right)[0].holds
    ((name, array),) = right.constants.items()
    evidence, _ = check_constants(before, table(right, **{name: array[::-1].copy()}))
    assert not evidence.holds and "value that the source does not have, used by" in evidence.detail


def test_another_of_the_values_is_no_result() -> None:
    first = last = made().main.body
    assert isinstance(first, Let)
    while isinstance(last, Let):
        last = last.body
    wrong = graph_changed(made(), lambda n: first.var if n is last else n)
    assert "the result is another of the source's values" in check_constants(source(), wrong)[0].detail


@pytest.mark.row("C14")
def test_a_graph_function_stays() -> None:
    gone = {n: d for n, d in made().definitions.items() if n != "main"}
    assert "function main is gone" in check_constants(source(), replace(made(), definitions=gone))[0].detail
    linked = link_params(source())
    kernels = {n: d for n, d in linked.definitions.items() if n != "main"}
    assert "function main is gone" in check_link(source(), replace(linked, definitions=kernels)).detail


def test_a_new_tensor_function_is_for_the_check_of_its_own_stage() -> None:
    p, out = Buffer("p", (3,), FLOAT32), Buffer("out", (3,), FLOAT32)
    more = PrimFunc("more", (p, out), 1, loops("i", (3,), lambda i: store(out, i, p[i])))
    assert check_constants(source(), made().with_(more=more))[0].holds


# --- the table -------------------------------------------------------------------------------------------------------


def test_two_constants_in_one_place_are_refuted_with_the_text_that_z3_was_asked() -> None:
    right, text = check_constants(source(), made())
    assert (
        right.holds
        and f"no two of {len(made().constants)} constants share a byte" in right.detail
        and "check-sat" in text
    )
    wrong, text = check_constants(source(), replace(made(), offsets=dict.fromkeys(made().constants, 0)))
    assert not wrong.holds and "share bytes" in wrong.detail and "check-sat" in text


@pytest.mark.parametrize("now", [ConstantInfo(64, ".slow"), ConstantInfo(128, "")])
def test_how_a_constant_was_to_be_stored_stays(now: ConstantInfo) -> None:
    asked = replace(source(), infos={"w": ConstantInfo(128, ".slow")})
    right = lift_constants(asked, vector.run)
    assert right.info("w") == asked.info("w") and check_constants(asked, right)[0].holds
    evidence, _ = check_constants(asked, replace(right, infos={"w": now}))
    assert not evidence.holds and "was to be aligned to 128 in '.slow'" in evidence.detail


@pytest.mark.row("C5")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zz", "zz has a name that neither its contents nor anybody gave it"),
        ("w_1", "w_1 has other contents than before"),  # `w` with a number must be w
        ("w@cuda_0_cuda", "w@cuda_0_cuda has other contents than before"),
        ("constant_00000000", "constant_00000000 has a name that neither"),
    ],
)
def test_a_constant_of_a_tensor_function_has_its_own_name(name: str, said: str) -> None:
    others = {n: a for n, a in made().constants.items() if n != of_f()}
    evidence, _ = check_constants(
        source(), table(replace(held(made(), index=name), constants=others), **{name: B.copy()})
    )
    assert not evidence.holds and said in evidence.detail


# --- devices ---------------------------------------------------------------------------------------------------------


def holding() -> Module:
    """main calls `outer` on the GPU, and that calls `inner`, which holds the user's constant w."""
    p, c, out = (Buffer(n, (3,), FLOAT32) for n in ("p", "c", "out"))
    inner = PrimFunc(
        "inner", (p, out), 1, AllocateConst(c, A, loops("i", (3,), lambda i: store(out, i, p[i] * c[i])), "w")
    )
    q, result = Buffer("p", (3,), FLOAT32), Buffer("out", (3,), FLOAT32)
    outer = PrimFunc("outer", (q, result), 1, Call("inner", (q, result)))
    x = replace(var("x", V), device=GPU)
    called = replace(call_tir("outer", [x], V), device=GPU)
    # `inner` comes first, so that what it runs on is known only when `outer` has been looked at
    return Module({"inner": inner, "outer": outer, "main": replace(function([x], called), device=GPU)}, {"w": A})


@pytest.mark.row("C14")
def test_a_constant_that_a_tensor_function_holds_is_where_that_runs() -> None:
    """Directly, or through another tensor function that calls it."""
    before = holding()
    right = lift_constants(before, vector.run)
    assert check_constants(before, right)[0].holds
    for home in (GPU, VirtualDevice("cuda"), CPU):
        evidence, _ = check_constants(before, replace(right, infos={"w": ConstantInfo(device=home)}))
        assert evidence.holds == (home != CPU), evidence.detail
        if home == CPU:
            assert (
                "inner holds the constant w, which is on cpu" in evidence.detail
                and "and runs on cuda:0" in evidence.detail
            )
    assert isinstance(before.main.body, CallTIR)
    direct = before.with_(main=replace(before.main, body=replace(before.main.body, func="inner")))
    moved, _ = check_constants(
        direct, replace(lift_constants(direct, vector.run), infos={"w": ConstantInfo(device=CPU)})
    )
    assert "inner holds the constant w, which is on cpu" in moved.detail
