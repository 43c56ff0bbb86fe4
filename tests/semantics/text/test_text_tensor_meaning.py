"""What the texts of tensor functions mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Unsupported
from assay.semantics.module import Module
from assay.semantics.scalar import Expr, Var, cast, choice, const, select
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor import (
    Block,
    Buffer,
    PrimFunc,
    loops,
    program_order,
    store,
)
from tests.interp.block_programs import random_blocks
from tests.interp.programs import same_bits
from tests.semantics.text.test_text_tensor import (
    OLD,
    SPECIAL,
    check_identity,
    is_well_formed,
    printed,
    read,
    read_all,
    read_back,
    same_function,
)

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
