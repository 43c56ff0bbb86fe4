"""What a hostile reviewer tried on the graph language, and what held: sharing, scopes, purity, inputs, sizes, depth."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np
import pytest

from assay.interp import graph as interp
from assay.interp.values import Event, Shape
from assay.semantics import graph as g
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, Function, Var, call, constant, function, get, if_, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import UNIT, DataDef, DataType, FuncType, RefType, ShapeType, TensorType, TypeVar

n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
t = TypeVar("t")
LIST = DataDef("List", (t,), {"Nil": (), "Cons": (t, DataType("List", (t,)))})
NIL, CONS = g.constructor(LIST, "Nil"), g.constructor(LIST, "Cons")


def tensor(*shape: Dim, of: str = "float32") -> TensorType:
    return TensorType(shape, dtype(of))


SCALAR, BOOL = tensor(), tensor(of="bool")
PURE, IMPURE = FuncType((), UNIT), FuncType((), UNIT, pure=False)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def number(value: float) -> Expr:
    return constant(np.float32(value))


def module(main: Function) -> Module:
    return Module({"List": LIST, "main": main})


def run(main: Function, *, externs: Any = None, trace: list[Event] | None = None, **inputs: Any) -> Any:
    check(module(main))
    found = tuple(interp.run(module(main), inputs, externs=externs, trace=trace).values())
    return found[0] if len(found) == 1 else found


def refused(main: Function) -> str:
    with pytest.raises(Invalid) as caught:
        check(module(main))
    return caught.value.label


# --- call by need, against a definition that is as plain as can be ------------------------------------------------

TICK = g.extern("tick", [SCALAR, SCALAR], SCALAR, pure=True)


def random_function(rng: random.Random, depth: int) -> Function:
    """Shared nodes, lets, branches, clauses and local functions; every call of `tick` has its own number."""
    serial = count()

    def bound(prefix: str) -> Var:
        return var(f"{prefix}{next(serial)}", SCALAR)

    def expr(d: int, env: list[Expr], functions: list[Var], pool: list[Expr]) -> Expr:
        """An expression over `env`; `pool` has the nodes made so far that may be used again here."""

        def part() -> Expr:
            return expr(d - 1, env, functions, pool)

        if pool and rng.random() < 0.25:
            return rng.choice(pool)
        if d <= 0 or rng.random() < 0.05:
            return rng.choice(env)
        made: Expr
        match rng.randrange(8):
            case 0 | 1:
                made = call(TICK, number(next(serial)), part())
            case 2:
                v, value = bound("v"), part()
                made = let(v, value, expr(d - 1, [*env, v], functions, list(pool)))
            case 3:
                made = if_(call("less", part(), number(rng.randrange(4))), part(), part())
            case 4:
                p = bound("p")
                inner = function([p], expr(d - 1, [*env, p], functions, list(pool)), SCALAR)
                made = call(inner, part())
            case 5:
                p = bound("p")
                inner = function([p], expr(d - 1, [*env, p], functions, list(pool)), SCALAR)
                f = var(f"f{next(serial)}", inner.type)
                made = let(f, inner, expr(d - 1, env, [*functions, f], list(pool)))
            case 6 if functions:
                made = call(rng.choice(functions), part())
            case 6:
                made = get(tuple_of(part(), part()), rng.randrange(2))
            case _:
                v, w = bound("m"), bound("m")
                value = tuple_of(part(), part())
                clause = (g.Fields((g.Bind(v), g.Bind(w))), expr(d - 1, [*env, v, w], functions, list(pool)))
                made = g.match(value, clause)
        pool.append(made)
        return made

    x = var("x", SCALAR)
    return function([x], expr(depth, [x], [], []), SCALAR)


class Activation:
    def __init__(self, of: Function, outer: Activation | None) -> None:
        self.of, self.outer = of, outer
        self.values: dict[int, Any] = {}


def owners(root: Function) -> dict[int, tuple[int, ...]]:
    """For each node the chain of functions around all its uses, by the definition."""
    order: list[Expr] = []

    def walk(node: Expr) -> None:
        if not any(node is o for o in order):
            for c in node.children:
                walk(c)
            order.append(node)

    walk(root)
    chains: dict[int, tuple[int, ...]] = {id(root): ()}
    for node in reversed(order):
        inside = (*chains[id(node)], id(node)) if isinstance(node, Function) else chains[id(node)]
        for c in node.children:
            old = chains.get(id(c), inside)
            same = next(
                (i for i, (a, b) in enumerate(zip(old, inside, strict=False)) if a != b), min(len(old), len(inside))
            )
            chains[id(c)] = inside[:same]
    return chains


def plain_run(root: Function, x: float, log: list[int], once: bool = True) -> Any:
    """The value of `root` by recursion; `log` gets the numbers of the ticks. Without `once` it is call by name."""
    chains = owners(root)

    def value(node: Expr, at: Activation, env: Mapping[Var, Any]) -> Any:
        if isinstance(node, Var):
            return env[node]
        home: Activation = at
        while id(home.of) != chains[id(node)][-1]:
            assert home.outer is not None
            home = home.outer
        if not once or id(node) not in home.values:
            home.values[id(node)] = fresh(node, home, at, env)
        return home.values[id(node)]

    def fresh(node: Expr, home: Activation, at: Activation, env: Mapping[Var, Any]) -> Any:
        match node:
            case g.Constant():
                return float(node.data)
            case g.Let():
                return value(node.body, at, {**env, node.var: value(node.value, at, env)})
            case g.If():
                return value(node.then if value(node.condition, at, env) else node.otherwise, at, env)
            case g.Function():
                return node, home, env
            case g.Tuple():
                return tuple(value(f, at, env) for f in node.fields)
            case g.TupleGetItem():
                return value(node.value, at, env)[node.index]
            case g.Match():
                given = value(node.value, at, env)
                return value(node.clauses[0].body, at, {**env, **dict(zip(node.clauses[0].vars, given, strict=True))})
            case g.Call() if node.op is TICK:
                serial, arg = (value(a, at, env) for a in node.args)
                log.append(int(serial))
                return (arg * 2 + serial) % 7
            case g.Call() if isinstance(node.op, Expr):
                of, outer, inner = value(node.op, at, env)
                (arg,) = (value(a, at, env) for a in node.args)
                return value(of.body, Activation(of, outer), {**inner, of.params[0]: arg})
            case g.Call():
                a, b = (value(x, at, env) for x in node.args)
                return a < b
        raise AssertionError(node)

    return value(root.body, Activation(root, None), {root.params[0]: x})


def ticks(main: Function) -> tuple[Any, list[int]]:
    log: list[int] = []

    def tick(serial: Any, arg: Any) -> Any:
        log.append(int(serial))
        return np.asarray((arg * 2 + serial) % 7, np.float32)

    return float(run(main, externs={"tick": tick}, x=np.float32(1))), log


def test_each_node_is_evaluated_when_first_demanded_and_once_in_its_scope() -> None:
    lazy = evaluated = 0
    for seed in range(200):
        main = random_function(random.Random(seed), 7)
        log: list[int] = []
        assert ticks(main) == (plain_run(main, 1.0, log), log), seed
        evaluated += len(log)
        again: list[int] = []
        if len(log) < 12:
            plain_run(main, 1.0, again, once=False)
            lazy += again != log
    assert evaluated > 250, "the programs do something"
    assert lazy > 2, "evaluating a shared node at each use would be seen"


# --- sharing and scopes -------------------------------------------------------------------------------------------


def sharings() -> dict[str, Function]:
    x, v, w, c = var("x", SCALAR), var("v", SCALAR), var("w", SCALAR), var("c", BOOL)
    p, q = var("p", SCALAR), var("q", SCALAR)
    uses_v, uses_p, uses_q = call("negative", v), call("negative", p), call("negative", q)
    cons = call(CONS, x, call(NIL, type_args=[SCALAR]))
    loop = var("loop", FuncType((SCALAR,), SCALAR))
    body = call("negative", v)
    return {
        "a let's body and beside it": function([x], call("add", let(v, x, uses_v), uses_v)),
        "beside it and a let's body": function([x], call("add", uses_v, let(v, x, uses_v))),
        "a let's own value": function([x], let(v, uses_v, v)),
        "the body of two lets": function([x], call("add", let(v, x, body), let(w, x, body))),
        "a function and around it": function([x], call("add", call(function([p], uses_p), x), uses_p)),
        "two functions": function([x], call("add", call(function([p], uses_p), x), call(function([q], uses_p), x))),
        "two clauses": function(
            [x], g.match(cons, (g.Made(CONS, (g.Bind(q), g.Wildcard())), uses_q), (g.Wildcard(), uses_q))
        ),
        "a function beside its let": function(
            [c, x], let(loop, if_(c, function([p], call(loop, p)), function([q], q)), call(loop, x))
        ),
    }


@pytest.mark.parametrize("where", sharings())
def test_a_variable_does_not_leave_its_scope_by_sharing(where: str) -> None:
    assert refused(sharings()[where]) == "graph.C1"


def test_what_a_closure_and_its_surroundings_share_is_of_the_activation_that_made_the_closure() -> None:
    """Each activation of `make` has its own cell and its own shared node."""
    p, q, f1, f2 = (
        var("p", SCALAR),
        var("q", SCALAR),
        var("f1", FuncType((SCALAR,), SCALAR)),
        var("f2", FuncType((SCALAR,), SCALAR)),
    )
    shared = call(TICK, number(0), p)
    make = function([p], tuple_of(function([q], call("add", shared, q)), shared))
    mk = var("make", make.type)
    body = let(f1, get(call(mk, number(1)), 0), let(f2, get(call(mk, number(10)), 0), tuple_of(
        call(f1, number(100)), call(f2, number(200)), call(f1, number(300))
    )))  # fmt: skip
    calls: list[float] = []

    def tick(_: Any, x: Any) -> Any:
        calls.append(float(x))
        return x

    found = run(function([], let(mk, make, body)), externs={"tick": tick})
    assert [float(v) for v in found] == [101, 210, 301]
    assert calls == [1, 10], "once for each activation"


def test_pattern_variables_belong_to_their_activation() -> None:
    """A closure made in each step of a recursion over a list keeps its own element."""
    unary = FuncType((SCALAR,), SCALAR)
    numbers, closures = DataType("List", (SCALAR,)), DataType("List", (unary,))
    xs, h, rest, p = var("xs", numbers), var("h", SCALAR), var("rest", numbers), var("p", SCALAR)
    loop = var("loop", FuncType((numbers,), closures))
    step = call(CONS, function([p], call("add", p, h)), call(loop, rest), type_args=[unary])
    walk = function(
        [xs],
        g.match(xs, (g.Made(CONS, (g.Bind(h), g.Bind(rest))), step), (g.Made(NIL, ()), call(NIL, type_args=[unary]))),
        closures,
    )
    given: Expr = call(NIL, type_args=[SCALAR])
    for value in (3, 2, 1):
        given = call(CONS, number(value), given)
    a, b, c = (var(name, unary) for name in "abc")
    three = g.Made(CONS, (g.Bind(a), g.Made(CONS, (g.Bind(b), g.Made(CONS, (g.Bind(c), g.Made(NIL, ())))))))
    applied = tuple_of(*[call(f, number(10)) for f in (a, b, c)])
    main = function([], let(loop, walk, g.match(call(loop, given), (three, applied), partial=True)))
    assert [float(v) for v in run(main)] == [11, 12, 13]


def test_a_shared_node_that_fails_is_evaluated_only_where_it_is_demanded() -> None:
    i = var("i", tensor(of="int32"))
    c, one = var("c", BOOL), constant(np.int32(1))
    shared = call("floor_divide", one, i)
    f = var("f", FuncType((), i.type))
    main = function([c, i], let(f, function([], shared), if_(c, call("add", shared, call(f)), i)))
    assert run(main, c=np.array(False), i=np.int32(0)) == 0
    assert run(main, c=np.array(True), i=np.int32(1)) == 2
    with pytest.raises(Trap, match="division by zero"):
        run(main, c=np.array(True), i=np.int32(0))


# --- actions and purity -------------------------------------------------------------------------------------------


def acting() -> dict[str, Function]:
    c, x, v = var("c", BOOL), var("x", SCALAR), var("v", SCALAR)
    printed = let(var("_", UNIT), g.print_(number(1)), number(2))
    branch = if_(c, printed, number(1))
    picked = get(tuple_of(printed, x), 1)
    matched = g.match(tuple_of(printed), (g.Fields((g.Bind(v),)), v))
    called = call(var("f", IMPURE))
    assert isinstance(called.op, Var)
    return {
        "if": function([c, x], call("add", branch, branch)),
        "tuple": function([x], call("add", picked, picked)),
        "match": function([x], call("add", matched, matched)),
        "call of a parameter": function([called.op], tuple_of(called, called)),
        "a branch and a function": function([c], if_(c, call(function([], printed)), printed)),
        "the bodies of two functions": function([c], if_(c, call(function([], printed)), call(function([], printed)))),
    }


@pytest.mark.row("A8")
@pytest.mark.parametrize("what", acting())
def test_an_action_is_not_shared_however_deep_it_is(what: str) -> None:
    assert refused(acting()[what]) == "graph.C7"


def test_a_function_with_an_action_may_be_shared() -> None:
    """Making it does nothing; each call acts."""
    f = function([], g.print_(number(1)))
    trace: list[Event] = []
    run(function([], tuple_of(call(f), call(f))), trace=trace)
    assert len(trace) == 2


def impure_as_pure() -> dict[str, Any]:
    def print_() -> Function:
        return function([], g.print_(number(1)))

    c, f = var("c", BOOL), var("f", PURE)
    wants = function([f], call(f))
    r = var("r", RefType(PURE))
    loop = var("loop", FuncType((SCALAR,), UNIT))
    p = var("p", SCALAR)
    knot = function([p], let(var("_", UNIT), g.print_(p), call(loop, p)))
    return {
        "an argument": lambda: call(wants, print_()),
        "one of two branches": lambda: call(wants, if_(c, function([], tuple_of()), print_())),
        "a field of a tuple": lambda: call(wants, get(tuple_of(print_()), 0)),
        "a clause": lambda: call(wants, g.match(c, (g.Wildcard(), print_()))),
        "a let": lambda: let(f, print_(), call(f)),
        "a reference": lambda: g.write(r, print_()),
        "a field of data": lambda: call(CONS, print_(), call(NIL, type_args=[PURE])),
        "a type argument": lambda: call(CONS, print_(), call(NIL, type_args=[IMPURE]), type_args=[PURE]),
        "recursion": lambda: let(loop, knot, call(loop, number(1))),
        "a declared result": lambda: function([], print_(), PURE),
        "a match-cast": lambda: g.match_cast(print_(), PURE),
        "a claim": lambda: function([], g.print_(number(1)), pure=True),
    }


@pytest.mark.parametrize("place", impure_as_pure())
def test_an_impure_function_is_not_taken_for_a_pure_one(place: str) -> None:
    with pytest.raises(Invalid):
        impure_as_pure()[place]()


def test_a_name_of_the_module_does_not_lie_about_purity() -> None:
    noisy = function([], g.print_(number(1)))
    main = function([], call(g.GlobalVar(PURE, "noisy")))
    with pytest.raises(Invalid) as caught:
        check(Module({"noisy": noisy, "main": main}))
    assert caught.value.label == "graph.C3"


# --- sizes --------------------------------------------------------------------------------------------------------


def test_each_activation_has_its_own_sizes() -> None:
    """One symbol, a new value in each step of a recursion, and the outer one again after the inner call."""
    x, i = var("x", tensor(n)), var("i", tensor(of="int32"))
    one = constant(np.int32(1))
    loop = var("loop", FuncType((x.type, i.type), ShapeType((k, m))))
    longer = call("concat", x, x, axis=0)
    deeper = call(loop, longer, call("subtract", i, one))
    inner = let(var("_", deeper.type), deeper, g.shape(n, n * 2))
    body = if_(call("equal", i, constant(np.int32(0))), g.shape(n, n), inner)
    y = var("y", tensor(3))
    main = function([y], let(loop, function([x, i], body, ShapeType((k, m))), call(loop, y, constant(np.int32(4)))))
    assert run(main, y=f32(1, 2, 3)) == Shape((3, 6))
