"""A product of matrices (specs/semantics.md, "Contraction")."""

n = TypeVar("n")
m = TypeVar("m")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, m), dtype="float32"), y: R.Tensor((m, 2), dtype="float32")) -> R.Tensor(
        (n, 2), dtype="float32"
    ):
        return R.matmul(x, y)


A.case(
    "whole_numbers",
    inputs={"x": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "y": [[1.0, 0.0], [0.0, 1.0], [-1.0, 2.0]]},
    expect={"output_0": [[-2.0, 8.0], [-2.0, 17.0]]},
    source="by hand",
)
A.case(
    "nothing_to_add",
    inputs={"x": A.full((3, 0), 0), "y": A.full((0, 2), 0)},
    expect={"output_0": A.full((3, 2), 0)},
    source="a sum of no products is 0",
)
A.case(
    "infinity_times_zero",
    inputs={"x": [[inf, 1.0]], "y": [[0.0, 1.0], [1.0, 1.0]]},
    expect={"output_0": [[nan, inf]]},
    source="IEEE 754, 7.2",
)
