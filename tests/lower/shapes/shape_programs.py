"""Programs whose sizes only a run can tell, as text: branches, match-casts, inner functions, recursion, data types."""

from __future__ import annotations

from assay.semantics.module import Module
from assay.semantics.text.module_text import parse

HEAD = """
a = A.typevar("a")
@I.ir_module
class M:
"""

PROGRAMS: dict[str, str] = {
    "entry": (
        """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n + m", "m"), "float32"), z: R.Tensor(("m", "n", "n * m - \
2"), "int8")
    ) -> R.Tensor(("n", 4), "float32"):
        return x
"""
    ),
    "composite before its symbol": (
        """
    @R.function
    def main(x: R.Tensor(("n + 1",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.add(y, y)
"""
    ),
    "tuples": (
        """
    @R.function
    def main(t: R.Tuple(R.Tensor(("n", "m"), "float32"), R.Tuple(R.Tensor(("m",), "float32"), R.Tensor(("n + m",), \
"float32")))
    ) -> R.Tensor(("n", "m"), "float32"):
        return R.add(t[0], t[1][0])
"""
    ),
    "shapes as values": (
        """
    @R.function
    def main(s: R.Shape(["n", "n + 1", 3]), x: R.Tensor(("n", "m"), "float32")) -> R.Shape(["m - n", "n", 7]):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        t = R.shape([m - n, n, 7])
        u = R.match_cast(t, R.Shape([k, n, 7]))
        return u
"""
    ),
    "attributes": (
        """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):
        n = T.int64()
        m = T.int64()
        h = R.reshape(x, R.shape([n * m]))
        z = R.full(R.shape([n * m]), R.const(2.0, "float32"), dtype="float32")
        w = R.full(R.shape([n - m]), R.const(0.0, "float32"), dtype="float32")
        return R.add(h, z)
"""
    ),
    "division": (
        """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("q",), "float32")) -> R.Tensor(("n // m",), "float32"):
        n = T.int64()
        m = T.int64()
        a = R.match_cast(y, R.Tensor((n,), "float32"))
        z = R.full(R.shape([n // m]), R.const(2.0, "float32"), dtype="float32")
        return z
"""
    ),
    "match-casts": (
        """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("p", "q"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        a = R.match_cast(y, R.Tensor((k, k), "float32"))
        b = R.match_cast(x, R.Tensor((k + 1, k * 2), "float32"))
        c = R.match_cast(a, R.Tensor((n - 1, 3), "float32"))
        return b
"""
    ),
    "branches": (
        """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> \
R.Tensor(("n",), "float32"):
        n = T.int64()
        k = T.int64()
        j = T.int64()
        if c:
            a = R.match_cast(y, R.Tensor((k,), "float32"))
            b = R.match_cast(x, R.Tensor((k,), "float32"))
            q = R.add(a, b)
        else:
            a2 = R.match_cast(y, R.Tensor((n,), "float32"))
            q = R.add(a2, x)
        return q
"""
    ),
    "calls": (
        """
    @R.function
    def f(a: R.Tensor(("k", "k"), "float32"), b: R.Tensor(("k * 2",), "float32")) -> R.Tensor(("k",), "float32"):
        k = T.int64()
        c = R.match_cast(b, R.Tensor((k,), "float32"))
        return c

    @R.function
    def g(a: R.Tensor(("k",), "float32"), b: R.Tensor(("l",), "float32")) -> R.Tensor(("k",), "float32"):
        return b

    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        u = cls.g(y, y)
        v = cls.g(R.sum(x, axis=[1]), u)
        w = R.match_cast(v, R.Tensor((2,), "float32"))
        return cls.f(x, w)
"""
    ),
    "local functions": (
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor((5,), "float32"):
        n = T.int64()
        k = T.int64()

        @R.function
        def f(a: R.Tensor((n,), "float32"), b: R.Tensor((k, n + k), "float32")) -> R.Tensor((n + k,), "float32"):
            z = R.full(R.shape([n + k]), R.const(1.0, "float32"), dtype="float32")
            return z

        q = R.full(R.shape([3, n + 3]), R.const(1.0, "float32"), dtype="float32")
        r = f(y, q)
        s = R.match_cast(r, R.Tensor((5,), "float32"))
        return s
"""
    ),
    "recursion": (
        """
    @R.function
    def f(a: R.Tensor(("k",), "float32"), i: R.Tensor((), "int32")) -> R.Tensor((), "int64"):
        k = T.int64()
        if R.less(i, R.const(1, "int32")):
            s = R.shape([k, k - 4])
            q = R.const(0, "int64")
        else:
            b = R.concat((a, a), axis=0)
            r = cls.f(b, R.subtract(i, R.const(1, "int32")))
            t = R.shape([k + 1])
            z = R.full(R.shape([k + 1]), R.const(1, "int64"), dtype="int64")
            q = R.add(r, R.sum(z))
        return q

    @R.function
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor((), "int32")) -> R.Tensor((), "int64"):
        return cls.f(x, i)
"""
    ),
    "functions as values": (
        """
    @R.function
    def apply(f: R.Callable((R.Tensor(("j",), "float32"),), R.Tensor(("j",), "float32")), a: R.Tensor(("j",), "float32")
    ) -> R.Tensor(("j",), "float32"):
        b = f(a)
        return R.add(a, b)

    @R.function
    def two(a: R.Tensor(("i",), "float32")) -> R.Tensor(("j",), "float32"):
        return R.full(R.shape([2]), R.const(0.0, "float32"), dtype="float32")

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return cls.apply(cls.two, x)
"""
    ),
    "data types": (
        """
    @A.data(a)
    class Option:
        No = ()
        Some = (a,)

    @R.function
    def size(o: Option[R.Tensor(("k", "k"), "float32")], x: R.Tensor(("j",), "float32")) -> R.Shape(["l", 2]):
        k = T.int64()
        j = T.int64()
        match o:
            case Option.No():
                s = R.shape([j, 2])
            case Option.Some(v):
                w = R.match_cast(x, R.Tensor((k + k,), "float32"))
                s = R.shape([k - 1, 2])
        return s

    @R.function
    def main(x: R.Tensor(("n", "n"), "float32"), y: R.Tensor(("m",), "float32"), c: R.Tensor((), "bool")) -> \
R.Shape(["l", 2]):
        return cls.size(Option.Some(x), y)
"""
    ),
    "effects": (
        """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        m = T.int64()
        r = A.ref(x)
        R.print(x, format="first")
        a = R.match_cast(y, R.Tensor((n,), "float32"))
        R.print(a, format="second")
        _ = A.write(r, R.add(a, x))
        s = R.shape([n * m, n - 3])
        R.print(s, format="third")
        return A.read(r)
"""
    ),
    "result": (
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m", "l"), "float32")
    ) -> R.Tuple(R.Tensor(("n", "k"), "float32"), R.Tensor(("k + 1",), "float32"), R.Tensor(("n * 2",), "float32")):
        return (y, x, x)
"""
    ),
    "tensor functions": (
        """
    @T.prim_func(private=True)
    def double(a: T.Buffer(("p",), "float32"), b: T.Buffer(("p * 2",), "float32")):
        p = T.int64()
        for i in range(p):
            b[i] = a[i]
            b[i + p] = a[i]

    @T.prim_func(private=True)
    def fill(b: T.Buffer(("h", "h"), "float32")):
        h = T.int64()
        for i, j in T.grid(h, h):
            b[i, j] = T.float32(1)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        n = T.int64()
        m = T.int64()
        d = R.call_tir(cls.double, (x,), out_ty=R.Tensor((m,), "float32"))
        z = R.call_tir(cls.fill, R.tuple(), out_ty=R.Tensor((n + 1, m - n + 1), "float32"))
        return R.add(d, y)
"""
    ),
}


def program(name: str) -> Module:
    return parse(HEAD + PROGRAMS[name], f"{name}.py")
