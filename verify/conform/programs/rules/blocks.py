"""Tensor functions: blocks, views, scopes (specs/semantics.md, "M6 Tensor IR")."""

n = TypeVar("n")


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(2), T.int64(3)), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        for i, k in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("sums"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(x[vi, vk])
                T.writes(o[vi])
                with T.init():
                    o[vi] = 0
                o[vi] = o[vi] + x[vi, vk]

    @T.prim_func(s_tir=True)
    def beyond_the_domain(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                vi = T.axis.spatial(T.int64(3), i)
                T.where(x[i] != 0)
                o[vi] = x[vi]
        o[3] = 0

    @T.prim_func(s_tir=True)
    def some_of(x: T.Buffer((T.int64(4),), "int32"), o: T.Buffer((T.int64(4),), "int32")):
        for i in range(T.int64(4)):
            o[i] = -1
        for i in range(T.int64(8)):
            with T.sblock("b"):
                vi = T.axis.spatial(T.int64(4), i)
                T.where(i < 4)
                o[vi] = x[vi]

    @T.prim_func(s_tir=True)
    def sum_of(x: T.Buffer((n,), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        for k in range(n):
            with T.sblock("sum"):
                vk = T.axis.reduce(n, k)
                with T.init():
                    o[0] = 0
                o[0] = o[0] + x[vk]

    @T.prim_func(s_tir=True)
    def says_less(x: T.Buffer((T.int64(3),), "int64"), o: T.Buffer((T.int64(3),), "int64")):
        for i in range(T.int64(3)):
            with T.sblock("b"):
                vi = T.axis.spatial(T.int64(3), i)
                T.reads(x[vi])
                T.writes(o[vi])
                o[x[vi]] = vi

    @T.prim_func(s_tir=True)
    def window(x: T.Buffer((T.int64(6),), "int32"), k: T.int64, o: T.Buffer((T.int64(3),), "int32")):
        v = T.decl_buffer((T.int64(3),), "int32", data=x.data, elem_offset=k)
        for i in range(T.int64(3)):
            o[i] = v[i]

    @T.prim_func(s_tir=True)
    def strided(x: T.Buffer((T.int64(2), T.int64(2)), "int32", strides=[3, 1]), o: T.Buffer((T.int64(4),), "int32")):
        for i, j in T.grid(T.int64(2), T.int64(2)):
            o[i * 2 + j] = x[i, j]

    @T.prim_func(s_tir=True)
    def multiple(x: T.Buffer((T.int64(8),), "int32"), k: T.int64, o: T.Buffer((T.int64(2),), "int32")):
        v = T.decl_buffer((T.int64(2),), "int32", data=x.data, elem_offset=k, offset_factor=4)
        for i in range(T.int64(2)):
            o[i] = v[i]

    @T.prim_func(s_tir=True)
    def own_thread(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        for i in T.parallel(T.int64(2)):
            t = T.alloc_buffer((T.int64(1),), "int32", scope="local")
            t[0] = x[i]
            o[i] = t[0]

    @T.prim_func(s_tir=True)
    def other_thread(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        t = T.alloc_buffer((T.int64(2),), "int32", scope="local")
        for i in T.parallel(T.int64(2)):
            t[i] = x[i]
        for i in range(T.int64(2)):
            o[i] = t[i]

    @T.prim_func(s_tir=True)
    def vectors(x: T.Buffer((T.int64(2),), "int32x2"), k: T.int64, o: T.Buffer((T.int64(2),), "int32x2")):
        for i in range(T.int64(2)):
            o[i] = x[(i + k)]

    @T.prim_func(s_tir=True)
    def bytes_of(x: T.Buffer((T.int64(1),), "int32"), o: T.Buffer((T.int64(4),), "int8")):
        v = T.decl_buffer((T.int64(4),), "int8", data=x.data)
        for i in range(T.int64(4)):
            o[i] = v[i]

    @T.prim_func(s_tir=True)
    def half_written(x: T.Buffer((T.int64(1),), "int16"), k: T.int64, o: T.Buffer((T.int64(1),), "int32")):
        t = T.alloc_buffer((T.int64(1),), "int32")
        v = T.decl_buffer((T.int64(2),), "int16", data=t.data)
        v[0] = x[0]
        for i in range(k):
            v[i + 1] = T.int16(0)
        o[0] = t[0]

    @T.prim_func(s_tir=True)
    def bytes_as_bools(x: T.Buffer((T.int64(2),), "uint8"), o: T.Buffer((T.int64(2),), "int32")):
        v = T.decl_buffer((T.int64(2),), "bool", data=x.data)
        for i in range(T.int64(2)):
            o[i] = T.Select(v[i], 1, 0)

    @T.prim_func(s_tir=True)
    def open_scope(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        t = T.alloc_buffer((T.int64(2),), "int32", scope="")
        v = T.decl_buffer((T.int64(2),), "int32", data=t.data, scope="shared")
        for i in range(T.int64(2)):
            v[i] = x[i]
        for i in range(T.int64(2)):
            o[i] = t[i]

    @T.prim_func(s_tir=True)
    def other_scope(x: T.Buffer((T.int64(2),), "int32"), o: T.Buffer((T.int64(2),), "int32")):
        t = T.alloc_buffer((T.int64(2),), "int32", scope="shared")
        v = T.decl_buffer((T.int64(2),), "int32", data=t.data, scope="local")
        for i in range(T.int64(2)):
            v[i] = x[i]
        for i in range(T.int64(2)):
            o[i] = t[i]


A.case("sums", inputs={"x": [[1, 2, 3], [4, 5, 6]]}, expect={"o": [6, 15]}, source="by hand", rules="M6.10 M6.11")
A.case(
    "predicate",
    inputs={"x": [1, 2, 3, 4]},
    expect={"o": [1, 2, 3, 4]},
    function="some_of",
    source="where the predicate fails nothing else happens, whatever the iterator would be",
    rules="M6.9",
)
A.case(
    "outside_of_the_domain",
    inputs={"x": [1, 2, 3, 4]},
    expect=A.trap("assertion"),
    function="beyond_the_domain",
    source="3 is outside of 0 to 2; TVM lowers as if it could not be",
    rules="M6.9",
)
A.case("one_element", inputs={"x": [5]}, expect={"o": [5]}, function="sum_of", source="by hand", rules="M6.10")
A.case(
    "never_initialised",
    inputs={"x": []},
    expect=A.trap("unwritten output"),
    function="sum_of",
    source="init runs within the loop",
    rules="M6.10",
)
A.case(
    "as_declared",
    inputs={"x": [0, 1, 2]},
    expect={"o": [0, 1, 2]},
    function="says_less",
    source="by hand",
    rules="M6.11",
)
A.case(
    "not_declared",
    inputs={"x": [2, 1, 0]},
    expect=A.trap("undeclared access"),
    function="says_less",
    source="it says that it writes o[vi]",
    rules="M6.11",
)
A.case(
    "window",
    inputs={"x": [0, 1, 2, 3, 4, 5], "k": 3},
    expect={"o": [3, 4, 5]},
    function="window",
    source="by hand",
    rules="M6.12",
)
A.case(
    "beyond_the_source",
    inputs={"x": [0, 1, 2, 3, 4, 5], "k": 4},
    expect=A.trap("out of bounds"),
    function="window",
    source="the source has no element 6",
    rules="M6.12",
)
A.case(
    "strided_parameter",
    inputs={"x": [0, 1, 2, 3, 4]},
    expect={"o": [0, 1, 3, 4]},
    function="strided",
    source="the flat memory has (2 - 1) * 3 + (2 - 1) + 1 elements",
    rules="M6.12a",
)
A.case(
    "strided_parameter_of_dense_rows",
    inputs={"x": [0, 1, 2, 3, 4]},
    expect=A.wrong({"o": [0, 1, 2, 3]}),
    function="strided",
    source="what reading it as dense rows gives",
    rules="M6.12a",
)
A.case(
    "multiple_of_the_factor",
    inputs={"x": [0, 1, 2, 3, 4, 5, 6, 7], "k": 4},
    expect={"o": [4, 5]},
    function="multiple",
    source="by hand",
    rules="M6.14",
)
A.case(
    "no_multiple",
    inputs={"x": [0, 1, 2, 3, 4, 5, 6, 7], "k": 3},
    expect=A.trap("misaligned"),
    function="multiple",
    source="3 is no multiple of 4",
    rules="M6.14",
)
A.case("own_memory", inputs={"x": [1, 2]}, expect={"o": [1, 2]}, function="own_thread", source="by hand", rules="M6.15")
A.case(
    "memory_of_another_thread",
    inputs={"x": [1, 2]},
    expect=A.trap("wrong scope"),
    function="other_thread",
    source="local memory is one thread's",
    rules="M6.15",
)
A.case(
    "vectors",
    inputs={"x": [[1, 2], [3, 4]], "k": 0},
    expect={"o": [[1, 2], [3, 4]]},
    function="vectors",
    source="a vector is its lanes, one dimension more",
    rules="M6.21",
)
A.case(
    "vector_outside",
    inputs={"x": [[1, 2], [3, 4]], "k": 1},
    expect=A.trap("out of bounds"),
    function="vectors",
    source="there are two vectors",
    rules="M6.21",
)
A.case(
    "lowest_byte_first",
    inputs={"x": [67305985]},
    expect={"o": [1, 2, 3, 4]},
    function="bytes_of",
    source="0x04030201",
    rules="M6.22",
)
A.case(
    "highest_byte_first",
    inputs={"x": [67305985]},
    expect=A.wrong({"o": [4, 3, 2, 1]}),
    function="bytes_of",
    source="what C gives on a big-endian machine",
    rules="M6.22",
)
A.case(
    "written_in_halves",
    inputs={"x": [7], "k": 1},
    expect={"o": [7]},
    function="half_written",
    source="by hand",
    rules="M6.22",
)
A.case(
    "half_written",
    inputs={"x": [7], "k": 0},
    expect=A.trap("unwritten read"),
    function="half_written",
    source="nobody wrote the upper half",
    rules="M6.22",
)
A.case(
    "no_bool",
    inputs={"x": [1, 2]},
    expect=A.trap("cast"),
    function="bytes_as_bools",
    source="a byte of 2 is no bool",
    rules="M6.22",
)
A.case(
    "open_scope",
    inputs={"x": [1, 2]},
    expect={"o": [1, 2]},
    function="open_scope",
    source="an open scope agrees with all",
    rules="M6.23",
)
A.case(
    "two_scopes",
    inputs={"x": [1, 2]},
    expect=A.trap("wrong scope"),
    function="other_scope",
    source="the memory says shared, and the view of it local",
    rules="M6.23 M6.12",
)
