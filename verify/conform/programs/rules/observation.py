"""What a run shows (specs/semantics.md, "M1 Observation")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="int32"), y: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.floor_divide(x, y)

    @R.function(pure=False)
    def told(x: R.Tensor((2,), dtype="int32"), y: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        _ = R.print(x, format="x is {}")
        q = R.floor_divide(x, y)
        _1 = R.print(q, format="q is {}")
        return q

    @R.function
    def square(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return R.multiply(x, x)

    @R.function
    def also_square(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        a = R.abs(x)
        return R.multiply(a, a)

    @R.function
    def no_square(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return R.multiply(x, R.abs(x))

    @R.function
    def decides(x: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="int32"):
        c = R.greater(R.exp(x), R.const(2.718281828, "float32"))
        if c:
            r = R.const(1, "int32")
        else:
            r = R.const(0, "int32")
        return r

    @R.function
    def pair(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((n,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        return R.add(x, y)


A.case("runs", inputs={"x": [7, 8], "y": [2, 3]}, expect={"output_0": [3, 2]}, source="by hand", rules="M1.1")
A.case("traps", inputs={"x": [7, 8], "y": [2, 0]}, expect=A.trap("division by zero"), source="M5.3", rules="M1.1 M1.2")
A.case(
    "input_is_invalid",
    inputs={"x": [1, 2], "y": [1, 2, 3]},
    expect=A.invalid("input.C4"),
    function="pair",
    source="two inputs name one size, and do not agree",
    rules="M1.1",
)
A.refused(
    "program_is_invalid",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.add(x, R.const([1, 2, 3], "int32"))
""",
    label="broadcast.C1",
    source="sizes 2 and 3 do not broadcast",
    rules="M1.1",
)
A.case(
    "effects_in_their_order",
    inputs={"x": [7, 8], "y": [2, 3]},
    expect={"output_0": [3, 2]},
    prints=["x is [7, 8]", "q is [3, 2]"],
    function="told",
    source="by hand",
    rules="M1.2",
)
A.case(
    "effects_before_a_trap",
    inputs={"x": [7, 8], "y": [2, 0]},
    expect=A.trap("division by zero"),
    prints=["x is [7, 8]"],
    function="told",
    source="what was printed stays printed",
    rules="M1.2",
)
A.case(
    "bounds_decide", inputs={"x": 2.0}, expect={"output_0": 1}, function="decides", source="exp(2) > 7", rules="M1.3"
)
A.case(
    "bounds_do_not_decide",
    inputs={"x": 1.0},
    expect=A.unpredictable(),
    function="decides",
    source="the number lies within what exp(1) may be off by",
    rules="M1.3",
)
A.case("square", inputs={"x": -3}, expect={"output_0": 9}, function="square", source="by hand", rules="M1.4")
A.case("also_square", inputs={"x": -3}, expect={"output_0": 9}, function="also_square", source="by hand", rules="M1.4")
A.case(
    "also_square_of_the_least",
    inputs={"x": A.min},
    expect={"output_0": 0},
    meaning=True,
    function="also_square",
    source="abs of the least number wraps to itself; its square is a multiple of 2**32",
    rules="M1.4",
)
A.case(
    "told_apart",
    inputs={"x": -3},
    expect=A.wrong({"output_0": 9}),
    function="no_square",
    source="at 3 it is equal to the two others, and at -3 it is not",
    rules="M1.4",
)
A.case(
    "message",
    inputs={"x": [1, 1], "y": [0, 1]},
    expect=A.trap("division by zero", says="[scalar.T1]"),
    source="the label of the rule stands at the end",
    rules="M1.5",
)
A.case("no_message", inputs={"x": [1, 1], "y": [1, 1]}, expect={"output_0": [1, 1]}, source="by hand", rules="M1.5")
