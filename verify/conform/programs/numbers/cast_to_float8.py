"""float8_e4m3fn has no infinity; bytes by their values (specs/semantics.md, "Scalars", M5.1)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="float8_e4m3fn")) -> R.Tensor((5,), dtype="float32"):
        return R.astype(x, dtype="float32")


A.case(
    "values",
    inputs={"x": [A.max, A.min, A.subnormal, -0.0, nan]},
    expect={"output_0": [448.0, -448.0, "0x1p-9", -0.0, nan]},
    source="OCP 8-bit floating point specification, table 1: 1.75 * 2**8, and 2**-9",
)
