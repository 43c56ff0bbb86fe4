"""Of equal elements the first comes first (specs/semantics.md, "Stepwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), dtype="int32")) -> R.Tuple(R.Tensor((3,), dtype="int32"), R.Tensor((3,), dtype="int64")):
        R.func_attr({"outputs": ["values", "places"]})
        return A.topk(x, k=3)

    @R.function
    def floats(x: R.Tensor((3,), dtype="float32")) -> R.Tuple(
        R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="int64")
    ):
        R.func_attr({"outputs": ["values", "places"]})
        return A.topk(x, k=2)


A.case(
    "ties",
    inputs={"x": [5, 9, 5, 9, 1, 9]},
    expect={"values": [9, 9, 9], "places": [1, 3, 5]},
    source="ONNX TopK-11: of equal elements the one with the lower index",
)
A.case(
    "nan",
    inputs={"x": [1.0, nan, 3.0]},
    expect={"values": [nan, 3.0], "places": [1, 2]},
    function="floats",
    meaning=True,
    source="Stepwise: NaN is larger than any number; ONNX TopK leaves it open",
)
