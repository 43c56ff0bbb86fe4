"""Programs of TVM, and passes that break one thing in them, each with a twin that breaks nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from assay.lower.frontends.tvm.objects import require_tvm
from assay.semantics.errors import Unsupported

try:
    require_tvm()
except Unsupported as missing:
    pytest.skip(str(missing), allow_module_level=True)

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tests.museum.planted import Judge, PlantedFault
from tests.verify.tvm.detectors import detect

HEAD = "# from tvm.script import ir as I, relax as R, tirx as T\n@I.ir_module\nclass Module:\n"


def program(body: str) -> Any:
    """A module of one function `main`, or of functions."""
    return tvm.script.from_source(HEAD + body, check_well_formed=False)


PLAIN = """
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, a)
            c = R.subtract(b, a)
            d = R.multiply(c, a)
            e = R.add(d, c)
            R.output(e)
        return e
"""
SIZED = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor((), "float32"):
        n = T.int64()
        z = R.match_cast(y, R.Tensor((n,), "float32"))
        w = R.sum(z)
        return w
"""
BYTES = """
    @R.function
    def main(x: R.Tensor((4,), "uint8"), y: R.Tensor((4,), "uint8")) -> R.Tensor((4,), "uint8"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, R.const(2, "uint8"))
            R.output(b)
        return b
"""
COMPARE = """
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "bool"):
        with R.dataflow():
            a = R.less(x, y)
            b = R.logical_not(a)
            R.output(b)
        return b
"""
DEVICES = """
    I.module_global_infos({"vdevice": [I.vdevice({"kind": "llvm"}, 0), I.vdevice({"kind": "llvm"}, 1)]})

    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm:0"), y: R.Tensor((4,), "float32", "llvm:0")) -> R.Tensor((4,), \
"float32", "llvm:0"):
        with R.dataflow():
            a: R.Tensor((4,), "float32", "llvm:0") = R.add(x, y)
            b: R.Tensor((4,), "float32", "llvm:0") = R.multiply(a, x)
            R.output(b)
        return b
"""

X, Y = np.array([1, 2, 3, 4], np.float32), np.array([0.5, 0.25, 3, -1], np.float32)
U, V = np.array([1, 2, 3, 4], np.uint8), np.array([5, 6, 7, 100], np.uint8)


