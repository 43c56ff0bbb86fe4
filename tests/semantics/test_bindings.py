"""Sizes that a function and one inside of it both give a value (rule M4), and how long the question takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.semantics import graph as g
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, Function, call, constant, function, if_, let, match_cast, tuple_of, var
from assay.semantics.graph.bindings import _Around, _Bindings, _intervals, sizes_of_arms
from assay.semantics.graph.scopes import Forest
from assay.semantics.module import Module
from assay.semantics.rules import broken, check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import DataDef, DataType, RefType, TensorType, TypeVar
from assay.semantics.walk import post_order
from assay.verify.anf import check_anf
from tests.observation import observe

pytestmark = pytest.mark.row("R22")
n, m, k = Symbol("n"), Symbol("m"), Symbol("k")


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


def total(x: Expr) -> Expr:
    return call("sum", x, axis=(0,), keepdims=False)


def ones(size: Dim) -> Expr:
    return total(call("full", shape=(size,), fill_value=1, dtype="float32"))


def refused(main: Function) -> list[str]:
    return [w.label for w in broken(Module({"main": main}))]


def message(main: Function) -> str:
    with pytest.raises(Invalid) as caught:
        check(Module({"main": main}))
    assert caught.value.label == "graph.C12"
    return caught.value.message


def shared_let() -> tuple[Expr, Function]:
    """A let that casts x to (n,), and a function whose parameter is (n,) and that may be the first to demand the
    let."""
    x = var("x", tensor(m))
    y, p, z = var("y", tensor(n)), var("p", tensor(n)), var("z", tensor(k))
    cast = let(y, match_cast(x, tensor(n)), ones(n))
    inner = function([p], call("add", cast, ones(n)))
    return cast, function([x, z], tuple_of(call(inner, z), cast))


def test_a_shared_cast_and_a_parameter_do_not_race_for_a_size() -> None:
    _, main = shared_let()
    said = message(main)
    assert "the size n" in said and "parameter p" in said and "matchcast" in said


def test_the_order_would_have_decided() -> None:
    """What the rule is for: the same node, demanded first inside the function or before it, gives a value or a trap."""
    x, z = np.ones(5, np.float32), np.ones(3, np.float32)
    cast, main = shared_let()
    inside_first, alone = run(Module({"main": main}), {"x": x, "z": z}).values()
    assert (inside_first, alone) == (8.0, 5.0)
    assert isinstance(main.body, g.Tuple)
    before = function(main.params, tuple_of(cast, main.body.fields[0]))
    assert refused(before) == ["graph.C12"]
    with pytest.raises(Trap):
        run(Module({"main": before}), {"x": x, "z": z})


def test_a_let_around_the_inner_function_decides() -> None:
    x, z = var("x", tensor(m)), var("z", tensor(k))
    y, p = var("y", tensor(n)), var("p", tensor(n))
    inner = function([p], ones(n))
    main = function([x, z], let(y, match_cast(x, tensor(n)), call(inner, z)))
    assert refused(main) == []
    five, three = np.ones(5, np.float32), np.ones(3, np.float32)
    assert list(run(Module({"main": main}), {"x": five, "z": five}).values()) == [5.0]
    with pytest.raises(Trap) as caught:
        run(Module({"main": main}), {"x": five, "z": three})
    assert "3" in caught.value.message and "5" in caught.value.message


def test_a_parameter_of_the_outer_function_decides() -> None:
    x, p = var("x", tensor(n)), var("p", tensor(n))
    y = var("y", tensor(n))
    inner = function([p], let(y, match_cast(p, tensor(n)), ones(n)))
    assert refused(function([x], call(inner, x))) == []


def test_functions_beside_each_other_share_no_size() -> None:
    x = var("x", tensor(m))
    one, two = (function([p], ones(n)) for p in (var("p", tensor(n)), var("q", tensor(n))))
    assert refused(function([x], tuple_of(call(one, x), call(two, x)))) == []


def from_an_if(x: Expr, z: Expr) -> Expr:
    """A size in which branches differ is bound by the If; whoever names it in an inner function races for it."""
    condition = call("less", total(x), constant(np.float32(1)))
    chosen = if_(condition, x, z)
    assert isinstance(chosen.type, TensorType)
    p = var("p", chosen.type)
    inner = function([p], total(call("add", p, p)))
    return call("add", call(inner, x), total(chosen))


def from_a_call(x: Expr, z: Expr) -> Expr:
    a = var("a", tensor(k))
    unknown = function([a], match_cast(a, tensor(n)), tensor(n))
    made = call(unknown, x)
    assert isinstance(made.type, TensorType)
    p = var("p", made.type)
    return call("add", call(function([p], total(p)), z), total(made))


def from_a_cell(x: Expr, z: Expr) -> Expr:
    cell = var("r", RefType(tensor(n)))
    v, p = var("v", tensor(n)), var("p", tensor(n))
    inner = function([p], ones(n))
    body = call("add", call(inner, x), let(v, g.read(cell), ones(n)))
    return let(cell, g.ref(match_cast(z, tensor(n))), body)


@pytest.mark.parametrize("make", [from_an_if, from_a_call, from_a_cell])
def test_whatever_gives_a_size_its_value_counts(make: Callable[[Expr, Expr], Expr]) -> None:
    x, z = var("x", tensor(m)), var("z", tensor(Symbol("w")))
    assert refused(function([x, z], make(x, z))) == ["graph.C12"]


def test_each_activation_may_cast_to_one_size() -> None:
    """No parameter names the size: each function has its own, from its first cast."""
    x, z = var("x", tensor(m)), var("z", tensor(k))
    a, u, v = var("a", tensor(Symbol("w"))), var("u", tensor(n)), var("v", tensor(n))
    inner = function([a], let(u, match_cast(a, tensor(n)), ones(n)))
    main = function([x, z], tuple_of(call(inner, x), let(v, match_cast(z, tensor(n)), ones(n))))
    assert refused(main) == []
    values = run(Module({"main": main}), {"x": np.ones(5, np.float32), "z": np.ones(3, np.float32)}).values()
    assert list(values) == [5.0, 3.0]


def test_what_a_pattern_takes_out_of_data_counts() -> None:
    t = TypeVar("t")
    of = DataDef("Of", (t,), {"of": (t,)})
    make = g.constructor(of, "of")
    z = var("z", DataType("Of", (tensor(n),)))
    x, p, v = var("x", tensor(m)), var("p", tensor(n)), var("v", tensor(n))
    opened = g.match(z, (g.Made(make, (g.Bind(v),)), ones(n)))
    beside = function([x, z], call("add", call(function([p], ones(n)), x), opened))
    assert [w.label for w in broken(Module({"main": beside, "Of": of}))] == ["graph.C12"]
    inside = function([x, z], g.match(z, (g.Made(make, (g.Bind(v),)), call(function([p], ones(n)), x))))
    assert [w.label for w in broken(Module({"main": inside, "Of": of}))] == []


def test_a_function_that_meets_a_size_around_it_stays_behind_what_gives_it() -> None:
    """The let that gives n its value is demanded first inside another function. Its copies in A-normal form keep the
    function that must agree with n inside of them."""
    x, z = var("x", tensor(m)), var("z", tensor(k))
    y, p = var("y", tensor(n)), var("p", tensor(n))
    meets = function([p], total(p))
    shared = let(y, match_cast(x, tensor(n)), call(meets, z))
    u = var("u", tensor())
    first = function([u], call("add", u, shared))
    module = Module({"main": function([x, z], tuple_of(call(first, constant(np.float32(1))), shared))})
    check(module)
    form = to_anf(module)
    check(form)
    evidence = check_anf(module, form)
    assert evidence.holds, evidence.detail
    for size in (5, 3):
        inputs = {"x": np.ones(5, np.float32), "z": np.ones(size, np.float32)}
        wanted = observe(module, inputs)
        assert (wanted.trap is None) == (size == 5)
        assert wanted.difference(observe(form, inputs)) is None


# --- cost --------------------------------------------------------------------------------------------------------


class Counted(list[tuple[int, int]]):
    """Intervals that count how often they are asked."""

    asked = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def,override]
        Counted.asked += 1
        return super().__getitem__(at)


def looks(functions: int) -> int:
    """How often a module of many inner functions that all bind one size looks at a scope."""
    made: list[Expr] = []
    x = var("x", tensor(m))
    for _ in range(functions):
        p = var("p", tensor(n))
        made.append(call(function([p], ones(n)), x))
    main = function([x], tuple_of(*made))
    root: Expr = main
    found = _Bindings(main, list(post_order(root)))
    found.interval = Counted(found.interval)
    Counted.asked = 0
    assert not [*found.twice(), *found.uses(), *found.sizes()]
    return Counted.asked


def test_many_functions_may_bind_one_size() -> None:
    small, large = looks(200), looks(1600)
    assert large < 8 * small * 1.5


def test_the_outermost_scope_is_found() -> None:
    forest = Forest()
    root = forest.add()
    a, b = forest.add(root), forest.add(root)
    inner = forest.add(a)
    deep = forest.add(inner)
    intervals = _intervals(forest)
    assert [_Around([a, inner], intervals).of(s) for s in (root, a, b, inner, deep)] == [None, a, None, a, a]
    assert [_Around([b, deep], intervals).of(s) for s in (root, a, b, inner, deep)] == [None, None, b, None, deep]
    assert _Around([], intervals).of(deep) is None


# --- arms ---------------------------------------------------------------------------------------------------------


def in_an_arm(
    then: Callable[[Expr], Expr], behind: Callable[[Expr], Expr], otherwise: Callable[[Expr], Expr]
) -> Function:
    """A choice, and what stands behind it, of other tensors."""
    c, x, y = var("c", TensorType((), BOOL)), var("x", tensor(k)), var("y", tensor(n))
    return function([c, x, y], tuple_of(if_(c, then(x), otherwise(x)), behind(y)))


def cast_to_m(x: Expr) -> Expr:
    y = var("y", tensor(m))
    return let(y, match_cast(x, tensor(m)), total(y))


def odd_arms(main: Function) -> list[str]:
    assert refused(main) == []
    return [w.label for w in sizes_of_arms(main)]


def test_a_size_of_an_arm_has_no_value_outside_of_it() -> None:
    """The graph would compare the two where the arm has run; a planned program, which knows no sizes of arms behind
    them, would not."""
    wrong = in_an_arm(cast_to_m, cast_to_m, total)
    assert odd_arms(wrong) == odd_arms(in_an_arm(total, cast_to_m, cast_to_m)) == ["graph.C14"]
    c = var("c", TensorType((), BOOL))
    twice = function(
        [c, *(xs := [var(a, tensor(k)) for a in "xy"])],
        tuple_of(*(if_(c, cast_to_m(x), total(x)) for x in xs)),
    )
    assert odd_arms(twice) == ["graph.C14"]


def test_each_arm_has_its_own() -> None:
    """Of one choice one arm runs; what is known around both has to agree; and in an arm a size may be met again."""
    assert odd_arms(in_an_arm(cast_to_m, total, cast_to_m)) == []
    assert odd_arms(in_an_arm(lambda x: if_(constant(True), cast_to_m(x), cast_to_m(x)), total, cast_to_m)) == []
    assert odd_arms(in_an_arm(lambda x: call("add", cast_to_m(x), cast_to_m(x)), total, total)) == []
    c, x, y = var("c", TensorType((), BOOL)), var("x", tensor(k)), var("y", tensor(m))
    around = function([c, x], let(y, match_cast(x, tensor(m)), if_(c, cast_to_m(x), total(y))))
    assert odd_arms(around) == []
    nested = in_an_arm(lambda x: call("add", if_(constant(True), cast_to_m(x), total(x)), cast_to_m(x)), total, total)
    assert odd_arms(nested) == ["graph.C14"]


def test_many_arms_take_little_time() -> None:
    """A chain of choices, the next in the arm of the last."""
    x = var("x", tensor(k))
    body = cast_to_m(x)
    for _ in range(2000):
        body = if_(constant(True), cast_to_m(x), body)
    assert odd_arms(function([x], body)) == []
