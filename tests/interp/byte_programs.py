"""Programs that see one memory as numbers of several dtypes: some by hand, and random ones with a model of bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Expr, Var, apply, cast, const, reinterpret
from assay.semantics.tensor import Alias, Allocate, Buffer, PrimFunc, Stmt, View, loops, seq, store
from assay.semantics.tensor.calls import as_expr
from assay.semantics.tensor.places import strides_of
from assay.semantics.text.module_text import parse

Array = np.ndarray[Any, Any]

HEAD = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32"), p: T.Buffer((32,), "uint8")):
"""
X = np.arange(8, dtype=np.float32) * np.float32(1.5) - 3


def module(body: str) -> Module:
    """`body` as the kernel of a module."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    found = parse(HEAD + lines, "bytes.py")
    check(found)
    return found


BYTES = X.view(np.uint8)
PAIRS = X.reshape(4, 2)[::-1].reshape(-1)
BODIES: dict[str, tuple[str, Array, Array]] = {
    "bits of the same width": (
        """
w = T.decl_buffer((8,), 'int32', data=x.data)
u = o.view('uint32')
for i in range(8):
    u[i] = T.Cast('uint32', w[7 - i])
for i in range(32):
    p[i] = T.uint8(0)
""",
        X[::-1],
        np.zeros(32, np.uint8),
    ),
    "bytes of an input": (
        """
v = x.view('uint8')
for i in T.vectorized(32):
    p[i] = v[i]
for i in range(8):
    o[i] = x[i]
""",
        X,
        BYTES,
    ),
    "wider, both ways": (
        """
w = x.view('int64')
u = T.decl_buffer((4,), 'int64', data=o.data)
for i in T.parallel(4):
    u[i] = w[3 - i]
q = p.view('float32')
for i in range(8):
    q[i] = o[i]
""",
        PAIRS,
        PAIRS.view(np.uint8),
    ),
    "halves of an output": (
        """
v = o.view('uint16')
w = p.view('float32')
for i in range(8):
    w[i] = x[i]
for i in range(16):
    v[i] = T.Cast('uint16', p[i * 2]) + T.Cast('uint16', p[i * 2 + 1]) * T.uint16(256)
""",
        X,
        BYTES,
    ),
    "memory used again": (  # as TVM's StorageRewrite has it
        """
t = T.alloc_buffer((8,), 'float32')
b = T.decl_buffer((32,), 'int8', data=t.data)
for i in range(8):
    t[i] = x[i]
for i in range(8):
    o[i] = t[i]
for i in range(32):
    b[i] = T.Cast('int8', 31 - i)
for i in range(32):
    p[i] = T.Cast('uint8', b[i])
""",
        X,
        np.arange(31, -1, -1, dtype=np.uint8),
    ),
    "truth in bytes": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((2, 4), 'int64')
v = t.view('uint8')
b = T.decl_buffer((64,), 'bool', data=t.data)
for i, j in T.grid(2, 32):
    v[i, j] = T.Cast('uint8', j % 2)
for i in range(32):
    b[i + 32] = not b[i]
for i in range(32):
    p[i] = T.if_then_else(b[i + 32], T.uint8(7), T.uint8(1))
""",
        X,
        np.tile(np.array([7, 1], np.uint8), 16),
    ),
    "a view of a view": (
        """
for i in range(8):
    o[i] = x[i]
v = T.decl_buffer((8,), 'uint16', data=x.data, strides=[2])
w = T.decl_buffer((7,), 'uint16', data=v.data, elem_offset=1)
for i in range(7):
    p[i] = T.Cast('uint8', w[i] & T.uint16(255))
for i in range(7, 32):
    p[i] = T.uint8(9)
""",
        X,
        np.concatenate([X.view(np.uint16)[2::2].astype(np.uint8), np.full(25, 9, np.uint8)]),
    ),
    "one element": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((1,), 'float32', scope='local')
v = t.view('uint8')
for i in range(8):
    t[0] = x[i]
    for j in range(4):
        p[i * 4 + j] = v[j]
""",
        X,
        BYTES,
    ),
    "threads of one number": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((2,), 'float32')
v = t.view('uint8')
for i in T.parallel(8):
    v[i] = T.Cast('uint8', i)
w = t.view('uint8')
for i in range(32):
    p[i] = w[i % 8]
""",
        X,
        np.tile(np.arange(8, dtype=np.uint8), 4),
    ),
    "a block that says what it touches": (
        """
for i in range(8):
    with T.sblock('b'):
        vi = T.axis.spatial(8, i)
        T.reads(x[vi])
        T.writes(o[vi], p[vi * 4:vi * 4 + 4])
        v = T.decl_buffer((32,), 'uint8', data=x.data)
        o[vi] = x[vi]
        for j in range(4):
            p[vi * 4 + j] = v[vi * 4 + j]
""",
        X,
        BYTES,
    ),
}
"""A body, and what it makes of X."""

