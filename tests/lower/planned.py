"""Planned programs made by hand for the tests of the generated C: kernels in a row, each slot at bytes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp.tensor import run
from assay.semantics.dtypes import INT64, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Expr, apply
from assay.semantics.tensor import Buffer, PrimFunc, loops, store, when
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
ALIGN = 64


def planned(
    steps: Sequence[tuple[PrimFunc, Sequence[str], Sequence[str]]],
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
) -> Module:
    """A program of (kernel, slots read, slots written); what is no input, output or constant lies in the workspace."""
    slots: dict[str, Slot] = {}
    made: list[Step] = []
    end = 0
    last = len(steps)
    for name, type_ in inputs.items():
        slots[name] = Slot(name, type_, "input", ((0, last),), ALIGN)
    table = 0
    for name, array in (constants or {}).items():
        slots[name] = Slot(name, TensorType(array.shape, dtype(array.dtype)), "constant", ((0, last),), ALIGN, table)
        table += -(-array.nbytes // ALIGN) * ALIGN

    def workspace(name: str, buffer: Buffer, at: int) -> None:
        nonlocal end
        slots[name] = Slot(name, TensorType(buffer.static_shape, buffer.dtype), "workspace", ((at, last),), ALIGN, end)
        end += -(-buffer.nbytes // ALIGN) * ALIGN

    for i, (kernel, reads, writes) in enumerate(steps):
        for buffer, name in zip(kernel.outputs, writes, strict=True):
            if name in outputs and name not in slots:
                slots[name] = Slot(name, TensorType(buffer.static_shape, buffer.dtype), "output", ((i, last),), ALIGN)
            elif name not in slots:
                workspace(name, buffer, i)
        scratch = tuple(f"{i}.{k}.{b.name}" for k, b in enumerate(kernel.allocations))
        for name, buffer in zip(scratch, kernel.allocations, strict=True):
            workspace(name, buffer, i)
        made.append(Step(kernel.name, tuple(reads), tuple(writes), scratch))
    program = Program(slots, tuple(made), tuple(inputs), tuple(outputs), sizes={"workspace": end})
    return Module({"main": program, **{k.name: k for k, _, _ in steps}}, dict(constants or {}))


def alone(kernel: PrimFunc) -> Module:
    """One kernel as a program; its slots are called as its buffers."""
    inputs = {b.name: TensorType(b.static_shape, b.dtype) for b in kernel.inputs}
    outputs = [b.name for b in kernel.outputs]
    return planned([(kernel, list(inputs), outputs)], inputs, outputs)


def lanes(name: str, of: Sequence[DType], result: DType, count: int, value: Callable[..., Expr]) -> PrimFunc:
    """out[i] = value(x0[i], x1[i], ...) for i below `count`."""
    ins = tuple(Buffer(f"x{k}", (count,), d) for k, d in enumerate(of))
    out = Buffer("out", (count,), result)
    return PrimFunc(name, (*ins, out), 1, loops("i", (count,), lambda i: store(out, i, value(*(b[i] for b in ins)))))


def choosing(kernels: Sequence[PrimFunc]) -> Module:
    """Kernels of which the input `which` chooses the one that runs; kernel i has the slots `k{i}_...` for its buffers."""
    steps, types = [], {"which": TensorType((), INT64)}
    for i, k in enumerate(kernels):
        which = Buffer("which", (), INT64)
        guarded = PrimFunc(f"k{i}", (which, *k.params), k.num_outputs, when(apply("eq", which[()], i), k.body))
        types.update({f"k{i}_{b.name}": TensorType(b.static_shape, b.dtype) for b in k.inputs})
        steps.append((guarded, ["which", *(f"k{i}_{b.name}" for b in k.inputs)], [f"k{i}_{b.name}" for b in k.outputs]))
    return planned(steps, types, [name for _, _, writes in steps for name in writes])


def interpreted(kernel: PrimFunc, inputs: Sequence[Array]) -> tuple[Array, ...] | Trap:
    """What the definition says: the outputs, or the trap."""
    try:
        return run(kernel, inputs)
    except Trap as trap:
        return trap


def same_bits(a: Array, b: Array) -> bool:
    """Equal in dtype, shape and bits; a NaN equals every other (rule M5: payloads are not observed)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = a.reshape(-1), b.reshape(-1)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    equal = x.view(unsigned) == y.view(unsigned)
    if a.dtype.kind in "fV":
        equal |= (x != x) & (y != y)
    return bool(np.all(equal))


def differing(a: Array, b: Array) -> str:
    """The first place where two arrays differ, for messages."""
    for i, (x, y) in enumerate(zip(a.reshape(-1), b.reshape(-1), strict=True)):
        if not same_bits(np.asarray(x), np.asarray(y)):
            return f"element {i}: {x!r} against {y!r}"
    return "nowhere"

