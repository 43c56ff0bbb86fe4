"""The element type of a sum is kept (specs/semantics.md, "Reduction")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="int8")) -> R.Tensor((2, 1), dtype="int8"):
        return R.sum(x, axis=[-1], keepdims=True)


A.case("negative_axis", inputs={"x": [[1, 2, 3], [-1, -2, 100]]}, expect={"output_0": [[6], [97]]}, source="by hand")
A.case(
    "wraps",
    inputs={"x": [[100, 100, 1], [0, 0, 0]]},
    expect={"output_0": [[-55], [0]]},
    meaning=True,
    source="M5.2; by hand, 201 - 256",
)
