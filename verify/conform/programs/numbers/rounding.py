"""round goes to even (specs/semantics.md, "Elementwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8,), dtype="float32")) -> R.Tensor((8,), dtype="float32"):
        return R.round(x)


A.case(
    "ties",
    inputs={"x": [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, 4.5]},
    expect={"output_0": [0.0, 2.0, 2.0, -0.0, -2.0, -2.0, 4.0, 4.0]},
    meaning=True,
    source="ONNX Round: halfs go to the nearest even integer",
)
A.case(
    "beside_ties",
    inputs={"x": ["0x1.fffffep-2", "-0x1.fffffep-2", "0x1.000002p-1", 8388607.0, 8388608.0, inf, -inf, nan]},
    expect={"output_0": [0.0, -0.0, 1.0, 8388607.0, 8388608.0, inf, -inf, nan]},
    meaning=True,
    source="by hand: from 2**23 on every float32 is whole",
)
