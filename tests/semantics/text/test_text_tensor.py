"""Tensor functions as text: what is read means what it says, what is printed is read back, and what is wrong is
shown."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.semantics.analyses.equality import structural_equal
from assay.semantics.dtypes import BOOL, FLOAT32, INT32
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Expr, Var, both, cast, const, either
from assay.semantics.tensor import (
    Alias,
    Allocate,
    AllocateConst,
    Assert,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    IterVar,
    LetStmt,
    Pragma,
    PrimFunc,
    Region,
    Seq,
    Stmt,
    View,
    While,
    loops,
    seq,
    store,
)
from assay.semantics.text.source import Source
from assay.semantics.text.tensor.parser import parse_prim_func
from assay.semantics.text.tensor.printer import DEEPEST, module_symbols, print_prim_func
from assay.semantics.walk import post_order
from assay.verify.strategies.kernels import Kernels as Maker
from tests.interp.block_programs import random_blocks
from tests.interp.programs import random_case, writes_constant

OLD = Path(__file__).with_name("old_dialect.py.txt")


def read_all(text: str, file: str = "model.py") -> dict[str, PrimFunc]:
    """The functions of a text; `n = TypeVar("n")` declares a symbol."""
    source = Source.of(text, file)
    symbols: dict[str, Var] = {}
    found: dict[str, PrimFunc] = {}
    for node in source.parse().body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            symbols[node.targets[0].id] = Var(node.targets[0].id)
        if isinstance(node, ast.FunctionDef):
            found[node.name] = parse_prim_func(source, node, symbols)
    return found


def read(text: str) -> PrimFunc:
    (func,) = read_all(text).values()
    return func


def printed(func: PrimFunc) -> str:
    symbols = {v: v.name for v in module_symbols(func)}
    return "".join(f'{n} = TypeVar("{n}")\n' for n in symbols.values()) + print_prim_func(func, symbols)


def read_back(func: PrimFunc) -> PrimFunc:
    symbols = {v.name: v for v in module_symbols(func)}
    source = Source.of(print_prim_func(func, {v: n for n, v in symbols.items()}), "printed.py")
    (node,) = source.parse().body
    assert isinstance(node, ast.FunctionDef)
    return parse_prim_func(source, node, symbols)


def same_function(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions are one up to the names inside them. Sequences inside sequences do not matter."""
    return a.name == b.name and structural_equal(flat(a), flat(b))


def flat(func: PrimFunc) -> PrimFunc:
    """The same function with no sequence directly inside another."""
    new: dict[int, Stmt] = {}
    root: Stmt = func.body
    for node in post_order(root):
        if isinstance(node, Seq):
            parts = [new[id(c)] for c in node.body]
            new[id(node)] = seq(*(s for p in parts for s in (p.body if isinstance(p, Seq) else (p,))))
        else:
            inside = {f.name: getattr(node, f.name) for f in fields(node)}
            new[id(node)] = replace(node, **{name: new[id(s)] for name, s in inside.items() if isinstance(s, Stmt)})
    return replace(func, body=new[id(root)])


def is_well_formed(func: PrimFunc) -> bool:
    """Not where a constant is written: that traps on a run, and is refused when it is read."""
    if not writes_constant(func):
        return True
    with pytest.raises(Invalid, match=r"tensor\.C26"):
        read_back(func)
    return False


def check_identity(func: PrimFunc) -> str:
    text = printed(func)
    if not is_well_formed(func):
        return text
    again = read_back(func)
    assert same_function(func, again), f"{text}\n\nis read as\n\n{printed(again)}"
    assert printed(again) == text
    return text


# --- print, then parse -------------------------------------------------------------------------------------------


@pytest.mark.row("R5")
@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False))
def test_printing_and_reading_is_the_identity(random: Any) -> None:
    check_identity(random_blocks(random)[0])


def test_many_functions_are_read_back() -> None:
    for seed in range(60):
        check_identity(random_blocks(Random(seed))[0])
        check_identity(random_case(Random(seed))[0])
        check_identity(Maker(Random(seed).randrange, "kernel").make())


@pytest.mark.campaign
def test_very_many_functions_are_read_back() -> None:
    for seed in range(2000, 12000):
        check_identity(random_blocks(Random(seed))[0])
        check_identity(Maker(Random(seed).randrange, "kernel").make())


X = Buffer("x", (4,), FLOAT32)
OUT = Buffer("out", (4,), FLOAT32)


def function(body: Stmt, *params: Buffer, **more: Any) -> PrimFunc:
    return PrimFunc("f", (*params, OUT), 1, body, **more)


def write(value: Expr | float = 1.0) -> Stmt:
    return store(OUT, 0, value)


