"""Rows on what the graph language says and what a run does, through commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.te import compute, reduce
from assay.semantics.text.module_text import write_module
from tests.shown.case import HEAD, Shown


def built(path: Path) -> None:
    """A module that a builder made, with kernels by formulas, one of two results."""

    def moments(a: Any) -> Any:
        mean = reduce("sum", (2,), (4,), lambda i, j: a[i, j] / 4.0, name="mean")
        return mean, reduce("max", (2,), (4,), lambda i, j: a[i, j] - mean[i], name="spread")

    b = Builder()
    with b.function("main", x=tensor(2, 4)) as f:
        with b.dataflow():
            y = b.emit_te(lambda a: compute(a.shape, lambda i, j: a[i, j] * 2.0), f.x, name="double")
            both = b.emit_te(moments, b.nn.relu(y))
            mean, spread = b.get(both, 0), b.get(both, 1)
            b.output(mean, spread)
        with b.if_(b.less(b.sum(mean), 10.0)) as branch:
            with branch.then():
                b.result(b.add(spread, 1.0))
            with branch.otherwise():
                b.result(spread)
        b.result(branch.value)
    write_module(b.module(), path)


BLOCKS = """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            R.output(b)
        return R.negative(b)
"""
MINMAX = """
    @T.prim_func(private=True)
    def minmax(x: T.Buffer((4,), "float32"), lo: T.Buffer((), "float32"), hi: T.Buffer((), "float32")):
        T.func_attr({"num_outputs": 2})
        lo[()] = x[0]
        hi[()] = x[0]
        for i in range(3):
            lo[()] = T.min(lo[()], x[i + 1])
            hi[()] = T.max(hi[()], x[i + 1])
    @R.function
    def main():
        r = R.call_tir(Module.minmax, (R.const([3.0, -1.0, 7.0, 2.0], "float32"),), out_ty=[R.Tensor((), "float32"), \
R.Tensor((), "float32")])
        return R.subtract(r[1], r[0])
"""
ANNOTATED = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a: R.Tensor((n, 4), "float32") = R.exp(x)
        b: R.Tensor(ndim=2) = R.exp(a)
        c: R.Tensor((2, 4), "float32") = R.negative(b)
        return c
"""
DEDUCED = """
    @R.function
    def main(x: R.Tensor(("n", 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        y = R.nn.max_pool2d(R.nn.conv2d(x, w, padding=[1, 1, 1, 1]), pool_size=[2, 2], strides=[2, 2])
        h = R.split(y, [1], axis=1)
        return (h[1], R.sum(h[0], axis=[1]), R.greater(y, y))
"""
LAZY = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32"), i: R.Tensor((1,), "int64")):
        if c:
            r = R.take(x, i, axis=0)
        else:
            r = R.take(x, R.const([1], "int64"), axis=0)
        return r
