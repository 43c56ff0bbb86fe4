"""where takes one of two elements, whatever the other is (specs/semantics.md, "Scalars", M5.8)."""


@I.ir_module
class Module:
    @R.function
    def main(
        c: R.Tensor((2, 2), dtype="bool"), x: R.Tensor((2, 2), dtype="float32"), y: R.Tensor((2,), dtype="float32")
    ) -> R.Tensor((2, 2), dtype="float32"):
        return R.where(c, x, y)


A.case(
    "other_is_nan",
    inputs={"c": [[True, False], [False, True]], "x": [[1.0, nan], [nan, -0.0]], "y": [5.0, -inf]},
    expect={"output_0": [[1.0, -inf], [5.0, -0.0]]},
    source="by hand",
)
