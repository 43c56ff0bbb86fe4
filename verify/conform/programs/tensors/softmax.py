"""Softmax subtracts the greatest element first (specs/semantics.md, "Normalization")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), dtype="float32")) -> R.Tensor((2, 2), dtype="float32"):
        return R.nn.softmax(x, axis=-1)


A.case(
    "does_not_overflow",
    inputs={"x": [[1000.0, 1000.0], [-1000.0, -1000.0]]},
    expect={"output_0": A.within([[0.5, 0.5], [0.5, 0.5]])},
    source="by hand",
)
A.case(
    "far_apart",
    inputs={"x": [[0.0, -200.0], [0.0, inf]]},
    expect={"output_0": A.within([[1.0, 0.0], [nan, nan]])},
    source="by hand: exp(-200) is below the least float32; inf - inf is NaN",
)
A.case(
    "minus_infinity",
    inputs={"x": [[-inf, 0.0], [-inf, -inf]]},
    expect={"output_0": A.within([[0.0, 1.0], [nan, nan]])},
    source="by hand: exp(-inf) is 0; -inf - -inf is NaN",
)
