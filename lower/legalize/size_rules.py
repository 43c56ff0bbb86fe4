"""What an operator asks of sizes that are symbols, as assertions of its kernel (specs/lower.md, "legalize").

Where sizes are numbers the type rule has refused a window that does not fit, or the maximum of no elements; where they
are symbols a run does, and so does the kernel, before anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from assay.semantics.dtypes import INT64
from assay.semantics.graph.effects import operator_can_trap
from assay.semantics.operator import Attrs, Operator
from assay.semantics.ops.pooling import Axis
from assay.semantics.scalar import Dim, Expr, apply, cast, show, simplify
from assay.semantics.tensor import Assert, PrimFunc, seq
from assay.semantics.types import TensorType, Type, flatten


def with_size_rules(
    kernel: PrimFunc, op: Operator, attrs: Attrs, operands: Sequence[TensorType], result: Type
) -> PrimFunc:
    """The kernel with an assertion before its body for each size that the operator refuses at some numbers; itself
    where there is none."""
    if not operator_can_trap(op, [t.shape for t in operands], attrs):
        return kernel
    needs = _needs(op, attrs, operands, flatten(result))
    asked = [a for need in needs if (a := _asserted(op.name, *need)) is not None]
    return replace(kernel, body=seq(*asked, kernel.body)) if asked else kernel


Need: TypeAlias = tuple[Dim, Dim, str]
"""A size, what it is at most, and what is wrong where it is more."""


def _needs(op: Operator, attrs: Attrs, operands: Sequence[TensorType], results: Sequence[TensorType]) -> Iterator[Need]:
    x = operands[0].shape
    match op.family:
        case "contraction" | "pooling":
            for k, (size, count) in enumerate(zip(x[2:], results[0].shape[2:], strict=True)):
                what = f"no window fits axis {k + 2} of size {show(size)}"
                yield 1, count, what
                if op.family == "pooling":
                    yield 1, size, what
                    yield (
                        _reached(attrs, len(x) - 2, k),
                        size,
                        f"a window misses the {show(size)} elements of axis {k + 2}",
                    )
        case "reduction":
            axes = attrs.get("axis")
            for a in range(len(x)) if axes is None else axes:
                yield 1, x[a], "an axis that is reduced has size 0"
        case "movement" if op.name == "nn.pad":
            yield from _padded(attrs, x)
        case "stepwise":
            size, k = x[attrs.get("axis", -1)], attrs.get("k", 0)
            yield k, size, f"{show(k)} of {show(size)} elements are wanted"
            yield 0, k, f"{show(k)} elements are wanted"


def _padded(attrs: Attrs, shape: Sequence[Dim]) -> Iterator[Need]:
    """What is left of an axis that is cropped, and what there has to be to mirror or to repeat."""
    rank = len(shape)
    for a, size in enumerate(shape):
        before, after = attrs["pad_width"][a], attrs["pad_width"][a + rank]
        cropped, most = min(before, 0) + min(after, 0), max(before, after, 0)
        left = simplify(size + cropped)
        if cropped:
            yield 0, left, f"axis {a} of {show(size)} elements is cropped by {-cropped}"
        if most and attrs["mode"] != "constant":
            least = most + 1 if attrs["mode"] == "reflect" else 1
            yield least, left, f"axis {a} has {show(left)} elements to {attrs['mode']}, too few for a padding of {most}"


def _reached(attrs: Attrs, rank: int, axis: int) -> int:
    """The size from which on each window takes something that counts: its elements may lie on both sides of a smaller
    axis. Where sizes that are too small and others alternate, all are let through."""
    windows = Axis(attrs, rank, axis)
    small = range(1, windows.dilation)
    wrong = [n for n in small if windows.fault(n, bool(attrs.get("count_include_pad", False)))]
    return len(wrong) + 1 if wrong == list(small)[: len(wrong)] else 1


def _asserted(name: str, low: Dim, high: Dim, what: str) -> Assert | None:
    """That one size is at most another; nothing where both are numbers."""
    if not isinstance(low, Expr) and not isinstance(high, Expr):
        return None
    return Assert(apply("le", cast(low, INT64), cast(high, INT64)), f"{name}: {what}", "shape")
