"""Memory as it will be: plans by hand, right and wrong (specs/semantics.md, "M7 Memory").

Where a case has offsets, these slots lie at these bytes of the pool; the planner places the others."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        a = A.cumsum(x, axis=0)
        b = A.cumsum(a, axis=0, reverse=True)
        c = R.concat((a, b), axis=0)
        d = A.cumsum(c, axis=0)
        return R.strided_slice(d, axes=[0], begin=[1], end=[5])

    @R.function
    def constants(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        a = A.cumsum(R.add(x, R.const([1, 2, 3, 4], "int32")), axis=0)
        return A.cumsum(R.multiply(a, R.const([5, 6, 7, 8], "int32")), axis=0)

    @T.prim_func(s_tir=True)
    def to_input(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        T.func_attr({"num_outputs": 1})
        for i in range(T.int64(2)):
            o[i] = 1
            if x[i] == 0:
                x[i] = 0


A.case(
    "apart",
    inputs={"x": [1, 2, 3, 4]},
    expect={"output_0": [4, 10, 20, 40]},
    offsets={"a": 64, "b": 128, "c": 0},
    source="by hand; nothing that is needed shares a byte",
    rules="M7.1 M7.2 M7.3 M7.4 M7.5",
)
A.case(
    "shared_with_what_is_over",
    inputs={"x": [1, 2, 3, 4]},
    expect={"output_0": [4, 10, 20, 40]},
    offsets={"a": 64, "b": 128, "c": 0, "d": 64},
    source="a is over where d begins",
    rules="M7.1",
)
A.case(
    "overwritten",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.trap("clobbered", says="a"),
    offsets={"a": 0, "b": 0},
    source="b is written over a, which is read again",
    rules="M7.1 M7.2 M7.5",
)
A.case(
    "overwritten_while_it_is_read",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.trap("clobbered"),
    offsets={"a": 0, "b": 64, "c": 64, "d": 0},
    source="c is written over b, which is read meanwhile",
    rules="M7.2",
)
A.case(
    "outside_of_the_pool",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.trap("out of bounds"),
    offsets={"a": 4096},
    source="the pool ends before",
    rules="M7.3",
)
A.case(
    "not_aligned",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.trap("misaligned"),
    offsets={"a": 66, "b": 16},
    source="66 is no multiple of 64",
    rules="M7.3",
)
A.case("not_stored_to", inputs={"x": [1, 2]}, expect={"o": [1, 1]}, function="to_input", source="by hand", rules="M7.4")
A.case(
    "store_to_an_input",
    inputs={"x": [1, 0]},
    expect=A.trap("store to constant"),
    function="to_input",
    source="x is read and never written, whatever is stored",
    rules="M7.4",
)
A.refused(
    "store_to_a_constant",
    """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(o: T.Buffer((T.int64(2),), "int32")):
        T.func_attr({"num_outputs": 1})
        w = T.allocate_const([1, 2], "int32", [2])
        W = T.decl_buffer((T.int64(2),), "int32", data=w)
        W[0] = 3
        for i in range(T.int64(2)):
            o[i] = W[i]
""",
    label="tensor.C26",
    source="a constant is read-only",
    rules="M7.4",
)
