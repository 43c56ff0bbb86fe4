"""Places count from the end where they are negative; outside traps (specs/semantics.md, "Movement")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 2), dtype="float32"), i: R.Tensor((2,), dtype="int64")) -> R.Tensor(
        (2, 2), dtype="float32"
    ):
        return R.take(x, i, axis=0)


A.case(
    "from_the_end",
    inputs={"x": [[1.0, 2.0], [3.0, 4.0], [5.0, nan]], "i": [-1, -3]},
    expect={"output_0": [[5.0, nan], [1.0, 2.0]]},
    source="ONNX Gather-13: indices from -s to s - 1",
)
A.case(
    "outside",
    inputs={"x": A.arange((3, 2)), "i": [0, 3]},
    expect=A.trap("out of bounds"),
    source="Movement: take traps outside of the axis",
)
A.case(
    "outside_at_the_front",
    inputs={"x": A.arange((3, 2)), "i": [-4, 0]},
    expect=A.trap("out of bounds"),
    source="Movement",
)
