"""Rows on memory plans, through commands."""

from __future__ import annotations

import re

from tests.shown.case import Shown

TEMPORARY = """
    @T.prim_func(private=True)
    def fold(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        a = T.alloc_buffer((8,), "float32")
        b = T.alloc_buffer((8,), "float32")
        c = T.alloc_buffer((8,), "float32")
        for i in range(8):
            a[i] = x[7 - i]
        for i in range(8):
            b[i] = a[i] + a[7 - i]
        for i in range(8):
            c[i] = b[7 - i]
        for i in range(8):
            y[i] = c[i] * c[0]
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        p = R.call_tir(Module.fold, (x,), out_ty=R.Tensor((8,), "float32"))
        q = R.call_tir(Module.fold, (p,), out_ty=R.Tensor((8,), "float32"))
        return R.call_tir(Module.fold, (q,), out_ty=R.Tensor((8,), "float32"))
"""
"""A kernel with three buffers of its own, allocated at its head, of which two are needed at a time; called three
times."""

LOOPS = """
    @T.prim_func(private=True)
    def carried(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        a = T.alloc_buffer((4,), "float32")
        b = T.alloc_buffer((4,), "float32")
        for i in range(4):
            a[i] = x[i]
        for j in range(3):
            for i in range(4):
                b[i] = a[i] + x[i]
            for i in range(4):
                a[i] = b[i] * 0.5
        for i in range(4):
            y[i] = a[i]
    @T.prim_func(private=True)
    def beside(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in T.parallel(4):
            a = T.alloc_buffer((1,), "float32")
            b = T.alloc_buffer((1,), "float32")
            c = T.alloc_buffer((1,), "float32")
            a[0] = x[i]
            b[0] = a[0] + a[0]
            c[0] = b[0] + b[0]
            y[i] = c[0]
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        p = R.call_tir(Module.carried, (x,), out_ty=R.Tensor((4,), "float32"))
        return R.call_tir(Module.beside, (p,), out_ty=R.Tensor((4,), "float32"))
"""
"""In `carried`, a and b live all over the loop around j. In the parallel loop a, b and c are apart, though a serial one
would let a and c share bytes."""

BRANCH = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        a = R.nn.softmax(x)
        b = R.nn.softmax(a)
        if c:
            r = R.nn.softmax(R.add(a, b))
        else:
            r = R.nn.softmax(b)
        return R.add(r, x)
"""
"""What only the first arm reads, a, ends on the edge into the second; b has a gap behind its last use in the first."""

CHAIN = """
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        a = R.exp(x)
        b = R.nn.softmax(a)
        c = R.nn.softmax(R.add(b, a))
        return R.add(c, R.const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "float32"))
