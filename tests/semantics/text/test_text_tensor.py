"""Tensor functions as text: what is read means what it says, what is printed is read back, and what is wrong is
shown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import tensor
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.dtypes import BOOL, FLOAT32, INT32
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Module
from assay.semantics.scalar import Expr, Var, both, cast, choice, const, either, select
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
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
    program_order,
    seq,
    store,
)
from assay.semantics.text.source import Source
from assay.semantics.text.tensor.parser import parse_prim_func
from assay.semantics.text.tensor.printer import DEEPEST, module_symbols, print_prim_func
from assay.semantics.walk import post_order
from assay.verify.strategies.kernels import Kernels as Maker
from tests.interp.block_programs import random_blocks
from tests.interp.programs import random_case, same_bits, writes_constant

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
    lines = [write(float(k)) for k in range(3_000)]
    body: Stmt = write()
    for k in range(3_000):
        body = LetStmt(Var(f"t{k}"), const(k), body)
    for _ in range(3_000):
        body = LetStmt(Var("t"), const(1), body)
    text = check_identity(function(seq(*lines, body)))
    assert text.count("\n") > 6_000
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


# --- what texts mean ---------------------------------------------------------------------------------------------


def run(func: PrimFunc, *inputs: Any, scalars: Sequence[Any] = ()) -> Any:
    return tensor.run(
        func, [np.asarray(x, b.dtype.numpy) for x, b in zip(inputs, func.inputs, strict=True)], scalars=scalars
    )


@pytest.mark.row("R4")
def test_older_spellings() -> None:
    funcs = read_all(OLD.read_text())
    (b,) = run(funcs["padded"], [[1, 2, 3, 4, 5, 6]])
    assert b.tolist() == [0, 2, 4, 6, 8, 10, 12, 0]
    a, w = np.arange(8.0).reshape(2, 4) - 3, np.arange(12.0).reshape(4, 3) - 5
    (c,) = run(funcs["gemm"], a, w)
    assert np.array_equal(c, np.maximum(a @ w, 0))
    assert isinstance(funcs["gemm"].body, Block) and funcs["gemm"].body.name == "root"
    assert run(funcs["lets"], [0, 1, 2, 5])[0].tolist() == [-(2**31), 3, 4, 4]
    assert run(funcs["collatz"], [1, 6, 27])[0].tolist() == [0, 8, 100]
    for func in funcs.values():
        check_identity(func)


@pytest.mark.parametrize(
    ("loop", "wanted"),
    [
        ("range(3)", [0, 1, 2]),
        ("range(1, 3)", [1, 2]),
        ("range(0, 4, 2)", [0, 2]),
        ("range(1, 4, 2)", [1, 3]),
        ("range(T.int64(3))", [0, 1, 2]),
        ("T.serial(1, T.int64(4))", [1, 2, 3]),
        ("T.serial(4, step=3)", [0, 3]),
        ("T.unroll(2)", [0, 1]),
        ("T.vectorized(1, 2)", [1]),
        ("T.parallel(0)", []),
    ],
)
def test_loops_run_over(loop: str, wanted: list[int]) -> None:
    func = read(
        f"@T.prim_func\ndef f(o: T.Buffer((5,), 'int32')):\n for i in range(5):\n  o[i] = 0\n for i in {loop}:\n  o[i]"
        " = 1\n"
    )
    assert np.flatnonzero(run(func)[0]).tolist() == wanted


def test_scalar_parameters_and_symbols() -> None:
    func = read(
        "n = TypeVar('n')\n@T.prim_func\ndef f(k: T.int32, a: T.Buffer(('n + T.int64(1)', n), 'float32'), s: T.float32,"
        " o: T.Buffer((n, 'k'), 'float32')):\n    for i, j in T.grid(n, k):\n        o[i, j] = a[i + 1, i] * s\n"
    )
    assert [v.name for v in func.scalars] == ["k", "s"] and func.scalars[0].dtype is INT32
    (out,) = run(func, np.arange(6).reshape(3, 2), scalars=[2, 0.5])
    assert out.tolist() == [[1, 1], [2.5, 2.5]]
    check_identity(func)


def test_offsets_and_strides_of_parameters_are_those_of_dense_rows() -> None:
    func = read(
        "@T.prim_func\n"
        "def f(a: T.handle, o: T.Buffer((2, 3), 'float32', elem_offset='e', strides=('s', 1))):\n"
        "    t = T.int64()\n"
        "    A = T.match_buffer(a, (2, 3), 'float32', strides=[t, 1], offset_factor=1)\n"
        "    B = T.decl_buffer((6,), 'float32', data=A.data, elem_offset=e)\n"
        "    for i, j in T.grid(2, 3):\n"
        "        o[i, j] = B[i * t + j * s // 3 + e]\n"
    )
    assert run(func, np.arange(6).reshape(2, 3))[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    text = check_identity(func)
    assert "elem_offset=e" in text and "strides=(s, 1)" in text and "offset_factor=1" in text


CELLS = """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((3,), "int32"), o: T.Buffer((1,), "int32")):
    total: T.int32 = 0
    limit = total + 4
    for i in range(3):
        if total < limit:
            total = total + a[i]
    o = total
