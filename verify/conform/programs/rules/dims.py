"""Sizes: numbers, symbols, and where they meet (specs/semantics.md, "M4 Dims")."""

n = TypeVar("n")
m = TypeVar("m")
k = TypeVar("k")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((n * 2,), dtype="int32")) -> R.Tensor(
        (n * 3,), dtype="int32"
    ):
        return R.concat((x, y), axis=0)

    @R.function
    def same(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((n,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        return R.add(x, y)

    @R.function
    def cast(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((m,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        z = R.match_cast(y, R.Tensor((n,), dtype="int32"))
        return R.add(x, z)

    @R.function
    def declared(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((m,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        return y

    @R.function
    def stretched(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((m,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        z = R.match_cast(y, R.Tensor((1,), dtype="int32"))
        return R.add(x, z)

    @R.function
    def total(x: R.Tensor((n,), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return R.sum(x, axis=[0])

    @R.function
    def shaped(x: R.Tensor((n,), dtype="int32"), s: R.Tensor((2,), dtype="int64")) -> R.Tensor((m, k), dtype="int32"):
        sizes: R.Shape((m, k)) = R.match_cast(s, R.Shape((m, k)))
        return R.full((m, k), R.const(1, "int32"), dtype="int32")

    @R.function
    def firsts(x: R.Tensor((n,), dtype="int32"), s: R.Tensor((1,), dtype="int64")) -> R.Tensor((m,), dtype="int32"):
        sizes: R.Shape((m,)) = R.match_cast(s, R.Shape((m,)))
        return R.full((m,), R.const(1, "int32"), dtype="int32")

    @R.function
    def two_calls(
        x: R.Tensor((n,), dtype="int32"), s: R.Tensor((1,), dtype="int64"), t: R.Tensor((1,), dtype="int64")
    ) -> R.Tuple(R.Tensor((m,), dtype="int32"), R.Tensor((k,), dtype="int32")):
        a = cls.firsts(x, s)
        b = cls.firsts(x, t)
        return (a, b)

    @R.function
    def two_calls_of_one_size(
        x: R.Tensor((n,), dtype="int32"), s: R.Tensor((1,), dtype="int64"), t: R.Tensor((1,), dtype="int64")
    ) -> R.Tensor((m,), dtype="int32"):
        a: R.Tensor((m,), dtype="int32") = cls.firsts(x, s)
        b = cls.firsts(x, t)
        c: R.Tensor((m,), dtype="int32") = R.match_cast(b, R.Tensor((m,), dtype="int32"))
        return R.add(a, c)

    @R.function
    def said(x: R.Tensor((n,), dtype="int32"), s: R.Tensor((1,), dtype="int64")) -> R.Tensor((n + 1,), dtype="int32"):
        R.func_attr({"explicit_shapes": True})
        t: R.Shape((n + 1,)) = R.match_cast(s, R.Shape((n + 1,)))
        return R.full((n + 1,), R.const(1, "int32"), dtype="int32")

    @R.function
    def unsaid(x: R.Tensor((n,), dtype="int32")) -> R.Tensor((n + 1,), dtype="int32"):
        R.func_attr({"explicit_shapes": True})
        s: R.Shape((n,)) = R.match_cast(R.shape_of(x), R.Shape((n,)))
        return R.full((n + 1,), R.const(1, "int32"), dtype="int32")


A.case(
    "expressions",
    inputs={"x": [1], "y": [2, 3]},
    expect={"output_0": [1, 2, 3]},
    source="by hand: n is 1, n * 2 is 2 and n * 3 is 3",
    rules="M4.1",
)
A.refused(
    "beyond_64_bits",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((9223372036854775807 + 1,), dtype="int32")) -> R.Tensor((1,), dtype="int32"):
        return R.const([1], "int32")
""",
    label="graph.C13",
    source="a size in numbers does not wrap",
    rules="M4.1",
)
A.case(
    "agree",
    inputs={"x": [1, 2], "y": [3, 4]},
    expect={"output_0": [4, 6]},
    function="cast",
    source="by hand",
    rules="M4.2",
)
A.case(
    "differ",
    inputs={"x": [1, 2], "y": [3, 4, 5]},
    expect=A.trap("shape", says="3, expected 2, the value of n by axis 0 of parameter 'x'"),
    function="cast",
    source="the message names the symbol, both values and both places",
    rules="M4.2",
)
A.case(
    "inputs_differ",
    inputs={"x": [1, 2], "y": [3, 4, 5]},
    expect=A.invalid("input.C4"),
    function="same",
    source="inputs are looked at before anything runs",
    rules="M4.2",
)
A.case(
    "larger_expression_differs",
    inputs={"x": [1, 2], "y": [3, 4, 5]},
    expect=A.invalid("input.C4"),
    source="3 is not 2 * 2",
    rules="M4.2",
)
A.case(
    "result_as_declared",
    inputs={"x": [1, 2], "y": [3, 4]},
    expect={"output_0": [3, 4]},
    function="declared",
    source="by hand",
    rules="M4.3",
)
A.case(
    "result_not_as_declared",
    inputs={"x": [1, 2], "y": [3]},
    expect=A.trap("shape", says="axis 0 of result is 1, expected 2"),
    function="declared",
    source="the value on return is compared",
    rules="M4.3",
)
A.refused(
    "declared_otherwise",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((3,), dtype="int32"):
        return x
""",
    label="func.C1",
    source="an annotation is never replaced",
    rules="M4.3",
)
A.case(
    "shown_to_be_1",
    inputs={"x": [1, 2], "y": [3]},
    expect={"output_0": [4, 5]},
    function="stretched",
    source="the match-cast shows that the size is 1",
    rules="M4.4",
)
A.case(
    "not_1",
    inputs={"x": [1, 2], "y": [3, 4]},
    expect=A.trap("shape"),
    function="stretched",
    source="NumPy would add the two",
    rules="M4.4",
)
A.refused(
    "not_shown",
    """
n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="int32"), y: R.Tensor((m,), dtype="int32")) -> R.Tensor((n,), dtype="int32"):
        return R.add(x, y)
""",
    label="broadcast.C1",
    source="operators want equal sizes to be shown",
    rules="M4.4",
)
A.case(
    "no_elements",
    inputs={"x": []},
    expect={"output_0": 0},
    function="total",
    source="a sum begins with 0",
    rules="M4.5",
)
A.case(
    "no_elements_and_not_0",
    inputs={"x": []},
    expect=A.wrong({"output_0": 1}),
    function="total",
    source="Relax once returned memory that nothing had written (apache/tvm#19578)",
    rules="M4.5",
)
A.refused(
    "greatest_of_none",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((0,), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return R.max(x, axis=[0])
""",
    label="max.C3",
    source="there is none; NumPy raises",
    rules="M4.5",
)
A.case(
    "each_call_its_own",
    inputs={"x": [1], "s": [2], "t": [3]},
    expect={"output_0": [1, 1], "output_1": [1, 1, 1]},
    function="two_calls",
    source="by hand",
    rules="M4.6",
)
A.case(
    "not_one_size",
    inputs={"x": [1], "s": [2], "t": [3]},
    expect=A.trap("shape"),
    function="two_calls_of_one_size",
    source="the second call has a size of its own",
    rules="M4.6",
)
A.case(
    "size_with_a_name",
    inputs={"x": [1, 2, 3], "s": [4]},
    expect={"output_0": [1, 1, 1, 1]},
    function="said",
    source="a statement gives n + 1 its value",
    rules="M4.7",
)
A.case(
    "size_without_a_name",
    inputs={"x": [1, 2]},
    expect=A.trap("shape", says="[size.T2]"),
    function="unsaid",
    source="no statement gives n + 1 a value",
    rules="M4.7",
)
A.case(
    "sizes_from_a_tensor",
    inputs={"x": [], "s": [2, 3]},
    expect={"output_0": [[1, 1, 1], [1, 1, 1]]},
    function="shaped",
    source="by hand",
    rules="M4.8",
)
A.case(
    "negative_size",
    inputs={"x": [1], "s": [-2]},
    expect=A.trap("shape", says="[size.T1]"),
    function="firsts",
    source="-2 is no size",
    rules="M4.8",
)
