"""The prelude: lists, options and trees, run and compared with Python's own lists."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.interp.values import Data
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import (
    INT,
    LIST,
    OPTION,
    TREE,
    cons,
    list_of,
    make_list,
    nil,
    none,
    prelude,
    prelude_function,
    rose,
    some,
    tree_of,
    with_prelude,
)
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call, Expr, Var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.types import DataDef, FuncType, TupleType
from assay.semantics.walk import rewrite

pytestmark = pytest.mark.row("J18", "A8")


def python(value: Any) -> Any:
    """A value of the language as Python's own: lists, tuples, numbers."""
    if isinstance(value, tuple):
        return tuple(map(python, value))
    if not isinstance(value, Data):
        return value.item() if value.shape == () else value.tolist()
    if value.type == "List":
        items = []
        while value.constructor == "cons":
            items.append(python(value.fields[0]))
            value = value.fields[1]
        return items
    return (value.constructor, *map(python, value.fields))


def result_of(make: Callable[[Builder], Any], **inputs: Any) -> Any:
    """What a main function that `make` builds gives; its parameters are int32 scalars."""
    b = Builder()
    for data in (LIST, OPTION, TREE):
        b.data(data)
    with b.function("main", params=dict.fromkeys(inputs, INT)) as f:
        b.result(make(b, *f))
    module = with_prelude(b.module(check=False))
    check(module)
    (value,) = run(module, {n: np.int32(v) for n, v in inputs.items()}).values()
    return python(value)


def numbers(b: Builder, *items: int) -> Var:
    return make_list(b, INT, *(b.constant(i, "int32") for i in items))


def unary(b: Builder, body: Callable[[Var], Any]) -> Expr:
    """A local function of one int32."""
    with b.closure("fn", x=INT) as f:
        b.result(body(f["x"]))
    return f.ref


def binary(b: Builder, body: Callable[[Var, Var], Any]) -> Expr:
    with b.closure("fn", x=INT, y=INT) as f:
        b.result(body(f["x"], f["y"]))
    return f.ref


def call(name: str, *args: Any) -> Callable[[Builder], Any]:
    """A call of the prelude; lists of Python numbers are lists of int32, functions make closures."""

    def made(b: Builder) -> Any:
        def operand(a: Any) -> Any:
            if isinstance(a, list):
                return numbers(b, *a)
            return a(b) if callable(a) else b.constant(a, "int32")

        return b.call(prelude_function(name), *map(operand, args))

    return made


def test_the_prelude_is_well_formed() -> None:
    check(prelude())
    assert prelude().definitions["hd"].type.params[0].args == prelude().definitions["hd"].type.type_params


def test_list_constructor() -> None:
    assert result_of(lambda b: numbers(b)) == []
    assert result_of(lambda b: numbers(b, 1, 2, 3)) == [1, 2, 3]


def test_list_hd_and_tl() -> None:
    assert result_of(call("hd", [3, 4])) == 3
    assert result_of(call("tl", [3, 4, 5])) == [4, 5]


@pytest.mark.parametrize("name", ["hd", "tl"])
def test_hd_and_tl_of_nil_trap(name: str) -> None:
    with pytest.raises(Trap) as trap:
        result_of(call(name, []))
    assert trap.value.kind == "match"


@pytest.mark.parametrize("index", range(5))
def test_list_nth_at_every_index(index: int) -> None:
    items = [7, 0, -3, 12, 5]
    assert result_of(call("nth", items, index)) == items[index]


def test_nth_past_the_end_traps() -> None:
    with pytest.raises(Trap):
        result_of(call("nth", [1, 2], 2))


@pytest.mark.parametrize("index", range(4))
def test_list_update_at_every_index(index: int) -> None:
    items = [1, 2, 3, 4]
    assert result_of(call("update", items, index, 9)) == [*items[:index], 9, *items[index + 1 :]]


def test_update_past_the_end_traps() -> None:
    with pytest.raises(Trap):
        result_of(call("update", [1, 2], 2, 0))


@pytest.mark.parametrize("items", [[], [4], [4, 5, 6]])
def test_list_length_sum_rev(items: list[int]) -> None:
    assert result_of(call("length", items)) == len(items)
    assert result_of(call("sum", items)) == sum(items)
    assert result_of(call("rev", items)) == items[::-1]


def test_list_map_and_filter() -> None:
    assert result_of(call("map", lambda b: unary(b, lambda x: b.add(x, 1)), [1, 2, 5])) == [2, 3, 6]
    assert result_of(call("map", lambda b: unary(b, lambda x: b.add(x, 1)), [])) == []
    big = call("filter", lambda b: unary(b, lambda x: b.greater_equal(x, 3)), [1, 3, 2, 5, 0, 4])
    assert result_of(big) == [3, 5, 4]


def test_map_may_change_the_type() -> None:
    assert result_of(call("map", lambda b: unary(b, lambda x: b.less(x, 2)), [1, 3])) == [True, False]


def test_folds_differ_in_their_order() -> None:
    minus = lambda b: binary(b, lambda x, y: b.subtract(x, y))  # noqa: E731
    assert result_of(call("foldl", minus, 10, [1, 2, 3])) == ((10 - 1) - 2) - 3
    assert result_of(call("foldr", minus, 10, [1, 2, 3])) == 1 - (2 - (3 - 10))
    assert result_of(call("foldr1", minus, [1, 2, 3])) == 1 - (2 - 3)
    assert result_of(call("foldr1", minus, [5])) == 5
    with pytest.raises(Trap):
        result_of(call("foldr1", minus, []))


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([1], []), ([], [2]), ([1, 2, 3], [4, 5])])
def test_concat_and_zip(xs: list[int], ys: list[int]) -> None:
    assert result_of(call("concat", xs, ys)) == xs + ys
    assert result_of(call("zip", xs, ys)) == list(zip(xs, ys, strict=False))


