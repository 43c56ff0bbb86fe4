"""Structural equality and hash: what is one up to names, what is not, and that the two agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.semantics import graph
from assay.semantics.analyses.equality import first_difference, structural_equal, structural_hash
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import INT, prelude
from assay.semantics.builder.te import compute, reduce, tensor_function
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.scalar import Var as Symbol, const
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import FuncType, ShapeType, TensorType, TupleType, Type, TypeVar
from assay.semantics.walk import rewrite
from assay.verify.app.stages import lowering_passes
from tests.lower.small_programs import program
from tests.scale import MANY

pytestmark = pytest.mark.row("R38")
DEEP = MANY
OPTIONS = [{}, {"sharing": False}, {"data": False}, {"sharing": False, "data": False}]


def same(a: Any, b: Any, **options: bool) -> bool:
    """Whether two are equal, asked both ways; the hashes agree if they are."""
    equal = structural_equal(a, b, **options)
    assert structural_equal(b, a, **options) == equal
    assert structural_equal(a, a, **options) and structural_equal(b, b, **options)
    given = {k: v for k, v in options.items() if k != "map_free"}
    if equal:
        assert structural_hash(a, **given) == structural_hash(b, **given)
    return equal


def t(*dims: Any, of: Any = FLOAT32) -> TensorType:
    return TensorType(dims, of)


def chain(length: int, dim: Any, last: str = "nn.relu", name: str = "x") -> Function:
    x = graph.var(name, t(dim, 3))
    e: Expr = x
    for _ in range(length - 1):
        e = graph.call("nn.relu", e)
    return graph.function([x], graph.call(last, e))


# --- names -------------------------------------------------------------------------------------------------------


def test_names_do_not_count() -> None:
    n, m = Symbol("n"), Symbol("m")
    assert same(chain(3, n), chain(3, m, name="y"))
    assert not same(chain(3, n), chain(3, 4))
    assert not same(chain(3, n), chain(4, n))


def test_variables_are_told_apart() -> None:
    def minus(first: int, second: int) -> Function:
        params = [graph.var("x", INT), graph.var("x", INT)]
        return graph.function(params, graph.call("subtract", params[first], params[second]))

    assert same(minus(0, 1), minus(0, 1))
    assert not same(minus(0, 1), minus(1, 0))
    assert not same(minus(0, 1), minus(0, 0))
    assert structural_hash(minus(0, 1)) != structural_hash(minus(0, 0))


@pytest.mark.parametrize("sharing", [True, False])
def test_one_body_under_swapped_parameters(sharing: bool) -> None:
    """The very same node stands for another function where the parameters are in another order."""
    x, y = graph.var("x", INT), graph.var("y", INT)
    body = graph.call("subtract", x, y)
    a, b = graph.function([x, y], body), graph.function([y, x], body)
    assert not same(a, b, sharing=sharing)
    i, j = Symbol("i"), Symbol("j")
    out = Buffer("o", (4, 4), FLOAT32)
    statement = store(out, (i, j), 1.0)

    def nest(outer: Symbol, inner: Symbol) -> PrimFunc:
        loop = loops("a b", (4, 4), lambda _, __: statement)
        assert hasattr(loop, "body")
        return PrimFunc("f", (out,), 1, replace(loop, var=outer, body=replace(loop.body, var=inner)))

    assert same(nest(i, j), nest(i, j), sharing=sharing)
    assert not same(nest(i, j), nest(j, i), sharing=sharing)


def test_symbols_are_told_apart() -> None:
    n, m = Symbol("n"), Symbol("m")

    def two(a: Any, b: Any) -> Function:
        params = [graph.var("x", t(a)), graph.var("y", t(b))]
        return graph.function(params, graph.shape(a, a + b))

    assert same(two(n, m), two(m, n))
    assert not same(two(n, m), two(n, n))
    assert structural_hash(two(n, m)) != structural_hash(two(n, n))


def test_free_variables_are_themselves() -> None:
    x, y = graph.var("x", t(2)), graph.var("x", t(2))
    a, b = graph.call("nn.relu", x), graph.call("nn.relu", y)
    assert same(a, graph.call("nn.relu", x))
    assert not same(a, b)
    assert same(a, b, map_free=True)
    one = graph.call("add", x, x)
    assert not same(one, graph.call("add", x, y), map_free=True)
    n = Symbol("n")
    free = graph.call("nn.relu", graph.var("x", t(n)))
    assert "free here" in str(first_difference(free, graph.call("nn.relu", graph.var("x", t(n)))))
    closed = graph.function([x], a)
    assert not same(closed, graph.function([y], a))
    assert "bound here, free there" in str(first_difference(closed, graph.function([y], a), sharing=False))


def test_function_types_bind_their_own() -> None:
    def polymorphic(a: TypeVar, n: Symbol, outer: Type | None = None) -> FuncType:
        return FuncType((a, t(n)), TupleType((outer or a, t(n))), type_params=(a,))

    a, b, c = TypeVar("A"), TypeVar("B"), TypeVar("C")
    n, m = Symbol("n"), Symbol("m")
    assert same(polymorphic(a, n), polymorphic(b, m))
    assert not same(polymorphic(a, n), polymorphic(b, m, c))
    assert same(polymorphic(a, n, c), polymorphic(b, m, c))
    assert not same(polymorphic(a, n, c), polymorphic(b, m, a))
    assert not same(FuncType((a,), a, type_params=(a,)), FuncType((a,), a, type_params=(a,), pure=False))
    # a name of the module has the symbols of its own type, whatever the module calls them elsewhere
    assert same(graph.GlobalVar(FuncType((t(n),), t(n)), "f"), graph.GlobalVar(FuncType((t(m),), t(m)), "f"))
    assert not same(graph.GlobalVar(FuncType((t(n),), t(n)), "f"), graph.GlobalVar(FuncType((t(n),), t(4)), "f"))


def test_dataflow_blocks_are_names() -> None:
    """Two lets are in one block, or each in its own; which object the block is does not matter."""

    def lets(first: graph.Dataflow, second: graph.Dataflow) -> Function:
        x, a, b = (graph.var(name, t(2)) for name in "xab")
        inner = graph.let(b, graph.call("abs", a), b, dataflow=second)
        return graph.function([x], graph.let(a, graph.call("abs", x), inner, dataflow=first))

    one, two, three = graph.Dataflow(), graph.Dataflow(), graph.Dataflow()
    for sharing in (True, False):
        assert same(lets(one, one), lets(two, two), sharing=sharing)
        assert same(lets(one, two), lets(three, one), sharing=sharing)
    assert not same(lets(one, one), lets(one, two))


def test_sizes_of_what_is_free_are_free() -> None:
    """A free variable's sizes have their values outside, inside of tuples too; those of a function have them at its
    calls."""
    n, m = Symbol("n"), Symbol("m")
    x = graph.var("x", TupleType((t(n), TupleType((t(4),)))))
    f = graph.var("f", FuncType((t(n),), t(n)))
    for v, equal in ((x, False), (f, True)):
        assert (
            same(graph.tuple_of(graph.print_(v), graph.shape(n)), graph.tuple_of(graph.print_(v), graph.shape(m)))
            == equal
        )


# --- sharing -----------------------------------------------------------------------------------------------------


def dag(levels: int) -> Function:
    x = graph.var("x", t(2))
    e: Expr = x
    for _ in range(levels):
        e = graph.call("add", e, e)
    return graph.function([x], e)


def unfolded() -> Function:
    x = graph.var("x", t(2))
    left, right = (graph.call("add", x, x) for _ in range(2))
    return graph.function([x], graph.call("add", left, right))


def test_sharing_is_identity() -> None:
    assert same(dag(2), dag(2)) and same(unfolded(), unfolded())
    assert not same(dag(2), unfolded())
    assert "shared differently" in str(first_difference(dag(2), unfolded()))
    assert same(dag(2), unfolded(), sharing=False)
    assert structural_hash(dag(2)) != structural_hash(unfolded())


def test_unfolding_is_not_paid_for() -> None:
    assert same(dag(200), dag(200), sharing=False)
    assert not same(dag(200), dag(201), sharing=False)


def test_copies_of_functions_and_lets() -> None:
    """Without sharing, a function that stands twice is two functions, each with its own variables."""

    def function() -> Function:
        y, z = graph.var("y", t(2)), graph.var("z", t(2))
        return graph.function([y], graph.let(z, graph.call("nn.relu", y), graph.call("subtract", z, y)))

    x = graph.var("x", t(2))
    f = function()
    once = graph.function([x], graph.tuple_of(f, f))
    x2 = graph.var("x", t(2))
    twice = graph.function([x2], graph.tuple_of(function(), function()))
    assert not same(once, twice)
    assert same(once, twice, sharing=False)
    y, z = graph.var("y", t(2)), graph.var("z", t(2))
    other = graph.function([y], graph.let(z, graph.call("nn.relu", y), graph.call("subtract", y, z)))
    assert not same(once, graph.function([x], graph.tuple_of(f, other)), sharing=False)


def test_a_let_is_not_a_copy() -> None:
    x, v, w = (graph.var(n, t(2)) for n in "xvw")
    one = graph.let(v, graph.call("nn.relu", x), graph.call("add", v, v))
    two = graph.let(v, graph.call("nn.relu", x), graph.let(w, graph.call("nn.relu", x), graph.call("add", v, w)))
    assert not same(graph.function([x], one), graph.function([x], two), sharing=False)


def test_constants_have_no_identity() -> None:
    c, d = graph.constant(1.0, "float32"), graph.constant(1.0, "float32")
    assert same(graph.call("add", c, c), graph.call("add", c, d))


# --- exactness ---------------------------------------------------------------------------------------------------


@pytest.mark.row("C3")
def test_constants_by_dtype_shape_and_bits() -> None:
    def of(data: Any, dtype: str = "float32") -> Expr:
        return graph.constant(np.array(data).astype(dtype))

    zero, nan = of([0.0, 1.0]), np.array([np.nan], "float32")
    other_nan = (nan.view("uint32") ^ np.uint32(1)).view("float32")
    assert same(zero, of([0.0, 1.0]))
    for different in (of([-0.0, 1.0]), of([0.0, 2.0]), of([[0.0, 1.0]]), of([0.0, 1.0], "float64")):
        assert not same(zero, different)
        assert structural_hash(zero) != structural_hash(different)
    assert same(graph.constant(nan), graph.constant(nan.copy()))
    assert not same(graph.constant(nan), graph.constant(other_nan))
    assert same(zero, of([-0.0, 5.0]), data=False)
    assert not same(zero, of([[0.0, 1.0]]), data=False)


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1.0), (1, True), (0.0, -0.0), (1.0, np.float32(1.0)), ((1,), (True,)), ((1, 2), (2, 1)), ("1", 1), (None, 0)],
)
def test_attributes_with_exact_types(a: Any, b: Any) -> None:
    x = graph.var("x", t(2))

    def with_attribute(value: Any) -> Expr:
        return Call(t(2), operator("nn.relu"), (x,), {"k": value})

    assert same(with_attribute(a), with_attribute(a)) and same(with_attribute(b), with_attribute(b))
    assert not same(with_attribute(a), with_attribute(b))
    assert structural_hash(with_attribute(a)) != structural_hash(with_attribute(b))


def test_nan_as_an_attribute_is_itself() -> None:
    x = graph.var("x", t(2))
    a, b = (Call(t(2), operator("nn.relu"), (x,), {"k": float("nan")}) for _ in range(2))
    assert same(a, b)


def test_attributes_have_no_order() -> None:
    x = graph.var("x", t(2))
    a = Call(t(2), operator("nn.relu"), (x,), {"a": 1, "b": 2})
    assert same(a, Call(t(2), operator("nn.relu"), (x,), {"b": 2, "a": 1}))
    assert not same(a, Call(t(2), operator("nn.relu"), (x,), {"a": 1}))


CHANGES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "operator": lambda x, y: graph.call("subtract", x, y),
    "device": lambda x, y: replace(graph.call("add", x, y), device=VirtualDevice("cuda", 0)),
    "type": lambda x, y: replace(graph.call("add", x, y), type=t(3)),
    "operand": lambda x, y: graph.call("add", y, x),
    "more": lambda x, y: graph.call("nn.relu", graph.call("add", x, y)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_counts(change: str) -> None:
    def function(body: Callable[[Expr, Expr], Expr]) -> Function:
        x, y = graph.var("x", t(2)), graph.var("y", t(2))
        return graph.function([x, y], body(x, y))

    def plain(x: Expr, y: Expr) -> Expr:
        return graph.call("add", x, y)

    assert same(function(plain), function(plain))
    assert not same(function(plain), function(CHANGES[change]))
    assert structural_hash(function(plain)) != structural_hash(function(CHANGES[change]))


def test_types_and_dims() -> None:
    n, m = Symbol("n"), Symbol("m")
    assert same(t(2, 3), t(2, 3)) and same(t(n), t(n))
    assert not same(t(n), t(m)) and same(t(n), t(m), map_free=True)
    assert not same(t(2), t(2, of=INT32)) and not same(t(2, 3), t(3, 2)) and not same(ShapeType((2,)), t(2))
    assert same(t(const(4), n), t(4, n))
    assert not same(t(n + 1), t(n + 2))
    deep: Type = t(2)
    other: Type = t(2)
    for _ in range(DEEP):
        deep, other = TupleType((deep,)), TupleType((other,))
    assert same(deep, other)


# --- patterns, tensor functions, modules -------------------------------------------------------------------------


def test_the_prelude_is_equal_to_itself_made_again() -> None:
    again = prelude.__wrapped__()
    assert again is not prelude()
    for options in OPTIONS:
        assert same(prelude(), again, **options)
    hd, tl = (prelude().definitions[n] for n in ("hd", "tl"))
    assert not same(hd, tl)


def kernel(name: str = "k", extent: Any = 4, kind: str = "sum", scale: float = 2.0) -> PrimFunc:
    def formula(a: Any) -> Any:
        doubled = compute(a.shape, lambda i, j: a[i, j] * scale, name=name)
        return reduce("sum" if kind == "sum" else "max", (a.shape[0],), (a.shape[1],), lambda i, j: doubled[i, j])

    return tensor_function(name, formula, [t(extent, 5)])


def test_tensor_functions() -> None:
    n, m = Symbol("n"), Symbol("m")
    assert same(kernel(), kernel("other"))
    assert same(kernel(extent=n), kernel(extent=m))
    for different in (kernel(extent=3), kernel(extent=n), kernel(kind="max"), kernel(scale=-2.0)):
        assert not same(kernel(), different)
        assert structural_hash(kernel()) != structural_hash(different)
    assert not same(kernel(), replace(kernel(), num_outputs=2))


def test_modules() -> None:
    first, _ = program(3)
    again, _ = program(3)
    assert same(first, again)
    assert not same(first, program(4)[0])
    assert not same(first, first.with_(more=kernel()))
    assert "only the second has it" in str(first_difference(first, first.with_(more=kernel())))
    a = Module(first.definitions, {"w": np.zeros(2, "float32")})
    assert same(a, Module(again.definitions, {"w": np.zeros(2, "float32")}))
    assert not same(a, Module(first.definitions, {"w": -np.zeros(2, "float32")}))
    assert same(a, Module(first.definitions, {"w": np.ones(2, "float32")}), data=False)
    assert not same(a, replace(a, offsets={"w": 64}))


def planned(columns: int) -> Module:
    """A small model, lowered to a planned program."""
    b = Builder()
    with b.function("main", x=tensor(2, 4), w=tensor(4, columns)) as f:
        b.result(b.nn.relu(b.matmul(f.x, b.add(f.w, 1.0))))
    module = b.module()
    for transform in lowering_passes(vector.run).values():
        module = transform(module)
    return module


def test_planned_programs() -> None:
    first, again = planned(3), planned(3)
    assert same(first, again)
    assert not same(first, planned(5))
    slot = first.program.slots["x"]
    moved = replace(first.program, slots={**first.program.slots, "x": replace(slot, offset=64)})
    found = first_difference(first, first.with_(main=moved))
    assert found is not None and found.startswith("definitions['main'].slots['x']") and "offset: None and 64" in found


def test_one_symbol_in_two_functions_is_two_symbols() -> None:
    n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
    assert same(Module({"f": chain(1, n), "g": chain(2, n)}), Module({"f": chain(1, m), "g": chain(2, k)}))


# --- where -------------------------------------------------------------------------------------------------------


def test_the_first_difference_has_a_path_and_both_heads() -> None:
    found = first_difference(chain(3, 4), chain(3, 4, last="abs"))
    assert found is not None and found.startswith("body: nn.relu") and "abs" in found
    b = Builder()
    with b.function("main", x=tensor(4)) as f:
        b.result(b.choose(b.less(b.sum(f.x), 0.0), lambda: b.abs(f.x), lambda: f.x))
    module = b.module()
    text = str(first_difference(module, with_other_branch(module)))
    assert "definitions['main'].body" in text and "then" in text and "abs" in text and "negative" in text
    assert first_difference(module, module) is None


def with_other_branch(module: Module) -> Module:
    def change(node: Expr) -> Expr:
        return graph.call("negative", *node.args) if isinstance(node, Call) and node.op is operator("abs") else node

    root: Expr = module.main
    result = rewrite(root, change)
    assert isinstance(result, Function)
    return module.with_(main=result)
