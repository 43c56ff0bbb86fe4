"""The quotient of whole numbers is rounded down (specs/semantics.md, "Scalars", M5.3)."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((n,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        return R.floor_divide(x, y)


A.case(
    "signs",
    inputs={"x": [7, -7, 7, -7, 6, -6], "y": [2, 2, -2, -2, 3, 3]},
    expect={"output_0": [3, -4, -4, 3, 2, -2]},
    source="by hand: -7 = 2 * -4 + 1, and 7 = -2 * -4 - 1",
)
A.case(
    "ends",
    inputs={"x": [A.max, A.min, 0], "y": [A.max, 2, A.min]},
    expect={"output_0": [1, -1073741824, 0]},
    source="by hand: -2**31 / 2 = -2**30",
)
A.case("none", inputs={"x": [], "y": []}, expect={"output_0": []}, source="there is nothing to divide")
A.case(
    "by_zero",
    inputs={"x": [1, 1], "y": [1, 0]},
    expect=A.trap("division by zero"),
    source="M5.3: both divisions trap at 0",
)
A.case(
    "least_by_minus_one",
    inputs={"x": [A.min, 5], "y": [-1, -1]},
    expect={"output_0": [A.open, -5]},
    source='M5.3 says that it wraps; ONNX Div is silent ("Left open", division)',
)
