"""In which order things happen (specs/semantics.md, "M3 Order")."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), dtype="int32"), y: R.Tensor((1,), dtype="int32")) -> R.Tensor((1,), dtype="int32"):
        return R.add(A.left_shift(x, y), R.floor_divide(x, y))

    @R.function
    def other_way(x: R.Tensor((1,), dtype="int32"), y: R.Tensor((1,), dtype="int32")) -> R.Tensor((1,), dtype="int32"):
        return R.add(R.floor_divide(x, y), A.left_shift(x, y))

    @R.function
    def let_first(x: R.Tensor((1,), dtype="int32"), y: R.Tensor((1,), dtype="int32")) -> R.Tensor((1,), dtype="int32"):
        q = R.floor_divide(x, y)
        return R.add(A.left_shift(x, y), q)

    @R.function
    def guarded(x: R.Tensor((), dtype="int32"), y: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        with A.graph():
            q = R.floor_divide(x, y)
            r = A.if_(R.equal(y, R.const(0, "int32")), R.const(-1, "int32"), R.add(q, q))
        return r

    @R.function
    def guarded_in_order(x: R.Tensor((), dtype="int32"), y: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        zero = R.const(0, "int32")
        is_zero = R.equal(y, zero)
        if is_zero:
            minus_one = R.const(-1, "int32")
            r = minus_one
        else:
            q = R.floor_divide(x, y)
            twice = R.add(q, q)
            r = twice
        return r

    @R.function
    def hoisted(x: R.Tensor((), dtype="int32"), y: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        zero = R.const(0, "int32")
        is_zero = R.equal(y, zero)
        q = R.floor_divide(x, y)
        if is_zero:
            minus_one = R.const(-1, "int32")
            r = minus_one
        else:
            twice = R.add(q, q)
            r = twice
        return r


A.case("both", inputs={"x": [6], "y": [2]}, expect={"output_0": [27]}, source="by hand: 6 * 4 + 6 // 2", rules="M3.1")
A.case(
    "left_operand_first",
    inputs={"x": [6], "y": [-1]},
    expect=A.trap("shift"),
    source="the shift stands on the left; -6 would be the quotient",
    rules="M3.1",
)
A.case(
    "first_of_two_traps",
    inputs={"x": [6], "y": [0]},
    expect=A.trap("division by zero"),
    function="other_way",
    source="a shift by 0 is none that traps",
    rules="M3.1",
)
A.case(
    "let_before_its_body",
    inputs={"x": [6], "y": [0]},
    expect=A.trap("division by zero"),
    function="let_first",
    source="the value of the let comes before its body",
    rules="M3.1",
)
A.case(
    "not_moved",
    inputs={"x": 6, "y": 0},
    expect={"output_0": -1},
    function="guarded",
    source="nobody demands it",
    rules="M3.2",
)
A.case(
    "moved",
    inputs={"x": 6, "y": 0},
    expect=A.trap("division by zero"),
    function="hoisted",
    source="what moves the quotient before the choice changes the program",
    rules="M3.2",
)
A.same("order_is_visible", "guarded", "guarded_in_order", after="anf", source="by hand", rules="M3.3 M3.2")
A.differs("order_is_not_free", "guarded", "hoisted", after="anf", source="by hand", rules="M3.3 M3.2")
