"""A cast to a narrower float rounds, and overflows to an infinity (specs/semantics.md, "Scalars", M5.7)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float16"):
        return R.astype(x, dtype="float16")


A.case(
    "beyond_the_largest",
    inputs={"x": [65519.0, 65520.0, -1e10, nan]},
    expect={"output_0": [65504.0, inf, -inf, nan]},
    meaning=True,
    source="IEEE 754, 7.4: what rounds to 2**16 overflows to infinity",
)
