"""Programs whose sizes an arm or an iteration tells, as text."""

from __future__ import annotations

from textwrap import indent

HEAD = """from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R
n = TypeVar("n")
m = TypeVar("m")
k = TypeVar("k")
p = TypeVar("p")
@I.ir_module
class Module:
"""

CHOICE = """@R.function
def main(
    c: R.Tensor((), "bool"), x: R.Tensor((n, 4), "float32"), y: R.Tensor((m, 4), "float32")
) -> R.Tensor((k, 4), "float32"):
    if c:
        r = R.add(x, x)
    else:
        r = R.concat((y, y), axis=0)
    z = R.negative(r)
    return z
"""

NESTED = """@R.function
def main(
    c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((n, 4), "float32"), y: R.Tensor((m, 4), "float32")
) -> R.Tensor((k, 4), "float32"):
    if c:
        if d:
            q = R.concat((x, y), axis=0)
        else:
            q = R.negative(x)
        r = R.concat((q, q), axis=0)
    else:
        r = R.concat((y, y), axis=0)
    return R.add(r, R.sum(r))
"""

GROWING = """@R.function
def grow(
    i: R.Tensor((), "int32"), top: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32")
) -> R.Tensor((m, 1), "int32"):
    if R.less(i, top):
        new = R.concat((st, R.reshape(i, (1, 1))), axis=0)
        r = cls.grow(R.add(i, R.const(1, "int32")), top, new)
    else:
        r = st
    return r
@R.function
def main(top: R.Tensor((), "int32"), x: R.Tensor((p, 1), "int32")) -> R.Tensor((k, 1), "int32"):
    return cls.grow(R.const(0, "int32"), top, x)
"""

TWO_SIZES = """@R.function
def go(
    i: R.Tensor((), "int32"), a: R.Tensor((n, 2), "float32"), b: R.Tensor((m, 2), "float32")
) -> R.Tuple(R.Tensor((k, 2), "float32"), R.Tensor((p, 2), "float32")):
    if R.less(i, R.const(4, "int32")):
        r = cls.go(R.add(i, R.const(1, "int32")), b, R.concat((a, b), axis=0))
    else:
        r = (a, b)
    return r
@R.function
def main(
    x: R.Tensor((n, 2), "float32"), y: R.Tensor((m, 2), "float32")
) -> R.Tuple(R.Tensor((k, 2), "float32"), R.Tensor((p, 2), "float32")):
    return cls.go(R.const(0, "int32"), x, y)
"""

SHRINKING = """@R.function
def drop(st: R.Tensor((n, 2), "float32")) -> R.Tensor((m, 2), "float32"):
    if R.greater(R.sum(st), R.const(1.0, "float32")):
        a = R.strided_slice(st, (0,), (1,), (9223372036854775807,), (1,), assume_inbound=False)
        r = cls.drop(a)
    else:
        r = st
    return r
@R.function
def main(x: R.Tensor((n, 2), "float32")) -> R.Tensor((k, 2), "float32"):
    return cls.drop(R.abs(x))
"""

TWICE = """@R.function
def grow(
    i: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32"), top: R.Tensor((), "int32")
) -> R.Tensor((m, 1), "int32"):
    if R.less(i, top):
        r = cls.grow(R.add(i, R.const(1, "int32")), R.concat((st, st), axis=0), top)
    else:
        r = st
    return r
@R.function
def main(x: R.Tensor((p, 1), "int32")) -> R.Tensor((k, 1), "int32"):
    a = cls.grow(R.const(0, "int32"), x, R.const(2, "int32"))
    b = cls.grow(R.const(0, "int32"), a, R.const(3, "int32"))
    return R.concat((a, b), axis=0)
"""

IN_A_LOOP = """@R.function
def go(i: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32")) -> R.Tensor((m, 1), "int32"):
    if R.less(i, R.const(5, "int32")):
        if R.less(i, R.const(2, "int32")):
            new = R.concat((st, st), axis=0)
        else:
            new = R.strided_slice(st, (0,), (1,), (9223372036854775807,), (1,), assume_inbound=False)
        r = cls.go(R.add(i, R.const(1, "int32")), new)
    else:
        r = st
    return r
@R.function
def main(x: R.Tensor((p, 1), "int32")) -> R.Tensor((k, 1), "int32"):
    return cls.go(R.const(0, "int32"), x)
"""

LOOP_IN_A_LOOP = """@R.function
def inner(j: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32")) -> R.Tensor((m, 1), "int32"):
    if R.greater(j, R.const(0, "int32")):
        r = cls.inner(R.subtract(j, R.const(1, "int32")), R.concat((st, R.reshape(j, (1, 1))), axis=0))
    else:
        r = st
    return r
@R.function
def outer(i: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32")) -> R.Tensor((m, 1), "int32"):
    if R.less(i, R.const(3, "int32")):
        longer = cls.inner(i, st)
        r = cls.outer(R.add(i, R.const(1, "int32")), longer)
    else:
        r = st
    return r
@R.function
def main(x: R.Tensor((p, 1), "int32")) -> R.Tensor((k, 1), "int32"):
    return cls.outer(R.const(0, "int32"), x)
"""

LAST_WAY_OUT = """@R.function
def go(i: R.Tensor((), "int32"), st: R.Tensor((n, 1), "int32")) -> R.Tensor((m, 1), "int32"):
    if R.less(i, R.const(2, "int32")):
        r = cls.go(R.add(i, R.const(1, "int32")), R.concat((st, st), axis=0))
    else:
        if R.less(R.sum(st), R.const(9, "int32")):
            r = R.concat((st, st), axis=0)
        else:
            r = st
    return r
@R.function
def main(
    c: R.Tensor((), "bool"), x: R.Tensor((p, 1), "int32"), y: R.Tensor((n, 1), "int32")
) -> R.Tensor((k, 1), "int32"):
    a = cls.go(R.const(0, "int32"), x)
    if c:
        b = R.concat((y, y), axis=0)
    else:
        b = y
    return R.concat((a, b, a), axis=0)
"""

AGREEING = """@R.function
def f(a: R.Tensor((n,), "float32"), b: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
    return R.add(a, b)
@R.function
def main(x: R.Tensor((k,), "float32"), y: R.Tensor((m,), "float32")) -> R.Tensor((k,), "float32"):
    return cls.f(x, y)
"""

PROGRAMS = {
    "choice": CHOICE,
    "nested": NESTED,
    "growing": GROWING,
    "two_sizes": TWO_SIZES,
    "shrinking": SHRINKING,
    "twice": TWICE,
    "in_a_loop": IN_A_LOOP,
    "loop_in_a_loop": LOOP_IN_A_LOOP,
    "last_way_out": LAST_WAY_OUT,
    "agreeing": AGREEING,
}


def text_of(name: str) -> str:
    """The whole text of a program."""
    return HEAD + indent(PROGRAMS[name], "    ")
