"""Tensor functions that call others, from text to C: written out where operators become kernels (specs/lower.md,
"legalize")."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, vector
from assay.interp.values import Event
from assay.lower.c import emit
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import write_kernel
from assay.lower.legalize import legalize
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import apply, const
from assay.semantics.tensor import Call, Store
from assay.semantics.tensor.calls import calls_of
from assay.semantics.text.module_text import parse
from assay.semantics.walk import rewrite
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.legalize import check_legalize

TEXT = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def shifted(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), k: T.float32):
        t = T.alloc_buffer((4,), "float32")
        for i in range(4):
            t[i] = A[i] + k
        for i in range(4):
            B[i] = t[3 - i] * k

    @T.prim_func(private=True)
    def twice(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        Z = T.alloc_buffer((8,), "float32")
        Module.shifted(X.data, T.address_of(Z[2]), T.float32(3))
        MORE
        Module.shifted(T.address_of(Z[2]), Y.data, T.float32(4))

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), dtype="float32"))
            z = R.add(y, y)
            w = R.call_tir(cls.twice, (z,), out_ty=R.Tensor((4,), dtype="float32"))
            R.output(w)
        return w
"""
Array = np.ndarray[Any, Any]
X = np.arange(4, dtype=np.float32)


def module(more: str = "pass") -> Module:
    found = parse(TEXT.replace("MORE", more), "calls.py")
    check(found)
    return found


def expected() -> Array:
    def shifted(a: Array, k: float) -> Array:
        return ((a + np.float32(k)) * np.float32(k))[::-1]

    def twice(a: Array) -> Array:
        return shifted(shifted(a, 3), 4)

    return twice(twice(X) * 2)


def test_every_stage_and_the_c_give_what_the_graph_gives() -> None:
    m = module()
    (want,) = graph.run(m, {"x": X}).values()
    assert np.array_equal(want, expected())
    for name, stage in lowering_passes(vector.run).items():
        after = stage(m)
        check(after)
        if name == "legalize":
            assert not calls_of(after.kernel("twice"))
            assert check_legalize(m, after).holds
        m = after
        if isinstance(m.definitions["main"], Function):
            (got,) = graph.run(m, {"x": X}).values()
            assert np.array_equal(got, want), name
    # both of the functions that it calls have scratch of their own
    assert sum(len(s.scratch) for s in m.program.steps) >= 6
    (got,) = compile_c(emit(m, "calls"), reproducible=True).run({"x": X}).values()
    assert np.array_equal(got, want)


def test_a_function_that_is_written_out_wrongly_is_found() -> None:
    m = module()
    after = legalize(m)

    def worse(stmt: object) -> object:
        if isinstance(stmt, Store) and stmt.buffer.name.startswith("B"):
            return replace(stmt, value=apply("add", stmt.value, const(1.0, "float32")))
        return stmt

    func = after.kernel("twice")
    changed = replace(func, body=rewrite(func.body, worse))  # type: ignore[arg-type]
    verdict = check_legalize(m, after.with_(twice=changed))
    assert not verdict.holds and "twice without its calls gives something else" in verdict.detail
    verdict = check_legalize(m, after.with_(shifted=replace(m.kernel("shifted"), attrs={"a": 1})))
    assert not verdict.holds and "shifted" in verdict.detail


def spy(buffer: Array, n: int) -> None:
    buffer[2:6] += n


def test_externs_of_what_is_written_out() -> None:
    """A function that calls others and an extern: the extern is called in its place at every stage, and in C."""
    m = module('T.call_packed("spy", Z.data, 7)')
    with pytest.raises(Invalid) as missing:
        graph.run(m, {"x": X})
    assert missing.value.label == "extern.C1"
    trace: list[Event] = []
    (want,) = graph.run(m, {"x": X}, externs={"spy": spy}, trace=trace).values()
    assert len(trace) == 2 and not np.array_equal(want, expected())
    for name, stage in lowering_passes(partial(vector.run, externs={"spy": spy})).items():
        before, m = m, stage(m)
        if name == "legalize":
            assert [c.function for c in calls_of(m.kernel("twice"))] == ["spy"]
            assert check_legalize(before, m).holds
            worse = rewrite(
                m.kernel("twice").body,
                lambda s: replace(s, args=(s.args[0], const(8, "int32"))) if isinstance(s, Call) else s,
            )
            verdict = check_legalize(before, m.with_(twice=replace(m.kernel("twice"), body=worse)))
            assert not verdict.holds and "gives something else" in verdict.detail
    more = (
        "int calls_extern_spy(float *x0, int32_t n1)\n{\n    int i;\n    for (i = 2; i < 6; ++i) {\n        x0[i] +="
        " (float)n1;\n    }\n    return 0;\n}\n"
    )
    (got,) = compile_c(emit(m, "calls"), reproducible=True, externs=more).run({"x": X}).values()
    assert np.array_equal(got, want)


def test_a_function_that_calls_itself_is_refused() -> None:
    m = module("Module.twice(X.data, Y.data)")
    with pytest.raises(Unsupported, match="in a cycle, which only the definition runs") as refused:
        legalize(m)
    assert refused.value.label == "tensor.C17"
    with pytest.raises(Unsupported, match="the stage legalize writes calls out"):
        write_kernel(m.kernel("twice"), "k", "M", Library("m", "M"))
