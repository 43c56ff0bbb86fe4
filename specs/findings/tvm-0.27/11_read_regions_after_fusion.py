"""FuseTIR leaves a wrong read region where two reads of a block come to be reads of one buffer.

concat([y, y]) reads y[v - 2] or y[v]. Before fusion its block declares a region of each operand,
T.reads(y_1[v - 2], y[v]); after it y[v - 2] alone is left, though the block still reads y[v]. What a block touches must
lie in what it declares. Compiled code does not look at them, so values are right; schedules that
rely on them (compute_at, reverse_compute_at) start from what is false.
"""

import sys

import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            z = R.concat([y, y], axis=0)
            R.output(z)
        return z


def case():
    mod = Twice
    with tvm.target.Target("llvm"):
        for step in ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR"):
            mod = getattr(relax.transform, step)()(mod)
    lines = [line.strip() for line in mod.script().splitlines()]
    at = next(i for i, line in enumerate(lines) if "T_concat" in line and "sblock" in line)
    return lines[at + 2], lines[at + 4], lines[at + 2].count("[") == 1 and lines[at + 4].count("[") == 3


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)
