"""Padding with a value, and cropping by less than none (specs/semantics.md, "Movement")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), dtype="int32")) -> R.Tensor((3, 1), dtype="int32"):
        return R.nn.pad(x, pad_width=[1, 0, 0, -1], pad_value=7)


A.case("both", inputs={"x": [[1, 2], [3, 4]]}, expect={"output_0": [[7], [1], [3]]}, source="by hand")
