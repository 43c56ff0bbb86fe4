"""Integers wrap, modulo 2 to their width (specs/semantics.md, "Scalars", M5.2)."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int8"), y: R.Tensor((n,), dtype="int8")) -> R.Tensor((n,), dtype="int8"):
        return R.add(x, y)


A.case(
    "in_range",
    inputs={"x": [100, -100, 127, -128], "y": [27, -28, -128, 0]},
    expect={"output_0": [127, -128, -1, -128]},
    source="by hand: sums that int8 has",
)
A.case(
    "wraps",
    inputs={"x": [127, -128, 100], "y": [1, -1, 100]},
    expect={"output_0": [-128, 127, -56]},
    meaning=True,
    source="M5.2; by hand: 128 - 256, -129 + 256, 200 - 256",
)
A.case(
    "open_beside_known",
    inputs={"x": [127, 1], "y": [1, 2]},
    expect={"output_0": [A.open, 3]},
    source="ONNX Add says nothing of sums that are out of range",
)
