"""Planned programs made by hand for tests: kernels in a row and choices between rows, each slot at bytes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assay.interp.tensor import run
from assay.semantics.dtypes import INT64, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.module import Branch, Module, Program, Slot, Step
from assay.semantics.scalar import Expr, apply
from assay.semantics.tensor import Buffer, PrimFunc, loops, store, when
from assay.semantics.tensor.phases import phases
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
ALIGN = 64


@dataclass(frozen=True)
class Choose:
    """The rows between which a slot chooses."""

    condition: str
    then: Sequence[Row | Choose]
    otherwise: Sequence[Row | Choose] = ()


Row: TypeAlias = tuple[PrimFunc, Sequence[str], Sequence[str]]
"""A kernel, the slots that it reads, and those that it writes."""


def flattened(rows: Sequence[Row | Choose]) -> list[Row | Branch]:
    """Choices as branches."""
    found: list[Row | Branch] = []
    work: list[Row | Choose | tuple[str, int]] = list(reversed(rows))
    open_: list[tuple[int, str, int]] = []
    while work:
        item = work.pop()
        if isinstance(item, Choose):
            open_.append((len(found), item.condition, 0))
            found.append(Branch(item.condition, 0, 0))
            work += [("end", 0), *reversed(item.otherwise), ("else", 0), *reversed(item.then)]
        elif item[0] == "else":
            open_[-1] = (*open_[-1][:2], len(found))
        elif item[0] == "end":
            at, condition, then = open_.pop()
            found[at] = Branch(condition, then, len(found))
        else:
            found.append(item)  # type: ignore[arg-type]
    return found


def planned(
    rows: Sequence[Row | Choose],
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    *,
    phased: bool = False,
) -> Module:
    """A program of rows and choices; what is no input, output or constant lies in the workspace. All slots live from
    where they are first used to the end. With `phased` steps take the phases of their kernels."""
    slots: dict[str, Slot] = {}
    made: list[Step | Branch] = []
    end = 0
    steps = flattened(rows)
    counts = [phases(s[0]).count if phased and isinstance(s, tuple) else 1 for s in steps]
    last = sum(counts)
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

    kernels = {s[0].name: s[0] for s in steps if isinstance(s, tuple)}
    for i, step in enumerate(steps):
        if isinstance(step, Branch):
            made.append(step)
            continue
        kernel, reads, writes = step
        at = sum(counts[:i])
        for buffer, name in zip(kernel.outputs, writes, strict=True):
            if name in outputs and name not in slots:
                slots[name] = Slot(name, TensorType(buffer.static_shape, buffer.dtype), "output", ((at, last),), ALIGN)
            elif name not in slots:
                workspace(name, buffer, at)
        scratch = tuple(f"{i}.{k}.{b.name}" for k, b in enumerate(kernel.allocations))
        for name, buffer in zip(scratch, kernel.allocations, strict=True):
            workspace(name, buffer, at)
        made.append(Step(kernel.name, tuple(reads), tuple(writes), scratch, phases=counts[i]))
    program = Program(slots, tuple(made), tuple(inputs), tuple(outputs), sizes={"workspace": end})
    return Module({"main": program, **kernels}, dict(constants or {}))


def moved(module: Module, sizes: Mapping[str, int] | None = None, **changes: Mapping[str, Any]) -> Module:
    """The module with fields of slots changed, by name, and the sizes of pools."""
    program = module.program
    slots = {n: replace(s, **changes.get(n, {})) for n, s in program.slots.items()}
    assert changes.keys() <= slots.keys()
    return module.with_(main=replace(program, slots=slots, sizes=program.sizes if sizes is None else sizes))


def apart(program: Program) -> Program:
    """Every slot of the workspace at bytes of its own, live all the time."""
    at = 0
    slots: dict[str, Slot] = {}
    last = program.positions[-1]
    for n, s in program.slots.items():
        slots[n] = replace(s, live=((0, last),), offset=at if s.place == "workspace" else s.offset)
        at += -(-s.nbytes // s.alignment) * s.alignment if s.place == "workspace" else 0
    return replace(program, slots=slots, sizes={program.pools[0].name: at})


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
    """Kernels of which the input `which` chooses the one that runs; kernel i has the slots `k{i}_...` for its
    buffers."""
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
