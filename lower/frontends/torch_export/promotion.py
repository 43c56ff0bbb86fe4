"""The dtype in which operands meet (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc. Tensors with axes go before
tensors without, these before numbers; what comes later counts only where it is of a higher kind: bool, whole numbers,
floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

from assay.semantics import scalar
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.types import TensorType

Operand: TypeAlias = Expr | scalar.Expr | bool | int | float
"""A tensor, a number, or a size that is no number."""


def _kind(of: DType) -> int:
    return 0 if of is BOOL else 2 if of.is_float else 1


def meeting_dtype(a: DType, b: DType) -> DType:
    """The dtype in which two meet, by PyTorch's table. Unsupported (`torch_export.C3`): they do not."""
    if a is b:
        return a
    if _kind(a) != _kind(b):
        return max((a, b), key=_kind)
    if a.is_float:
        if min(a.bits, b.bits) < 16:
            raise Unsupported(f"{a} and {b} do not meet in PyTorch", label="torch_export.C3")
        return FLOAT32 if a.bits == b.bits else max((a, b), key=lambda d: d.bits)
    if a.kind == b.kind:
        return max((a, b), key=lambda d: d.bits)
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if unsigned.bits > 8:
        raise Unsupported(f"{a} and {b} do not meet in PyTorch", label="torch_export.C3")
    return DTYPES["int16"] if signed.bits == 8 else signed


def promoted(xs: Sequence[Operand], type_of: Callable[[Expr], TensorType]) -> DType:
    """The dtype in which operands meet."""
    groups: list[list[DType]] = [[], [], []]
    for x in xs:
        if isinstance(x, Expr):
            of = type_of(x)
            groups[0 if of.ndim else 1].append(of.dtype)
        else:
            groups[2].append(BOOL if isinstance(x, bool) else FLOAT32 if isinstance(x, float) else INT64)
    found: DType | None = None
    for group in groups:
        if group:
            own = reduce(meeting_dtype, group)
            if found is None:
                found = own
            elif _kind(own) > _kind(found):
                found = meeting_dtype(found, own) if found is BOOL else own
    assert found is not None
    return found
