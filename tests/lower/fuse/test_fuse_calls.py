"""Which calls of tensor functions are one group, and which groups are one function (rules F1 to F5; specs/lower.md,
"fuse")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.fuse import Limits, fuse, fuse_calls
from assay.lower.fuse.kernels import sizes
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import (
    CallTIR,
    Expr,
    Function,
    GlobalVar,
    Var,
    call,
    call_tir,
    function,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import GROUP, Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol, apply, cast
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Buffer,
    LetStmt,
    PrimFunc,
    Stmt,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.types import TensorType, symbols
from assay.semantics.walk import rewrite
from tests.lower.fuse.fusing import groups, legalized, random, x
from tests.observation import observe

pytestmark = pytest.mark.row("R23")

N = Symbol("n", INT64)


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


def kernels() -> dict[str, PrimFunc]:
    """neg and sub of rows of four; wide, which makes rows of one; power, which takes a number."""
    m = Symbol("m", INT64)
    p, q, out, row, s = (
        Buffer("p", (m, 4), FLOAT32),
        Buffer("q", (m, 4), FLOAT32),
        Buffer("out", (m, 4), FLOAT32),
        Buffer("row", (4,), FLOAT32),
        Symbol("s", INT64),
    )
    bodies = {
        "neg": ((p, out), lambda i, j: apply("neg", p[i, j]), ()),
        "sub": ((p, q, out), lambda i, j: p[i, j] - q[i, j], ()),
        "wide": ((row, out), lambda i, j: row[j], ()),
        "times": ((p, out), lambda i, j: p[i, j] * cast(s, FLOAT32), (s,)),
    }
    return {
        n: PrimFunc(
            n,
            params,
            1,
            loops("i j", (m, 4), lambda i, j, of=of: store(out, (i, j), of(i, j))),
            {"operator": CLAIMS[n]},
            scalars=scalars,
        )
        for n, (params, of, scalars) in bodies.items()
    }


CLAIMS = {"neg": "negative", "sub": "subtract", "wide": "exp", "times": "multiply"}
"""Operators that cannot trap: what the tensor functions say of themselves."""

Step = tuple[str, Sequence[int], Dim, Sequence[Dim]]


def program(params: Sequence[Var], steps: Sequence[Step], results: Sequence[int]) -> Module:
    """Calls in a row. A step is a kernel, its operands (parameters first, then steps), its rows, and its numbers."""
    values: list[Expr] = list(params)
    lets: list[tuple[Var, Expr]] = []
    for k, (name, operands, rows, scalars) in enumerate(steps):
        made = var(f"v{k}", tensor(rows, 4))
        lets.append((made, call_tir(name, [values[i] for i in operands], made.type, scalars=scalars)))
        values.append(made)
    out = var("out", tuple_of(*(values[i] for i in results)).type)
    body: Expr = let(out, tuple_of(*(values[i] for i in results)), out)
    for v, value in reversed(lets):
        body = let(v, value, body)
    module = Module({**kernels(), "main": function(params, body)})
    check(module)
    return module


def same(before: Module, after: Module, n: int = 3) -> None:
    check(after)
    inputs = {}
    for p in before.main.params:
        assert isinstance(p.type, TensorType)
        shape = tuple(n if isinstance(d, Symbol) else d for d in p.type.shape)
        inputs[p.name] = np.random.default_rng(len(inputs)).standard_normal(shape).astype(np.float32)  # type: ignore[arg-type]
    assert observe(before, inputs).difference(observe(after, inputs)) is None


def made(module: Module) -> int:
    """How many functions a module's groups have."""
    return sum(GROUP in k.attrs for k in module.kernels.values())


# --- sizes --------------------------------------------------------------------------------------------------------