def test_unfolds_count_down() -> None:
    def step(b: Builder) -> Expr:
        with b.closure("step", n=INT) as f:
            stop = b.less(f["n"], 1)
            b.result(
                b.choose(
                    stop,
                    lambda: b.make(OPTION, "none", type_args=(TupleType((INT, INT)),)),
                    lambda: b.call(some, (b.subtract(f["n"], 1), b.multiply(f["n"], 10))),
                )
            )
        return f.ref

    assert result_of(call("unfoldr", step, 3)) == [30, 20, 10]
    assert result_of(call("unfoldl", step, 3)) == [10, 20, 30]
    assert result_of(call("unfoldr", step, 0)) == []


@pytest.mark.parametrize("times", [0, 1, 5])
def test_iterate_and_compose(times: int) -> None:
    def made(b: Builder, x: Var) -> Var:
        twice = unary(b, lambda v: b.multiply(v, 2))
        plus = unary(b, lambda v: b.add(v, 1))
        both = b.call(prelude_function("compose"), twice, plus)
        return b.call(b.call(prelude_function("iterate"), both, b.constant(times, "int32")), x)

    value = 3
    for _ in range(times):
        value = (value + 1) * 2
    assert result_of(made, x=3) == value


def test_trees() -> None:
    def tree(b: Builder) -> Var:
        def leaf(n: int) -> Var:
            return b.call(rose, b.constant(n, "int32"), make_list(b, tree_of(INT)))

        inner = b.call(rose, b.constant(2, "int32"), make_list(b, tree_of(INT), leaf(3), leaf(4)))
        return b.call(rose, b.constant(1, "int32"), make_list(b, tree_of(INT), inner, leaf(5)))

    assert result_of(call("size", tree)) == 5
    doubled = result_of(call("tmap", lambda b: unary(b, lambda x: b.multiply(x, 2)), tree))
    assert doubled == ("rose", 2, [("rose", 4, [("rose", 6, []), ("rose", 8, [])]), ("rose", 10, [])])


@pytest.mark.parametrize(("x", "y"), [(0, 0), (0, 3), (2, 0), (4, 3)])
def test_naturals(x: int, y: int) -> None:
    def added(b: Builder, x: Var, y: Var) -> Var:
        nat = prelude_function("nat")
        return b.call(prelude_function("count"), b.call(prelude_function("nat_add"), b.call(nat, x), b.call(nat, y)))

    assert result_of(added, x=x, y=y) == x + y


def test_a_wrong_nth_is_told_from_the_right_one() -> None:
    """An index that is not counted down shows at every place but the first: to look up the first shows nothing."""

    def change(node: Expr) -> Expr:
        return node.args[0] if isinstance(node, Call) and getattr(node.op, "name", "") == "subtract" else node

    root: Any = prelude().definitions["nth"]
    wrong = {**prelude().definitions, "nth": rewrite(root, change)}
    b = Builder()
    with b.function("main", i=INT) as f:
        b.result(b.call(prelude_function("nth"), numbers(b, 5, 6), f["i"]))
    module = Module({**wrong, **b.module(check=False).definitions})
    assert python(run(module, {"i": np.int32(0)})["output_0"]) == 5
    with pytest.raises(Trap):
        run(module, {"i": np.int32(1)})


def test_long_lists() -> None:
    assert result_of(lambda b, n: b.call(prelude_function("count"), b.call(prelude_function("nat"), n)), n=3000) == 3000


def test_random_lists_against_python() -> None:
    rng = random.Random(7)
    for _ in range(10):
        items = [rng.randrange(-9, 9) for _ in range(rng.randrange(6))]
        keep = result_of(call("filter", lambda b: unary(b, lambda x: b.less(x, 0)), items))
        assert keep == [i for i in items if i < 0]
        assert result_of(call("concat", items, keep)) == items + keep


def test_lists_of_tensors() -> None:
    b = Builder()
    of = tensor(2, 3)
    assert not callable(of)
    with b.function("main", x=of, y=of) as f:
        xs = make_list(b, f.x.type, f.x, f.y)
        with b.closure("twice", t=of) as twice:
            b.result(b.add(twice["t"], twice["t"]))
        b.result(b.call(prelude_function("nth"), b.call(prelude_function("map"), twice, xs), b.constant(1, "int32")))
    module = with_prelude(b.module(check=False))
    check(module)
    y = np.arange(6, dtype="float32").reshape(2, 3)
    (got,) = run(module, {"x": y + 1, "y": y}).values()
    np.testing.assert_array_equal(got, 2 * y)


def test_only_what_is_used_is_added() -> None:
    b = Builder()
    with b.function("main", xs=list_of(INT)) as f:
        b.result(b.call(prelude_function("rev"), f.xs))
    module = with_prelude(b.module(check=False))
    assert set(module.definitions) == {"List", "rev", "foldl", "main"}


def test_a_clash_with_the_prelude_is_refused() -> None:
    with pytest.raises(Invalid, match=r"prelude\.C2"):
        with_prelude(Module({"List": DataDef("List", (), {"end": ()})}))
    with pytest.raises(Invalid, match=r"prelude\.C1"):
        prelude_function("head")


def test_constructors_are_of_their_types() -> None:
    made = {c.name: c.type for c in (nil, cons, none, some, rose)}
    assert all(isinstance(t, FuncType) for t in made.values())
    assert [len(t.params) for t in made.values() if isinstance(t, FuncType)] == [0, 2, 0, 1, 2]
