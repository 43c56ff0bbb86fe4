"""What the kernels share: loop nests, broadcasting, padding (specs/lower.md, "Kernels").

The shape of a nest matters twice: the interpreter of lanes turns independent loops into NumPy axes, and a C compiler
vectorises the innermost one. So loops whose iterations are independent are always `parallel`, a reduction is a serial
loop outside the loops over the plane that it accumulates into, and padding is done once, beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from assay.semantics.dtypes import FLOAT64
from assay.semantics.errors import Crash
from assay.semantics.operator import Attrs
from assay.semantics.ops.meeting import may_stretch
from assay.semantics.scalar import Const, Dim, Expr, Number, apply, cast, const, select, simplify
from assay.semantics.tensor import Allocate, Buffer, LoopKind, PrimFunc, Stmt, loops, seq, store
from assay.semantics.types import TensorType, Type, flatten

MOST_ELEMENTS = 2.0**63
"""No axis, and no tensor, has as many."""

Kernel: TypeAlias = Callable[[str, Attrs, tuple[TensorType, ...], Type], PrimFunc]
"""kernel(name, attributes with defaults filled in, operand types, result type): the operator as a tensor function."""


def kernel(names: str, body: Callable[..., Stmt]) -> Kernel:
    """The kernel whose body is body(name, attributes, *inputs, *outputs); `names` are those of the inputs."""

    def made(name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type) -> PrimFunc:
        inputs, outputs = parameters(names, operands, result)
        return PrimFunc(name, (*inputs, *outputs), len(outputs), body(name, attrs, *inputs, *outputs))

    return made


def parameters(
    names: str, operands: Sequence[TensorType], result: Type
) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    """Input buffers with the names given (a word for each possible operand), and output buffers for the result."""
    words = names.split()
    if len(operands) > len(words):
        raise Crash(f"{len(operands)} operands for a kernel of {names!r}")
    inputs = tuple(Buffer(word, t.shape, t.dtype) for word, t in zip(words, operands, strict=False))
    return inputs, results(result)


def results(result: Type) -> tuple[Buffer, ...]:
    """An output buffer for each tensor of the result."""
    types = flatten(result)
    names = ["out"] if isinstance(result, TensorType) else [f"out{k}" for k in range(len(types))]
    return tuple(Buffer(n, t.shape, t.dtype) for n, t in zip(names, types, strict=True))


def allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    """`body` with memory for buffers around it, the first outermost."""
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


def nest(prefix: str, extents: Sequence[Dim], body: Callable[..., Stmt], kind: LoopKind = "parallel") -> Stmt:
    """Loops over a box, outermost first, with variables prefix0, prefix1, ...; independent ones unless said.

    Words before the prefix name the first variables: "n c i" gives n, c, i0, i1, ...
    """
    *first, last = prefix.split()
    words = [*first, *(f"{last}{k}" for k in range(len(extents) - len(first)))]
    return loops(" ".join(words), extents, body, kind)


def accumulated(
    out: Buffer,
    at: Callable[..., tuple[Expr, ...]],
    plane: Sequence[Dim],
    op: str,
    start: Const,
    box: Sequence[Dim],
    term: Callable[[tuple[Expr, ...], tuple[Expr, ...]], Expr],
    finish: Callable[[Expr, tuple[Expr, ...]], Expr] | None = None,
    prefix: str = "k",
) -> list[Stmt]:
    """Statements that take each element of a plane of `out`, which lies `at` its place there, from `start` on: one term
    after another over a box, by place in the plane and in the box. `finish` makes the result of what comes out.

    So the order of operations is that of the box, row-major, whatever the plane (rule M10).
    """

    def each(value: Callable[..., Expr]) -> Stmt:
        return nest("i", plane, lambda *i: store(out, at(*i), value(*i)))

    def add(*k: Expr) -> Stmt:
        return each(lambda *i: apply(op, out[at(*i)], term(i, k)))

    steps = [each(lambda *i: start), nest(prefix, box, add, "serial")]
    return [*steps, each(lambda *i: finish(out[at(*i)], i))] if finish is not None else steps


def negated(size: Dim) -> Dim:
    """-size: the first place that counts from the end."""
    return simplify(size * -1)


def broadcast(shape: Sequence[Dim], indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices at which a tensor of that shape is read for an element of a result it was broadcast to."""
    own = indices[len(indices) - len(shape) :]
    return tuple(_place(d, i) for d, i in zip(shape, own, strict=True))


def _place(size: Dim, index: Expr) -> Expr:
    """Where an axis of that size is read: at 0 where it is 1, which of some sizes a run decides."""
    if isinstance(size, int):
        return const(0) if size == 1 else index
    return select(apply("eq", size, 1), 0, index) if may_stretch(size) else index


def padded(
    x: Buffer,
    before: Sequence[Dim],
    shape: Sequence[Dim],
    fill: Const,
    body: Callable[[Buffer], Stmt],
    value: Callable[[Expr], Expr] = lambda e: e,
) -> Stmt:
    """`body` with a workspace of `shape` that holds value(x) after `before` elements of each axis, else `fill`.

    A fill of the whole and a copy of the interior, so that no loop has a condition.
    """
    buffer = Buffer(f"{x.name}_padded", tuple(shape), x.dtype)
    fills = nest("p", shape, lambda *p: store(buffer, p, fill))
    copies = nest("p", x.shape, lambda *p: store(buffer, shifted(p, before), value(x[p])))
    return Allocate(buffer, seq(fills, copies, body(buffer)))


def shifted(indices: Sequence[Expr], by: Sequence[Dim]) -> tuple[Number, ...]:
    """Indices moved by a size for each axis."""
    return tuple(i + b for i, b in zip(indices, by, strict=True))


def divided(total: Expr, count: Dim) -> Expr:
    """total / count, in the dtype of the total. A count beyond what that holds is divided by in several steps."""
    most = float(total.dtype.max)
    if isinstance(count, Expr):
        return _divided_by_symbol(total, cast(count, FLOAT64), most)
    rest = float(count)
    while rest > most:
        step = _power_of_two(most)
        total, rest = total / step, rest / step
    return total / rest


def _divided_by_symbol(total: Expr, count: Expr, most: float) -> Expr:
    """The same steps for a count that the run tells: each divides by `step` or by 1."""
    rest, scale = count, 1.0
    while most * scale < MOST_ELEMENTS:
        step, further = _power_of_two(most), count > most * scale
        total = total / cast(select(further, const(step, FLOAT64), const(1.0, FLOAT64)), total.dtype)
        scale *= step
        rest = select(further, count / scale, rest)
    return total / cast(rest, total.dtype)


def _power_of_two(most: float) -> float:
    """The largest power of two that is no larger."""
    return 2.0 ** math.floor(math.log2(most))


def window_extent(count: int, stride: int, size: int, dilation: int) -> int:
    """How far `count` windows of `size` elements reach from the start of the first."""
    return (count - 1) * stride + (size - 1) * dilation + 1 if count > 0 else 0


def strided(
    out: Sequence[Expr], strides: Sequence[int], window: Sequence[Expr], dilation: Sequence[int]
) -> tuple[Expr, ...]:
    """Where the windows at `out` read for the position `window` in them."""
    return tuple(i * s + k * d for i, s, k, d in zip(out, strides, window, dilation, strict=True))
