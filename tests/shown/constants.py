"""Rows on constants, through commands."""

from __future__ import annotations

import numpy as np

from tests.shown.case import Shown
from tests.shown.sizes import with_inputs

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
BYTES = VIEWED.replace(
    'w_2 = T.decl_buffer((2, 2), "float32", data=w_1.data)', 'w_2 = T.decl_buffer((16,), "KIND", data=w)'
).replace("w_2[i // 2, i % 2]", 'T.Cast("float32", w_2[i + 2])')
"""A constant of floats that is seen as integers, too."""

EQUAL = """
    @T.prim_func(private=True)
    def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        c = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        v = T.decl_buffer((4,), data=c)
        for i in range(4):
            y[i] = x[i] * v[i]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.add(x, R.const([1.0, 2.0, 3.0, 4.0], "float32"))
        b = R.call_tir(Module.scale, (a,), out_ty=R.Tensor((4,), "float32"))
        return R.add(b, R.const([1.0, 2.0, 3.0, -4.0], "float32"))
"""
"""One constant in both functions, and one that differs in a sign."""

PACKED = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        w = R.const([[1, 2, 3], [4, 5, 6]], "int8")
        return R.matmul(x, R.astype(R.permute_dims(w), "float32"))
"""
TWO = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.multiply(R.add(x, R.const([1.0, 2.0, 3.0, 4.0], "float32")), R.const([5.0, 6.0, 7.0, 8.0], "float32"))
"""
FLASH = """
    A.infos({"w": [64, "", ["cpu", 0, "", "global.flash"]]})
    w = A.tensor("float32", (4,), "AACAPwAAAEAAAEBAAACAQA==")
    @T.prim_func(private=True)
    def total(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
        for i in range(4):
            c[i] = a[i] + b[i]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        return R.call_tir(cls.total, (x, cls.w), out_ty=R.Tensor((4,), "float32"))
"""
"""The constant is in a memory of its own, from which `total` does not read."""

NAMED = """
    w = A.tensor("float32", (4,), "AACAPwAAAEAAAEBAAACAQA==")
    @T.prim_func(private=True)
    def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        c = T.allocate_const(None, "float32", [4], index="w")
        v = T.decl_buffer((4,), data=c)
        for i in range(4):
            y[i] = x[i] * v[i]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        return R.add(R.call_tir(cls.scale, (x,), out_ty=R.Tensor((4,), "float32")), cls.w)
"""
NAMED_AND_GIVEN = with_inputs(NAMED, **{"in": {"x": np.ones(4, np.float32), "w": np.full(4, 7, np.float32)}})
"""Other contents for a constant of the table, wherever it is used."""
LINKED = """
    @T.prim_func(private=True)
    def plain(x: T.Buffer((4,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * w[i]
    @T.prim_func(private=True)
    def held(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1, "linked": {"function": "plain", "places": [1]}})
        c = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        w = T.decl_buffer((4,), data=c)
        for i in range(4):
            y[i] = x[i] * w[i]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(Module.held, (x,), out_ty=R.Tensor((4,), "float32"))
    @R.function
    def apart(x: R.Tensor((4,), "float32")):
        w = R.const([1.0, 2.0, 3.0, 4.0], "float32")
        return R.call_tir(Module.plain, (x, w), out_ty=R.Tensor((4,), "float32"))
"""
"""`held` is `plain` with a constant linked into it."""

