"""The bits of a float as an integer (specs/semantics.md, "Scalars", M5.11)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="float32")) -> R.Tensor((5,), dtype="int32"):
        return A.reinterpret(x, dtype="int32")


A.case(
    "bits",
    inputs={"x": [1.0, -0.0, inf, A.subnormal, -2.0]},
    expect={"output_0": [0x3F800000, A.min, 0x7F800000, 1, -0x40000000]},
    source="IEEE 754, 3.4: sign, exponent, significand",
)
