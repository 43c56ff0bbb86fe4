"""Where the ends are crossed, the upper one holds (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        return R.clip(x, min=3, max=1)


A.case(
    "all_become_the_upper_end",
    inputs={"x": [0, 1, 2, 9]},
    expect={"output_0": [1, 1, 1, 1]},
    meaning=True,
    source="min(max(x, 3), 1) by hand; ONNX Clip-13 says the same of min > max",
)
