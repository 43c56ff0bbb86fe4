"""The numbers themselves as the domain of the evaluator of traces: its results must be the definition's bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.interp.binding import bind_dims, bind_scalars
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.scalar import convert, operation
from assay.semantics.tensor import PrimFunc
from assay.verify.equivalence.evaluate import evaluate_trace, link
from assay.verify.equivalence.events import TraceRead
from assay.verify.equivalence.symbols import Symbols
from assay.verify.equivalence.trace import trace_of

Array = np.ndarray[Any, Any]


def words(values: Any, of: DType) -> Any:
    """The bits of numbers, as int64."""
    values = np.asarray(values, of.numpy)
    return values.view(f"i{values.dtype.itemsize}").astype(np.int64)[()]


def numbers(found: Any, of: DType) -> Any:
    size = of.numpy.itemsize
    return np.asarray(found, np.int64).astype(f"i{size}").view(of.numpy)[()]


class Numbers(Symbols):
    """Words are the bits of numbers. Both ways of a condition are computed, so that what traps must not stand under
    one."""

    unwritten = 0
    always = 1

    def __init__(self, inputs: Sequence[Array], scalars: Sequence[Any], dtypes: Sequence[DType]) -> None:
        self.inputs = [np.asarray(x) for x in inputs]
        self.scalars, self.dtypes = scalars, dtypes

    def element(self, input: int, places: Any) -> Any:
        x = self.inputs[input].reshape(-1)[places]
        return words(x, self.dtypes[input])

    def scalar(self, number: int) -> Any:
        return words(self.scalars[number], self.dtypes[len(self.inputs) + number])

    def constant(self, value: Any, of: DType) -> Any:
        return words(value, of)

    def apply(self, op: str, of: DType, to: DType, args: Sequence[Any], guards: Any) -> Any:
        kinds = [BOOL, of, of] if op == "select" else [of] * len(args)
        values = [numbers(a, k) for a, k in zip(args, kinds, strict=True)]
        return words(np.asarray(operation(op).meaning(*values)).astype(to.numpy), to)

    def cast(self, of: DType, to: DType, arg: Any, guards: Any) -> Any:
        return words(convert(numbers(arg, of), to), to)

    def gather(self, read: TraceRead, of: DType, indices: Sequence[Any], guards: Any) -> Any:
        data = self.inputs[read.number] if read.number >= 0 else read.data
        assert data is not None
        at = np.broadcast_arrays(*(numbers(i, e.dtype) for i, e in zip(indices, read.indices, strict=True)))
        inside = np.logical_and.reduce([(i >= 0) & (i < n) for i, n in zip(at, data.shape, strict=True)])
        assert np.all(inside), "an index under no condition is in bounds"
        return words(data[tuple(at)], of)

    def memory(self, found: Any, guards: Any) -> Any:
        return found

    def guard(self, before: Any, condition: Any, holds: bool) -> Any:
        return before & (condition if holds else 1 - condition)

    def stored(self, guards: Any, value: Any, old: Any, of: DType) -> Any:
        return np.where(guards == 1, value, old)

    def asserted(self, condition: Any, guards: Any) -> None:
        assert np.all((np.asarray(condition) == 1) | (np.asarray(guards) == 0))


def run(func: PrimFunc, inputs: Sequence[Array], scalars: Sequence[Any] = ()) -> tuple[Array, ...]:
    """The outputs of `func`, as `assay.interp.tensor.run` gives them, by the trace."""
    dims = {v: v.dtype.numpy.type(n) for v, n in bind_dims(func, inputs, scalars).items() if v not in func.scalars}
    values = list(bind_scalars(func, scalars).values())
    found = trace_of(func, dims)
    dtypes = [*(b.dtype for b in func.inputs), *(v.dtype for v in func.scalars)]
    with np.errstate(all="ignore"):
        outputs = evaluate_trace(found, link(found), Numbers(inputs, values, dtypes))
    return tuple(
        np.asarray(numbers(w, b.dtype)).reshape(c.shape)
        for w, b, c in zip(outputs, func.outputs, found.outputs, strict=True)
    )
