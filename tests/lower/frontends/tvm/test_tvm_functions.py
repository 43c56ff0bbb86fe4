"""TVM's functions of numbers, and calls between tensor functions, beside the code that TVM compiles of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.values import Event
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.errors import Unsupported
from assay.semantics.module import Module
from assay.semantics.scalar.intrinsics import INTRINSICS
from assay.semantics.tensor.calls import calls_of, without_calls
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from tests.lower.frontends.tvm.tvm_models import tvm

pytestmark = pytest.mark.peer

Array = np.ndarray[Any, Any]
COUNT = 300
ONE = (
    "exp exp2 exp10 log log2 log10 log1p sinh cosh sin cos tan asin acos atan asinh acosh erf sigmoid sqrt rsqrt fabs"
    " floor ceil trunc round nearbyint"
)
TWO = "pow atan2 hypot copysign nextafter truncmod"
EXACT = "sqrt rsqrt fabs floor ceil trunc round nearbyint copysign nextafter truncmod ldexp".split()
OWN = {
    ("exp10", "float32"): 100,
    ("exp10", "float64"): 2e6,
    ("tanh", "float32"): 2000,
    ("tanh", "float64"): 2000,
    ("atanh", "float32"): 500,
    ("atanh", "float64"): 2000,
}
"""Ulps that TVM's own formulas are off by; the results here are good to the last ones."""
ULPS = 4
"""What the C library may be off by."""


def bodies() -> dict[str, str]:
    found = {n: f"T.{n}(x[i])" for n in (*ONE.split(), "tanh", "atanh")}
    found |= {n: f"T.{n}(x[i], y[i])" for n in TWO.split()}
    return {
        **found,
        "ldexp": "T.ldexp(x[i], k[i])",
        "reinterpreted": "T.reinterpret(DTYPE, T.reinterpret(WHOLE, x[i]) + T.Cast(WHOLE, k[i]))",
    }


def source(of: str) -> str:
    params = (
        f'x: T.Buffer(({COUNT},), "{of}"), y: T.Buffer(({COUNT},), "{of}"), k: T.Buffer(({COUNT},), "int32"), o:'
        f' T.Buffer(({COUNT},), "{of}")'
    )
    text = "@I.ir_module\nclass Module:\n"
    for name, body in bodies().items():
        body = body.replace("DTYPE", f'"{of}"').replace("WHOLE", f'"{of.replace("float", "int")}"')
        text += (
            f"    @T.prim_func\n    def f_{name}({params}):\n        for i in range({COUNT}):\n            o[i] ="
            f" {body}\n\n"
        )
    return text


@cache
def compiled(of: str) -> tuple[Any, Module, Module]:
    """TVM's code of all functions on a dtype, and the modules that its objects and its text are."""
    mod = tvm.script.from_source(source(of))
    return tvm.compile(mod, target="llvm"), from_tvm(mod), parse(mod.script(), "printed.py")


def operands(name: str, of: str) -> list[Array]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(COUNT) * np.exp2(rng.uniform(-6, 4, COUNT))
    match name:
        case "asin" | "acos" | "atanh":
            x = rng.uniform(-0.99, 0.99, COUNT)
        case "log" | "log2" | "log10" | "log1p" | "sqrt" | "rsqrt" | "pow":
            x = np.abs(x)
        case "acosh":
            x = 1 + np.abs(x)
        case "sin" | "cos" | "tan":
            x[:50] = np.exp2(rng.uniform(10, 100, 50))
    return [x.astype(of), rng.standard_normal(COUNT).astype(of), rng.integers(-20, 20, COUNT).astype(np.int32)]


@pytest.mark.parametrize("of", ["float32", "float64"])
def test_functions_are_within_what_a_library_may_be_off_by(of: str) -> None:
    code, live, printed = compiled(of)
    for name in bodies():
        given = operands(name, of)
        out = tvm.runtime.tensor(np.zeros(COUNT, of))
        code[f"f_{name}"](*map(tvm.runtime.tensor, given), out)
        want, got = out.numpy(), vector.run(live.kernels[f"f_{name}"], given)[0]
        assert got.tobytes() == vector.run(printed.kernels[f"f_{name}"], given)[0].tobytes(), name
        if name in EXACT or name == "reinterpreted":
            assert got.tobytes() == want.tobytes(), name
            continue
        off = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(got)).astype(np.float64)
        limit = OWN.get((name, of), ULPS)
        assert np.max(off) <= limit, (name, np.max(off), given[0][np.argmax(off)])
        assert limit == ULPS or np.max(off) > ULPS, f"TVM's {name} has become better"


def test_every_function_that_tvm_has_is_known() -> None:
    """Those without a meaning here act on memory or on a device, or are no functions of numbers."""
    names = {str(n).partition(".")[2] for n in tvm.ir.Op.list_op_names() if str(n).startswith(("tirx.", "prim."))}
    numbers = {
        *ONE.split(),
        *TWO.split(),
        "tanh",
        "atanh",
        "fma",
        "fmod",
        "ldexp",
        "popcount",
        "clz",
        "q_multiply_shift",
    }
    numbers |= {"q_multiply_shift_per_axis", "isnan", "isinf", "isfinite", "pow"}
    assert numbers - names <= {"truncmod"} and numbers <= set(INTRINSICS)


