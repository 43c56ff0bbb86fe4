"""Values that do what their data decide, gone through by these data (specs/verify.md, "legalize").

Where a value sorts places, or a kernel stores to them, no term says what comes of it. What a value has asked of its
data by then leaves few numbers for some of its whole numbers: an index lies within its axis. Kernel and value are then
compared with each of these in their place, and all else unknown. With any others the value traps, and so must the
kernel, by its assertions, before it stores anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.bits import Array
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.operator import Attrs, Operator
from assay.semantics.tensor import AllocateConst, Assert, For, If, LetStmt, PrimFunc, Seq, program_order, seq
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.operator_terms.array import TermRun
from assay.verify.operator_terms.exact import ExactTerms
from assay.verify.operator_terms.paths import facts_of_way, node

MOST_VALUES = 260
"""Contents of the operands that decide."""
Contents: TypeAlias = dict[int, Array]
"""By their numbers what some operands hold."""


class TooManyValues(UndecidedTrace):
    """The operands that decide may hold more than is gone through."""


def deciding_contents(run: TermRun, kernel: PrimFunc, first: Sequence[int]) -> Iterator[Contents]:
    """All that the operands of whole numbers may hold, each element of which the answers of a run bound. UndecidedTrace
    where there is no such operand."""
    ranges = _ranges(run)
    whole = {
        k: [ranges(start + e, b.dtype) for e in range(prod(map(int, b.shape)))]  # type: ignore[arg-type]
        for k, (b, start) in enumerate(zip(kernel.inputs, first, strict=True))
        if b.dtype.is_integer
    }
    bounded = {k: [r for r in found if r is not None] for k, found in whole.items() if None not in found}
    if not bounded:
        raise UndecidedTrace("what decides is not bounded")
    if prod(max(0, len(r)) for found in bounded.values() for r in found) > MOST_VALUES:
        raise TooManyValues(f"what decides has more than {MOST_VALUES} values")
    for values in product(*(product(*found) for found in bounded.values())):
        yield {
            k: np.array(v, kernel.inputs[k].dtype.numpy).reshape(kernel.inputs[k].shape)
            for k, v in zip(bounded, values, strict=True)
        }


def _ranges(run: TermRun) -> Callable[[int, DType], range | None]:
    """Which whole numbers a term may be, by the answers of a run; None where these do not bound it."""
    terms = run.terms
    least: dict[int, int] = {}
    most: dict[int, int] = {}
    for number, holds in facts_of_way(terms, run.asked).items():
        name, _, a, b = node(terms, number)
        if name not in ("lt", "le"):
            continue
        if not holds:  # a < b is not: b <= a
            name, a, b = "le" if name == "lt" else "lt", b, a
        strict = int(name == "lt")
        if b in terms.values and terms.values[b][0].is_integer:
            leaf = _itself(terms, a)
            most[leaf] = min(most.get(leaf, int(terms.values[b][1])), int(terms.values[b][1]) - strict)
        elif a in terms.values and terms.values[a][0].is_integer:
            leaf = _itself(terms, b)
            least[leaf] = max(least.get(leaf, int(terms.values[a][1])), int(terms.values[a][1]) + strict)

    def found(leaf: int, of: DType) -> range | None:
        if leaf not in least or leaf not in most:
            return None
        return range(max(least[leaf], int(of.min)), min(most[leaf], int(of.max)) + 1)

    return found


def _itself(terms: ExactTerms, number: int) -> int:
    """What was converted to a wider dtype, which changes no whole number."""
    name, of, a, _ = node(terms, number)
    source = DTYPES.get(name.removeprefix("cast ")) if name.startswith("cast ") else None
    if source is None or of is None or not (source.is_integer and of.is_integer):
        return number
    return a if source.min >= of.min and source.max <= of.max else number


def with_contents(kernel: PrimFunc, op: Operator, contents: Contents) -> tuple[PrimFunc, Operator]:
    """A kernel and its operator's value that hold some of their operands themselves."""
    body = kernel.body
    for k, held in contents.items():
        body = AllocateConst(kernel.inputs[k], held, body)
    left = [b for k, b in enumerate(kernel.inputs) if k not in contents]

    def value(attrs: Attrs, *given: Any) -> Any:
        rest = iter(given)
        return op.value(attrs, *(contents[k] if k in contents else next(rest) for k in range(len(kernel.inputs))))

    return replace(kernel, params=(*left, *kernel.outputs), body=body), replace(op, value=value)


def first_asserts(kernel: PrimFunc) -> PrimFunc:
    """What a kernel asserts before anything else, as a function without results."""
    body = kernel.body.body if isinstance(kernel.body, Seq) else (kernel.body,)
    plain = (Seq, For, If, LetStmt, Assert)
    count = next((k for k, s in enumerate(body) if not all(isinstance(n, plain) for n in program_order(s))), len(body))
    return PrimFunc(kernel.name, kernel.inputs, 0, seq(*body[:count]))
