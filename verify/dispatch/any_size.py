"""Whether the kernel of an operator works for any size, found out by making it (specs/verify.md, "Kernels for unknown
sizes").

Nothing here is declared: the dims of each example of the operator are made unknown, all of them at once or one after
the other, and the kernel is built over symbols. Where that works, padding along each is asked about too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.lower.c.single import symbols_of_kernel
from assay.lower.legalize import legalize
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError
from assay.semantics.graph import CallTIR, call, function, var
from assay.semantics.module import Module
from assay.semantics.operator import Example, Operator
from assay.semantics.scalar import Var
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, symbols
from assay.semantics.walk import post_order
from assay.verify.dispatch.neutral import why_not_neutral


@dataclass(frozen=True)
class SizesOfOperator:
    """What became of one example: the operands' types with the dims that may be unknown, and the kernel for all of them
    together. `fixed` are dims that have to be numbers, by operand and axis, and why."""

    types: tuple[TensorType, ...] = ()
    kernel: PrimFunc | None = None
    fixed: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`any`, if all dims may be unknown; `some` or `none` of them."""
        if not self.fixed:
            return "any"
        dims = sum(len(t.shape) for t in self.types)
        return "some" if len(self.fixed) < dims else "none"

    def padding(self) -> Iterator[tuple[str, str]]:
        """Each unknown dim, and why padding along it is not neutral; "" where it is."""
        if self.kernel is None:
            return
        for v in symbols_of_kernel(self.kernel):
            yield v.name, why_not_neutral(self.kernel, {v})


def sizes_of_operator(op: Operator) -> SizesOfOperator | None:
    """The best of its examples: the one with fewest dims that have to be numbers, then with most unknown ones that
    differ. None: its result is a view, which has no kernel, or it takes no operand."""
    found = [_example(op, e) for e in op.examples if e.operands and not op.view]
    return min(found, key=lambda f: (len(f.fixed), -len({v for t in f.types for v in symbols(t)})), default=None)


def _example(op: Operator, example: Example) -> SizesOfOperator:
    """An example with as many unknown dims as may be. Equal numbers in it are one dim."""
    numbers = dict.fromkeys(d for shape, _ in example.operands for d in shape)
    unknown = {d: Var(f"d{i}") for i, d in enumerate(numbers)}
    every = _kernel(op, example, unknown)
    if not isinstance(every, str):
        return SizesOfOperator(_types(example, unknown), every)
    taken: dict[int, Var] = {}
    kept: dict[int, str] = {}
    kernel: PrimFunc | None = None
    for d in numbers:
        made = _kernel(op, example, {**taken, d: unknown[d]})
        if isinstance(made, str):
            kept[d] = made
        else:
            taken[d], kernel = unknown[d], made
    fixed = {(i, a): kept[d] for i, (shape, _) in enumerate(example.operands) for a, d in enumerate(shape) if d in kept}
    return SizesOfOperator(_types(example, taken), kernel, fixed)


def _types(example: Example, unknown: Mapping[int, Var]) -> tuple[TensorType, ...]:
    return tuple(TensorType(tuple(unknown.get(d, d) for d in shape), dtype(of)) for shape, of in example.operands)


def _kernel(op: Operator, example: Example, unknown: Mapping[int, Var]) -> PrimFunc | str:
    """The kernel at these symbols, with attributes as they stand, or where they name sizes in these symbols; or why
    there is none."""
    params = [var(f"x{i}", t) for i, t in enumerate(_types(example, unknown))]
    why = ""
    for attrs in (example.attrs, {k: _renamed(v, unknown) for k, v in example.attrs.items()}):
        try:
            module = legalize(Module({"main": function(params, call(op, *params, **attrs))}))
        except AssayError as wrong:
            why = why or wrong.message
            continue
        calls = [n for n in post_order(module.main.body) if isinstance(n, CallTIR)]
        if len(calls) == 1:
            return module.kernel(calls[0].func)
        return f"it is {len(calls)} kernels"
    return why


def _renamed(value: Any, unknown: Mapping[int, Var]) -> Any:
    """An attribute whose tuples have the symbols of sizes for their numbers."""
    if isinstance(value, tuple):
        return tuple(unknown.get(v, v) if type(v) is int else v for v in value)
    return value
