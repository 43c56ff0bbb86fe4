"""Only the branch that is taken is run (specs/semantics.md, "M3 Order")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="int32"), y: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        zero = R.equal(y, R.const(0, "int32"))
        if zero:
            q = R.const(-1, "int32")
        else:
            q = R.floor_divide(x, y)
        return q


A.case("taken", inputs={"x": 7, "y": -2}, expect={"output_0": -4}, source="by hand")
A.case(
    "not_taken", inputs={"x": 7, "y": 0}, expect={"output_0": -1}, source="M3: the division by 0 is in the other branch"
)
