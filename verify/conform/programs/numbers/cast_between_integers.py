"""A cast from integer to integer wraps (specs/semantics.md, "Scalars", M5.7)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="int32")) -> R.Tensor((6,), dtype="uint8"):
        return R.astype(x, dtype="uint8")


A.case(
    "fits",
    inputs={"x": [0, 1, 127, 128, 254, 255]},
    expect={"output_0": [0, 1, 127, 128, 254, 255]},
    source="by hand",
)
A.case(
    "wraps",
    inputs={"x": [256, -1, 1000, A.min, A.max, -129]},
    expect={"output_0": [0, 255, 232, 0, 255, 127]},
    meaning=True,
    source="M5.7; by hand: 1000 - 3 * 256, -129 + 256",
)