def test_a_group_whose_operands_do_not_tell_its_sizes_is_left_alone() -> None:
    """The rows that `wide` makes, and the number that `times` takes, are those of another parameter."""
    row, a, c = var("row", tensor(4)), var("a", tensor(N, 4)), var("c", tensor(3, 4))
    alone = program([row, a], [("wide", [0], N, []), ("neg", [2], N, [])], [3])
    assert groups(fuse(alone)) == []
    told = program([row, a], [("wide", [0], N, []), ("neg", [2], N, []), ("sub", [3, 1], N, [])], [4])
    assert groups(after := fuse(told)) == [["exp", "negative", "subtract"]]
    same(told, after)
    number = program([c, a], [("times", [0], 3, [N]), ("neg", [2], 3, [])], [3])
    assert groups(fuse(number)) == []
    both = program([c, a], [("times", [0], 3, [3]), ("neg", [2], 3, [])], [3])
    assert groups(after := fuse(both)) == [["multiply", "negative"]]
    same(both, after)


def test_groups_of_one_form_are_one_function_whatever_their_sizes_are_called() -> None:
    a, b = var("a", tensor(N, 4)), var("b", tensor(Symbol("k", INT64), 4))
    steps: list[Step] = []
    for at, p in enumerate((a, b)):
        assert isinstance(p.type, TensorType)
        rows = p.type.shape[0]
        steps += [("times", [at], rows, [rows]), ("neg", [2 + 2 * at], rows, [])]
    m = program([a, b], steps, [3, 5])
    assert made(after := fuse(m)) == 1 and groups(after) == [["multiply", "negative"]] * 2
    same(m, after)
    (group,) = (d for n, d in fuse_calls(m).definitions.items() if isinstance(d, Function) and n != "main")
    assert N not in symbols(group.params[0].type), "a function's sizes are its own"


def test_groups_of_other_operands_or_numbers_or_sizes_are_other_functions() -> None:
    a, b = var("a", tensor(3, 4)), var("b", tensor(3, 4))

    def functions(first: Sequence[Step], second: Sequence[Step], *params: Var) -> int:
        m = program(params or (a, b), [*first, *second], [4, 7])
        assert len(groups(after := fuse(m))) == 2
        same(m, after)
        return made(after)

    # (-a - b) - b twice; with (-a - -a) - b; and with its operands the other way round
    one: list[Step] = [("neg", [0], 3, []), ("sub", [2, 1], 3, []), ("sub", [3, 1], 3, [])]
    assert functions(one, [("neg", [0], 3, []), ("sub", [5, 1], 3, []), ("sub", [6, 1], 3, [])]) == 1
    assert functions(one, [("neg", [0], 3, []), ("sub", [5, 5], 3, []), ("sub", [6, 1], 3, [])]) == 2
    assert functions(one, [("neg", [0], 3, []), ("sub", [1, 5], 3, []), ("sub", [6, 1], 3, [])]) == 2
    numbers: list[list[Step]] = [
        [("times", [0], 3, [k]), ("neg", [2 + at], 3, []), ("sub", [3 + at, 1], 3, [])] for at, k in ((0, 2), (3, 5))
    ]
    assert functions(*numbers) == 2
    c, d = var("c", tensor(N, 4)), var("d", tensor(2, 4))
    sizes: list[list[Step]] = [
        [("neg", [p], n, []), ("neg", [2 + 3 * p], n, []), ("neg", [3 + 3 * p], n, [])] for p, n in ((0, N), (1, 2))
    ]
    assert functions(*sizes, c, d) == 2


# --- limits -------------------------------------------------------------------------------------------------------


def test_a_group_is_as_large_as_its_limits_allow() -> None:
    a = var("a", tensor(3, 4))
    chain = program([a], [("neg", [k], 3, []) for k in range(9)], [9])
    assert [len(g) for g in groups(fuse(chain, Limits(calls=4)))] == [4, 4]
    others = [var(f"b{k}", tensor(3, 4)) for k in range(6)]
    steps: list[Step] = [("sub", [5 + k if k else 0, 1 + k], 3, []) for k in range(5)]
    sums = program(others, steps, [10])
    after = fuse(sums, Limits(operands=3))
    assert [(len(g), len(k.inputs)) for g in groups(after) for k in after.kernels.values() if GROUP in k.attrs][0] == (
        2,
        3,
    )
    assert [len(g) for g in groups(after)] == [2, 2]
    same(sums, after)


