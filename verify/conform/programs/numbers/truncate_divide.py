"""The other quotient of whole numbers is rounded to zero (specs/semantics.md, "Scalars", M5.3)."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int8"), y: R.Tensor((n,), dtype="int8")) -> R.Tensor((n,), dtype="int8"):
        return A.truncate_divide(x, y)


A.case(
    "signs",
    inputs={"x": [7, -7, 7, -7, 127, -128], "y": [2, 2, -2, -2, 127, 127]},
    expect={"output_0": [3, -3, -3, 3, 1, -1]},
    source="by hand: as C99 divides, 6.5.5",
)
A.case(
    "by_zero", inputs={"x": [0], "y": [0]}, expect=A.trap("division by zero"), source="M5.3: both divisions trap at 0"
)
