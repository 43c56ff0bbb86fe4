"""Tensor functions: loops, indices, allocations, calls (specs/semantics.md, "M6 Tensor IR")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((n,), "int32"), y: T.Buffer((n,), "int32"), k: T.int32, o: T.Buffer((n,), "int32")):
        for i in range(n):
            o[i] = x[i] * k + y[i]

    @T.prim_func(s_tir=True)
    def running(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        o[0] = x[0]
        for i in range(1, T.int64(4)):
            o[i] = o[i - 1] * 2 + x[i]

    @T.prim_func(s_tir=True)
    def unrolled(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        for i in T.unroll(T.int64(4)):
            o[i] = x[i] + 1

    @T.prim_func(s_tir=True)
    def parallel(x: T.Buffer((T.int64(4),), "int64"), o: T.Buffer((T.int64(4),), "int64")):
        for i in range(T.int64(4)):
            o[i] = T.int64(0)
        for i in T.parallel(T.int64(4)):
            o[x[i]] = T.int64(7)

    @T.prim_func(s_tir=True)
    def lanes(x: T.Buffer((T.int64(4),), "int64"), o: T.Buffer((T.int64(4),), "int64")):
        for i in range(T.int64(4)):
            o[i] = T.int64(i)
        for i in T.vectorized(T.int64(3)):
            o[i + 1] = o[i + 1 - x[0]] + T.int64(10)

    @T.prim_func(s_tir=True)
    def scratch(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        t = T.alloc_buffer((T.int64(2),), "int32")
        for i in range(T.int64(2)):
            if x[i] != 0:
                t[i] = x[i] * 2
        for i in range(T.int64(2)):
            o[i] = t[i]

    @T.prim_func(s_tir=True)
    def corner(i: T.int64, j: T.int64, o: T.Buffer((T.int64(2), T.int64(3)), "int32")):
        for a, b in T.grid(T.int64(2), T.int64(3)):
            o[a, b] = 0
        o[i, j] = 1

    @T.prim_func(s_tir=True)
    def sum_of(x: T.Buffer((n,), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        o[0] = 0
        for i in range(n):
            o[0] = o[0] + x[i]

    @T.prim_func(s_tir=True)
    def sum_from_the_first(x: T.Buffer((n,), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        for i in range(n):
            if i == 0:
                o[0] = 0
            o[0] = o[0] + x[i]

    @T.prim_func(s_tir=True)
    def narrow_index(x: T.Buffer((T.int64(4),), "int32"), k: T.int8, o: T.Buffer((T.int64(1),), "int32")):
        o[0] = x[k + T.int8(100) - T.int8(100)]

    @T.prim_func(s_tir=True)
    def narrow_sum(x: T.Buffer((T.int64(4),), "int32"), k: T.int8, o: T.Buffer((T.int64(1),), "int32")):
        o[0] = x[k + T.int8(127)]

    @T.prim_func(s_tir=True)
    def advised(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        for i in T.serial(T.int64(4), annotations={"pragma_unroll_explicit": 1}):
            o[i] = x[i] + 1

    @T.prim_func(s_tir=True)
    def caller(x: T.Buffer((T.int64(3),), "int32"), o: T.Buffer((T.int64(3),), "int32")):
        T.func_attr({"num_outputs": 1})
        cls.callee(x.data, o.data)

    @T.prim_func(s_tir=True)
    def callee(a: T.Buffer((n,), "int32"), b: T.Buffer((n,), "int32")):
        for i in range(n):
            b[i] = a[i] + 1

    @T.prim_func(s_tir=True)
    def caller_of_other_sizes(x: T.Buffer((n,), "int32"), o: T.Buffer((T.int64(3),), "int32")):
        T.func_attr({"num_outputs": 1})
        cls.callee(x.data, o.data)

    @T.prim_func(s_tir=True)
    def turned(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        for i in range(T.int64(4)):
            o[i] = x[i]
        o[0:4] = T.Shuffle([o[1], o[2], o[3], o[0]], [0, 1, 2, 3])

    @T.prim_func(s_tir=True)
    def told(x: T.Buffer((T.int64(1),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        assert x[0] > 0, ("shape", ["axis 0 is {}"], [x[0]])
        o[0] = x[0]

    @T.prim_func(s_tir=True)
    def two_of(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        o[0] = x[0] + x[1]

    @T.prim_func(s_tir=True)
    def hands_three(x: T.Buffer((T.int64(3),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        T.func_attr({"num_outputs": 1})
        cls.two_of(x.data, o.data)

    @T.prim_func(s_tir=True)
    def hands_one(x: T.Buffer((T.int64(1),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        T.func_attr({"num_outputs": 1})
        cls.two_of(x.data, o.data)

    @T.prim_func(s_tir=True)
    def calls_ten(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        T.func_attr({"num_outputs": 1})
        o[0] = T.call_extern("int32", "ten", x[0]) + 1

    @R.function
    def tenfold(k: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        return R.multiply(k, R.const(10, "int32"))

    @R.function
    def pair_of(k: R.Tensor((), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.const([1, 2], "int32")

    @T.prim_func(s_tir=True)
    def outside(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        T.func_attr({"num_outputs": 1})
        T.call_extern("int32", "f", x.data, o.data)

    @T.prim_func(s_tir=True)
    def doubled(a: T.Buffer((T.int64(2),), "int32"), b: T.Buffer((T.int64(2),), "int32")):
        for i in range(T.int64(2)):
            b[i] = a[i] * 2

    @R.function
    def graph_outside(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.call_tir(cls.outside, (x,), out_sinfo=R.Tensor((2,), dtype="int32"))


A.case(
    "sizes_and_scalars",
    inputs={"x": [1, 2], "y": [3, 4], "k": 10},
    expect={"o": [13, 24]},
    source="by hand",
    rules="M6.1",
)
A.case(
    "sizes_that_differ",
    inputs={"x": [1, 2], "y": [3, 4, 5], "k": 10},
    expect=A.invalid("argument.C3"),
    source="x says that n is 2",
    rules="M6.1",
)
A.case(
    "upwards",
    inputs={"x": [1, 1, 1, 1]},
    expect={"o": [1, 3, 7, 15]},
    function="running",
    source="by hand",
    rules="M6.2",
)
A.case(
    "downwards",
    inputs={"x": [1, 1, 1, 1]},
    expect=A.wrong({"o": [1, 1, 1, 1]}),
    function="running",
    source="what memory full of zeros gives where the loop runs from its end",
    rules="M6.2",
)
A.case(
    "unrolled",
    inputs={"x": [1, 2, 3, 4]},
    expect={"o": [2, 3, 4, 5]},
    function="unrolled",
    source="by hand",
    rules="M6.3",
)
A.case(
    "independent",
    inputs={"x": [3, 1, 0, 2]},
    expect={"o": [7, 7, 7, 7]},
    function="parallel",
    source="by hand",
    rules="M6.3",
)
A.case(
    "race",
    inputs={"x": [3, 1, 3, 2]},
    expect=A.trap("race"),
    function="parallel",
    source="two iterations write o[3], although they write the same",
    rules="M6.3",
)
A.case(
    "lanes_apart",
    inputs={"x": [0, 0, 0, 0]},
    expect={"o": [0, 11, 12, 13]},
    function="lanes",
    source="each lane reads what it writes",
    rules="M6.3",
)
A.case(
    "lanes_hand_on",
    inputs={"x": [1, 0, 0, 0]},
    expect=A.trap("carried dependence"),
    function="lanes",
    source="one after another gives 10, 20, 30, and at once 10, 11, 12",
    rules="M6.3",
)
A.case("written", inputs={"x": [1, 2]}, expect={"o": [2, 4]}, function="scratch", source="by hand", rules="M6.4")
A.case(
    "unwritten",
    inputs={"x": [1, 0]},
    expect=A.trap("unwritten read"),
    function="scratch",
    source="an allocation holds nothing at first; C99 reads what is there",
    rules="M6.4",
)
A.case(
    "inside",
    inputs={"i": 1, "j": 2},
    expect={"o": [[0, 0, 0], [0, 0, 1]]},
    function="corner",
    source="by hand",
    rules="M6.5",
)
A.case(
    "outside_of_a_dimension",
    inputs={"i": 0, "j": 3},
    expect=A.trap("out of bounds"),
    function="corner",
    source="the flat address 3 is inside of the buffer; TVM and C write o[1, 0] there",
    rules="M6.5",
)
A.case(
    "no_iterations",
    inputs={"x": []},
    expect={"o": [0]},
    function="sum_of",
    source="stored before the loop",
    rules="M6.6",
)
A.case(
    "nothing_stored_before",
    inputs={"x": []},
    expect=A.trap("unwritten output"),
    function="sum_from_the_first",
    source="the loop does nothing, so nothing begins (apache/tvm#19578)",
    rules="M6.6",
)
A.case(
    "narrow_index",
    inputs={"x": [5, 6, 7, 8], "k": 3},
    expect={"o": [8]},
    function="narrow_index",
    source="3 + 100 - 100 fits",
    rules="M6.7",
)
A.case(
    "narrow_sum_wraps",
    inputs={"x": [5, 6, 7, 8], "k": 3},
    expect=A.trap("out of bounds"),
    function="narrow_sum",
    source="3 + 127 is -126 in int8; C99 would promote to int and read x[130]",
    rules="M6.7",
)
A.case(
    "advised",
    inputs={"x": [1, 2, 3, 4]},
    expect={"o": [2, 3, 4, 5]},
    function="advised",
    source="as without the note",
    rules="M6.8",
)
A.same("advice_is_kept", "advised", "advised", source="an annotation is a part of the text", rules="M6.8")
A.case(
    "advice_that_means_something",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.wrong({"o": [2, 2, 2, 2]}),
    function="advised",
    source="what a loop that is unrolled without its variable gives",
    rules="M6.8",
)
A.case("call", inputs={"x": [1, 2, 3]}, expect={"o": [2, 3, 4]}, function="caller", source="by hand", rules="M6.13")
A.case(
    "call_of_another_size",
    inputs={"x": [1, 2]},
    expect=A.trap("shape"),
    function="caller_of_other_sizes",
    source="n is 2 by the first buffer and 3 by the second",
    rules="M6.13",
)
A.case(
    "lanes_first",
    inputs={"x": [1, 2, 3, 4]},
    expect={"o": [2, 3, 4, 1]},
    function="turned",
    source="all are read first",
    rules="M6.16",
)
A.case(
    "lanes_one_by_one",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.wrong({"o": [2, 3, 4, 2]}),
    function="turned",
    source="what storing each lane before the next is read gives",
    rules="M6.16",
)
A.case("holds", inputs={"x": [1]}, expect={"o": [1]}, function="told", source="by hand", rules="M6.17")
A.case(
    "fails",
    inputs={"x": [-5]},
    expect=A.trap("shape", says="axis 0 is -5"),
    function="told",
    source="the value is shown",
    rules="M6.17",
)
A.case(
    "more_than_it_takes",
    inputs={"x": [1, 2, 3]},
    expect={"o": [3]},
    function="hands_three",
    source="TVM hands over a pointer",
    rules="M6.18",
)
A.case(
    "fewer_than_it_takes",
    inputs={"x": [1]},
    expect=A.trap("shape"),
    function="hands_one",
    source="there is no second element",
    rules="M6.18",
)
A.refused(
    "call_that_cannot_fit",
    """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def half(x: T.Buffer((T.int64(2),), "float32"), o: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            o[i] = x[i] * T.float32(0.5)

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "float32")):
        T.func_attr({"num_outputs": 1})
        cls.half(x.data, o.data)
