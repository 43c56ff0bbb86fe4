"""Every case of the test table of TVM's planner, as a program under specs/devices (rows V3 to V16)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.devices import device_map, plan_devices
from assay.semantics.analyses.equality import first_difference, structural_equal
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, GlobalVar, OnDevice, call, function, var
from assay.semantics.graph.rules import type_of
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.scalar import evaluate_dim
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import FuncType, TensorType, same_type, symbols
from assay.semantics.walk import post_order
from assay.verify.devices import check_devices
from tests.lower.devices import device_cases

COPIES = {
    "plain": 0, "left_add_on_cpu": 1, "left_add_on_cpu_via_copy": 1, "both_adds_on_cpu": 2, "sharing": 1,
        "let_on_cpu": 1,
    "func_param_on_cpu": 0, "func_result_on_cpu": 1, "higher_order": 1, "function_in_tuple": 0, "device_copy": 1,
    "shape_of": 0, "shape_of_free": 0, "alloc_storage": 0, "alloc_tensor": 0, "reshape_tensor": 0, "dynamic_input": 0,
    "redundant_annotation": 1, "annotate_expr": 1, "annotate_all": 0, "conv_network": 3, "tuple_get_item": 2,
    "propagation": 2, "fusible_network": 3, "unpropagatable_graph": 1, "conditional": 0, "global": 1, "ref": 1,
        "adt": 0,
    "free_on_device": 1, "lowered": 2, "primitive": 0, "conflicted_inputs": 2,
    "fold_const_with_on_device": 1, "fold_let_with_on_device": 0, "fold_tuple": 0, "concatenate_const": 1,
    "constant_on_two_devices": 1, "dead_let": 0, "nested_let": 1, "inline_into_function": 2, "texture_scopes": 1,
}  # fmt: skip
"""How many copies each case has, counted by hand."""


def copies(module: Module) -> int:
    """The copies in a module's graph functions."""
    found: set[int] = set()
    for d in module.definitions.values():
        if isinstance(d, Function):
            root: Expr = d
            for n in post_order(root):
                if isinstance(n, Call) and isinstance(n.op, Operator) and n.op.name == "device_copy":
                    found.add(id(n))
    return len(found)


def inputs(module: Module) -> dict[str, Any]:
    """Random inputs of main; sizes are 3, and so are numbers."""
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for p in module.main.params:
        assert isinstance(p.type, TensorType)
        shape = [evaluate_dim(d, dict.fromkeys(symbols(p.type), 3)) for d in p.type.shape]
        if p.type.dtype is FLOAT32:
            made[p.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            made[p.name] = np.ones(shape, bool) if p.type.dtype is BOOL else np.full(shape, 3, np.int64)
    return made


def test_every_case_is_here() -> None:
    assert set(device_cases.names()) == set(COPIES)


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.row("V3", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V14", "V15", "V17", "V21")
def test_a_case(name: str) -> None:
    case = device_cases.read(name)
    for part in ("\nUpstream: ", "\nOurs: "):
        assert part in f"\n{case.head}", f"the head says nothing of {part.strip()}"
    check(case.source)
    planned = plan_devices(case.source, case.config)
    check(planned)
    difference = first_difference(case.planned, planned)
    assert difference is None, f"{difference}\n{show(planned)}"
    assert structural_equal(plan_devices(planned, case.config), planned)
    assert structural_equal(plan_devices(case.planned, case.config), case.planned)
    assert first_difference(planned, parse(show(planned))) is None
    assert copies(planned) == COPIES[name]
    assert check_devices(case.source, planned, case.config).holds
    given = inputs(case.source)
    before, after = run(case.source, given), run(planned, given)
    assert list(before) == list(after)
    for a, b in zip(before.values(), after.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_wrong_plan_is_seen() -> None:
    """The planted fault: a plan with a value elsewhere, or with a copy more, is not that of the file."""
    case = device_cases.read("left_add_on_cpu")
    text = show(case.planned)
    for old, new in (('A.on(R.add(a, b), "cpu:0")', "R.add(a, b)"), ("R.add(c, d)", "A.device_copy(R.add(c, d))")):
        assert old in text
        assert first_difference(parse(text.replace(old, new)), plan_devices(case.source, case.config)) is not None


@pytest.mark.row("V19")
def test_a_map_of_the_devices() -> None:
    """Upstream's left_add_on_cpu_via_copy_as_map: the devices by expression; there is no on_device any more."""
    case = device_cases.read("left_add_on_cpu_via_copy")
    planned = plan_devices(case.source, case.config)
    devices = device_map(planned)
    main: Expr = planned.main
    where = {
        type(n).__name__ if not isinstance(n, Call) else getattr(n.op, "name", ""): devices[n].type
        for n in post_order(main)
    }
    params = {p.name: devices[p].type for p in planned.main.params}
    assert params == {"a": "cpu", "b": "cpu", "c": "cuda", "d": "cuda"}
    assert (where["device_copy"], where["subtract"], where["Function"]) == ("cuda", "cuda", "cuda")
    adds = [devices[n].type for n in post_order(main) if isinstance(n, Call) and getattr(n.op, "name", "") == "add"]
    assert adds == ["cpu", "cuda"]
    assert not any(isinstance(n, OnDevice) for n in post_order(main))


@pytest.mark.row("V20")
def test_a_deep_program() -> None:
    """Upstream's stack_overflow: 1555 sums, each of the two before it."""
    v = TensorType((2,), FLOAT32)
    a, b = var("a", v), var("b", v)
    last: list[Expr] = [a, b]
    for _ in range(1555):
        last = [last[1], call("add", last[1], last[0])]
    planned = plan_devices(
        Module({"main": function([a, b], last[1])}), device_cases.config(["llvm", "cuda", "default cuda"])
    )
    root: Expr = planned.main
    assert {n.device for n in post_order(root)} == {VirtualDevice("cuda", 0, "cuda", "global")}


@pytest.mark.row("V16")
def test_the_name_of_a_tensor_function_has_a_type() -> None:
    """gem of the case `lowered`, as a function of the graph: its calls are checked by that type."""
    module = device_cases.read("lowered").source
    of = type_of("gem", module)
    m = TensorType((4, 4), FLOAT32)
    assert same_type(of, FuncType((m, m, m), m))
    text = show(module)
    for old, new in (
        ("(x, y, z)", "(x, y)"),
        ('out_ty=R.Tensor((4, 4), dtype="float32")', 'out_ty=R.Tensor((4, 5), dtype="float32")'),
    ):
        assert old in text
        with pytest.raises(Invalid, match="call_tir.C"):
            check(
                parse(
                    text.replace(old, new).replace(
                        ') -> A.on(R.Tensor((4, 4), dtype="float32"), "cpu", -1, "", "scopeB")', ")"
                    )
                )
            )
    with pytest.raises(Invalid, match=r"called by call_tir.*graph.C2"):
        check(Module({**module.definitions, "main": function([], GlobalVar(of, "gem"))}))
    two = parse("""
@T.prim_func
def pair(x: T.Buffer((2,), "float32"), n: T.int64, y: T.Buffer((2,), "float32"), z: T.Buffer((2,), "int32")):
    T.func_attr({"num_outputs": 2})
    for i in range(2):
        y[i] = x[i]
        z[i] = T.cast(n, "int32")
""")
    assert (
        str(type_of("pair", two))
        == "Callable((Tensor((2), float32), Tensor((), int64)), Tuple(Tensor((2), float32), Tensor((2), int32)))"
    )
