"""Operations on bits (specs/semantics.md, "Scalars")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="uint8"), y: R.Tensor((4,), dtype="uint8")) -> R.Tensor((4,), dtype="uint8"):
        return A.bitwise_xor(x, y)


A.case(
    "bits",
    inputs={"x": [0b1100, 255, 0, 170], "y": [0b1010, 255, 0, 85]},
    expect={"output_0": [0b0110, 0, 0, 255]},
    source="by hand",
)
