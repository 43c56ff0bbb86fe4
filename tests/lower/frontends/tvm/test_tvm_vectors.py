"""Buffers whose elements are vectors, and memory that TVM uses again as another dtype: what each pass makes of a
function means here what its code computes, bit for bit, read from live objects and from text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.lower.c import emit
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.errors import Unsupported
from assay.semantics.tensor import Alias, program_order
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.interp.programs import same_bits
from tests.lower.frontends.tvm.tvm_models import lowered, tvm
from tests.lower.memory.planned import alone
from tests.semantics.text.test_text_tensor import check_identity, printed, read

I = tvm.script.ir  # noqa: E741
T = tvm.script.tirx
transform = tvm.tirx.transform

pytestmark = pytest.mark.peer
Array = np.ndarray[Any, Any]
A = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)


@I.ir_module
class Staged:
    """StorageRewrite makes the buffer in between one of vectors."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((16, 16), "float32"), c: T.Buffer((16, 16), "float32")):
        b = T.alloc_buffer((16, 16), "float32")
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                b[i, j * 4 + k] = a[i, j * 4 + k] * T.float32(3)
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                c[i, j * 4 + k] = b[i, j * 4 + k] + T.float32(1)


@I.ir_module
class Reused:
    """StorageRewrite puts both buffers in between, of two dtypes, into one memory."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((16, 16), "float32"), c: T.Buffer((16, 16), "float32")):
        b = T.alloc_buffer((16, 16), "float32")
        d = T.alloc_buffer((64, 16), "int8")
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                b[i, j * 4 + k] = a[i, j * 4 + k] * T.float32(3)
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                c[i, j * 4 + k] = b[i, j * 4 + k] + T.float32(1)
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                d[i, j * 4 + k] = T.Cast("int8", c[i, j * 4 + k] * T.float32(3))
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                c[i, j * 4 + k] = T.Cast("float32", d[i, j * 4 + k]) + T.float32(1)


@I.ir_module
class Wide:
    """Lanes of two numbers, and a loop that reads a row over and over."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((16, 16), "float32"), c: T.Buffer((16, 16), "float32")):
        b = T.alloc_buffer((16, 16), "float32")
        d = T.alloc_buffer((16, 16), "float32")
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                b[i, j * 4 + k] = a[i, j * 4 + k] * T.float32(3)
        for i, j in T.grid(16, 4):
            for k in T.vectorized(4):
                d[i, j * 4 + k] = b[i, j * 4 + k] + T.float32(1)
        for i, j in T.grid(16, 2):
            for k in T.vectorized(8):
                c[i, j * 8 + k] = d[i, j * 8 + k] + d[0, k]


def run_in_tvm(code: Any, inputs: list[Array], shape: tuple[int, ...]) -> Array:
    out = tvm.runtime.tensor(np.zeros(shape, np.float32))
    code(*map(tvm.runtime.tensor, inputs), out)
    found: Array = out.numpy()
    return found


@pytest.mark.parametrize(("mod", "marks"), [(Staged, '"float32x4"'), (Reused, '"int8", data='), (Wide, "T.Ramp(")])
def test_what_the_storage_rewrite_makes(mod: Any, marks: str) -> None:
    code, stages = lowered(mod)
    want = run_in_tvm(code, [A], (16, 16))
    assert any(marks in after.script() for _, after in stages)
    for name, after in stages:
        module = from_tvm(after)
        rules.check(module)
        func = read(after["main"].script())
        check_identity(func)
        for one in (module.kernel("main"), func):
            (got,) = vector.run(one, [A])
            assert same_bits(got, want), name
    for one in (module.kernel("main"), func):
        (slow,) = tensor.run(one, [A])
        assert same_bits(slow, want)
        assert vector.compile_function(one, [A]).way is not None
        compiled = compile_c(emit(alone(replace(one, name="kernel")), "one"), reproducible=True, flags=(*STRICT, "-O2"))
        assert same_bits(compiled.run({"a": A})["c"], want)


def test_parameters_of_vectors() -> None:
    """After PointerValueTypeRewrite a parameter's elements are vectors: a dimension more."""
    mod = transform.BindTarget(tvm.target.Target("llvm"))(Wide)
    for name in ("FlattenBuffer", "VectorizeLoop", "PointerValueTypeRewrite"):
        mod = getattr(transform, name)()(mod)
    text = mod["main"].script()
    assert 'T.Buffer((16, 4), "float32x4")' in text
    want = run_in_tvm(lowered(Wide)[0], [A], (16, 16))
    for func in (from_tvm(mod).kernel("main"), read(text)):
        assert [b.shape for b in func.params] == [(16, 4, 4), (16, 2, 8)]
        for run in (tensor.run, vector.run):
            (got,) = run(func, [A.reshape(16, 4, 4)])
            assert same_bits(got.reshape(16, 16), want)


def test_a_lane_at_the_wrong_place_is_seen() -> None:
    """Planted: an access of one vector further."""
    _, stages = lowered(Staged)
    text = stages[-1][1]["main"].script()
    assert "B[i * 4 + j] +" in text.replace("b[", "B[")
    worse = read(text.replace("b[i * 4 + j] +", "b[(i * 4 + j + 1) % 64] +"))
    (got,) = tensor.run(worse, [A])
    assert not same_bits(got, tensor.run(read(text), [A])[0])


