"""A slice clamps its ends, and steps backwards too (specs/semantics.md, "Movement")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5,), dtype="int32")) -> R.Tuple(R.Tensor((2,), dtype="int32"), R.Tensor((3,), dtype="int32")):
        R.func_attr({"outputs": ["clamped", "backwards"]})
        with A.graph():
            a = R.strided_slice(x, axes=[0], begin=[3], end=[100])
            b = R.strided_slice(x, axes=[0], begin=[-1], end=[-100], strides=[-2])
        return (a, b)


A.case(
    "ends",
    inputs={"x": [10, 11, 12, 13, 14]},
    expect={"clamped": [13, 14], "backwards": [14, 12, 10]},
    source="ONNX Slice-13, as NumPy x[3:100] and x[-1:-100:-2]",
)
