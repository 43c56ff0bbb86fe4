"""Names in the generated C, and what is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.lower.c import emit
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import write_kernel
from assay.lower.c.names import ScopeNames, comment, identifier, quote, unquote
from assay.semantics.dtypes import FLOAT32, INT32, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Module, Slot
from assay.semantics.scalar import apply, cast, const
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    For,
    PrimFunc,
    Var,
    loops,
    store,
)
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.lower.c.c_network import (
    compile_strictly,
    network,
)
from tests.lower.memory.planned import alone, interpreted, lanes, planned, same_bits

# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.row("A14")
def test_names_that_are_no_identifiers_or_collide() -> None:
    """Keywords, macros, library functions, parameters of the entry, and names that become one."""
    names = [
        "int",
        "run",
        "weights",
        "workspace",
        "a.b",
        "a_b",
        "a b",
        "A_B",
        "NULL",
        "expf",
        "class",
        "status",
        "base",
        # fmt: skip
        "m_run",
        "M_OK",
        "1/x:0",
        "é",
        "",
        "__x",
        "memcpy",
        "INT32_MAX",
        "y1",
        "linux",
        "m_k_add",
        "f32",
    ]
    x, out = Buffer("for", (2,), FLOAT32), Buffer("m_max_f32", (2,), FLOAT32)
    body = loops("while", (2,), lambda i: store(out, i, apply("max", x[i], x[i] * const(np.inf, FLOAT32))))
    steps = []
    kernels = []
    for i, n in enumerate(names):
        kernels.append(PrimFunc(f"k.{n}", (x, out), 1, body))
        steps.append((kernels[-1], [n], [f"{n} out" if i % 2 else f"out.{n}"]))
    types = {n: TensorType((2,), FLOAT32) for n in names}
    module = planned(steps, types, [s[2][0] for s in steps])
    compiled = compile_c(emit(module, "m"), reproducible=True, flags=(*STRICT, "-O1"))
    data = {n: np.array([k + 1, -k - 1], np.float32) for k, n in enumerate(names)}
    got = compiled.run(data)
    for k, (kernel, (n,), (o,)) in enumerate(steps):
        want = interpreted(kernel, [data[n]])
        assert isinstance(want, tuple) and same_bits(got[o], want[0]), (k, n)


def test_a_model_may_have_any_name() -> None:
    for name, prefix in (
        ("my-net v1.2", "my_net_v1_2"),
        ("free", "free"),
        ("double", "double_"),
        ("9", "v9"),
        ("", "v"),
    ):
        source = emit(alone(lanes("id", [FLOAT32], FLOAT32, 3, lambda v: v)), name)
        assert source.name == prefix and f"{prefix}_run(" in source.header
        got = compile_c(source, reproducible=True, flags=(*STRICT, "-O0")).run({"x0": np.ones(3, np.float32)})
        assert same_bits(got["out"], np.ones(3, np.float32))


def test_no_local_hides_a_function_of_the_file() -> None:
    """Buffers and variables called as the helpers are."""
    x, out = Buffer("m_floordiv_i64", (3,), INT64), Buffer("M_TRAP_CAST", (3,), INT64)
    body = loops("m_abs_i64", (3,), lambda i: store(out, i, apply("abs", apply("floordiv", x[i], x[2 - i]))))
    kernel = PrimFunc("m_run", (x, out), 1, body)
    data = np.array([-7, 2, 3])
    got = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, "-O1")).run({x.name: data})
    want = interpreted(kernel, [data])
    assert isinstance(want, tuple) and same_bits(got[out.name], want[0])


def test_identifiers_and_comments() -> None:
    assert [identifier(n) for n in ("int", "x.y", "3", "_Z", "NULL", "tanhf", "conv1", "svc")] == [
        "int_", "x_y", "v3", "Z", "NULL_", "tanhf_", "conv1", "svc_"]  # fmt: skip
    names = ScopeNames()
    assert [names.fresh("a"), names.fresh("a"), names.fresh("a_2"), names.fresh("a")] == ["a", "a_2", "a_2_2", "a_3"]
    for text in ("", "a", "*/", "/*/", "??/", "????", "\\", "é\n", '"', "/**/"):
        assert unquote(quote(text)) == text and not re.search(r"\*/|/\*|\?\?|[^ -~]", quote(text))
    assert comment("a*/ /* ??/ \\\n é") == "a* / / * ? ?/ \\  \\xe9"


def test_an_entry_is_not_called_as_the_c_library_has_it() -> None:
    """glibc has `svc_run`, which a shared library would call in place of its own."""
    x, out = Buffer("x", (3,), INT64), Buffer("y", (3,), INT64)
    kernel = PrimFunc("k", (x, out), 1, loops("i", (3,), lambda i: store(out, i, x[i] + x[i])))
    made = compile_c(emit(alone(kernel), "svc"), reproducible=True).run({x.name: np.array([1, 2, 3])})
    assert made[out.name].tolist() == [2, 4, 6]


def test_comments_cannot_be_broken_out_of(tmp_path: Path) -> None:
    kernel = replace(lanes("evil */ #error", [FLOAT32], FLOAT32, 2, lambda v: v), attrs={"operator": "??/\n*/"})
    source = emit(alone(kernel), "m", digest='"*/ \n#error\\')
    assert compile_strictly(source, tmp_path, "-O1", "-Wcomment", "-Wtrigraphs") == ""


# --- what is refused ----------------------------------------------------------------------------------------------


def _with(module: Module, **slots: Slot) -> Module:
    return module.with_(main=replace(module.program, slots={**module.program.slots, **slots}))


def test_a_plan_that_does_not_fit_is_refused() -> None:
    module = network()
    t0 = module.program.slots["t0"]
    cases = [
        (_with(module, t0=replace(t0, offset=None)), "c.C9"),
        (_with(module, t0=replace(t0, offset=(module.program.workspace_bytes or 0) - 64)), "c.C10"),
        (_with(module, t0=replace(t0, offset=-64)), "c.C10"),
        (_with(module, t0=replace(t0, offset=4)), "c.C11"),
        (module.with_(main=replace(module.program, sizes={})), "c.C9"),
        (module.with_(main=replace(module.program, inputs=())), "c.C12"),
        (module.with_(main=replace(module.program, outputs=())), "c.C12"),
        (replace(module, constants={}), "c.C7"),
    ]
    for wrong, label in cases:
        with pytest.raises(Invalid) as caught:
            emit(wrong, "net")
        assert caught.value.label == label
    clash = _with(module, bias=replace(module.program.slots["bias"], offset=0))
    with pytest.raises(Invalid, match="share the byte") as caught:
        emit(clash, "net", inline_limit=0)
    assert caught.value.label == "c.C2"
    homeless = _with(module, bias=replace(module.program.slots["bias"], offset=None))
    emit(homeless, "net")
    with pytest.raises(Invalid) as caught:
        emit(homeless, "net", inline_limit=0)
    assert caught.value.label == "c.C8"


def test_other_constructs_that_are_refused() -> None:
    x, out = Buffer("x", (3,), INT32), Buffer("out", (3,), INT32)
    to_input = PrimFunc("bad", (x, out), 1, store(x, 0, const(1, INT32)))
    with pytest.raises(Invalid) as caught:
        emit(alone(to_input), "m")
    assert caught.value.label == "c.C4"
    mixed = PrimFunc("bad", (out,), 1, For(Var("i", INT32), const(3), store(out, 0, const(1, INT32))))
    with pytest.raises(Unsupported) as caught:
        emit(alone(mixed), "m")
    assert caught.value.label == "c.C5"


def test_symbolic_sizes_and_stray_names_are_refused() -> None:
    n = Var("n")
    out = Buffer("out", (n,), FLOAT32)
    with pytest.raises(Invalid):
        emit(alone(PrimFunc("open", (out,), 1, store(out, 0, 1.0))), "m")
    inner = Buffer("inner", (n,), FLOAT32)
    fixed = Buffer("out", (1,), FLOAT32)
    for body, label in (
        (Allocate(inner, store(inner, 0, 1.0)), "scalar.C7"),
        (store(fixed, 0, Buffer("stray", (1,), FLOAT32)[0]), "tensor.C10"),
        (store(fixed, 0, cast(n, FLOAT32)), "scalar.C7"),
        (For(Var("f", FLOAT32), const(2.0, FLOAT32), store(fixed, 0, 1.0)), "c.C14"),
    ):
        with pytest.raises(Invalid) as caught:
            write_kernel(PrimFunc("bad", (fixed,), 1, body), "m_k_bad", "M", Library("m", "M"))
        assert caught.value.label == label


def test_int32_loop_variables() -> None:
    out = Buffer("out", (3,), INT32)
    i = Var("i", INT32)
    kernel = PrimFunc("iota", (out,), 1, For(i, const(3, INT32), store(out, i, i * 2)))
    got = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, "-O2")).run({})
    assert got["out"].tolist() == [0, 2, 4]
