"""Rows on executables of bytecode, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

GROWING = """
    @R.function
    def down(i: R.Tensor((), "int64"), x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        if R.greater(i, R.const(0, "int64")):
            r = Module.down(R.subtract(i, R.const(1, "int64")), R.add(x, x))
        else:
            r = x
        return r
    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        y = Module.down(i, x)
        return R.concat((y, R.matmul(y, R.const([[1.,2.],[3.,4.]], "float32"))), axis=0)
"""

SHOWN: tuple[Shown, ...] = (
    Shown(
        "R11 J20",
        "build --vm FILE.py -o DIR/m.assay --late-constants DIR/w.npz\n"
        "run DIR/m.assay --constants DIR/w.npz --dim n=3\n"
        "run DIR/m.assay --constants DIR/w.npz --dim n=3 --kernels interpreted\n"
        "verify DIR/m.assay --constants DIR/w.npz",
        GROWING,
        (
            r"vm proved .*2 functions; \d+ instructions, \d+ registers",
            r"compare tested .*at n = 0, 1, 2, 7; .*bit for bit the run of the graph",
            r"(output_0: Tensor\(\(6, 2\), float32\) \w+) .*\1 .*kernels: interpreted",
            "certificate checked",
        ),
    ),
    Shown(
        "J20",
        "build --vm FILE.py -o DIR/m.assay --late-constants DIR/w.npz\nrun DIR/m.assay",
        GROWING,
        (r"is bound late, and not given: give all with --constants \[vm.C8\]",),
        code=2,
    ),
    Shown(
        "R11 J2 J6",
        "build --vm FILE.py -o DIR/m.assay\n"
        "run DIR/m.assay --kernels matmul=buckets:n=4,specialized --stream n=1,3,3,5",
        GROWING,
        (
            r"n = 3: output_0 \(6, 2\)",
            r"matmul buckets:n=4 4 [123] ",
            r"concat specialized 4 1 3 3 0 3 ",
            "n = 5 is more than 4: generic",
        ),
    ),
    Shown(
        "R11 R27",
        "build --vm FILE.py -o DIR/m.assay\n"
        "run DIR/m.assay --text\n"
        "run DIR/m.assay --save warm -o DIR/n.assay\n"
        "run DIR/n.assay --function warm --dim n=1",
        GROWING,
        (
            r"function main\(%0 i: Tensor\(\(\), int64\), %1 x: Tensor\(\(n, 2\), float32\)\)",
            r"invoke kernel matmul \(%\d+ y, %\d+\)",
            r"output_0: Tensor\(\(2, 2\), float32\)",
        ),
    ),
    Shown(
        "J21",
        "run FILE.py --dim n=2 -o DIR/o.npz\nbuild --vm FILE.py -o DIR/m.assay\nrun DIR/m.assay --inputs DIR/o.npz",
        GROWING,
        (r"unknown input 'output_0'; the inputs are i, x \[input.C1\]",),
        code=2,
    ),
)
