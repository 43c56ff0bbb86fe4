"""Which argument types a call takes, and what its result is then (rule M4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.semantics import graph as g
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, call, function, let, tuple_of, var
from assay.semantics.graph.matching import instantiate, join, provably_different
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import (
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    same_type,
)
from assay.semantics.walk import post_order, rewrite
from tests.semantics.test_type_cost import steps

n, m, k = (Symbol(s) for s in "nmk")
T, A = TypeVar("T"), TypeVar("A")
YES = g.constant(True)


def t(*dims: Dim, of: Any = FLOAT32) -> TensorType:
    return TensorType(dims, of)


def fn(*types: Type, pure: bool = True) -> FuncType:
    return FuncType(types[:-1], types[-1], pure=pure)


def called(params: list[Type], args: list[Type], result: Type = T, of: tuple[TypeVar, ...] = (T,)) -> Type | None:
    """The type of a call, or None where it is refused."""
    f = var("f", FuncType(tuple(params), result, type_params=of))
    try:
        return call(f, *(var(f"a{i}", a) for i, a in enumerate(args))).type
    except Invalid as wrong:
        assert wrong.label == "call.C7"
        return None


ACTS = fn(t(2), t(2), pure=False)
TAKEN: list[tuple[list[Type], list[Type], Type]] = [
    ([T, T], [t(2), t(2)], t(2)),
    ([TupleType((T, t(n)))], [TupleType((t(2), t(3)))], t(2)),
    ([RefType(T)], [RefType(t(2))], t(2)),
    ([RefType(t(n)), T], [RefType(t(2)), t(2)], t(2)),
    ([DataType("List", (T,))], [DataType("List", (t(k),))], t(k)),
    ([ObjectType(), T], [ObjectType(), t(2)], t(2)),
    ([ShapeType((n, m)), T], [ShapeType((2, 3)), t(2)], t(2)),
    ([t(n), t(n + 1), T], [t(2), t(3), t(2)], t(2)),
    ([t(n + 1), T], [t(k), t(2)], t(2)),  # a run tells
    ([ACTS, T], [fn(t(2), t(2)), t(2)], t(2)),
    ([fn(T, T)], [fn(t(2), t(2))], t(2)),
    # the sizes of a function type are its own: two of them may be called the same, and so may one outside
    ([fn(T, t(n), T)] * 2, [fn(t(5), t(2), t(5)), fn(t(5), t(3), t(5))], t(5)),
    ([fn(RefType(t(n)), T, T)], [fn(RefType(t(m)), t(2), t(2))], t(2)),
    # who takes any function may stand where one that takes pure functions is wanted
    ([fn(fn(T, T), T, T), T], [fn(fn(t(2), t(2), pure=False), t(2), t(2)), t(2)], t(2)),
]
REFUSED: list[tuple[list[Type], list[Type]]] = [
    ([T, T], [t(2), t(3)]),
    ([T, T], [t(2), t(2, of=INT64)]),
    ([TupleType((T, t(2)))], [TupleType((t(2),))]),
    ([TupleType((T,))], [TupleType((t(2), t(2)))]),
    ([TupleType((T, t(n), t(n)))], [TupleType((t(2), t(2), t(3)))]),
    ([RefType(t(n)), T, t(n)], [RefType(t(2)), t(2), t(3)]),
    ([RefType(t(2)), T], [RefType(t(n)), t(2)]),
    ([RefType(RefType(t(2))), T], [RefType(RefType(t(3))), t(2)]),
    ([DataType("List", (T,))], [DataType("Other", (t(2),))]),
    ([DataType("List", (T, T))], [DataType("List", (t(2),))]),
    ([ObjectType(), T], [t(2), t(2)]),
    ([t(2), T], [ShapeType((2,)), t(2)]),
    ([t(n, n), T], [t(2), t(2)]),
    ([t(n), t(n + 1), T], [t(2), t(2), t(2)]),
    ([fn(t(2), t(2)), T], [ACTS, t(2)]),
    ([fn(T, T)], [fn(t(2), t(3))]),
    ([fn(T, T)], [fn(t(2), t(2), t(2))]),
    ([fn(fn(T, T, pure=False), T, T), T], [fn(fn(t(2), t(2)), t(2), t(2)), t(2)]),
]


@pytest.mark.parametrize(("params", "args", "result"), TAKEN)
def test_what_is_taken(params: list[Type], args: list[Type], result: Type) -> None:
    found = called(params, args)
    assert found is not None and same_type(found, result)


@pytest.mark.parametrize(("params", "args"), REFUSED)
def test_what_is_refused(params: list[Type], args: list[Type]) -> None:
    assert called(params, args) is None


def test_a_result_has_the_sizes_and_types_of_the_arguments() -> None:
    found = called([T, t(n)], [t(2), t(3)], TupleType((T, t(n), t(n + 1))))
    assert found is not None and same_type(found, TupleType((t(2), t(3), t(4))))
    found = called([fn(T, t(n), T)], [fn(t(5), t(2), t(5))], t(n))
    assert isinstance(found, TensorType) and isinstance(found.shape[0], Symbol) and found.shape[0] is not n


def test_what_is_said_of_the_first_that_does_not_fit() -> None:
    f = var("f", fn(TupleType((t(n), t(n))), t(n)))
    with pytest.raises(Invalid, match=r"argument 0\.1 is Tensor\(\(3\), float32\), expected Tensor\(\(2\), float32\)"):
        call(f, var("a", TupleType((t(2), t(3)))))


def test_what_has_no_value_stays_or_is_fresh() -> None:
    of = TupleType((t(n), t(m)))
    kept = instantiate(of, {m: 3})
    assert same_type(kept, TupleType((t(n), t(3)))) and instantiate(of, {}) is of and instantiate(of, {k: 3}) is of
    fresh = instantiate(of, {m: 3}, fresh=True)
    assert isinstance(fresh, TupleType) and isinstance(fresh.fields[0], TensorType)
    (dim,) = fresh.fields[0].shape
    assert isinstance(dim, Symbol) and dim is not n and dim.name == "n"
    assert same_type(instantiate(TupleType((T, A)), {T: t(2)}), TupleType((t(2), A)))


def test_what_is_computed_from_what_nobody_tells_is_a_size_of_its_own() -> None:
    """Where another dim is that symbol, or a parameter says it, it stays computed."""
    alone = instantiate(t(n + m, k), {k: 3}, fresh=True)
    assert isinstance(alone, TensorType) and isinstance(alone.shape[0], Symbol) and alone.shape[1] == 3
    beside = instantiate(t(n, n + k), {k: 3}, fresh=True)
    assert isinstance(beside, TensorType) and isinstance(beside.shape[0], Symbol) and beside.shape[0] is not n
    assert same_type(beside, t(beside.shape[0], beside.shape[0] + 3))
    assert same_type(instantiate(t(n + m), {n: 2, m: 3}, fresh=True), t(5))


def test_numbers_are_told_apart_at_once() -> None:
    assert steps(lambda: provably_different(2, 3)) <= 3


def test_the_names_of_joined_sizes() -> None:
    for a, b, name in ((n, m, "n"), (n, 2, "n"), (2, n, "d"), (n + 1, m, "d")):
        found = join([t(a), t(b)])
        assert isinstance(found, TensorType) and isinstance(found.shape[0], Symbol)
        assert found.shape[0].name == name and found.shape[0] not in (n, m)


def test_tuples_that_share_their_parts_are_joined_part_by_part() -> None:
    a: Type = t(n)
    b: Type = t(m)
    for _ in range(60):
        a, b = TupleType((a, a)), TupleType((b, b))
    assert isinstance(join([a, b]), TupleType)


# --- expressions around new parts ----------------------------------------------------------------------------------

X = var("x", t(2, 3))
CELL = var("r", RefType(X.type))
CLAUSES = ((g.Bind(var("v", X.type)), X), (g.Wildcard(), X))
MAKE: dict[str, Callable[[Expr], Expr]] = {
    "read": lambda a: g.read(g.ref(a)),
    "write": lambda a: g.write(CELL, a),
    "write to": lambda a: g.write(g.ref(a), a),
    "print": lambda a: g.print_(YES, a),
    "assert": lambda a: g.assert_op(YES, YES, a),
    "match cast": lambda a: g.match_cast(a, t(n, 3)),
    "on device": lambda a: g.on_device(a),
    "shape of": lambda a: g.shape_of(a),
    "match": lambda a: g.match(a, (g.Bind(var("v", X.type)), a), (g.Wildcard(), tuple_of(a).fields[0]), partial=True),
    "if": lambda a: g.if_(YES, X, a),
    "let": lambda a: let(var("v", X.type), YES and X, a),
    "function": lambda a: function([CELL], a),
}


@pytest.mark.parametrize("kind", MAKE)
def test_an_expression_is_rebuilt_around_new_parts_and_only_then(kind: str) -> None:
    e, other = MAKE[kind](X), var("other", X.type)
    assert e.with_children(e.children) is e
    assert e.with_children(list(e.children)) is e
    new = rewrite(e, lambda node: other if node is X else node)
    assert type(new) is type(e) and same_type(new.type, e.type)
    assert [other if c is X else c for c in e.children if c in (X, YES, CELL)] == [
        c for c in new.children if c in (other, YES, CELL)
    ]
    assert X not in list(post_order(new)) and other in list(post_order(new))
