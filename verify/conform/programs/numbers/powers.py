"""A power of anything with exponent 0 is 1 (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="float64"), y: R.Tensor((6,), dtype="float64")) -> R.Tensor((6,), dtype="float64"):
        return R.power(x, y)


A.case(
    "specials",
    inputs={"x": [nan, 0.0, -8.0, 2.0, -2.0, 1.0], "y": [0.0, 0.0, 0.5, 10.0, 3.0, nan]},
    expect={"output_0": A.within([1.0, 1.0, nan, 1024.0, -8.0, 1.0])},
    source="C99 F.9.4.4",
)