def special_functions() -> dict[str, PrimFunc]:
    i, j, h, g, n, k = Var("i"), Var("i"), Var("i"), Var("i"), Var("n"), Var("k", INT32)
    t, strange = Var("t"), Var("for")
    symbolic = Buffer("A", (n, n * 2 + k.dtype.bits), FLOAT32)
    narrow = Buffer(
        "B", (k, 4), FLOAT32, "shared", {"dims": ("int64", "int32"), "align": "64", "elem_offset": Var("off")}
    )
    scoped = Buffer("C", (), FLOAT32, "local")
    table = np.array([[0.0, -0.0], [np.inf, np.nan]], "f4")
    table.view("u4")[1, 1] |= 5
    const_buffer = Buffer("table", (2, 2), FLOAT32)
    whole = Region(X, (const(0), const(1)), (const(4), None))
    off = narrow.notes["elem_offset"]
    return {
        "nothing": PrimFunc("nothing", (), 0, Seq(())),
        "no outputs": PrimFunc("f", (X,), 0, Evaluate(X[0])),
        "outputs that are not written": PrimFunc("f", (X, OUT), 2, write()),
        "fewer outputs than are written": PrimFunc("f", (X, OUT), 0, seq(store(X, 0, 1.0), write())),
        "attributes": function(write(),
            attrs={"a": (1, -2, "q\"'\n\\", None, True, 0.5, float("inf")), "b": {"c": const(3)}, "T": "é"}),
        "a global symbol": function(write(), attrs={"global_symbol": "f"}),
        "another global symbol": function(write(), attrs={"global_symbol": "main", "s_tir": False}),
        "a target": function(write(), attrs={"target": {"T.target": {"kind": "llvm", "keys": ("cpu",)}}}),
        "symbols": PrimFunc("f", (symbolic, OUT), 1, loops("a", (n,), lambda a: Evaluate(symbolic[a, 0]))),
        "what a buffer says of its place": PrimFunc(
            "f", (narrow, OUT), 1, LetStmt(off, const(0), seq(Evaluate(narrow[off, 0]), write()))
        ),
        "scalars": function(write(cast(n, FLOAT32)), scalars=(n, k)),
        "a dim that is a scalar": PrimFunc("f", (Buffer("x", (k, n), FLOAT32), OUT), 1, write(), scalars=(k,)),
        "names that are words": PrimFunc("f", (Buffer("class", (4,), FLOAT32), Buffer("2 x", (4,), FLOAT32)), 0,
            For(strange, const(3), Evaluate(strange))),
        "one name for all": PrimFunc("f", (Buffer("i", (4,), FLOAT32), OUT), 1,
            For(i, const(3), For(j, i + 1, write(cast(i + j, FLOAT32))))),
        "declarations that end early": function(
            seq(LetStmt(t, const(3), Evaluate(t)), Allocate(scoped, store(scoped, (), 1.0)),
                AllocateConst(const_buffer, table, Evaluate(const_buffer[1, 1])), write())
        ),
        "declarations to the end": function(
            seq(write(),
                LetStmt(t, const(3),
                Allocate(scoped, AllocateConst(const_buffer, table, seq(store(scoped, (), 1.0), Evaluate(t))))))
        ),
        "empty scopes": function(
            seq(For(i, const(2), Seq(())), If(const(True, BOOL), Seq(()), Seq(())), While(const(False, BOOL), Seq(())),
            write())),
        "else if": function(If(X[0] < 1.0, write(), If(X[0] < 2.0, write(2.0), If(X[0] < 3.0, write(3.0)))), X),
        "all kinds of loops": function(
            seq(*(For(Var("i"), const(2), write(), kind, start, notes)
                for kind in ("serial", "parallel", "vectorized", "unrolled") for start in (None, const(1))
                for notes in ({}, {"a": 1})))
        ),
        "loops with odd ends": function(
            seq(For(i, n, For(j, i, write(), start=i)), For(h, n - 1, For(g, n - h, write(), start=h)),
                *(For(Var("i"), e, write(), start=a) for e, a in ((const(0), n + 1), (const(3), const(0))))),
            Buffer("y", (n,), FLOAT32),
        ),
        "int32 loops": function(For(k, const(5, INT32), write(), "parallel", const(2, INT32))),
        "assertions": function(
            seq(Assert(X[0] < 1.0, "a \"word\" é \x00"), Assert(X[0] < 1.0, "", "out of bounds"), write()), X),
        "pragmas": function(Pragma("pragma_a", "text", Pragma("pragma_b", const(1), write()))),
        "blocks that say everything": PrimFunc(
            "f",
            (Buffer("x", (4, 2), FLOAT32), OUT),
            1,
            For(
                i,
                const(4),
                Block(
                    "b",
                    (IterVar(t, "spatial", const(4), i), IterVar(n, "reduce", const(2), const(1) - i % 2, const(0)),
                        IterVar(k, "opaque", const(1, INT32), const(0, INT32)), IterVar(j, "scan", i + 1, i)),
                    write(),
                    write(0.0),
                    both(i < 3, either(i > 0, const(True, BOOL))),
                    (),
                    (Region(OUT, (t,), (t + 1,)), Region(OUT, (t * 0,), (None,))),
                    (Buffer("own", (2,), FLOAT32, "shared"),),
                    (),
                    {"x": (1, {"y": "z"}), "buffers": (OUT,)},
                ),
            ),
        ),
        "a block of its own": function(Block("only", (), write())),
        "a root with advice": function(Block("root", (), write(), reads=(), writes=(), annotations={"a": 1})),
        "a root": function(
            Block("root", (), For(i, const(4), Block("b", (IterVar(t, "spatial", const(4), i),), store(OUT, t, 1.0))),
            reads=(), writes=(), allocated=(scoped,))),
        "a root that allocates only": function(Block("root", (), write(), reads=(), writes=(), allocated=(scoped,))),
        "a root that is not needed": function(Block("root", (), write(), reads=(), writes=())),
        "matches": function(
            Block("b", (), write(),
                views=(View(Buffer("part", (2,), FLOAT32), X, const(0) + const(1), (const(1),),
                Region(X, (const(1),), (const(3),))),)), X
        ),
        "views": function(
            Alias(View(Buffer("v", (2, 2), FLOAT32, notes={"elem_offset": "0"}), OUT, const(0), (const(2), const(1))),
                  seq(Alias(View(Buffer("w", (2, 2), FLOAT32), OUT, const(1), (const(1), const(2))), write()),
                      write())),
        ),
        "views of other places": function(
            For(i, const(2), Alias(View(Buffer("v", (2,), FLOAT32, "local"), OUT, i, (const(1),)), write()))),
        "whole regions": PrimFunc("f", (Buffer("x", (4, 2), FLOAT32), OUT), 1,
            Block("b", (), write(), reads=(replace(whole, buffer=OUT, starts=(const(0),), stops=(const(4),)),))),
    }  # fmt: skip


