"""A size that is named twice must agree on return (specs/semantics.md, "M4 Dims")."""

n = TypeVar("n")
m = TypeVar("m")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((m,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        z: R.Tensor((n,), dtype="int32") = R.match_cast(y, R.Tensor((n,), dtype="int32"))
        return R.add(x, z)


A.case("agree", inputs={"x": [1, 2], "y": [3, 4]}, expect={"output_0": [4, 6]}, source="by hand")
A.case("differ", inputs={"x": [1, 2], "y": [3, 4, 5]}, expect=A.trap("shape"), source="M4: a shape error")
