"""What a caller hands to main is looked through to the end: references, data and functions (rule M4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.interp.graph.boundary import bind, given, shown
from assay.interp.graph.session import Session
from assay.interp.values import Cell, Closure, Data, External, Maker, Shape
from assay.semantics import graph as g
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import call, constant, function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import (
    DataDef,
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
)
from tests.scale import MANY

pytestmark = pytest.mark.row("R19")
n, m = Symbol("n"), Symbol("m")
t = TypeVar("t")
LIST = DataDef("List", (t,), {"Nil": (), "Cons": (t, DataType("List", (t,)))})
LOOP = DataDef("Loop", (), {"At": (TensorType((), FLOAT32), RefType(DataType("Loop")))})
ODD = DataDef("Odd", (t,), {"Odd": (RefType(DataType("Odd", (TupleType((t, t)),))),)})
CONS = g.constructor(LIST, "Cons")


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


S = tensor()
F = FuncType((S,), S)


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def module(of: Type, *more: Type, result: Any = None) -> Module:
    params = [var(f"x{i}" if i else "x", t) for i, t in enumerate((of, *more))]
    done = function(params, constant(np.float32(0)) if result is None else result(*params))
    made = Module({"main": done, "List": LIST, "Loop": LOOP, "Odd": ODD})
    check(made)
    return made


def listed(*values: Any) -> Data:
    made = Data("List", "Nil", ())
    for v in reversed(values):
        made = Data("List", "Cons", (v, made))
    return made


def refused(of: Type, value: Any, **more: Any) -> Invalid:
    types = [TensorType(v.shape, FLOAT32) if k != "sized" else tensor(n) for k, v in more.items()]
    inputs = {"x": value, **{f"x{i}": v for i, v in enumerate(more.values(), 1)}}
    with pytest.raises(Invalid) as caught:
        run(module(of, *types), inputs)
    return caught.value


def closure(make: Callable[..., Any], *types: Type) -> Closure:
    params = [var(f"p{i}", of) for i, of in enumerate(types)]
    return Closure(function(params, make(*params)), None)


LISTS = DataType("List", (S,))
WRONG: dict[str, tuple[Type, Any, str, str]] = {
    "element": (
        LISTS,
        listed(ones(), ones(2)),
        "input.C3",
        "input 'x'.Cons.1.Cons.0 is Tensor((2,), float32), expected Tensor((), float32)",
    ),
    "dtype": (LISTS, listed(np.int32(1)), "input.C3", "input 'x'.Cons.0"),
    "python number": (LISTS, listed(1.0), "input.C3", "input 'x'.Cons.0 is a float"),
    "unknown dtype": (LISTS, listed(np.array("text")), "input.C3", "input 'x'.Cons.0"),
    "tail": (LISTS, Data("List", "Cons", (ones(), ones())), "input.C3", "input 'x'.Cons.1"),
    "another data type": (LISTS, Data("Loop", "Nil", ()), "input.C3", "input 'x' is a data"),
    "constructor": (LISTS, Data("List", "Nought", ()), "input.C3", "Nought of 0 fields"),
    "number of fields": (LISTS, Data("List", "Cons", (ones(),)), "input.C3", "Cons of 1 fields"),
    "cell": (RefType(S), Cell(ones(3)), "input.C3", "input 'x'.value is Tensor((3,), float32)"),
    "cell in a cell": (RefType(RefType(S)), Cell(Cell(np.int32(1))), "input.C3", "input 'x'.value.value"),
    "no cell": (RefType(S), ones(), "input.C3", "input 'x'"),
    "tuple in a cell": (RefType(TupleType((S, S))), Cell((ones(),)), "input.C3", "input 'x'.value"),
    "shape in a cell": (
        RefType(ShapeType((2, 3))),
        Cell(Shape((2, 4))),
        "input.C4",
        "axis 1 of input 'x'.value is 4, expected 3",
    ),
    "sizes of elements": (
        DataType("List", (tensor(m),)),
        listed(ones(2), ones(3)),
        "input.C4",
        "axis 0 of input 'x'.Cons.1.Cons.0 is 3, expected 2, the value of m by axis 0 of input 'x'.Cons.0",
    ),
    "computed size": (
        DataType("List", (TupleType((tensor(m), tensor(m + 1))),)),
        listed((ones(2), ones(2))),
        "input.C4",
        "expected 3",
    ),
    "size that nothing tells": (
        TupleType((DataType("List", (tensor(m),)), RefType(tensor(m + 1)))),
        (listed(), Cell(ones(2))),
        "input.C6",
        "m has no value",
    ),
    "no function": (F, len, "input.C3", "input 'x'"),
    "function of two": (
        F,
        closure(lambda a, b: a, S, S),
        "input.C9",
        "input 'x' is a function of type Callable((Tensor((), float32), Tensor((), float32))",
    ),
    "function of others": (F, closure(lambda a: a, tensor(2)), "input.C9", "input 'x'"),
    "function that gives others": (F, closure(lambda a: tuple_of(a), S), "input.C9", "input 'x'"),
    "function that acts": (F, closure(lambda a: g.read(g.ref(a)), S), "input.C9", "impure"),
    "extern of others": (
        F,
        External(g.extern("f", [TensorType((), INT32)], S, pure=True), abs),
        "input.C9",
        "input 'x'",
    ),
    "extern that is none": (F, External(g.extern("f", [S], S, pure=True), None), "input.C3", "input 'x'"),  # type: ignore[arg-type]
    "constructor of others": (F, Maker(CONS), "input.C9", "input 'x'"),
    "function in a list": (
        DataType("List", (F,)),
        listed(closure(lambda a: a, S), closure(lambda a, b: b, S, S)),
        "input.C9",
        "input 'x'.Cons.1.Cons.0",
    ),
    "missing extern": (
        F,
        closure(lambda a: call(g.extern("away", [S], S, pure=True), a), S),
        "input.C10",
        "the extern function away",
    ),
    "missing function": (F, closure(lambda a: call(g.GlobalVar(F, "away"), a), S), "input.C10", "away: Callable"),
    "missing kernel": (F, closure(lambda a: g.call_tir("away", [a], S), S), "input.C10", "the tensor function away"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_inside_is_said_with_the_path(name: str) -> None:
    of, value, label, said = WRONG[name]
    wrong = refused(of, value)
    assert wrong.label == label and said in wrong.message


RIGHT: dict[str, tuple[Type, Any]] = {
    "list": (LISTS, listed(*[ones()] * 3)),
    "sizes": (
        DataType("List", (TupleType((tensor(m), tensor(m + 1))),)),
        listed((ones(2), ones(3)), (ones(2), ones(3))),
    ),
    "cell": (RefType(RefType(S)), Cell(Cell(ones()))),
    "function": (F, closure(lambda a: call("add", a, a), S)),
    "more general function": (F, closure(lambda a: a, tensor())),
    "impure where any will do": (FuncType((S,), S, pure=False), closure(lambda a: a, S)),
    "extern": (F, External(g.extern("f", [S], S, pure=True), abs)),
    "constructor": (FuncType((S, LISTS), LISTS), Maker(CONS)),
    "object": (ObjectType(), object()),
    "object in a cell": (RefType(ObjectType()), Cell(object())),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_taken(name: str) -> None:
    of, value = RIGHT[name]
    assert list(run(module(of), {"x": value}).values()) == [0.0]


def test_sizes_agree_with_those_of_other_inputs() -> None:
    wrong = refused(RefType(tensor(n)), Cell(ones(3)), sized=ones(2))
    assert wrong.label == "input.C4" and wrong.message.startswith("axis 0 of input 'x'.value is 3, expected 2")


def test_references_may_be_cyclic() -> None:
    first, second = Cell(None), Cell(None)
    first.value, second.value = Data("Loop", "At", (ones(), second)), Data("Loop", "At", (ones(), first))
    of = DataType("Loop")
    assert run(module(of), {"x": first.value})
    second.value = Data("Loop", "At", (ones(2), first))
    assert refused(of, first.value).message.startswith("input 'x'.At.1.value.At.0 is Tensor((2,), float32)")


def test_a_reference_has_one_type() -> None:
    """Were it not asked, this value would be looked at for ever, at larger and larger types."""
    cell = Cell(None)
    cell.value = Data("Odd", "Odd", (cell,))
    wrong = refused(DataType("Odd", (S,)), cell.value)
    assert wrong.label == "input.C8" and "input 'x'.Odd.0.value.Odd.0" in wrong.message
    both = Cell(ones())
    wrong = refused(TupleType((RefType(S), RefType(tensor(m)))), (both, both))
    assert wrong.label == "input.C8" and wrong.message.startswith("input 'x'.1")


def test_what_is_shared_is_looked_at_once() -> None:
    tree = DataDef("Tree", (), {"leaf": (), "node": (DataType("Tree"), DataType("Tree"))})
    shared = Data("Tree", "leaf", ())
    for _ in range(200):
        shared = Data("Tree", "node", (shared, shared))
    made = Module({"main": function([var("x", tree.type)], constant(np.float32(0))), "Tree": tree})
    assert run(made, {"x": shared})


def test_values_may_be_deep() -> None:
    long = [ones()] * 100_000
    wrong = refused(LISTS, listed(*long, ones(2)))
    assert "(199962 steps)" in wrong.message
    assert len(wrong.message) < 700
    nested: Any = ones()
    of: Type = S
    for _ in range(MANY):
        nested, of = (nested,), TupleType((of,))
    bind([(of, given(nested, of, "it"), "it")], {}, {})


def test_what_an_extern_gives_back_is_looked_through() -> None:
    f = g.extern("f", [], RefType(S), pure=True)
    main = function([], g.let(v := var("v", RefType(S)), call(f), constant(np.float32(0))))
    assert v.name == "v"
    made = Module({"main": main})
    assert run(made, {}, externs={"f": lambda: Cell(ones())})
    with pytest.raises(Trap) as caught:
        run(made, {}, externs={"f": lambda: Cell(ones(2))})
    assert caught.value.label == "call.T1" and "the result of f.value is Tensor((2,), float32)" in caught.value.message


def test_a_session_says_it_when_the_input_is_set() -> None:
    session = Session(module(LISTS))
    with pytest.raises(Invalid):
        session.set_input("x", listed(ones(2)))
    session.set_input("x", listed(ones()))
    session.invoke()


def test_paths_are_short() -> None:
    assert shown("input 'x'") == "input 'x'"
    assert shown((("x", "Cons"), "1")) == "x.Cons.1"