"""


def test_scalars_in_memory_are_written_as_tvm_writes_them() -> None:
    func = read(CELLS)
    assert [run(func, a)[0][0] for a in ([1, 2, 3], [4, 5, 6], [3, 3, 3])] == [6, 4, 6]
    text = check_identity(func)
    assert "total: T.int32 = 0" in text and "total = total + a[i]" in text and "limit: T.int32 = total + 4" in text


def test_outputs_are_what_is_written() -> None:
    head = "@T.prim_func\ndef f(a: T.Buffer((2,), 'int32'), b: T.Buffer((2,), 'int32'), c: T.Buffer((2,), 'int32')):\n"
    assert read(head + "    c[0] = a[0]\n").num_outputs == 1
    assert read(head + "    v = c.view(2)\n    v[0] = a[0]\n    b[0] = 1\n").num_outputs == 2
    assert read(head + "    pass\n").num_outputs == 0
    assert read(head + "    T.func_attr({'num_outputs': 2})\n    c[0] = 1\n").num_outputs == 2
    with pytest.raises(Unsupported, match="f writes a but only reads c, which comes after it") as caught:
        read(head + "    a[0] = c[0]\n")
    assert caught.value.label == "text.C12"


def test_blocks_are_stored_and_read_back(tmp_path: Path) -> None:
    """The JSON of modules knows the same nodes."""
    funcs = {f"f{seed}": random_blocks(Random(seed))[0] for seed in range(40)}
    funcs |= {f"s{k}": f for k, f in enumerate(SPECIAL.values())}
    funcs["c"] = read(CELLS)
    path = tmp_path / "arrays"
    with path.open("wb") as file:
        text = encode(Module(dict(funcs)), ArrayWriter(file))
    again = decode(text, ArrayReader(path)).definitions
    for name, func in funcs.items():
        other = again[name]
        assert isinstance(other, PrimFunc) and same_function(func, other), name


def test_statement_classes_are_all_covered() -> None:
    seen = {type(s).__name__ for f in SPECIAL.values() for s in program_order(f.body)}
    assert seen == {
        "Alias",
        "Allocate",
        "AllocateConst",
        "Assert",
        "Block",
        "Evaluate",
        "For",
        "If",
        "LetStmt",
        "Pragma",
        "Seq",
        "Store",
        "While",
    }


def test_what_reads_back_computes_the_same() -> None:
    for seed in range(40):
        func, inputs = random_blocks(Random(seed))
        if not is_well_formed(func):
            continue
        try:
            wanted = tensor.run(func, inputs)
        except Exception:  # noqa: BLE001  only runs that end are of interest here
            continue
        assert all(map(same_bits, tensor.run(read_back(func), inputs), wanted))


def test_a_select_is_lazy_where_a_branch_can_fail() -> None:
    """As TVM's pipeline makes it; ours, which is strict, is written in another way."""
    x, out = Buffer("x", (4,), FLOAT32), Buffer("out", (4,), FLOAT32)

    def func(value: Callable[[Var], Expr]) -> PrimFunc:
        return PrimFunc("f", (x, out), 1, loops("i", (4,), lambda i: store(out, i, value(i))), {"s_tir": False})

    strict = func(lambda i: select(i < 3, x[i + 1], const(0.0, FLOAT32)))
    lazy = func(lambda i: choice(i < 3, x[i + 1], const(0.0, FLOAT32), as_select=True))
    harmless = func(lambda i: select(i < 3, cast(i, FLOAT32), const(0.0, FLOAT32)))
    other = func(lambda i: choice(i < 3, x[i + 1], const(0.0, FLOAT32)))
    words = ("T.Select(T.likely(", "T.Select(i ", "T.Select(i ", "T.if_then_else(")
    for f, word in zip((strict, lazy, harmless, other), words, strict=True):
        check_identity(f)
        assert word in printed(f)


def test_a_vector_that_is_stored_between_others_is_one_line() -> None:
    """TVM has no let that ends before its scope does; the lanes are put together instead."""
    func = read(
        "@T.prim_func\ndef f(a: T.Buffer((2, 8), 'float32'), o: T.Buffer((2, 8), 'float32')):\n    for i in range(2):\n"
        "        o[i, 0:4] = a[i, T.Ramp(4, 1, 4)]\n        o[i, 4:8:2] = a[i, 0:2] * T.Broadcast(a[i, 3], 2)\n"
        "        o[i, 5] = a[i, 5]\n        o[i, 7] = a[i, 7]\n"
    )
    check_identity(func)
    text = printed(func)
    assert "LetStmt" not in text
    assert "o[i, 0:4] = T.Shuffle([a[i, 4], a[i, 5], a[i, 6], a[i, 7]], [0, 1, 2, 3])" in text
    assert "o[i, 4:8:2] = T.Shuffle([" in text
