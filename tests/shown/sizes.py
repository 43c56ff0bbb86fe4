"""Rows on sizes that a run can tell, through commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.shown.case import HEAD, Shown

TWO = """
    @R.function
    def main(a: R.Tensor(("n", "m"), "float32"), b: R.Tensor(("m", "n"), "float32"), c: R.Tensor((1, "n"), "float32")):
        return R.add(R.matmul(a, b), c)
"""
CAST = """
    @R.function
    def main(x: R.Tensor(("m", "k"), "float32"), y: R.Tensor(("p",), "float32")):
        n = T.int64()
        a = R.match_cast(x, R.Tensor((n, n), "float32"))
        b = R.match_cast(y, R.Tensor((n * 2,), "float32"))
        return (R.matmul(a, a), R.zeros(R.shape([n + 1]), "float32"), b)
"""
ARMS = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")):
        n = T.int64()
        if c:
            a = R.match_cast(x, R.Tensor((n,), "float32"))
            r = R.sum(R.ones(R.shape([n]), "float32"))
        else:
            b = R.match_cast(y, R.Tensor((n,), "float32"))
            r = R.sum(R.ones(R.shape([n]), "float32"))
        return r
"""
"""One symbol with another value in each arm."""

OPEN = """
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor(dtype="float32", ndim=1):
        return R.exp(x)
"""
COUNTED = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["a", "b"])):
        n = T.int64()
        a = T.int64()
        b = T.int64()
        k = T.int64()
        u: R.Tensor((k,), "float32") = Module.positive(x)
        return (u, R.shape_of(x), s, R.ones(R.shape([a + b, k]), "float32"))
    @R.function
    def positive(x: R.Tensor(("n",), "float32")) -> R.Tensor(dtype="float32", ndim=1):
        n = T.int64()
        if R.greater(R.sum(x), R.const(0.0, "float32")):
            r = R.concat((x, x), axis=0)
        else:
            r = x
        return r
"""
VIEWED = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        a = R.exp(x)
        b = R.reshape(a, R.shape([6]))
        c = R.reshape(b, R.shape([3, 2]))
        return R.nn.softmax(c)
"""
GROWING = """
    @R.function
    def grow(i: R.Tensor((), "int32"), s: R.Tensor(("n",), "float32")) -> R.Tensor(dtype="float32", ndim=1):
        if R.equal(i, R.const(0, "int32")):
            r = s
        else:
            r = Module.grow(R.subtract(i, R.const(1, "int32")), R.concat((s, R.const([1.0], "float32")), axis=0))
        return r
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        return Module.grow(R.const(5, "int32"), x)
"""
EMPTY = """
    @R.function
    def main(x: R.Tensor((0, 3), "float32")):
        return (R.sum(R.exp(x), axis=[0]), R.concat((x, x), axis=0), R.nn.softmax(x))
"""
LISTS = """
#[version = "0.0.5"]
def @main() {
  let %xs = Cons(5, Cons(2, Cons(3, Nil)));
  let %k = 10;
  let %f = fn (%a: Tensor[(), int32]) { add(%a, %k) };
  (@sum(@map(%f, %xs)), @length(@rev(%xs)), @hd(@rev(%xs)))
}
"""
RELAY = """
#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  let %a = add(%x, %y);
  nn.relu(%a)
}
"""


def with_inputs(text: str, **files: dict[str, Any]) -> Callable[[Path], None]:
    """A program beside files of inputs."""

    def write(path: Path) -> None:
        path.write_text(HEAD + text.strip("\n") + "\n", "utf-8")
        for name, arrays in files.items():
            np.savez(path.parent / f"{name}.npz", **arrays)

    return write


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


PRODUCT = with_inputs(
    TWO, good={"a": ones(2, 5), "b": ones(5, 2)}, other={"a": ones(2, 5), "b": ones(4, 2)}, unknown={"d": ones(1)}
)

