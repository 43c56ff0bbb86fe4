"""Operands one after another along an axis (specs/semantics.md, "Movement")."""

n = TypeVar("n")
m = TypeVar("m")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, n), dtype="float32"), y: R.Tensor((2, m), dtype="float32")) -> R.Tensor(
        (2, n + m), dtype="float32"
    ):
        return R.concat((x, y), axis=-1)


A.case(
    "negative_axis",
    inputs={"x": [[1.0], [-0.0]], "y": [[nan, 2.0], [inf, 3.0]]},
    expect={"output_0": [[1.0, nan, 2.0], [-0.0, inf, 3.0]]},
    source="by hand: bits are kept",
)
A.case(
    "with_nothing", inputs={"x": [[], []], "y": [[1.0], [2.0]]}, expect={"output_0": [[1.0], [2.0]]}, source="by hand"
)