@I.ir_module
class Vectors:
    """What else there is of vectors: names, choices, lanes picked, views, several elements at once."""

    @T.prim_func
    def main(x: T.Buffer((4,), "float32x4"), a: T.Buffer((16,), "float32"), o: T.Buffer((64,), "float32")):
        b = T.alloc_buffer((1,), "float32x4")
        d = T.alloc_buffer((6,), "float32x4")
        z = T.alloc_buffer((2,), "boolx4")
        v = T.decl_buffer((2,), "float32x4", data=x.data, elem_offset=2)
        w = T.decl_buffer((8,), "float32", data=x.data, elem_offset=4)
        u = T.decl_buffer((4, 2), "int32x2", data=a.data)
        b[0] = x[1]
        o[0:4] = b[0] + b[0]
        z[0] = x[0] < x[1]
        z[1] = x[1] < x[0]
        o[4:8] = T.Select(z[0], x[0], x[1])
        o[8:12] = T.if_then_else(a[3] > T.float32(0), x[2], x[3])
        o[12:16] = T.Cast("float32x4", T.Cast("int32x4", v[0]))
        o[16:32] = x[T.Ramp(0, 1, 4)]
        y: T.let[T.float32x4] = v[1] * v[1]
        o[32:36] = y + T.Broadcast(w[3], 4)
        d[0:4] = x[T.Ramp(3, -1, 4)]
        d[4] = T.Shuffle([d[0], d[1]], [7, 0, 3, 4])
        d[5] = T.exp(d[4])
        o[36:60] = d[T.Ramp(0, 1, 6)]
        o[60] = T.Shuffle([d[2]], [3])
        o[61] = T.Cast("float32", T.Shuffle([u[1, 1]], [1]))
        o[62] = w[7]
        o[63] = T.Cast("float32", T.Shuffle([z[1]], [2]))


def test_all_that_vectors_do() -> None:
    x, a = A[0].reshape(4, 4), A[1]
    u = a.view(np.int32).reshape(4, 2, 2)
    d = np.concatenate([x[::-1], [[x[2, 3], x[3, 0], x[3, 3], x[2, 0]]]]).astype(np.float32)
    want = [
        2 * x[1], np.where(x[0] < x[1], x[0], x[1]), x[2] if a[3] > 0 else x[3],
            x[2].astype(np.int32).astype(np.float32), *x,
        x[3] * x[3] + x.reshape(-1)[7], *d, np.exp(d[4]),
        np.array([d[2, 3], u[1, 1, 1], x.reshape(-1)[11], x[1, 2] < x[0, 2]], np.float32),
    ]  # fmt: skip
    text = Vectors["main"].script()
    func = read(text)
    check_identity(func)
    for one in (func, from_tvm(Vectors).kernel("main")):
        for run in (tensor.run, vector.run):
            (got,) = run(one, [x, a])
            assert np.allclose(got, np.concatenate(want), rtol=1e-6) and same_bits(got[:52], np.concatenate(want)[:52])


@I.ir_module
class Between:
    @T.prim_func
    def main(a: T.Buffer((16, 16), "float32"), c: T.Buffer((16, 16), "float32")):
        for i in range(16):
            c[i, 0:8] = a[i, T.Ramp(8, 1, 8)]
            c[i, 8:16] = a[i, T.Ramp(0, 1, 8)] * T.Broadcast(T.float32(2), 8)


def test_tvm_reads_what_is_printed_of_vectors() -> None:
    """Each lane is a number there, in a buffer with one dimension more: TVM computes the same."""
    for mod in (Staged, Reused, Between):
        code, stages = lowered(mod)
        func = read(stages[-1][1]["main"].script())
        text = printed(func)
        assert "float32x4" not in text and ("T.Shuffle" in text) == (mod is Between)
        again = tvm.script.from_source(text, check_well_formed=False)
        library = tvm.compile(tvm.IRModule({"main": again.with_attr("global_symbol", "main")}), target="llvm")
        assert same_bits(run_in_tvm(library["main"], [A], (16, 16)), run_in_tvm(code, [A], (16, 16)))


@I.ir_module
class Packed:
    """Four bytes make a number, written and read through views of parameters."""

    @T.prim_func
    def main(x: T.Buffer((8,), "float32"), q: T.Buffer((8,), "int32"), o: T.Buffer((8,), "float32")):
        b = T.decl_buffer((32,), "uint8", data=x.data)
        p = T.decl_buffer((32,), "uint8", data=q.data)
        h = T.decl_buffer((16,), "uint16", data=o.data)
        for i in range(32):
            p[i] = b[i // 4 * 4 + (3 - i % 4)]
        for i in range(16):
            h[i] = T.Cast("uint16", p[i * 2]) + T.Cast("uint16", p[i * 2 + 1]) * T.uint16(256)


def test_bytes_as_tvm_sees_them() -> None:
    x = A[0, :8]
    library = tvm.compile(Packed, target="llvm")
    q, o = tvm.runtime.tensor(np.zeros(8, np.int32)), tvm.runtime.tensor(np.zeros(8, np.float32))
    library["main"](tvm.runtime.tensor(x), q, o)
    func = read(Packed["main"].script())
    check_identity(func)
    for one in (func, from_tvm(Packed).kernel("main")):
        assert sum(isinstance(s, Alias) for s in program_order(one.body)) == 3
        for run in (tensor.run, vector.run):
            got = run(one, [x])
            assert same_bits(got[0], q.numpy()) and same_bits(got[1], o.numpy())


REFUSED: dict[str, Callable[[], Any]] = {
    "a region of vectors": lambda: tvm.script.from_source(
        "@T.prim_func(s_tir=True)\ndef main(x: T.Buffer((4,), 'float32x4')):\n    with T.sblock('b'):\n       "
        " T.reads()\n        T.writes(x[0:2])\n        q = T.match_buffer(x[0:2], (2,), 'float32x4', offset_factor=1)\n"
        "        q[0] = T.Broadcast(T.float32(1), 4)\n"
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        from_tvm(tvm.IRModule({"main": REFUSED[words]()})).kernel("main")
