"""A function that calls itself (specs/semantics.md, "M2 Graph IR")."""


@I.ir_module
class Module:
    @R.function
    def factorial(i: R.Tensor((), dtype="int64")) -> R.Tensor((), dtype="int64"):
        done = R.less_equal(i, R.const(1, "int64"))
        if done:
            r = R.const(1, "int64")
        else:
            r = R.multiply(i, cls.factorial(R.subtract(i, R.const(1, "int64"))))
        return r

    @R.function
    def main(i: R.Tensor((), dtype="int64")) -> R.Tensor((), dtype="int64"):
        return cls.factorial(i)


A.case("five", inputs={"i": 5}, expect={"output_0": 120}, source="by hand")
A.case(
    "other_function",
    inputs={"i": 20},
    expect={"output_0": 2432902008176640000},
    function="factorial",
    source="20! fits into int64",
)
