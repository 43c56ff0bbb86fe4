"""Sizes of 1 are repeated, and missing axes stand in front (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 1, 3), dtype="int64"), y: R.Tensor((4, 1), dtype="int64")) -> R.Tensor(
        (2, 4, 3), dtype="int64"
    ):
        return R.multiply(x, y)


A.case(
    "both_ways",
    inputs={"x": [[[1, 2, 3]], [[-1, 0, 5]]], "y": [[1], [10], [0], [-1]]},
    expect={
        "output_0": [
            [[1, 2, 3], [10, 20, 30], [0, 0, 0], [-1, -2, -3]],
            [[-1, 0, 5], [-10, 0, 50], [0, 0, 0], [1, 0, -5]],
        ]
    },
    source="by hand",
)
