"""The proof of A-normal form by itself: what it must accept although it looks different, what it must refuse although
it looks the same, what it leaves undecided, and how long it takes. Wrong passes are in tests/museum."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, FLOAT32, INT32, INT64
from assay.semantics.errors import Span
from assay.semantics.graph import (
    Expr,
    Function,
    Var,
    call,
    constant,
    extern,
    function,
    get,
    if_,
    let,
    print_,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.types import FuncType, TensorType
from assay.verify.anf import check_anf, function_fault
from tests.museum.naive_anf import naive_anf
from tests.scale import FEW, MANY

F = TensorType((2, 3), FLOAT32)
S = TensorType((), INT32)
B = TensorType((), BOOL)
I2 = TensorType((2,), INT64)


def module(*params: Var, body: Expr) -> Module:
    return Module({"main": function(params, body)})


def lets(*steps: tuple[Var, Expr], result: Expr) -> Expr:
    for v, value in reversed(steps):
        result = let(v, value, result)
    return result


def refusal(source: Module, target: Module) -> str:
    evidence = check_anf(source, target)
    assert not evidence.holds
    return evidence.detail


def accepted(source: Module, target: Module) -> bool:
    evidence = check_anf(source, target)
    assert evidence.holds, evidence.detail
    return True


# --- accepted --------------------------------------------------------------------------------------------------------


@pytest.mark.row("A1")
def test_a_closed_function_shared_by_two_depths() -> None:
    """The same function literal is used by main and by another function: its number does not depend on the depth."""
    x, y, z = var("x", F), var("y", F), var("z", F)
    inner = function([y], call("exp", y))
    outer = function([z], call(inner, call("nn.relu", z)))
    source = module(x, body=call("add", call(inner, x), call(outer, x)))
    e, n, m = var("e", F), var("n", F), var("m", F)
    f, g = var("f", inner.type), var("g", outer.type)
    a, b, r = var("a", F), var("b", F), var("r", F)
    low = function([y], lets((e, call("exp", y)), result=e))
    high = function([z], lets((n, call("nn.relu", z)), (m, call(f, n)), result=m))
    steps = [(f, low), (a, call(f, x)), (g, high), (b, call(g, x)), (r, call("add", a, b))]
    assert accepted(source, module(x, body=lets(*steps, result=r)))


def test_equal_expressions_may_be_merged() -> None:
    x = var("x", F)
    source = module(x, body=call("add", call("exp", x), call("exp", x)))
    e, r = var("e", F), var("r", F)
    assert accepted(source, module(x, body=lets((e, call("exp", x)), (r, call("add", e, e)), result=r)))


def failing_in_both() -> tuple[Var, Var, Var, Module]:
    x, i, c = var("x", F), var("i", I2), var("c", B)
    t = call("take", x, i, axis=0)
    return x, i, c, module(x, i, c, body=if_(c, call("exp", t), t))


def test_what_fails_is_bound_in_each_branch() -> None:
    _, _, _, source = failing_in_both()
    assert accepted(source, naive_anf(source))


def captured(before: bool) -> tuple[Module, Callable[[bool], Module]]:
    """A closure whose body demands `take`, which main demands before the closure is made, or not at all."""
    x, y, i = var("x", F), var("y", F), var("i", I2)
    a, g = var("a", F), var("g", FuncType((F,), F))
    t = call("take", x, i, axis=0)
    f = function([y], call("add", y, t))
    source = let(a, t if before else x, let(g, f, call(g, a)))

    def target(outside: bool) -> Module:
        k, s, b, r = var("k", F), var("s", F), var("b", F), var("r", F)
        take = call("take", x, i, axis=0)
        value = a if before else b
        step = [] if outside else [(b, call("take", x, i, axis=0))]
        body = lets(*step, (s, call("add", k, value if outside or before else b)), result=s)
        first = [(a, take)] if before else [(a, x)] if not outside else [(b, take), (a, x)]
        return module(x, i, body=lets(*first, (g, function([k], body)), (r, call(g, a)), result=r))

    return module(x, i, body=source), target


def test_a_closure_may_name_what_has_succeeded() -> None:
    source, target = captured(before=True)
    assert accepted(source, target(True))


def test_a_closure_must_not_name_what_was_not_demanded() -> None:
    source, target = captured(before=False)
    assert accepted(source, target(False))
    assert "take" in refusal(source, target(True))


def test_a_closure_may_name_a_branch_that_was_decided() -> None:
    """The If around `take` was evaluated before: whichever branch is taken again, it succeeded."""
    x, y, i, c = var("x", F), var("y", F), var("i", I2), var("c", B)
    a, g = var("a", F), var("g", FuncType((F,), F))
    either = if_(c, call("take", x, i, axis=0), x)
    source = module(x, i, c, body=let(a, either, let(g, function([y], call("add", y, either)), call(g, a))))
    assert accepted(source, naive_anf(source))
    k, s, r, t = var("k", F), var("s", F), var("r", F), var("t", F)
    chosen = if_(c, lets((t, call("take", x, i, axis=0)), result=t), x)
    body = lets((s, call("add", k, a)), result=s)
    steps = [(a, chosen), (g, function([k], body)), (r, call(g, a))]
    assert accepted(source, module(x, i, c, body=lets(*steps, result=r)))


def test_a_recursive_function_that_another_names() -> None:
    n, k, j = var("n", S), var("k", S), var("j", S)
    f = var("f", FuncType((S,), S))
    zero = constant(np.int32(0))
    helper = function([j], call(f, call("subtract", j, constant(np.int32(1)))), S)
    loop = function([k], if_(call("less_equal", k, zero), k, call(helper, k)), S)
    source = module(n, body=let(f, loop, call(f, n)))
    assert accepted(source, naive_anf(source))


def test_a_schedule_may_reorder_what_is_total() -> None:
    x, a, b, r = var("x", F), var("a", F), var("b", F), var("r", F)
    first, second = (a, call("exp", x)), (b, call("nn.relu", x))
    source = module(x, body=lets(first, second, (r, call("add", a, b)), result=r))
    target = module(x, body=lets(second, first, (r, call("add", a, b)), result=r))
    assert "is bound after" in refusal(source, target)
    assert function_fault(source.main, source, target.main, target, ordered=False) is None


# --- refused ---------------------------------------------------------------------------------------------------------


def test_names_of_nested_functions_are_not_confused() -> None:
    """fn(x){fn(y){x - y}} is not fn(x){fn(y){y - x}}, nor is x - x."""

    def nested(make: Callable[[Var, Var], tuple[Expr, Expr]]) -> Module:
        a, x, y, s = var("a", F), var("x", F), var("y", F), var("s", F)
        inner = function([y], lets((s, call("subtract", *make(x, y))), result=s))
        g, h, p, q = var("g", inner.type), var("h", FuncType((F,), inner.type)), var("p", inner.type), var("q", F)
        outer = function([x], lets((g, inner), result=g))
        return module(a, body=lets((h, outer), (p, call(h, a)), (q, call(p, a)), result=q))

    right = nested(lambda x, y: (x, y))
    assert accepted(right, right)
    for wrong in (lambda x, y: (y, x), lambda x, y: (x, x), lambda x, y: (y, y)):
        assert "is not computed by the target" in refusal(right, nested(wrong))


def test_an_extern_call_keeps_its_place() -> None:
    x = var("x", F)
    log = extern("log", [F], F)
    a, b, r = var("a", F), var("b", F), var("r", F)
    steps = [(a, call(log, x)), (b, call(log, a))]
    source = module(x, body=lets(*steps, (r, call("add", a, b)), result=r))
    assert accepted(source, source)
    again = module(x, body=lets(steps[0], (b, call(log, x)), (r, call("add", a, b)), result=r))
    assert "log" in refusal(source, again)


def test_a_refusal_says_whether_the_action_or_its_operands_are_others() -> None:
    x, a = var("x", F), var("a", F)

    def prints(on: Expr, text: str = "") -> Module:
        return module(
            x, body=lets((a, call("exp", x)), (var("said", print_().type), print_(on, format=text)), result=a)
        )

    other, operands = refusal(prints(x), prints(x, "x is {}")), refusal(prints(x), prints(a))
    assert "is done by the target where the source has" in other, other
    assert "is given other operands than" in operands, operands


def test_a_refusal_says_where() -> None:
    x, i, u = var("x", F), var("i", I2), var("u", F)
    at = Span("model.py", "gather", 7, 5)
    source = module(x, i, body=let(u, call("take", x, i, span=at, axis=0), x))
    assert "model.py:7:5" in refusal(source, module(x, i, body=x))


def test_a_branch_is_not_taken_for_granted() -> None:
    """`take` succeeded in one branch; behind the If it may fail all the same."""
    x, i, c = var("x", F), var("i", I2), var("c", B)
    t = call("take", x, i, axis=0)
    source = module(x, i, c, body=call("add", if_(c, t, x), t))
    assert accepted(source, naive_anf(source))
    a, b, r = var("a", F), var("b", F), var("r", F)
    early = lets((b, call("take", x, i, axis=0)), (a, if_(c, b, x)), (r, call("add", a, b)), result=r)
    assert "take" in refusal(source, module(x, i, c, body=early))


def test_other_definitions_stay() -> None:
    x = var("x", F)
    source = Module({"main": function([x], x)}, {"w": np.zeros(3)})
    assert "constants" in refusal(source, Module(source.definitions, {"w": np.ones(3)}))
    assert "not in the source" in refusal(source, source.with_(more=source.main))


# --- undecided -------------------------------------------------------------------------------------------------------


def test_too_many_paths_are_undecided() -> None:
    """Each level is shared by both branches of the next: running visits 2 ** 60 paths, and so would the form."""
    x, i, c = var("x", F), var("i", I2), var("c", B)
    e: Expr = call("take", x, i, axis=0)
    for _ in range(60):
        e = if_(c, call("exp", e), e)
    source = module(x, i, c, body=e)
    evidence = check_anf(source, module(x, i, c, body=x))
    assert not evidence.holds and evidence.data["undecided"] and "too many paths" in evidence.detail


# --- size ------------------------------------------------------------------------------------------------------------


def chain(n: int) -> Module:
    x = var("x", F)
    steps = []
    last = x
    for i in range(n):
        v = var(f"v{i}", F)
        steps.append((v, call("nn.relu", last)))
        last = v
    return module(x, body=lets(*steps, result=last))


def nested_ifs(n: int) -> Module:
    x, c = var("x", F), var("c", B)
    e: Expr = x
    for i in range(n):
        a, r = var(f"a{i}", F), var(f"r{i}", F)
        e = lets((r, if_(c, lets((a, call("nn.relu", x)), result=a), e)), result=r)
    return module(x, c, body=e)


def failing(n: int) -> Module:
    x, i = var("x", F), var("i", I2)
    steps, last = [], x
    for k in range(n):
        v = var(f"v{k}", F)
        steps.append((v, call("take", last, i, axis=0)))
        last = v
    return module(x, i, body=lets(*steps, result=last))


def printing(n: int) -> Module:
    x = var("x", S)
    return module(x, body=lets(*((var(f"u{k}", print_().type), print_(x)) for k in range(n)), result=x))


def closures(n: int) -> Module:
    """Functions inside functions; each names its own parameter and the one around."""
    x = var("x", F)
    outer = [x]
    for k in range(n):
        outer.append(var(f"p{k}", F))
    inner: Expr | None = None
    for k in range(n, 0, -1):
        p, around = outer[k], outer[k - 1]
        s = var(f"s{k}", F)
        steps: list[tuple[Var, Expr]] = [(s, call("add", p, around))]
        result = s
        if isinstance(inner, Function):
            g, r = var(f"g{k}", inner.type), var(f"r{k}", F)
            steps += [(g, inner), (r, call(g, s))]
            result = r
        inner = function([p], lets(*steps, result=result), F)
    assert isinstance(inner, Function)
    g, r = var("g", inner.type), var("r", F)
    return module(x, body=lets((g, inner), (r, call(g, x)), result=r))


MAKERS = [chain, nested_ifs, failing, printing, closures]


@pytest.mark.row("V20")
@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_large(make: Callable[[int], Module]) -> None:
    source = make(MANY if make is chain else FEW // 2)
    assert accepted(source, source)


@pytest.mark.bench
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_time_is_linear(make: Callable[[int], Module]) -> None:
    """Sixteen times the size takes less than forty times as long: n log n, with room for a loaded machine."""
    times = []
    for n in (1_000, 16_000):
        source = make(n)
        start = time.process_time()
        assert accepted(source, source)
        times.append(time.process_time() - start)
    assert times[1] < 40 * max(times[0], 0.01)


def test_a_multi_result_keeps_its_fields_apart() -> None:
    x = var("x", F)
    t, a = var("t", tuple_of(x, x).type), var("a", F)
    pair = (t, tuple_of(x, call("exp", x)))
    source = module(x, body=get(pair[1], 1))
    assert accepted(source, naive_anf(source))
    e = var("e", F)
    steps = [(e, call("exp", x)), (t, tuple_of(x, e)), (a, get(t, 0))]
    assert "the result" in refusal(source, module(x, body=lets(*steps, result=a)))
