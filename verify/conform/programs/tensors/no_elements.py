"""What is made of no elements: a mean, a maximum, a sum of two tensors (specs/semantics.md, "Questions")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((0,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        return R.mean(x, axis=[0])

    @R.function
    def greatest(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        return R.max(x, axis=[0])

    @R.function
    def stretched(x: R.Tensor((n,), dtype="float32"), y: R.Tensor((1,), dtype="float32")) -> R.Tensor(
        (n,), dtype="float32"
    ):
        return R.add(x, y)


A.case(
    "mean_of_nothing",
    inputs={"x": []},
    expect={"output_0": nan},
    meaning=True,
    source="0 / 0; ONNX ReduceMean leaves it open",
)
A.case(
    "greatest_of_one",
    inputs={"x": [-2.0]},
    expect={"output_0": -2.0},
    function="greatest",
    source="by hand",
)
A.case(
    "greatest_of_nothing",
    inputs={"x": []},
    expect=A.trap("shape"),
    function="greatest",
    source="there is none, which only the run tells",
)
A.case(
    "one_stretched_to_nothing",
    inputs={"x": [], "y": [1.0]},
    expect={"output_0": []},
    function="stretched",
    source="NumPy's rule: 1 and 0 give 0",
)
