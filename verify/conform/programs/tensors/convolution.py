"""A convolution pads with zeros (specs/semantics.md, "Contraction")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1, 3, 3), dtype="float32"), w: R.Tensor((1, 1, 2, 2), dtype="float32")) -> R.Tensor(
        (1, 1, 2, 2), dtype="float32"
    ):
        return R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 0, 0])


A.case(
    "strides_and_padding",
    inputs={"x": A.arange((1, 1, 3, 3), 1), "w": [[[[1.0, 2.0], [3.0, 4.0]]]]},
    expect={"output_0": [[[[4.0, 18.0], [36.0, 77.0]]]]},
    source="by hand: 4 * 1; 3 * 2 + 4 * 3; 2 * 4 + 4 * 7; 5 + 2 * 6 + 3 * 8 + 4 * 9",
)