def test_a_way_is_looked_at_for_as_many_calls_as_a_group_may_have() -> None:
    """A value and its use far behind: what is between is in the group, or there is none."""
    a, b = var("a", tensor(3, 4)), var("b", tensor(3, 4))
    for long, limit, wanted in ((3, 5, [5]), (3, 4, [4]), (5, 4, [4, 2])):
        steps: list[Step] = [
            ("neg", [0], 3, []),
            *(("neg", [2 + k], 3, []) for k in range(long)),
            ("sub", [2 + long, 2], 3, []),
        ]
        found = [len(g) for g in groups(fuse(program([a, b], steps, [3 + long]), Limits(calls=limit)))]
        assert found == wanted, (long, limit, found)


# --- classes ------------------------------------------------------------------------------------------------------


def test_an_anchor_takes_only_what_follows_at_each_element_on_every_way() -> None:
    """Both ways broadcast the product; one of them only behind an exp."""
    a, v, b = x("a", 4, 4), x("v", 4, 4), x("b", 2, 4, 4)
    s = call("matmul", a, v)
    shallow = call("add", call("exp", s), b)
    assert groups(fuse(legalized([a, v, b], shallow))) == [["matmul", "exp"]]
    deep = call("add", call("exp", s), call("add", call("negative", s), b))
    m = legalized([a, v, b], deep)
    assert groups(after := fuse(m)) == [["exp", "negative", "add", "add"]]
    assert observe(m, given := random([a, v, b])).difference(observe(after, given)) is None


def test_an_anchor_joins_a_group_that_ends_in_what_is_broadcast() -> None:
    """The sum of a row and a column is in the last sum's group before the product is."""
    a, v, row, column = x("a", 4, 4), x("v", 4, 4), x("row", 4), x("column", 4, 1)
    m = legalized([a, v, row, column], call("subtract", call("add", row, column), call("matmul", a, v)))
    assert groups(after := fuse(m)) == [["add", "matmul", "subtract"]]
    assert observe(m, given := random([a, v, row, column])).difference(observe(after, given)) is None


def test_groups_are_made_in_the_order_of_their_results() -> None:
    """The outer pair begins before the inner one, and ends behind it."""
    a = var("a", tensor(3, 4))
    steps: list[Step] = [("neg", [0], 3, []), ("neg", [0], 3, []), ("times", [2], 3, [2]), ("neg", [1], 3, [])]
    m = fuse_calls(program([a], steps, [3, 4]))
    assert [n for n in m.definitions if n.startswith("group")] == ["group_neg_times", "group_neg_neg"]


def test_a_map_of_indices_on_one_way_keeps_an_anchor_out() -> None:
    a, v = x("a", 4, 4), x("v", 4, 4)
    s = call("matmul", a, v)
    body = call("multiply", call("exp", s), call("permute_dims", call("negative", s)))
    m = legalized([a, v], body)
    assert groups(after := fuse(m)) == [["exp", "negative", "permute_dims", "multiply"]]
    assert observe(m, given := random([a, v])).difference(observe(after, given)) is None


def test_maps_of_indices_join_their_like_and_no_reduction() -> None:
    a = x("a", 3, 4)
    turned = call("permute_dims", call("permute_dims", a), axes=(1, 0))
    assert groups(fuse(legalized([a], call("negative", turned)))) == [["permute_dims", "permute_dims", "negative"]]
    assert groups(fuse(legalized([a], call("sum", call("permute_dims", a), axis=(0,))))) == []
    assert groups(fuse(legalized([a], call("sum", call("exp", call("permute_dims", a)), axis=(0,))))) == [
        ["exp", "sum"]
    ]
    v = call("permute_dims", a)
    assert groups(fuse(legalized([a], call("add", v, call("sum", v, axis=(0,), keepdims=True))))) == []


