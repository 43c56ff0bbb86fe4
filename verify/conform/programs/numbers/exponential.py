"""exp may be off by 4 ulps (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        return R.exp(x)


A.case(
    "values",
    inputs={"x": [0.0, 1.0, -1.0, 100.0, -inf, nan]},
    expect={"output_0": A.within([1.0, 2.7182817, 0.36787945, inf, 0.0, nan])},
    source="by hand: e and 1 / e to nearest float32; e**100 is above the greatest float32",
)
