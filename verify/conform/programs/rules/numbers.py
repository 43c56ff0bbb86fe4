"""Numbers of a fixed width (specs/semantics.md, "M5 Scalars"). What is planted here is what other systems give."""


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((T.int64(2),), "int8"), y: T.Buffer((T.int64(2),), "int8"), z: T.Buffer((T.int64(2),), "int8")
    ):
        for i in range(T.int64(2)):
            z[i] = x[i] + y[i]

    @R.function
    def four_bits(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float4_e2m1fn"):
        return R.astype(x, dtype="float4_e2m1fn")

    @T.prim_func(s_tir=True)
    def quotients(
        x: T.Buffer((T.int64(2),), "int32"),
        y: T.Buffer((T.int64(2),), "int32"),
        down: T.Buffer((T.int64(2),), "int32"),
        zero: T.Buffer((T.int64(2),), "int32"),
    ):
        T.func_attr({"num_outputs": 2})
        for i in range(T.int64(2)):
            down[i] = x[i] // y[i]
            zero[i] = T.truncdiv(x[i], y[i])

    @T.prim_func(s_tir=True)
    def remainders(
        x: T.Buffer((T.int64(2),), "int32"),
        y: T.Buffer((T.int64(2),), "int32"),
        down: T.Buffer((T.int64(2),), "int32"),
        zero: T.Buffer((T.int64(2),), "int32"),
    ):
        T.func_attr({"num_outputs": 2})
        for i in range(T.int64(2)):
            down[i] = x[i] % y[i]
            zero[i] = T.truncmod(x[i], y[i])

    @T.prim_func(s_tir=True)
    def right_shift(
        x: T.Buffer((T.int64(1),), "int32"), y: T.Buffer((T.int64(1),), "int32"), z: T.Buffer((T.int64(1),), "int32")
    ):
        z[0] = T.shift_right(x[0], y[0])

    @T.prim_func(s_tir=True)
    def product(
        x: T.Buffer((T.int64(2),), "float32"),
        y: T.Buffer((T.int64(2),), "float32"),
        z: T.Buffer((T.int64(2),), "float32"),
    ):
        for i in range(T.int64(2)):
            z[i] = x[i] * y[i]

    @T.prim_func(s_tir=True)
    def multiply_add(
        x: T.Buffer((T.int64(1),), "float32"),
        y: T.Buffer((T.int64(1),), "float32"),
        c: T.Buffer((T.int64(1),), "float32"),
        two: T.Buffer((T.int64(1),), "float32"),
        one: T.Buffer((T.int64(1),), "float32"),
    ):
        T.func_attr({"num_outputs": 2})
        two[0] = x[0] * y[0] + c[0]
        one[0] = T.fma(x[0], y[0], c[0])

    @T.prim_func(s_tir=True)
    def ends(
        x: T.Buffer((T.int64(2),), "float32"),
        y: T.Buffer((T.int64(2),), "float32"),
        most: T.Buffer((T.int64(2),), "float32"),
        least: T.Buffer((T.int64(2),), "float32"),
    ):
        T.func_attr({"num_outputs": 2})
        for i in range(T.int64(2)):
            most[i] = T.max(x[i], y[i])
            least[i] = T.min(x[i], y[i])

    @T.prim_func(s_tir=True)
    def to_int8(x: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "int8")):
        for i in range(T.int64(2)):
            z[i] = T.Cast("int8", x[i])

    @T.prim_func(s_tir=True)
    def narrowed(x: T.Buffer((T.int64(2),), "int32"), z: T.Buffer((T.int64(2),), "int8")):
        for i in range(T.int64(2)):
            z[i] = T.Cast("int8", x[i])

    @T.prim_func(s_tir=True)
    def to_bool(x: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "bool")):
        for i in range(T.int64(2)):
            z[i] = T.Cast("bool", x[i])

    @T.prim_func(s_tir=True)
    def strict(
        x: T.Buffer((T.int64(1),), "int32"), y: T.Buffer((T.int64(1),), "int32"), z: T.Buffer((T.int64(1),), "int32")
    ):
        z[0] = T.Select(T.likely(y[0] != 0), x[0] // y[0], 0)

    @T.prim_func(s_tir=True)
    def lazy(
        x: T.Buffer((T.int64(1),), "int32"), y: T.Buffer((T.int64(1),), "int32"), z: T.Buffer((T.int64(1),), "int32")
    ):
        z[0] = T.if_then_else(y[0] != 0, x[0] // y[0], 0)

    @T.prim_func(s_tir=True)
    def float_remainder(
        x: T.Buffer((T.int64(4),), "float32"),
        y: T.Buffer((T.int64(4),), "float32"),
        z: T.Buffer((T.int64(4),), "float32"),
    ):
        for i in range(T.int64(4)):
            z[i] = T.fmod(x[i], y[i])

    @T.prim_func(s_tir=True)
    def bits(x: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "int32")):
        for i in range(T.int64(2)):
            z[i] = T.reinterpret("int32", x[i])

    @T.prim_func(s_tir=True)
    def rounded(x: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            z[i] = T.round(x[i])


A.case(
    "no_nan_no_infinity",
    inputs={"x": [7.0, -inf, 0.25, 1.0]},
    expect={"output_0": [6.0, -6.0, 0.0, 1.0]},
    function="four_bits",
    meaning=True,
    source="too large becomes 6; a quarter is halfway between 0 and 0.5, and 0 is even",
    rules="M5.1",
)
A.refused(
    "no_such_type",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="int7")) -> R.Tensor((2,), dtype="int7"):
        return x
""",
    label="dtype.C1",
    source="there is no int7",
    rules="M5.1",
)
A.case("wraps", inputs={"x": [127, -128], "y": [1, -1]}, expect={"z": [-128, 127]}, source="modulo 256", rules="M5.2")
A.case(
    "saturates",
    inputs={"x": [127, -128], "y": [1, -1]},
    expect=A.wrong({"z": [127, -128]}),
    source="what a saturating processor gives; C99 6.5: undefined for signed integers",
    rules="M5.2",
)
A.case(
    "two_quotients",
    inputs={"x": [-7, A.min], "y": [2, -1]},
    expect={"down": [-4, A.min], "zero": [-3, A.min]},
    function="quotients",
    source="by hand; NumPy's // is the first, C99's / the second. The least by -1 wraps",
    rules="M5.3",
)
A.case(
    "two_remainders",
    inputs={"x": [-7, 7], "y": [2, -2]},
    expect={"down": [1, -1], "zero": [-1, 1]},
    function="remainders",
    source="NumPy's % is the first, C99's the second",
    rules="M5.3",
)
A.case(
    "one_quotient_for_both",
    inputs={"x": [-7, 7], "y": [2, 2]},
    expect=A.wrong({"down": [-3, 3], "zero": [-3, 3]}),
    function="quotients",
    source="C99 6.5.5 has the quotient to zero alone",
    rules="M5.3",
)
A.case(
    "by_zero",
    inputs={"x": [1, 1], "y": [1, 0]},
    expect=A.trap("division by zero", says="[scalar.T1]"),
    function="quotients",
    source="NumPy gives 0 with a warning, ONNX says nothing, C99 leaves it undefined",
    rules="M5.3",
)
A.case(
    "arithmetic_shift",
    inputs={"x": [-8], "y": [1]},
    expect={"z": [-4]},
    function="right_shift",
    source="by hand",
    rules="M5.4",
)
A.case(
    "shift_by_the_width",
    inputs={"x": [-8], "y": [32]},
    expect=A.trap("shift"),
    function="right_shift",
    source="NumPy gives -1, x86 shifts by 0, C99 leaves it undefined",
    rules="M5.4",
)
A.case(
    "subnormal_is_kept",
    inputs={"x": [A.normal, -0.0], "y": [0.5, 1.0]},
    expect={"z": ["0x1p-127", -0.0]},
    function="product",
    source="by hand",
    rules="M5.5",
)
A.case(
    "subnormal_is_flushed",
    inputs={"x": [A.normal, -0.0], "y": [0.5, 1.0]},
    expect=A.wrong({"z": [0.0, -0.0]}),
    function="product",
    source="what a processor gives that flushes subnormals",
    rules="M5.5",
)
A.case(
    "zero_without_a_sign",
    inputs={"x": [1.0, -0.0], "y": [1.0, 1.0]},
    expect=A.wrong({"z": [1.0, 0.0]}),
    function="product",
    source="bit for bit, zeros have a sign",
    rules="M5.5",
)
A.case(
    "nan_wins",
    inputs={"x": [1.0, 0.0], "y": [nan, -0.0]},
    expect={"most": [nan, 0.0], "least": [nan, -0.0]},
    function="ends",
    source="NumPy's maximum; -0 is below +0",
    rules="M5.6",
)
A.case(
    "number_wins",
    inputs={"x": [1.0, 0.0], "y": [nan, -0.0]},
    expect=A.wrong({"most": [1.0, 0.0], "least": [1.0, -0.0]}),
    function="ends",
    source="fmax and fmin of C99 7.12.12",
    rules="M5.6",
)
A.case(
    "cast_truncates",
    inputs={"x": [127.9, -128.9]},
    expect={"z": [127, -128]},
    function="to_int8",
    source="C99 6.3.1.4",
    rules="M5.7",
)
A.case(
    "cast_out_of_range",
    inputs={"x": [1.0, 128.0]},
    expect=A.trap("cast"),
    function="to_int8",
    source="undefined in C99 6.3.1.4; NumPy gives what the processor gives",
    rules="M5.7",
)
A.case(
    "cast_of_nan", inputs={"x": [nan, 1.0]}, expect=A.trap("cast"), function="to_int8", source="as above", rules="M5.7"
)
A.case(
    "integers_wrap",
    inputs={"x": [300, -129]},
    expect={"z": [44, 127]},
    function="narrowed",
    source="modulo 256",
    rules="M5.7",
)
A.case(
    "bools_are_two",
    inputs={"x": [0.5, -0.0]},
    expect={"z": [True, False]},
    function="to_bool",
    source="not 0 becomes true",
    rules="M5.7",
)
A.case(
    "lazy_choice",
    inputs={"x": [7], "y": [0]},
    expect={"z": [0]},
    function="lazy",
    source="one side is taken",
    rules="M5.8",
)
A.case(
    "strict_choice",
    inputs={"x": [7], "y": [0]},
    expect=A.trap("division by zero"),
    function="strict",
    source="all of its operands are evaluated",
    rules="M5.8",
)
A.case(
    "remainder_of_floats",
    inputs={"x": [-5.5, 5.5, 1.0, inf], "y": [2.0, -2.0, 0.0, 2.0]},
    expect={"z": [-1.5, 1.5, nan, nan]},
    function="float_remainder",
    source="C99 7.12.10.1",
    rules="M5.9",
)
A.case(
    "remainder_of_pythons_sign",
    inputs={"x": [-5.5, 5.5, 1.0, inf], "y": [2.0, -2.0, 0.0, 2.0]},
    expect=A.wrong({"z": [0.5, -0.5, nan, nan]}),
    function="float_remainder",
    source="Python's % has the divisor's sign",
    rules="M5.9",
)
A.case(
    "fused_and_not",
    inputs={"x": ["0x1.001p0"], "y": ["0x1.001p0"], "c": [-1.0]},
    expect={"two": ["0x1p-11"], "one": ["0x1.0008p-11"]},
    function="multiply_add",
    source="(1 + e)**2 - 1 = 2 e + e**2 for e = 2**-12, of which the product loses e**2",
    rules="M5.10 M5.5 M10.2",
)
A.case(
    "contracted",
    inputs={"x": ["0x1.001p0"], "y": ["0x1.001p0"], "c": [-1.0]},
    expect=A.wrong({"two": ["0x1.0008p-11"], "one": ["0x1.0008p-11"]}),
    function="multiply_add",
    source="what gcc gives outside of -std=c99, and clang within an expression",
    rules="M5.10 M10.2",
)
A.case(
    "bits_of_a_float",
    inputs={"x": [1.0, -0.0]},
    expect={"z": [1065353216, A.min]},
    function="bits",
    source="IEEE 754",
    rules="M5.11",
)
A.refused(
    "bits_of_another_width",
    """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "int64")):
        for i in range(T.int64(2)):
            z[i] = T.reinterpret("int64", x[i])
""",
    label="text.C6",
    source="32 bits are not 64",
    rules="M5.11",
)
A.case(
    "ties_to_even",
    inputs={"x": [2.5, 3.5]},
    expect={"z": [2.0, 4.0]},
    function="rounded",
    source="IEEE 754, 4.3.1",
    rules="M5.5",
)
A.case(
    "ties_away_from_zero",
    inputs={"x": [2.5, 3.5]},
    expect=A.wrong({"z": [3.0, 4.0]}),
    function="rounded",
    source="round of C99 7.12.9.6",
    rules="M5.5",
)