"""


def lazy(path: Path) -> None:
    path.write_text(HEAD + LAZY.strip("\n") + "\n", "utf-8")
    for name, c in (("outside", True), ("inside", False)):
        np.savez(path.parent / f"{name}.npz", c=np.array(c), x=np.float32([5, 6]), i=np.array([7]))


CLOSURE = """
    @R.function
    def main():
        y = R.const(10, "int32")
        @R.function
        def add_y(q: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            return R.add(q, y)
        @R.function
        def twice(f: R.Callable((R.Tensor((), "int32"),), R.Tensor((), "int32")), p: R.Tensor((), "int32")) -> \
R.Tensor((), "int32"):
            return f(f(p))
        @R.function
        def down(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            if R.equal(i, R.const(0, "int32")):
                r = i
            else:
                r = R.add(i, down(R.subtract(i, R.const(1, "int32"))))
            return r
        return (twice(add_y, R.const(1, "int32")), down(R.const(4, "int32")))
"""
DOWN = 'down(R.subtract(i, R.const(1, "int32")))'
PARITY = """
    @R.function
    def even(i: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(True, "bool")
        else:
            r = Module.odd(R.subtract(i, R.const(1, "int32")))
        return r
    @R.function
    def odd(i: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(False, "bool")
        else:
            r = Module.even(R.subtract(i, R.const(1, "int32")))
        return r
    @R.function
    def main():
        return (Module.even(R.const(7, "int32")), Module.odd(R.const(7, "int32")))
"""
FOLDED = """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = R.add(R.const([1.0, 2.0], "float32"), R.const([3.0, 4.0], "float32"))
        return R.multiply(x, R.multiply(a, a))
"""
AXES = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        return (R.sum(R.nn.softmax(x), axis=[1]), R.sum(R.nn.softmax(x, axis=0), axis=[0]))
"""
SPEAKING = """
    @R.function(pure=False)
    def main():
        x = R.const([1.0, 2.0], "float32")
        _ = R.print(x, format="x is {}")
        y = R.multiply(x, x)
        _1 = R.print(y, format="y is {}")
        _2 = R.assert_op(R.less(R.sum(y), R.const(5.0, "float32")), format="sum is too large")
        return y
"""
UNREACHED = """
    @R.function
    def unused(x: R.Tensor((2,), "float32")):
        return Module.used_by_unused(x)
    @R.function
    def used_by_unused(x: R.Tensor((2,), "float32")):
        return R.exp(x)
    @T.prim_func(private=True)
    def nobody(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i]
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.add(x, x)
"""
REGION = """
    @R.function
    def region(x: R.Tensor((2,), "float32")):
        R.func_attr({"compiler": "mine"})
        return R.multiply(x, R.const(3.0, "float32"))
    @R.function
    def main():
        x = R.const([1.0, 2.0], "float32")
        return R.add(Module.region(x), x)
"""
ODD_BITS = """
    @R.function
    def main():
        return (R.const([0.1, float("nan"), float("-inf"), -0.0], "float32"), R.const([1, -8], "int4"), R.const([1.5, \
448.0], "float8_e4m3fn"))
"""
ON_CUDA = """
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = A.on_device(R.add(x, R.const([0.5, 2.0, 3.0], "float32")), "cuda", constrain_body=True, \
constrain_result=True)
        return A.on_device(R.negative(y), "cpu", constrain_body=True, constrain_result=True)
"""
FUSED = """
    @R.function
    def main(x: R.Tensor((4, 3), "float32")):
        a = R.exp(x)
        s = R.sum(R.negative(a), axis=[1])
        t = A.cumsum(s, axis=0)
        return R.exp(R.negative(t))
"""
"""exp and negative go into the sum that reads them (a reduction); nothing goes into cumsum (opaque)."""

TYPED = """
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")):
        return BODY
"""


def typed(body: str) -> str:
    return TYPED.replace("BODY", body)


SHOWN: tuple[Shown, ...] = (
    Shown(
        "R3 R14 R1",
        "run FILE.py --text\ncheck FILE.py",
        built,
        (
            r"def moments\(.*with R\.dataflow\(\):.*out_ty=\[R\.Tensor\(\(2,\).*R\.output\(\w+, \w+\).*if less:",
            "6 calls of 6 kernels.*compare tested.*every arm taken",
        ),
    ),
    Shown(
        "R1 R4 R5",
        "run FILE.py --text -o DIR/one.py\nrun DIR/one.py --text -o DIR/two.py\ncheck DIR/two.py --stop-after anf",
        BLOCKS,
        ("anf proved .*3 bindings",),
        files={
            f: r"(?s)with R\.dataflow\(\):\s+a: .* = R\.exp\(x\)\s+b: .* = R\.add\(a, x\)\s+R\.output\(b\)"
            for f in ("one.py", "two.py")
        },
    ),
    Shown(
        "R1",
        "run FILE.py",
        BLOCKS.replace("R.output", '_ = R.print(a, format="{}")\n            R.output').replace(
            "@R.function", "@R.function(pure=False)"
        ),
        (r"acts inside a dataflow block.*\[graph\.C9\]",),
        code=2,
    ),
    Shown(
        "R1",
        "check FILE.py",
        BLOCKS.replace("R.negative(b)", "R.add(a, b)"),
        (r"R\.output does not name a, which ends with its dataflow block.*\[text\.C3\]",),
        code=2,
    ),
    Shown(
        "R2 R14",
        "run FILE.py\ncheck FILE.py --stop-after pool --dump DIR",
        MINMAX,
        (r"output_0: Tensor\(\(\), float32\) \w+ 8\.", "pool proved"),
        files={"03-anf.py": r"R\.call_tir\(cls\.minmax, \([^)]*\), out_ty=\[R\.Tensor\(\(\), "},
    ),
    Shown("R4", "run FILE.py --dim n=2", ANNOTATED, (r"output_0: Tensor\(\(2, 4\)",)),
    Shown(
        "R4",
        "run FILE.py --dim n=3",
        ANNOTATED,
        (r"trap \(shape\): FILE\.py:8:12: .*axis 0 of the value is 3, expected 2 \[match_cast\.T1\]",),
        code=1,
    ),
    Shown(
        "R4",
        "check FILE.py",
        ANNOTATED.replace("a: R.Tensor((n, 4)", "a: R.Tensor((n, 5)"),
        (r"the annotation does not hold: the value is Tensor\(\(n, 4\), float32\).*\^~+ \[text\.C14\]",),
        code=2,
    ),
    Shown(
        "R4",
        "check FILE.py",
        BLOCKS.replace("a = R.exp(x)", 'a: R.Tensor((2,), "float16") = R.exp(x)'),
        (r"the annotation does not hold.*\[text\.C14\]",),
        code=2,
    ),
    Shown(
        "R6",
        "run FILE.py --text\nrun FILE.py --dim n=2",
        DEDUCED,
        (
            (
                r"-> R\.Tuple\(R\.Tensor\(\(n, 3, 4, 4\), dtype=\"float32\"\), R\.Tensor\(\(n, 4, 4\),"
                r" dtype=\"float32\"\), R\.Tensor\(\(n, 4, 4, 4\), dtype=\"bool\"\)\)"
            ),
            (
                r"output_0: Tensor\(\(2, 3, 4, 4\), float32\).*output_1: Tensor\(\(2, 4, 4\), float32\).*output_2:"
                r" Tensor\(\(2, 4, 4, 4\), bool\)"
            ),
        ),
    ),
    Shown(
        "R12 R13",
        "check FILE.py --dump DIR --stop-after pool",
        BLOCKS,
        (
            (
                r"devices \w+ .* anf \w+ .* legalize \w+ .* fuse \w+ .* constants \w+ .* schedule \w+ .* liveness \w+"
                r" .* pool \w+"
            ),
        ),
        files={
            "03-anf.py": r"with R\.dataflow",
            "05-fuse.py": r"R\.call_tir\(cls\.fused\w+, \(x,\)",
            "09-pool.main.txt": r"steps\[0\]: Step kernel='fused\w+' reads=\('x'\) writes=\('output_0'\)",
        },
    ),
    Shown(
        "R15",
        "run FILE.py --inputs inside.npz\ncheck FILE.py --inputs inside.npz",
        lazy,
        (r"output_0: Tensor\(\(1,\), float32\) \w+ \[6\.\]", "compare tested .*every arm taken"),
    ),
    Shown(
        "R15",
        "run FILE.py --inputs outside.npz",
        lazy,
        (r"trap \(out of bounds\).*index 7 into axis 0 of size 2",),
        code=1,
    ),
    Shown(
        "R16 J18",
        "run FILE.py",
        CLOSURE,
        (r"output_0: Tensor\(\(\), int32\) \w+ 21 output_1: Tensor\(\(\), int32\) \w+ 10",),
    ),
    Shown(
        "R16",
        "check FILE.py --stop-after pool",
        CLOSURE,
        (r"recursion proved .*down in 2 parts and at most 64 frames: put back.* liveness proved .*1 loop",),
    ),
    Shown(
        "R17",
        "run FILE.py",
        PARITY,
        (r"output_0: Tensor\(\(\), bool\) \w+ False output_1: Tensor\(\(\), bool\) \w+ True",),
    ),
    Shown("R17", "check FILE.py", PARITY, (r"liveness proved .* 4 choices, 2 loops", r"compare tested .*2 outputs")),
    Shown(
        "R16",
        "check FILE.py",
        CLOSURE.replace(
            'R.add(i, down(R.subtract(i, R.const(1, "int32"))))', 'down(R.subtract(i, R.const(1, "int32")))'
        ),
        (r"liveness proved .* 1 loop", r"compare tested .*2 outputs"),
    ),
    Shown(
        "R18",
        "check FILE.py --stop-after pool --skip fuse --dump DIR",
        FOLDED,
        (r"constants proved .*3 to 1 call; 1 constant, 64 B; same value for every input",),
        files={"05-constants.py": r'constant_\w+ = A\.tensor\("float32", \(2,\), "AACAQQAAEEI="\)'},
    ),
    Shown(
        "R20",
        "run FILE.py",
        AXES,
        (
            (
                r"output_0: Tensor\(\(2,\), float32\) \w+ \[1\. *, 1\.\d*\] output_1: Tensor\(\(3,\), float32\) \w+"
                r" \[1\. *, 1\.\d* *, 1\.\d* *\]"
            ),
        ),
    ),
    Shown(
        "R20",
        "run FILE.py",
        AXES.replace("axis=0)", "axes=0)"),
        (r"has no argument axes; it has data, axis.*\[relax\.C2\]",),
        code=2,
    ),
    Shown(
        "R21",
        "run FILE.py",
        SPEAKING,
        (
            (
                r"print: x is \[1\., ?2\.\] print: y is \[1\., ?4\.\] .*trap \(assertion\).*: sum is too large"
                r" \[assert_op\.T1\]"
            ),
        ),
        code=1,
    ),
    Shown("R21", "run FILE.py", SPEAKING.replace("5.0", "6.0"), (r"y is \[1\., ?4\.\] output_0",)),
    Shown("R22 R36", "check FILE.py", typed("R.add(x, q)"), (r"nothing is called q here.*\[text\.C3\]",), code=2),
    Shown(
        "R22",
        "check FILE.py",
        typed("R.add(x, y)"),
        (r"shapes \(2\) and \(3\) do not broadcast.*\[broadcast\.C1\]",),
        code=2,
    ),
    Shown("R22", "check FILE.py", typed("Module.nowhere(x)"), (r"nowhere.*\[\w+\.C\d+\]",), code=2),
    Shown(
        "R37 R22",
        "check FILE.py",
        typed("x").replace("):\n", ') -> R.Tensor((3,), "float32"):\n'),
        (r"declared result Tensor\(\(3\), float32\), but the body is Tensor\(\(2\), float32\).*\[func\.C1\]",),
        code=2,
    ),
    Shown(
        "R23",
        "check FILE.py --stop-after pool --dump DIR",
        FUSED,
        (r"fuse proved .*6 to 3 calls",),
        files={"05-fuse.py": r"(?s)(?=.*fused_exp_negative_sum)(?=.*cls\.cumsum)(?=.*cls\.fused_negative1_exp1)"},
    ),
    Shown(
        "R24",
        "build FILE.py -o DIR --dump DIR/../stages",
        UNREACHED,
        ("compare tested",),
        files={
            "../stages/01-import.py": "def nobody",
            "../stages/09-pool.py": r"\A(?![\s\S]*nobody)[\s\S]*def add",
            "FILE.c": r"\A(?![\s\S]*(nobody|used_by_unused|_k_exp\())[\s\S]*FILE_k_add\(",
        },
    ),
    Shown("R29", "run FILE.py", REGION, (r"output_0: Tensor\(\(2,\), float32\) \w+ \[4\., 8\.\]",)),
    Shown(
        "R29",
        "check FILE.py --stop-after pool",
        REGION,
        (r"region is marked as a primitive or for another compiler.*\[liveness\.C4\]",),
        code=2,
    ),
    Shown(
        "R30",
        "run FILE.py\nrun FILE.py --text -o DIR/again.py\nrun DIR/again.py",
        ODD_BITS,
        (
            (
                r"(output_0: Tensor\(\(4,\), float32\) \w+) .*(output_1: Tensor\(\(2,\), int4\) \w+) .*(output_2:"
                r" Tensor\(\(2,\), float8_e4m3fn\) \w+) .*\1.*\2.*\3"
            ),
        ),
    ),
    Shown(
        "R30",
        "check FILE.py --on cpu --on cuda --stop-after pool --dump DIR",
        ON_CUDA,
        (r"constants proved .*1 constant, 64 B",),
        files={"06-constants.py": r'A\.infos\(\{"constant_\w+": \[64, "", \["cuda", 0, "cuda", "global"\]\]'},
    ),
)
