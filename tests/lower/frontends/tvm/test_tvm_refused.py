"""What the import of TVM's modules refuses that other tests do not name: each by its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")
import tvm

from assay.lower.frontends.tvm import from_tvm
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import AssayError
from assay.semantics.graph import call, extern, function, var
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.tvm.intervals import bounds_of_kernel
from assay.verify.tvm.meaning import run_main
from assay.verify.tvm.peer import pipeline_of

HEAD = "# from tvm.script import ir as I, relax as R, tirx as T\n@I.ir_module\nclass Module:\n"
KERNEL = """
    @T.prim_func
    def k(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i]
"""
MAIN = """
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = {}
        return y
"""


def text(body: str) -> Any:
    return tvm.script.from_source(HEAD + body, check_well_formed=False)


def calls(line: str, kernel: str = KERNEL) -> Any:
    return text(kernel + MAIN.format(line))


OUT = 'out_ty=R.Tensor((4,), "float32")'
TIR = f"R.call_tir(cls.k, (x,), {OUT})"


def kernel(params: str, *lines: str) -> Any:
    """A call of a tensor function of one input and one output."""
    body = "".join(f"        {line}\n" for line in lines)
    return calls(TIR, f"\n    @T.prim_func\n    def k({params}):\n{body}")


COPY = ("for i in range(4):", "    b[i] = a[i]")
A, B = 'a: T.Buffer((4,), "float32")', 'b: T.Buffer((4,), "float32")'


def calls_inner() -> Any:
    """A tensor function that calls another with too few arguments."""
    outer = f"""
    @T.prim_func
    def k({A}, {B}):
        Module.inner(a.data)
"""
    return calls(TIR, KERNEL.replace("def k", "def inner") + outer)


def without_inner() -> Any:
    return tvm.IRModule({g: f for g, f in calls_inner().functions.items() if g.name_hint != "inner"})


V = TensorType((4,), FLOAT32)
X = var("x", V)
ONE = np.ones(4, np.float32)


def several_sizes() -> PrimFunc:
    """It reads a float32 as four bytes."""
    source = """@T.prim_func
def f(x: T.Buffer((4,), "float32"), o: T.Buffer((16,), "uint8")):
    T.func_attr({"num_outputs": 1})
    v = T.decl_buffer((16,), "uint8", data=x.data)
    for i in range(16):
        o[i] = v[i]
"""
    return parse("from tvm.script import tirx as T\n" + source).kernels["f"]


BROKEN: dict[str, tuple[str, Callable[[], object]]] = {
    "another type than is declared": (
        "tvm.C11",
        lambda: from_tvm(
            text("""
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y: R.Tensor((4,), "int32") = R.nn.relu(x)
        return x
""")
        ),
    ),
    "no tensor function": ("tvm.C14", lambda: from_tvm(calls(f"R.call_tir(cls.main, (x,), {OUT})"))),
    "too few operands": ("tvm.C14", lambda: from_tvm(calls(f"R.call_tir(cls.k, (x, x), {OUT})"))),
    "a dtype": ("tvm.C2", lambda: from_tvm(text(MAIN.format("x").replace("float32", "int7")))),
    "no definition": ("tvm.C4", lambda: from_tvm(tvm.IRModule({"f": tvm.relax.ExternFunc("outside")}))),
    "a type of no rank": (
        "tvm.C9",
        lambda: from_tvm(
            text("""
    @R.function
    def main(x: R.Tensor(dtype="float32")) -> R.Tensor(dtype="float32"):
        return x
""")
        ),
    ),
    "an extern on what is no tensor": (
        "tvm.C13",
        lambda: from_tvm(calls('R.call_packed("outside", R.str("a"), ty_args=R.Tensor((4,), "float32"))')),
    ),
    "a function that is not there": ("tvm.C12", lambda: from_tvm(without_inner())),
    "a size that is a loop's variable": (
        "tvm.C3",
        lambda: from_tvm(kernel(f"{A}, {B}", *COPY, '    v = T.alloc_buffer((i,), "float32")', "    v[0] = a[i]")),
    ),
    "another number of arguments": ("tvm.C8", lambda: from_tvm(calls_inner())),
    "an allocation at an offset": (
        "tvm.C16",
        lambda: from_tvm(
            text(
                MAIN.format(
                    'R.memory.alloc_tensor(R.memory.alloc_storage(R.shape([64]), 0, "global", "float32"), 8, '
                    'R.shape([4]), "float32")'
                )
            )
        ),
    ),
    "an input that is stored to": ("tvm.C5", lambda: from_tvm(kernel(f"{A}, {B}", *COPY, "a[0] = b[1]"))),
    "strides that are not dense": (
        "tvm.C6",
        lambda: from_tvm(
            kernel(
                "a: T.handle, b: T.handle",
                'x = T.match_buffer(a, (4,), "float32", strides=[-1])',
                'y = T.match_buffer(b, (4,), "float32")',
                "for i in range(4):",
                "    y[i] = x[i]",
            )
        ),
    ),
    "a function outside of the module": (
        "tvm.C19",
        lambda: run_main(Module({"main": function([X], call(extern("outside", [V], V, pure=True), X))}), [ONE], None),
    ),
    "a result that is a function": (
        "tvm.C21",
        lambda: run_main(Module({"main": function([X], function([], X))}), [ONE], None),
    ),
    "an argument too many": ("tvm.C22", lambda: run_main(Module({"main": function([X], X)}), [ONE, ONE], None)),
    "elements of several sizes on intervals": ("tvm.C24", lambda: bounds_of_kernel(several_sizes(), [ONE])),
    "a pipeline that there is not": ("backend.C3", lambda: pipeline_of("nothing")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    label, break_it = BROKEN[name]
    with pytest.raises(AssayError) as caught:
        break_it()
    assert caught.value.label == label, caught.value
