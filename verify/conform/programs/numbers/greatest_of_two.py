"""max gives NaN if either operand is NaN (specs/semantics.md, "Scalars", M5.6)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="float32"), y: R.Tensor((5,), dtype="float32")) -> R.Tensor((5,), dtype="float32"):
        return R.maximum(x, y)


A.case(
    "numbers",
    inputs={"x": [1.0, -1.0, inf, -inf, 2.5], "y": [2.0, -2.0, 0.0, -A.max, 2.5]},
    expect={"output_0": [2.0, -1.0, inf, -A.max, 2.5]},
    source="by hand",
)
A.case(
    "nan_and_zeros",
    inputs={"x": [nan, 1.0, -0.0, 0.0, nan], "y": [1.0, nan, 0.0, -0.0, nan]},
    expect={"output_0": [nan, nan, 0.0, 0.0, nan]},
    meaning=True,
    source="M5.6: NaN wins, and -0 is below +0, as IEEE 754-2019 maximum",
)
A.case(
    "nan_is_left_open",
    inputs={"x": [nan, 1.0, 2.0, 3.0, 4.0], "y": [1.0, nan, 1.0, 1.0, 1.0]},
    expect={"output_0": [A.open, A.open, 2.0, 3.0, 4.0]},
    source="ONNX Max is silent on NaN",
)
