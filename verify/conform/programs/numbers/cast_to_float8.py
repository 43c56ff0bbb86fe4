"""float8_e4m3fn has no infinity; bytes by their values (specs/semantics.md, "Scalars", M5.1)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="float8_e4m3fn")) -> R.Tensor((5,), dtype="float32"):
        return R.astype(x, dtype="float32")

    @R.function
    def narrowed(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float8_e4m3fn"):
        return R.astype(x, dtype="float8_e4m3fn")


A.case(
    "values",
    inputs={"x": [A.max, A.min, A.subnormal, -0.0, nan]},
    expect={"output_0": [448.0, -448.0, "0x1p-9", -0.0, nan]},
    source="OCP 8-bit floating point specification, table 1: 1.75 * 2**8, and 2**-9",
)
A.case(
    "beyond_the_largest",
    inputs={"x": [464.0, 465.0, -inf, nan]},
    expect={"output_0": [448.0, nan, nan, nan]},
    function="narrowed",
    meaning=True,
    source="by hand: 464 is the tie between 448 and 480, which it has not; nor has it an infinity",
)
