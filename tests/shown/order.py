"""Rows on the order of evaluation and on what A-normal form becomes, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

T = 'R.Tensor((2, 3), "float32")'
ANF = "check FILE.py --dump DIR --stop-after anf"

SHARED = f"""
    @R.function
    def main(c: R.Tensor((), "bool"), x: {T}):
        with A.graph():
            s = R.exp(x)
            t = R.tanh(x)
            v = R.negative(R.negative(x))
            p = A.if_(c, R.add(s, R.multiply(v, v)), R.subtract(t, s))
            q = R.add(p, s)
        return q
"""
"""s is used in both branches and behind them, v twice in one branch, t once in the other."""

NESTED = f"""
    @R.function
    def main(x: {T}):
        with A.graph():
            y = A.var({T})
            z = A.let(y, R.exp(x), R.multiply(y, R.const(2.0, "float32")))
            q = R.add(z, R.negative(x))
        return q
"""
FACTORIAL = """
    @R.function
    def main(n: R.Tensor((), "int64")):
        @R.function
        def f(k: R.Tensor((), "int64"), r: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.less_equal(k, R.const(1, "int64")):
                q = r
            else:
                q = f(R.subtract(k, R.const(1, "int64")), R.multiply(r, k))
            return q
        return f(R.maximum(R.minimum(n, R.const(6, "int64")), R.const(6, "int64")), R.const(1, "int64"))
"""
DEEPER = """@R.function
                def again(s: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                    return f(R.subtract(k, R.const(1, "int64")), s)
                q = R.multiply(again(r), k)"""
MARKED = f"""
    @R.function
    def main(x: {T}):
        @R.function
        def f(y: {T}) -> {T}:
            R.func_attr({{"primitive": True}})
            return R.add(R.exp(y), R.exp(y))
        @R.function
        def g(y: {T}) -> {T}:
            R.func_attr({{"compiler": "npu"}})
            return R.add(R.tanh(y), R.tanh(y))
        return R.add(f(R.add(x, x)), g(x))
"""
PLACED = f"""
    @R.function
    def main(x: {T}):
        with A.graph():
            q = R.add(A.on(R.exp(x), "cuda:1"), A.on(R.tanh(x), "cpu"))
        return q
"""
REFERENCES = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) {
  let %r = ref(%x);
  (ref_read(%r), ref_write(%r, subtract(ref_read(%r), ref_read(%r))), ref_read(%r))
}
""".lstrip()
MATCH = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32], %c: bool) {
  let %o = if (%c) { Some(%x) } else { None };
  %0 = exp(%x);
  match (%o) {
    Some(%y) => add(tanh(%y), %0),
    None => subtract(%0, negative(%x)),
  }
}
""".lstrip()
TAKEN = f"""
    @R.function
    def main(x: {T}):
        lv1 = R.exp(x)
        @R.function
        def f(x: {T}) -> {T}:
            lv1 = R.add(x, R.tanh(x))
            return lv1
        return R.add(f(lv1), R.negative(lv1))
"""
ALIASES = f"""
    @R.function
    def main(x: {T}):
        y = x
        z = R.exp(y)
        t = (z, (y, R.negative(z)))
        u = t[1]
        w = R.reshape(R.reshape(u[1], shape=(6,)), shape=(3, 2))
        return (R.exp(w), t[0], R.subtract(u[0], z))
"""
"""y is x; u[1] is the negative, w the same bytes; t[0] is z, which is used inside and is a result."""

RETURNED = f"""
    @R.function
    def main(x: {T}):
        z = R.exp(x)
        return (x, R.const([[1.0, 2.0]], "float32"), z, R.tanh(z), z)
"""
NAMES = """
    @R.function
    def main(x: R.Tensor((2,), "float32"), x_1: R.Tensor((2,), "float32"), int: R.Tensor((2,), "float32")):
        A.names({"x": "a.b", "x_1": "a/b"})
        R.func_attr({"outputs": ["for", "y z"]})
        return (R.add(x, x_1), R.negative(int))