SHOWN: tuple[Shown, ...] = (
    Shown("C1 C2 C11", "check FILE.py", VIEWED, ("1 constant, 64 B", "compare tested .*C bit for bit the machine's")),
    Shown("C1", "check FILE.py", BYTES.replace("KIND", "uint8"), ("compare tested .*C bit for bit the machine's",)),
    Shown(
        "C1",
        "check FILE.py",
        BYTES.replace("KIND", "int16").replace("(16,)", "(8,)"),
        ("compare tested .*C bit for bit the machine's",),
    ),
    Shown(
        "C2",
        "run FILE.py",
        VIEWED.replace("y[i] = x[i] * w_1[i] +", "w_1[i] = x[i]\n            y[i] ="),
        (r"w is a constant, and is written through w_1: .*\[tensor\.C26\]",),
        code=2,
    ),
    Shown(
        "C5 C13",
        "check FILE.py --stop-after constants --dump DIR",
        EQUAL,
        ("constants proved .*; 2 constants, 128 B;",),
        files={
            "06-constants.py": (
                r"(?s)A\.offsets\(.\"(constant_\w+)\": 0, \"(constant_\w+)\": 64.\)\n +\1 = A\.tensor\([^\n]*\n +\2 ="
                r" A\.tensor\([^\n]*\n +@T.*def scale.*index=\"\1\".*cls\.add, \(x, cls\.\1\).*cls\.add, \(b, cls\.\2\)"
            )
        },
    ),
    Shown(
        "C6 C13",
        "check FILE.py --stop-after constants --dump DIR",
        PACKED,
        ("constants proved .*3 to 1 call; 1 constant, 64 B",),
        files={
            "06-constants.py": (
                r"(?s)A\.tensor\(\"float32\", \(3, 2\), \"AACAPwAAgEAAAABAAACgQAAAQEAAAMBA\"\)\n.*cls\.matmul, \(x,"
                r" cls\.constant_"
            )
        },
    ),
    Shown(
        "C7 C9",
        "build FILE.py -o DIR --constant-pools fast@.fast=64,slow --dump DIR/../stages\nverify DIR",
        TWO,
        (r"workspace 0, fast 16, slow 16;.*no two of 2 live buffers share a byte", "certificate checked"),
        files={
            "FILE.c": (
                r"(?s)FILE_ALIGNED\(64\) FILE_SECTION\(\"\.fast\"\) static const struct FILE_pool_fast_contents"
                r" FILE_pool_fast = \{\n.*FILE_ALIGNED\(64\) static const struct FILE_pool_slow_contents FILE_pool_slow"
                r" = \{\n.*offsetof\("
            )
        },
    ),
    Shown(
        "C7",
        "check FILE.py --stop-after pool --constant-pools fast=32",
        TWO,
        (
            (
                r"does not fit: buffer constant_\w+ \(the constant table\), 16 bytes, beside the others in fast \(32"
                r" bytes\); a limit of 80 bytes for fast would be enough, .*\[memory\.C7\]"
            ),
        ),
        code=2,
    ),
    Shown(
        "C8",
        "build FILE.py -o DIR --constant-pools xip@cpu:0/global.flash",
        FLASH,
        ("1 copy;", "xip 16", "compare tested"),
        files={
            "FILE.c": r"ASSAY_SCOPE_GLOBAL_FLASH static const struct FILE_pool_xip_contents FILE_pool_xip",
            "FILE.h": (
                r"(?s)0  device_copy \(device_copy\) w -> (\w+).* 1  total x, \1 -> output_0\n.*#ifdef"
                r" FILE_EXTERNAL_DEVICE_COPY\n"
            ),
        },
    ),
    Shown(
        "C9 C10 C14",
        "run FILE.py --text -o DIR/read.py\nrun FILE.py\nrun DIR/read.py\nbuild DIR/read.py -o DIR/built\nverify"
        " DIR/built",
        NAMED,
        (r"output_0: \S+ \S+ (\w+) .*output_0: \S+ \S+ \1 ", "1 constant, 64 B", "certificate checked"),
        files={
            "read.py": r"w = A\.tensor\(\"float32\", \(4,\), \"AACAPwAAAEAAAEBAAACAQA==\"\)\n",
            "built/read.c": r"READ_ALIGNED\(64\) static const float read_c_w\[4\] = \{\n +1\.0f, 2\.0f, 3\.0f, 4\.0f\n",
        },
    ),
    Shown(
        "C14 C1",
        "run FILE.py",
        NAMED.replace('index="w"', 'index="u"'),
        (r"c is the constant u, which is not in the module's table \[module\.C7\]",),
        code=2,
    ),
    Shown("C14 C4", "run FILE.py --inputs in.npz", NAMED_AND_GIVEN, (r"\[14., 14., 14., 14.\]",)),
    Shown("C14", "run FILE.py", NAMED.replace("cls.w", "cls.u"), (r"the module has no u; it has w, scale",), code=2),
    Shown(
        "C15",
        "run FILE.py\nrun FILE.py --function apart\ncheck FILE.py",
        LINKED,
        (r"output_0: \S+ \S+ (\w+) .*output_0: \S+ \S+ \1 ", "compare tested .*C bit for bit the machine's"),
    ),
    Shown(
        "C15",
        "run FILE.py",
        LINKED.replace("[1]}", "[2, 1]}"),
        (r"held says that its inputs 2, 1 are the constants around its body, and has 1 there \[link\.C2\]",),
        code=2,
    ),
)
