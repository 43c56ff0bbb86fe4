"""Nothing is equal to NaN, and -0 is 0 (specs/semantics.md, "Scalars")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="float64"), y: R.Tensor((5,), dtype="float64")) -> R.Tuple(
        R.Tensor((5,), dtype="bool"), R.Tensor((5,), dtype="bool")
    ):
        R.func_attr({"outputs": ["equal", "less"]})
        with A.graph():
            a = R.equal(x, y)
            b = R.less(x, y)
        return (a, b)


A.case(
    "specials",
    inputs={"x": [nan, 0.0, -inf, A.subnormal, 1.0], "y": [nan, -0.0, inf, 0.0, nan]},
    expect={"equal": [False, True, False, False, False], "less": [False, False, True, False, False]},
    source="IEEE 754, 5.11",
)
