"""Calls of tensor functions and externs by tensor functions, and vectors as text has them (rules E15, E16; M6.13)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.graph import run as run_graph
from assay.interp.values import Event
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, Call, PrimFunc, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.calls import without_calls
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from tests.interp.block_programs import random_blocks
from tests.interp.programs import outcome, writes_constant

HEAD = """from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.script import relax as R
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def scale(a: T.handle("float32", "global"), b: T.handle("float32", "global"), by: T.float32, k: T.int32):
        A = T.decl_buffer((8,), data=a)
        B = T.decl_buffer((8,), data=b)
        for i in range(k):
            B[i] = A[i] * by

    @T.prim_func(private=True, s_tir=True)
    def twice(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        t = T.alloc_buffer((n,), "float32")
        for i in range(n):
            t[i] = A[i]
        for i in T.parallel(n):
            B[i] = t[i] + t[i]

    @T.prim_func(private=True, s_tir=True)
    def down(A: T.Buffer((8,), "float32"), k: T.int32):
        T.func_attr({"num_outputs": 1})
        t: T.int32 = k - 1
        if k > 0:
            A[t] = T.Cast("float32", k)
            Module.down(A.data, t)

    @T.prim_func(private=True, s_tir=True)
    def in_blocks(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("more"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def for_ever(A: T.Buffer((8,), "float32")):
        T.func_attr({"num_outputs": 1})
        Module.for_ever(A.data)

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")):
        T.func_attr({"num_outputs": 1})
"""
X = np.arange(8, dtype=np.float32)


def module(body: str) -> Module:
    found = parse(HEAD + "".join(f"        {line}\n" for line in body.splitlines()), "calls.py")
    check(found)
    return found


def both(body: str, **more: Any) -> Any:
    """The outcome by the definition, which is that of the vector interpreter."""
    m = module(body)
    main = m.kernels["main"]
    want = outcome(lambda: tensor.run(main, [X], functions=m.kernels, **more))
    got = outcome(lambda: vector.run(main, [X], functions=m.kernels, **more))
    assert repr(want) == repr(got)
    return want


BLOCKS = """for i in range(2):
    with T.sblock("outer"):
        vi = T.axis.spatial(2, i)
        T.reads(x[0:8])
        T.writes(o[0:8])
        Module.in_blocks(x.data, o.data)"""
WHOLE = "Module.scale(x.data, o.data, T.float32(3), 8)"
VALUES: dict[str, tuple[str, Any]] = {
    "pointers": (WHOLE, X * 3),
    "whole buffers with symbols": ("Module.twice(x.data, o.data)", X * 2),
    "one after another, and in a loop": (
        (
            "Module.twice(x.data, o.data)\nfor i in range(3):\n"
            "    Module.scale(x.data, o.data, T.Cast('float32', i), i + 1)"
        ), [0, 2, 4, 6, 8, 10, 12, 14]),
    "from an element on": (
        (
            "t = T.alloc_buffer((16,), 'float32')\nModule.scale(x.data, T.address_of(t[8]), T.float32(2), 8)\n"
            "for i in range(8):\n    o[i] = t[i + 8]"
        ), X * 2),
    "a range of elements": (
        (
            "t = T.alloc_buffer((4, 8), 'float32')\n"
            "Module.scale(x.data, T.tvm_access_ptr(T.type_annotation('float32'), t.data, 16, 8, 2), T.float32(5), "
            "8)\nfor i in range(8):\n    o[i] = t[2, i]"
        ), X * 5),
    "blocks inside blocks": (BLOCKS, X + 1),
    "by itself": ("Module.down(o.data, 8)", [1, 2, 3, 4, 5, 6, 7, 8]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_calls(name: str) -> None:
    body, want = VALUES[name]
    (got,) = both(body)
    assert got.tolist() == list(want)


@pytest.mark.parametrize("name", VALUES)
def test_printed_calls_are_read_again(name: str) -> None:
    m = module(VALUES[name][0])
    text = show(m)
    again = parse(text, "again.py")
    check(again)
    assert show(again) == text
    assert tensor.run(again.kernels["main"], [X], functions=again.kernels)[0].tolist() == list(VALUES[name][1])


TRAPS: dict[str, tuple[str, str, str]] = {
    "out of bounds inside": ("Module.scale(x.data, o.data, T.float32(3), 9)", "out of bounds",
        "index 8 is outside [0, 8) in dimension 0, in iteration i=8"),
    "a size that differs": ("t = T.alloc_buffer((7,), 'float32')\nModule.twice(t.data, o.data)", "shape",
        "twice takes B: Buffer((n), float32); o has 8 in dimension 0; n = 7 by t"),
    "too few elements": ("Module.scale(T.address_of(x[1]), o.data, T.float32(3), 8)", "shape",
        "scale takes A: Buffer((8), float32); x_from has 7 elements, which must be at least 8"),
    "unwritten": ("t = T.alloc_buffer((8,), 'float32')\nModule.twice(t.data, o.data)", "unwritten read", "t[0]"),
    "an operand is constant": ("for i in range(8):\n    o[i] = x[i]\nModule.down(x.data, 3)", "store to constant", "x"),
    "undeclared inside": (BLOCKS.replace("x[0:8]", "x[0:3]"), "undeclared access",
        "block outer reads A[3]; it declares that it reads x[0:3]"),
    "a race inside": ("for i in T.parallel(2):\n    Module.scale(x.data, o.data, T.float32(3), 8)", "race",
        "iterations 0 and 1"),
    "for ever": ("Module.for_ever(o.data)", "recursion", "for_ever is called 200 activations deep"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_traps_inside_calls(name: str) -> None:
    body, kind, words = TRAPS[name]
    found = both(body)
    assert found[0] == kind and words in repr(found), found


def test_a_call_that_never_ends_breaks_the_rule_of_depth() -> None:
    m = module(TRAPS["for ever"][0])
    with pytest.raises(Trap) as caught:
        tensor.run(m.kernels["main"], [X], functions=m.kernels)
    assert caught.value.label == "tensor.T13"


@pytest.mark.parametrize(
    ("body", "label"),
    [
        ("Module.nobody(o.data)", "tensor.C15"),
        ("Module.twice(x.data)", "tensor.C16"),
        ("Module.twice(x.data, o.data, 3)", "tensor.C16"),
        ("Module.scale(x.data, o.data, T.float64(3), 8)", "tensor.C16"),
        ("t = T.alloc_buffer((8,), 'int32')\nModule.twice(t.data, o.data)", "tensor.C16"),
        ("Module.twice(x.data, 'o')", "tensor.C16"),
    ],
)
def test_calls_must_fit(body: str, label: str) -> None:
    with pytest.raises(Invalid) as wrong:
        module(body)
    assert wrong.value.label == label


def test_calls_can_be_written_out() -> None:
    m = module(WHOLE)
    main = m.kernels["main"]
    flat = without_calls(main, m.kernels)
    assert not any(isinstance(s, Call) for s in program_order(flat.body)) and without_calls(flat, {}) is flat
    assert vector.compile_function(flat, [X]).kernel is not None
    with pytest.raises(Unsupported) as refused:
        without_blocks(main)
    assert refused.value.label == "tensor.C17"
    endless = module("Module.down(o.data, 8)")
    with pytest.raises(Unsupported):
        without_calls(endless.kernels["main"], endless.kernels)


def test_externs_are_called_in_order() -> None:
    body = 'T.call_packed("first", x.data, o.data, 3)\nT.call_extern("int32", "second", T.address_of(o[6]), "words")'
    seen: list[Any] = []

    def first(x: Any, o: Any, k: Any) -> None:
        assert not x.flags.writeable and o.flags.writeable and not o.any()
        o[:] = x + k

    def second(o: Any, words: str) -> None:
        seen.append((o.tolist(), words))
        o[0] = -1

    for run in (tensor.run, vector.run):
        m = module(body)
        trace: list[Event] = []
        (got,) = run(
            m.kernels["main"], [X], functions=m.kernels, externs={"first": first, "second": second}, trace=trace
        )
        assert got.tolist() == [3, 4, 5, 6, 7, 8, -1, 10]
        assert [e.name for e in trace] == ["first", "second"] and trace[1].values[0].tolist() == [9, 10]
        with pytest.raises(Invalid) as missing:
            run(m.kernels["main"], [X], functions=m.kernels)
        assert missing.value.label == "extern.C1"
    assert seen == [([9.0, 10.0], "words")] * 2


def test_a_graph_function_calls_what_calls() -> None:
    text = (
        HEAD.replace("def main(x", "def kernel(x")
        + f"        {WHOLE}\n"
        + """
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        gv = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((8,), "float32"))
        return gv
"""
    )
    m = parse(text, "calls.py")
    check(m)
    (got,) = run_graph(m, {"x": X}).values()
    assert got.tolist() == (X * 3).tolist()


VECTORS: dict[str, tuple[str, Any]] = {
    "slices": ("o[0:8] = x[T.Ramp(0, 1, 8)] + T.Broadcast(x[1], 8)", X + 1),
    "steps": ("o[0:8:2] = x[0:4]\no[1:9:2] = x[T.Ramp(4, 1, 4)]", [0, 4, 1, 5, 2, 6, 3, 7]),
    "all lanes read first": ("o[0:8] = x[0:8]\no[1:8] = o[0:7]", [0, 0, 1, 2, 3, 4, 5, 6]),
    "in a loop": ("for i in range(2):\n    o[i * 4:i * 4 + 4] = T.Cast('float32x4', T.Ramp(i, 2, 4))",
        [0, 2, 4, 6, 1, 3, 5, 7]),
    "named": ("v: T.let[T.float32x8] = x[T.Ramp(0, 1, 8)]\no[T.Ramp(7, -1, 8)] = v * v", (X * X)[::-1]),
    "shuffled": ("o[0:8] = T.Shuffle([x[0:4], x[T.Ramp(4, 1, 4)]], [7, 6, 5, 4, 0, 1, 2, 3])",
        [7, 6, 5, 4, 0, 1, 2, 3]),
    "put together": ("o[0:8] = x[0:8]\no[0:2] = T.Shuffle([x[7], x[6]], [1, 0])", [6, 7, 2, 3, 4, 5, 6, 7]),
    "chosen": ("o[0:8] = T.Select(x[0:8] < T.Broadcast(T.float32(3), 8), x[0:8], T.Broadcast(T.float32(0), 8))",
        [0, 1, 2, 0, 0, 0, 0, 0]),
    "elements that are vectors": (
        (
            "v = T.alloc_buffer((2,), 'float32x4')\nfor i in range(2):\n    v[1 - i] = x[i * 4:i * 4 + 4]\n"
            "o[0:4] = v[0] + v[1]\no[4:8] = v[0]"
        ),
        [4, 6, 8, 10, 4, 5, 6, 7],
    ),
    "several at once": (
        (
            "v = T.alloc_buffer((4,), 'float32x4')\nv[0:4:2] = x[T.Ramp(0, 1, 8)]\n"
            "v[T.Ramp(3, -2, 2)] = v[0:4:2]\no[0:8] = v[1:5:2]"
        ),
        [4, 5, 6, 7, 0, 1, 2, 3],
    ),
    "a vector by its name": ("v: T.float32x4 = x[2:6]\no[0:4] = v\nv = v + v\no[4:8] = v", [2, 3, 4, 5, 4, 6, 8, 10]),
    "a lane of one": (
        (
            "v = T.alloc_buffer((1,), 'float32x4')\nv[0] = x[0:4]\nfor i in range(8):\n"
            "    o[i] = T.Shuffle([v], [3]) + T.Shuffle([v[0]], [1])"
        ), [4] * 8),
    "vectors in the memory of numbers": (
        (
            "v = T.decl_buffer((2, 1), 'float32x4', data=x.data, strides=[1, 1])\nw = o.view('int32x2')\n"
            "u = x.view('int32')\no[0:4] = v[1, 0]\nw[2] = u[T.Ramp(1, -1, 2)]\no[6:8] = x[0:2]"
        ),
        [4, 5, 6, 7, 1, 0, 0, 1],
    ),
    "a part of vectors": (
        ("v = T.alloc_buffer((3, 2), 'float32x2')\nfor i, j in T.grid(3, 2):\n    with T.sblock('b'):\n"
        "        vi, vj = T.axis.remap('SS', [i, j])\n"
        "        T.reads(x[0:8])\n        T.writes(v[vi, 0:2])\n"
        "        w = T.match_buffer(v[vi, 0:2], (2,), 'float32x2', offset_factor=1)\n"
        "        w[vj] = x[T.Ramp(vi + vj, 1, 2)]\no[0:8] = v[T.Ramp(0, 0, 4), 1]\no[0:4] = v[2, 0:2]"),
        [2, 3, 3, 4, 1, 2, 1, 2],
    ),
    "handed over": (
        (
            "v = T.alloc_buffer((3,), 'float32x4')\nv[1] = x[0:4]\nv[2] = x[4:8]\n"
            "Module.scale(T.address_of(v[1]), o.data, T.float32(2), 8)"
        ), 2 * X),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_their_lanes(name: str) -> None:
    body, want = VECTORS[name]
    assert both(body)[0].tolist() == list(want)
    text = show(module(body))
    assert show(parse(text, "again.py")) == text


BITS: dict[str, tuple[str, Any]] = {
    "read": ("v = x.view('int32')\nfor i in range(8):\n    o[i] = T.Cast('float32', v[i] >> 23)",
        (X.view(np.int32) >> 23).astype(np.float32)),
    "written": ((
        "v = T.decl_buffer((8,), 'uint32', data=o.data)\nfor i in T.parallel(8):\n"
        "    v[i] = T.Cast('uint32', i) << T.uint32(23)"
    ), (np.arange(8, dtype=np.uint32) << 23).view(np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("name", BITS)
def test_the_same_bits_as_other_numbers(name: str) -> None:
    body, want = BITS[name]
    assert both(body)[0].tobytes() == want.tobytes()


def test_an_activation_shares_no_name() -> None:
    """A function with other names: nothing of the old one is left, and it does the same."""
    for seed in range(60):
        func, inputs = random_blocks(Random(seed))
        mapper = Mapper.renewing(func)
        other = replace(
            func,
            params=tuple(map(mapper.buffer, func.params)),
            scalars=tuple(map(mapper.var, func.scalars)),
            body=mapper.run(func.body),
        )
        assert writes_constant(other) == writes_constant(func)
        old, new = names_in(func), names_in(other)
        assert len(old) == len(new) and not old & new
        assert repr(outcome(lambda f=func, x=inputs: tensor.run(f, x))) == repr(
            outcome(lambda f=other, x=inputs: tensor.run(f, x))
        )  # type: ignore[misc]


def names_in(func: PrimFunc) -> set[Any]:
    """The variables and buffers that occur anywhere below a function."""
    found: set[Any] = set()
    work: list[Any] = [func]
    seen: set[int] = set()
    while work:
        item = work.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, (Var, Buffer)):
            found.add(item)
        if isinstance(item, tuple):
            work += item
        elif is_dataclass(item) and not isinstance(item, (Var, DType)):
            work += [getattr(item, f.name) for f in fields(item) if f.name not in ("span", "attrs", "notes")]
    return found
