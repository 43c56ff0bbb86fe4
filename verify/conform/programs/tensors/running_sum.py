"""Running totals, also without the place's own element (specs/semantics.md, "Stepwise")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="int64")) -> R.Tuple(R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64")):
        R.func_attr({"outputs": ["totals", "behind"]})
        with A.graph():
            a = A.cumsum(x, axis=0)
            b = A.cumsum(x, axis=-1, exclusive=True, reverse=True)
        return (a, b)


A.case(
    "totals",
    inputs={"x": [1, 2, 3, 4]},
    expect={"totals": [1, 3, 6, 10], "behind": [9, 7, 4, 0]},
    source="by hand; the examples of ONNX CumSum",
)
