"""relu is max(x, 0) (specs/semantics.md, "Elementwise")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float16")) -> R.Tensor((n,), dtype="float16"):
        return R.nn.relu(x)


A.case(
    "signs",
    inputs={"x": [1.5, -1.5, inf, -inf, A.subnormal, -A.subnormal, A.max]},
    expect={"output_0": [1.5, 0.0, inf, 0.0, A.subnormal, 0.0, A.max]},
    source="by hand",
)
A.case("nan_stays", inputs={"x": [nan, -1.0]}, expect={"output_0": [nan, 0.0]}, meaning=True, source="M5.6")
A.case("none", inputs={"x": []}, expect={"output_0": []}, source="there is nothing")
