"""Constants linked into tensor functions, taken out, bound late and moved between modules (specs/lower.md,
"constants")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine, tensor, vector
from assay.lower.anf import to_anf
from assay.lower.c import emit
from assay.lower.constants import (
    bind_constants,
    extract_constants,
    lift_constants,
    link_params,
    unlink_params,
)
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.lower.schedule import schedule
from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import CallTIR, Function, GlobalVar, call, call_tir, constant, function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, const
from assay.semantics.tensor import Alias, AllocateConst, Buffer, Call, PrimFunc, Stmt, View, loops, seq, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.c.compiled import compile_c
from assay.verify.constants.link import check_link

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
W: Array = RNG.normal(size=(4, 5)).astype(np.float32)
B: Array = RNG.normal(size=(5,)).astype(np.float32)
X: Array = RNG.normal(size=(3, 4)).astype(np.float32)
V = TensorType((3,), FLOAT32)
x = var("x", TensorType((3, 4), FLOAT32))
y = var("x", V)


@cache
def network() -> Module:
    """relu(x w + b), and (x + x) w: a fused kernel, and one that is called with the same constant."""
    first = call("nn.relu", call("add", call("matmul", x, constant(W)), constant(B)))
    second = call("matmul", call("add", x, x), constant(W.copy()))
    return fuse(legalize(to_anf(Module({"main": function([x], tuple_of(first, second))}))))


def still_passed(module: Module) -> list[str]:
    """The tensor functions that calls still give a constant of the table."""
    found = []
    for d in module.definitions.values():
        for node in post_order(d) if isinstance(d, Function) else ():
            if isinstance(node, CallTIR) and any(getattr(a, "name", None) in module.constants for a in node.args):
                found.append(node.func)
    return found


def outputs(found: Mapping[str, Any]) -> bytes:
    return b"".join(np.asarray(a).tobytes() for a in found.values())


@pytest.mark.row("C4", "C9", "C15")
def test_linked_or_not_every_executor_gives_the_same(tmp_path: Path) -> None:
    source = network()
    linked = link_params(source)
    check(linked)
    assert check_link(source, linked).holds and check_link(linked, unlink_params(linked)).holds
    assert not still_passed(lift_constants(linked, vector.run)) and still_passed(lift_constants(source, vector.run))
    wanted = outputs(graph.run(source, {"x": X}))
    for k, module in enumerate((source, linked)):
        made = lift_constants(module, vector.run)
        planned = plan_pools(find_lives(schedule(made)))
        for kernel in (tensor.run, vector.run):
            assert outputs(graph.run(made, {"x": X}, kernel=kernel)) == wanted
        assert outputs(machine.run(planned, {"x": X})) == wanted
        for limit in (1 << 20, 0):
            c = emit(planned, "net", inline_limit=limit)
            assert (c.weights is not None) == (limit == 0)
            place = tmp_path / f"{k}_{limit}"
            place.mkdir()
            assert outputs(compile_c(c, reproducible=True, directory=place).run({"x": X})) == wanted
            text = (place / "net.c").read_text()
            assert text.count("static const float net_c_") == (0 if limit == 0 else 2)  # each once, in the table


@pytest.mark.row("C4")
def test_unlinking_gives_what_was_linked() -> None:
    lifted = lift_constants(network(), vector.run)
    again = unlink_params(extract_constants(link_params(lifted)))
    assert first_difference(lifted, extract_constants(again)) is None


def scaled(name: str, *, way: str = "loads") -> PrimFunc:
    """out = p + w, w read in some way."""
    p, w, out = (Buffer(n, (3,), FLOAT32) for n in ("p", "w", "out"))
    body: Stmt = loops("i", (3,), lambda i: store(out, i, p[i] + w[i]))
    flat = Buffer("flat", (3,), FLOAT32)
    window = View(flat, w, const(0), (const(1),))
    match way:
        case "view":
            body = Alias(window, loops("i", (3,), lambda i: store(out, i, p[i] + flat[i])))
        case "call":
            body = Call("inner", (p, w, out))
        case "unused":
            body = loops("i", (3,), lambda i: store(out, i, p[i]))
        case "written":
            body = seq(body, store(w, 0, 1.0))
        case "written by view":
            body = seq(body, Alias(window, store(flat, 0, 1.0)))
        case "written by call":
            body = seq(body, Call("inner", (p, p, w)))
    return PrimFunc(name, (p, w, out), 1, body)


def two_calls(first: Array, second: Array, way: str = "loads") -> Module:
    once = call_tir("f", [y, constant(first)], V)
    return Module(
        {
            "main": function([y], call_tir("f", [once, constant(second)], V)),
            "f": scaled("f", way=way),
            "inner": scaled("inner"),
        }
    )


@pytest.mark.row("C4")
@pytest.mark.parametrize("way", ["loads", "view", "call", "unused"])
def test_parameters_are_found_however_they_are_read(way: str) -> None:
    """Upstream finds buffers by loads and access pointers only."""
    one = np.array([1, 2, 3], np.float32)
    source = two_calls(one, one.copy(), way)
    linked = link_params(source)
    check(linked)
    assert [b.name for b in linked.kernel("f").params] == ["p", "out"]
    assert check_link(source, linked).holds
    for module in (source, linked, extract_constants(linked)):
        whole = legalize(module)
        assert outputs(graph.run(whole, {"x": one})) == outputs(graph.run(legalize(source), {"x": one}))


@pytest.mark.row("C4")
@pytest.mark.parametrize("way", ["written", "written by view", "written by call"])
def test_a_parameter_that_is_written_is_refused(way: str) -> None:
    with pytest.raises(Invalid, match=r"f writes its parameter w.*link\.C1"):
        link_params(two_calls(B[:3], B[:3], way))


@pytest.mark.row("C4")
def test_a_function_called_with_other_constants_is_another() -> None:
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    source = two_calls(one, two)
    linked = link_params(source)
    assert {"f_linked", "f_linked_1"} <= linked.kernels.keys() and "f" not in linked.kernels
    assert check_link(source, linked).holds
    assert outputs(graph.run(linked, {"x": one})) == outputs(graph.run(source, {"x": one}))
    assert first_difference(unlink_params(linked).kernel("f"), source.kernel("f")) is None
    half = Module(
        {**source.definitions, "main": function([y], call_tir("f", [call_tir("f", [y, constant(one)], V), y], V))}
    )
    made = link_params(half)
    assert "f" in made.kernels and "f_linked" in made.kernels and check_link(half, made).holds


@pytest.mark.row("C4")
def test_a_constant_fixes_symbolic_sizes() -> None:
    n = Symbol("n")
    p, w, out = (Buffer(name, (n,), FLOAT32) for name in ("p", "w", "out"))
    f = PrimFunc("f", (p, w, out), 1, loops("i", (n,), lambda i: store(out, i, p[i] + w[i])))
    source = Module({"main": function([y], call_tir("f", [y, constant(B[:3])], V)), "f": f})
    linked = link_params(source)
    check(linked)
    assert linked.kernel("f").params[0].shape == (3,) and check_link(source, linked).holds
    assert outputs(graph.run(linked, {"x": B[1:4]})) == outputs(graph.run(source, {"x": B[1:4]}))


# --- from outside ------------------------------------------------------------------------------------------------


def named() -> Module:
    body = call("add", call("matmul", x, GlobalVar(TensorType((4, 5), FLOAT32), "w")), constant(B))
    return Module({"main": function([x], body)}, {"w": W})


@pytest.mark.row("C4", "C14")
def test_contents_are_bound_at_any_stage() -> None:
    new: Array = np.ascontiguousarray(W[::-1] * 2)
    new.flags.writeable = False  # so it is taken as it is
    fresh = lift_constants(legalize(to_anf(replace(named(), constants={"w": new}))), vector.run)
    wanted = outputs(graph.run(fresh, {"x": X}))
    lifted = lift_constants(legalize(to_anf(named())), vector.run)
    linked = extract_constants(link_params(lifted))
    planned = plan_pools(find_lives(linked))
    for module in (lifted, linked):
        assert outputs(graph.run(bind_constants(module, {"w": new}), {"x": X})) == wanted
    bound = bind_constants(planned, {"w": new})
    assert np.shares_memory(bound.constants["w"], new)
    assert outputs(machine.run(bound, {"x": X})) == wanted
    check(bound)
    with pytest.raises(Invalid, match=r"bind\.C1"):
        bind_constants(lifted, {"v": new})
    for wrong in (new[:2], new.astype(np.float64)):
        with pytest.raises(Invalid, match=r"bind\.C2"):
            bind_constants(lifted, {"w": wrong})


# --- held by a tensor function -------------------------------------------------------------------------------------


def user(array: Array, shared: Array) -> Module:
    """main(x) = f(x) + w + a constant; f holds w too."""
    p, out, c = (Buffer(n, (3,), FLOAT32) for n in ("p", "out", "c"))
    f = PrimFunc("f", (p, out), 1, AllocateConst(c, array, loops("i", (3,), lambda i: store(out, i, p[i] * c[i])), "w"))
    body = call("add", call("add", call_tir("f", [y], V), GlobalVar(V, "w")), constant(shared))
    return extract_constants(Module({"main": function([y], body), "f": f}, {"w": array}))


@pytest.mark.row("C2", "C9")
def test_a_store_to_a_held_constant_traps_on_the_machine() -> None:
    planned = plan_pools(find_lives(_storing()))
    with pytest.raises(Trap) as trap:
        machine.run(planned, {"x": B[:3]})
    assert trap.value.kind == "store to constant"
    assert all(n in planned.program.slots for n in planned.constants)  # its bytes are in the table


def _storing() -> Module:
    p, out, c = (Buffer(n, (3,), FLOAT32) for n in ("p", "out", "c"))
    body = seq(loops("i", (3,), lambda i: store(out, i, p[i])), store(c, 0, 1.0))
    f = PrimFunc("f", (p, out), 1, AllocateConst(c, B[:3].copy(), body))
    return extract_constants(to_anf(Module({"main": function([y], call_tir("f", [y], V)), "f": f})))
