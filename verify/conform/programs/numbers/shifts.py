"""A shift by less than 0, or by the width or more, traps (specs/semantics.md, "Scalars", M5.4)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="int32"), y: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        return A.right_shift(x, y)


A.case(
    "arithmetic",
    inputs={"x": [-8, 8, -1, A.min], "y": [1, 3, 31, 31]},
    expect={"output_0": [-4, 1, -1, -1]},
    source="M5.4: shifting a signed number right is arithmetic; by hand, floor(x / 2**y)",
)
A.case(
    "by_nothing",
    inputs={"x": [5, -5, 0, A.min], "y": [0, 0, 0, 0]},
    expect={"output_0": [5, -5, 0, A.min]},
    source="by hand",
)
A.case("by_the_width", inputs={"x": [1, 1, 1, 1], "y": [0, 1, 2, 32]}, expect=A.trap("shift"), source="M5.4")
A.case("by_less_than_nothing", inputs={"x": [1, 1, 1, 1], "y": [0, -1, 2, 3]}, expect=A.trap("shift"), source="M5.4")
