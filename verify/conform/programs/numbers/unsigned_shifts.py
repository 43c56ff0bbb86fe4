"""Shifting an unsigned number left loses what leaves the width (specs/semantics.md, "Scalars", M5.2 and M5.4)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="uint8"), y: R.Tensor((4,), dtype="uint8")) -> R.Tensor((4,), dtype="uint8"):
        return A.left_shift(x, y)


A.case(
    "bits",
    inputs={"x": [1, 3, 0, 255], "y": [7, 6, 5, 0]},
    expect={"output_0": [128, 192, 0, 255]},
    source="by hand: 3 * 2**6",
)
A.case(
    "out_at_the_top",
    inputs={"x": [255, 3, 1, 1], "y": [1, 7, 0, 0]},
    expect={"output_0": [254, 128, 1, 1]},
    source="ONNX BitShift-28: the bits that leave are lost; by hand, 510 - 256 and 384 - 256",
)
A.case("by_the_width", inputs={"x": [1, 1, 1, 1], "y": [8, 0, 0, 0]}, expect=A.trap("shift"), source="M5.4")
