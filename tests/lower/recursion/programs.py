"""Programs with recursion that is no tail call, each with depths to run it at."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = "@I.ir_module\nclass Module:\n"
N, V = 'R.Tensor((), "int64")', 'R.Tensor((3,), "float32")'


@dataclass(frozen=True)
class Recursive:
    """A program as text; what its whole numbers are in each run, and how many frames the last run takes."""

    text: str
    runs: tuple[tuple[int, ...], ...]
    frames: int


def program(text: str, runs: tuple[tuple[int, ...], ...], frames: int) -> Recursive:
    """A program in a short form: <N> is a whole number, <V> a vector of three floats."""
    lines = [f"    {line}" if line else line for line in text.strip("\n").splitlines()]
    return Recursive(HEAD + "\n".join(lines).replace("<N>", N).replace("<V>", V) + "\n", runs, frames)


LINEAR = program(
    """
@R.function
def f(n: <N>, x: <V>) -> <V>:
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        r = R.add(cls.f(R.subtract(n, R.const(1, "int64")), R.nn.relu(x)), x)
    return r
@R.function
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    ((0,), (1,), (2,), (9,)),
    9,
)
TREE = program(
    """
@R.function
def fib(n: <N>) -> <N>:
    if R.less(n, R.const(2, "int64")):
        r = n
    else:
        r = R.add(cls.fib(R.subtract(n, R.const(1, "int64"))), cls.fib(R.subtract(n, R.const(2, "int64"))))
    return r
@R.function
def main(n: <N>) -> <N>:
    return cls.fib(n)
""",
    ((0,), (1,), (2,), (9,)),
    8,
)
MUTUAL = program(
    """
@R.function
def even(n: <N>, x: <V>) -> <V>:
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        y = cls.odd(R.multiply(x, x), R.subtract(n, R.const(1, "int64")))
        r = R.add(y, x)
    return r
@R.function
def odd(x: <V>, n: <N>) -> <V>:
    if R.less_equal(n, R.const(0, "int64")):
        r = R.negative(x)
    else:
        z = R.exp(R.negative(x))
        y = cls.even(R.subtract(n, R.const(1, "int64")), z)
        r = R.subtract(y, z)
    return r
@R.function
def main(n: <N>, x: <V>) -> R.Tuple(<V>, <V>):
    return (cls.even(n, x), cls.odd(x, n))
""",
    ((0,), (1,), (2,), (7,)),
    7,
)
ARMS = program(
    """
@R.function
def f(n: <N>, x: <V>) -> <V>:
    small = R.less(n, R.const(5, "int64"))
    one = R.const(1, "int64")
    k = R.exp(x)
    if R.less_equal(n, R.const(0, "int64")):
        r = k
    else:
        before = R.add(x, k)
        if small:
            if R.equal(n, R.const(2, "int64")):
                a = cls.f(R.subtract(n, one), before)
            else:
                a = R.multiply(k, x)
            t = R.add(a, before)
        else:
            b = cls.f(R.subtract(n, one), k)
            c = cls.f(R.subtract(n, R.const(4, "int64")), b)
            t = R.subtract(c, R.add(b, x))
        r = R.add(R.multiply(t, k), before)
    return R.tanh(r)
@R.function
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    ((0,), (1,), (2,), (6,)),
    2,
)
LOCAL = program(
    """
@R.function
def main(n: <N>, m: <N>, x: <V>) -> <V>:
    k = R.exp(x)
    @R.function
    def f(i: <N>, y: <V>) -> <V>:
        @R.function
        def g(j: <N>, z: <V>) -> <V>:
            if R.greater(j, R.const(0, "int64")):
                s = R.add(g(R.subtract(j, R.const(1, "int64")), R.add(z, y)), R.multiply(z, k))
            else:
                s = z
            return s
        if R.greater(i, R.const(0, "int64")):
            a = g(i, y)
            b = f(R.subtract(i, R.const(1, "int64")), R.tanh(R.add(a, k)))
            r = R.subtract(g(R.const(2, "int64"), b), a)
        else:
            r = y
        return r
    return R.add(f(n, x), f(m, k))
""",
    ((0, 0), (1, 0), (2, 1), (3, 3)),
    3,
)
SIZES = program(
    """
@R.function
def f(n: <N>, x: R.Tensor(("k", 2), "float32"), y: R.Tensor(("k",), "float32")) -> R.Tensor(("k", 2), "float32"):
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        z = cls.g(R.sum(x, axis=1), R.subtract(n, R.const(1, "int64")), R.negative(x))
        r = R.add(R.add(z, x), R.expand_dims(y, axis=1))
    return r
@R.function
def g(y: R.Tensor(("j",), "float32"), n: <N>, x: R.Tensor(("j", 2), "float32")) -> R.Tensor(("j", 2), "float32"):
    r = cls.f(n, R.exp(x), y)
    return R.multiply(r, x)
@R.function
def main(n: <N>, x: R.Tensor(("rows", 2), "float32")) -> R.Tensor(("rows", 2), "float32"):
    return cls.f(n, x, R.sum(x, axis=1))
""",
    ((0,), (1,), (2,), (3,)),
    6,
)
ORDER = program(
    """
@R.function(pure=False)
def f(n: <N>, x: <V>) -> <V>:
    _0 = R.print(n, format="in {}")
    if R.less_equal(n, R.const(0, "int64")):
        r = x
    else:
        a = cls.f(R.subtract(n, R.const(1, "int64")), R.add(x, x))
        _1 = R.print(n, format="between {}")
        b = cls.f(R.subtract(n, R.const(2, "int64")), a)
        _2 = R.assert_op(R.less(n, R.const(6, "int64")), n, format="too large: {}")
        r = R.add(a, b)
    return r
@R.function(pure=False)
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    ((0,), (1,), (2,), (4,)),
    4,
)
TAILS = program(
    """
@R.function
def ack(m: <N>, n: <N>) -> <N>:
    one = R.const(1, "int64")
    if R.equal(m, R.const(0, "int64")):
        r = R.add(n, one)
    else:
        if R.equal(n, R.const(0, "int64")):
            r = cls.ack(R.subtract(m, one), one)
        else:
            r = cls.ack(R.subtract(m, one), cls.ack(m, R.subtract(n, one)))
    return r
@R.function
def main(m: <N>, n: <N>) -> <N>:
    return cls.ack(m, n)
""",
    ((0, 3), (1, 2), (2, 1), (2, 2)),
    5,
)
TUPLES = program(
    """
@R.function
def f(n: <N>, p: R.Tuple(<V>, R.Tuple(<N>, <V>)), c: R.Tensor((), "bool")) -> R.Tuple(<V>, R.Tensor((), "bool")):
    if R.less_equal(n, R.const(0, "int64")):
        r = (p[0], c)
    else:
        q = p[1]
        t = cls.f(R.subtract(n, R.const(1, "int64")), (R.add(p[0], q[1]), (q[0], p[0])), R.logical_not(c))
        r = (R.add(t[0], q[1]), R.logical_and(t[1], R.less(q[0], n)))
    return r
@R.function
def main(n: <N>, x: <V>) -> R.Tuple(<V>, R.Tensor((), "bool")):
    return cls.f(n, (x, (n, R.exp(x))), R.const(True, "bool"))
""",
    ((0,), (1,), (2,), (5,)),
    5,
)
CLOSURES = program(
    """
@R.function
def f(n: <N>, x: <V>, w: <V>) -> <V>:
    @R.function
    def scaled(y: <V>) -> <V>:
        return R.multiply(R.add(y, x), w)
    @R.function
    def twice(y: <V>) -> <V>:
        return scaled(R.negative(scaled(y)))
    if R.less_equal(n, R.const(0, "int64")):
        r = scaled(x)
    else:
        a = cls.f(R.subtract(n, R.const(1, "int64")), R.tanh(x), w)
        r = R.add(twice(a), scaled(x))
    return r
@R.function
def main(n: <N>, x: <V>, w: <V>) -> <V>:
    return cls.f(n, x, w)
""",
    ((0,), (1,), (2,), (4,)),
    4,
)
CONSTANTS = program(
    """
w = A.tensor("float32", (3,), "AACAPwAAAEAAAEBA")
@R.function
def f(n: <N>, x: <V>) -> <V>:
    k = R.multiply(cls.w, x)
    if R.less_equal(n, R.const(0, "int64")):
        r = k
    else:
        r = R.add(cls.f(R.subtract(n, R.const(1, "int64")), R.add(x, cls.w)), R.multiply(cls.w, k))
    return r
@R.function
def main(n: <N>, x: <V>) -> <V>:
    return cls.f(n, x)
""",
    ((0,), (1,), (2,), (3,)),
    3,
)
PROGRAMS = {
    "constants": CONSTANTS,
    "linear": LINEAR,
    "tree": TREE,
    "mutual": MUTUAL,
    "arms": ARMS,
    "local": LOCAL,
    "sizes": SIZES,
    "order": ORDER,
    "tails": TAILS,
    "tuples": TUPLES,
    "closures": CLOSURES,
}
