"""An asserted condition that does not hold traps (specs/semantics.md, "Traps")."""


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((T.int64(3),), "int32"), y: T.Buffer((T.int64(3),), "int32")):
        for i in range(T.int64(3)):
            assert x[i] >= 0, ("RuntimeError", ["it is negative"])
            y[i] = x[i] * 2


A.case("holds", inputs={"x": [0, 1, 2]}, expect={"y": [0, 2, 4]}, source="by hand")
A.case("fails", inputs={"x": [0, -1, 2]}, expect=A.trap("assertion"), source="by hand: -1 is negative")
