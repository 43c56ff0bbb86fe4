"""Rows on virtual devices, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

ON_TWO = """
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        return R.add(R.exp(x), x)
    @R.function
    def main(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        u = A.on_device(Module.f(a), "cuda", constrain_body=True, constrain_result=True)
        v = A.on_device(Module.f(b), "cpu", constrain_body=True, constrain_result=True)
        return (u, v)
"""
"""A function that is annotated on two devices by its calls."""

SAYS = ON_TWO.replace("R.exp(x)", 'A.on_device(R.exp(x), "cuda", constrain_body=True, constrain_result=True)')
CALLED = (
    ON_TWO.replace(
        "def main", 'def g(x: R.Tensor((4,), "float32")):\n        return Module.f(x)\n    @R.function\n    def main'
    )
    .replace("Module.f(a)", "Module.g(a)")
    .replace("Module.f(b)", "Module.g(b)")
)
RECURSIVE = """
    @R.function
    def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if R.less(R.sum(x), R.const(3, "float32")):
            r = Module.f(R.add(x, R.const(1, "float32")))
        else:
            r = x
        return r
""" + ON_TWO[ON_TWO.index("    @R.function\n    def main") :]

V = 'R.Tensor((2,), "float32")'
JOINED = f"""
    @R.function
    def main(x: {V}):
        y: A.on({V}, id=1) = A.on(R.exp(x), "cuda")
        z: A.on({V}, scope="global.texture") = R.negative(y)
        return z
"""
"""A variable says the number of a device and its value the type; the scope of another is said, of y it is open."""

KINDS = f"""
    @R.function
    def main(x: {V}, y: {V}):
        a = R.exp(A.on_device(R.exp(x), "cpu"))
        b = R.tanh(A.on_device(R.tanh(y), "cuda", constrain_body=True, constrain_result=True))
        c = R.negative(A.on_device(R.negative(x), "cpu", constrain_body=False))
        d: A.on({V}, "cuda") = A.device_copy(a)
        return (a, b, c, d)
"""
HANDED = f"""
    @R.function
    def main(x: {V}, y: {V}):
        @R.function
        def apply(g: R.Callable(({V},), {V})) -> {V}:
            return g(x)
        @R.function
        def h(b: {V}) -> {V}:
            return R.add(R.negative(b), A.on_device(y, "cpu", constrain_body=True, constrain_result=True))
        return apply(h)
"""
"""What h says goes through the parameter g to the result of apply, and to x."""

SHAPES = f"""
    @R.function
    def main(x: A.on(R.Tensor((2, 3), "float32"), "cuda"), c: R.Tensor((), "bool"), y: {V}):
        if c:
            r = A.on(R.exp(y), "cuda")
        else:
            r = A.on(R.negative(y), "cuda")
        return (R.shape_of(x), r)
"""
REFERENCE = f"""
    @R.function(pure=False)
    def main(x: {V}, y: A.on({V}, "cpu")):
        r = A.ref(x)
        A.write(r, y)
        return R.add(A.on_device(x, "cuda"), A.read(r))
"""
CHOSEN = f"""
    @R.function
    def main(c: R.Tensor((), "bool"), y: {V}, z: {V}):
        @R.function
        def f(a: {V}) -> {V}:
            return R.add(a, A.on_device(y, "cpu", constrain_body=True, constrain_result=True))
        @R.function
        def g(a: {V}) -> {V}:
            return R.negative(a)
        if c:
            h = f
        else:
            h = g
        return h(z)
"""
"""g says nothing, and is where f is: which is called is not known."""

DATA = f"""
    @A.data()
    class Pair:
        Of = ({V}, {V})
    @R.function
    def main(x: {V}, y: {V}):
        p = Pair.Of(x, A.on_device(R.exp(y), "cpu", constrain_body=True, constrain_result=True))
        match p:
            case Pair.Of(u, _):
                return R.negative(u)
"""
FIELDS = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        t = A.on_device(R.split(x, indices_or_sections=2), "cpu")
        u = t[1]
        y = A.on_device(R.subtract(u, u), "cuda", constrain_result=True)
        return A.device_copy(A.on_device(y, "cuda", constrain_result=True))
"""
"""One field of a tuple is used elsewhere, twice; the other nowhere. The copy behind changes nothing."""

SCOPES = """
    @T.prim_func(private=True)
    def near(x: T.Buffer((4,), "float32", scope="global.texture"), y: T.Buffer((4,), "float32", \
scope="global.texture")):
        for i in range(4):
            y[i] = x[i] + x[i]
    @T.prim_func(private=True)
    def open(x: T.handle, y: T.Buffer((4,), "float32")):
        xs = T.match_buffer(x, (4,), "float32", scope="")
        v = T.decl_buffer((2, 2), "float32", data=xs.data, scope="")
        for i in range(4):
            y[i] = v[i // 2, i % 2] + xs[i]
    @R.function
    def main(x: A.on(R.Tensor((4,), "float32"), "cuda", scope="global")) -> A.on(R.Tensor((4,), "float32"), "cuda", \
scope="global"):
        a = R.call_tir(Module.near, (x,), out_ty=R.Tensor((4,), "float32"))
        b = R.call_tir(Module.open, (a,), out_ty=R.Tensor((4,), "float32"))
        return R.call_tir(Module.near, (b,), out_ty=R.Tensor((4,), "float32"))
"""
"""`near` reads and writes a texture; `open` reads what it is given, through a view too."""

PRIMITIVE = f"""
    @R.function
    def main(x: {V}, y: {V}):
        @R.function
        def total(a: A.on({V}, "cuda", scope="global"), b: {V}) -> A.on({V}, "cuda", scope="global.texture"):
            R.func_attr({{"primitive": True}})
            return R.add(R.exp(a), b)
        return A.device_copy(total(x, A.on_device(R.tanh(y), "cpu")))
"""
NAMED = """
    @T.prim_func(private=True)
    def gem(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] + x[i]
    @R.function
    def main(x: R.Tensor((SIZE,), "float32")):
        return R.call_tir(Module.gem, (ARGS,), out_ty=R.Tensor((4,), "float32"))
"""
APART = f"""
    @R.function
    def main(x: {V}):
        near = R.exp(x)
        far: A.on({V}, "cuda") = R.tanh(near)
        back: A.on({V}, "cpu") = R.negative(A.on_device(far, "cuda"))
        return back
"""
LONG = (
    f"    @R.function\n    def main(x: {V}):\n        y = x\n"
    + "        y = R.negative(y)\n" * 1100
    + f'        z: A.on({V}, "cpu") = A.device_copy(y)\n        return z\n'
)
"""Deeper than Python's stack."""

DEVICES = "--on cuda --on cpu --stop-after anf"
SAME = r"devices checked .* 2 devices, 1 copy; .*the source without devices; planned again the same"

PLAN = "check FILE.py --on cuda --on cpu --stop-after devices --dump DIR"

SHOWN: tuple[Shown, ...] = (
    Shown(
        "V1 V2",
        "check FILE.py --on cpu --on cuda:0 --on cuda:1 --stop-after devices --dump DIR",
        JOINED,
        ("1 device, 0 copies",),
        files={
            "02-devices.py": (
                r"x: A\.on\(.*, \"cuda:1\"\)\) .*\n +A\.home\(\"cuda:1:global\.texture\"\)\n +y: .* ="
                r" A\.on\(R\.exp\(x\), \"cuda:1\"\)\n +z: .* = R\.negative\(y\)\n"
            )
        },
    ),
    Shown(
        "V1",
        "check FILE.py --on cpu --on cuda:1 --on cuda:2 --stop-after devices",
        JOINED.replace('"cuda")', '"cuda", id=2)'),
        (
            (
                r"exp\(\).* is said to be on cuda:2, and y: .* at FILE\.py:5:9 on any:1\. They are one, because nothing"
                r" can be copied between a variable and its value .*\[devices\.C1\]"
            ),
        ),
        code=2,
    ),
    Shown(
        "V2",
        "run FILE.py --text -o DIR/02.py\nrun DIR/02.py --text",
        KINDS,
        (
            (
                r"a: .* = R\.exp\(A\.on_device\(R\.exp\(x\), \"cpu\"\)\) b: .*\"cuda\", constrain_result=True\)\) c:"
                r" .*\"cpu\", constrain_body=False\)\) d: A\.on\(.*, \"cuda\"\) = A\.device_copy\(a\) "
            ),
        ),
        files={"02.py": ""},
    ),
    Shown(
        "V3 V8",
        PLAN,
        KINDS,
        ("2 devices, 2 copies",),
        files={
            "02-devices.py": (
                r"(?s)A\.home\(\"cuda:0\"\).* = A\.device_copy\(A\.on\(R\.exp\(A\.on\(A\.device_copy\(x\),"
                r" \"cpu:0\"\)\), \"cpu:0\"\)\)\n +a: [^\n]* = R\.exp\(g\)\n +b: [^\n]* = R\.tanh\(R\.tanh\(y\)\)\n"
                r" +c: [^\n]* = R\.negative\(R\.negative\(x\)\)\n +d: [^\n]* = a\n"
            )
        },
    ),
    *(
        Shown(
            "V4",
            f"check FILE.py --stop-after devices {on}",
            NAMED.replace("SIZE", "4").replace("ARGS", 'A.on_device(x, "cuda")'),
            (said,),
            code=code,
        )
        for on, said, code in (
            ("--on cuda --on cuda=cuda", r"cuda:0 is there twice, .*\[config\.C3\]", 2),
            (
                "--on cuda --on cpu:0 --on cpu:1",
                r"the host may be any of cpu:0 \(c\), cpu:1 \(c\); say which one it is \[config\.C4\]",
                2,
            ),
            ("--on cuda --on cpu:0 --on cpu:1 --host cpu:1", "devices checked", 0),
            ("--on cuda=llvm", r"of type cuda has the target 'llvm', which is for cpu \[device\.C1\]", 2),
            ("--on cpu", r"there is no device cuda; there are cpu:0 \(c\) \[config\.C6\]", 2),
        )
    ),
    Shown(
        "V5 V7",
        PLAN,
        HANDED,
        ("1 device, 0 copies",),
        files={"02-devices.py": r"(?s)\A(?!.*A\.on\().*A\.home\(\"cpu:0\"\)"},
    ),
    Shown(
        "V6",
        PLAN,
        SHAPES,
        ("2 devices, 1 copy",),
        files={
            "02-devices.py": (
                r"(?s)main\(x: A\.on\([^)]*\)[^)]*\), \"cuda:0\"\), c: R\.Tensor\(\(\), dtype=\"bool\"\), y:"
                r" A\.on\(.*A\.home\(\"cpu:0\"\)\n +if c:\n.* = A\.on\(R\.exp\(y\), \"cuda:0\"\).*return"
                r" \(R\.shape_of\(x\), "
            )
        },
    ),
    Shown(
        "V7",
        PLAN,
        REFERENCE,
        ("2 devices, 1 copy",),
        files={
            "02-devices.py": (
                r"(?s)y: A\.on\([^\n]*, \"cpu:0\"\)\).*A\.home\(\"cuda:0\"\).*A\.write\(r, A\.device_copy\(y\)\)\n"
            )
        },
    ),
    Shown(
        "V7",
        PLAN,
        CHOSEN,
        ("1 device, 0 copies",),
        files={"02-devices.py": r"(?s)\A(?!.*A\.on\().*A\.home\(\"cpu:0\"\)"},
    ),
    Shown(
        "V7", PLAN, DATA, ("1 device, 0 copies",), files={"02-devices.py": r"(?s)\A(?!.*A\.on\().*A\.home\(\"cpu:0\"\)"}
    ),
    Shown(
        "V9",
        PLAN,
        FIELDS,
        ("2 devices, 1 copy",),
        files={
            "02-devices.py": (
                r"(?s)u: [^\n]* = A\.on\(t\[1\], \"cpu:0\"\)\n.* g: [^\n]* = A\.device_copy\(u\)\n +y: [^\n]* ="
                r" R\.subtract\(g, g\)\n +return y\n"
            )
        },
    ),
    Shown(
        "V12 V13 V14",
        "check FILE.py --on cuda --on cpu --dump DIR --stop-after pool",
        SCOPES,
        ("1 device, 3 copies", "pool proved"),
        files={
            "03-anf.py": (
                r"(?s)A\.home\(\"cuda:0\"\)\n.* lv0: [^\n]* = A\.on\(A\.device_copy\(x\),"
                r" \"cuda:0:global\.texture\"\)\n +a = A\.on\(R\.call_tir\(cls\.near, \(lv0,\), [^\n]*,"
                r" \"cuda:0:global\.texture\"\)\n"
                r" +b = R\.call_tir\(cls\.open_global_texture, \(a,\), [^\n]*\n +lv1: [^\n]* ="
                r" A\.on\(A\.device_copy\(b\), \"cuda:0:global\.texture\"\)\n +lv2 = A\.on\(R\.call_tir\(cls\.near,"
                r" \(lv1,\), [^\n]*\n +lv3: [^\n]* = A\.device_copy\(lv2\)\n"
                r".*def open_global_texture\(xs: T\.Buffer\(\(4,\), \"float32\", scope=\"global\.texture\"\), y:"
                r" [^\n]*\n[^\n]*\n +v = T\.decl_buffer\(\(2, 2\), \"float32\", data=xs\.data\)\n"
            )
        },
    ),
    Shown(
        "V15",
        PLAN,
        PRIMITIVE,
        ("2 devices, 2 copies",),
        files={
            "02-devices.py": (
                r"(?s)def total\(a: R\.[^\n]*, b: R\.[^\n]*\) -> A\.on\([^\n]*, \"cuda:0:global\.texture\"\):\n.*"
                r" return R\.add\(R\.exp\(a\), b\)\n.*total\(x, A\.device_copy\(A\.on\(R\.tanh\(y\), \"cpu:0\"\)\)\),"
                r" \"cuda:0:global\.texture\"\)\n +return A\.device_copy\(g\)"
            )
        },
    ),
    Shown(
        "V16",
        "run FILE.py",
        NAMED.replace("SIZE", "5").replace("ARGS", "x"),
        (r"gem: x: Buffer\(\(4\), float32\) is given Tensor\(\(5\), float32\) \[call_tir\.C2\]",),
        code=2,
    ),
    Shown(
        "V16",
        "run FILE.py",
        NAMED.replace("SIZE", "4").replace("ARGS", "x, x"),
        (r"gem takes 1 buffers and fills 1; 2 and 1 given \[call_tir\.C1\]",),
        code=2,
    ),
    Shown(
        "V10 V17 V18",
        "build FILE.py -o DIR --on cpu --on cuda --dump DIR/../stages\ncheck stages/03-anf.py --on cpu --on cuda"
        " --stop-after fuse --dump DIR",
        APART,
        ("4 to 3 calls; .*4 to 3 calls;",),
        files={
            "FILE.h": (
                r"0  fused_exp_tanh x -> far on cuda:0\n.* 1  device_copy \(device_copy\) far -> \w+\n.* 2  negative"
                r" \(negative\) \w+ -> output_0\n"
            ),
            "03-anf.py": (
                r"(?s)A\.home\(\"cpu:0\"\)\n +near: [^\n]* = A\.on\(R\.exp\(x\), \"cuda:0\"\)\n +far: [^\n]* ="
                r" A\.on\(R\.tanh\(near\), \"cuda:0\"\)\n[^\n]* = A\.device_copy\(far\)\n +back: [^\n]* ="
                r" R\.negative\(\w+\)\n"
            ),
        },
    ),
    Shown("V17", "check FILE.py --stop-after fuse", APART.replace('"cuda"', '"cpu"'), ("3 to 1 call;",)),
    Shown("V20", PLAN, LONG, ("2 devices, 1 copy",)),
    Shown(
        "V21",
        "check FILE.py --on cuda --on cpu --dump DIR",
        ON_TWO,
        (SAME, "compare tested"),
        files={"02-devices.py": r"(?s)cls\.f_cuda\(a\).*cls\.f_cpu.*\(b\).*def f_cpu.*def f_cuda"},
    ),
    Shown(
        "V21",
        f"check FILE.py --dump DIR {DEVICES}",
        CALLED,
        (SAME,),
        files={"02-devices.py": r"(?s)(?=.*def f_cpu).*def g_cpu"},
    ),
    Shown(
        "V21",
        f"check FILE.py --dump DIR {DEVICES}",
        RECURSIVE,
        (SAME.replace("1 copy", "3 copies"),),
        files={"02-devices.py": r"(?s)cls\.f_cpu.*def f_cpu"},
    ),
    Shown(
        "V21 V11", f"check FILE.py --dump DIR {DEVICES}\ncheck DIR/03-anf.py {DEVICES}", ON_TWO, (f"{SAME}.*{SAME}",)
    ),
    Shown("V21", f"check FILE.py {DEVICES}", SAYS, (r"is said to be on (cpu|cuda).*\[devices.C1\]",), code=2),
)
