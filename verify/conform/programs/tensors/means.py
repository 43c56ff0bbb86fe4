"""mean is the sum divided by the count (specs/semantics.md, "Reduction")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        return R.mean(x, axis=[1])


A.case(
    "halves",
    inputs={"x": [[1.0, 2.0, 3.0, 4.0], [-1.0, 1.0, -1.0, 2.0]]},
    expect={"output_0": A.within([2.5, 0.25])},
    source="by hand",
)
