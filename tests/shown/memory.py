"""Rows on memory planning, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

BRANCHES = """
    @R.function
    def main(x: R.Tensor((5,), "float32"), c: R.Tensor((3,), "int8")):
        a = R.nn.softmax(x)
        b = R.nn.softmax(a)
        e = R.negative(c)
        f = R.negative(e)
        return (R.add(a, b), R.add(e, f), R.negative(b))
"""
"""Small tensors of several widths, live together."""

GROWING = """
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((4,), "float32")):
        a = R.exp(x)
        f = R.reshape(a, shape=(8,))
        t = (f, y)
        b = R.concat((t[0], t[0], t[0]), axis=0)
        c = R.sum(R.reshape(b, shape=(3, 8)), axis=0)
        d = R.concat((c, c), axis=0)
        e = R.concat((d, t[1]), axis=0)
        return R.log(e)
"""
"""Tensors of 32, 96, 32, 64 and 80 bytes, each live with the next. Two tokens: a, c and e have one, which grows from 32
to 80 bytes; b and d the other, of 96. No plan is below 144. Reshapes and fields of a tuple are their operand."""

PACKED = r"pool proved .* at multiples of 64; bound"

SHOWN: tuple[Shown, ...] = (
    Shown(
        "U12",
        "build FILE.py -o DIR --skip fuse\nverify DIR",
        BRANCHES,
        (r"ratio 1\.000", "compare tested", "certificate checked"),
        files={"FILE.h": r"#define FILE_WORKSPACE_ALIGN 4u"},
    ),
    Shown(
        "U12",
        "check FILE.py --skip fuse --alignment 64",
        BRANCHES,
        (r"pool proved .* at multiples of 64; bound \d+, ratio [1-9]\.\d+", "compare tested"),
    ),
    Shown(
        "U12",
        "build FILE.py -o DIR --skip fuse --alignment 128 --pools fast=4096,slow",
        BRANCHES,
        (r"at multiples of 128|fast \d+", "compare tested"),
        files={"FILE.h": r"ALIGN 128u"},
    ),
    Shown(
        "U12",
        "build FILE.py -o DIR --skip fuse --interface c-packed",
        BRANCHES,
        (PACKED,),
        files={"FILE.h": r"WORKSPACE_ALIGN 64u"},
    ),
    Shown(
        "U12",
        "check FILE.py --alignment 48",
        BRANCHES,
        (r"--alignment is 48, and must be a power of two.*cli\.C5",),
        code=2,
    ),
    Shown("U12", "plan FILE.csv --alignment 32", "id,lower,upper,size\na,0,2,10\nb,1,3,10\n", (r"42 bytes",)),
    Shown(
        "U19",
        "check FILE.py --planner tokens --skip fuse",
        GROWING,
        (
            r"5 buffers, 304 B",
            r"pool proved .* 304 to 176 bytes; bound 144, .* no two of 5 live buffers share a byte",
            "compare tested",
        ),
    ),
    Shown(
        "U19",
        "plan FILE.csv --planner tokens -o DIR/out.csv",
        "id,lower,upper,size\na,0,2,32\nb,1,3,40\nc,2,4,48\nd,3,5,96\n",
        (r"workspace: 144 bytes for 4 buffers; 144 live at once", r"tokens in .*proved: z3"),
        files={"out.csv": r"(?s)a,.*,0\nb,.*,48\nc,.*,0\nd,.*,48\n"},
    ),
)
