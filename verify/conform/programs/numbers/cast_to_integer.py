"""A cast from float to integer truncates, and traps for what is out of range (specs/semantics.md, "Scalars", M5.7)."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), dtype="float32")) -> R.Tensor((2, 2), dtype="int8"):
        return R.astype(x, dtype="int8")


A.case(
    "truncates",
    inputs={"x": [[1.9, -1.9], [0.5, -0.0]]},
    expect={"output_0": [[1, -1], [0, 0]]},
    source="M5.7, as C99 6.3.1.4",
)
A.case(
    "ends",
    inputs={"x": [[127.96875, -128.96875], [A.subnormal, -A.normal]]},
    expect={"output_0": [[127, -128], [0, 0]]},
    source="M5.7: out of range after truncation is what counts",
)
A.case("too_large", inputs={"x": [[128.0, 0.0], [0.0, 0.0]]}, expect=A.trap("cast"), source="M5.7")
A.case("nan", inputs={"x": [[0.0, 0.0], [0.0, nan]]}, expect=A.trap("cast"), source="M5.7")
A.case("infinity", inputs={"x": [[0.0, -inf], [0.0, 0.0]]}, expect=A.trap("cast"), source="M5.7")
