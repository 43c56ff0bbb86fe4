"""Where buffers lie: alignment as declared, scopes, and where a view begins (rules M6.12, M6.14, M6.15;
specs/semantics.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from assay.semantics.digits import is_size
from assay.semantics.dtypes import BOOL, INT64, DType
from assay.semantics.scalar import Dim, Expr, apply, as_expr, cast
from assay.semantics.scalar.expression import Buffer
from assay.semantics.tensor.views import View


def declared_number(buffer: Buffer, key: Literal["align", "offset_factor"]) -> int | None:
    """The number that a buffer declares as its alignment in bytes, or as a factor of its offset in elements."""
    text = str(buffer.notes.get(key, ""))
    return int(text) if is_size(text) and int(text) > 1 else None


def is_placed(buffer: Buffer) -> bool:
    """Whether a buffer declares anything of its place."""
    return declared_number(buffer, "align") is not None or declared_number(buffer, "offset_factor") is not None


def has_bytes(a: DType, b: DType) -> bool:
    """Whether memory of one dtype can be seen as numbers of the other: both are bytes, which 4-bit numbers are not."""
    return a is b or all(d.bits >= 8 or d is BOOL for d in (a, b))


def same_width(a: DType, b: DType) -> bool:
    """Whether the bits of a number of one dtype are those of a number of the other."""
    return a is b or (a.bits == b.bits and a.bits >= 8)


def is_kept(view: View) -> bool:
    """Whether a view stands for bytes of its memory in plain nodes (`assay.semantics.tensor.recast`)."""
    return view.buffer.dtype is not view.source.dtype


def is_private(buffer: Buffer) -> bool:
    """Whether a buffer's memory belongs to one thread: registers, or a stack."""
    return buffer.scope.split(".")[0] in ("local", "warp")


def said_scope(buffer: Buffer, views: Mapping[Buffer, View]) -> str:
    """The scope of the memory that a buffer names: its own or, where that is open, the first that a source of it says;
    "" where none does. `views` are those that may lie between."""
    while not buffer.scope and buffer in views:
        buffer = views[buffer].source
    return buffer.scope


def crosses(view: View, views: Mapping[Buffer, View]) -> bool:
    """Whether a view says that its memory is in another scope than its source says (rule M6.12)."""
    return said_scope(view.source, views) not in ("", view.buffer.scope) and view.buffer.scope != ""


def strides_of(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """How many elements one step in each dimension is, in row-major order."""
    strides: list[Dim] = []
    step: Dim = 1
    for d in reversed(shape):
        strides.insert(0, step)
        step = apply("mul", d, step) if isinstance(d, Expr) else d * step
    return tuple(strides)


def dense_strides(shape: Sequence[Dim]) -> tuple[Expr, ...]:
    """The strides of a row-major buffer of that shape, as int64 expressions."""
    return tuple(map(as_expr, strides_of(shape)))


def unravel(flat: Expr, shape: Sequence[Dim]) -> tuple[Expr, ...]:
    """The indices of an element by its place in row-major order; the first one takes what is too much."""
    steps = strides_of(shape)
    return tuple((flat // s) % d if k else flat // s for k, (s, d) in enumerate(zip(steps, shape, strict=True)))


def first_element(view: View, views: Mapping[Buffer, View]) -> Expr:
    """The element of the memory at which a view begins, as an expression; `views` are those that may lie between."""
    at = cast(view.offset, INT64)
    while view.source in views:
        view = views[view.source]
        shape = [apply("max", d, 1) if isinstance(d, Expr) else max(d, 1) for d in view.buffer.shape]
        at, index = cast(view.offset, INT64), unravel(at, shape)
        for i, s in zip(index, view.strides, strict=True):
            at = at + i * cast(s, INT64)
    return at


def first_byte(byte: int, outer: Sequence[tuple[Sequence[int], int, Sequence[int], int]]) -> int:
    """The same in bytes, as numbers; `outer` are the views between, nearest first: shape, offset, strides and the bytes
    of an element of each."""
    for shape, start, strides, width in outer:
        sizes = [max(n, 1) for n in shape]
        steps = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
        flat, rest = divmod(byte, width)
        index = [flat // s % n if k else flat // s for k, (s, n) in enumerate(zip(steps, sizes, strict=True))]
        byte = (start + sum(i * s for i, s in zip(index, strides, strict=True))) * width + rest
    return byte
