"""Whether a kernel is its operator for every input, by all inputs (specs/verify.md, "legalize").

What is small and of small types has few inputs: four truths have 16. Where terms show nothing, as where the order of
data decides, kernel and value are run on each of them. That is a proof, at these sizes and types, and asks for nothing
but the evaluators.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.interp import vector
from assay.semantics.errors import Crash, Trap
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.tensor import PrimFunc
from assay.verify.equivalence import BIT_EXACT, UNKNOWN
from assay.verify.operator_terms import KernelProof
from assay.verify.trials.batch import batched
from assay.verify.trials.data import every
from assay.verify.trials.kernels import compare

Array: TypeAlias = np.ndarray[Any, Any]

MOST_INPUTS = 1 << 12
"""Inputs that are gone through."""
WIDEST = 8
"""Bits of a number at most."""

SMALL_USES: dict[str, tuple[Example, ...]] = {
    "topk": (
        Example((((3,), "int4"),), {"k": 2}),
        Example((((1,), "float8_e4m3fn"),), {"k": 1}),
    ),
    "det": (Example((((1, 1), "float8_e4m3fn"),)), Example((((3, 1, 1), "float4_e2m1fn"),))),
    "suppress": (
        Example((((1, 1, 2), "int2"), ((1, 1, 2), "bool"), ((1, 2, 2), "bool"), ((1,), "uint2"))),
        Example((((1, 1, 1), "float8_e4m3fn"), ((1, 1, 1), "bool"), ((1, 1, 1), "bool"), ((1,), "uint2"))),
        Example((((1, 2, 1), "int2"), ((1, 2, 1), "bool"), ((1, 1, 1), "bool"), ((1,), "int4"))),
    ),
    "nonzero": (Example((((1, 1), "float8_e4m3fn"),)), Example((((2, 3), "bool"),))),
    "unique": (Example((((3, 1), "float4_e2m1fn"),)), Example((((2, 2), "bool"),), {"sorted": False})),
}
"""Uses of operators, beside their examples, that have few inputs: of those whose data decide by their order."""


def uses_of(op: Operator) -> tuple[Example, ...]:
    """The examples of an operator, and small uses of it."""
    return (*op.examples, *SMALL_USES.get(op.name, ()))


def count_inputs(kernel: PrimFunc) -> int | None:
    """How many inputs a kernel has; None where these are too many to go through, or it takes scalars."""
    sizes = [prod(b.static_shape) for b in kernel.inputs]
    if kernel.scalars or any(n and b.dtype.bits > WIDEST for n, b in zip(sizes, kernel.inputs, strict=True)):
        return None
    bits = sum(n * (1 if b.dtype.kind == "bool" else b.dtype.bits) for n, b in zip(sizes, kernel.inputs, strict=True))
    return 1 << bits if 1 << bits <= MOST_INPUTS else None


def prove_by_all_inputs(kernel: PrimFunc, op: Operator, attrs: Attrs) -> KernelProof:
    """Whether a kernel gives the operator's value, bit for bit, on each of its inputs, and traps where that does."""
    count = count_inputs(kernel)
    if count is None:
        return KernelProof(UNKNOWN, f"its inputs are more than the {MOST_INPUTS} that are gone through")
    operands = all_inputs(kernel, count)
    got = _kernel_results(kernel, operands, count)
    for row in range(count):
        with np.errstate(all="ignore"):
            try:
                made = op.value(attrs, *(x[row] for x in operands))
            except Trap as trap:
                made = trap
        wanted = made if isinstance(made, Trap | tuple) else (made,)
        wanted = tuple(map(np.asarray, wanted)) if isinstance(wanted, tuple) else wanted
        if wrong := compare(wanted, got(row)):
            return KernelProof(UNKNOWN, f"of its inputs, number {row}: {wrong}")
    return KernelProof(BIT_EXACT, f"all {count} inputs were run")


def all_inputs(kernel: PrimFunc, count: int) -> list[Array]:
    """Every combination of numbers of the kernel's inputs: for each input of the kernel a row for each."""
    rows = np.arange(count)
    found = []
    for b in kernel.inputs:
        numbers = every(b.dtype) if prod(b.static_shape) else np.zeros(1, b.dtype.numpy)
        columns = []
        for _ in range(prod(b.static_shape)):
            columns.append(numbers[rows % len(numbers)])
            rows = rows // len(numbers)
        shape = (count, *b.static_shape)
        found.append(np.stack(columns, axis=1).reshape(shape) if columns else np.zeros(shape, b.dtype.numpy))
    if rows.any():
        raise Crash("not every combination is there")
    return found


def _kernel_results(kernel: PrimFunc, operands: Sequence[Array], count: int) -> Any:
    """What gives the kernel's results on one input, or its trap; all are computed at once where none traps."""
    wide = batched(kernel, count)
    with np.errstate(all="ignore"):
        try:
            made = vector.run(wide, operands) if wide is not None else None
        except Trap:
            made = None

    def alone(row: int) -> Any:
        with np.errstate(all="ignore"):
            try:
                return vector.run(kernel, [x[row] for x in operands])
            except Trap as trap:
                return trap

    return alone if made is None else lambda row: [x[row] for x in made]
