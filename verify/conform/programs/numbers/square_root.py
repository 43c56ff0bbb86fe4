"""The square root of a negative number is NaN, that of a zero is that zero; nothing traps (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        return R.sqrt(x)


A.case(
    "ends",
    inputs={"x": [-1.0, -inf, -0.0, 0.0, inf, 2.25]},
    expect={"output_0": A.within([nan, nan, -0.0, 0.0, inf, 1.5])},
    source="C99 F.9.4.5",
)
