"""Rows on kernels for sizes that are unknown before a run, through commands."""

from __future__ import annotations

from tests.shown.case import Shown
from tests.shown.unknown import NO_COMPILER

DENSE = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32")):
        return R.matmul(x, w)
"""
SUM = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32"), z: R.Tensor(("m",), "float32")):
        return (R.add(x, y), R.exp(z))
"""
SOFTMAX = """
    @R.function
    def main(x: R.Tensor((2, "n"), "float32")):
        return R.nn.softmax(R.exp(x))
"""

SHOWN: tuple[Shown, ...] = (
    Shown(
        "J1",
        "operators matmul nn.softmax mean full\nrun FILE.py --kernels interpreted",
        DENSE,
        (
            r"matmul \W+ any .*d2: it combines what lies along axis 2 of a, which is padded",
            r"nn.softmax .*d0: neutral .*d2: it combines what lies along axis 2 of x, which is padded",
            r"mean .*d0: it combines what lies along axis 0",
            r"full .*it takes no operand",
        ),
    ),
    Shown(
        "J2",
        "run FILE.py --kernels specialized --stream n=5,10,5 --threads 2\n"
        "run FILE.py --kernels specialized --kernel-cache 1 --stream n=5,10,5",
        DENSE,
        (
            r"n = 5: output_0 \(5, 2\) (\w+) n = 10: output_0 \(10, 2\) \w+ n = 5: output_0 \(5, 2\) \1",
            r"matmul 3 1 2 2 0 2 0%",
            r"matmul 3 0 3 3 2 3 0%",
        ),
    ),
    Shown(
        "J2",
        "run FILE.py --dim n=4 --kernels specialized --kernel-store DIR\n"
        "run FILE.py --dim n=4 --kernels specialized --kernel-store DIR",
        DENSE,
        (r"matmul 1 0 1 1 0 1 0%", r"stored .*matmul 1 0 1 0 1 0 1 0% 0.00 s"),
    ),
    Shown(
        "J4",
        "run FILE.py --kernels range:n=3..5 --stream n=3,5,6",
        DENSE,
        (r"kernels: range:n=3..5", r"matmul 3 2 1 4 0 3 0%"),
    ),
    Shown(
        "J5 J6",
        "run FILE.py --kernels padded:n=4 --stream n=3,5",
        DENSE,
        (r"main 0 0 0 0 0 1 1 19%", r"n = 5 is more than 4: generic"),
    ),
    Shown(
        "J6",
        "run FILE.py --kernels buckets:n=8,2,2,m=4 --stream n=1,2,7 --stream m=3,3,5",
        SUM,
        (r"kernels: buckets:n=2,8,m=4", r"main 0 .*2 \d+%", r"main: m = 5 is more than 4"),
    ),
    Shown(
        "J6",
        "run FILE.py --kernels buckets:n=4 --stream n=3,4\nrun FILE.py --kernels interpreted --stream n=3,4",
        SOFTMAX,
        (
            r"main: not padded as a whole, nn_softmax \(nn.softmax\): it combines what lies along axis 1 of x.*: funct",
            r"nn_softmax: not padded, it combines what lies along axis 1 of x",
            r"exp 2 1 1 1 0 3 2 12%",
            r"(output_0 \(2, 3\) \w+) n = 4: (output_0 \(2, 4\) \w+) .*\1 n = 4: \2",
        ),
    ),
    Shown(
        "J7",
        "run FILE.py --kernels library --dim n=4",
        DENSE,
        (r"matmul: by NumPy's product: within the operator's bound, not bit for bit", r"matmul 1 0 0 0 0 1 1 0%"),
    ),
    Shown(
        "J8",
        "run FILE.py --kernels add=interpreted,exp*=specialized,generic --dim n=4 --dim m=2\n"
        "run FILE.py --kernels auto --dim n=4 --dim m=2",
        SUM,
        (r"add interpreted 1", r"exp specialized 1", r"kernels: auto"),
    ),
    Shown("J1", "operators nothing.is FILE.py", DENSE, (r"no operator is called .*\[kernels.C4\]",), code=2),
    Shown(
        "J8",
        "run FILE.py --kernels padded:n",
        SUM,
        (r"padded:NAME=N is wanted, and padded:n is given \[kernels.C1\]",),
        code=2,
    ),
    Shown(
        "J9",
        "run FILE.py --kernels recorded --stream n=5,6 --repeat 2\n"
        "run FILE.py --kernels recorded:DIR/sizes.json --stream n=5\n"
        "run FILE.py --kernels recorded:DIR/sizes.json --stream n=5,7",
        DENSE,
        (r"matmul 4 3 1 3 0 3 0%", r"matmul 1 0 1 1 0 1 0%", r"matmul 2 1 1 2 0 2 0%"),
        files={"sizes.json": r"assay sizes 1"},
    ),
    Shown(
        "J10",
        "run FILE.py --kernels specialized --dim n=4",
        DENSE,
        (
            r"matmul 1 0 0 0 0 1 0%",
            r"interpreted where no kernel was stored: cannot find a C compiler: none of cc, gcc, clang is there",
        ),
        env=NO_COMPILER,
    ),
)
