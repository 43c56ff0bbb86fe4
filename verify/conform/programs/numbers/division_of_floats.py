"""divide is IEEE's (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="float32"), y: R.Tensor((6,), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        return R.divide(x, y)


A.case(
    "specials",
    inputs={"x": [1.0, -1.0, 0.0, inf, 1.0, nan], "y": [0.0, 0.0, 0.0, inf, -inf, 1.0]},
    expect={"output_0": [inf, -inf, nan, nan, -0.0, nan]},
    meaning=True,
    source="IEEE 754, 7.2 and 7.3",
)
A.case(
    "rounded",
    inputs={"x": [1.0, 2.0, 10.0, 1.0, -1.0, 5.0], "y": [3.0, 3.0, 4.0, 10.0, 8.0, 5.0]},
    expect={"output_0": A.within([0.33333334, 0.6666667, 2.5, 0.1, -0.125, 1.0])},
    source="by hand: the float32 nearest to the quotient",
)
