"""Constants folded and gathered in the module's table (specs/lower.md, "constants")."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, tensor, vector
from assay.lower.anf import to_anf
from assay.lower.constants import extract_constants, fold_function, lift_constants
from assay.lower.legalize import legalize
from assay.lower.partition import constants_of
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import (
    Constant,
    Expr,
    Function,
    GlobalVar,
    OnDevice,
    call,
    call_tir,
    constant,
    constructor,
    function,
    get,
    if_,
    let,
    match,
    tuple_of,
    var,
)
from assay.semantics.graph.nodes import Bind, Made
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.rules import check
from assay.semantics.scalar import const
from assay.semantics.tensor import AllocateConst, Buffer, For, If, PrimFunc, Stmt, Var, loops, program_order, seq, store
from assay.semantics.types import DataDef, TensorType
from assay.semantics.walk import post_order
from assay.verify.constants import check_constants
from tests.scale import MANY

Array = np.ndarray[Any, Any]
V = TensorType((3,), FLOAT32)
A: Array = np.array([1.0, -0.0, np.nan], np.float32)
CPU, GPU = VirtualDevice("cpu", 0, "llvm", "global"), VirtualDevice("cuda", 0, "cuda", "global")


def holder(name: str, *data: Array, index: str = "", named: str = "c") -> PrimFunc:
    """Several constants at several depths; out is the sum of their first rows."""
    out = Buffer("out", (3,), FLOAT32)
    body: Stmt = store(out, 0, 1.0)
    for k, d in enumerate(data):
        c = Buffer(f"{named}{k}", d.shape, FLOAT32)
        body = AllocateConst(c, d, seq(loops("i", (3,), lambda i, c=c: store(out, i, c[i])), body), index)
        if k == 0:
            body = If(const(True, BOOL), For(Var("k"), const(2), body))
    return PrimFunc(name, (out,), 1, body)


def held(module: Module) -> list[AllocateConst]:
    return [s for k in module.kernels.values() for s in program_order(k.body) if isinstance(s, AllocateConst)]


def globals_in(expr: Expr) -> list[GlobalVar]:
    return [n for n in post_order(expr) if isinstance(n, GlobalVar)]


def run(module: Module, **inputs: Array) -> list[Array]:
    return [np.asarray(x) for x in graph.run(module, inputs).values()]


# --- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.row("C5", "C14")
def test_equal_constants_of_graph_and_tensor_functions_are_one_array() -> None:
    """Upstream's const_extraction: three functions, two equal arrays, one different; and the graph beside them."""
    other = np.array([5.0, 6.0, 7.0], np.float32)
    first = A.copy()
    first.flags.writeable = False  # nobody can change it: it is taken as it is
    made = extract_constants(
        Module(
            {
                "main": function([], tuple_of(constant(first), call_tir("a", [], V))),
                "a": holder("a", A), "b": holder("b", A.copy()), "c": holder("c", other, A.copy()),
            }
        )
    )  # fmt: skip
    check(made)
    assert len(made.constants) == 2 and set(made.offsets) == set(made.constants)
    for s in held(made):
        assert s.contents is made.constants[s.index]
    assert np.shares_memory(held(made)[0].contents, first)
    assert not any(isinstance(n, Constant) for n in post_order(made.main))
    again = extract_constants(made)
    assert first_difference(made, again) is None and list(again.constants) == list(made.constants)


@pytest.mark.row("C5")
def test_bits_dtype_shape_and_storage_tell_constants_apart() -> None:
    payload = A.copy()
    payload.view(np.uint32)[2] += 1
    rows: list[Array] = [
        A,
        np.array([1.0, 0.0, np.nan], np.float32),
        payload,
        A.view(np.int32),
        A.reshape(3, 1),
        A.copy(),
    ]
    made = extract_constants(Module({"main": function([], tuple_of(*map(constant, rows)))}))
    assert len(made.constants) == 5
    assert len({n.name for n in globals_in(made.main)}) == 5
    x = constant(A)
    placed = tuple_of(x, replace(x, device=CPU), replace(x, device=GPU), replace(constant(A.copy()), device=GPU))
    devices = extract_constants(Module({"main": function([], placed)}))
    assert [devices.info(n.name).device for n in globals_in(devices.main)] == [ANYWHERE, CPU, GPU, GPU]
    assert len(devices.constants) == 3


@pytest.mark.row("C5")
def test_names_are_the_contents_in_every_process_and_order() -> None:
    """apache/tvm#11509: names by a counter collide between modules."""
    digits = hashlib.sha256(repr(("float32", (3,))).encode() + A.tobytes()).hexdigest()
    b = np.ones(3, np.float32)
    one, two = (
        extract_constants(Module({"main": function([], tuple_of(*map(constant, x)))})) for x in ((A, b), (b, A))
    )
    assert set(one.constants) == set(two.constants)
    name = next(n for n, a in one.constants.items() if a.tobytes() == A.tobytes())
    assert name == f"constant_{digits[:8]}"
    program = (
        "import numpy as np; from assay.lower.constants import extract_constants; from assay.semantics.graph import *;"
        "from assay.semantics.module import Module;"
        "a = np.array([1.0, -0.0, np.nan], np.float32);"
        "print(*extract_constants(Module({'main': function([], constant(a))})).constants)"
    )
    path = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"}
    assert (
        subprocess.run(
            [sys.executable, "-c", program], env=path, capture_output=True, text=True, check=True
        ).stdout.strip()
        == name
    )


