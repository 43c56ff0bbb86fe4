"""Rows on optional passes, through `--passes`."""

from __future__ import annotations

import numpy as np

from tests.shown.case import Shown
from tests.shown.sizes import with_inputs

FUNCTIONS = """
    @R.function
    def main(x: R.Tensor((4, 3), "float32"), c: R.Tensor((), "bool")):
        k = R.exp(x)
        @R.function
        def g(z: R.Tensor((4, 3), "float32")) -> R.Tensor((4, 3), "float32"):
            return R.add(z, k)
        a = g(x)
        b = g(a)
        unused = R.tanh(b)
        d = b
        e = R.add(d, d)
        if c:
            r = R.tanh(e)
        else:
            r = R.exp(e)
        return r
"""
LINEAR = """
    @R.function
    def main(x: R.Tensor((2, 2), "float32")):
        m = R.matmul(R.exp(x), R.const([[1.0, 2.0], [3.0, 4.0]], "float32"))
        return R.nn.relu(R.add(m, m))
"""
LARGE = """
    @R.function
    def main(x: R.Tensor((5, 6), "float32"), y: R.Tensor((6, 33), "float32")):
        return R.matmul(x, y)
"""
PEAK = """
    @R.function
    def main(x: R.Tensor((64,), "float32")):
        n = R.negative(x)
        wide = R.broadcast_to(R.exp(n), R.shape([16, 64]))
        low = R.sum(R.multiply(wide, wide), axis=[0], keepdims=False)
        return R.add(R.sqrt(low), n)
"""
SIZES = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32")):
        return R.add(x, y)
"""
BOUND = """
    @R.function
    def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
        return R.matmul(x, R.exp(w))
"""
BLOCK = """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.exp(x)
            unused = R.tanh(y)
            R.output(y)
        return y
"""
OWN = "tests.shown.own_passes"

SHOWN: tuple[Shown, ...] = (
    Shown("A9", "check FILE.py --passes bbnf --stop-after bbnf", FUNCTIONS, ("bbnf proved .*same value",)),
    Shown("R16", "check FILE.py --passes lift --stop-after lift", FUNCTIONS, (r"lift proved .*1 to 2 definitions",)),
    Shown("R24", "check FILE.py --passes dead --stop-after dead", FUNCTIONS, (r"dead proved .*nodes; same value",)),
    Shown("R35", "check FILE.py --passes canonical --stop-after canonical", FUNCTIONS, (r"canonical proved .*nodes",)),
    Shown(
        "A26",
        "check FILE.py --passes repeat --skip fuse --stop-after repeat",
        PEAK,
        (r"repeat proved .*peak 8448 B to 8192 B",),
    ),
    Shown("C4", "check FILE.py --passes link", LINEAR, (r"link proved .*1 constants are linked", "compare tested")),
    Shown(
        "R18",
        "run FILE.py --inputs in.npz --passes bind,fold",
        with_inputs(BOUND, **{"in": {"w": np.full((2, 2), 2, np.float32)}}),
        (r"bind proved", r"fold proved .*nodes", r"output_0: Tensor\(\(2, 2\)"),
    ),
    Shown(
        "U24 R10",
        "run FILE.py --passes shapes --dim n=5",
        SIZES,
        (r"shapes proved .*statements? about sizes", r"output_0: Tensor\(\(5, 3\)"),
    ),
    Shown(
        "R29",
        f"run FILE.py --passes partition[table={OWN}:TABLE;compiler=npu]",
        LINEAR,
        (r"partition proved .*1 region", "output_0"),
    ),
    Shown(
        "R29",
        f"run FILE.py --passes partition[table={OWN}:TABLE;compiler=npu] --engine {OWN}:npu",
        LINEAR,
        (r"engines tested .*1 call of regions", "output_0"),
    ),
    Shown(
        "R29",
        f"run FILE.py --passes partition[table={OWN}:TABLE;compiler=npu] --engine npu={OWN}:off",
        LINEAR,
        (r"engines FAILS .*the first that differs",),
        code=1,
    ),
    Shown("R29", f"run FILE.py --engine {OWN}:npu", LINEAR, (r"--engine goes with --passes",), code=2),
    Shown(
        "R39",
        f"check FILE.py --passes anf,own[run={OWN}:chosen] --stop-after own",
        LARGE,
        (r"own tested .*definitions",),
    ),
    Shown(
        "R9 R13 R32 R33 A24",
        f"check FILE.py --passes anf,own[run={OWN}:twice] --stop-after own",
        FUNCTIONS,
        ("own tested .*on the inputs of this run",),
    ),
    Shown("A21", f"check FILE.py --passes own[run={OWN}:extracted] --stop-after own", LINEAR, ("own tested .*nodes",)),
    Shown("R13", f"check FILE.py --passes own[run={OWN}:lazy] --stop-after own", BLOCK, (r"own proved .*nodes",)),
    Shown(
        "C11",
        f"check FILE.py --passes legalize,own[run={OWN}:serial]",
        LINEAR.replace("nn.relu", "tanh"),
        ("own tested .*as many parts", "compare tested"),
    ),
    Shown(
        "R9 R32",
        f"check FILE.py --passes own[run={OWN}:wrong]",
        FUNCTIONS,
        ("own FAILS .*is .*, allowed is",),
        code=1,
    ),
    Shown(
        "R13", "check FILE.py --passes tile,inline", LINEAR, (r"an order that can be is --passes inline,tile",), code=2
    ),
    Shown("A22 R13", "passes\ncheck FILE.py --passes plain --stop-after plain", LINEAR, ("behind import, before anf",)),
)
