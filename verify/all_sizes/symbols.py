"""The examples of an operator with symbols in the place of their sizes (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from assay.lower.legalize.kernels import build
from assay.lower.legalize.size_rules import with_size_rules
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.scalar import Dim, Var
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type


@dataclass(frozen=True)
class SymbolicUse:
    """An operator at types with symbols: the operands' types, and the result's."""

    op: Operator
    attrs: Attrs
    operands: tuple[TensorType, ...]
    result: Type
    sizes: Mapping[int, Var]
    """By the number that stood in the example, the symbol."""

    def kernel(self) -> PrimFunc:
        """The operator's kernel at these types."""
        made = build(self.op.name, self.attrs, self.operands, self.result, "kernel")
        return with_size_rules(made, self.op, self.attrs, self.operands, self.result)


def symbolic_use(op: Operator, example: Example) -> SymbolicUse:
    """An example with as many of its sizes symbols as the operator's rules allow. Sizes of 0 and 1 stay, and dims that
    were one number are one symbol."""
    numbers = list(dict.fromkeys(d for shape, _ in example.operands for d in shape if d > 1))
    known: dict[int, Var] = {}
    for k, n in enumerate(numbers):
        trial = {**known, n: Var(ascii_lowercase[(13 + k) % 26])}
        if _typed(op, example, trial) is not None:
            known = trial
    found = _typed(op, example, known)
    if found is None:
        raise Crash(f"{op.name} refuses its own example {example}")
    return found


def _typed(op: Operator, example: Example, sizes: Mapping[int, Var]) -> SymbolicUse | None:
    attrs = op.check_attrs(example.attrs)
    operands = tuple(TensorType(_shape(shape, sizes), dtype(name)) for shape, name in example.operands)
    try:
        use = SymbolicUse(op, attrs, operands, op.type_rule(attrs, operands), sizes)
        use.kernel()
    except (Invalid, Crash, TypeError, AssertionError):
        return None
    return use


def _shape(shape: Sequence[int], sizes: Mapping[int, Any]) -> tuple[Dim, ...]:
    return tuple(sizes.get(d, d) for d in shape)
