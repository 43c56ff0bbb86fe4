"""A node that nothing demands is not run (specs/semantics.md, "M2 Graph IR")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), dtype="int32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((1,), dtype="int32"):
        with A.graph():
            fails = R.floor_divide(x, R.const([0], "int32"))
            chosen = A.if_(c, x, fails)
        return chosen


A.case("other_arm", inputs={"x": [3], "c": True}, expect={"output_0": [3]}, source="M2: call by need")
A.case("this_arm", inputs={"x": [3], "c": False}, expect=A.trap("division by zero"), source="M5.3")
