"""Capabilities of the seed systems (specs/rows.csv) that no other test shows by itself, each on a small program."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine, tensor, vector
from assay.lower.anf import to_anf
from assay.semantics.alias import origins
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT64, size_in_bytes
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import (
    Call,
    CallTIR,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Var,
    call,
    call_tir,
    constant,
    function,
    get,
    if_,
    let,
    print_,
    tuple_of,
    var,
)
from assay.semantics.memory import conflicts, lower_bound, overlap
from assay.semantics.module import Module, Program
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, loops, store
from assay.semantics.types import FuncType, TensorType, TupleType
from assay.verify.anf import check_anf
from assay.verify.app.stages import lowering_passes
from assay.verify.pool import as_problem, check_pool

F = TensorType((2, 3), FLOAT32)
B = TensorType((), BOOL)
I = TensorType((), INT64)  # noqa: E741
X = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2}


def main(*params: Var, body: Expr) -> Module:
    return Module({"main": function(params, body)})


def chain(f: Function) -> list[tuple[Var, Expr]]:
    found, body = [], f.body
    while isinstance(body, Let):
        found.append((body.var, body.value))
        body = body.body
    return found


def op(e: Expr) -> str:
    return str(e.op) if isinstance(e, Call) else type(e).__name__


def lowered(module: Module) -> Module:
    """Through every stage but fuse, so that each call is a step."""
    for name, run in lowering_passes(vector.run).items():
        module = module if name == "fuse" else run(module)
    return module


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return [v.tobytes() for v in a.values()] == [v.tobytes() for v in b.values()]


# --- A-normal form ------------------------------------------------------------------------------------------------


@pytest.mark.row("A2")
def test_the_order_of_evaluation_is_the_order_of_the_bindings() -> None:
    x = var("x", F)
    shared = call("exp", x)
    body = call("add", call("multiply", call("negative", x), shared), call("nn.relu", shared))
    module = main(x, body=body)
    seen: list[str] = []

    def note(node: Expr, *rest: Any) -> None:
        seen.append(op(node))

    graph.run(module, X, observe=note)
    first, second = (to_anf(module).main for _ in range(2))
    assert [op(e) for _, e in chain(first)] == seen
    assert seen == [f"<operator {n}>" for n in ("negative", "exp", "multiply", "nn.relu", "add")]
    assert [v.name for v, _ in chain(first)] == [v.name for v, _ in chain(second)]


def factorial() -> Module:
    """n, n! by a local function that calls itself through its name."""
    n, k, r = var("n", I), var("k", I), var("r", I)
    name = var("f", FuncType((I, I), I))
    one = constant(np.int64(1))
    again = call(name, call("subtract", k, one), call("multiply", r, k))
    f = function([k, r], if_(call("less_equal", k, one), r, again))
    return main(n, body=let(name, f, call(name, n, one)))


@pytest.mark.row("A4")
def test_a_local_function_has_a_name_and_recurs_through_it() -> None:
    module = factorial()
    anf = to_anf(module)
    evidence = check_anf(module, anf)
    assert evidence.holds, evidence.detail
    functions = [(v, e) for v, e in chain(anf.main) if isinstance(e, Function)]
    assert [v.name for v, _ in functions] == ["f"]
    for m in (module, anf):
        assert graph.run(m, {"n": np.array(10)})["output_0"] == 3628800


@pytest.mark.row("A5")
def test_constants_are_bound() -> None:
    x = var("x", F)
    anf = to_anf(main(x, body=call("add", x, constant(np.ones((2, 3), np.float32)))))
    assert [isinstance(e, Constant) for _, e in chain(anf.main)] == [True, False]


@pytest.mark.row("A6")
@pytest.mark.parametrize("mark", ["primitive", "compiler"])
def test_marked_functions_stay_whole(mark: str) -> None:
    x, y = var("x", F), var("y", F)
    inner = call("add", call("exp", y), call("exp", y))
    opaque = function([y], inner, **{mark: True})
    anf = to_anf(main(x, body=call(opaque, x)))
    (kept,) = [e for _, e in chain(anf.main) if isinstance(e, Function)]
    assert kept.body is inner


@pytest.mark.row("A7")
def test_a_binding_keeps_its_device() -> None:
    x = var("x", F)
    there = VirtualDevice(type="cuda", id=1)
    node = call("exp", x)
    placed = Call(node.type, node.op, node.args, node.attrs, device=there)
    (bound, value), _ = chain(to_anf(main(x, body=call("add", placed, x))).main)
    assert bound.device == there and value.device == there


@pytest.mark.row("A11")
def test_a_variable_has_the_storage_of_its_value() -> None:
    x, y, z = var("x", F), var("y", F), var("z", F)
    anf = lowering_passes(vector.run)["legalize"](
        to_anf(main(x, body=let(y, x, let(z, call("exp", y), call("add", z, z)))))
    )
    look = origins(anf.main)
    names = {v.name: look(v) for v, _ in chain(anf.main)}
    assert [o.name for o in names["y"]] == ["x"] and names["y"][0].kind == "parameter"
    assert [o.name for o in names["z"]] == ["z"]


@pytest.mark.row("A12")
def test_nested_tuples_are_flattened_and_projected() -> None:
    x = var("x", F)
    inner = tuple_of(call("exp", x), call("nn.relu", x))
    outer = tuple_of(x, tuple_of(inner, call("negative", x)))
    body = tuple_of(get(get(get(outer, 1), 0), 1), inner)
    planned = lowered(Module({"main": function([x], body)}))
    exp, relu = (s for s in planned.program.steps if s.kernel in ("exp", "nn_relu"))
    assert exp.reads == relu.reads == ("x",)
    got = list(machine.run(planned, X).values())
    positive = np.maximum(X["x"], 0)
    assert len(got) == 3 and got[0].tobytes() == got[2].tobytes() == positive.tobytes()
    assert np.allclose(got[1], np.exp(X["x"]), rtol=1e-6)


@pytest.mark.row("A20", "J14")
def test_reshapes_are_no_steps() -> None:
    x = var("x", F)
    twice = call("reshape", call("reshape", call("exp", x), shape=(6,)), shape=(3, 2))
    planned = lowered(main(x, body=call("negative", twice)))
    assert [s.kernel for s in planned.program.steps] == ["exp", "negative"]
    exp, negative = planned.program.steps
    assert exp.writes == negative.reads, "both names are the same bytes"
    assert machine.run(planned, X)["output_0"].shape == (3, 2)


@pytest.mark.row("A23")
def test_what_a_stage_cannot_handle_is_refused_by_name() -> None:
    x = var("x", F)
    module = main(x, body=let(var("p", TupleType(())), print_(tuple_of(x)), call("exp", x)))
    with pytest.raises(Unsupported, match="print.* shows .*: a plan shows tensors") as refused:
        lowered(module)
    assert refused.value.label == "liveness.C2"


# --- memory -------------------------------------------------------------------------------------------------------


def network() -> Module:
    """One kernel four times in a row, then a convolution, whose kernel pads into a buffer of its own."""
    x = var("x", TensorType((1, 2, 5, 5), FLOAT32))
    e: Expr = x
    for _ in range(4):
        e = call("exp", call("negative", e))
    weights = constant(np.ones((3, 2, 3, 3), np.float32))
    return main(x, body=call("nn.relu", call("nn.conv2d", e, weights, padding=(1, 1, 1, 1))))


@pytest.mark.row("U1", "U7", "U15", "A18")
def test_lives_are_per_call_and_by_use_and_include_the_kernels_buffers() -> None:
    program = lowered(network()).program
    calls = [s for s in program.steps if s.kernel == "negative"]
    assert len(calls) == 4 and len({s.writes for s in calls}) == 4
    work = {s.name: s for s in program.placed("workspace")}
    at = program.positions
    for i, (a, b) in enumerate(pairwise(program.steps)):
        for name in set(a.writes) & work.keys():
            # from the phase that first writes it until after the next step has read it
            assert work[name].live == ((at[i + 1] - 1, at[i + 1] + b.phases),) or b.phases > 1
    (conv,) = [i for i, s in enumerate(program.steps) if s.scratch]
    for name in program.steps[conv].scratch:
        assert at[conv] <= work[name].start < work[name].stop <= at[conv + 1] and work[name].offset is not None
    # the kernel has padded what it reads before it writes anything
    (padded,) = program.steps[conv].scratch
    assert work[program.steps[conv].reads[0]].stop == work[padded].stop - 1 == at[conv] + 1


@pytest.mark.row("U10", "U22")
def test_pressure_conflicts_and_savings_can_be_read_out() -> None:
    planned = lowered(network())
    work = planned.program.placed("workspace")
    at = [sum(s.nbytes for s in work if s.start <= t < s.stop) for t in range(len(planned.program.steps))]
    assert lower_bound(work) == max(at)
    apart = sum(s.nbytes for s in work)
    assert max(at) <= (planned.program.workspace_bytes or 0) < apart
    buffers = as_problem(planned.program)[0].buffers
    assert {b.name for pair in conflicts(buffers) for b in pair} <= {s.name for s in work}
    assert all(overlap(a.live, b.live) for a, b in conflicts(buffers))
    assert check_pool(planned)[0].holds


@pytest.mark.row("U23")
def test_one_size_for_all() -> None:
    for of in DTYPES.values():
        shape = (3, 0, 2) if of.bits == 4 else (3, 5)
        kinds = (TensorType(shape, of), Buffer("b", shape, of))
        assert {k.nbytes for k in kinds} == {size_in_bytes(shape, of)} == {np.zeros(shape, of.numpy).nbytes}


# --- constants ----------------------------------------------------------------------------------------------------


@pytest.mark.row("C1", "C2")
def test_a_constant_allocation_is_read_only() -> None:
    table, out = Buffer("table", (2, 3), FLOAT32), Buffer("out", (2, 3), FLOAT32)
    data = np.arange(6, dtype=np.float32).reshape(2, 3)

    def reader(*i: Any) -> Any:
        return store(out, i, table[i])

    def writer(*i: Any) -> Any:
        return store(table, i, 1.0)

    good = PrimFunc("read", (out,), 1, AllocateConst(table, data, loops("i j", (2, 3), reader)))
    assert tensor.run(good, [])[0].tobytes() == data.tobytes()
    bad = PrimFunc("write", (out,), 1, AllocateConst(table, data, loops("i j", (2, 3), writer)))
    for run in (tensor.run, vector.run):
        with pytest.raises(Trap) as trap:
            run(bad, [])
        assert trap.value.kind == "store to constant"


@pytest.mark.row("C13", "C14")
def test_constants_are_names_of_a_table_whose_bytes_are_counted() -> None:
    planned = lowered(network())
    (slot,) = planned.program.placed("constant")
    assert slot.nbytes == 3 * 2 * 3 * 3 * 4 == sum(a.nbytes for a in planned.constants.values())
    x = var("x", F)
    named = Module({"main": function([x], call("add", x, GlobalVar(F, "w")))}, {"w": np.ones((2, 3), np.float32)})
    check_rules(named)
    assert graph.run(named, X)["output_0"].tolist() == (X["x"] + 1).tolist()
    with pytest.raises(Invalid) as wrong:
        check_rules(Module(named.definitions))
    assert wrong.value.label == "graph.C2"


# --- the graph language -------------------------------------------------------------------------------------------


@pytest.mark.row("R2")
def test_a_tensor_function_is_called_by_name_and_fills_fresh_tensors() -> None:
    x = var("x", F)
    a, out = Buffer("a", (2, 3), FLOAT32), Buffer("out", (2, 3), FLOAT32)
    double = PrimFunc("double", (a, out), 1, loops("i j", (2, 3), lambda *i: store(out, i, a[i] + a[i])))
    body = call_tir("double", [call_tir("double", [x], F)], F)
    module = Module({"main": function([x], body), "double": double})
    check_rules(module)
    assert graph.run(module, X)["output_0"].tolist() == (4 * X["x"]).tolist()


@pytest.mark.row("R13", "A22")
def test_passes_are_functions_of_modules_in_a_known_order() -> None:
    assert list(lowering_passes(vector.run)) == [
        "devices",
        "anf",
        "legalize",
        "fuse",
        "constants",
        "schedule",
        "liveness",
        "pool",
    ]
    module = network()
    kinds: list[type] = []
    for run in lowering_passes(vector.run).values():
        before = dict(module.definitions)
        changed = run(module)
        assert dict(module.definitions) == before, "a pass leaves its input alone"
        check_rules(changed)
        kinds.append(type(changed.definitions["main"]))
        module = changed
    assert kinds == [Function] * 6 + [Program] * 2


@pytest.mark.row("R15")
def test_only_the_branch_that_is_taken_is_evaluated() -> None:
    x, c, i = var("x", F), var("c", B), var("i", TensorType((1,), INT64))
    module = main(x, c, i, body=if_(c, call("take", x, i, axis=0), call("take", x, constant(np.array([0])), axis=0)))
    outside = {**X, "i": np.array([7])}
    assert graph.run(module, {**outside, "c": np.array(False)})["output_0"].tolist() == [[-2, -1, 0]]
    with pytest.raises(Trap) as trap:
        graph.run(module, {**outside, "c": np.array(True)})
    assert trap.value.kind == "out of bounds"
    assert isinstance(module.main.body, If)


@pytest.mark.row("R17", "J15")
def test_functions_of_a_module_call_one_another_with_growing_state() -> None:
    n = Symbol("n")
    state, left = var("state", TensorType((n,), FLOAT32)), var("left", I)
    result = TensorType((Symbol("m"),), FLOAT32)
    grow = GlobalVar(FuncType((state.type, I), TensorType((), FLOAT32)), "grow")
    one = constant(np.int64(1))
    longer = call("concat", state, constant(np.array([1.0], np.float32)), axis=0)
    body = if_(
        call("less_equal", left, constant(np.int64(0))),
        call("sum", state),
        call(grow, longer, call("subtract", left, one)),
    )
    x = var("x", result)
    entry = call(grow, x, constant(np.int64(10)))
    module = Module({"main": function([x], entry), "grow": function([state, left], body)})
    check_rules(module)
    assert graph.run(module, {"x": np.zeros(1, np.float32)})["output_0"] == 10


@pytest.mark.row("R22", "R37")
def test_ill_formed_programs_are_told_from_well_formed_ones() -> None:
    x, y = var("x", F), var("y", F)
    good = call("add", x, x)
    check_rules(main(x, body=good))
    for bad, label in (
        (call("add", x, y), "graph.C1"),
        (Call(TensorType((9,), FLOAT32), good.op, good.args, good.attrs), "graph.C3"),
        (GlobalVar(F, "nowhere"), "graph.C2"),
        (CallTIR(F, "nowhere", (x,)), "module.C3"),
    ):
        with pytest.raises(Invalid) as wrong:
            check_rules(main(x, body=bad))
        assert wrong.value.label == label


# --- shapes -------------------------------------------------------------------------------------------------------


@pytest.mark.row("J11", "J12", "J21")
def test_symbols_are_bound_by_inputs_and_must_agree() -> None:
    n, m = Symbol("n"), Symbol("m")
    a, b = var("a", TensorType((n, m), FLOAT32)), var("b", TensorType((m, n), FLOAT32))
    module = main(a, b, body=call("matmul", a, b))
    assert str(module.main.result_type) == "Tensor((n, n), float32)"
    got = graph.run(module, {"a": np.ones((2, 5), np.float32), "b": np.ones((5, 2), np.float32)})
    assert got["output_0"].tolist() == [[5, 5], [5, 5]]
    for inputs, label, said in (
        (
            {"a": (2, 5), "b": (4, 2)},
            "input.C4",
            "axis 0 of input 'b' is 4, expected 5, the value of m by axis 1 of input 'a'",
        ),
        ({"a": (2, 5)}, "input.C2", "missing input 'b'"),
        ({"a": (2, 5), "b": (5, 2), "c": (1,)}, "input.C1", "unknown input 'c'"),
    ):
        with pytest.raises(Invalid) as wrong:
            graph.run(module, {k: np.ones(s, np.float32) for k, s in inputs.items()})
        assert wrong.value.label == label and said in str(wrong.value)


@pytest.mark.row("J16")
def test_tensors_without_elements_go_all_the_way() -> None:
    x = var("x", TensorType((0, 3), FLOAT32))
    body = tuple_of(call("sum", call("exp", x), axis=(0,)), call("concat", x, x, axis=0))
    module = Module({"main": function([x], body)})
    empty = {"x": np.zeros((0, 3), np.float32)}
    planned = lowered(module)
    assert check_pool(planned)[0].holds
    got = machine.run(planned, empty)
    assert [a.tolist() for a in got.values()] == [[0, 0, 0], []]
    assert same(got, graph.run(module, empty))


@pytest.mark.row("R6")
def test_shapes_and_types_are_deduced_through_a_graph() -> None:
    """Sizes stay symbolic through operators, calls and projections; the result is what a run gives."""
    n = Symbol("n")
    x, w = var("x", TensorType((n, 3, 8, 8), FLOAT32)), var("w", TensorType((4, 3, 3, 3), FLOAT32))
    y = call("nn.max_pool2d", call("nn.conv2d", x, w, padding=(1, 1, 1, 1)), pool_size=(2, 2), strides=(2, 2))
    halves = call("split", call("reshape", y, shape=(n, 64)), sections=(16, 48), axis=1)
    body = tuple_of(get(halves, 1), call("sum", get(halves, 0), axis=(1,), keepdims=False), call("greater", y, y))
    assert str(body.type) == "Tuple(Tensor((n, 48), float32), Tensor((n), float32), Tensor((n, 4, 4, 4), bool))"
    given = {"x": np.ones((2, 3, 8, 8), np.float32), "w": np.ones((4, 3, 3, 3), np.float32)}
    found = graph.run(main(x, w, body=body), given)
    assert [(v.shape, str(v.dtype)) for v in found.values()] == [
        ((2, 48), "float32"), ((2,), "float32"), ((2, 4, 4, 4), "bool")
    ]  # fmt: skip


@pytest.mark.row("R20")
def test_operators_have_attributes_with_defaults_that_count() -> None:
    x = var("x", F)
    default, given = call("nn.softmax", x), call("nn.softmax", x, axis=0)
    assert default.attrs == {"axis": -1} and given.attrs == {"axis": 0}
    one, two = (graph.run(main(x, body=c), X)["output_0"] for c in (default, given))
    assert np.allclose(one.sum(1), 1) and np.allclose(two.sum(0), 1) and not np.allclose(one, two)
    with pytest.raises(Invalid, match="has no attribute 'axes'; it has axis"):
        call("nn.softmax", x, axes=0)


@pytest.mark.row("A17")
def test_constants_of_the_entry_function_are_constant_buffers() -> None:
    x = var("x", F)
    ten = np.full((2, 3), 10, np.float32)
    program = lowered(main(x, body=call("add", x, constant(ten)))).program
    (slot,) = program.placed("constant")
    assert slot.type.static_shape == (2, 3) and slot.start == 0 and slot.stop == len(program.steps)
    assert any(slot.name in step.reads for step in program.steps)
    assert not any(slot.name in (*step.writes, *step.scratch) for step in program.steps)
