"""What the oracle says (specs/verify.md, "Verdict")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import DType, dtype

Array = np.ndarray[Any, Any]
Answer = Literal["right", "open", "wrong", "undecided", "unpredictable"]


T = TypeVar("T")


def compared_by_outcome(of: type[T]) -> type[T]:
    """A class of verdicts of which one that is compared with a text says how that is meant, as it would be equal to
    none. TypeError."""
    same = of.__eq__

    def equal(self: T, other: object) -> bool:
        if isinstance(other, str):
            raise TypeError(f"a verdict is no text: compare .outcome == {other!r}")
        return same(self, other)

    type.__setattr__(of, "__eq__", equal)
    return of


@dataclass(frozen=True)
class Worst:
    """The element that is furthest outside: what it is, and the least and most that a correct implementation gives.

    `excess` is how far outside it is, in units in the last place of its dtype at that end; whole numbers count in ones.
    It is inf for what no distance tells: NaN, an infinity, the sign of a zero; and 0 for what is no number of the float
    `narrow`, from which the tensor was cast.
    """

    tensor: str
    index: tuple[int, ...]
    got: Any
    least: Any
    most: Any
    excess: float
    narrow: str = ""

    def __str__(self) -> str:
        allowed = f"[{self.least!r}, {self.most!r}]"
        if repr(self.least) == repr(self.most):
            allowed = repr(self.least)
        far = f", {self.excess:.3g} ulp outside" if np.isfinite(self.excess) else ""
        if self.narrow:
            allowed, far = f"a number of {self.narrow} in {allowed}, from which it was cast", ""
        return f"{self.tensor} element {self.index} is {self.got!r}, allowed is {allowed}{far}"


@compared_by_outcome
@dataclass(frozen=True)
class Verdict:
    """The oracle's answer on one run.

    - right: everything that was given is what a correct implementation may give.
    - open: so, but for elements that a standard leaves open; the entry of `assay.semantics.left_open` is named.
    - wrong: `worst` is not, and no choice that implementations have can make it so.
    - undecided: nothing is wrong, but for some elements the intervals leave a decision open, or say nothing.
    - unpredictable: the comparison is waived, for the reason in `detail`: what is right here cannot be told.

    `layer` is the rule that decided (see `assay.verify.oracle.layers`). `culprit` is the first operator, with its
    tensor, whose result is wrong on the very operands that the backend gave it; `judged` is how many tensors were
    judged so. `unseen` is what the runs of a backend on other inputs in between could not show, "" where that is
    nothing.
    """

    outcome: Answer
    layer: str
    detail: str
    worst: Worst | None = None
    culprit: str | None = None
    judged: int = 0
    unseen: str = ""

    def __str__(self) -> str:
        parts = [f"{self.outcome} ({self.layer}): {self.detail}" if self.layer else f"{self.outcome}: {self.detail}"]
        if self.culprit:
            parts.append(f"the first operator that is wrong is {self.culprit}")
        return "; ".join(parts)


def ulp(x: Array | float, of: DType) -> Any:
    """The distance to the next number of a dtype at each `x`, in magnitude: 1 for what is no float, and where `x` is
    not finite."""
    size = np.abs(np.asarray(x, np.float64))
    if not of.is_float:
        return np.ones(size.shape)
    exponent = np.frexp(np.maximum(size, of.smallest_normal))[1] - 1
    return np.where(np.isfinite(size), np.ldexp(2 * of.unit_roundoff, exponent), 1.0)


def element_number(x: Any, of: DType) -> Any:
    """An element as a Python number, for messages."""
    return float(x) if of.is_float else bool(x) if of.kind == "bool" else int(x)


def fits(tensor: str, allowed: Any, got: Array) -> str | None:
    """What is wrong with shape or dtype, if anything."""
    if got.dtype == object and isinstance(got[()], list):
        return f"{tensor} is a list of {len(got[()])} instead of Tensor({tuple(allowed.shape)}, {allowed.dtype})"
    if tuple(allowed.shape) != got.shape or allowed.dtype != got.dtype:
        return (
            f"{tensor} is Tensor({got.shape}, {got.dtype}) instead of Tensor({tuple(allowed.shape)}, {allowed.dtype})"
        )
    return None


def differing(want: Array, got: Array, signs: bool = False) -> Array:
    """Where two arrays of one dtype differ: any NaN is as good as another; the sign of a zero counts if asked."""
    different = np.asarray(want != got)
    if dtype(want.dtype).is_float:
        different &= ~(np.isnan(want) & np.isnan(got))
        if signs:
            different |= (want == 0) & (got == 0) & (np.signbit(want) != np.signbit(got))
    return different


def worst_exact(tensor: str, want: Array, got: Array, signs: bool = False) -> Worst | None:
    """The element that differs most from the one right array, if one does."""
    bad = differing(want, got, signs)
    if not bad.any():
        return None
    of = dtype(want.dtype)
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
    distance = np.where(bad, np.where(np.isfinite(distance), distance, np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), got.shape))
    w, g = element_number(want[at], of), element_number(got[at], of)
    far = float(distance[at]) / float(ulp(w, of)) if distance[at] > 0 and np.isfinite(distance[at]) else float("inf")
    return Worst(tensor, at, g, w, w, far)


def worst_outside(tensor: str, allowed: Bounded, got: Array) -> Worst | None:
    """The element that is furthest outside its interval, if one is."""
    inside = contains(allowed, got)
    if bool(np.all(inside)):
        return None
    low, high = allowed.interval()
    of = allowed.of
    with np.errstate(all="ignore"):
        g = got.astype(np.float64)
        distance = np.where(inside, -1.0, np.maximum(low - g, g - high))
        distance = np.where(
            ~inside & (low <= g) & (g <= high), 0.0, distance
        )  # a number that the narrower float has not
    distance = np.where(np.isnan(distance), np.inf, distance)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), got.shape))
    least, most = element_number(low[at], of), element_number(high[at], of)
    if distance[at] == 0 and allowed.narrow is not None:
        return Worst(tensor, at, element_number(got[at], of), least, most, 0.0, str(allowed.narrow))
    end = least if float(g[at]) < least else most
    far = float(distance[at]) / float(ulp(end, of)) if np.isfinite(distance[at]) else float("inf")
    return Worst(tensor, at, element_number(got[at], of), least, most, far)
