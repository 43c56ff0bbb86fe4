"""The evaluator of the graph IR: references, effects and values, by rules M1 to M3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import graph as interp
from assay.interp.values import Cell, Data, Event, Shape, copied, render
from assay.semantics import graph as g
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, Var, call, function, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, cast
from assay.semantics.tensor import Buffer, PrimFunc, loops, seq, store
from assay.semantics.types import UNIT, DataType, FuncType, RefType, ShapeType, TensorType, Type
from tests.interp.small import BOOL, SCALAR, f32, m, n, number, run, run_module, sequence, tensor
from tests.observation import Observation, observe, same_value

# --- references ---------------------------------------------------------------------------------------------------


@pytest.mark.row("A8")
def test_references_are_read_and_written_in_order() -> None:
    """test_ref of the old systems: create 1, read, write 2, read, add: 3."""
    r, a, b = var("r", RefType(SCALAR)), var("a", SCALAR), var("b", SCALAR)
    body = let(b, g.read(r), call("add", a, b))
    body = let(var("_", UNIT), g.write(r, number(2)), body)
    main = function([], let(r, g.ref(number(1)), let(a, g.read(r), body)))
    assert run(main) == 3.0
    assert not main.func_type.pure


def test_operands_are_evaluated_left_to_right() -> None:
    """A read before a write and a read after it, inside one operator."""
    r = var("r", RefType(SCALAR))
    after = let(var("_", UNIT), g.write(r, number(5)), g.read(r))
    body = call("subtract", g.read(r), after)
    assert run(function([], let(r, g.ref(number(1)), body))) == -4.0


def test_each_branch_reads_after_its_own_write() -> None:
    """Two reads, one in each branch: the one after the write sees it."""
    c, r = var("c", BOOL), var("r", RefType(SCALAR))
    wrote = sequence(g.write(r, number(2)), g.read(r))
    main = function([c], let(r, g.ref(number(1)), if_(c, wrote, g.read(r))))
    assert run(main, c=np.array(True)) == 2.0
    assert run(main, c=np.array(False)) == 1.0


def test_a_shared_read_is_ill_formed() -> None:
    """One read node in both branches: what it would see depends on who demands it first."""
    c, r = var("c", BOOL), var("r", RefType(SCALAR))
    shared = g.read(r)
    main = function([c], let(r, g.ref(number(1)), if_(c, sequence(g.write(r, number(2)), shared), shared)))
    with pytest.raises(Invalid, match="used 2 times") as caught:
        check(Module({"main": main}))
    assert caught.value.label == "graph.C7"


def test_what_is_known_is_not_evaluated_and_what_is_asked_for_first_is_once() -> None:
    x = var("x", tensor(2))
    below = call("exp", x)
    hidden = call("add", below, below)
    middle = call("negative", hidden)
    end = call("multiply", middle, middle)
    seen: list[Expr] = []
    found = interp.run(
        Module({"main": function([x], end)}),
        {"x": f32(0, 0)},
        observe=lambda node, value: seen.append(node),
        known={id(middle): f32(3, 4)},
        first=[below, hidden],
    )
    assert [id(n) for n in seen] == [id(below), id(hidden), id(end)]
    assert [v.tolist() for v in found.values()] == [[9, 16]]


def test_what_contains_an_action_is_not_shared_either() -> None:
    r = var("r", RefType(SCALAR))
    shared = call("add", g.read(r), number(1))
    with pytest.raises(Invalid) as caught:
        check(Module({"main": function([r], call("add", shared, shared))}))
    assert caught.value.label == "graph.C7"


def test_two_references_to_one_cell() -> None:
    r, s = var("r", RefType(SCALAR)), var("s", RefType(SCALAR))
    body = sequence(g.write(s, number(7)), g.read(r))
    assert run(function([], let(r, g.ref(number(1)), let(s, r, body)))) == 7.0


def test_a_reference_that_escapes_shows_its_last_contents() -> None:
    r = var("r", RefType(SCALAR))
    body = sequence(g.write(r, number(7)), r)
    found = run(function([], let(r, g.ref(number(1)), body)))
    assert isinstance(found, Cell) and found.value == 7.0


# --- effects ------------------------------------------------------------------------------------------------------


@pytest.mark.row("R21")
def test_prints_are_traced_in_order_with_the_values_of_the_moment() -> None:
    x, r = var("x", tensor(2)), var("r", RefType(tensor(2)))
    body = sequence(g.print_(x, format="first {}"), g.print_(r), g.write(r, call("add", x, x)), g.print_(g.read(r)), x)
    trace: list[Event] = []
    run(function([x], let(r, g.ref(x), body)), trace=trace, x=f32(1, 2))
    assert [(e.kind, e.name) for e in trace] == [("print", "first {}"), ("print", ""), ("print", "")]
    assert np.array_equal(trace[0].values[0], f32(1, 2))
    assert np.array_equal(trace[1].values[0].value, f32(1, 2)), "the cell as it was"
    assert np.array_equal(trace[2].values[0], f32(2, 4))
    assert render(trace[0].name, trace[0].values) == "first [1., 2.]"


@pytest.mark.row("R21")
def test_assert_op_traps_with_its_message_after_the_trace_so_far() -> None:
    c, x = var("c", BOOL), var("x", SCALAR)
    main = function([c, x], sequence(g.print_(x), g.assert_op(c, x, format="x was {}"), g.print_(x), x))
    trace: list[Event] = []
    assert run(main, trace=trace, c=np.array(True), x=np.float32(3)) == 3.0
    assert len(trace) == 2
    trace.clear()
    with pytest.raises(Trap, match=r"x was 3\.") as caught:
        run(main, trace=trace, c=np.array(False), x=np.float32(3))
    assert caught.value.kind == "assertion" and caught.value.label == "assert_op.T1"
    assert len(trace) == 1


def test_only_the_taken_branch_acts() -> None:
    c = var("c", BOOL)
    main = function([c], if_(c, g.print_(number(1)), g.print_(number(2))))
    trace: list[Event] = []
    run_module(Module({"main": main}), trace=trace, c=np.array(False))
    assert [float(e.values[0]) for e in trace] == [2.0]


def test_extern_functions_are_called_and_traced() -> None:
    x = var("x", tensor(n))
    double = g.extern("double", [tensor(n)], tensor(n))
    half = g.extern("half", [tensor(n)], tensor(n), pure=True)
    main = function([x], call(half, call(double, call(double, x))))
    trace: list[Event] = []
    found = run(main, externs={"double": lambda a: a * 2, "half": lambda a: a / 2}, trace=trace, x=f32(1, 2))
    assert np.array_equal(found, f32(2, 4))
    assert [(e.kind, e.name, float(e.values[0][0])) for e in trace] == [
        ("extern", "double", 1),
        ("extern", "double", 2),
    ]


def test_an_extern_that_nobody_gave_is_invalid_before_anything_runs() -> None:
    x = var("x", tensor(2))
    main = function([x], sequence(g.print_(x), call(g.extern("f", [tensor(2)], tensor(2)), x)))
    trace: list[Event] = []
    with pytest.raises(Invalid, match="extern f") as caught:
        run(main, trace=trace, x=f32(1, 2))
    assert caught.value.label == "extern.C1" and not trace


@pytest.mark.parametrize("wrong", [f32(1, 2, 3), np.zeros((2, 2), np.float32), np.zeros(2, np.float64)])
def test_what_an_extern_gives_back_is_checked(wrong: Any) -> None:
    x = var("x", tensor(2))
    main = function([x], call(g.extern("f", [tensor(2)], tensor(2)), x))
    with pytest.raises(Trap) as caught:
        run(main, externs={"f": lambda a: wrong}, x=f32(1, 2))
    assert caught.value.kind == "shape" and caught.value.label == "call.T1"


def test_a_dataflow_block_does_not_act() -> None:
    x, block = var("x", tensor(2)), g.Dataflow()
    a, b = var("a", UNIT), var("b", tensor(2))
    body = let(b, call("add", x, x), let(a, g.print_(x), b, dataflow=block), dataflow=block)
    with pytest.raises(Invalid) as caught:
        check(Module({"main": function([x], body)}))
    assert caught.value.label == "graph.C9"


def test_a_dataflow_block_is_in_one_piece() -> None:
    x, block = var("x", tensor(2)), g.Dataflow()
    a, b, c = (var(name, tensor(2)) for name in "abc")
    last = let(c, call("add", b, b), c, dataflow=block)
    body = let(a, call("add", x, x), let(b, call("add", a, a), last), dataflow=block)
    with pytest.raises(Invalid) as caught:
        check(Module({"main": function([x], body)}))
    assert caught.value.label == "graph.C10"


# --- values -------------------------------------------------------------------------------------------------------


def test_copies_keep_what_is_shared() -> None:
    cell = Cell(None)
    cell.value = Data("D", "c", (cell, f32(1)))
    copy = copied((cell, cell))
    assert copy[0] is copy[1] is not cell and copy[0].value.fields[0] is copy[0]
    assert same_value((cell, cell), copy) and not same_value((cell, cell), (copied(cell), copied(cell)))
    copy[0].value = f32(2)
    assert not same_value((cell, cell), copy)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (f32(np.nan), -f32(np.nan), True),
        (f32(0.0), f32(-0.0), False),
        (f32(1), np.float64([1]), False),
        (f32(1), f32(1, 1), False),
        ((f32(1),), f32(1), False),
        (Data("D", "c", ()), Data("D", "d", ()), False),
        (Data("D", "c", (f32(1),)), Data("D", "c", (f32(1),)), True),
        (Shape((1, 2)), Shape((1, 3)), False),
        (np.array([True]), np.array([True]), True),
    ],
)
def test_what_tells_values_apart(a: Any, b: Any, same: bool) -> None:
    assert same_value(a, b) is same


def test_types_show() -> None:
    types: list[tuple[Type, str]] = [
        (RefType(SCALAR), "Ref(Tensor((), float32))"),
        (DataType("List", (SCALAR,)), "List[Tensor((), float32)]"),
        (DataType("Unit"), "Unit"),
        (ShapeType((n, 3)), "Shape((n, 3))"),
        (FuncType((SCALAR,), UNIT, pure=False), "Callable((Tensor((), float32)), Tuple(), impure)"),
    ]
    for of, text in types:
        assert str(of) == text
    assert isinstance(Var(SCALAR, "x").type, TensorType) and FLOAT32 is not INT32


def test_observations_differ_by_results_effects_and_traps() -> None:
    c, x = var("c", BOOL), var("x", SCALAR)

    def module(*prints: float, result: float, message: str = "") -> Module:
        steps: list[Expr] = [g.print_(number(p)) for p in prints]
        body = sequence(*steps, g.assert_op(c, x, format=message), call("add", x, number(result)))
        return Module({"main": function([c, x], body)})

    def observed(of: Module, holds: bool) -> Observation:
        return observe(of, {"c": np.array(holds), "x": np.float32(1)})

    one = module(1, 2, result=3)
    assert observed(one, True).difference(observed(module(1, 2, result=3), True)) is None
    for other, where in (
        (module(2, 1, result=3), "effect 0"),
        (module(1, result=3), "2 effects against 1"),
        (module(1, 2, result=4), "result output_0"),
    ):
        found = observed(one, True).difference(observed(other, True))
        assert found is not None and found.startswith(where)
    assert observed(one, False).difference(observed(module(1, 2, result=4), False)) is None, "both trap alike"
    assert "trap" in str(observed(one, True).difference(observed(one, False)))


@pytest.mark.row("R2")
def test_a_tensor_function_gets_sizes_and_scalars_from_its_call() -> None:
    """A result's size that no operand tells is the call's; a scalar parameter is an expression over symbols."""
    size, times = Symbol("size"), Symbol("times")
    a, out = Buffer("a", (n,), FLOAT32), Buffer("out", (size,), FLOAT32)
    body = loops("i", (size,), lambda i: store(out, i, a[i % n] * cast(times, FLOAT32)))
    tile = PrimFunc("tile", (a, out), 1, body, scalars=(times,))
    x = var("x", tensor(m))
    main = function([x], g.call_tir("tile", [x], tensor(2 * m), scalars=[m + 1]))
    found = run_module(Module({"tile": tile, "main": main}), x=f32(1, 2))
    assert np.array_equal(found, f32(3, 6, 3, 6))


@pytest.mark.row("R14")
def test_a_tensor_function_fills_several_tensors() -> None:
    a, low, high = (Buffer(name, (3,), FLOAT32) for name in ("a", "low", "high"))
    body = loops("i", (3,), lambda i: seq(store(low, i, a[i] - 1), store(high, i, a[i] + 1)))
    x = var("x", tensor(3))
    made = g.call_tir("both", [x], tuple_of(x, x).type)
    module = Module({"both": PrimFunc("both", (a, low, high), 2, body), "main": function([x], made)})
    low_, high_ = run_module(module, x=f32(1, 2, 3))
    assert np.array_equal(low_, f32(0, 1, 2)) and np.array_equal(high_, f32(2, 3, 4))


def test_a_tuple_of_arrays_is_an_operand_of_a_tensor_function() -> None:
    a, b, out = (Buffer(name, (2,), FLOAT32) for name in ("a", "b", "out"))
    func = PrimFunc("sub", (a, b, out), 1, loops("i", (2,), lambda i: store(out, i, a[i] - b[i])))
    x, y = var("x", tensor(2)), var("y", tensor(2))
    main = function([x, y], g.call_tir("sub", [tuple_of(y, x)], tensor(2)))
    assert np.array_equal(run_module(Module({"sub": func, "main": main}), x=f32(1, 2), y=f32(5, 5)), f32(4, 3))