CALLS = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def helper(a: T.handle("float32", "global"), n: T.int32, b: T.handle("float32", "global")):
        A = T.decl_buffer((4,), data=a)
        B = T.decl_buffer((4,), data=b)
        for i in range(4):
            B[i] = A[i] + T.Cast("float32", n)

    @T.prim_func(private=True)
    def outer(a: T.handle("float32", "global"), b: T.handle("float32", "global")):
        A = T.decl_buffer((4,), data=a)
        B = T.decl_buffer((4,), data=b)
        Module.helper(B.data, 5, A.data)

    @T.prim_func
    def main(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        Z = T.alloc_buffer((4,), "float32")
        W = T.alloc_buffer((8,), "float32")
        Module.helper(X.data, 3, Z.data)
        Module.helper(Z.data, T.int32(4), T.address_of(W[2]))
        Module.outer(Y.data, Z.data)
        for i in range(4):
            Y[i] = Y[i] * W[i + 2]
        MORE
"""
EXTERNS = """T.call_packed("fill", Y.data, 3)
        T.call_extern("int32", "bump", Y.access_ptr("w"), T.address_of(X[2]))
        Y[0] = T.call_extern("float32", "ten", X[3]) + T.call_pure_extern("float32", "ten", T.call_extern("float32", \
"ten", X[1]))
        v: T.let[T.float32] = T.call_extern("float32", "ten", X[2])
        if T.call_extern("int32", "count", 3) > 2:
            Y[2] = v"""
X = np.arange(4, dtype=np.float32)


def test_calls_give_what_tvm_computes() -> None:
    mod = tvm.script.from_source(CALLS.replace("MORE", "pass"))
    out = tvm.runtime.tensor(np.zeros(4, np.float32))
    tvm.compile(mod, target="llvm")["main"](tvm.runtime.tensor(X), out)
    live = from_tvm(mod)
    rules.check(live)
    main = live.kernels["main"]
    assert len(calls_of(main)) == 3 and set(live.kernels) == {"main", "helper", "outer"}
    # the one that is written comes last here; outer writes its first parameter, by what it calls
    assert [b.name for b in live.kernels["outer"].params] == ["B", "A"] and [
        v.name for v in live.kernels["helper"].scalars
    ] == ["n"]
    text = show(live)
    again = parse(text, "printed.py")
    for module in (live, again):
        for run in (tensor.run, vector.run):
            assert run(module.kernels["main"], [X], functions=module.kernels)[0].tobytes() == out.numpy().tobytes()
    flat = without_calls(main, live.kernels)
    assert tensor.run(flat, [X])[0].tobytes() == out.numpy().tobytes()


def test_externs_of_live_modules() -> None:
    live = from_tvm(tvm.script.from_source(CALLS.replace("MORE", EXTERNS)))
    rules.check(live)

    def fill(y: Array, k: int) -> None:
        y[:] = k

    def bump(y: Array, x: Array) -> None:
        y += 1
        assert x.tolist() == [2, 3] and not x.flags.writeable

    externs = {"fill": fill, "bump": bump, "ten": lambda v: v * 10, "count": lambda n: n}
    again = parse(show(live), "printed.py")
    for module in (live, again):
        trace: list[Event] = []
        (got,) = tensor.run(module.kernels["main"], [X], functions=module.kernels, externs=externs, trace=trace)
        assert got.tolist() == [130, 4, 20, 4]
        assert [e.name for e in trace] == ["fill", "bump", "ten", "ten", "ten", "ten", "count"]


STRIDED = """
@T.prim_func
def main(x_: T.handle, o: T.Buffer((3, 4), "float32")):
    x = T.match_buffer(x_, (3, 4), "float32", strides=[5, 1], elem_offset=2)
    for i, j in T.grid(3, 4):
        o[i, j] = x[i, j] * T.float32(2)
"""


def test_a_parameter_with_strides_is_a_view_of_flat_memory() -> None:
    """From live objects and from text alike; the caller hands over all elements up to the last one."""
    memory = np.arange(16, dtype=np.float32)
    want = np.lib.stride_tricks.as_strided(memory[2:], (3, 4), (20, 4)) * 2
    live = from_tvm(tvm.ir.IRModule({"main": tvm.script.from_source(STRIDED)}))
    for module in (live, parse(show(live), "printed.py"), parse(STRIDED, "own.py")):
        rules.check(module)
        (func,) = module.kernels.values()
        assert func.params[0].shape == (16,)
        for run in (tensor.run, vector.run):
            assert np.array_equal(run(func, [memory])[0], want)


@pytest.mark.parametrize(
    "line",
    [
        'Y[0] = T.if_then_else(X[0] > T.float32(0), T.call_extern("float32", "ten", X[0]), T.float32(1))',
        'for i in range(T.call_extern("int32", "count", 3)):\n            Y[0] = T.float32(1)',
    ],
)
def test_an_extern_that_may_be_left_out_is_refused(line: str) -> None:
    with pytest.raises(Unsupported) as refused:
        from_tvm(tvm.script.from_source(CALLS.replace("MORE", line)))
    assert refused.value.label == "tvm.C7"
