"""Sizes made explicit: what the statements are, which programs are refused, and that nothing tells the two forms
apart."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.shapes import lower_shapes
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Call, CallTIR, Expr, Function, Let, MatchCast, Var
from assay.semantics.graph.sizes import has_explicit_shapes
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import Assert, Store, program_order
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.semantics.types import ShapeType, TensorType, TupleType
from tests.lower.shapes.shape_inputs import inputs
from tests.lower.shapes.shape_programs import HEAD, PROGRAMS, program
from tests.lower.shapes.shape_random import tensor
from tests.observation import told_apart

pytestmark = pytest.mark.row("R10", "U24")


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def lets(module: Module) -> list[Let]:
    found = []
    body = module.main.body
    while isinstance(body, Let):
        found.append(body)
        body = body.body
    return found


def chain(values: list[tuple[Var, Expr]], result: Expr) -> Expr:
    for v, value in reversed(values):
        result = g.let(v, value, result)
    return result


# --- what the statements are -------------------------------------------------------------------------------------


def test_symbols_are_stored_and_what_occurs_again_is_asserted_at_entry() -> None:
    target = lower_shapes(program("entry"))
    kernel = target.kernel("main_shapes")
    stores = [s for s in program_order(kernel.body) if isinstance(s, Store)]
    asserts = [s for s in program_order(kernel.body) if isinstance(s, Assert)]
    # n, m, then n + m and n * m - 2 where they are compared
    assert [str(s.value) for s in stores] == [
        "sizes0[0]", "sizes1[1]", "(heap[0] + heap[1])", "((heap[0] * heap[1]) - 2)",
    ]  # fmt: skip
    assert [s.message for s in asserts] == [
        "axis 1 of parameter 'x' is {}, expected 4",
        "axis 0 of parameter 'y' is {}, expected {} = (n + m)",
        "axis 0 of parameter 'z' is {}, expected {}, the value of m by axis 1 of parameter 'y'",
        "axis 1 of parameter 'z' is {}, expected {}, the value of n by axis 0 of parameter 'x'",
        "axis 2 of parameter 'z' is {}, expected {} = ((n * m) - 2)",
    ]
    assert all(s.kind == "shape" for s in asserts)


def test_the_slots_get_names_by_a_match_cast_of_the_heap() -> None:
    target = lower_shapes(program("entry"))
    names = [n.value.type for n in lets(target) if isinstance(n.value, MatchCast)]
    assert [str(t) for t in names] == ["Shape((n, m, (n + m), ((n * m) - 2)))"]


def test_what_the_type_rules_show_is_not_asked_again() -> None:
    """Operators, a function of the module, and a result of the type of the body need no statement."""
    n = Symbol("n")
    a, x = g.var("a", tensor(n)), g.var("x", tensor(n))
    double = g.function([a], g.call("add", a, a), tensor(n))
    y, z = g.var("y", tensor(n)), g.var("z", tensor(n))
    values = [(y, g.call(g.GlobalVar(double.type, "double"), x)), (z, g.call("add", y, x))]
    module = Module({"double": double, "main": g.function([x], chain(values, z), tensor(n))})
    calls = [b.value for b in lets(lower_shapes(module)) if isinstance(b.value, (Call, CallTIR))]
    assert len([c for c in calls if isinstance(c, CallTIR)]) == 1  # at entry
    assert len(calls) == 4  # with the sizes of x, which it needs, and the two calls


def test_a_function_without_sizes_still_checks_its_numbers() -> None:
    x = g.var("x", tensor(2, 3))
    target = lower_shapes(Module({"main": g.function([x], x)}))
    with pytest.raises(Trap, match="axis 1 of parameter 'x' is 4, expected 3"):
        run(target, {"x": zeros(2, 4)})
    assert np.array_equal(run(target, {"x": zeros(2, 3)})["output_0"], zeros(2, 3))


def test_bounds_are_carried_through() -> None:
    source = program("attributes")
    target = lower_shapes(source)
    given = {"x": np.ones((3, 2), np.float32)}
    wanted, got = (run(module, given, bounds=True)["output_0"] for module in (source, target))
    assert [a.tolist() for a in wanted.interval()] == [a.tolist() for a in got.interval()]


def test_rank_and_dtype_are_the_callers_to_keep() -> None:
    target = lower_shapes(program("composite before its symbol"))
    with pytest.raises(Invalid, match="input 'x' is Tensor"):
        run(target, {"x": zeros(2, 2), "y": zeros(1)})


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lowered_module_is_well_formed_and_has_a_text(name: str) -> None:
    source = program(name)
    before = show(source)
    target = lower_shapes(source)
    check(target)
    assert show(source) == before
    text = show(target)
    again = parse(text)
    assert first_difference(target, again) is None and show(again) == text
    functions = [d for d in target.definitions.values() if isinstance(d, Function)]
    assert functions and all(map(has_explicit_shapes, functions))
    assert show(lower_shapes(source)) == text  # the same names every time


# --- the same observations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_tells_the_two_forms_apart(name: str) -> None:
    source = program(name)
    target = lower_shapes(source)
    rng = random.Random(name)
    for i in range(40):
        given = inputs(source.main, rng, (1, 2, 3, 6)[i % 4])
        assert told_apart(source, target, given) is None, given


@pytest.mark.parametrize(
    ("name", "shapes", "words"),
    [
        ("entry", ((2, 4), (5, 3), (3, 2, 4)), None),
        ("entry", ((2, 4), (5, 3), (2, 2, 4)), "axis 0 of parameter 'z' is 2, expected 3, the value of m by axis 1"),
        ("match-casts", ((4, 6), (3, 3)), None),
        (
            "match-casts",
            ((4, 6), (3, 2)),
            "axis 1 of the value is 2, expected 3, the value of k by axis 0 of the value",
        ),
        ("calls", ((2, 2), (2,)), "axis 0 of parameter 'b' is 2, expected 4 = (k * 2)"),
        ("local functions", ((2,), (2,)), None),
        (
            "local functions",
            ((2,), (3,)),
            "axis 0 of parameter 'a' is 3, expected 2, the value of n by axis 0 of parameter 'x'",
        ),
        ("functions as values", ((2,),), None),
        (
            "functions as values",
            ((3,),),
            "f(): Tensor((j), float32): axis 0 of the value is 2, expected 3, the value of j",
        ),
        ("tensor functions", ((2,), (4,)), None),
        ("result", ((3,), (3, 2)), "axis 0 of result.2 is 3, expected 6 = (n * 2)"),
    ],
)
def test_runs_that_hold_and_runs_that_fail(name: str, shapes: tuple[tuple[int, ...], ...], words: str | None) -> None:
    source = program(name)
    target = lower_shapes(source)
    given = {p.name: np.zeros(s, _dtype(p)) for p, s in zip(source.main.params, shapes, strict=True)}
    assert told_apart(source, target, given) is None
    if words is None:
        run(target, given)
    else:
        with pytest.raises(Trap) as caught:
            run(target, given)
        assert caught.value.kind == "shape" and words in caught.value.message


def _dtype(of: Var) -> Any:
    assert isinstance(of.type, TensorType)
    return of.type.dtype.numpy


def test_sizes_wrap_at_64_bits_in_both_forms() -> None:
    n, m = Symbol("n"), Symbol("m")
    x, y, z = g.var("x", tensor(n, m)), g.var("y", tensor(m)), g.var("z", tensor(n * n + m))
    source = Module({"main": g.function([x, y, z], y)})
    target = lower_shapes(source)
    # 2**32 squared is 0 modulo 2**64
    good = {"x": zeros(2**32, 0), "y": zeros(0), "z": zeros(0)}
    assert told_apart(source, target, good) is None
    assert run(target, good)["output_0"].shape == (0,)
    far = {"x": zeros(2**31, 0), "y": zeros(0), "z": zeros(0)}
    assert told_apart(source, target, far) is None
    with pytest.raises(Trap, match="expected 4611686018427387904 = "):
        run(target, far)


def test_a_computed_size_that_is_negative_is_refused_but_an_offset_may_be() -> None:
    n = Symbol("n")
    x = g.var("x", tensor(n))
    part = g.call("strided_slice", x, axes=(0,), begin=(n - 4,), end=(n,), strides=(1,))
    v = g.var("v", part.type)
    source = Module({"main": g.function([x], chain([(v, part)], v))})
    target = lower_shapes(source)
    for size in range(7):
        assert told_apart(source, target, {"x": np.arange(size, dtype=np.float32)}) is None
    assert run(target, {"x": np.arange(6, dtype=np.float32)})["output_0"].tolist() == [2, 3, 4, 5]


def test_each_activation_has_sizes_of_its_own() -> None:
    source = program("recursion")
    target = lower_shapes(source)
    given = {"x": zeros(2), "i": np.int32(3)}
    assert told_apart(source, target, given) is None
    # k is 2, 4, 8 and then 16: k + 1 ones are added on the way back
    assert int(run(target, given)["output_0"]) == 3 + 5 + 9
    with pytest.raises(Trap, match=r"the size \(k - 4\) is -3"):
        run(target, {"x": zeros(1), "i": np.int32(0)})


# --- inside other functions --------------------------------------------------------------------------------------


def test_a_primitive_function_checks_its_own_sizes_and_sees_those_around_it() -> None:
    n = Symbol("n")
    x, y, p = g.var("x", tensor(n)), g.var("y", tensor(Symbol("m"))), g.var("p", tensor(n))
    inner = g.function([p], g.call("add", p, p), primitive=True)
    f, r = g.var("f", inner.type), g.var("r", tensor(y.type.shape[0]) if isinstance(y.type, TensorType) else y.type)
    source = Module({"main": g.function([x, y], chain([(f, inner), (r, g.call(f, y))], r))})
    target = lower_shapes(source)
    assert next(b.value for b in lets(target) if b.var.name == "f") is inner
    assert told_apart(source, target, {"x": zeros(2), "y": zeros(2)}) is None
    for module in (source, target):
        with pytest.raises(Trap, match="parameter 'p' is 3, expected 2, the value of n by") as caught:
            run(module, {"x": zeros(2), "y": zeros(3)})
        assert caught.value.kind == "shape"


# --- refused -----------------------------------------------------------------------------------------------------


def either_way(first: Dim, second: Dim, last: Dim | None = None) -> Module:
    """Casts of y in the branches of an If, and perhaps one behind it."""
    x, y, c = (
        g.var("x", tensor(Symbol("n"))),
        g.var("y", tensor(Symbol("m"))),
        g.var("c", TensorType((), dtype("bool"))),
    )
    ends = []
    for d in (first, second):
        v = g.var(f"a{len(ends)}", tensor(d))
        ends.append(chain([(v, g.match_cast(y, tensor(d)))], x))
    values = [(g.var("r", x.type), g.if_(c, *ends))]
    if last is not None:
        values.append((g.var("b", tensor(last)), g.match_cast(y, tensor(last))))
    return Module({"main": g.function([x, y, c], chain(values, x))})


def test_a_symbol_may_get_its_value_in_each_branch() -> None:
    k = Symbol("k")
    source = either_way(k, k)
    target = lower_shapes(source)
    for c in (np.True_, np.False_):
        assert told_apart(source, target, {"x": zeros(2), "y": zeros(3), "c": c}) is None


def test_a_symbol_of_one_branch_that_is_met_again_behind_it_is_refused() -> None:
    k, j = Symbol("k"), Symbol("j")
    with pytest.raises(Unsupported, match="the size k gets its value on one way") as caught:
        lower_shapes(either_way(k, j, k))
    assert caught.value.label == "shapes.C1"
    lower_shapes(either_way(k, j, Symbol("i")))


def test_a_symbol_of_a_closure_that_gets_a_value_around_it_later_is_refused() -> None:
    k = Symbol("k")
    x, a = g.var("x", tensor(Symbol("n"))), g.var("a", tensor(k))
    inner = g.function([a], a)
    f, b = g.var("f", inner.type), g.var("b", tensor(k))
    values: list[tuple[Var, Expr]] = [(f, inner), (b, g.match_cast(x, tensor(k)))]
    r = g.call(f, x)
    module = Module({"main": g.function([x], chain([*values, (g.var("r", r.type), r)], x))})
    with pytest.raises(Unsupported, match="the size k"):
        lower_shapes(module)


def test_a_value_of_very_many_parts_is_refused() -> None:
    of: TensorType | TupleType = tensor(2)
    for _ in range(13):
        of = TupleType((of, of))
    x = g.var("x", of)
    with pytest.raises(Unsupported, match="more than 4096 parts") as caught:
        lower_shapes(Module({"main": g.function([x], x)}))
    assert caught.value.label == "shapes.C2"


# --- the language ------------------------------------------------------------------------------------------------


def test_a_vector_of_sizes_can_be_taken_as_a_shape() -> None:
    k = Symbol("k")
    v = g.var("v", TensorType((2,), dtype("int64")))
    s = g.var("s", ShapeType((k, 3)))
    z = g.var("z", tensor(k))
    values: list[tuple[Var, Expr]] = [
        (s, g.match_cast(v, s.type)),
        (z, g.call("full", shape=(k,), fill_value=1.0, dtype="float32")),
    ]
    source = Module({"main": g.function([v], chain(values, z))})
    check(source)
    target = lower_shapes(source)
    assert run(source, {"v": np.array([4, 3])})["output_0"].shape == (4,)
    for sizes, words in (((4, 3), ""), ((4, 2), "axis 1 of the value is 2, expected 3"), ((-1, 3), "size 0 is -1")):
        given = {"v": np.array(sizes)}
        assert told_apart(source, target, given) is None
        if words:
            with pytest.raises(Trap, match=words) as caught:
                run(source, given)
            assert caught.value.kind == "shape"


def test_with_explicit_shapes_a_size_without_a_name_has_no_value() -> None:
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Shape(["n"]):
        n = T.int64()
        R.func_attr({"explicit_shapes": True})
        return R.shape([n])
"""
    module = parse(HEAD + text, "m.py")
    with pytest.raises(Trap, match="the size n has no name here") as caught:
        run(module, {"x": zeros(2)})
    assert caught.value.kind == "shape" and caught.value.label == "size.T2"


def test_with_explicit_shapes_a_size_keeps_the_first_value_that_it_was_given() -> None:
    text = """
    @R.function
    def main(v: R.Tensor((1,), "int64"), w: R.Tensor((1,), "int64")) -> R.Shape(["n"]):
        n = T.int64()
        R.func_attr({"explicit_shapes": True})
        a = R.match_cast(v, R.Shape([n]))
        b = R.match_cast(w, R.Shape([n]))
        return R.shape([n])
"""
    module = parse(HEAD + text, "m.py")
    assert run(module, {"v": np.array([2]), "w": np.array([3])})["output_0"].dims == (2,)
