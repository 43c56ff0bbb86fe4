"""float4_e2m1fn has neither NaN nor infinity (specs/semantics.md, "Scalars", M5.1)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((7,), dtype="float32")) -> R.Tensor((7,), dtype="float4_e2m1fn"):
        return R.astype(x, dtype="float4_e2m1fn")


A.case(
    "values",
    inputs={"x": [0.0, -0.5, 1.0, 1.5, -2.0, 3.0, 6.0]},
    expect={"output_0": [0.0, -0.5, 1.0, 1.5, -2.0, 3.0, 6.0]},
    source="OCP Microscaling formats, table 3",
)
A.case(
    "ties",
    inputs={"x": [0.25, 0.75, 1.25, 1.75, 2.5, -3.5, 5.0]},
    expect={"output_0": [0.0, 1.0, 1.0, 2.0, 2.0, -4.0, 4.0]},
    meaning=True,
    source="M5.7: to nearest even, by the one bit of the significand",
)
A.case(
    "nan_and_too_large",
    inputs={"x": [nan, 100.0, -100.0, inf, -inf, 7.0, -0.125]},
    expect={"output_0": [-0.0, 6.0, -6.0, 6.0, -6.0, 6.0, -0.0]},
    meaning=True,
    source="M5.1",
)
