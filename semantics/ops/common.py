"""Type rules that many operators share (specs/semantics.md, "Operators")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Dim, provably_equal, show
from assay.semantics.telling import Apart
from assay.semantics.types import TensorType


def broadcast_shapes(what: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The common shape under NumPy's rule; a dim that is not 1 must be shown equal to its partners."""
    rank = max(len(s) for s in shapes)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, d in enumerate(shape, start=rank - len(shape)):
            if isinstance(out[axis], int) and out[axis] == 1:
                out[axis] = d
            elif not (isinstance(d, int) and d == 1) and not provably_equal(out[axis], d):
                words = Apart(sizes=[s for some in shapes for s in some])
                raise Invalid(
                    f"{what}: shapes {' and '.join(map(words.shape, shapes))} do not broadcast:"
                    f" {words.size(out[axis])} against {words.size(d)} in axis {axis}{words.note}",
                    label="broadcast.C1",
                )
    return tuple(out)


def show_shapes(shapes: Sequence[tuple[Dim, ...]]) -> str:
    """Shapes as messages show them: "(n, 4) and (4, 8)"."""
    return " and ".join("(" + ", ".join(map(show, s)) + ")" for s in shapes)


def same_dtype(what: str, types: Sequence[TensorType]) -> DType:
    """The one dtype of all operands."""
    first = types[0].dtype
    if any(t.dtype is not first for t in types):
        names = ", ".join(str(t.dtype) for t in types)
        raise Invalid(f"{what}: operands of one dtype expected, got {names}", label="dtype.C2")
    return first


def require_kind(what: str, of: DType, kinds: Sequence[str]) -> None:
    """Invalid (dtype.C3) unless the dtype is of one of these kinds; `what` is the subject of the message."""
    if of.kind not in kinds:
        raise Invalid(f"{what} is not defined on {of}", label="dtype.C3")


def normalize_axis(what: str, axis: int, rank: int) -> int:
    """An axis counted from the front; Invalid outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise Invalid(f"{what}: axis {axis} out of range for rank {rank}", label="axis.C1")
    return axis % rank


def normalize_axes(what: str, axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, ascending; None stands for all; no axis twice."""
    if axes is None:
        return tuple(range(rank))
    out = sorted(normalize_axis(what, a, rank) for a in axes)
    if len(set(out)) != len(out):
        raise Invalid(f"{what}: axes {tuple(axes)} name one axis twice", label="axis.C2")
    return tuple(out)


def identity_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    """The type of the first operand."""
    return types[0]
