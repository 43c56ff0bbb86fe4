"""Updates of one place happen in order; the last one holds (specs/semantics.md, "Selection")."""


@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((4,), dtype="int32"), i: R.Tensor((2, 1), dtype="int64"), u: R.Tensor((2,), dtype="int32")
    ) -> R.Tensor((4,), dtype="int32"):
        return A.scatter_nd(x, i, u)


A.case(
    "apart",
    inputs={"x": [1, 2, 3, 4], "i": [[-1], [0]], "u": [40, 10]},
    expect={"output_0": [10, 2, 3, 40]},
    source="by hand",
)
A.case(
    "in_one_place",
    inputs={"x": [1, 2, 3, 4], "i": [[2], [2]], "u": [8, 9]},
    expect={"output_0": [1, 2, 9, 4]},
    meaning=True,
    source="Selection: without reduction the last one holds; ONNX ScatterND leaves it open",
)
A.case(
    "outside",
    inputs={"x": [1, 2, 3, 4], "i": [[4], [0]], "u": [8, 9]},
    expect=A.trap("out of bounds"),
    source="Selection: a place outside traps",
)
