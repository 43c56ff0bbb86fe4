"""A sum may be taken in any order (specs/semantics.md, "Reduction" and "M9 Numbers")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        return R.sum(x)


A.case(
    "whole_numbers",
    inputs={"x": A.arange((100,))},
    expect={"output_0": 4950.0},
    source="by hand: 99 * 100 / 2, exact in any order",
)
A.case(
    "any_order", inputs={"x": [0.1, 0.2, 0.3, 0.4]}, expect={"output_0": A.within(1.0)}, source="by hand, in decimals"
)
A.case(
    "from_the_front",
    inputs={"x": [16777216.0, 1.0, 1.0]},
    expect={"output_0": 16777216.0},
    meaning=True,
    source="Reduction: in row-major order; by hand, 2**24 + 1 rounds to 2**24",
)
A.case("of_nothing", inputs={"x": []}, expect={"output_0": 0.0}, source="Reduction: sum starts from 0")
A.case("infinities_of_both_signs", inputs={"x": [inf, 1.0, -inf]}, expect={"output_0": nan}, source="IEEE 754, 7.2")