def test_what_another_body_uses_is_in_no_group() -> None:
    a = var("a", tensor(3, 4))
    m = program([a], [("neg", [0], 3, []), ("neg", [1], 3, []), ("neg", [2], 3, [])], [2, 3])
    assert groups(fuse(m)) == [["negative", "negative"]], "the second is a result: it ends its group"
    c, first, one, two = var("c", TensorType((), BOOL)), *(var(n, a.type) for n in ("first", "one", "two"))
    branches: Expr = if_(c, one, two)
    for v, value in (
        (two, call_tir("sub", [first, a], a.type)),
        (one, call_tir("neg", [first], a.type)),
        (first, call_tir("neg", [a], a.type)),
    ):
        branches = let(v, value, branches)
    apart = Module({**kernels(), "main": function([a, c], branches)})
    check(apart)
    assert groups(fuse(apart)) == [], "the two ways never meet"


def test_a_tuple_as_an_operand_or_another_name_ends_a_group() -> None:
    a = var("a", tensor(3, 4))
    first, name, last = (var(n, a.type) for n in ("first", "name", "last"))
    body = let(first, call_tir("neg", [a], a.type), let(name, first, let(last, call_tir("neg", [name], a.type), last)))
    m = Module({**kernels(), "main": function([a], body)})
    check(m)
    assert groups(fuse(m)) == []


def test_many_ways_to_a_use_far_behind_are_walked_once() -> None:
    """Each pair of calls doubles the ways; there are 2**30 of them."""
    a = var("a", tensor(3, 4))
    steps: list[Step] = [("neg", [0], 3, [])]
    for k in range(30):
        steps += [("neg", [1 + 2 * k], 3, []), ("sub", [1 + 2 * k, 2 + 2 * k], 3, [])]
    m = program([a], [*steps, ("sub", [61, 1], 3, [])], [62])
    assert [len(g) for g in groups(fuse(m))] == [62]


# --- what a call is made of ---------------------------------------------------------------------------------------


def with_kernel(body: Callable[[Buffer, Buffer], Stmt], around: Callable[[Stmt], Stmt] = lambda s: s) -> Module:
    """-k(-a) for a tensor function k of its own, from its parameter and result; it says that it is an exp."""
    p, out = Buffer("p", (3, 4), FLOAT32), Buffer("out", (3, 4), FLOAT32)
    k = PrimFunc("wide", (p, out), 1, around(body(p, out)), {"operator": "exp", "op_pattern": 0})
    a = var("a", tensor(3, 4))
    m = program([a], [("neg", [0], 3, []), ("times", [1], 3, [3]), ("neg", [2], 3, [])], [3])
    main = rewrite(
        m.main, lambda n: replace(n, func="wide", scalars=()) if isinstance(n, CallTIR) and n.func == "times" else n
    )
    assert isinstance(main, Function)
    return m.with_(wide=k, main=main)


def test_names_of_integers_are_what_they_stand_for_and_what_is_read_stays_a_name() -> None:
    i2, k, w = Symbol("i2", INT64), Symbol("k", INT64), Symbol("w", FLOAT32)

    def index(p: Buffer, out: Buffer) -> Stmt:
        return loops("i j", (3, 4), lambda i, j: LetStmt(i2, i, store(out, (i2, j), p[i2, j])))

    def number(p: Buffer, out: Buffer) -> Stmt:
        """The sum is of what the element was, not of what it is then."""

        def step(i: Symbol, j: Symbol) -> Stmt:
            at = (i, j)
            twice = seq(store(out, at, out[at] * 4.0), store(out, at, out[at] + cast(k, FLOAT32)))
            return seq(store(out, at, p[at]), LetStmt(k, cast(out[at], INT64), twice))

        return loops("i j", (3, 4), step)

    def element(p: Buffer, out: Buffer) -> Stmt:
        def step(i: Symbol, j: Symbol) -> Stmt:
            return seq(store(out, (i, j), p[i, j]), LetStmt(w, out[i, j], store(out, (i, j), out[i, j] * 3.0 + w)))

        return loops("i j", (3, 4), step)

    for body in (index, number, element):
        m = with_kernel(body)
        same(m, after := fuse(m))
        assert groups(after) == [["negative", "exp", "negative"]]
        names = [
            s
            for k in after.kernels.values()
            if GROUP in k.attrs
            for s in program_order(k.body)
            if isinstance(s, LetStmt)
        ]
        assert len(names) == (body is not index)


