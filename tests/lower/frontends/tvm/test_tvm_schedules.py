"""Scheduled tensor functions of TVM: each step of lowering one means here what its code computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.tensor import For, LetStmt, View, program_order
from tests.lower.frontends.tvm.tvm_models import lowered, tvm

I = tvm.script.ir  # noqa: E741
T = tvm.script.tirx
te = tvm.te

pytestmark = pytest.mark.peer
RANDOM = np.random.default_rng(11)
A = RANDOM.standard_normal((16, 24)).astype(np.float32)
B = RANDOM.standard_normal((24, 32)).astype(np.float32)


def matmul() -> Any:
    a, b = te.placeholder((16, 24), name="A"), te.placeholder((24, 32), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def tiled(s: Any) -> Any:
    c = s.get_sblock("C")
    i, j, k = s.get_loops(c)
    (i0, i1), (j0, j1), (k0, k1) = s.split(i, [None, 4]), s.split(j, [None, 8]), s.split(k, [None, 4])
    s.reorder(i0, j0, k0, i1, k1, j1)
    return c


def parallel(s: Any) -> None:
    c = tiled(s)
    s.parallel(s.get_loops(c)[0])
    s.unroll(s.get_loops(c)[3])


def decomposed(s: Any) -> None:
    c = tiled(s)
    s.decompose_reduction(c, s.get_loops(c)[2])


def vectorized(s: Any) -> None:
    s.vectorize(s.get_loops(tiled(s))[-1])


def factored(s: Any) -> None:
    k0, _ = s.split(s.get_loops(s.get_sblock("C"))[2], [4, None])
    s.rfactor(k0, 0)


def cached(s: Any) -> None:
    c = s.get_sblock("C")
    read = s.cache_read(c, 0, "local")
    i0, _ = s.split(s.get_loops(c)[0], [None, 4])
    s.compute_at(read, i0)
    s.reverse_compute_at(s.cache_write(c, 0, "local"), i0)


def uneven(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    (i0, i1), (j0, j1) = s.split(i, [None, 5]), s.split(j, [None, 7])
    s.reorder(i0, j0, i1, j1, k)


def in_blocks(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    (i0, i1), (j0, j1) = s.split(i, [None, 4]), s.split(j, [None, 8])
    s.reorder(i0, j0, i1, j1, k)
    s.blockize(i1)


@pytest.mark.parametrize("schedule", [parallel, decomposed, vectorized, factored, cached, uneven, in_blocks])
def test_a_scheduled_product_of_matrices(schedule: Callable[[Any], None]) -> None:
    s = tvm.s_tir.Schedule(matmul())
    schedule(s)
    code, stages = lowered(s.mod)
    out = tvm.runtime.tensor(np.zeros((16, 32), np.float32))
    code(tvm.runtime.tensor(A), tvm.runtime.tensor(B), out)
    for name, mod in stages:
        module = from_tvm(mod)
        rules.check(module)
        (got,) = vector.run(module.kernel("main"), [A, B])
        assert got.tobytes() == out.numpy().tobytes(), name
    assert len(stages) > 5
    (slow,) = tensor.run(from_tvm(stages[-1][1]).kernel("main"), [A, B])
    assert slow.tobytes() == out.numpy().tobytes()


def test_lanes_are_computed_before_they_are_stored() -> None:
    s = tvm.s_tir.Schedule(matmul())
    vectorized(s)
    _, stages = lowered(s.mod)
    kernel = from_tvm(stages[-1][1]).kernel("main")
    names = [s.var.name for s in program_order(kernel.body) if isinstance(s, LetStmt)]
    assert {f"lane{k}" for k in range(8)} <= set(names)


def test_a_schedule_that_is_wrong_is_found() -> None:
    """A loop over a reduction that is said to be parallel: its iterations touch the same sums."""
    kernel = from_tvm(matmul()).kernel("main")

    def change(loop: Any) -> Any:
        body = getattr(loop, "body", None)
        if isinstance(loop, For):
            return replace(loop, body=change(loop.body), kind="parallel" if loop.var.name == "k" else loop.kind)
        return (
            replace(loop, body=change(body))
            if body is not None and hasattr(loop, "iterators") and not loop.iterators
            else loop
        )

    wrong = replace(kernel, body=change(kernel.body))
    assert any(isinstance(s, For) and s.kind == "parallel" for s in program_order(wrong.body))
    with pytest.raises(Trap, match="both touch"):
        tensor.run(wrong, [A, B])


@I.ir_module
class Matched:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((8, 6), "float32"), b: T.Buffer((8, 6), "float32")):
        for i, j in T.grid(4, 3):
            with T.sblock("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                x = T.match_buffer(a[vi * 2 : vi * 2 + 2, vj * 2 : vj * 2 + 2], (2, 2), offset_factor=1, strides=[6, 1])
                y = T.match_buffer(b[vi * 2 : vi * 2 + 2, vj * 2 : vj * 2 + 2], (2, 2), offset_factor=1, strides=[6, 1])
                for p, q in T.grid(2, 2):
                    y[p, q] = x[q, p] * T.float32(2)


def test_a_matched_buffer_is_a_view() -> None:
    x = RANDOM.standard_normal((8, 6)).astype(np.float32)
    kernel = from_tvm(Matched).kernel("main")
    views = [v for s in program_order(kernel.body) for v in getattr(s, "views", ()) if isinstance(v, View)]
    assert [v.source.name for v in views] == ["a", "b"]
    (got,) = tensor.run(kernel, [x])
    want = 2 * x.reshape(4, 2, 3, 2).transpose(0, 3, 2, 1).reshape(8, 6)
    assert got.tobytes() == want.tobytes()


@I.ir_module
class Loops:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((10,), "int32"), b: T.Buffer((10,), "int32")):
        n = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(10):
            b[i] = 0
        for i in T.serial(2, 9, step=3):
            b[i] = a[i]
        n[0] = 0
        while n[0] < 4:
            b[n[0]] = b[n[0]] + 100
            n[0] = n[0] + 1


def test_steps_and_while_loops() -> None:
    x = np.arange(10, dtype=np.int32)
    code, stages = lowered(Loops)
    out = tvm.runtime.tensor(np.zeros(10, np.int32))
    code(tvm.runtime.tensor(x), out)
    assert out.numpy().tolist() == [100, 100, 102, 100, 0, 5, 0, 0, 8, 0]
    for name, mod in stages:
        (got,) = tensor.run(from_tvm(mod).kernel("main"), [x])
        assert got.tolist() == out.numpy().tolist(), name


@I.ir_module
class Threads:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            b[i] = a[i]


def test_loops_bound_to_threads_are_refused() -> None:
    with pytest.raises(Unsupported, match="tensor function main: the loop over i, bound to threads, is not handled"):
        from_tvm(Threads)
