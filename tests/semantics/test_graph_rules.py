"""What a graph program may not be, and what its nodes may do: one case for each rule and each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.semantics import graph as g
from assay.semantics.devices import ANYWHERE
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Expr, Function, call, function, let, tuple_of, var
from assay.semantics.graph.effects import can_fail, is_copy, is_opaque, kernel_can_trap
from assay.semantics.graph.limits import declared_limits
from assay.semantics.graph.matching import provably_different
from assay.semantics.graph.rules import check_data, derive, type_of
from assay.semantics.module import Module
from assay.semantics.rules import broken
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, const
from assay.semantics.tensor import Buffer, Call as TensorCall, PrimFunc, Seq, loops, store
from assay.semantics.types import (
    DataDef,
    DataType,
    FuncType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    same_type,
)

n, m = Symbol("n"), Symbol("m")
T = TypeVar("T")
LIST = DataDef("List", (T,), {"nil": (), "cons": (T, DataType("List", (T,)))})
OTHER = DataDef("Other", (T,), {"nil": (), "cons": (T, DataType("Other", (T,)))})


def t(*dims: Dim, of: Any = FLOAT32) -> TensorType:
    return TensorType(dims, of)


X, Y, V = var("x", t(2, 3)), var("y", t(n)), var("v", t(2, of=INT64))
YES = g.constant(True)
ZEROS: dict[str, Any] = {"fill_value": 0.0, "dtype": "float32"}


def label(make: Callable[[], Any]) -> str:
    with pytest.raises(Invalid) as caught:
        make()
    return caught.value.label


def labels(main: Function, **definitions: Any) -> list[str]:
    return [w.label for w in broken(Module({"List": LIST, "Other": OTHER, **definitions, "main": main}))]


def kernel(*shape: Dim, body: Any = None, **attrs: Any) -> PrimFunc:
    a, c = Buffer("a", shape, FLOAT32), Buffer("c", shape, FLOAT32)
    copied = loops("i j"[: 2 * len(shape) - 1], shape, lambda *at: store(c, at, a[at])) if body is None else body
    return PrimFunc("k", (a, c), 1, copied, attrs=attrs)


# --- constructors ------------------------------------------------------------------------------------------------


def test_a_condition_is_a_bool_scalar() -> None:
    assert label(lambda: g.assert_op(X)) == "if.C1"
    assert same_type(g.assert_op(YES).type, TupleType(()))


def test_a_vector_of_int64_is_cast_to_as_many_sizes() -> None:
    assert same_type(g.match_cast(V, ShapeType((n, m))).type, ShapeType((n, m)))
    for wrong in (var("v", t(3, of=INT64)), var("v", t(2, 1, of=INT64)), var("v", t(2)), tuple_of(V)):
        assert label(lambda value=wrong: g.match_cast(value, ShapeType((n, m)))) == "match_cast.C1"  # type: ignore[misc]
    assert label(lambda: g.match_cast(V, TupleType((t(), t())))) == "match_cast.C1"


def test_a_constructor_of_another_data_type_is_no_pattern() -> None:
    of = var("of", DataType("List", (t(2),)))
    nil = g.Made(g.constructor(OTHER, "nil"), ())
    assert label(lambda: g.match(of, (nil, X))) == "match.C3"


def test_free_variables_are_not_those_of_patterns() -> None:
    h, xs = var("h", t(2)), var("xs", DataType("List", (t(2),)))
    cons = g.Made(g.constructor(LIST, "cons"), (g.Bind(h), g.Wildcard()))
    made = g.match(xs, (cons, call("add", h, var("y", t(2)))), (g.Wildcard(), var("w", t(2))), partial=True)
    assert [v.name for v in g.free_variables(made)] == ["xs", "y", "w"]


def test_heads_show_attributes_as_they_are_written() -> None:
    assert g.show_head(call("reshape", Y, shape=(1, n))) == "reshape(shape=(1, n)): Tensor((1, n), float32)"
    assert "axis=None" in g.show_head(call("sum", X)) and "shape=((n + 1))" in g.show_head(
        call("full", shape=(n + 1,), **ZEROS)
    )


def test_who_is_pure() -> None:
    says = function([], g.print_(X))
    assert not says.func_type.pure and function([], says).func_type.pure  # to make a function is no action
    assert not function([], X, pure=False).func_type.pure
    assert label(lambda: function([], g.print_(X), pure=True)) == "func.C2"


# --- well-formed -------------------------------------------------------------------------------------------------


POLY = var("poly", T)


class Odd(Expr):
    """An expression of no known class."""


def odd() -> Function:
    return function([X], replace(tuple_of(X), fields=(Odd(X.type),)))


def outside_of_its_function() -> Function:
    p, q = var("p", T), var("q", T)
    return function([], tuple_of(function([p], p, type_params=[T]), function([q], q)))


def of_size(size: Dim) -> Function:
    v = var("v", t(size))
    return function([v], v)


def of_unknown_data() -> Function:
    x = var("x", TupleType((DataType("List"),)))
    return function([x], x)


def wrong_result(result: Type) -> Callable[[], Function]:
    return lambda: function([X], g.call_tir("k", [X], result))


UNKNOWN = g.extern("unknown", [X.type], t(n), pure=True)
BROKEN: list[tuple[list[str], Callable[[], Function]]] = [
    (["graph.C4"], lambda: function([var("x", t(2)), var("x", t(2))], YES)),
    (["graph.C5"], odd),
    (["graph.C11"], outside_of_its_function),
    (["data.C2"], of_unknown_data),
    (["graph.C13"], lambda: of_size(1 << 63)),
    (["graph.C13"], lambda: of_size(const(1 << 62) * 4)),
    ([], lambda: function([], call("full", shape=((1 << 63) - 1,), **ZEROS))),
    ([], lambda: function([], call("full", shape=(0,), **ZEROS))),
    (["graph.C2"], lambda: function([], g.GlobalVar(t(2), "nobody"))),
    (["graph.C2"], lambda: function([], g.GlobalVar(FuncType((t(2, 3),), t(2, 3)), "k"))),
    (["graph.C3"], lambda: function([X], replace(call("abs", X), type=t(3, 2)))),
    (["graph.C3"], lambda: function([Y], replace(call("abs", Y), type=t(m)))),
    ([], lambda: function([X], replace(call(UNKNOWN, X), type=t(m)))),
    (["graph.C3"], lambda: function([X], replace(call(UNKNOWN, X), type=t(m, 3)))),
    (["graph.C3"], lambda: function([X], replace(call(UNKNOWN, X), type=t(m, of=INT64)))),
    ([], wrong_result(t(2, 3))),
    (["call_tir.C2"], wrong_result(t(2, 4))),
    (["call_tir.C2"], wrong_result(t(2, 3, of=INT64))),
    (["call_tir.C1"], wrong_result(TupleType((t(2, 3), t(2, 3))))),
]


def recursive(used: bool) -> Function:
    f = var("f", FuncType((t(2, 3),), t(2, 3)))
    p = var("p", t(2, 3))
    return function([X], let(f, function([p], call(f, p)) if used else f, call(f, X)))


def from_within(inside: Callable[[Expr], Expr], outside: Callable[[Expr], Expr]) -> Callable[[], Function]:
    """A variable of an inner function or let, used inside of it, and by its neighbour."""
    v = var("v", t(n))
    return lambda: function([Y], tuple_of(let(v, g.match_cast(Y, t(n)), inside(v)), outside(v)))


W = var("w", t(m))
BROKEN += [
    (["graph.C1"], lambda: function([], X)),
    (["graph.C1"], from_within(lambda v: v, lambda v: v)),
    (["graph.C1"], lambda: recursive(False)),
    ([], lambda: recursive(True)),
    ([], from_within(lambda v: call("abs", v), lambda v: Y)),
    ([], lambda: function([], function([POLY], POLY, type_params=[T]))),
    (["graph.C8"], lambda: function([X], call("full", shape=(n,), **ZEROS))),
    (["graph.C8"], lambda: function([X], tuple_of(function([W], g.shape(m)), g.shape(m)))),
    ([], lambda: function([X], function([W], g.shape(m)))),
    ([], lambda: function([W], function([X], g.shape(m)))),
]


@pytest.mark.parametrize(("wanted", "make"), BROKEN)
def test_every_break_of_a_rule_is_told(wanted: list[str], make: Callable[[], Function]) -> None:
    assert list(dict.fromkeys(labels(make(), k=kernel(2, 3)))) == wanted


def test_an_error_has_the_place_of_what_is_wrong() -> None:
    twice = replace(Y, span=Span("a.py", line=3))
    inner = function([twice], twice)
    (wrong,) = broken(Module({"main": function([var("z", t(2))], tuple_of(inner, function([twice], X.type and YES)))}))
    assert wrong.label == "graph.C6" and wrong.where == twice.span
    p = var("p", T)
    main = function([], tuple_of(*(function([q], q, type_params=[T]) for q in (p, var("q", T)))), span=Span("b.py"))
    (wrong,) = (w for w in broken(Module({"main": main})) if w.label == "graph.C6")
    assert wrong.where == Span("b.py")
    bad = replace(call("abs", X, span=Span("c.py")), type=t(3, 2))
    (wrong,) = broken(Module({"main": function([X], bad)}))
    assert wrong.where == Span("c.py")


def test_fields_of_data_types_use_their_own_parameters() -> None:
    module = Module({"List": LIST})
    check_data(LIST, module)
    assert label(lambda: check_data(DataDef("Box", (), {"box": (T,)}), module)) == "data.C3"
    assert label(lambda: check_data(DataDef("Box", (), {"box": (t(n),)}), module)) == "data.C4"
    assert label(lambda: check_data(DataDef("Box", (), {"box": (DataType("List"),)}), module)) == "data.C2"


def test_what_a_name_of_the_module_is() -> None:
    x = var("x", t(2))
    two = PrimFunc("k", tuple(Buffer(b, (2,), FLOAT32) for b in "abc"), 2, Seq(()), scalars=(Symbol("s"),))
    module = Module({"f": function([x], x), "k": two}, {"w": np.zeros((2, 3), np.float32)})
    assert same_type(type_of("w", module), t(2, 3)) and same_type(type_of("f", module), FuncType((t(2),), t(2)))
    assert same_type(type_of("k", module), FuncType((t(2), t(of=INT64)), TupleType((t(2), t(2)))))
    assert same_type(type_of("one", Module({"one": kernel(2)})), FuncType((t(2),), t(2)))
    assert label(lambda: type_of("nobody", module)) == "graph.C2"


def test_what_acts_is_used_once_and_outside_of_dataflow() -> None:
    says = g.print_(X)
    u = var("u", says.type)
    assert labels(function([X], tuple_of(says, says))) == ["graph.C7"]
    around = tuple_of(says)
    assert labels(function([X], tuple_of(around, around))) == ["graph.C7"]
    assert labels(function([X], let(u, says, tuple_of(u, u)))) == []
    assert labels(function([X], let(u, says, X, dataflow=g.Dataflow()))) == ["graph.C9"]
    inner = function([], says)
    assert labels(function([X], tuple_of(inner, inner))) == []


def test_the_lets_of_a_dataflow_block_follow_one_another() -> None:
    block = g.Dataflow()
    a, b, c = (var(name, X.type) for name in "abc")

    def lets(*blocks: g.Dataflow | None) -> Function:
        body: Expr = c
        for v, before, of in ((c, b, blocks[2]), (b, a, blocks[1]), (a, X, blocks[0])):
            body = let(v, call("abs", before), body, dataflow=of)
        return function([X], body)

    for blocks in ((block, block, None), (None, block, block), (block, g.Dataflow(), None), (block,) * 3, (None,) * 3):
        assert labels(lets(*blocks)) == []
    for blocks in ((block, None, block), (block, g.Dataflow(), block)):
        assert labels(lets(*blocks)) == ["graph.C10"]


# --- what a node may do ------------------------------------------------------------------------------------------

XS = var("xs", DataType("List", (t(2),)))
NIL = g.Made(g.constructor(LIST, "nil"), ())
A, B = var("a", t(n)), var("b", t(m))
JOINED_IF = replace(g.if_(YES, A, B), type=t(m))
JOINED_MATCH = replace(g.match(XS, (NIL, A), (g.Wildcard(), B)), type=t(m))
CAN_FAIL: list[tuple[Expr, bool]] = [
    (call("abs", X), False),
    (call("reshape", Y, shape=(1, n)), False),
    (call("full", shape=(n - 5,), **ZEROS), True),
    (call("full", shape=(2, n + 1), **ZEROS), True),
    (call("full", shape=(n, m), **ZEROS), False),
    (call("max", X), False),
    (call("max", var("y", t(n, 3))), True),
    (call("max", tuple_of(X).fields[0]), False),
    (call("nn.conv1d", var("a", t(1, 1, 4)), var("w", t(1, 1, 2))), False),
    (call("nn.conv1d", var("a", t(1, 1, 4)), var("w", t(1, 1, n))), True),
    (call("take", X, V, axis=0), True),
    (call(g.extern("f", [X.type], X.type, pure=True), X), True),
    (call(g.constructor(LIST, "cons"), var("h", t(2)), XS), False),
    (g.call_tir("plain", [X], X.type), False),
    (g.call_tir("own", [X], X.type), True),
    (g.match_cast(X, X.type), False),
    (g.match_cast(X, t(n, 3)), True),
    (g.shape(n, 2), False),
    (g.shape(n + 1, 2), True),
    (g.shape(2, n), False),
    (g.shape(2, n + 1), True),
    (g.if_(YES, A, A), False),
    (g.if_(YES, A, B), True),
    (g.if_(YES, tuple_of(A).fields[0], A), False),
    (JOINED_IF, True),
    (JOINED_MATCH, True),
    (g.match(XS, (NIL, A), (g.Wildcard(), A)), False),
    (g.match(XS, (NIL, A), (g.Wildcard(), A), partial=True), True),
    (g.match(XS, (NIL, A), (g.Wildcard(), B)), True),
    (tuple_of(X), False),
    (X, False),
]


@pytest.mark.parametrize(("node", "may"), CAN_FAIL, ids=lambda v: g.show_head(v) if isinstance(v, Expr) else None)
def test_what_can_fail(node: Expr, may: bool) -> None:
    module = Module({"plain": kernel(2, 3, operator="abs"), "own": kernel(2, 3)})
    assert can_fail(node, module) == may


def test_which_tensor_functions_can_trap() -> None:
    """One that claims to be an operator can as much as that; a group of calls cannot."""
    assert kernel_can_trap(kernel(2)) and not kernel_can_trap(kernel(2, group=True, operator="take"))
    assert kernel_can_trap(kernel(2, operator="take")) and not kernel_can_trap(kernel(2, operator="abs"))
    assert not kernel_can_trap(kernel(2, operator="max")) and kernel_can_trap(kernel(n, operator="max"))
    assert kernel_can_trap(kernel(2, n, operator="max"))
    extern = TensorCall("send", (), extern=True)
    assert kernel_can_trap(kernel(2, body=extern, operator="abs")) and kernel_can_trap(
        kernel(2, body=extern, group=True)
    )
    assert not kernel_can_trap(kernel(2, operator="astype"))
    narrow = replace(kernel(2, operator="astype"), params=(Buffer("a", (2,), FLOAT32), Buffer("c", (2,), INT64)))
    assert kernel_can_trap(narrow)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "may"),
    [
        ("nn.conv2d", ((n, 3, 8, 8), (4, 3, 3, 3)), {}, False),
        ("nn.conv2d", ((2, 3, n, 8), (4, 3, 3, 3)), {}, True),
        ("nn.conv2d", ((2, 3, 8, 8), (4, 3, 3, n)), {}, True),
        ("nn.conv2d", ((2, n, 8, 8), (n, n, 3, 3), (n,)), {}, False),
        ("nn.max_pool2d", ((n, n, 8, 8),), {"pool_size": (2, 2)}, False),
        ("nn.max_pool2d", ((1, 2, 8, n),), {"pool_size": (2, 2)}, True),
        ("max", ((n, 3),), {"axis": (1,)}, False),
        ("max", ((n, 3),), {"axis": (-2,)}, True),
        ("max", ((n, 3),), {"axis": None}, True),
        ("sum", ((n, 3),), {"axis": (0,)}, False),
        ("topk", ((n, 3),), {"k": 2}, False),
        ("topk", ((n, 3),), {"k": 2, "axis": 0}, True),
        ("topk", ((2, 3),), {"k": n}, True),
    ],
)
def test_only_sizes_that_decide_it_make_an_operator_trap(
    op: str, shapes: tuple[tuple[Dim, ...], ...], attrs: dict[str, Any], may: bool
) -> None:
    """How many images or rows there are is no reason to keep a call where it is."""
    made = g.call(op, *(var(f"x{i}", TensorType(s, FLOAT32)) for i, s in enumerate(shapes)), **attrs)
    assert can_fail(made, Module({})) == may
    params = tuple(Buffer(f"x{i}", s, FLOAT32) for i, s in enumerate((*shapes, (1,))))
    assert kernel_can_trap(PrimFunc("f", params, 1, Seq(()), {"operator": op, "attrs": attrs})) == may


def test_which_functions_are_kept_whole() -> None:
    assert [is_opaque(function([X], X, **attrs)) for attrs in ({}, {"primitive": 1}, {"compiler": "c"})] == [
        False,
        True,
        True,
    ]
    assert not is_opaque(X)


def test_declared_limits_of_sizes() -> None:
    def limits(upper: dict[str, int], lower: dict[str, int]) -> Any:
        x, y = var("x", t(n, m)), var("y", t(m, Symbol("k")))
        return declared_limits(function([x, y], x, tir_var_upper_bound=upper, tir_var_lower_bound=lower))

    assert limits({}, {}) == () and limits({"m": 5}, {}) == ((m, 0, 5),) and limits({}, {"n": 2}) == ((n, 2, None),)
    assert limits({"m": 4, "n": 0}, {"m": 4}) == ((n, 0, 0), (m, 4, 4))
    assert (
        label(lambda: limits({"m": 3}, {"m": 4})) == "limits.C3" and label(lambda: limits({"m": -1}, {})) == "limits.C1"
    )
    assert label(lambda: limits({}, {"q": 1})) == "limits.C2"


def test_what_is_a_copy() -> None:
    module = Module({"k": kernel(2, 3, operator="device_copy"), "own": kernel(2, 3)})
    assert is_copy(g.device_copy(X, ANYWHERE), module) and is_copy(g.call_tir("k", [X], X.type), module)
    for node in (call("abs", X), g.call_tir("own", [X], X.type), g.call_tir("nobody", [X], X.type), X):
        assert not is_copy(node, module)


# --- types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "different"),
    [
        (2, 2, False),
        (2, 3, True),
        (n, 2, False),
        (2, n, False),
        (n, m, False),
        (n, n + 1, True),
        (n + 1, n, True),
        (n, n, False),
        (n * 2, n + n, False),
    ],
)
def test_dims_that_differ_for_certain(a: Dim, b: Dim, different: bool) -> None:
    assert provably_different(a, b) == different


def test_what_comes_from_two_places_is_joined() -> None:
    """Dims that may differ are fresh, and the same pair is the same size; the rest must be one."""
    a, b = var("a", TupleType((t(n), t(n, 2), ShapeType((n,))))), var("b", TupleType((t(m), t(m, 2), ShapeType((m,)))))
    joined = g.if_(YES, a, b).type
    assert isinstance(joined, TupleType)
    one, two, three = joined.fields
    assert isinstance(one, TensorType) and isinstance(two, TensorType) and isinstance(three, ShapeType)
    assert one.shape[0] is two.shape[0] is three.dims[0] and one.shape[0] not in (n, m)
    assert isinstance(one.shape[0], Scalar) and two.shape[1] == 2
    pure, acting = FuncType((t(2),), t(2)), FuncType((t(2),), t(2), pure=False)
    for left, right in ((pure, acting), (acting, pure), (acting, acting)):
        assert same_type(g.if_(YES, var("f", left), var("h", right)).type, acting)
    assert same_type(g.if_(YES, var("f", pure), var("h", pure)).type, pure)
    pairs: list[tuple[Type, Type]] = [
        (t(2), t(3)), (t(2), t(2, of=INT64)), (t(2), t(2, 2)), (ShapeType((n,)), ShapeType((n, n))),
            (pure, FuncType((t(3),), t(2))),
        (TupleType((t(2),)), TupleType((t(2), t(2)))), (RefType(t(2)), RefType(t(n))),
            (ShapeType((2,)), ShapeType((3,))),
    ]  # fmt: skip
    for left, right in pairs:
        for p, q in ((left, right), (right, left)):
            assert label(lambda p=p, q=q: g.if_(YES, var("p", p), var("q", q))) == "if.C2"  # type: ignore[misc]


def test_an_argument_that_does_not_fit_is_named_by_its_way() -> None:
    """The path of tuple fields to what is wrong, with both types at the symbols that are known by then."""
    x, y = var("x", TupleType((t(n), TupleType((t(2), t(n)))))), var("y", t(n))
    f = function([y, x], y)
    with pytest.raises(
        Invalid, match=r"argument 1\.1\.1 is Tensor\(\(4\), float32\), expected Tensor\(\(3\), float32\)"
    ):
        call(f, var("a", t(3)), var("b", TupleType((t(3), TupleType((t(2), t(4)))))))
    assert same_type(call(f, var("a", t(3)), var("b", TupleType((t(3), TupleType((t(2), t(3))))))).type, t(3))


def test_a_node_is_derived_from_its_parts() -> None:
    module = Module({"List": LIST, "f": function([Y], Y)})
    ref = g.ref(X)
    some = (
        X, tuple_of(X, Y), g.get(tuple_of(X, Y), 1), g.if_(YES, X, X), g.shape(n, 2), g.shape_of(X), ref, g.read(ref),
            g.write(ref, X),
        g.print_(X), g.assert_op(YES), g.match_cast(X, t(n, 3)), g.on_device(X), let(Y, Y, Y),
            g.constructor(LIST, "nil"),
        g.GlobalVar(FuncType((t(n),), t(n)), "f"), function([Y], Y), call("abs", X), g.constant(1.0),
    )  # fmt: skip
    for node in some:
        assert str(derive(node, module)) == str(node.type)