@pytest.mark.row("C5")
def test_a_name_that_is_taken_is_lengthened() -> None:
    digits = hashlib.sha256(repr(("float32", (3,))).encode() + A.tobytes()).hexdigest()
    taken = f"constant_{digits[:8]}"
    other = np.zeros(3, np.float32)  # somebody has bound other contents to that name
    main = function([], tuple_of(constant(A), GlobalVar(V, taken)))
    made = extract_constants(Module({"main": main}, {taken: other}))
    assert list(made.constants) == [taken, f"constant_{digits[:9]}"]
    assert made.constants[taken].tobytes() == other.tobytes()


@pytest.mark.row("C5", "C14")
def test_names_of_users_stay_and_are_shared_with_nothing() -> None:
    """Their contents may be bound later: what is equal now must not follow."""
    main = function([], tuple_of(GlobalVar(V, "w"), constant(A.copy()), GlobalVar(V, "v")))
    module = Module(
        {"main": main, "f": holder("f", A, index="w")},
        {"w": A, "v": A, "unused": A},
        {},
        {"w": ConstantInfo(128, ".w")},
    )
    made = extract_constants(module)
    names = [n.name for n in globals_in(made.main)]
    assert names[0] == "w" and names[2] == "v" and names[1].startswith("constant_")
    assert set(made.constants) == set(names) and made.infos == {"w": ConstantInfo(128, ".w")}
    assert held(made)[0].index == "w"


@pytest.mark.row("C5", "C14")
def test_functions_that_already_name_constants() -> None:
    out = Buffer("out", (3,), FLOAT32)
    index_only = PrimFunc("f", (out,), 1, AllocateConst(Buffer("c", (3,), FLOAT32), None, store(out, 0, 1.0), "w"))
    made = extract_constants(Module({"f": index_only}, {"w": A}))
    assert held(made)[0].index == "w" and held(made)[0].contents is made.constants["w"]
    with pytest.raises(Invalid, match=r"module\.C7"):
        extract_constants(Module({"f": index_only}))
    # a function from another module: what its constant is counts, not what it was called there
    moved = extract_constants(
        Module({"f": holder("f", A, index="w"), "g": holder("g", A.copy(), index="w")}, {"w": np.ones(3, np.float32)})
    )
    assert [s.index for s in held(moved)] == ["w_1", "w_1"] and moved.constants["w_1"].tobytes() == A.tobytes()
    stale = extract_constants(Module({"f": holder("f", A, index="constant_12345678")}))
    assert list(stale.constants) == list(extract_constants(Module({"f": holder("f", A)})).constants)


@pytest.mark.row("C5")
def test_every_depth_of_graph_functions() -> None:
    box = DataDef("Box", (), {"Made": (V,)})
    x, flag = var("x", V), var("flag", TensorType((), BOOL))
    consts = [constant(np.full(3, k, np.float32)) for k in range(6)]
    y = var("y", V)
    closure = function([y], call("add", y, consts[0]))
    chosen = if_(flag, call(closure, x), let(var("t", V), consts[1], call("add", x, consts[2])))
    made_box, inside = constructor(box, "Made"), var("inside", V)
    matched = match(call(made_box, consts[3]), (Made(made_box, (Bind(inside),)), call("add", inside, consts[4])))
    body = call("add", call("add", chosen, matched), consts[5])
    module = Module({"Box": box, "main": function([x, flag], body), "other": function([x], call("add", x, consts[3]))})
    made = extract_constants(module)
    assert not any(
        isinstance(n, Constant) for d in made.definitions.values() if isinstance(d, Function) for n in post_order(d)
    )
    assert len(made.constants) == 6
    given = {"x": np.ones(3, np.float32), "flag": np.bool_(True)}
    assert np.array_equal(run(made, **given)[0], run(module, **given)[0])


def test_a_planned_program_is_refused() -> None:
    from assay.semantics.module import Program

    with pytest.raises(Unsupported, match=r"constants\.C1"):
        extract_constants(Module({"main": Program({}, (), (), ())}))


@pytest.mark.row("C5")
def test_merging_takes_linear_time() -> None:
    """Upstream compares every pair of constants."""
    rows = [constant(np.full(3, k % MANY, np.float32)) for k in range(2 * MANY)]
    made = extract_constants(Module({"main": function([], tuple_of(*rows))}))
    assert len(made.constants) == MANY


# --- external compilers ------------------------------------------------------------------------------------------


