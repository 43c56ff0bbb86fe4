"""max starts from the least value, and NaN wins (specs/semantics.md, "Reduction")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
        return R.max(x, axis=[0])


A.case(
    "numbers",
    inputs={"x": [[1.0, -inf, -5.0], [2.0, -inf, -4.0]]},
    expect={"output_0": [2.0, -inf, -4.0]},
    source="by hand",
)
A.case(
    "nan",
    inputs={"x": [[nan, 1.0, 2.0], [1.0, nan, 1.0]]},
    expect={"output_0": [nan, nan, 2.0]},
    meaning=True,
    source="M5.6",
)
