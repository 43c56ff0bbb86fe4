"""Average pooling divides by the elements inside of the picture (specs/semantics.md, "Pooling")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1, 4), dtype="float32")) -> R.Tensor((1, 1, 3), dtype="float32"):
        return R.nn.avg_pool1d(x, pool_size=[2], strides=[2], padding=[1, 1], count_include_pad=False)


A.case(
    "edges",
    inputs={"x": [[[1.0, 2.0, 4.0, 8.0]]]},
    expect={"output_0": A.within([[[1.0, 3.0, 8.0]]])},
    source="by hand: 1 / 1, 6 / 2, 8 / 1",
)