SHOWN: tuple[Shown, ...] = (
    Shown(
        "J11 J12 J21",
        "run FILE.py --text\nrun FILE.py --inputs good.npz",
        PRODUCT,
        (
            r"-> R\.Tensor\(\(n, n\), dtype=\"float32\"\)",
            r"c = Tensor\(\(1, 2\), float32\).*output_0: Tensor\(\(2, 2\), float32\)",
        ),
    ),
    Shown(
        "J12",
        "run FILE.py --inputs other.npz",
        PRODUCT,
        (r"axis 0 of input 'b' is 4, expected 5, the value of m by axis 1 of input 'a' \[input\.C4\]",),
        code=2,
    ),
    Shown(
        "J21",
        "run FILE.py --inputs unknown.npz",
        PRODUCT,
        (r"unknown input 'd'; the inputs are a, b, c \[input\.C1\]",),
        code=2,
    ),
    Shown(
        "R7 R19 J12",
        "run FILE.py --dim m=2 --dim k=2 --dim p=4",
        CAST,
        (r"output_1: Tensor\(\(3,\), float32\) \w+ \[0\., 0\., 0\.\] output_2: Tensor\(\(4,\)",),
    ),
    Shown(
        "R7 J12",
        "run FILE.py --dim m=2 --dim k=3 --dim p=4",
        CAST,
        (
            (
                r"trap \(shape\).*axis 1 of the value is 3, expected 2, the value of n by axis 0 of the value"
                r" \[match_cast\.T1\]"
            ),
        ),
        code=1,
    ),
    Shown(
        "R7 J12",
        "run FILE.py --dim m=2 --dim k=2 --dim p=5",
        CAST,
        (r"axis 0 of the value is 5, expected 4 = \(n \* 2\)",),
        code=1,
    ),
    Shown("J17 R7", "check FILE.py --dim m=2 --dim k=2 --dim p=4", CAST, (r"pool proved.*compare tested",)),
    Shown(
        "J17",
        "check FILE.py --dim m=2 --dim k=3 --dim p=4",
        CAST,
        (r"at m=2 k=3 p=4 the program breaks a rule: .*cannot be Tensor\(\(n, n\), float32\) \[match_cast\.C1\]",),
        code=2,
    ),
    Shown(
        "J17 R37",
        "check FILE.py --stop-after pool --dump DIR",
        OPEN,
        (r"pool proved",),
        files={"01-import.py": r"-> R\.Tensor\(\(2,\)"},
    ),
    Shown("J17", "run FILE.py --seed 0\nrun FILE.py --seed 1", ARMS, (r"(?s)3\..*2\.|2\..*3\.",)),
    Shown("J17", "check FILE.py --stop-after pool", ARMS, (r"pool +proved",)),
    Shown(
        "R19",
        "run FILE.py --inputs in.npz",
        with_inputs(COUNTED, **{"in": {"x": np.float32([2, 1, 2]), "s": np.array([2, 1])}}),
        (
            (
                r"output_0: Tensor\(\(6,\), float32\) .*output_1: Shape\(3,\) output_2: Shape\(2, 1\) output_3:"
                r" Tensor\(\(3, 6\)"
            ),
        ),
    ),
    Shown(
        "J14",
        "check FILE.py --skip fuse --stop-after pool --dump DIR",
        VIEWED,
        (r"2 steps; 3 buffers, 48 B",),
        files={
            "08-pool.main.txt": (
                r"kernel='exp' reads=\('x'\) writes=\('a'\)[^\n]*\n[^\n]*kernel='nn_softmax' reads=\('a'\)"
            )
        },
    ),
    Shown("J15 R17", "run FILE.py", GROWING, (r"output_0: Tensor\(\(6,\), float32\) \w+ \[[-\d.]+ *(, 1\. *){5}\]",)),
    Shown(
        "J15",
        "check FILE.py",
        GROWING,
        (r"1 loop, 2 measured sizes \(room for grow\.n up to 1025\).*C bit for bit the machine's",),
    ),
    Shown(
        "J16",
        "run FILE.py\nbuild FILE.py -o DIR\nverify DIR",
        EMPTY,
        (
            (
                r"output_0: Tensor\(\(3,\), float32\) \w+ \[0\., 0\., 0\.\] output_1: Tensor\(\(0, 3\).*compare"
                r" tested.*certificate checked"
            ),
        ),
    ),
    Shown(
        "J18",
        "run FILE.relay",
        LISTS,
        (
            (
                r"output_0: Tensor\(\(\), int32\) \w+ 40 output_1: Tensor\(\(\), int32\) \w+ 3 output_2: Tensor\(\(\),"
                r" int32\) \w+ 3"
            ),
        ),
    ),
    Shown(
        "R26 J11",
        "run FILE.relay --text\nrun FILE.relay --dim x_0=3 --dim y_0=1",
        RELAY,
        (r"x: R\.Tensor\(\(x_0, 4\).*output_0: Tensor\(\(3, 4\)",),
    ),
    Shown("R26 J12", "run FILE.relay --dim x_0=3 --dim y_0=2", RELAY, (r"trap \(shape\)",), code=1),
    Shown(
        "R26 J17",
        "build FILE.relay --dim x_0=3 --dim y_0=1 -o DIR\nverify DIR --model FILE.relay",
        RELAY,
        (r"compare tested.*model checked .*certificate checked",),
    ),
    Shown("R26 J17", "check FILE.relay --dim x_0=3 --dim y_0=3 --stop-after pool", RELAY, ("pool proved",)),
    Shown(
        "R26", "check FILE.relay --dim x_0=3 --dim y_0=2", RELAY, (r"at x_0=3 y_0=2 the program breaks a rule",), code=2
    ),
)
