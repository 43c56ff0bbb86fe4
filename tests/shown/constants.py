"""Rows on constants, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

VIEWED = """
    @T.prim_func(private=True)
    def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        w = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        w_1 = T.decl_buffer((4,), data=w)
        w_2 = T.decl_buffer((2, 2), "float32", data=w_1.data)
        for i in range(4):
            y[i] = x[i] * w_1[i] + w_2[i // 2, i % 2]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(Module.scale, (x,), out_ty=R.Tensor((4,), "float32"))
"""
BYTES = VIEWED.replace('w_2 = T.decl_buffer((2, 2), "float32", data=w_1.data)', 'w_2 = T.decl_buffer((16,), "KIND", data=w)').replace("w_2[i // 2, i % 2]", 'T.Cast("float32", w_2[i + 2])')
"""A constant of floats that is seen as integers, too."""

SHOWN: tuple[Shown, ...] = (
    Shown("C1 C2 C11", "check FILE.py", VIEWED, ("1 constant, 64 B", "compare tested .*C bit for bit the machine's")),
    Shown("C1", "check FILE.py", BYTES.replace("KIND", "uint8"), ("compare tested .*C bit for bit the machine's",)),
    Shown("C1", "check FILE.py", BYTES.replace("KIND", "int16").replace("(16,)", "(8,)"), ("compare tested .*C bit for bit the machine's",)),
    Shown("C2", "run FILE.py", VIEWED.replace("y[i] = x[i] * w_1[i] +", "w_1[i] = x[i]\n            y[i] ="), (r"w is a constant, and is written through w_1: .*\[tensor\.C26\]",), code=2),
)
