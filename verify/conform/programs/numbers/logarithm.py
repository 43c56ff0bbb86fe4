"""The logarithm of either zero is -inf, that of a negative number NaN; nothing traps (specs/semantics.md,
"Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((7,), dtype="float32")) -> R.Tensor((7,), dtype="float32"):
        return R.log(x)


A.case(
    "ends",
    inputs={"x": [0.0, -0.0, -1.0, -inf, inf, 1.0, nan]},
    expect={"output_0": A.within([-inf, -inf, nan, nan, inf, 0.0, nan])},
    source="C99 F.9.3.7",
)
