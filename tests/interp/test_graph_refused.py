"""Programs that hide what they do behind their types, and inputs that are none: each is refused, by its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp import graph as interp
from assay.semantics import graph as g
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, Function, call, function, get, if_, let, tuple_of, var
from assay.semantics.graph.effects import can_fail
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import UNIT, DataDef, DataType, FuncType, RefType, ShapeType, TupleType, TypeVar, same_type
from tests.interp.small import BOOL, SCALAR, f32, m, n, number, run, tensor
from tests.observation import observe
from tests.scale import MANY

T = TypeVar("T")
PURE, ACTS = FuncType((), UNIT), FuncType((), UNIT, pure=False)
LIST = DataDef("List", (T,), {"nil": (), "cons": (T, DataType("List", (T,)))})
NIL, CONS = g.constructor(LIST, "nil"), g.constructor(LIST, "cons")
CELLS = DataDef("Cells", (T,), {"cell": (RefType(T),)})


def zeros(*dims: Any) -> Expr:
    return call("full", shape=dims, fill_value=0.0, dtype="float32")


def quiet() -> Function:
    return function([], tuple_of())


def loud() -> Function:
    return function([], g.print_(number(1)))


def joined_functions() -> Expr:
    """fn() -> (pure fn) and fn() -> (printing fn) under one if."""
    return if_(var("c", BOOL), function([], quiet()), function([], loud()))


def reference_to_pure() -> Expr:
    """A cell of (scalar, pure function) is given where (t, any function) may be written."""
    q, a = var("q", RefType(TupleType((T, ACTS)))), var("a", T)
    writes = function([q, a], g.write(q, tuple_of(a, loud())), type_params=[T])
    return call(writes, g.ref(tuple_of(number(1), quiet())), number(2))


def function_of_pure_functions() -> Expr:
    """A function that wants a pure callback is called with one that acts."""
    h, x = var("h", FuncType((FuncType((T,), UNIT, pure=False), T), UNIT)), var("x", T)
    p = var("p", T)
    calls = function([h, x], call(h, function([p], g.print_(p), pure=False), x), type_params=[T])
    cb, y = var("cb", FuncType((SCALAR,), UNIT)), var("y", SCALAR)
    return call(calls, function([cb, y], call(cb, y)), number(1))


def sizes_in_a_list() -> Expr:
    x, xs = var("x", tensor(n)), var("xs", DataType("List", (tensor(4),)))
    made = call(CONS, x, call(NIL, type_args=[x.type]))
    return call(function([xs], xs), made)


def sizes_in_a_cell() -> Expr:
    r = var("r", RefType(TupleType((tensor(n), FuncType((tensor(n),), tensor(n))))))
    p = var("p", tensor(m))
    return g.write(r, tuple_of(var("y", tensor(m)), function([p], p)))


@pytest.mark.parametrize(
    ("label", "make"),
    [
        ("if.C2", joined_functions),
        ("call.C7", reference_to_pure),
        ("call.C7", function_of_pure_functions),
        ("call.C7", sizes_in_a_list),
        ("ref.C2", sizes_in_a_cell),
    ],
)
def test_types_do_not_hide_actions_or_sizes(label: str, make: Callable[[], Expr]) -> None:
    with pytest.raises(Invalid) as caught:
        make()
    assert caught.value.label == label


def test_the_names_of_a_function_type_are_its_own() -> None:
    k = Symbol("k")
    inside = FuncType((tensor(k),), tensor(k))
    assert same_type(TupleType((tensor(n), FuncType((tensor(n),), tensor(n)))), TupleType((tensor(n), inside)))
    assert not same_type(TupleType((tensor(n), inside)), TupleType((tensor(m), inside)))
    assert not same_type(TupleType((inside, tensor(n))), TupleType((inside, tensor(m))))


def unscoped() -> Function:
    p = var("p", T)
    return function([p], p)


def bound_twice() -> Function:
    p, q = var("p", T), var("q", T)
    return function([], tuple_of(function([p], p, type_params=[T]), function([q], q, type_params=[T])))


def constructor_of_another_type() -> Function:
    h, xs = var("h", tensor(2)), var("xs", DataType("List", (SCALAR,)))
    fake = g.Constructor(FuncType((tensor(2), xs.type), xs.type, type_params=(T,)), "List", "cons")
    made = call(CONS, number(1), call(NIL, type_args=[SCALAR]))
    clause = g.Made(fake, (g.Bind(h), g.Wildcard()))
    return function([], let(xs, made, g.match(xs, (clause, h), (g.Wildcard(), zeros(2)))))


def size_of_a_reference() -> Function:
    r = var("r", RefType(tensor(n)))
    return function([r], zeros(n))


@pytest.mark.parametrize(
    ("label", "make"),
    [
        ("graph.C11", unscoped),
        ("graph.C6", bound_twice),
        ("graph.C3", constructor_of_another_type),
        ("graph.C8", size_of_a_reference),
    ],
)
def test_rules_that_the_constructors_cannot_check(label: str, make: Callable[[], Function]) -> None:
    with pytest.raises(Invalid) as caught:
        check(Module({"List": LIST, "main": make()}))
    assert caught.value.label == label


def test_a_size_in_a_data_types_field_is_bound_by_nothing() -> None:
    with pytest.raises(Invalid) as caught:
        check(Module({"Box": DataDef("Box", (), {"box": (tensor(n),)}), "main": function([], number(1))}))
    assert caught.value.label == "data.C4"


def kernel(outputs: int) -> PrimFunc:
    a, b, c = (Buffer(name, (2,), FLOAT32) for name in "abc")
    return PrimFunc("k", (a, b, c), outputs, loops("i", (2,), lambda i: store(c, i, a[i])))


@pytest.mark.parametrize(
    ("label", "args", "result", "scalars"),
    [
        ("call_tir.C1", 1, TupleType((tensor(2), tensor(2))), ()),
        ("call_tir.C3", 2, tensor(2), (3,)),
        ("call_tir.C4", 2, TupleType((TupleType((tensor(2),)),)), ()),
    ],
)
def test_calls_of_tensor_functions_fit(label: str, args: int, result: Any, scalars: tuple[int, ...]) -> None:
    x = var("x", tensor(2))
    main = function([x], g.call_tir("k", [x] * args, result, scalars=scalars))
    with pytest.raises(Invalid) as caught:
        check(Module({"k": kernel(1), "main": main}))
    assert caught.value.label == label


def test_a_size_that_turns_out_negative_is_a_trap_and_keeps_its_place() -> None:
    x = var("x", tensor(n))
    for made in (zeros(n - 5), g.shape(n - 5)):
        assert can_fail(made, Module({}))
        with pytest.raises(Trap, match="is -3") as caught:
            run(function([x], made), x=f32(1, 2))
        assert caught.value.kind == "shape" and caught.value.label == "size.T1"


@pytest.mark.parametrize("value", [None, "ab", [[1.0], [2.0, 3.0]], {1: 2}, object(), np.array([1j]), iter([1.0])])
def test_what_is_no_tensor(value: Any) -> None:
    x = var("x", tensor(2))
    with pytest.raises(Invalid, match="input 'x'") as caught:
        interp.run(Module({"main": function([x], x)}), {"x": value})
    assert caught.value.label == "input.C3"


@pytest.mark.parametrize("value", [None, 5, "12", ["a", 2], [1.7, 2], [True, 2], [-1, 2], [2**70, 2], {3: 1, 2: 1}])
def test_what_is_no_shape(value: Any) -> None:
    s = var("s", ShapeType((n, 2)))
    with pytest.raises(Invalid, match="input 's'") as caught:
        interp.run(Module({"main": function([s], s)}), {"s": value})
    assert caught.value.label == "input.C3"


def test_an_extern_cannot_change_what_it_is_shown() -> None:
    x = var("x", tensor(2))

    def grabs(a: Any) -> Any:
        a += 1
        return a

    main = function([x], call(g.extern("e", [x.type], x.type), x))
    with pytest.raises(ValueError, match="read-only"):
        observe(Module({"main": main}), {"x": f32(1, 2)}, {"e": grabs})


def test_a_chain_of_lets_keeps_only_what_is_still_used() -> None:
    """Each value is dropped after its last use: what is alive at once does not grow with the chain."""
    import weakref

    alive: list[Any] = []
    most = 0

    def watch(node: Expr, value: Any) -> None:
        nonlocal most
        alive.append(weakref.ref(value))
        most = max(most, sum(r() is not None for r in alive))

    names = [var("x", tensor(2)), *(var(f"v{i}", tensor(2)) for i in range(50))]
    body: Expr = names[-1]
    for i in reversed(range(50)):
        body = let(names[i + 1], call("add", names[i], names[i]), body)
    interp.run(Module({"main": function([names[0]], body)}), {"x": f32(1, 2)}, observe=watch)
    assert most <= 3


@pytest.mark.parametrize("count", [MANY])
def test_wide_tuples_and_shared_tuples_take_no_longer_than_they_are(count: int) -> None:
    x = var("x", tensor(2))
    wide = function([x], tuple_of(*(call("negative", x) for _ in range(count))))
    assert len(run(wide, x=f32(1, 2))) == count
    shared: Expr = x
    for _ in range(60):
        shared = tuple_of(shared, shared)
    main = function([x], get(shared, 0))
    check(Module({"main": main}))
    assert observe(Module({"main": main}), {"x": f32(1, 2)}).trap is None


def test_references_that_results_share_are_told_apart() -> None:
    r, s = var("r", RefType(SCALAR)), var("s", RefType(SCALAR))
    one = function([], let(r, g.ref(number(1)), tuple_of(r, r)))
    two = function([], let(r, g.ref(number(1)), let(s, g.ref(number(1)), tuple_of(r, s))))
    found = observe(Module({"main": one}), {}).difference(observe(Module({"main": two}), {}))
    assert found is not None and "share references" in found
