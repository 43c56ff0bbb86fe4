"""The inner block of adaptive_avg_pool2d has an iterator with the domain [v, 1), which is empty for v >= 1.

`T.axis.spatial((v, v + (1 - v)), v)`: a block's iterator must lie in its domain (the value is v, the extent must be 1).
Compiled code does not look at domains, so values are right; a pass that reasons from domains starts from what is false.
"""

import sys

import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Pool:
    @R.function
    def main(x: R.Tensor((1, 2, 7, 7), "float32")) -> R.Tensor((1, 2, 3, 3), "float32"):
        y = R.nn.adaptive_avg_pool2d(x, (3, 3))
        return y


def case():
    with tvm.target.Target("llvm"):
        text = relax.transform.LegalizeOps()(Pool).script()
    odd = [line.strip() for line in text.splitlines() if "T.axis.spatial((" in line]
    return odd, "extents of 1", any("(T.int64(1) - " in line for line in odd)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)
