"""What correct implementations may differ by (specs/semantics.md, "M9 Numbers"), and may not."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        return R.sum(x, axis=[0])

    @R.function
    def exponential(x: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="float32"):
        return R.exp(x)

    @R.function
    def product(x: R.Tensor((1,), dtype="float32"), y: R.Tensor((1,), dtype="float32")) -> R.Tensor(
        (1,), dtype="float32"
    ):
        return R.multiply(x, y)

    @R.function
    def decision(x: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="int32"):
        return R.astype(R.floor(R.exp(x)), dtype="int32")

    @R.function
    def branch(x: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="int32"):
        if R.greater_equal(R.exp(x), R.const(2.7182817, "float32")):
            r = R.const(1, "int32")
        else:
            r = R.const(0, "int32")
        return r

    @R.function
    def integers(x: R.Tensor((3,), dtype="int32")) -> R.Tensor((3,), dtype="int32"):
        return R.flip(A.cumsum(x, axis=0), axis=0)

    @R.function
    def narrowed(x: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="float16"):
        return R.astype(x, dtype="float16")

    @R.function
    def difference(x: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="float32"):
        e = R.exp(x)
        return R.subtract(e, e)

    @R.function
    def biased(
        x: R.Tensor((1, 2), dtype="float32"), w: R.Tensor((2, 1), dtype="float32"), b: R.Tensor((1,), dtype="float32")
    ) -> R.Tensor((1, 1), dtype="float32"):
        return R.add(R.matmul(x, w), b)

    @R.function
    def opened(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="int8"):
        return A.astype(x, dtype="int8", open=True)

    @R.function
    def dropped(x: R.Tensor((2,), dtype="float32"), c: R.Tensor((2,), dtype="bool")) -> R.Tensor((2,), dtype="int8"):
        return R.where(c, A.astype(x, dtype="int8", open=True), R.const([5, 5], "int8"))

    @R.function
    def near(x: R.Tensor((3,), dtype="float32"), i: R.Tensor((1,), dtype="int64")) -> R.Tensor((1,), dtype="float32"):
        return A.take(x, i, axis=0, near=1e-6)

    @R.function
    def wide(
        x: R.Tensor((1,), dtype="float16"), y: R.Tensor((1,), dtype="float16"), z: R.Tensor((1,), dtype="float16")
    ) -> R.Tensor((1,), dtype="float16"):
        return R.subtract(R.add(x, y), z)

    @R.function
    def exact(x: R.Tensor((1,), dtype="float32"), y: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="bool"):
        return R.less(R.add(x, y), R.const([3.0], "float32"))

    @R.function
    def read_twice(
        x: R.Tensor((1, 2), dtype="float32"), w: R.Tensor((2, 1), dtype="float32"), v: R.Tensor((2, 1), dtype="float32")
    ) -> R.Tensor((1, 1), dtype="float32"):
        with A.graph():
            e = R.exp(x)
            d = R.subtract(R.matmul(e, w), R.matmul(e, v))
        return d


A.case(
    "one_order",
    inputs={"x": [1.0, "0x1p-24", "0x1p-24", "0x1p-24"]},
    expect={"output_0": A.within(1.0)},
    source="from the left: each 2**-24 is lost, by ties to even",
    rules="M9.1 M9.2 M9.3",
)
A.case(
    "another_order",
    inputs={"x": [1.0, "0x1p-24", "0x1p-24", "0x1p-24"]},
    expect={"output_0": A.within("0x1.000004p0")},
    source="from the right: 3 * 2**-24 is added, and rounded up",
    rules="M9.1 M9.2",
)
A.case(
    "dropped_terms",
    inputs={"x": [1.0, 1.0, 1.0, 1.0]},
    expect=A.wrong({"output_0": 3.0}),
    source="a term is missing",
    rules="M9.1 M9.2 M9.3",
)
A.case(
    "four_units",
    inputs={"x": [1.0]},
    expect={"output_0": A.within(["0x1.5bf0acp1"])},
    function="exponential",
    source="e is 0x1.5bf0a8b1p1; two units in the last place above the nearest",
    rules="M9.2",
)
A.case(
    "nine_units",
    inputs={"x": [1.0]},
    expect=A.wrong({"output_0": ["0x1.5bf0bap1"]}),
    function="exponential",
    source="nine units in the last place off",
    rules="M9.2",
)
A.case(
    "flushed",
    inputs={"x": [A.normal], "y": [0.5]},
    expect=A.wrong({"output_0": [0.0]}),
    function="product",
    source="a correct implementation does not flush subnormals",
    rules="M9.2",
)
A.case(
    "decided", inputs={"x": [1.0]}, expect={"output_0": [2]}, function="decision", source="floor(e) is 2", rules="M9.4"
)
A.case(
    "not_decided",
    inputs={"x": 1.0},
    expect=A.unpredictable(),
    function="branch",
    source="exp(1) may be on either side",
    rules="M9.4",
)
A.case(
    "no_bound",
    inputs={"x": [1, 2, 3]},
    expect={"output_0": [6, 3, 1]},
    function="integers",
    source="by hand",
    rules="M9.5",
)
A.case(
    "off_by_one",
    inputs={"x": [1, 2, 3]},
    expect=A.wrong({"output_0": [6, 3, 2]}),
    function="integers",
    source="integers have no tolerance; numpy.allclose with atol=1 would take it",
    rules="M9.5",
)
A.case(
    "narrowed",
    inputs={"x": [1.0]},
    expect={"output_0": [1.0]},
    function="narrowed",
    source="float16 has 1",
    rules="M9.6",
)
A.case(
    "narrowed_down",
    inputs={"x": ["0x1.001p0"]},
    expect={"output_0": A.within([1.0])},
    function="narrowed",
    source="one of the two around it",
    rules="M9.6",
)
A.case(
    "narrowed_up",
    inputs={"x": ["0x1.001p0"]},
    expect={"output_0": A.within(["0x1.004p0"])},
    function="narrowed",
    source="the other one",
    rules="M9.6",
)
A.case(
    "narrowed_too_far",
    inputs={"x": ["0x1.001p0"]},
    expect=A.wrong({"output_0": ["0x1.008p0"]}),
    function="narrowed",
    source="neither of the two around it",
    rules="M9.6",
)
A.case(
    "itself", inputs={"x": [1.0]}, expect={"output_0": [0.0]}, function="difference", source="x - x is 0", rules="M9.7"
)
A.case(
    "not_itself",
    inputs={"x": [1.0]},
    expect=A.wrong({"output_0": [1e-7]}),
    function="difference",
    source="what two roundings of exp(1) may differ by",
    rules="M9.7",
)
A.case(
    "bias_last",
    inputs={"x": [[1.0, 1.0]], "w": [["0x1p-24"], ["0x1p-24"]], "b": [1.0]},
    expect={"output_0": A.within([["0x1.000002p0"]])},
    function="biased",
    source="2**-23 is added at last",
    rules="M9.8",
)
A.case(
    "bias_first",
    inputs={"x": [[1.0, 1.0]], "w": [["0x1p-24"], ["0x1p-24"]], "b": [1.0]},
    expect={"output_0": A.within([[1.0]])},
    function="biased",
    source="each 2**-24 is lost in an accumulator that holds 1",
    rules="M9.8",
)
A.case(
    "no_bias",
    inputs={"x": [[1.0, 1.0]], "w": [["0x1p-24"], ["0x1p-24"]], "b": [1.0]},
    expect=A.wrong({"output_0": [["0x1p-23"]]}),
    function="biased",
    source="the bias is missing",
    rules="M9.8",
)
A.case(
    "open_element",
    inputs={"x": [1.0, 300.0]},
    expect={"output_0": [1, A.open]},
    function="opened",
    source="ONNX, Cast: undefined for what the type cannot hold; nothing traps",
    rules="M9.9",
)
A.case(
    "open_elements_end",
    inputs={"x": [1.0, 300.0], "c": [True, False]},
    expect={"output_0": [1, 5]},
    function="dropped",
    source="a where drops the open element",
    rules="M9.9",
)
A.case(
    "beside_an_open_element",
    inputs={"x": [1.0, 300.0]},
    expect=A.wrong({"output_0": [2, 44]}),
    function="opened",
    source="the element beside it is judged as ever",
    rules="M9.9",
)
A.case(
    "near_enough",
    inputs={"x": [1.0, 2.0, 4.0], "i": [1]},
    expect={"output_0": A.within(["0x1.00001p1"])},
    function="near",
    source="a place may be off by a millionth of the axis, towards the neighbour",
    rules="M9.10",
)
A.case(
    "not_near",
    inputs={"x": [1.0, 2.0, 4.0], "i": [1]},
    expect=A.wrong({"output_0": [2.5]}),
    function="near",
    source="a quarter of the way to the neighbour",
    rules="M9.10",
)
A.case(
    "rounded_between",
    inputs={"x": [1.0], "y": [2048.0], "z": [1024.0]},
    expect={"output_0": A.within([1024.0])},
    function="wide",
    source="float16 has no 2049",
    rules="M9.11",
)
A.case(
    "kept_wider",
    inputs={"x": [1.0], "y": [2048.0], "z": [1024.0]},
    expect={"output_0": A.within([1025.0])},
    function="wide",
    source="float32 has it",
    rules="M9.11",
)
A.case(
    "kept_wider_and_lost",
    inputs={"x": [1.0], "y": [2048.0], "z": [1024.0]},
    expect=A.wrong({"output_0": [1032.0]}),
    function="wide",
    source="neither way of rounding gives it",
    rules="M9.11",
)
A.case(
    "exact_sum",
    inputs={"x": [1.0], "y": [1.5]},
    expect={"output_0": [True]},
    function="exact",
    source="2.5 has one value",
    rules="M9.12",
)
A.case(
    "exact_sum_on_the_edge",
    inputs={"x": [1.0], "y": [2.0]},
    expect=A.wrong({"output_0": [True]}),
    function="exact",
    source="3 is not less than 3, and the sum is exact",
    rules="M9.12",
)
A.case(
    "one_tensor_read_twice",
    inputs={"x": [[1.0, 1.0]], "w": [[1.0], [1.0]], "v": [["0x1.ffffcp-1"], ["0x1.ffffcp-1"]]},
    expect={"output_0": A.within([["0x1.5bf0a8p-17"]])},
    function="read_twice",
    source="2 e * 2**-19: what exp is off by is the same in both, and all but cancels",
    rules="M9.13",
)
A.case(
    "two_readings_apart",
    inputs={"x": [[1.0, 1.0]], "w": [[1.0], [1.0]], "v": [["0x1.ffffcp-1"], ["0x1.ffffcp-1"]]},
    expect=A.wrong({"output_0": [["0x1.68p-16"]]}),
    function="read_twice",
    source="within what the errors of exp of two evaluations might come to",
    rules="M9.13",
)
