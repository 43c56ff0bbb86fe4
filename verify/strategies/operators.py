"""Valid uses of the operators, each from the operator's own definition (specs/verify.md, "Programs").

A use is made from a recipe (`assay.verify.strategies.recipes`), or, where there is none, from an example of the
operator's record with other element types and sizes. The operator's own type rule has the last word in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Invalid
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import operator
from assay.semantics.types import TensorType, Type
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.kinds import COMMON, SIZES, a_shape

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ValidUse:
    """An operator with operand types and attributes that it takes. `ranges` says for some operands, by place, the least
    element and the one after the last: elements outside may trap."""

    operator: Operator
    operands: tuple[TensorType, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[int, Range] = field(default_factory=dict)

    @property
    def result(self) -> Type:
        """The result's type; Invalid where the operator refuses the use."""
        self.operator.check_operands(len(self.operands))
        return self.operator.type_rule(self.operator.check_attrs(self.attrs), self.operands)

    @property
    def accepted(self) -> bool:
        """Whether the operator takes the operands and attributes."""
        try:
            return self.result is not None
        except Invalid:
            return False

    def __str__(self) -> str:
        attrs = [f"{k}={v!r}" for k, v in self.attrs.items()]
        return f"{self.operator.name}({', '.join([*map(str, self.operands), *attrs])})"


def from_example(
    op: Operator, example: Example, of: DType | None = None, sizes: Mapping[int, int] | None = None
) -> ValidUse:
    """An example as a use; `of` in place of the first operand's element type, and other sizes for some."""
    main = example.operands[0][1] if example.operands else ""
    new = sizes or {}
    operands = tuple(
        TensorType(tuple(new.get(d, d) for d in shape), of if of is not None and name == main else DTYPES[name])
        for shape, name in example.operands
    )
    return ValidUse(op, operands, example.attrs, example.ranges)


@cache
def dtypes_of(name: str) -> tuple[str, ...]:
    """The element types that an operator takes for its first operand, by its type rule on its examples; common ones
    first. Empty for an operator without operands."""
    op = operator(name)
    ordered = dict.fromkeys((*COMMON, *DTYPES))
    examples = [e for e in op.examples if e.operands]
    return tuple(n for n in ordered if any(from_example(op, e, DTYPES[n]).accepted for e in examples))


def varied(op: Operator, pick: Pick, dtypes: Sequence[str]) -> ValidUse:
    """An example of the operator with another element type and other sizes, as far as the operator takes them."""
    example = one_of(pick, op.examples)
    made = from_example(op, example)
    wanted = [n for n in dtypes if n in dtypes_of(op.name)] if example.operands else []
    of = DTYPES[one_of(pick, wanted)] if wanted else None
    if of is not None and (other := from_example(op, example, of)).accepted:
        made = other
    kept = of if made.operands and of is made.operands[0].dtype else None
    used = sorted({d for shape, _ in example.operands for d in shape if d > 1})
    new = (
        dict(zip(used, a_shape(pick, len(used), ones=False), strict=True))
        if used and len(used) <= len(SIZES) and pick(2)
        else {}
    )
    if new and not example.ranges and (other := from_example(op, example, kept, new)).accepted:
        made = other
    return made
