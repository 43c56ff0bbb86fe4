"""What a standard leaves open: one table, and how a result is judged by it (specs/semantics.md, "Left open").

An entry says under which condition which elements of a result are left open, what they may be, and where the standard
says so or is silent. Our own operators still give one value there; another that the entry allows is not wrong.

    for opening in openings(use):
        opening.where, opening.admits(got, {})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.semantics.bounding.core import Bounded
from assay.semantics.dtypes import dtype

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Fields = Mapping[int, Array]
"""What was given for the results of one call, by place."""


@dataclass(frozen=True)
class Quote:
    """Where it is left open: words that stand in the document, or none where that says nothing of the case."""

    document: str
    """Such as "ONNX Cast": the operator's text in the onnx package; or "C17 6.5.5"."""
    words: str = ""


@dataclass(frozen=True)
class OperatorUse:
    """One use of an operator: its name (ours, or that of an ONNX node where an entry says so), its attributes, its
    operands and the results that our definition gives, as arrays."""

    operator: str
    attrs: Mapping[str, Any]
    operands: Sequence[Array]
    results: Sequence[Array]
    inexact: Mapping[int, Bounded] = field(default_factory=dict)
    """Operands that are not known exactly, by place."""

    @property
    def is_float(self) -> bool:
        """Whether the first result is of a float dtype."""
        return dtype(self.results[0].dtype).is_float

    @property
    def has_nan(self) -> bool:
        """Whether some operand of a float operator is NaN somewhere."""
        return self.is_float and any(dtype(a.dtype).is_float and bool(np.isnan(a).any()) for a in self.operands)

    def rows_with_nan(self, axis: int) -> Flags:
        """Which rows along an axis, which stays, of the first operand have a NaN."""
        return np.asarray(np.isnan(self.operands[0]).any(axis=axis, keepdims=True))

    def ends(self, place: int) -> tuple[Array, Array]:
        """The least and the greatest number that each element of a float operand may be."""
        if place in self.inexact:
            return self.inexact[place].interval()
        known = self.operands[place].astype(np.float64)
        return known, known


@dataclass(frozen=True)
class Opening:
    """The elements of one result that are left open, and what they may be.

    `low` and `high` are the least and the greatest number that is allowed, None for anything of the dtype. `nan`: NaN
    is allowed too. `only` is asked beside these; it gets the result and, by place, what else the same call gave.
    """

    where: Flags
    low: Array | None = None
    high: Array | None = None
    nan: bool = False
    only: Callable[[Array, Fields], Flags] | None = None
    entry: Entry | None = None
    index: int = 0
    """Which result of the operator it is."""

    def admits(self, got: Array, others: Fields | None = None) -> Flags:
        """Which elements of another implementation's result are open, and are what is allowed there."""
        if self.low is None or self.high is None:
            inside = np.ones(got.shape, bool)
        else:
            with np.errstate(all="ignore"):
                inside = np.asarray((got >= self.low) & (got <= self.high))
            if self.nan and dtype(got.dtype).is_float:
                inside = inside | np.isnan(got)
        if self.only is not None:
            inside = inside & self.only(got, others or {})
        return np.asarray(self.where & inside)

    def reshaped(self, before: tuple[int, ...], after: tuple[int, ...]) -> Opening:
        """The same of the elements in another shape, of which no other result is asked."""
        only = self.only

        def shaped(x: Array) -> Array:
            return np.broadcast_to(x, before).reshape(after)

        def asked(got: Array, _: Fields) -> Flags:
            return np.ones(after, bool) if only is None else shaped(only(got.reshape(before), {}))

        low, high = (None if e is None else shaped(e) for e in (self.low, self.high))
        return replace(self, where=shaped(self.where), low=low, high=high, only=asked)

    def widened(self, allowed: Any) -> Any:
        """Intervals that hold what is allowed, or an array, made to hold what is left open too."""
        x = allowed if isinstance(allowed, Bounded) else Bounded.exact(allowed)
        low, high = x.interval()
        value, radius = x.value, x.radius
        if self.low is None or self.high is None or self.nan:
            return self._beside(
                x,
                Bounded(np.where(self.where, np.nan_to_num(value), value), np.where(self.where, np.inf, radius), x.of),
            )
        with np.errstate(all="ignore"):
            least = np.fmin(low, self.low.astype(np.float64))
            most = np.fmax(high, self.high.astype(np.float64))
            middle = least / 2 + most / 2
            half = np.maximum(most - middle, middle - least) * (1 + 2.0**-50)
        anything = ~np.isfinite(half)
        value = np.where(self.where, np.where(anything, 0.0, middle), value)
        return self._beside(x, Bounded(value, np.where(self.where, np.where(anything, np.inf, half), radius), x.of))

    def _beside(self, before: Bounded, after: Bounded) -> Bounded:
        """What is wider only here: of what stands beside it as much is known as before."""
        after.given = ~self.where & before.as_given
        after.narrow = before.narrow
        return after


@dataclass(frozen=True)
class Entry:
    """What a standard leaves open in some operators. `find` gives the elements of a use of one of them; None where no
    value is open, and the entry says what else may differ."""

    name: str
    operators: tuple[str, ...]
    """Ours; or ONNX operators, where the condition is about those as a whole."""
    condition: str
    allowed: str
    sources: tuple[Quote, ...]
    find: Callable[[OperatorUse], Iterator[Opening]] | None
    standard: tuple[str, ...] = ()
    """The ONNX operators that it is about, where they are called otherwise."""
    fails: bool = False
    """Whether a run may also be refused, or fail, under the condition."""

    @property
    def source(self) -> str:
        """Where it is left open, in short."""
        return self.source_of("")

    def source_of(self, text: str) -> str:
        """The same, of an operator that some text calls."""
        named = [s for s in self.sources if f"{s.document.removeprefix('ONNX ')}(" in text.replace("<", "(")]
        quoted = [
            s for s in self.sources if s.words and text
        ]  # rather than the silence of an operator that is not there
        first = (*named, *quoted, *self.sources)[0]
        return f"{first.document}: {first.words!r}" if first.words else f"{first.document} is silent"


def exactly_known(x: Any) -> Array:
    """An array; of intervals their centres, in the tensor's own dtype."""
    if not isinstance(x, Bounded):
        return np.asarray(x)
    with np.errstate(all="ignore"):
        return np.asarray(x.raw).astype(x.of.numpy)


def use(operator: str, attrs: Mapping[str, Any], operands: Sequence[Any], results: Any) -> OperatorUse:
    """A use of an operator on arrays or intervals; the result may be a tuple."""
    made = results if isinstance(results, tuple) else (results,)
    inexact = {i: a for i, a in enumerate(operands) if isinstance(a, Bounded) and not a.is_exact}
    known = [exactly_known(a) for a in operands]
    return OperatorUse(operator, attrs, known, [exactly_known(r) for r in made], inexact)


def openings(of: OperatorUse, entries: Mapping[str, Sequence[Entry]]) -> Iterator[Opening]:
    """What is left open in a use of an operator, by a table of entries by operator."""
    for entry in entries.get(of.operator, ()):
        if entry.find is None:
            continue
        with np.errstate(all="ignore"):
            for found in entry.find(of):
                if found.where.any():
                    yield replace(found, entry=entry)
