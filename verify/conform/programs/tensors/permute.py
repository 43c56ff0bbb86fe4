"""Axes in another order (specs/semantics.md, "Movement")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 4), dtype="int32")) -> R.Tensor((4, 2, 3), dtype="int32"):
        return R.permute_dims(x, axes=[2, 0, 1])


A.case(
    "distinct_sizes",
    inputs={"x": A.arange((2, 3, 4))},
    expect={
        "output_0": [
            [[0, 4, 8], [12, 16, 20]],
            [[1, 5, 9], [13, 17, 21]],
            [[2, 6, 10], [14, 18, 22]],
            [[3, 7, 11], [15, 19, 23]],
        ]
    },
    source="by hand: element (k, i, j) is 12 i + 4 j + k",
)
