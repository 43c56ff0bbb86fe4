"""The order of additions is a part of a kernel's meaning (specs/semantics.md, "M10 Reproducible").

The definition gives what stands here, bit for bit. `tests/verify/conform/test_rules.py` runs the same cases in C."""


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(4),), "float32"), o: T.Buffer((T.int64(1),), "float32")):
        o[0] = T.float32(0)
        for i in range(T.int64(4)):
            o[0] = o[0] + x[i]

    @T.prim_func(s_tir=True)
    def multiply_add(
        x: T.Buffer((T.int64(1),), "float32"),
        c: T.Buffer((T.int64(1),), "float32"),
        o: T.Buffer((T.int64(1),), "float32"),
    ):
        o[0] = x[0] * x[0] + c[0]

    @T.prim_func(s_tir=True)
    def exponential(x: T.Buffer((T.int64(2),), "float32"), o: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            o[i] = T.exp(x[i])

    @R.function
    def sum(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        return R.sum(x, axis=[0])


A.case(
    "one_after_another",
    inputs={"x": ["0x1p24", 1.0, 1.0, 1.0]},
    expect={"o": ["0x1p24"]},
    source="2**24 + 1 is halfway, and 2**24 is even; so it goes three times",
    rules="M10.1 M10.3",
)
A.case(
    "pairs_first",
    inputs={"x": ["0x1p24", 1.0, 1.0, 1.0]},
    expect=A.wrong({"o": ["0x1.000002p24"]}),
    source="(2**24 + 1) + (1 + 1): what a sum in pairs gives, as NumPy's of long axes",
    rules="M10.1 M10.3",
)
A.case(
    "two_roundings",
    inputs={"x": ["0x1.001p0"], "c": [-1.0]},
    expect={"o": ["0x1p-11"]},
    function="multiply_add",
    source="(1 + e)**2 - 1 = 2 e + e**2 for e = 2**-12, of which the product loses e**2",
    rules="M10.2",
)
A.case(
    "contracted",
    inputs={"x": ["0x1.001p0"], "c": [-1.0]},
    expect=A.wrong({"o": ["0x1.0008p-11"]}),
    function="multiply_add",
    source="what -ffp-contract=fast gives",
    rules="M10.2",
)
A.case(
    "program_of_exp",
    inputs={"x": [1.0, 0.5]},
    expect={"o": ["0x1.5bf0a8p1", "0x1.a61298p0"]},
    function="exponential",
    source="e and its root, rounded once: both digits are known to more than 24 bits",
    rules="M10.4",
)
A.case(
    "some_librarys_exp",
    inputs={"x": [1.0, 0.5]},
    expect=A.wrong({"o": ["0x1.5bf0aap1", "0x1.a61298p0"]}),
    function="exponential",
    source="one unit in the last place off: allowed by default, and not in the reproducible mode",
    rules="M10.4",
)
A.case(
    "an_operator_may_use_another_order",
    inputs={"x": ["0x1p24", 1.0, 1.0, 1.0]},
    expect={"output_0": A.within("0x1.000002p24")},
    function="sum",
    source="M9.2",
    rules="M10.5",
)
A.case(
    "no_order_gives_it",
    inputs={"x": ["0x1p24", 1.0, 1.0, 1.0]},
    expect=A.wrong({"output_0": "0x1.8p24"}),
    function="sum",
    source="half of the greatest element too much",
    rules="M10.5",
)