SPECIAL = special_functions()


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_are_read_back(name: str) -> None:
    check_identity(SPECIAL[name])


def test_long_functions_are_printed_and_read() -> None:
    lines = [write(float(k)) for k in range(1_500)]
    body: Stmt = write()
    for k in range(1_500):
        body = LetStmt(Var(f"t{k}"), const(k), body)
    for _ in range(1_500):
        body = LetStmt(Var("t"), const(1), body)
    text = check_identity(function(seq(*lines, body)))
    assert text.count("\n") > 3_000
    other: Stmt = write()
    for _ in range(300):
        other = If(const(True, BOOL), write(), other)
    check_identity(function(other))


def test_nests_are_read_back_as_deep_as_python_reads() -> None:
    body = write()
    for k in range(DEEPEST - 1):
        body = If(X[0] < float(k), body)
    check_identity(function(body, X))
    with pytest.raises(Unsupported) as caught:
        printed(function(If(X[0] < 1.0, body), X))
    assert caught.value.label == "text.C10"


def test_a_variable_of_two_loops_is_read_back_as_two() -> None:
    def loop(i: Var) -> Stmt:
        return For(i, const(2), write(cast(i, FLOAT32)))

    i = Var("i")
    one, two = function(seq(loop(i), loop(i))), function(seq(loop(Var("i")), loop(Var("i"))))
    assert printed(one) == printed(two) == check_identity(two)
    assert same_function(read_back(one), two)


def test_equality_sees_every_difference() -> None:
    func = SPECIAL["blocks that say everything"]
    assert same_function(func, func) and same_function(func, read_back(func))
    loop = func.body
    assert isinstance(loop, For) and isinstance(loop.body, Block)
    block = loop.body
    axes = block.iterators
    changes: list[Stmt] = [
        replace(loop, extent=const(5)),
        replace(loop, kind="parallel"),
        replace(loop, start=const(0)),
        replace(loop, annotations={"a": 1}),
        *(
            replace(loop, body=replace(block, **change))
            for change in (
                {"name": "c"},
                {"init": None},
                {"init": block.body},
                {"predicate": None},
                {"reads": None},
                {"writes": ()},
                {"allocated": ()},
                {"annotations": {}},
                {"iterators": axes[:-1]},
                {"iterators": (replace(axes[0], kind="reduce"), *axes[1:])},
                {"iterators": (replace(axes[0], start=const(0)), *axes[1:])},
                {"iterators": (replace(axes[0], value=loop.var + 1), *axes[1:])},
                {"body": write(2.0)},
            )
        ),
    ]
    for changed in changes:
        assert not same_function(func, replace(func, body=changed)), repr(changed)
    assert not same_function(func, replace(func, name="other"))
    assert not same_function(func, replace(func, num_outputs=2))
    assert not same_function(func, replace(func, attrs={"a": 1}))
    assert not same_function(func, replace(func, scalars=(Var("q"),)))
    i, j = Var("i"), Var("j")
    one = For(i, const(2), For(j, const(2), write(cast(i, FLOAT32))))
    two = For(i, const(2), For(j, const(2), write(cast(j, FLOAT32))))
    assert not same_function(function(one), function(two))
    assert same_function(function(one), function(For(j, const(2), For(i, const(2), write(cast(j, FLOAT32))))))
