"""Max pooling ignores padding (specs/semantics.md, "Pooling")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1, 4), dtype="float32")) -> R.Tensor((1, 1, 3), dtype="float32"):
        return R.nn.max_pool1d(x, pool_size=[2], strides=[2], padding=[1, 1])


A.case(
    "below_zero",
    inputs={"x": [[[-1.0, -2.0, -3.0, -4.0]]]},
    expect={"output_0": [[[-1.0, -2.0, -4.0]]]},
    source="by hand: the padding is not 0",
)
A.case(
    "nan",
    inputs={"x": [[[nan, -2.0, -3.0, inf]]]},
    expect={"output_0": [[[nan, -2.0, inf]]]},
    meaning=True,
    source="Pooling: NaN propagates",
)