TRAPS: dict[str, tuple[str, str, str]] = {
    "a byte that nobody wrote": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((8,), 'float32')
b = t.view('int8')
for i in range(31):
    b[i] = T.int8(1)
for i in range(32):
    p[i] = T.Cast('uint8', t[i // 4])
""",
        "unwritten read",
        "byte 3 of t[7]",
    ),
    "an output with a byte missing": (
        """
b = o.view('int8')
for i in range(31):
    b[i] = T.int8(1)
for i in range(32):
    p[i] = T.uint8(0)
""",
        "unwritten output",
        "the first is o[7]",
    ),
    "no truth": (
        """
for i in range(8):
    o[i] = x[i]
b = T.decl_buffer((32,), 'bool', data=x.data)
for i in range(32):
    p[i] = T.Cast('uint8', b[i])
""",
        "cast",
        "b[2]",
    ),
    "no truth is stored": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((4,), 'bool')
w = t.view('uint32')
w[0] = T.uint32(513)
for i in range(32):
    p[i] = T.uint8(1)
""",
        "cast",
        "t[0]|t[1]",
    ),
    "an input": (
        """
T.func_attr({"num_outputs": 2})
for i in range(8):
    o[i] = x[i]
b = x.view('int8')
b[3] = T.int8(1)
for i in range(32):
    p[i] = T.uint8(1)
""",
        "store to constant",
        "x",
    ),
    "beyond the end": (
        """
for i in range(8):
    o[i] = x[i]
b = T.decl_buffer((5,), 'int64', data=x.data)
for i in range(32):
    p[i] = T.Cast('uint8', b[i // 7])
""",
        "out of bounds",
        "b",
    ),
    "partly beyond the end": (
        """
for i in range(8):
    o[i] = x[i]
b = T.decl_buffer((1,), 'int64', data=p.data, elem_offset=0)
c = T.decl_buffer((3,), 'uint8', data=x.data)
d = T.decl_buffer((1,), 'uint32', data=c.data)
b[0] = T.Cast('int64', d[0])
for i in range(8, 32):
    p[i] = T.uint8(1)
""",
        "out of bounds",
        "d",
    ),
    "two threads of one byte": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((2,), 'float32')
v = t.view('uint8')
for i in T.parallel(8):
    v[i // 2] = T.Cast('uint8', i)
for i in range(32):
    p[i] = T.uint8(1)
""",
        "race",
        "byte 0 of t",
    ),
    "a number and one of its bytes": (
        """
for i in range(8):
    o[i] = x[i]
t = T.alloc_buffer((2,), 'float32')
v = t.view('uint8')
for i in T.parallel(2):
    t[i] = T.float32(1)
    v[3] = T.uint8(1)
for i in range(32):
    p[i] = T.uint8(1)
""",
        "race",
        "byte 3 of t",
    ),
    "what a block does not say": (
        """
for i in range(8):
    with T.sblock('b'):
        vi = T.axis.spatial(8, i)
        T.reads(x[0:2])
        T.writes(o[vi], p[vi * 4:vi * 4 + 4])
        v = T.decl_buffer((32,), 'uint8', data=x.data)
        o[vi] = x[0]
        for j in range(4):
            p[vi * 4 + j] = v[vi + 1]
""",
        "undeclared access",
        "",
    ),
    "not where it says": (
        """
for i in range(8):
    o[i] = x[i]
b = T.decl_buffer((4,), 'uint8', data=x.data, elem_offset=3, align=4)
for i in range(32):
    p[i] = b[i % 4]
""",
        "misaligned",
        "b",
    ),
}
"""A body, the kind of trap, and words of its message: one of those between bars."""


# --- random programs -----------------------------------------------------------------------------------------------

KINDS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
SMALL = 0x3F
"""The greatest byte that is stored: no NaN is made of such."""


class Bytes:
    """One random function, and what it does to bytes: each buffer has the addresses of the bytes of its elements."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        rng = self.rng
        size = rng.choice((16, 24, 32, 48))
        self.addresses: dict[Buffer, Array] = {}
        self.memory = np.zeros(size, np.uint8)
        self.steps: list[Callable[[], None]] = []
        self.input = Buffer("x", (size,), DTYPES["uint8"])
        self.output = Buffer("out", (size,), DTYPES["uint8"])
        root = self.buffer("t", size)
        self.addresses[root] = np.arange(size).reshape(*root.static_shape, -1)
        views = [self.view(k) for k in range(rng.randint(1, 4))]
        fill = Buffer("fill", (size,), DTYPES["uint8"])
        views.append(self.whole(fill, root))
        body: list[Stmt] = [loops("i", (size,), lambda i: store(fill, i, self.input[i]))]
        body += [self.statement() for _ in range(rng.randint(1, 5))]
        body.append(loops("i", (size,), lambda i: store(self.output, i, fill[i])))
        inner: Stmt = seq(*body)
        for v in reversed(views):
            inner = Alias(v, inner)
        self.func = PrimFunc(f"bytes{seed}", (self.input, self.output), 1, Allocate(root, inner))

    def buffer(self, name: str, size: int) -> Buffer:
        """Numbers that fill `size` bytes, in one or two dimensions."""
        of = DTYPES[self.rng.choice([k for k in KINDS if size % DTYPES[k].itemsize == 0])]
        count = size // of.itemsize
        rows = self.rng.choice([r for r in (1, 2, 3, 4) if count % r == 0])
        return Buffer(name, (rows, count // rows) if rows > 1 else (count,), of)

    def whole(self, buffer: Buffer, source: Buffer) -> View:
        flat = self.addresses[source].reshape(-1)
        self.addresses[buffer] = flat.reshape(*buffer.static_shape, buffer.dtype.itemsize)
        return View(buffer, source, const(0), tuple(map(as_expr, strides_of(buffer.shape))))

    def view(self, number: int) -> View:
        """A view of some buffer: all of it, or numbers with a distance between them."""
        source = self.rng.choice(list(self.addresses))
        flat = self.addresses[source].reshape(-1)
        whole = self.buffer(f"v{number}", len(flat))
        width = whole.dtype.itemsize
        if self.rng.random() < 0.5:
            return self.whole(whole, source)
        offset = self.rng.randrange(len(flat) // width)
        step = self.rng.randint(1, 3)
        count = 1 + self.rng.randrange((len(flat) // width - 1 - offset) // step + 1)
        made = Buffer(f"v{number}", (count,), whole.dtype)
        starts = (offset + step * np.arange(count)) * width
        self.addresses[made] = flat[starts[:, None] + np.arange(width)]
        return View(made, source, const(offset), (const(step),))

    def statement(self) -> Stmt:
        """A loop that stores to some buffer at a moving place what another one has."""
        rng = self.rng
        to, by = rng.choice(list(self.addresses)), rng.choice(list(self.addresses))
        count, shift = rng.randint(1, 6), rng.randrange(6)
        mask = int.from_bytes(bytes([SMALL]) * to.dtype.itemsize, "little")

        def at(buffer: Buffer, number: Any) -> tuple[Any, ...]:
            """The element of that number, counted round and round."""
            places = []
            for d in reversed(buffer.static_shape):
                places.insert(0, number % d)
                number = number // d
            return tuple(places)

        def body(i: Var) -> Stmt:
            unsigned = _unsigned(to.dtype)
            bits = cast(_bits(by[at(by, i + shift)]), unsigned)
            value = apply("bitand", bits + cast(i, unsigned), const(mask, unsigned))
            return store(to, at(to, i * 5 + shift), reinterpret(value, to.dtype))

        def step() -> None:
            for i in range(count):
                given = self.memory[self.addresses[by][at(by, i + shift)]]
                number = (int.from_bytes(given.tobytes(), "little") + i) % (1 << 8 * to.dtype.itemsize) & mask
                made = np.frombuffer(number.to_bytes(to.dtype.itemsize, "little"), np.uint8)
                self.memory[self.addresses[to][at(to, i * 5 + shift)]] = made

        self.steps.append(step)
        return loops("i", (count,), body)

    def expected(self, x: Array) -> Array:
        """What the output is, by the model."""
        self.memory[:] = x
        for step in self.steps:
            step()
        return self.memory.copy()

    def inputs(self) -> Array:
        return np.random.default_rng(self.rng.randrange(1 << 30)).integers(
            0, SMALL + 1, self.input.shape, dtype=np.uint8
        )


def _unsigned(of: DType) -> DType:
    return DTYPES[f"uint{8 * of.itemsize}"]


def _bits(value: Expr) -> Expr:
    return reinterpret(value, _unsigned(value.dtype))