"""
CALLEE = """
    @R.function
    def f(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        c = R.nn.softmax(a)
        return (R.add(c, b), a)
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        p = R.exp(x)
        q = Module.f(p, p)
        r = Module.f(q[0], q[1])
        return R.add(r[0], r[1])
"""
"""p goes in under two names, and comes out under a third, which is read behind the second call."""

EXTERN = """
    @T.prim_func(private=True)
    def square(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        t = T.alloc_buffer((4,), "float32")
        Module.helper(x.data, t.data)
        T.call_packed("copyto", y, t)
    @T.prim_func(private=True)
    def helper(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i] * 0.0 + 3.0
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        p = R.call_tir(Module.square, (x,), out_ty=R.Tensor((4,), "float32"))
        return R.call_tir(Module.square, (p,), out_ty=R.Tensor((4,), "float32"))
"""
DEVICES = """
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        a = A.on_device(R.exp(x), "cuda", constrain_body=True, constrain_result=True)
        b = A.on_device(R.exp(a), "cuda", constrain_body=True, constrain_result=True)
        return A.on_device(R.add(R.exp(b), b), "cpu", constrain_body=True, constrain_result=True)
"""
WIDTHS = """
    @R.function
    def main(b: R.Tensor((3,), "bool"), c: R.Tensor((3,), "bfloat16"), d: R.Tensor((3,), "float64"), e: R.Tensor((0, \
3), "int16")):
        return (R.logical_not(R.logical_not(b)), R.abs(R.abs(c)), R.abs(R.abs(d)), R.negative(R.negative(e)))
"""
SYMBOLS = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        R.func_attr({"tir_var_upper_bound": {"n": 8}})
        return R.nn.softmax(R.nn.softmax(x))
"""
SAME = "id,lower,upper,size\na,0,2,10\nb,1,3,10\nc,2,4,20\n"
ROOM = "id,lower,upper,size,pool\na,0,2,10,a\nb,1,3,10,b\nc,1,3,25,\nd,1,3,5,\n"
SIZES = "id,lower,upper,size\na,0,2,4*n + 4\nb,1,3,4*n\nc,2,4,n*4 + 4\nd,2,4,64\n"
"""a and c are of one size, whatever n is."""

PLACED = "id,lower,upper,size,offset\na,0,2,4*n,0\nb,1,3,m,256\n"
BY_HAND = "id,lower,upper,size,offset\na,0,2,10,0\nb,1,3,10,10\nc,2,4,10,0\n"


def slot(name: str, live: str, offset: str = r"\d+", pool: str = "workspace") -> str:
    """The line of a planned program that says when a slot lives and where it lies, wherever it stands."""
    at = re.escape(f"place='workspace' live=({live})")
    return rf"(?=[\s\S]*'{name}' {at} alignment=\d+ offset={offset} [^\n]*pool='{pool}')"


SHOWN: tuple[Shown, ...] = (
    Shown(
        "U1 U7 U13 U14 U15 U16 U22",
        "build FILE.py -o DIR --dump DIR/../stages",
        TEMPORARY,
        ("11 buffers, 352 B", r"pool proved .* 352 to 64 bytes; bound 64, ratio 1\.000.*compare tested"),
        files={
            "../stages/09-pool.main.txt": (
                slot(r"p\.a", "(0, 2)", "0")
                + slot(r"p\.b", "(1, 3)", "32")
                + slot(r"p\.c", "(2, 4)", "0")
                + slot(r"q\.a", "(4, 6)", "0")
                + slot("q", "(7, 9)")
            ),
            "FILE.c": (
                r"(?s)#define FILE_OFFSET_P 32u.*#define FILE_OFFSET_P_C 0u.*FILE_k_fold\(.*\(base \+"
                r" FILE_OFFSET_P\),.*\(base \+ FILE_OFFSET_P_A\)"
            ),
        },
    ),
    Shown(
        "U9",
        "check FILE.py --dump DIR --stop-after pool",
        LOOPS,
        ("60 to 32 bytes; bound 32",),
        files={
            "09-pool.main.txt": (
                slot(r"p\.a", "(0, 2)")
                + slot(r"p\.b", "(0, 1)")
                + slot(r"lv0\.a", "(2, 3)", "0")
                + slot(r"lv0\.b", "(2, 3)", "4")
                + slot(r"lv0\.c", "(2, 3)", "8")
            )
        },
    ),
    Shown(
        "A19 U10 U18 U20",
        "check FILE.py --skip fuse --report DIR --dump DIR/../stages --stop-after pool",
        BRANCH,
        (r"6 steps, 1 choice pool proved .* 96 to 36 bytes; bound 36, ratio 1\.000",),
        files={
            "../stages/08-pool.main.txt": (
                slot("a", "(0, 6)") + slot("b", "(2, 6), (8, 9)") + r"(?=[\s\S]*Branch condition='c' then=5 end=6)"
            ),
            "report.json": (
                r'"used":[1-9][\s\S]*"name":"b",[^}]*"live":\[\[2,6\],\[8,9\]\].*"nbytes":36,'
                r'"limit":null,"bound":36,"pressure":\[\[0,20\],\[2,36\],'
                r'[\s\S]*"kills":\[\[[0-9]+,[0-9]+,\["'
            ),
            "index.html": "7 steps; inputs and outputs have [0-9]+ bytes",
        },
    ),
    Shown(
        "U10",
        "plan FILE.csv --plot DIR/map.svg",
        SAME,
        ("30 live at once",),
        files={"map.svg": r"(?s)3 buffers in 30 bytes, at least 30.*memory pressure"},
    ),
    Shown(
        "U2 U3",
        "build FILE.py -o DIR --skip fuse --pools fast=40,slow --constant-pools small=16,rom@.rodata=64 --dump"
        " DIR/../stages",
        CHAIN,
        (r"fast 3[26], slow 32, small 0, rom 32;.*in 4 pools", "compare tested"),
        files={
            "../stages/08-pool.main.txt": (
                slot("b", "(1, 4)", "0", "slow")
                + r"(?=[\s\S]*name='fast' kind='workspace' limit=40)(?=[\s\S]*name='rom' kind='constant' limit=64"
                r" .*read_only=True)"
            ),
            "FILE.c": (
                r'(?s)FILE_SECTION\("\.rodata"\) static const struct FILE_pool_rom_contents FILE_pool_rom ='
                r" \{\s*\{\s*1\.0f, 2\.0f"
            ),
        },
    ),
    Shown(
        "U2",
        "check FILE.py --pools fast=40,slow=16 --stop-after pool",
        CHAIN,
        (r"does not fit: buffer \w+ .*a limit of 68 bytes for fast would be enough.*\[memory\.C7\]",),
        code=2,
    ),
    Shown(
        "U3",
        "check FILE.py --constant-pools rom=16 --stop-after pool",
        CHAIN,
        (r"a limit of 32 bytes for rom would be enough, and nothing less \[memory\.C7\]",),
        code=2,
    ),
    Shown(
        "U2",
        "plan FILE.csv -o DIR/out.csv --pools a=30,b",
        ROOM,
        ("a: 15 bytes of 30 .*b: 35 bytes.*proved",),
        files={"out.csv": "c,1,3,25,b,"},
    ),
    Shown(
        "U2",
        "plan FILE.csv --pools a=30,b=10",
        ROOM,
        (r"a limit of 40 bytes for a would be enough.*memory\.C7",),
        code=2,
    ),
    Shown(
        "U4 U5 U13",
        "build FILE.py -o DIR --io-in-pools",
        CHAIN,
        ("compare tested",),
        files={
            "FILE.h": (
                r"(?s)define FILE_WORKSPACE_BYTES \d+u.*FILE_INPUT_X_AT\(workspace\).*FILE_OUTPUT_OUTPUT_0_OFFSET"
                r" \d+u.*can share a workspace: one of the largest of their sizes.*int FILE_run\(void \*workspace\);"
            )
        },
    ),
    Shown(
        "U8",
        "check FILE.py --skip fuse --dump DIR",
        CALLEE,
        ("compare tested",),
        files={
            "08-pool.main.txt": (
                r"(?s)(?=.*steps\[0\]: Step kernel='exp' reads=\('x'\) writes=\('p'\))(?=.*reads=\('q\.c',"
                r" 'p'\).*reads=\('r\.c', 'p'\).*reads=\('r\.lv0', 'q\.lv0'\))(?=.*'p' place='workspace' live=\(\(0,"
                r" 7\)\))"
            )
        },
    ),
    Shown(
        "U8 R5",
        "run FILE.py --extern copyto=numpy:copyto\ncheck FILE.py --dump DIR --stop-after pool\ncheck DIR/04-legalize.py"
        " --stop-after pool",
        EXTERN,
        (r"output_0: .*\[3\., 3\., 3\., 3\.\].*pool proved .*pool proved",),
        files={"04-legalize.py": r'decl_buffer\(\(4,\), "float32", data=x\.data, read_only=True\)'},
    ),
    Shown(
        "U8",
        "check FILE.py",
        EXTERN,
        (r"FILE_extern_copyto, which nobody defines: .*--stop-after pool .*\[compiled\.C5\]",),
        code=2,
    ),
    Shown(
        "U11",
        "\n".join(
            f"plan FILE.csv --planner {p}"
            for p in ("greedy-size", "greedy-conflicts", "first-fit", "hill-climb", "exact")
        ),
        SAME,
        (
            (
                r"workspace: 40 bytes .*greedy-size in .*proved.*: 30 bytes .*greedy-conflicts in.*: 30 bytes"
                r" .*first-fit in.*hill-climb in.*: 30 bytes .*optimal exact in"
            ),
        ),
    ),
    Shown("U11", "plan FILE.csv", BY_HAND, (r"20 bytes for 3 buffers.*proved",)),
    Shown(
        "U11",
        "plan FILE.csv",
        BY_HAND.replace("10,10", "10,9"),
        (r"a and b have been placed by hand, and share byte 9 .*\[memory\.C6\]",),
        code=2,
    ),
    Shown("U11", "check FILE.py --planner greedy-size --stop-after pool", BRANCH, ("pool proved",)),
    Shown(
        "U17",
        "check FILE.py --on cuda --on cpu --skip fuse --stop-after pool --dump DIR",
        DEVICES,
        (r"workspace_cuda_0 32, workspace_cpu_0 64",),
        files={
            "08-pool.main.txt": (
                slot("b", "(1, 3)", "0", "workspace_cuda_0") + slot("lv1", "(3, 5)", "32", "workspace_cpu_0")
            )
        },
    ),
    Shown(
        "U17",
        "check FILE.py --on cuda --on cpu --pools one@cuda --stop-after pool",
        DEVICES,
        (r"no pool is on cpu.*\[pool\.C1\]",),
        code=2,
    ),
    Shown(
        "U23",
        "build FILE.py -o DIR --skip fuse --io-in-pools",
        WIDTHS,
        ("compare tested",),
        files={
            "FILE.h": (
                r"(?s)b: bool\[3\], 3 bytes.*c: bfloat16\[3\], 6 bytes.*d: float64\[3\], 24 bytes.*e: int16\[0\]\[3\],"
                r" 0 bytes"
            )
        },
    ),
    Shown(
        "U21",
        "plan FILE.csv --bound n=1.. -o DIR/out.csv\nplan DIR/out.csv --bound n=1..99 --capacity 860",
        SIZES,
        (
            (
                r"workspace: n \* 8 \+ 68 bytes for 4 buffers; at n = 128 1092 bytes, 1092 live at once.*for all n >="
                r" 1;.*given in .*for all n in 1 to 99;"
            ),
        ),
        files={"out.csv": r"(?s)a,0,2,4\*n \+ 4,0\nb,1,3,4\*n,n \* 4 \+ 4\nc,2,4,n\*4 \+ 4,0\nd,2,4,64,n \* 8 \+ 4"},
    ),
    Shown(
        "U21",
        "plan FILE.csv --bound n=0..64 --bound m=0..9",
        PLACED,
        ("proved: z3: no two of 2 live buffers share a byte, for all n in 0 to 64, m in 0 to 9",),
    ),
    Shown(
        "U21",
        "plan FILE.csv --bound n=0..65 --bound m=0..9",
        PLACED,
        (r"FAILS: for n = 65, m = 1: buffers a and b share byte 256 .*while both are live",),
        code=1,
    ),
    Shown(
        "U21",
        "plan FILE.csv --bound n=0..65",
        PLACED,
        (r"nothing is called m here; the symbols are those of --bound: n \[csv\.C2\]",),
        code=2,
    ),
    Shown("U21", "check FILE.py --dim n=8 --stop-after pool", SYMBOLS, ("pool proved",)),
    Shown(
        "U21",
        "check FILE.py --dim n=9",
        SYMBOLS,
        (r"n would be 9; it is declared to be at least 0 and at most 8 \[bind_params\.C5\]",),
        code=2,
    ),
)