""",
    label="tensor.C16",
    source="its elements are of another type",
    rules="M6.13",
)
A.case(
    "number_of_an_extern",
    inputs={"x": [3, 4]},
    expect={"o": [31]},
    function="calls_ten",
    externs={"ten": "tenfold"},
    source="by hand: it is called before the statement, and its number is what stands there",
    rules="M6.19",
)
A.case(
    "no_number",
    inputs={"x": [3, 4]},
    expect=A.trap("shape", says="[call.T1]"),
    function="calls_ten",
    externs={"ten": "pair_of"},
    source="what it gives is no number",
    rules="M6.19",
)
A.refused(
    "extern_that_might_be_left_out",
    """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        T.func_attr({"num_outputs": 1})
        o[0] = T.if_then_else(x[0] > 0, T.call_extern("int32", "ten", x[0]), 0)
""",
    label="text.C7",
    source="whether it is called would hang on the choice",
    rules="M6.19",
)
A.case(
    "extern_is_given",
    inputs={"x": [1, 2]},
    expect={"output_0": [2, 4]},
    function="graph_outside",
    externs={"f": "doubled", "ten": "tenfold"},
    source="by hand",
    rules="M6.20",
)
A.case(
    "extern_is_missing",
    inputs={"x": [1, 2]},
    expect=A.invalid("extern.C1"),
    function="graph_outside",
    externs={"f": "doubled"},
    source="nobody gives ten, which another function of the module names; nothing calls it",
    rules="M6.20",
)
