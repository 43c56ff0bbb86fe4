"""What types alone show of a value, so that no instruction has to look at it (specs/lower.md, "vm")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.semantics.scalar import Dim, Var as Symbol, provably_equal
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import Worklist


def surely(given: Type, want: Type, is_known: Callable[[Symbol], bool]) -> bool:
    """Whether each value of a type is one of another: a size of that one that is not known stands for any number, but
    for one only."""
    told: dict[Symbol, Dim] = {}
    work = Worklist[tuple[Type, Type]]([(given, want)])
    for x, y in work:
        match x, y:
            case TensorType(), TensorType():
                if x.dtype is not y.dtype or not _same(x.shape, y.shape, told, is_known):
                    return False
            case ShapeType(), ShapeType():
                if not _same(x.dims, y.dims, told, is_known):
                    return False
            case TupleType(), TupleType() if len(x.fields) == len(y.fields):
                work.add(zip(x.fields, y.fields, strict=True))
            case (TensorType() | ShapeType() | TupleType(), _) | (_, TensorType() | ShapeType() | TupleType()):
                return False
            case _:
                pass  # nobody looks into it: the static rules vouch for it
    return True


def _same(
    given: Sequence[Dim], want: Sequence[Dim], told: dict[Symbol, Dim], is_known: Callable[[Symbol], bool]
) -> bool:
    if len(given) != len(want):
        return False
    for d, e in zip(given, want, strict=True):
        if isinstance(e, Symbol) and not is_known(e):
            if not provably_equal(told.setdefault(e, d), d):
                return False
        elif not provably_equal(d, e):
            return False
    return True
