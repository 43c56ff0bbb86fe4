"""The walk and the rewriter; typed construction of the graph IR, of types and of the tensor IR; deep programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.semantics import dtypes, graph, operator as operator_module, tensor, types
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import (
    Call,
    Expr,
    call,
    call_tir,
    constant,
    dims_at,
    free_variables,
    function,
    get,
    if_,
    let,
    matching,
    require_sizes,
    show_head,
    tuple_of,
    var,
)
from assay.semantics.graph.matching import match_types
from assay.semantics.scalar import Var as Symbol, const, show
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    Evaluate,
    Stmt,
    loops,
    program_order,
    seq,
    show_stmt,
    statements,
    store,
    when,
)
from assay.semantics.types import (
    DataDef,
    DataType,
    FuncType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    flatten,
    same_type,
    symbols,
)
from assay.semantics.walk import post_order, rewrite
from tests.scale import MANY

DEEP = MANY
n, m = Symbol("n"), Symbol("m")


def tensor_type(*shape: Any, of: str = "float32") -> TensorType:
    return TensorType(shape, dtype(of))


def relu_chain(length: int) -> tuple[graph.Var, Expr]:
    x = var("x", tensor_type(2, 3))
    e: Expr = x
    for _ in range(length):
        e = call("nn.relu", e)
    return x, e


# --- the walk -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Node:
    """The smallest tree: a name and parts."""

    name: str
    children: tuple[Node, ...] = ()

    def with_children(self, children: Sequence[Node]) -> Node:
        if all(a is b for a, b in zip(children, self.children, strict=True)):
            return self
        return replace(self, children=tuple(children))


def recursive_post_order(node: Node, seen: set[int]) -> list[str]:
    """The definition that the walk must equal, as a book writes it."""
    if id(node) in seen:
        return []
    seen.add(id(node))
    return [*(name for c in node.children for name in recursive_post_order(c, seen)), node.name]


@st.composite
def dags(draw: st.DrawFn) -> Node:
    """A graph whose nodes share parts at random."""
    nodes = [Node("0")]
    for i in range(1, draw(st.integers(1, 12))):
        parts = draw(st.lists(st.sampled_from(nodes), max_size=3))
        nodes.append(Node(str(i), tuple(parts)))
    return nodes[-1]


@given(dags())
def test_post_order_is_the_recursive_one(root: Node) -> None:
    assert [x.name for x in post_order(root)] == recursive_post_order(root, set())


@given(dags())
def test_a_rewrite_changes_nothing_by_itself(root: Node) -> None:
    assert rewrite(root, lambda x: x) is root


@given(dags(), st.integers(0, 11))
def test_a_rewrite_keeps_sharing(root: Node, which: int) -> None:
    new = rewrite(root, lambda x: replace(x, name="new") if x.name == str(which) else x)
    before, after = list(post_order(root)), list(post_order(new))
    assert [x.name if x.name != str(which) else "new" for x in before] == [x.name for x in after]
    touched = {id(x) for x in before if str(which) in recursive_post_order(x, set())}
    assert all((a is b) == (id(a) not in touched) for a, b in zip(before, after, strict=True))


def test_a_walk_may_leave_parts_out() -> None:
    inner = Node("inner", (Node("leaf"),))
    root = Node("root", (inner, Node("last")))
    assert [x.name for x in post_order(root, lambda x: () if x is inner else x.children)] == ["inner", "last", "root"]


def test_a_node_that_a_part_shares_with_its_whole_comes_before_both() -> None:
    leaf = Node("leaf")
    middle = Node("middle", (leaf,))
    assert [x.name for x in post_order(Node("root", (middle, leaf, middle)))] == ["leaf", "middle", "root"]


# --- deep programs ------------------------------------------------------------------------------------------------


def test_a_deep_chain_of_calls() -> None:
    """Typed, walked, rewritten and shown without recursion."""
    x, e = relu_chain(DEEP)
    assert sum(isinstance(node, Call) for node in post_order(e)) == DEEP
    assert free_variables(e) == [x]
    f = function([x], e)
    assert same_type(f.result_type, x.type)
    y = var("y", x.type)
    other = rewrite(e, lambda node: y if node is x else node)
    assert free_variables(other) == [y]
    assert rewrite(e, lambda node: node) is e
    assert show_head(e) == "nn.relu(): Tensor((2, 3), float32)"


def test_a_deep_chain_of_lets() -> None:
    x = var("x", tensor_type(2))
    names = [x, *(var(f"v{i}", x.type) for i in range(DEEP))]
    e: Expr = names[-1]
    for before, v in reversed(list(zip(names, names[1:], strict=False))):
        e = let(v, call("nn.relu", before), e)
    assert free_variables(e) == [x]
    assert same_type(e.type, x.type)


def test_deep_tuples() -> None:
    """Their types are as deep as they are."""
    x = var("x", tensor_type(n))
    e: Expr = x
    for _ in range(DEEP):
        e = tuple_of(e)
    assert str(e.type) == "Tuple(" * DEEP + "Tensor((n), float32)" + ")" * DEEP
    again: Type = tensor_type(n)
    for _ in range(DEEP):
        again = TupleType((again,))
    assert same_type(e.type, again) and not same_type(e.type, TupleType((again,)))
    assert flatten(e.type) == [x.type] and symbols(e.type) == (n,)
    small = dims_at(e.type, {n: 3})
    assert flatten(small)[0].shape == (3,)
    bound: dict[Symbol, Any] = {}
    match_types([e.type], [small], bound)
    assert bound == {n: 3}
    assert let(var("v", again), e, x).type is x.type


def test_a_deep_chain_of_function_calls() -> None:
    """f()()()..., where f gives a function that gives a function."""
    curried: Type = tensor_type(2)
    for _ in range(DEEP):
        curried = FuncType((), curried)
    e: Expr = var("g", curried)
    for _ in range(DEEP):
        e = call(e)
    assert show_head(e) == "call(): Tensor((2), float32)"


def test_deep_statements() -> None:
    b = Buffer("b", (4,), FLOAT32)
    body: Stmt = store(b, 0, 1.0)
    for i in range(DEEP):
        body = Allocate(Buffer(f"t{i}", (1,), FLOAT32), body) if i % 2 else seq(Evaluate(const(i)), body)
    assert sum(1 for _ in program_order(body)) == 2 * DEEP // 2 + DEEP // 2 + 1
    assert show_stmt(body).count("\n") == DEEP
    assert len(list(post_order(body))) == DEEP + DEEP // 2 + 1


# --- what is refused ----------------------------------------------------------------------------------------------

X = var("x", tensor_type(2, 3))
F = var("f", FuncType((tensor_type(n, 3), tensor_type(n)), tensor_type(n, n)))
YES = var("yes", tensor_type(of="bool"))
B = Buffer("b", (2, n), FLOAT32)
T = TypeVar("T")
ID = var("identity", FuncType((T,), T, type_params=(T,)))
OPTION = DataDef("Option", (T,), {"some": (T,), "none": ()})

INVALID: list[tuple[str, Callable[[], Any]]] = [
    ("graph.C13", lambda: require_sizes(var("x", tensor_type(1 << 63)))),
    ("tensor.C22", lambda: tensor.AllocateConst(Buffer("t", (2,), FLOAT32), None, tensor.Seq(()), "w").contents),
    ("dtype.C1", lambda: dtype("float31")),
    ("dtype.C1", lambda: dtype(np.dtype("complex64"))),
    ("dtype.C1", lambda: constant(["text"])),
    ("type.C1", lambda: tensor_type(2, n).static_shape),
    ("type.C1", lambda: tensor_type(2, n).nbytes),
    ("type.C2", lambda: flatten(TupleType((F.type,)))),
    ("type.C2", lambda: dims_at(F.type, {})),
    ("call.C1", lambda: call("add", X)),
    ("call.C1", lambda: call("nn.relu", X, X)),
    ("call.C1", lambda: call("concat")),
    ("call.C2", lambda: call("nn.relu", X, slope=1.0)),
    ("call.C2", lambda: call(F, X, slope=1.0)),
    ("call.C3", lambda: call("reshape", X)),
    ("call.C4", lambda: call("nn.relu", tuple_of(X))),
    ("call.C4", lambda: call("add", X, F)),
    ("call.C5", lambda: call(X, X)),
    ("call.C6", lambda: call(F, X)),
    ("call.C7", lambda: call(F, X, var("y", tensor_type(4)))),
    ("call.C7", lambda: call(F, X, var("y", tensor_type(2, of="float64")))),
    ("call.C7", lambda: call(F, X, var("y", tensor_type(2, 2)))),
    ("call.C7", lambda: call(F, X, tuple_of(X))),
    ("call.C8", lambda: call("nn.frobnicate", X)),
    ("call.C9", lambda: call(ID, X, type_args=[X.type, X.type])),
    ("call.C10", lambda: call(graph.constructor(OPTION, "none"))),
    ("data.C1", lambda: graph.constructor(OPTION, "neither")),
    (
        "data.C2",
        lambda: graph.match(var("o", DataType("Option")), (graph.Made(graph.constructor(OPTION, "none"), ()), X)),
    ),
    ("ref.C1", lambda: graph.read(X)),
    ("ref.C2", lambda: graph.write(graph.ref(X), YES)),
    ("match_cast.C1", lambda: graph.match_cast(X, tensor_type(2, 4))),
    ("match_cast.C1", lambda: graph.match_cast(X, tensor_type(n))),
    ("shape_of.C1", lambda: graph.shape_of(tuple_of(X))),
    ("match.C1", lambda: graph.match(X)),
    ("match.C2", lambda: graph.match(X, (graph.Wildcard(), X), (graph.Wildcard(), YES))),
    ("match.C3", lambda: graph.match(X, (graph.Bind(YES), X))),
    ("match.C3", lambda: graph.match(X, (graph.Fields(()), X))),
    ("match.C3", lambda: graph.match(X, (graph.Made(graph.constructor(OPTION, "none"), ()), X))),
    ("match.C4", lambda: graph.match(tuple_of(X), (graph.Fields(()), X))),
    ("func.C2", lambda: function([X], graph.print_(X), pure=True)),
    ("tuple.C1", lambda: get(tuple_of(X), 1)),
    ("tuple.C1", lambda: get(tuple_of(X), -1)),
    ("tuple.C1", lambda: get(X, 0)),
    ("let.C1", lambda: let(var("v", tensor_type(3, 2)), X, X)),
    ("if.C1", lambda: if_(X, X, X)),
    ("if.C1", lambda: if_(var("c", tensor_type(1, of="bool")), X, X)),
    ("if.C1", lambda: if_(tuple_of(YES), X, X)),
    ("if.C2", lambda: if_(YES, X, tuple_of(X))),
    ("if.C2", lambda: if_(YES, X, var("z", tensor_type(2, 4)))),
    ("func.C1", lambda: function([X], X, tensor_type(3, 2))),
    ("tensor.C1", lambda: B.static_shape),
    ("tensor.C1", lambda: B.nbytes),
    ("tensor.C2", lambda: B[0]),
    ("tensor.C2", lambda: store(B, (0, 0, 0), 1.0)),
    ("tensor.C3", lambda: store(B, (0, 0), const(1))),
    ("tensor.C4", lambda: loops("i", (2, 3), lambda i, j: store(B, (i, j), 1.0))),
    ("tensor.C5", lambda: when(const(1), store(B, (0, 0), 1.0))),
]


@pytest.mark.parametrize(("label", "make"), INVALID)
def test_what_is_refused(label: str, make: Callable[[], Any]) -> None:
    with pytest.raises(Invalid) as caught:
        make()
    assert caught.value.label == label
    assert len(caught.value.message) > 10


def test_every_label_has_a_negative_test() -> None:
    room = Path(graph.__file__).parents[1]
    modules = (graph, matching, types, statements, tensor, dtypes, operator_module)
    files = [Path(module.__file__ or "") for module in modules]
    text = "".join(p.read_text() for p in (*files, room / "ops" / "__init__.py"))
    buffers = re.findall(r'label="(tensor\.C\d+)"', (room / "scalar" / "expression.py").read_text())
    assert {label for label, _ in INVALID} == {*re.findall(r'label="([\w.]+C\d+)"', text), *buffers}


def test_messages_say_what_would_be_right() -> None:
    for make, words in (
        (lambda: call("nn.leakyrelu", X, slope=1.0), ["slope", "alpha"]),
        (lambda: call("add", X), ["2 operands", "1 given"]),
        (lambda: call(F, X, var("y", tensor_type(4))), ["argument 1", "Tensor((4), float32)", "Tensor((2), float32)"]),
        (lambda: call("reshape", X), ["'shape'"]),
        (lambda: dtype("float31"), ["float31", "float32"]),
        (lambda: function([X], X, tensor_type(3, 2)), ["(3, 2)", "(2, 3)"]),
    ):
        with pytest.raises(Invalid) as caught:
            make()
        assert all(w in caught.value.message for w in words), caught.value.message


def test_an_error_has_the_place_of_its_call() -> None:
    span = Span("model.onnx", "node 7")
    with pytest.raises(Invalid) as caught:
        call("add", X, var("y", tensor_type(4)), span=span)
    assert caught.value.where == span
    assert str(caught.value).startswith("model.onnx (node 7): add: ")
    assert str(caught.value).endswith("[broadcast.C1]")


# --- graph construction -------------------------------------------------------------------------------------------


def test_a_call_of_a_function_binds_its_symbols() -> None:
    k = Symbol("k")
    y = call(F, var("a", tensor_type(k + 1, 3)), var("b", tensor_type(1 + k)))
    assert isinstance(y.type, TensorType)
    assert [show(d) for d in y.type.shape] == ["(k + 1)", "(k + 1)"]
    assert same_type(call(F, X, var("y", tensor_type(2))).type, tensor_type(2, 2))
    pair = FuncType((TupleType((tensor_type(n), tensor_type(m))),), tensor_type(m + 2 * n))
    found = call(var("g", pair), tuple_of(var("a", tensor_type(3)), var("b", tensor_type(5)))).type
    assert same_type(found, tensor_type(11))


def test_attributes_are_filled_in() -> None:
    assert dict(call("nn.leakyrelu", X).attrs) == {"alpha": 0.01}
    assert dict(call("sum", X, axis=(0,)).attrs) == {"axis": (0,), "keepdims": False}


def test_constants_are_read_only_and_typed() -> None:
    data = np.ones((2, 3), np.float16)
    c = constant(data)
    assert same_type(c.type, tensor_type(2, 3, of="float16"))
    with pytest.raises(ValueError, match="read-only"):
        c.data[0, 0] = 1
    assert data.flags.writeable
    assert same_type(constant([1, 2], "int8").type, tensor_type(2, of="int8"))
    assert same_type(constant(True).type, tensor_type(of="bool"))
    assert same_type(constant(np.zeros(0, ml_dtypes.bfloat16)).type, tensor_type(0, of="bfloat16"))


def test_types_of_the_other_expressions() -> None:
    pair = tuple_of(X, YES)
    assert str(pair.type) == "Tuple(Tensor((2, 3), float32), Tensor((), bool))"
    assert get(pair, 1).type is YES.type
    assert if_(YES, X, call("nn.relu", X)).type is X.type
    assert let(var("v", X.type), X, pair).type is pair.type
    f = function([X, YES], pair)
    assert str(f.type) == "Callable((Tensor((2, 3), float32), Tensor((), bool)), " + str(pair.type) + ")"
    assert same_type(call(f, X, YES).type, pair.type)
    assert call_tir("k", [X], X.type).type is X.type


@pytest.mark.parametrize(
    "make",
    [
        lambda a: call("nn.relu", a),
        lambda a: call(var("f", FuncType((X.type,), X.type)), a),
        lambda a: call_tir("k", [a], X.type),
        lambda a: tuple_of(a, a),
        lambda a: get(tuple_of(a), 0),
        lambda a: let(var("v", X.type), a, a),
        lambda a: if_(YES, a, a),
        lambda a: function([], a),
    ],
)
def test_every_expression_is_rebuilt_around_new_parts(make: Callable[[Expr], Expr]) -> None:
    other = var("other", X.type)
    e = make(X)
    assert e.with_children(e.children) is e
    new = rewrite(e, lambda node: other if node is X else node)
    assert type(new) is type(e) and same_type(new.type, e.type)
    assert X not in list(post_order(new)) and other in list(post_order(new))
    assert rewrite(new, lambda node: X if node is other else node) is not e


def test_free_variables() -> None:
    x, y, z = (var(c, X.type) for c in "xyz")
    body = call("add", call("add", x, y), z)
    assert free_variables(body) == [x, y, z]
    assert free_variables(function([y], body)) == [x, z]
    assert free_variables(let(z, x, body)) == [x, y]


def test_heads() -> None:
    assert show_head(X) == "x: Tensor((2, 3), float32)"
    assert show_head(call("sum", X, axis=(0,))) == "sum(axis=(0), keepdims=False): Tensor((3), float32)"
    assert show_head(call(var("f", FuncType((X.type,), X.type)), X)) == "f(): Tensor((2, 3), float32)"
    assert show_head(call_tir("k", [X], X.type)) == "call_tir(k): Tensor((2, 3), float32)"
    assert show_head(tuple_of(X)) == "tuple: Tuple(Tensor((2, 3), float32))"
