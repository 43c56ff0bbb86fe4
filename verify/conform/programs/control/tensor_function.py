"""What is never written, and what is read outside (specs/semantics.md, "M6 Tensor IR")."""


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((T.int64(4),), "int32"), i: T.Buffer((T.int64(2),), "int32"), y: T.Buffer((T.int64(2),), "int32")
    ):
        for k in range(T.int64(2)):
            if x[i[k]] != 0:
                y[k] = x[i[k]]


A.case("taken", inputs={"x": [5, 6, 7, 8], "i": [3, 0]}, expect={"y": [8, 5]}, source="by hand")
A.case(
    "outside",
    inputs={"x": [5, 6, 7, 8], "i": [3, 4]},
    expect=A.trap("out of bounds"),
    source="M6: 4 is outside of 4 elements",
)
A.case(
    "left_out",
    inputs={"x": [5, 0, 7, 8], "i": [0, 1]},
    expect=A.trap("unwritten output"),
    source="M6: nothing writes y[1]",
)
