"""The places of what is not 0, and how many (specs/semantics.md, "Selection")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), dtype="int32")) -> R.Tuple(
        R.Tensor((2, 4), dtype="int64"), R.Tensor((1,), dtype="int64")
    ):
        R.func_attr({"outputs": ["places", "count"]})
        return A.nonzero(x)


A.case(
    "three",
    inputs={"x": [[1, 0], [1, 1]]},
    expect={"places": [[0, 1, 1, 0], [0, 0, 1, 0]], "count": [3]},
    source="by hand; the example of ONNX NonZero",
)
