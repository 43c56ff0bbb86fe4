"""A cast to a float rounds to nearest, ties to even (specs/semantics.md, "Scalars", M5.7)."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="bfloat16"):
        return R.astype(x, dtype="bfloat16")


A.case(
    "exact",
    inputs={"x": [1.0, -0.0, 0.5, -256.0, inf, -inf, nan]},
    expect={"output_0": [1.0, -0.0, 0.5, -256.0, inf, -inf, nan]},
    source="by hand: numbers that bfloat16 has",
)
A.case(
    "ties",
    inputs={"x": ["0x1.01p0", "0x1.03p0", "0x1.0102p0", "-0x1.01p0", "0x1.00fep0"]},
    expect={"output_0": ["0x1p0", "0x1.04p0", "0x1.02p0", "-0x1p0", "0x1p0"]},
    meaning=True,
    source="by hand: bfloat16 has 8 bits; 1 + 2**-8 lies between 1 and 1 + 2**-7",
)
A.case(
    "beyond_the_largest",
    inputs={"x": ["0x1.fep127", "0x1.ff8p127"]},
    expect={"output_0": [A.max, inf]},
    meaning=True,
    source="IEEE 754, 7.4: what rounds to 2**128 overflows to infinity",
)
