"""A tensor without axes has one element (specs/semantics.md, "Types")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
        return R.where(R.greater(x, R.const(0.0, "float32")), y, R.negative(y))


A.case("positive", inputs={"x": 0.5, "y": [1.0, -2.0, 0.0]}, expect={"output_0": [1.0, -2.0, 0.0]}, source="by hand")
A.case(
    "zero",
    inputs={"x": -0.0, "y": [1.0, -2.0, inf]},
    expect={"output_0": [-1.0, 2.0, -inf]},
    source="by hand: -0 is not greater than 0",
)
A.case(
    "nan",
    inputs={"x": nan, "y": [3.0, 0.0, nan]},
    expect={"output_0": [-3.0, -0.0, nan]},
    source="by hand: NaN is not greater than 0",
)
