"""A reshape keeps the elements in row-major order (specs/semantics.md, "Movement")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), dtype="int32")) -> R.Tensor((n, 2, 2), dtype="int32"):
        return R.reshape(x, R.shape([n, 2, 2]))


A.case(
    "order", inputs={"x": A.arange((2, 4))}, expect={"output_0": [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]}, source="by hand"
)
A.case("none", inputs={"x": A.full((0, 4), 0)}, expect={"output_0": A.full((0, 2, 2), 0)}, source="by hand")