"""
HOOKS = f"""
    @R.function
    def main(x: {T}):
        y: A.on({T}, "cuda") = R.exp(x)
        return A.on_device(R.negative(y), "cpu", constrain_body=True, constrain_result=True)
"""
CONVOLUTION = """
    @R.function
    def main(x: R.Tensor((1, 1, 3, 3), "float32")):
        y = R.exp(x)
        return R.nn.conv2d(y, R.const([[[[1.0, 2.0], [3.0, 4.0]]]], "float32"), padding=[1, 1, 1, 1])
"""
SUMS = """
    @R.function
    def main(z: R.Tensor((1,), "float32")):
        a = R.broadcast_to(z, (64,))
        b = R.broadcast_to(R.exp(z), (64,))
        c = R.sum(a)
        d = R.sum(b)
        return R.add(c, d)
"""
"""a and b are live together as it is written, and need not be."""

WHOLE_MAIN = f"""
    @R.function
    def main(x: {T}):
        R.func_attr({{"primitive": True}})
        return R.add(R.exp(x), x)
"""
CLAIM = """
    @T.prim_func(private=True)
    def k(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1, SAYS})
        for i in range(4):
            y[i] = T.exp(x[i])
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(Module.k, (x,), out_ty=R.Tensor((4,), "float32"))
"""

SHOWN: tuple[Shown, ...] = (
    Shown(
        "A1 A2",
        ANF,
        SHARED,
        ("anf proved",),
        files={
            "03-anf.py": (
                r"main\(.*\n +lv0.* = R\.exp\(x\)\n +if c:\n.* = R\.negative\(x\)\n.* = R\.negative\(lv1\)\n.* ="
                r" R\.multiply\(lv2, lv2\)\n"
                r".* = R\.add\(lv0, lv3\)\n.* = lv4\n +else:\n.* = R\.tanh\(x\)\n.* = R\.subtract\(lv5, lv0\)\n.* ="
                r" lv6\n.* = R\.add\(lv7, lv0\)\n +return lv8"
            )
        },
    ),
    Shown(
        "A3 A5 A2",
        ANF,
        NESTED,
        ("anf proved",),
        files={
            "03-anf.py": (
                r"main\(x: .*\n +y: .*= R\.exp\(x\)\n +lv0: .*= R\.const\(2\.0, \"float32\"\)\n +lv1: .*="
                r" R\.multiply\(y, lv0\)\n +lv2: .*= R\.negative\(x\)\n"
                r" +lv3: .*= R\.add\(lv1, lv2\)\n +return lv3"
            )
        },
    ),
    Shown(
        "A4",
        f"run FILE.py\n{ANF}\nrun DIR/03-anf.py",
        FACTORIAL,
        (r"output_0: .*720.*anf proved.*output_0: .*720",),
        files={"03-anf.py": r"(?s)        def f\(k.*= f\(lv3, lv4\)\n.*            return q\n.*= f\(lv\d+, lv\d+\)\n"},
    ),
    Shown(
        "A6",
        ANF,
        MARKED,
        ("anf proved",),
        files={
            "03-anf.py": (
                r"(?s)def f\(y.*\n +R\.func_attr\(.\"primitive\": True.\)\n +return R\.add\(R\.exp\(y\),"
                r" R\.exp\(y\)\)\n.*def g\(y.*\"compiler\": \"npu\".*\n +return R\.add\(R\.tanh\(y_1\),"
                r" R\.tanh\(y_1\)\)\n"
                r".*= R\.add\(x, x\)\n.*= f\(lv0\)\n"
            )
        },
    ),
    Shown(
        "A6 A23",
        "check FILE.py --stop-after liveness",
        WHOLE_MAIN,
        (r"main is marked as a primitive .*\[liveness\.C4\]",),
        code=2,
    ),
    Shown(
        "A7",
        f"{ANF} --on cpu --on cuda:1",
        PLACED,
        ("anf proved",),
        files={
            "03-anf.py": (
                r"(?s)A\.home\(\"cpu:0\"\).*lv0: .* = A\.on\(A\.device_copy\(x\), \"cuda:1\"\)\n.* ="
                r" A\.on\(R\.exp\(lv0\), \"cuda:1\"\)\n.* = A\.device_copy\(lv1\)\n.* = R\.tanh\(x\)\n"
            )
        },
    ),
    Shown(
        "A8",
        "run FILE.relay\ncheck FILE.relay --dump DIR --stop-after anf\nrun DIR/03-anf.py",
        REFERENCES,
        (r"output_0: \S+ \S+ (\w+) .*output_2: .* \[0\., 0\.\].*anf proved.*output_0: \S+ \S+ \1 ",),
        files={"03-anf.py": r"(?s)= A\.read\(r\)\n.*= A\.read\(r\)\n.*= A\.write\(r, lv\d\)\n.*= A\.read\(r\)\n"},
    ),
    Shown(
        "A8 A1",
        "check FILE.relay --dump DIR --stop-after anf",
        MATCH,
        ("anf proved",),
        files={
            "03-anf.py": (
                r"(?s)(lv\d): [^\n]*= R\.exp\(x\)\n +match o:\n +case Option\.some\(y\):\n[^\n]*= R\.tanh\(y\)\n[^\n]*="
                r" R\.add\(lv\d, \1\)\n[^\n]*\n +case Option\.none\(\):\n[^\n]*= R\.negative\(x\)\n[^\n]*="
                r" R\.subtract\(\1, lv\d\)\n"
            )
        },
    ),
    Shown(
        "A10",
        ANF,
        TAKEN,
        ("operands atomic, names unique",),
        files={
            "03-anf.py": r"(?s)lv1: .*def f\(x_1: .*lv0: [^\n]*= R\.tanh\(x_1\)\n +lv1_1: [^\n]*= R\.add\(x_1, lv0\)\n"
        },
    ),
    Shown(
        "A11 A12 A20 A13",
        "check FILE.py --skip fuse --dump DIR --stop-after pool",
        ALIASES,
        (r"liveness proved .*4 steps; 1 buffer, 24 B", "pool proved"),
        files={
            "08-pool.main.txt": (
                r"(?s)\[0\]: Step kernel='exp' reads=\('x'\) writes=\('output_1'\).*\[1\]: Step kernel='negative'"
                r" reads=\('output_1'\) writes=\('(lv\d)'\).*\[2\]: Step kernel='exp1' reads=\('\1'\)"
                r" writes=\('output_0'\)"
                r".*\[3\]: Step kernel='subtract' reads=\('x', 'output_1'\) writes=\('output_2'\)"
            )
        },
    ),
    Shown(
        "A13 A17",
        "check FILE.py --dump DIR",
        RETURNED,
        ("1 constant, 64 B", "compare tested .*5 outputs.*C bit for bit the machine's"),
        files={
            "09-pool.main.txt": (
                r"(?s)Slot name='(constant_\w+)' place='constant' .*kernel='exp' reads=\('x'\)"
                r" writes=\('output_2'\).*kernel='tanh' reads=\('output_2'\) writes=\('output_3'\).*reads=\('x'\)"
                r" writes=\('output_0'\)"
                r".*reads=\('\1'\) writes=\('output_1'\).*reads=\('output_2'\) writes=\('output_4'\)"
            )
        },
    ),
    Shown(
        "A14",
        "build FILE.py -o DIR",
        NAMES,
        (r"compare tested .*2 outputs",),
        files={
            "FILE.h": (
                r"(?s)a_b: .*called \"a\.b\"\n.*a_b_2: .*called \"a/b\"\n.*int_: .*called \"int\"\n.*for_: .*called"
                r" \"for\"\n.*y_z: .*called \"y z\"\n.*float \*a_b,\n.*float \*a_b_2,\n.*float \*int_,\n.*float"
                r" \*for_,\n.*float \*y_z,"
            )
        },
    ),
    Shown(
        "A14", "run FILE.py", NAMES.replace('"a/b"', '"a.b"'), (r"two parameters have one name \[graph\.C4\]",), code=2
    ),
    *(
        Shown(
            "A14",
            "run FILE.py",
            NAMES.replace('["for", "y z"]', said),
            (
                (
                    r"the attribute outputs is .*, and must be a list with a text of its own for each result; results:"
                    r" 2 \[module\.C5\]"
                ),
            ),
            code=2,
        )
        for said in ('["z", "z"]', '["z"]', '"yz"', "3", "[1, 2]")
    ),
    Shown(
        "A16",
        "build FILE.py -o DIR --on cpu --on cuda",
        HOOKS,
        ("2 devices, 1 copy", "compare tested"),
        files={
            "FILE.h": (
                r"(?s)0  exp \(exp\) x -> y on cuda:0\n.*int FILE_device_cuda_activate\(void \*handle, int32_t"
                r" id\);\nint FILE_device_cuda_open\(.*\nint FILE_device_cuda_close\(.*\nint"
                r" FILE_device_cuda_deactivate\("
            ),
            "FILE.c": (
                r"(?s)FILE_device_cuda_activate\(.*FILE_device_cuda_open\(.*FILE_k_exp\(.*FILE_device_cuda_close\(.*FILE_device_cuda_deactivate\("
            ),
        },
    ),
    Shown(
        "A17 A18",
        "check FILE.py --dump DIR --stop-after pool",
        CONVOLUTION,
        (r"pool proved .*136 to 136 bytes",),
        files={
            "06-constants.py": r"constant_\w+ = A\.tensor\(\"float32\", \(1, 1, 2, 2\)",
            "09-pool.main.txt": (
                r"(?s)place='constant'.*name='lv1\.x_padded' place='workspace' .* offset=\d+ .*name='y'"
                r" place='workspace' .* offset=\d+ .*scratch=\('lv1\.x_padded'\) phases=2"
            ),
        },
    ),
    Shown(
        "A23",
        "check FILE.py --stop-after liveness",
        FACTORIAL.replace('q = f(R.subtract(k, R.const(1, "int64")), R.multiply(r, k))', DEEPER),
        (r"f: recursion with more to do behind a call .*, but a function inside of it calls it; .*\[recursion\.C1\]",),
        code=2,
    ),
    Shown(
        "A25",
        "check FILE.py --skip fuse --stop-after pool --dump DIR\ncheck FILE.py --skip fuse --skip schedule --stop-after"
        " pool",
        SUMS,
        (r"schedule proved .*peak 516 B to 264 B, optimal; .*524 to 264 bytes.*524 to 516 bytes",),
        files={"06-schedule.py": r"(?s) a = .* c = .* b = .* d = "},
    ),
    *(
        Shown("A23", "check FILE.py --stop-after pool", CLAIM.replace("SAYS", said), (label,), code=2)
        for said, label in (
            ('"operator": None', r"operator of k is None, and must be the name of an operator \[claims\.C1\]"),
            ('"operator": "exp", "attrs": {1: 2}', r"attrs of k is .* \[claims\.C1\]"),
            ('"group": {}', r"group of k is .* \[claims\.C1\]"),
            ('"linked": {"function": "k", "places": 3}', r"linked of k is .* \[link\.C2\]"),
        )
    ),
    Shown("A23", "check FILE.py --stop-after pool", CLAIM.replace("SAYS", '"operator": "exp"'), ("pool proved",)),
    Shown(
        "A23",
        "check FILE.py --stop-after pool",
        CLAIM.replace("SAYS", '"operator": "tanh"'),
        (r"legalize FAILS .*k: result 0 on .* outside",),
        code=1,
    ),
)
