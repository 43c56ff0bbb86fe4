"""Building and printing the tensor IR; what is refused is in test_walk_graph.py."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from assay.semantics.dtypes import DTYPES, FLOAT32, INT32, INT64
from assay.semantics.scalar import Var, Var as Symbol, const, select
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    While,
    loads,
    loops,
    program_order,
    seq,
    show_stmt,
    store,
    when,
)
from assay.semantics.walk import rewrite
from tests.interp.block_programs import random_blocks
from tests.scale import MANY

n = Symbol("n")
B = Buffer("b", (2, n), FLOAT32)


def test_loops_nest_from_the_outside() -> None:
    a, out = Buffer("a", (2, n), FLOAT32), Buffer("out", (2, n), FLOAT32)
    nest = loops("i j", (2, n), lambda i, j: store(out, (i, j), a[i, j] + 1.0), kind="parallel")
    assert show_stmt(nest).splitlines() == [
        "for i in T.parallel(2):",
        "    for j in T.parallel(n):",
        "        out[i, j] = (a[i, j] + T.float32(1.0))",
    ]
    f = PrimFunc("f", (a, out), 1, nest)
    assert f.inputs == (a,) and f.outputs == (out,) and f.allocations == ()
    assert repr(f).startswith("def f(a: Buffer((2, n), float32), out: Buffer((2, n), float32)):\n    for i")
    assert isinstance(nest, For) and [e.dtype for s in program_order(nest) for e in s.expressions if s is nest] == [
        INT64
    ]
    assert show_stmt(loops("", (), lambda: store(out, (0, 0), 0.0))) == "out[0, 0] = T.float32(0.0)"


def test_every_statement_has_a_text() -> None:
    a, t, c = Buffer("a", (2,), FLOAT32), Buffer("t", (2,), FLOAT32, "local"), Buffer("c", (2,), FLOAT32)
    i, v = Symbol("i"), Symbol("v", FLOAT32)
    body = Seq((
        While(a[0] < 1.0, store(a, 0, 2.0)),
        when(i < 1, store(a, 0, v), seq(Assert(i < 2, "small"), Evaluate(a[1] * 2.0))),
        LetStmt(v, a[0], Allocate(t, AllocateConst(c, np.ones(2, np.float32), store(t, 1, c[0] + v)))),
    ))  # fmt: skip
    assert show_stmt(body).splitlines() == [
        "while (a[0] < T.float32(1.0)):",
        "    a[0] = T.float32(2.0)",
        "if (i < 1):",
        "    a[0] = v",
        "else:",
        "    assert (i < 2), 'small'",
        "    T.evaluate((a[1] * T.float32(2.0)))",
        "v = a[0]",
        't = T.alloc_buffer((2), "float32", "local")',
        'c = T.allocate_const((2), "float32", "global")',
        "t[1] = (c[0] + v)",
    ]
    assert PrimFunc("f", (a,), 1, body).allocations == (t,)
    assert [type(s).__name__ for s in program_order(body)] == [
        "Seq", "While", "Store", "If", "Store", "Seq", "Assert", "Evaluate", "LetStmt", "Allocate", "AllocateConst",
            "Store"
    ]  # fmt: skip
    assert [x.buffer for s in program_order(body) for e in s.expressions for x in loads(e)] == [a, a, a, c]


def test_numbers_in_statements_take_the_dtype_of_the_buffer() -> None:
    for of in DTYPES.values():
        b = Buffer("b", (2,), of)
        assert store(b, 1, 1).value.dtype is of
    index = B[Symbol("i", INT32), 0].indices
    assert all(e.dtype is INT64 for e in index)


def test_statements_are_rewritten_like_any_tree() -> None:
    """Nothing changed is the same object; a changed leaf changes what is around it, and no more."""
    for seed in range(40):
        func, _ = random_blocks(Random(seed))
        assert rewrite(func.body, lambda s: s) is func.body
        stores = [s for s in program_order(func.body) if isinstance(s, Store)]
        other = rewrite(
            func.body,
            lambda s, first=stores[0]: (
                replace(s, value=select(const(True, "bool"), s.value, s.value)) if s is first else s
            ),
        )
        old, new = list(program_order(func.body)), list(program_order(other))
        assert [type(s) for s in old] == [type(s) for s in new]
        changed = [a for a, b in zip(old, new, strict=True) if a is not b]
        assert all(a is stores[0] or any(c in changed for c in a.children) for a in changed)


def test_deep_statements_are_rewritten() -> None:
    x = Buffer("x", (1,), FLOAT32)
    body: Stmt = store(x, 0, 1.0)
    for k in range(MANY):
        body = LetStmt(Var(f"v{k}"), const(k), body)
    assert rewrite(body, lambda s: s) is body