@pytest.mark.row("C12")
def test_an_external_compiler_gets_constants_by_name() -> None:
    x = var("x", V)
    region = function(
        [x], call("add", call("add", x, constant(A)), GlobalVar(V, "w")), compiler="npu", global_symbol="npu_0"
    )
    twin = replace(region, attrs={"compiler": "npu", "global_symbol": "npu_1"})
    module = Module({"main": function([x], x), "npu_0": region, "npu_1": twin}, {"w": A})
    before = constants_of(module, "npu_0")
    assert len(before) == 2 and before["w"] is A and before.keys() == constants_of(module, "npu_1").keys()
    after = extract_constants(module)
    assert constants_of(after, "npu_0").keys() == before.keys() == after.constants.keys()
    with pytest.raises(Invalid, match=r"partition\.C2"):
        constants_of(module, "npu_2")


# --- folding -----------------------------------------------------------------------------------------------------


def lowered(result: Expr, *params: Any) -> Module:
    return legalize(to_anf(Module({"main": function(list(params), result)})))


def calls(module: Module) -> int:
    return sum(type(n).__name__ == "CallTIR" for n in post_order(module.main))


def test_folding_runs_the_evaluator_that_is_handed_in() -> None:
    seen: list[str] = []

    def evaluate(kernel: PrimFunc, args: Sequence[Array]) -> Sequence[Array]:
        seen.append(kernel.name)
        return tensor.run(kernel, args)

    x = var("x", V)
    module = lowered(call("add", x, call("multiply", constant(A), constant(A))), x)
    made = lift_constants(module, evaluate)
    assert seen == ["multiply"] and calls(made) == 1 and len(made.constants) == 1
    assert check_constants(module, made)[0].holds


def test_what_would_trap_is_not_folded() -> None:
    zero = constant(np.zeros(2, np.int32))
    module = lowered(call("floor_divide", constant(np.ones(2, np.int32)), zero))
    made = lift_constants(module, vector.run)
    assert calls(made) == 1 and check_constants(module, made)[0].holds
    with pytest.raises(Trap):
        graph.run(made, {})


@pytest.mark.row("C4")
def test_folding_with_linked_constants() -> None:
    """apache/tvm#10465: a tensor function with constants inside is evaluated like any other."""
    x = var("x", V)
    module = legalize(
        to_anf(Module({"main": function([x], call("add", x, call_tir("f", [], V))), "f": holder("f", A)}))
    )
    made = lift_constants(module, vector.run)
    assert calls(made) == 1 and "f" not in made.definitions and len(made.constants) == 1
    assert check_constants(module, made)[0].holds


def test_folding_at_every_depth_and_of_tuples() -> None:
    x, flag = var("x", V), var("flag", TensorType((), BOOL))
    two = constant(np.full(3, 2.0, np.float32))
    pair = tuple_of(call("add", two, two), two)
    body = if_(flag, call("add", x, get(pair, 0)), call("multiply", x, call("multiply", two, two)))
    module = lowered(body, x, flag)
    made = lift_constants(module, vector.run)
    assert calls(made) == 2 and check_constants(module, made)[0].holds
    returned = lowered(tuple_of(x, tuple_of(call("add", two, two), two)), x)
    kept = lift_constants(returned, vector.run)
    assert calls(kept) == 0 and check_constants(returned, kept)[0].holds


@pytest.mark.parametrize("flip", [False, True])
def test_a_folded_constant_stays_on_its_device(flip: bool) -> None:
    """Under annotations, under fields, and through a copy to another device."""
    a, b = (GPU, CPU) if flip else (CPU, GPU)
    x = replace(var("x", V), device=b)
    one = replace(constant(np.ones(3, np.float32)), device=a)
    total = replace(call("add", one, one), device=a)
    moved = replace(call("device_copy", total), device=b)
    result = replace(call("add", x, moved), device=b)
    plain = function([x], result)
    folded = fold_function(plain, Module({"main": plain}), vector.run)
    assert [n.device for n in post_order(folded) if isinstance(n, Constant)] == [b]
    made = extract_constants(Module({"main": folded}))
    assert [made.info(n).device for n in made.constants] == [b]
    annotated = OnDevice(V, constant(np.ones(3, np.float32)), wanted=a)
    other = function([var("y", V)], call("add", annotated, constant(A)))
    folded = fold_function(other, Module({"main": other}), vector.run)
    assert [n.device.type for n in post_order(folded) if isinstance(n, Constant)] == [a.type]


def test_operands_on_two_devices_are_not_folded() -> None:
    one = replace(constant(np.ones(3, np.float32)), device=CPU)
    two = replace(constant(A), device=GPU)
    main = function([], call("add", one, two))
    assert any(type(n).__name__ == "Call" for n in post_order(fold_function(main, Module({"main": main}), vector.run)))


@pytest.mark.row("C5")
def test_long_chains_are_folded_and_extracted() -> None:
    x: Expr = constant(np.zeros(1, np.int32))
    start = var("y", x.type)
    y: Expr = start
    for _ in range(MANY):
        y = call("add", y, x)
    main = function([start], y)
    made = lift_constants(Module({"main": main}), vector.run)
    assert len(made.constants) == 1
