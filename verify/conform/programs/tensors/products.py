"""A product starts from 1 (specs/semantics.md, "Reduction")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3), dtype="int32")) -> R.Tensor((3,), dtype="int32"):
        return R.prod(x, axis=[0])


A.case(
    "of_nothing",
    inputs={"x": A.full((0, 3), 0)},
    expect={"output_0": [1, 1, 1]},
    source="Reduction: product starts from 1",
)
A.case("signs", inputs={"x": [[1, -2, 0], [3, 4, 9]]}, expect={"output_0": [3, -8, 0]}, source="by hand")
