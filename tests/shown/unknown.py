"""Rows on sizes that are unknown before a run, through every stage to the C, through commands."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import parser

from tests.shown.case import HEAD, Shown
from tests.shown.optional import LINEAR, OWN

NONZERO = """nonzero (float[n,3] x) => (int64[2,k] y, float[m,3] z) {
    y = NonZero (x)
    z = Concat <axis: int = 0> (x, x) }"""
"""One size that follows from the values of x, and one from its shape."""

GROWING = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
        n = T.int64()
        m = T.int64()
        R.func_attr({"tir_var_upper_bound": {"n": 8}})
        a = R.concat((R.exp(x), y), axis=0)
        return R.nn.softmax(a)
"""
PLACED = """
    @R.function
    def down(i: R.Tensor((), "int64"), x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        if R.greater(i, R.const(0, "int64")):
            r = Module.down(R.subtract(i, R.const(1, "int64")), A.on_device(R.add(x, x), "cuda", constrain_body=True, \
constrain_result=True))
        else:
            r = x
        return r
    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        y = Module.down(i, x)
        return A.on_device(R.concat((y, y), axis=0), "cpu", constrain_body=True, constrain_result=True)
"""
"""A loop on one device, whose condition and sizes are the host's, and what follows on the other."""

SCALED = """
    @T.prim_func(private=True)
    def scaled(x: T.Buffer((n,), "float32"), y: T.Buffer((n,), "float32")):
        T.func_attr({"num_outputs": 1})
        T.call_packed("copyto", y, x)
    @R.function
    def main(x: R.Tensor((n,), "float32")):
        return R.exp(R.call_tir(Module.scaled, (R.concat((x, x), axis=0),), out_ty=R.Tensor((n * 2,), "float32")))
"""
OPEN_LINEAR = LINEAR.replace("(2, 2)", '("n", 2)', 1)
NO_COMPILER = {"PATH": "", "CC": ""}


def nonzero(path: Path) -> None:
    onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + NONZERO), path)


def sized_extern(path: Path) -> None:
    path.write_text('n = TypeVar("n")\n' + HEAD + SCALED.strip("\n") + "\n", "utf-8")


SHOWN: tuple[Shown, ...] = (
    Shown(
        "J3 J13 U24",
        "build FILE.onnx -o DIR --bound n=0..4\nverify DIR",
        nonzero,
        (
            r"liveness proved .*1 measured size",
            r"pool proved",
            r"compare tested .*at n = 0, 1, 2",
            "certificate checked",
        ),
        files={
            "FILE.c": r"static int FILE_measure_\d+\(const int64_t \*found",
            "FILE.h": r"(?s)(?=.*FILE_WORKSPACE_BYTES \d+u)(?=.* n: 0 to 4)(?=.*Returned sizes:.*: 0 to 12)",
        },
    ),
    Shown(
        "J13 U21",
        "check FILE.py --dump DIR --bound m=1..",
        GROWING,
        (
            r"bytes by m|sizes over n, m",
            r"pool proved .*for all .*m >= 1.*n in 0 to 8|n in 0 to 8.*m >= 1",
            "compare tested",
        ),
    ),
    Shown(
        "J10 J13",
        "run FILE.py --dim n=2 --dim m=3\ncheck FILE.py --stop-after pool",
        GROWING,
        (r"output_0: Tensor\(\(5, 4\)", r"pool proved"),
        env=NO_COMPILER,
    ),
    Shown(
        "J10",
        "check FILE.py",
        GROWING,
        (r"pool proved .*cannot find a C compiler: none of cc, gcc, clang is there.*\[compiled\.C1\]",),
        code=6,
        env=NO_COMPILER,
    ),
    Shown(
        "J19 V6",
        "check FILE.py --on cpu --on cuda --host cpu --dump DIR",
        PLACED,
        (
            r"devices checked .*2 devices, 1 copy",
            r"liveness proved .* 1 loop",
            r"compare tested .*bit for bit",
        ),
        files={"09-pool.main.txt": r"(?s)(?=.*workspace_cuda_0)(?=.*device_copy)"},
    ),
    Shown(
        "J19 J3",
        "check FILE.onnx --on cuda --on cpu --host cpu",
        nonzero,
        (r"liveness proved .*1 measured size", r"compare tested"),
    ),
    Shown(
        "J22",
        f"run FILE.py --dim n=3 --passes partition[table={OWN}:TABLE;compiler=npu] --engine {OWN}:npu",
        OPEN_LINEAR,
        (r"engines tested .*1 call of regions", r"output_0: Tensor\(\(3, 2\)"),
    ),
    Shown(
        "J22",
        f"run FILE.py --dim n=3 --passes partition[table={OWN}:TABLE;compiler=npu] --engine npu={OWN}:off",
        OPEN_LINEAR,
        (r"engines FAILS .*the first that differs",),
        code=1,
    ),
    Shown(
        "J22",
        "run FILE.py --dim n=2 --extern copyto=numpy:copyto\ncheck FILE.py --stop-after pool",
        sized_extern,
        (r"output_0: Tensor\(\(4,\), float32\)", r"pool proved .*for all n >= 0"),
    ),
    Shown(
        "J22",
        "check FILE.py",
        sized_extern,
        (r"FILE_extern_copyto, which nobody defines: .*--stop-after pool .*\[compiled\.C5\]",),
        code=2,
    ),
)