def constants() -> Any:
    """Two constants of one shape."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.add(x, relax.const(X, "float32")))
            b = builder.emit(relax.op.multiply(a, relax.const(Y, "float32")))
            out = builder.emit_output(b)
        builder.emit_func_output(out)
    return builder.get()


@mutator
class Merge(PyExprMutator):  # type: ignore[misc]
    """Takes every constant of several elements for the first, or each for a copy of itself."""

    def __init__(self, mod: Any, wrong: bool) -> None:
        super().__init__(mod)
        self.wrong, self.first = wrong, None

    def visit_generic_const_(self, op: Any) -> Any:
        if not getattr(op.value, "shape", ()):
            return op
        self.first = self.first or op
        return self.first if self.wrong else relax.const(op.value.numpy().copy(), str(op.value.dtype))


def merging(wrong: bool) -> Callable[[Any], Any]:
    def run(mod: Any) -> Any:
        made = Merge(mod, wrong)
        for name, f in mod.functions.items():
            if isinstance(f, relax.Function):
                made.builder_.update_func(name, made.visit_expr(f))
        return made.builder_.get()

    return run


def texts(*pairs: tuple[str, str]) -> Callable[[Any], Any]:
    """Writes the module, replaces the first of each text that there must be, and reads it."""

    def run(mod: Any) -> Any:
        # what an allocation prints of its type TVM does not read
        text = re.sub(r', ty_args=\(R\.Tensor\([^=]*dtype="\w+"\),\)', "", mod.script(show_meta=True))
        for old, new in pairs:
            assert old in text, (old, text)
            text = text.replace(old, new, 1)
        return tvm.script.from_source(text, check_well_formed=False)

    return run


def in_place(wrong: bool) -> Callable[[Any], Any]:
    """Adds an attribute, to the module that it is given or to a copy."""

    def run(mod: Any) -> Any:
        target = mod if wrong else mod.clone()
        name = next(g for g, f in mod.functions.items() if isinstance(f, relax.Function))
        target.update_func(name, target[name].with_attr("seen", 1))
        return target

    return run


def detected(letter: str, arguments: Sequence[Any]) -> Judge:
    """The detectors, on a module and the passes that it goes through: that of the letter must be the one that sees."""

    def judge(module: Any, passes: Any) -> str | None:
        found = [f for f in detect(module, list(arguments), passes) if "AnnotateEntryFunc" not in f.stage]
        said = [f"detector {f.detector} at {f.stage}" for f in found]
        return "; ".join([s for s in said if f"detector {letter} " in s][:1] or said) or None

    return judge


def fault(
    letter: str,
    name: str,
    make: Callable[[], Any],
    after: str,
    wrong: Callable[[Any], Any],
    twin: Callable[[Any], Any],
    arguments: Sequence[Any] = (X, Y),
    leave: str = "",
) -> PlantedFault:
    """A pass after another that breaks one thing, and its twin that does not; `leave` is a pass of TVM that is left
    out: it breaks the twin as well."""
    return PlantedFault(
        name,
        f"detector {letter}",
        (detected(letter, arguments),),
        make,
        lambda _: pipeline(after, wrong, leave),
        lambda _: pipeline(after, twin, leave),
        f"detector {letter} at Planted",
        size=lambda module, passes: f"{len(arguments)} inputs",
    )


SAME = texts()

FAULTS = [
    fault("a", "another operation", lambda: program(PLAIN), "LegalizeOps", texts((" - ", " + ")), SAME),
    fault("b", "two live tensors in one storage", lambda: program(PLAIN), "StaticPlanBlockMemory",
        texts(("R.memory.alloc_tensor(storage1", "R.memory.alloc_tensor(storage")), SAME),
    fault("c", "out of bounds", lambda: program(PLAIN), "LegalizeOps",
        texts(("T.reads(b[v_ax0]", "T.reads(b[v_ax0 + T.int64(1)]"), ("[v_ax0] - ", "[v_ax0 + T.int64(1)] - ")), SAME),
    fault("c", "unwritten", lambda: program(PLAIN), "LegalizeOps", texts(("range(T.int64(4))", "range(T.int64(3))")),
        SAME),
    fault("d", "a wrap", lambda: program(BYTES), "LegalizeOps", texts((" + ", " + T.uint8(128) + T.uint8(128) + ")),
        SAME, (U, V)),
    fault("d", "a shift", lambda: program(BYTES), "LegalizeOps", texts((" * T.uint8(2)", " << T.uint8(9)")),
        texts((" * T.uint8(2)", " << T.uint8(1)")), (U, V)),
    fault("e", "a check of sizes", lambda: program(SIZED), "LegalizeOps",
        texts(('z: R.Tensor((n,), dtype="float32") = R.match_cast(y, R.Tensor((n,), dtype="float32"))', "z = y")),
        SAME, leave="KillAfterLastUse"),
    fault("f", "two constants taken for one", constants, "LegalizeOps", merging(True), merging(False), (X,)),
    fault("g", "a module changed in place", lambda: program(PLAIN), "LegalizeOps", in_place(True), in_place(False)),
    fault("g", "another device", lambda: program(DEVICES), "DispatchSampling",
        texts(('R.Tensor((4,), dtype="float32", vdevice="llvm:0:global") = R.multiply',
        'R.Tensor((4,), dtype="float32", vdevice="llvm:1:global") = R.multiply')), SAME),
    fault("h", "whole numbers for truth values", lambda: program(COMPARE), "DispatchSampling",
        texts(("R.logical_not(a)", 'R.astype(a, "int32")')), SAME),
]  # fmt: skip


def pipeline(after: str, change: Callable[[Any], Any], leave: str = "") -> Any:
    """TVM's default passes with one more, after the named one, and without `leave`."""
    t, b = relax.transform, relax.backend
    own = tvm.transform.module_pass(lambda mod, _: change(mod), opt_level=0, name="Planted")
    passes = [
        b.DispatchSampling(), b.DispatchSortScan(), t.LegalizeOps(), t.RewriteDataflowReshape(), t.ToNonDataflow(),
        t.RemovePurityChecking(), t.CallTIRRewrite(), t.StaticPlanBlockMemory(), t.RewriteCUDAGraph(),
            t.LowerAllocTensor(),
        t.KillAfterLastUse(), t.LowerRuntimeBuiltin(), t.ComputePrimValue(), t.VMShapeLower(), t.AttachGlobalSymbol(),
    ]  # fmt: skip
    passes = [p for p in passes if str(p.info.name) != leave]
    names = [str(p.info.name) for p in passes]
    passes.insert(names.index(after) + 1, own)
    return tvm.transform.Sequential(passes)