def test_a_constant_and_memory_inside_a_call_stay_inside() -> None:
    row = np.arange(4).astype(np.float32)
    held, own = Buffer("held", (4,), FLOAT32), Buffer("own", (4,), FLOAT32)

    def body(p: Buffer, out: Buffer) -> Stmt:
        copied = loops("j", (4,), lambda j: store(own, j, held[3 - j] + held[j]))
        return seq(copied, loops("i j", (3, 4), lambda i, j: store(out, (i, j), p[i, j] + own[j])))

    m = with_kernel(body, lambda s: AllocateConst(held, row, Allocate(own, s), "w"))
    m = replace(m, constants={"w": row})
    same(m, after := fuse(m))
    (kernel,) = (k for k in after.kernels.values() if GROUP in k.attrs)
    (constant,) = (s for s in program_order(kernel.body) if isinstance(s, AllocateConst))
    assert constant.index == "w" and constant.contents.tolist() == row.tolist()
    assert [b.name for b in kernel.allocations].count("own") == 1


def test_a_function_called_as_an_operator_is_not_that_operator() -> None:
    a = var("a", tensor(3, 4))
    half = fuse_calls(program([a], [("neg", [0], 3, []), ("neg", [1], 3, [])], [2]))
    (name,) = (n for n, d in half.definitions.items() if isinstance(d, Function) and n != "main")
    group = half.definitions[name]
    m = Module({**kernels(), "exp": group, "main": function([a], call("exp", a))})
    check(m)
    assert fuse(m) is m


def test_a_primitive_function_of_something_else_is_left_alone() -> None:
    """Of operators, or with another result than the last call's."""
    a, v, w = (var(n, tensor(3, 4)) for n in "avw")
    first = function([a], call("exp", a), primitive=1)
    last = function([a], let(v, call_tir("neg", [a], a.type), let(w, call_tir("neg", [v], a.type), v)), primitive=1)
    outside = function([a], let(v, call_tir("neg", [a], a.type), v), primitive=1)
    pair = var("pair", tuple_of(a, a).type)
    both = function([pair], let(v, call_tir("sub", [pair], a.type), v), primitive=1)
    for body, fused in ((first, False), (last, False), (both, False), (outside, True)):
        given = tuple_of(a, a) if body is both else a
        m = Module({**kernels(), "f": body, "main": function([a], call(GlobalVar(body.type, "f"), given))})
        check(m)
        assert (fuse(m) is not m) == fused


def test_what_a_call_does_not_tell_is_refused_by_name() -> None:
    """A size in no shape as it is, and a size that two operands give differently."""
    m = Symbol("m", INT64)
    p, q = Buffer("p", (m * 2,), FLOAT32), Buffer("q", (m,), FLOAT32)
    odd = PrimFunc("odd", (p, Buffer("out", (m * 2,), FLOAT32)), 1, loops("i", (6,), lambda i: store(p, i, 0.0)))
    with pytest.raises(Invalid, match=r"odd: no operand tells the size m.*fuse\.C2"):
        sizes(odd, [Buffer("a", (6,), FLOAT32)] * 2, [])
    two = PrimFunc("two", (q, Buffer("out", (m,), FLOAT32)), 1, loops("i", (m,), lambda i: store(q, i, 0.0)))
    assert sizes(two, [Buffer("a", (N,), FLOAT32)] * 2, []) == {m: N}
    with pytest.raises(Invalid, match=r"two: m is 3 and 4.*fuse\.C1"):
        sizes(two, [Buffer("a", (3,), FLOAT32), Buffer("b", (4,), FLOAT32)], [])
