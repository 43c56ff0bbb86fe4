"""The small programs of the museum of wrong A-normal forms; tests.museum.faults.anf_faults says what each shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, INT64
from assay.semantics.errors import Span
from assay.semantics.graph import (
    Bind,
    Dataflow,
    Expr,
    GlobalVar,
    Made,
    Var,
    Wildcard,
    call,
    constant,
    constructor,
    function,
    get,
    if_,
    let,
    match,
    match_cast,
    print_,
    read,
    ref,
    shape,
    tuple_of,
    var,
    write,
)
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, FuncType, TensorType

F = TensorType((2, 3), FLOAT32)
S = TensorType((), INT32)
B = TensorType((), BOOL)
I2 = TensorType((2,), INT64)


def module(params: Sequence[Var], body: Expr, **others: Any) -> Module:
    return Module({"main": function(params, body), **others})


def let_in_operand() -> Module:
    x, v = var("x", F), var("v", F)
    inner = let(v, call("exp", x), call("add", v, v))
    return module([x], call("multiply", inner, x))


def shared_by_branches() -> Module:
    x, c = var("x", F), var("c", B)
    e = call("exp", x)
    return module([x, c], if_(c, call("add", e, e), call("nn.relu", e)))


def only_one_branch() -> Module:
    x, c = var("x", F), var("c", B)
    return module([x, c], if_(c, call("exp", x), call("nn.relu", x)))


def alias() -> Module:
    x, y = var("x", F), var("y", F)
    return module([x], let(y, x, call("exp", y)))


def alias_in_closure() -> Module:
    x, y, z = var("x", F), var("y", F), var("z", F)
    f = function([z], call("add", y, z))
    g = var("g", f.type)
    return module([x], let(y, x, let(g, f, call(g, x))))


def read_after_write() -> Module:
    """Both branches read; one writes first."""
    x, c = var("x", F), var("c", B)
    r = var("r", ref(x).type)
    u = var("u", tuple_of().type)
    then = let(u, write(r, call("exp", x)), read(r))
    return module([x, c], let(r, ref(x), if_(c, then, read(r))))


def reads_and_writes() -> Module:
    x = var("x", S)
    r = var("r", ref(x).type)
    a, b = var("a", S), var("b", S)
    u = var("u", tuple_of().type)
    body = let(a, read(r), let(u, write(r, constant(np.int32(9))), let(b, read(r), call("subtract", a, b))))
    return module([x], let(r, ref(x), body))


def may_fail() -> Module:
    x, c, i = var("x", F), var("c", B), var("i", I2)
    t = call("take", x, i, span=Span("m.py", "t", 3, 4), axis=0)
    return module([x, c, i], if_(c, call("add", t, t), x))


def may_not_end() -> Module:
    """The call comes back only if its argument is not below zero."""
    n, c = var("n", S), var("c", B)
    k = var("k", S)
    self_type = FuncType((S,), S)
    f = var("f", self_type)
    stop = call("equal", k, constant(np.int32(0)))
    loop = function([k], if_(stop, k, call(f, call("subtract", k, constant(np.int32(1))))), S)
    return module([n, c], let(f, loop, if_(c, call(f, n), n)))


def two_failures() -> Module:
    x, i, j = var("x", F), var("i", I2), var("j", I2)
    first = call("take", x, i, span=Span("m.py", "first", 1, 1), axis=0)
    second = call("take", x, j, span=Span("m.py", "second", 2, 1), axis=0)
    return module([x, i, j], call("add", first, second))


def two_prints() -> Module:
    x = var("x", S)
    return module([x], tuple_of(print_(x, format="one"), print_(x, format="two")))


def written_value_prints() -> Module:
    """The reference is made before the value that it is given is printed."""
    x = var("x", S)
    u = var("u", tuple_of().type)
    r = var("r", ref(x).type)
    make = let(u, print_(x, format="make"), ref(x))
    v = var("v", tuple_of().type)
    value = let(v, print_(x, format="value"), x)
    w = var("w", tuple_of().type)
    return module([x], let(w, write(make, value), let(r, ref(x), read(r))))


def total_operands() -> Module:
    x = var("x", F)
    return module([x], call("subtract", call("exp", x), call("nn.relu", x)))


def visited_before() -> Module:
    x, a, b = var("x", F), var("a", F), var("b", F)
    return module([x], let(a, call("nn.relu", x), let(b, call("exp", a), a)))


def cast() -> Module:
    """A size that only the cast knows, used after it."""
    n, m = Symbol("n"), Symbol("m")
    x = var("x", TensorType((n,), FLOAT32))
    y = var("y", TensorType((m,), FLOAT32))
    s = shape(m)
    return module([x], let(y, match_cast(x, y.type), tuple_of(y, s)))


def unused_effect() -> Module:
    x, u = var("x", S), var("u", tuple_of().type)
    return module([x], let(u, print_(x), x))


def unused_write() -> Module:
    x = var("x", S)
    r = var("r", ref(x).type)
    u = var("u", tuple_of().type)
    return module([x], let(r, ref(x), let(u, write(r, constant(np.int32(5))), read(r))))


def unused_failure() -> Module:
    x, i, u = var("x", F), var("i", I2), var("u", F)
    return module([x, i], let(u, call("take", x, i, axis=0), x))


def two_results() -> Module:
    x = var("x", F)
    both = call("split", x, sections=(1, 1, 1), axis=1)
    return module([x], call("subtract", get(both, 1), get(both, 2)))


def two_parameters_of_one_name() -> Module:
    x, y, z = var("x", F), var("y", F), var("y", F)
    f, g = function([y], call("exp", y)), function([z], call("nn.relu", z))
    a, b = var("f", f.type), var("g", g.type)
    return module([x], let(a, f, let(b, g, call(a, call(b, x)))))


def on_devices() -> Module:
    x = var("x", F)
    on_gpu = replace(call("exp", x), device=VirtualDevice("cuda", 0))
    return module([x], call("nn.relu", on_gpu))


def on_one_device() -> Module:
    x = var("x", F)
    return module([x], replace(call("exp", x), device=VirtualDevice("cuda", 0)))


def makes_two_cells() -> Module:
    x = var("x", S)
    r, q = var("r", ref(x).type), var("q", ref(x).type)
    u = var("u", tuple_of().type)
    body = let(u, write(r, constant(np.int32(3))), tuple_of(read(r), read(q)))
    return module([x], let(r, ref(x), let(q, ref(x), body)))


def shared_work() -> Module:
    x = var("x", F)
    e = call("exp", x)
    return module([x], call("add", e, call("nn.relu", e)))


def failing_capture() -> Module:
    """The closure demands what may fail; nothing else does before it is called."""
    x, y, i, c = var("x", F), var("y", F), var("i", I2), var("c", B)
    t = call("take", x, i, axis=0)
    f = function([y], call("add", y, t))
    g = var("g", f.type)
    return module([x, i, c], let(g, f, if_(c, call(g, x), x)))


def lazy_body() -> Module:
    x, y, c = var("x", S), var("y", S), var("c", B)
    u = var("u", tuple_of().type)
    f = function([y], let(u, print_(y, format="called"), y))
    g = var("g", f.type)
    return module([x, c], let(g, f, if_(c, call(g, x), x)))


def outside_of_closure() -> Module:
    x, y, t = var("x", F), var("y", F), var("t", F)
    f = function([y], call("add", y, t))
    g = var("g", f.type)
    return module([x], let(t, call("exp", x), let(g, f, call(g, call(g, x)))))


def zeros() -> Module:
    x = var("x", F)
    plus, minus = constant(np.float32(0.0)), constant(np.float32(-0.0))
    return module([x], tuple_of(call("divide", x, plus), call("divide", x, minus)))


def transposes() -> Module:
    x = var("x", TensorType((2, 3, 3), FLOAT32))
    a, b = call("permute_dims", x, axes=(0, 2, 1)), call("permute_dims", x, axes=(0, 1, 2))
    return module([x], call("subtract", a, b))


PAIR = DataDef("Pair", (), {"pair": (S, S), "lone": (S,)})


def matches() -> Module:
    x = var("x", S)
    a, b, k = var("a", S), var("b", S), var("k", S)
    pair, lone = constructor(PAIR, "pair"), constructor(PAIR, "lone")
    made = call(pair, x, constant(np.int32(1)))
    body = match(
        made,
        (Made(pair, (Bind(a), Bind(b))), call("subtract", a, b)),
        (Made(lone, (Bind(k),)), k),
    )
    return module([x], body, Pair=PAIR)


def wildcards() -> Module:
    x = var("x", S)
    a = var("a", S)
    pair = constructor(PAIR, "pair")
    body = match(call(pair, x, x), (Made(pair, (Bind(a), Wildcard())), a), (Wildcard(), constant(np.int32(0))))
    return module([x], body, Pair=PAIR)


def in_a_block() -> Module:
    x, a, b = var("x", F), var("a", F), var("b", F)
    mark = Dataflow()
    u = var("u", tuple_of().type)
    inside = let(a, call("exp", x), let(b, call("nn.relu", a), let(u, print_(b), b)), dataflow=mark)
    return module([x], inside)


def primitive() -> Module:
    x, y = var("x", F), var("y", F)
    f = function([y], call("exp", call("nn.relu", y)), primitive=1)
    return module([x], call(f, x))


def counts_down() -> Module:
    n = var("n", S)
    k = var("k", S)
    f, g = var("f", FuncType((S,), S)), var("g", FuncType((S,), S))
    j = var("j", S)
    other = function([j], call("add", j, constant(np.int32(100))), S)
    stop = call("equal", k, constant(np.int32(0)))
    loop = function([k], if_(stop, k, call(f, call("subtract", k, constant(np.int32(1))))), S)
    return module([n], let(g, other, let(f, loop, call("add", call(f, n), call(g, n)))))


def calls_another() -> Module:
    x, y = var("x", F), var("y", F)
    helper = function([y], call("exp", y))
    return module([x], call(GlobalVar(helper.type, "helper"), x), helper=helper)


def sizes_differ() -> Module:
    """A view: the same bytes, another shape."""
    x = var("x", F)
    return module([x], call("reshape", x, shape=(3, 2)))
